//! Each rule finds its illness, in facts that are healthy but for that, and in nothing else. Stores
//! that have the illnesses are in `tests/cli/doctor.rs`.

use super::facts::Facts;
use super::rules::{RULES, examine};
use serde_json::{Value, json};

/// The facts of a store that works well.
fn healthy() -> Facts {
    Facts {
        stats: json!({
            "read_only_because": null, "low_on_space": null, "background_error": null,
            "writes_refused_for_space": 0, "cache_hits": 95_000, "cache_misses": 5_000,
            "cache_bytes": 60 << 20, "cache_capacity_bytes": 64 << 20, "table_evictions": 3,
            "index_and_filter_capacity_bytes": 256 << 20, "update_table_capacity_bytes": 0,
            "update_table_lookups": 0, "short_cut_reads": 0, "superseded_entries_dropped": 0,
            "replay_bytes": 100 << 20,
            "stalls": { "space_ceiling": { "count": 3, "seconds": 0.5 } },
            "keyspaces": [{
                "name": "words", "table_entries": 1_000_000, "tombstones": 9_000,
                "levels": [{ "tables": 4, "bytes": 16 << 20 }, { "tables": 20, "bytes": 80 << 20 }],
            }],
        }),
        space: json!({
            "allocated": 1u64 << 30, "ceiling_bytes": 2u64 << 30, "warnings": [],
            "holders": [{ "kind": "cursor", "keyspace": "words", "age_seconds": 4.0,
                          "version_bytes": 5000, "file_bytes": 0 }],
            "keyspaces": [
                { "name": "words", "stale_table_bytes": 5 << 20, "table_bytes": 96 << 20 },
            ],
            "segments": [{ "live_records": 100_000, "live_bytes": 400_000_000u64 }],
        }),
        settings: json!({
            "database": { "gc.automatic": "true", "max_replay_bytes": "536870912" },
            "keyspaces": { "words": { "level0_trigger": "4", "separation_threshold": "1024" } },
        }),
        jobs: json!({ "uptime_seconds": 1000.0, "gc_paused": false }),
        events: json!([]),
    }
}

/// Returns the rules that find something once `change` has made the facts ill.
fn found(change: impl FnOnce(&mut Facts)) -> Vec<&'static str> {
    let mut facts = healthy();
    change(&mut facts);
    examine(&facts).iter().map(|symptom| symptom.rule).collect()
}

fn stats(changes: Value) -> Vec<&'static str> {
    found(|facts| {
        for (name, value) in changes.as_object().unwrap() {
            facts.stats[name] = value.clone();
        }
    })
}

#[test]
fn nothing_is_found_in_what_is_healthy_or_unknown() {
    assert_eq!(found(|_| {}), [""; 0]);
    assert_eq!(examine(&Facts::default()), []);
    assert_eq!(RULES.len(), 15, "each rule has its case below");
}

#[test]
fn what_refuses_writes_is_found() {
    assert_eq!(stats(json!({ "read_only_because": "a sync failed" })), ["read_only"]);
    assert_eq!(stats(json!({ "low_on_space": "4 MiB are free" })), ["refused_puts"]);
    assert_eq!(stats(json!({ "writes_refused_for_space": 7 })), ["refused_puts"]);
    assert_eq!(stats(json!({ "background_error": "cannot write" })), ["failing_work"]);
    let of_two = stats(json!({ "writes_refused_for_space": 7, "background_error": "x" }));
    assert_eq!(of_two, ["failing_work", "refused_puts"], "the urgent one is first");
}

#[test]
fn stalls_are_found_by_their_rule() {
    let tree = ["memtables_full", "level0_slow", "level0_full", "replay_full"];
    for rule in tree.into_iter().chain(["log_sync", "space_ceiling"]) {
        let stalls = json!({ "stalls": { rule: { "count": 900, "seconds": 60.0 } } });
        assert_eq!(stats(stalls.clone()), ["write_stalls"], "{rule}");
        let mut facts = healthy();
        facts.stats["stalls"] = stalls["stalls"].clone();
        assert!(
            !examine(&facts)[0].advice.contains("see docs/tuning.md") || rule == "space_ceiling"
        );
        assert!(examine(&facts)[0].what.contains(&format!("{rule} has held writers up for 6 %")));
    }
}

#[test]
fn a_tree_that_is_out_of_shape_is_found() {
    let level0 = |facts: &mut Facts| facts.stats["keyspaces"][0]["levels"][0]["tables"] = 9.into();
    assert_eq!(found(level0), ["crowded_level0"]);
    let deleted = |facts: &mut Facts| facts.stats["keyspaces"][0]["tombstones"] = 300_000.into();
    assert_eq!(found(deleted), ["dead_keys"]);
    let stale =
        |facts: &mut Facts| facts.space["keyspaces"][0]["stale_table_bytes"] = (60 << 20).into();
    assert_eq!(found(stale), ["dead_keys"]);
}

#[test]
fn memory_that_does_not_fit_the_load_is_found() {
    let misses = json!({ "cache_misses": 50_000, "cache_bytes": 63 << 20 });
    assert_eq!(stats(misses.clone()), ["small_cache"]);
    let fits = found(|facts| {
        facts.stats["cache_misses"] = 50_000.into();
        facts.stats["keyspaces"][0]["levels"] = json!([{ "tables": 1, "bytes": 100 }]);
    });
    assert_eq!(fits, [""; 0], "a cache that holds the tree is only cold");
    assert_eq!(stats(json!({ "table_evictions": 5_000 })), ["evicted_indexes"]);
    let table = json!({ "update_table_capacity_bytes": 64 << 20, "update_table_lookups": 50_000 });
    assert_eq!(stats(table), ["idle_update_table"]);
    let useful = json!({ "update_table_capacity_bytes": 64 << 20, "update_table_lookups": 50_000,
                         "short_cut_reads": 9_000 });
    assert_eq!(stats(useful), [""; 0]);
}

#[test]
fn space_that_does_not_come_back_is_found() {
    let pinned = |facts: &mut Facts| {
        facts.space["holders"][0]["version_bytes"] = (200u64 << 20).into();
    };
    assert_eq!(found(pinned), ["pinned_space"]);
    let old = |facts: &mut Facts| facts.space["holders"][0]["age_seconds"] = 7200.into();
    assert_eq!(found(old), ["old_holders"]);
    let above = |facts: &mut Facts| facts.space["allocated"] = (3u64 << 30).into();
    assert_eq!(found(above), ["space_above_bound"]);
    let paused = |facts: &mut Facts| {
        above(facts);
        facts.jobs["gc_paused"] = true.into();
    };
    assert_eq!(found(paused), ["space_above_bound", "paused_gc"]);
    assert_eq!(found(|facts| facts.jobs["gc_paused"] = true.into()), ["paused_gc"]);
    let off = |facts: &mut Facts| facts.settings["database"]["gc.automatic"] = "false".into();
    assert_eq!(found(off), ["paused_gc"]);
}

#[test]
fn settings_that_do_not_fit_are_found() {
    let tiny = |facts: &mut Facts| facts.space["segments"][0]["live_bytes"] = 9_000_000.into();
    assert_eq!(found(tiny), ["tiny_separated_values"]);
    let replay = |facts: &mut Facts| {
        facts.settings["database"]["max_replay_bytes"] = (8u64 << 30).to_string().into();
    };
    assert_eq!(found(replay), ["long_replay"]);
}

//! The rules of `cleave doctor`: each looks at the facts and says what is unusual, why that
//! matters, and which setting or action helps. Thresholds are where somebody who knows the engine
//! would begin to ask; each constant says why.

use super::facts::{Facts, number};
use crate::text::{human_bytes, human_count};
use serde_json::{Value, json};

/// How urgent a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// The database refuses something, or will.
    Act,
    /// It works, and could do better.
    Look,
}

/// Something unusual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Symptom {
    /// The name of the rule.
    pub(crate) rule: &'static str,
    pub(crate) urgency: Urgency,
    /// What is unusual, as a sentence.
    pub(crate) what: String,
    /// Why that matters, as a sentence.
    pub(crate) why: &'static str,
    /// What helps.
    pub(crate) advice: String,
}

impl Symptom {
    fn new(rule: &'static str, urgency: Urgency, what: String) -> Symptom {
        Symptom { rule, urgency, what, why: "", advice: String::new() }
    }

    fn because(self, why: &'static str) -> Symptom {
        Symptom { why, ..self }
    }

    fn try_this(self, advice: impl Into<String>) -> Symptom {
        Symptom { advice: advice.into(), ..self }
    }

    /// Returns the finding as `docs/json.md` describes it.
    pub(crate) fn to_json(&self) -> Value {
        let urgency = if self.urgency == Urgency::Act { "act" } else { "look" };
        json!({
            "rule": self.rule,
            "urgency": urgency,
            "what": self.what,
            "why": self.why,
            "advice": self.advice,
        })
    }
}

type DoctorRule = fn(&Facts) -> Vec<Symptom>;

/// All rules.
pub(crate) const RULES: [DoctorRule; 15] = [
    read_only,
    refused_puts,
    failing_work,
    paused_gc,
    crowded_level0,
    write_stalls,
    small_cache,
    evicted_indexes,
    pinned_space,
    old_holders,
    space_above_bound,
    dead_keys,
    tiny_separated_values,
    idle_update_table,
    long_replay,
];

/// Returns what all rules find, the urgent first.
pub(crate) fn examine(facts: &Facts) -> Vec<Symptom> {
    let mut found: Vec<Symptom> = RULES.iter().flat_map(|rule| rule(facts)).collect();
    found.sort_by_key(|symptom| symptom.urgency);
    found
}

fn bytes(amount: f64) -> String {
    human_bytes(amount.max(0.0) as u64)
}

fn count(amount: f64) -> String {
    human_count(amount.max(0.0) as u64)
}

fn read_only(facts: &Facts) -> Vec<Symptom> {
    let because = facts.stats["read_only_because"].as_str().into_iter();
    let tell = |because: &str| {
        let what = format!("The database has turned read-only: {because}.");
        Symptom::new("read_only", Urgency::Act, what)
            .because(
                "After a failed sync nobody knows what the device has, so every write is refused \
                 until the database is opened anew.",
            )
            .try_this("look at the device's health, then close the database and open it again")
    };
    because.map(tell).collect()
}

fn refused_puts(facts: &Facts) -> Vec<Symptom> {
    let refused = facts.number("writes_refused_for_space");
    let (what, urgency) = match facts.stats["low_on_space"].as_str() {
        Some(low) => (format!("Puts are refused: {low}."), Urgency::Act),
        None if refused > 0.0 => {
            let what = format!("{} writes were refused for want of space.", count(refused));
            (what, Urgency::Look)
        }
        None => return Vec::new(),
    };
    vec![
        Symptom::new("refused_puts", urgency, what)
            .because(
                "The last bytes of the disk are kept for deletions and for what makes room. \
                 Writing resumes by itself.",
            )
            .try_this(
                "free space on this file system, or delete keys; `cleave space` shows what \
                       takes the space",
            ),
    ]
}

fn failing_work(facts: &Facts) -> Vec<Symptom> {
    let error = facts.stats["background_error"].as_str().into_iter();
    let tell = |error: &str| {
        let what = format!("Background work can't go on: {error}.");
        Symptom::new("failing_work", Urgency::Act, what)
            .because("What is not flushed or compacted holds writers up in the end.")
            .try_this("remove the cause that the error names; jobs are tried again by themselves")
    };
    error.map(tell).collect()
}

fn paused_gc(facts: &Facts) -> Vec<Symptom> {
    let is_paused = facts.jobs["gc_paused"] == true;
    let is_off = facts.settings["database"]["gc.automatic"] == "false";
    let (what, advice) = match (is_paused, is_off) {
        (true, _) => ("Value GC is paused.", "end the pause: `cleave resume`, or `Db::resume_gc`"),
        (_, true) => {
            ("Automatic value GC is off.", "set `gc.automatic`, or call `Db::gc` at times")
        }
        _ => return Vec::new(),
    };
    let symptom = Symptom::new("paused_gc", Urgency::Look, what.to_owned());
    vec![symptom.because("Dead values keep their space meanwhile.").try_this(advice)]
}

/// Tables of L0 beyond those at which compaction begins, from which on compaction is behind: twice
/// as many come in bursts.
const LEVEL0_TIMES: f64 = 2.0;

fn crowded_level0(facts: &Facts) -> Vec<Symptom> {
    let tell = |(name, keyspace): (&str, &Value)| {
        let tables = number(&keyspace["levels"][0], "tables");
        let trigger = facts.keyspace_setting(name, "level0_trigger").unwrap_or(4.0);
        (tables > LEVEL0_TIMES * trigger).then(|| {
            let what = format!(
                "L0 of keyspace {name:?} has {tables:.0} tables; compaction begins at {trigger:.0}."
            );
            Symptom::new("crowded_level0", Urgency::Look, what)
                .because("Reads look into each of them, and writers are slowed down for them.")
                .try_this(
                    "raise `compaction_threads`, or `background_bytes_per_second` if it is set, or \
                     `memtable_bytes` of the keyspace, so that fewer tables arrive; `cleave \
                     compact` merges them now",
                )
        })
    };
    facts.keyspaces().filter_map(tell).collect()
}

/// The share of the time for which one writer was held up, from which on users notice.
const STALLED_SHARE: f64 = 0.05;

fn write_stalls(facts: &Facts) -> Vec<Symptom> {
    let uptime = facts.uptime();
    let mut found = Vec::new();
    for (rule, told) in facts.stats["stalls"].as_object().into_iter().flatten() {
        let seconds = number(told, "seconds");
        if uptime <= 0.0 || seconds / uptime < STALLED_SHARE {
            continue;
        }
        let what = format!(
            "The rule {rule} has held writers up for {:.0} % of the time, {} times.",
            100.0 * seconds / uptime,
            count(number(told, "count"))
        );
        let symptom = Symptom::new("write_stalls", Urgency::Look, what);
        let symptom = symptom.because("Writers outrun background work, so each waits for it.");
        found.push(symptom.try_this(stall_advice(rule)));
    }
    found
}

/// Returns what helps against the stalls of a rule.
fn stall_advice(rule: &str) -> &'static str {
    match rule {
        "memtables_full" => {
            "raise `max_immutable_memtables` or `memtable_bytes`, or see whether the device \
             is slow: flushes can't keep up"
        }
        "level0_slow" | "level0_full" => {
            "raise `compaction_threads`, and `level0_slowdown` and `level0_stop` for bursts"
        }
        "replay_full" => "raise `max_replay_bytes`; an opening after a kill then reads more",
        "log_sync" => {
            "use a faster device: it takes what is written more slowly than it comes; see also \
             `segment_bytes`"
        }
        "space_ceiling" => {
            "raise `gc.max_space_amplification`, if there is room on the disk: value GC then moves \
             less; see docs/tuning.md"
        }
        _ => "see docs/tuning.md",
    }
}

/// Look-ups of blocks below which a hit rate says nothing.
const FEWEST_LOOKUPS: f64 = 10_000.0;
/// The hit rate below which every fifth block that a read needs is read from the device.
const GOOD_HIT_RATE: f64 = 0.8;
/// The share of its capacity from which on a cache is full.
const FULL: f64 = 0.9;

fn small_cache(facts: &Facts) -> Vec<Symptom> {
    let (hits, misses) = (facts.number("cache_hits"), facts.number("cache_misses"));
    let (held, capacity) = (facts.number("cache_bytes"), facts.number("cache_capacity_bytes"));
    let rate = hits / (hits + misses).max(1.0);
    if hits + misses < FEWEST_LOOKUPS || rate >= GOOD_HIT_RATE || held < FULL * capacity {
        return Vec::new();
    }
    let levels = |keyspace: &Value| keyspace["levels"].as_array().cloned().unwrap_or_default();
    let tree = facts.keyspaces().flat_map(|(_, keyspace)| levels(keyspace));
    let tree: f64 = tree.map(|level| number(&level, "bytes")).sum();
    if tree <= capacity {
        return Vec::new();
    }
    let what = format!(
        "The cache of {} is full, and only {:.0} % of the blocks that were asked for were in it; \
         all tables have {}.",
        bytes(capacity),
        100.0 * rate,
        bytes(tree)
    );
    let symptom = Symptom::new("small_cache", Urgency::Look, what)
        .because("Each other block costs a read of the device, before the value's own.")
        .try_this("raise `cache_bytes`, if possible to the size of the tables, or set `pin_tree`");
    vec![symptom]
}

/// Indexes and filters that were dropped and may have to be read again, from which on it is no
/// accident.
const MANY_EVICTIONS: f64 = 1000.0;

fn evicted_indexes(facts: &Facts) -> Vec<Symptom> {
    let evicted = facts.number("table_evictions");
    if evicted < MANY_EVICTIONS {
        return Vec::new();
    }
    let what = format!(
        "Indexes and filters of tables were dropped from memory {} times to make room for others; \
         they may take {}.",
        count(evicted),
        bytes(facts.number("index_and_filter_capacity_bytes"))
    );
    let symptom = Symptom::new("evicted_indexes", Urgency::Look, what)
        .because("A read of such a table reads its index and filter again first.")
        .try_this("raise `max_index_and_filter_bytes`, or `table_bytes`, so that there are fewer");
    vec![symptom]
}

/// The share of the space that only snapshots and cursors keep, from which on it matters.
const PINNED_SHARE: f64 = 0.1;
/// Space below which nobody asks what takes it.
const NOTABLE_BYTES: f64 = (16 << 20) as f64;

/// Returns a holder as a person would call it.
fn holder_name(holder: &Value) -> String {
    let kind = holder["kind"].as_str().unwrap_or("holder");
    let age = number(holder, "age_seconds");
    match holder["keyspace"].as_str() {
        Some(keyspace) => format!("a {kind} of {keyspace:?} that is {age:.0} s old"),
        None => format!("a {kind} that is {age:.0} s old"),
    }
}

fn pinned_space(facts: &Facts) -> Vec<Symptom> {
    let kept = |holder: &Value| number(holder, "version_bytes") + number(holder, "file_bytes");
    let all: f64 = facts.holders().map(kept).sum();
    let allocated = number(&facts.space, "allocated");
    let most = facts.holders().max_by(|a, b| kept(a).total_cmp(&kept(b)));
    let Some(most) = most.filter(|_| all >= NOTABLE_BYTES && all >= PINNED_SHARE * allocated)
    else {
        return Vec::new();
    };
    let what = format!(
        "{} of {} on disk are kept for snapshots, cursors and scans only, most of it for {}.",
        bytes(all),
        bytes(allocated),
        holder_name(most)
    );
    let symptom = Symptom::new("pinned_space", Urgency::Look, what)
        .because("What they see can't be freed, whatever the bounds of space are.")
        .try_this("drop them when they are not needed; read in shorter scans, each of its own");
    vec![symptom]
}

/// The age in seconds from which on a holder was most likely forgotten.
const OLD_SECONDS: f64 = 3600.0;

fn old_holders(facts: &Facts) -> Vec<Symptom> {
    let old = facts.holders().filter(|holder| number(holder, "age_seconds") >= OLD_SECONDS);
    let old: Vec<&Value> = old.collect();
    let Some(oldest) = old.first() else { return Vec::new() };
    let what = format!(
        "{} of those who hold old versions are older than an hour, such as {}.",
        old.len(),
        holder_name(oldest)
    );
    let symptom = Symptom::new("old_holders", Urgency::Look, what)
        .because("Whatever is overwritten or deleted after them stays on disk until they go.")
        .try_this(
            "find out who keeps it: each is a snapshot, cursor or scan that was never dropped",
        );
    vec![symptom]
}

fn space_above_bound(facts: &Facts) -> Vec<Symptom> {
    let allocated = number(&facts.space, "allocated");
    let Some(ceiling) = facts.space["ceiling_bytes"].as_f64() else { return Vec::new() };
    if allocated <= ceiling {
        return Vec::new();
    }
    let warnings = facts.space["warnings"].as_array().into_iter().flatten();
    let warnings: Vec<&str> = warnings.filter_map(Value::as_str).collect();
    let mut what =
        format!("{} are on disk, above the ceiling of {}.", bytes(allocated), bytes(ceiling));
    if let Some(warning) = warnings.first() {
        what += &format!(" {warning}");
    }
    let is_off = facts.settings["database"]["gc.automatic"] == "false";
    let why = match is_off || facts.jobs["gc_paused"] == true {
        true => "Nothing holds it down while value GC is off or paused.",
        false => "Writers are held up while value GC tries to come back below it.",
    };
    let symptom = Symptom::new("space_above_bound", Urgency::Act, what)
        .because(why)
        .try_this("see in `cleave space` who keeps what; `cleave gc` collects at once");
    vec![symptom]
}

/// The share of the entries in tables that delete others, from which on scans notice.
const TOMBSTONE_SHARE: f64 = 0.3;
/// Tombstones below which nobody notices.
const FEWEST_TOMBSTONES: f64 = 10_000.0;
/// The share of a keyspace's tables that newer entries supersede, from which on it is much.
const STALE_SHARE: f64 = 0.5;

fn dead_keys(facts: &Facts) -> Vec<Symptom> {
    let mut found = Vec::new();
    let advice = "compact it: `cleave compact`; where ranges go at once, delete them as ranges";
    for (name, keyspace) in facts.keyspaces() {
        let (tombstones, all) = (number(keyspace, "tombstones"), number(keyspace, "table_entries"));
        if tombstones >= FEWEST_TOMBSTONES && tombstones >= TOMBSTONE_SHARE * all {
            let what = format!(
                "{} of {} entries in the tables of keyspace {name:?} are tombstones.",
                count(tombstones),
                count(all)
            );
            let symptom = Symptom::new("dead_keys", Urgency::Look, what)
                .because("Scans step over each of them and over what they delete.");
            found.push(symptom.try_this(advice));
        }
    }
    for keyspace in facts.space["keyspaces"].as_array().into_iter().flatten() {
        let (stale, all) = (number(keyspace, "stale_table_bytes"), number(keyspace, "table_bytes"));
        if stale >= NOTABLE_BYTES && stale >= STALE_SHARE * all {
            let what = format!(
                "{} of {} in the tables of keyspace {:?} are superseded.",
                bytes(stale),
                bytes(all),
                keyspace["name"].as_str().unwrap_or("?")
            );
            let symptom = Symptom::new("dead_keys", Urgency::Look, what)
                .because("They take space and keep the values that they point to.");
            found.push(symptom.try_this(advice));
        }
    }
    found
}

/// The mean size in bytes of separated values below which a pointer to them costs more than it
/// saves: a read of its own, and 32 bytes beside it.
const TINY_BYTES: f64 = 512.0;
/// Records below which a mean says nothing.
const FEWEST_RECORDS: f64 = 1000.0;

fn tiny_separated_values(facts: &Facts) -> Vec<Symptom> {
    let segments = facts.space["segments"].as_array().into_iter().flatten();
    let (mut records, mut size) = (0.0, 0.0);
    for segment in segments {
        records += number(segment, "live_records");
        size += number(segment, "live_bytes");
    }
    let mean = size / f64::max(records, 1.0);
    if records < FEWEST_RECORDS || mean >= TINY_BYTES {
        return Vec::new();
    }
    let settings = facts.settings["keyspaces"].as_object().into_iter().flatten();
    let low = settings.filter(|(name, _)| {
        let threshold = facts.keyspace_setting(name, "separation_threshold");
        threshold.is_some_and(|threshold| threshold < TINY_BYTES)
    });
    let low: Vec<String> = low.map(|(name, _)| format!("{name:?}")).collect();
    let what = format!(
        "The {} values that are kept apart from their keys have {:.0} bytes on average{}.",
        count(records),
        mean,
        if low.is_empty() { String::new() } else { format!(" (keyspaces {})", low.join(", ")) }
    );
    let symptom = Symptom::new("tiny_separated_values", Urgency::Look, what)
        .because("Each read of such a value is a read of the device of its own.")
        .try_this(
            "raise `separation_threshold` (1024 by default), or switch separation off; `cleave \
             convert --threshold SIZE` does that and moves these values back into the tree",
        );
    vec![symptom]
}

/// The share of look-ups in the update table that found something, below which it is of no use.
const USEFUL_SHARE: f64 = 0.01;

fn idle_update_table(facts: &Facts) -> Vec<Symptom> {
    let capacity = facts.number("update_table_capacity_bytes");
    let (lookups, hits) = (facts.number("update_table_lookups"), facts.number("short_cut_reads"));
    let dropped = facts.number("superseded_entries_dropped");
    let is_of_use = hits >= USEFUL_SHARE * lookups || dropped > 0.0;
    if capacity == 0.0 || lookups < FEWEST_LOOKUPS || is_of_use {
        return Vec::new();
    }
    let what = format!(
        "The update table of {} was asked {} times and knew the key {} times; compactions have \
         dropped nothing by it.",
        bytes(capacity),
        count(lookups),
        count(hits)
    );
    let symptom = Symptom::new("idle_update_table", Urgency::Look, what)
        .because("It costs time for each entry that is flushed, and memory.")
        .try_this("set `update_table_bytes` to 0; it is for keys that are overwritten often");
    vec![symptom]
}

/// Bytes of log from which on an opening after a kill takes seconds.
const LONG_REPLAY_BYTES: f64 = (2u64 << 30) as f64;

fn long_replay(facts: &Facts) -> Vec<Symptom> {
    let now = facts.number("replay_bytes");
    let most = facts.setting("max_replay_bytes").unwrap_or_default();
    if f64::max(now, most) < LONG_REPLAY_BYTES {
        return Vec::new();
    }
    let what = format!(
        "An opening after a kill may have to read {} of log ({} now).",
        bytes(most),
        bytes(now)
    );
    let symptom = Symptom::new("long_replay", Urgency::Look, what)
        .because("The database is not there before that is done.")
        .try_this("lower `max_replay_bytes`; memtables are then flushed earlier");
    vec![symptom]
}

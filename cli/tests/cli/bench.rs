//! `cleave bench` does what it says, in figures that programs can read, and notices wrong values.

use crate::common::{Dir, fails, ok, run};
use serde_json::Value;
use std::fs;

fn lines(output: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(output).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn bench(dir: &Dir, args: &str) -> Vec<Value> {
    let mut words = vec!["bench", "DB", "--json", "--value-size", "1500"];
    words.extend(args.split(' '));
    let lines = lines(&ok(dir, &words, b""));
    assert!(lines.last().unwrap()["stats"].is_object());
    lines[..lines.len() - 1].to_vec()
}

#[test]
fn every_workload_reports_its_figures() {
    let dir = Dir::new("bench-all");
    let all = "fillseq,fillrandom overwrite readrandom,readmissing,readseq readreverse \
               seekrandom deleterandom deleteall --num 2000 --settle";
    let reports = bench(&dir, all);
    let names: Vec<&str> = reports.iter().map(|line| line["workload"].as_str().unwrap()).collect();
    let expected = [
        "fillseq",
        "fillrandom",
        "overwrite",
        "readrandom",
        "readmissing",
        "readseq",
        "readreverse",
        "seekrandom",
        "deleterandom",
        "deleteall",
    ];
    assert_eq!(names, expected);
    for report in &reports {
        assert_eq!(report["ops"], 2000, "{report}");
        let figure = |name: &str| report[name].as_f64().unwrap();
        assert!(figure("seconds") > 0.0 && figure("ops_per_second") > 0.0);
        assert!(figure("p50_us") <= figure("p99_us") && figure("p99_us") <= figure("p999_us"));
        assert!(figure("p999_us") <= figure("max_us") && figure("settle_seconds") >= 0.0);
        let rate = figure("bytes") / 1e6 / figure("seconds");
        assert!((figure("mb_per_second") - rate).abs() <= rate * 0.01 + 0.001);
    }
    let found: Vec<u64> = reports.iter().map(|line| line["found"].as_u64().unwrap()).collect();
    assert_eq!(found, [0, 0, 0, 2000, 0, 2000, 2000, 2000, 0, 0]);
    assert_eq!(reports[0]["bytes"], 2000 * 1516);
    assert_eq!(reports[5]["bytes"], 2000 * 1516);
}

#[test]
fn random_keys_repeat_unless_they_are_to_be_unique() {
    let dir = Dir::new("bench-unique");
    let some = bench(&dir, "fillrandom,readseq --num 3000 -k some")[1]["found"].as_u64().unwrap();
    // Of n random draws from n keys, a share of 1 - 1/e differ.
    assert!((1700..2100).contains(&some), "{some}");
    let all = bench(&dir, "fillrandom,readseq --num 3000 --unique -k all --threads 3 --batch 7");
    assert_eq!(all[1]["found"], 3000);
    assert_eq!(all[0]["ops"], 3000);
    assert_eq!(all[0]["threads"], 3);
}

#[test]
fn threads_share_a_scan_and_settings_are_kept() {
    let dir = Dir::new("bench-threads");
    let fill = "fillseq --num 1000 --threshold never --memtable-mb 1 --compression-ratio 0.5";
    bench(&dir, fill);
    let read = "readseq,readreverse,seekrandom --num 1000 --threads 4 --reads 400 --keys-only";
    let reports = bench(&dir, read);
    assert_eq!(reports[0]["ops"], 400);
    assert_eq!(reports[0]["bytes"], 400 * 16);
    assert_eq!(reports[2]["found"], 400);
    let whole = bench(&dir, "readseq --num 1000 --threads 4 --no-prefetch");
    assert_eq!(whole[0]["found"], 1000);
    let timed = bench(&dir, "readrandom --num 1000 --reads 1 --duration 1");
    assert!(timed[0]["seconds"].as_f64().unwrap() >= 1.0);
    assert!(timed[0]["ops"].as_u64().unwrap() > 1);
}

/// Returns the bytes of live keys and values in segments.
fn separated_bytes(dir: &Dir) -> u64 {
    let space: Value = serde_json::from_slice(&ok(dir, &["space", "DB", "--json"], b"")).unwrap();
    space["keyspaces"][0]["separated_bytes"].as_u64().unwrap()
}

#[test]
fn values_go_where_the_policy_says() {
    let policies = [("at_write", true), ("at_flush", true), ("auto", true), ("off", false)];
    for (policy, is_separated) in policies {
        let dir = Dir::new(&format!("bench-{policy}"));
        let fill = format!("fillseq --num 2000 --memtable-mb 1 --separation {policy} --settle");
        bench(&dir, &fill);
        assert_eq!(bench(&dir, "readseq --num 2000")[0]["found"], 2000);
        assert_eq!(separated_bytes(&dir) > 0, is_separated, "{policy}");
    }
    let dir = Dir::new("bench-policy");
    let words = ["bench", "DB", "fillseq", "--separation", "never"];
    let refused = run(&dir, &words, b"");
    assert!(!refused.status.success());
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("the policies are at_write, at_flush, off and auto"), "{text}");
}

#[test]
fn overwriting_goes_on_for_a_multiple_of_the_data() {
    let dir = Dir::new("bench-total");
    let reports = bench(&dir, "fillseq overwrite readseq --num 1000 --total 2.5 --batch 7");
    assert_eq!(reports[0]["ops"], 1000);
    assert!((2500..2507).contains(&reports[1]["ops"].as_u64().unwrap()));
    assert_eq!(reports[2]["found"], 1000);
}

#[test]
fn by_zipfs_law_few_keys_are_drawn_often() {
    let dir = Dir::new("bench-zipf");
    let words = "overwrite readseq --num 4000 --distribution zipf";
    let drawn = bench(&dir, words)[1]["found"].as_u64().unwrap();
    // Of even draws, 63 % would differ.
    assert!((1000..2000).contains(&drawn), "{drawn}");
    assert_eq!(bench(&dir, words)[1]["found"], drawn, "the seed says which");
}

#[test]
fn all_keys_are_deleted_by_threads_and_batches() {
    let dir = Dir::new("bench-deleteall");
    let reports = bench(&dir, "fillseq deleteall readseq --num 1000 --threads 3 --batch 7");
    assert_eq!(reports[1]["ops"], 1000);
    assert_eq!(reports[2]["found"], 0);
}

#[test]
fn reads_beside_a_workload_have_figures_of_their_own() {
    let dir = Dir::new("bench-beside");
    let words = "fillseq overwrite readseq --num 1000 --total 20 --readers 2 --idle 1";
    let reports = bench(&dir, words);
    let reads = &reports[1]["reads"];
    assert!(reads["ops"].as_u64().unwrap() > 0 && reads["found"] == reads["ops"], "{reads}");
    for name in ["ops_per_second", "mean_us", "p50_us", "p99_us", "p999_us", "max_us"] {
        assert!(reads[name].as_f64().unwrap() > 0.0, "{name}");
    }
    assert_eq!(reports[1]["ops"], 20_000);
    assert!(reports[2]["reads"].is_null(), "nobody reads beside a scan");
}

/// Runs YCSB's workloads, `words`, on 4000 keys, 6000 operations each.
fn ycsb(dir: &Dir, words: &str) -> Vec<Value> {
    bench(dir, "fillrandom --unique --num 4000");
    bench(dir, &format!("{words} --num 4000 --reads 6000"))
}

fn count(report: &Value, side: &str, name: &str) -> u64 {
    report[side][name].as_u64().unwrap_or_else(|| panic!("{side} {name}: {report}"))
}

#[test]
fn ycsbs_workloads_mix_reads_and_writes_and_time_them_apart() {
    let dir = Dir::new("bench-ycsb");
    let all = "ycsba,ycsbb,ycsbc,ycsbd,ycsbe,ycsbf --threads 3 --distribution zipf";
    let reports = ycsb(&dir, all);
    for (report, reads) in reports.iter().zip([0.5, 0.95, 1.0, 0.95, 0.95, 0.5]) {
        let (read, written) = (count(report, "reads", "ops"), count(report, "writes", "ops"));
        assert_eq!((read + written, &report["ops"]), (6000, &Value::from(6000)));
        assert!((read as f64 / 6000.0 - reads).abs() < 0.03, "{report}");
        assert_eq!(count(report, "reads", "found"), read, "all keys are there: {report}");
        for side in ["reads", "writes"] {
            let figure = |name: &str| report[side][name].as_f64().unwrap();
            assert_eq!(figure("mean_us") > 0.0, count(report, side, "ops") > 0, "{report}");
            assert!(figure("p99_us") <= figure("max_us"), "{report}");
        }
    }
    let [a, b, _, _, e, f] = &reports[..] else { panic!("six workloads") };
    assert_eq!(count(a, "writes", "found"), 0, "an update reads nothing");
    assert_eq!(count(f, "writes", "found"), count(f, "writes", "ops"), "these read first");
    assert_eq!(b["bytes"], 6000 * 1516);
    // Scans have 50 pairs in the mean.
    let pairs = e["bytes"].as_u64().unwrap() / 1516 / count(e, "reads", "ops");
    assert!((40..60).contains(&pairs), "{e}");
}

#[test]
fn ycsbs_insertions_go_on_behind_all_keys() {
    let dir = Dir::new("bench-ycsb-insert");
    let reports = ycsb(&dir, "ycsbd,ycsbe --threads 2");
    let new = count(&reports[0], "writes", "ops") + count(&reports[1], "writes", "ops");
    assert!(new > 400, "{new}");
    let again = bench(&dir, "ycsbd,readseq --num 4000 --reads 600 --read-share 0.5 --seed 2");
    let more = count(&again[0], "writes", "ops");
    assert!((200..400).contains(&more), "{more}");
    let whole = bench(&dir, "readseq --num 4000");
    assert_eq!(whole[0]["found"], 4000 + new + more, "no key was inserted twice");
}

#[test]
fn the_share_of_reads_can_be_chosen() {
    let dir = Dir::new("bench-ycsb-share");
    let reports = ycsb(&dir, "ycsba --read-share 0.9");
    assert!((5200..5600).contains(&count(&reports[0], "reads", "ops")), "{}", reports[0]);
    let reports = bench(&dir, "ycsba --num 4000 --reads 100 --read-share 0");
    assert_eq!(count(&reports[0], "writes", "ops"), 100);
    let text = ok(&dir, &["bench", "DB", "ycsbb", "--num", "4000", "--reads", "1000"], b"");
    let text = String::from_utf8(text).unwrap();
    for side in ["\n  reads ", "\n  writes ", "us: mean "] {
        assert!(text.contains(side), "{text}");
    }
}

#[test]
fn value_gc_runs_beside_a_workload() {
    let dir = Dir::new("bench-collect");
    bench(&dir, "fillseq,deleterandom --num 4000 --reads 8000 --no-gc --separation at_write");
    let reports = bench(&dir, "fillrandom,readseq --num 4000 --no-gc --collect -k other");
    let gc = &reports[0]["gc"];
    let figure = |name: &str| gc[name].as_f64().unwrap_or_else(|| panic!("{name}: {gc}"));
    // Nine in ten of 6 MB of values were deleted.
    assert!(figure("bytes_freed") > 4e6, "{gc}");
    assert!(figure("bytes_written") < figure("bytes_freed") && figure("seconds") > 0.0, "{gc}");
    assert!(figure("ops") <= 4000.0, "{gc}");
    let seconds = reports[0]["seconds"].as_f64().unwrap().min(figure("seconds"));
    // Rates have one decimal, times six.
    let rounded = (figure("ops") / seconds * 1e-3).max(0.1);
    assert!((figure("ops_per_second") - figure("ops") / seconds).abs() < rounded, "{gc}");
    assert_eq!(reports[0]["ops"], 4000);
    assert!(bench(&dir, "readseq --num 4000")[0]["gc"].is_null());
}

/// Guards the options of value GC that say what is collected for its share of garbage alone.
#[test]
fn discardable_segments_are_collected_by_the_ratios_that_are_given() {
    let dir = Dir::new("bench-discardable");
    let ratios = "--discardable-ratio 0.25 --punch-ratio 0.125";
    bench(&dir, &format!("fillseq --num 100 {ratios} --collect-discardable always"));
    let settings = fs::read_to_string(dir.path().join("DB/OPTIONS")).unwrap();
    let lines =
        "gc.discardable_ratio = 0.25\ngc.punch_ratio = 0.125\ngc.collect_discardable = always\n";
    assert!(settings.contains(lines), "{settings}");
    let words = ["bench", "DB", "fillseq", "--collect-discardable", "never"];
    let text = String::from_utf8(run(&dir, &words, b"").stderr).unwrap();
    assert!(text.contains("it must be idle or always"), "{text}");
    let words = ["bench", "DB", "fillseq", "--punch-ratio", "0"];
    let text = String::from_utf8(run(&dir, &words, b"").stderr).unwrap();
    assert!(text.contains("punch_ratio is 0, it must be from 0.05 to 1"), "{text}");
}

#[test]
fn a_value_of_somebody_else_is_noticed() {
    let dir = Dir::new("bench-foreign");
    bench(&dir, "fillseq --num 100");
    ok(&dir, &["put", "DB", "0000000000000042", "mine"], b"");
    for workload in ["readrandom", "readseq", "readreverse", "seekrandom", "ycsbc", "ycsbe"] {
        let output = run(&dir, &["bench", "DB", workload, "--num", "100", "--reads", "5000"], b"");
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{workload}: {message}");
        assert!(message.contains("0000000000000042"), "{message}");
    }
}

/// Workloads overwrite and delete; `bench` did so in any store. Now only its own, whatever the
/// workloads were, or if it is forced to. Before it refused a store, it recorded its own options of
/// value GC there, by which `gc` and others went on; now it writes nothing.
#[test]
fn a_store_of_somebody_else_is_refused() {
    let dir = Dir::new("bench-refused");
    ok(&dir, &["put", "DB", "2026112503550000", "a time of 16 digits"], b"");
    ok(&dir, &["put", "OTHER", "-k", "people", "ada", "Ada"], b"");
    for store in ["DB", "OTHER"] {
        let options = || fs::read_to_string(dir.path().join(store).join("OPTIONS")).unwrap();
        let before = (ok(&dir, &["changes", store], b""), options());
        let words = ["bench", store, "deleteall", "--num", "10", "--no-gc", "--no-punch"];
        let output = run(&dir, &words, b"");
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("`bench` did not make this store"), "{message}");
        assert!(message.contains("--force"), "{message}");
        assert!((ok(&dir, &["changes", store], b""), options()) == before);
    }
    ok(&dir, &["bench", "DB", "fillseq", "--num", "10", "--force"], b"");
    let own = Dir::new("bench-own");
    // Its own: empty, with values of any size, and with counters.
    bench(&own, "fillseq,deleteall --num 50");
    ok(&own, &["bench", "DB", "fillrandom", "--num", "9", "--value-size", "1"], b"");
    bench(&own, "fillseq,increment,merge,putcounters --num 50");
    bench(&own, "readseq --num 50");
}

#[test]
fn ycsbs_gets_of_keys_that_were_not_loaded_are_refused() {
    let dir = Dir::new("bench-unloaded");
    bench(&dir, "fillseq --num 100");
    for workload in ["ycsba", "ycsbb", "ycsbc", "ycsbf"] {
        let output = run(&dir, &["bench", "DB", workload, "--num", "100000"], b"");
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{workload}: {message}");
        assert!(message.contains("there is no key") && message.contains("fillseq"), "{message}");
    }
}

#[test]
fn conditional_writes_and_transactions_do_all_their_work() {
    let dir = Dir::new("bench-conditional");
    bench(&dir, "fillseq --num 500");
    let words =
        "cas,increment,merge,putcounters,transactions,batchget --num 500 --reads 900 --threads 3";
    for shared in ["", " --shared"] {
        let reports = bench(&dir, &format!("{words}{shared}"));
        let found: Vec<_> = reports.iter().map(|line| (&line["ops"], &line["found"])).collect();
        let expected =
            [0, 0, 0, 0, 4 * 900, 4 * 900].map(|found| (Value::from(900), Value::from(found)));
        assert_eq!(found, expected.each_ref().map(|(ops, found)| (ops, found)));
    }
    let read = bench(&dir, "readseq --num 500");
    assert_eq!(read[0]["found"], 500);
}

#[test]
fn compare_and_set_needs_keys_that_are_there() {
    let dir = Dir::new("bench-cas-empty");
    for workload in ["cas", "transactions", "batchget"] {
        let output = run(&dir, &["bench", "DB", workload, "--num", "10"], b"");
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("load all keys first"));
    }
}

#[test]
fn the_change_feed_is_followed_beside_a_workload() {
    let dir = Dir::new("bench-follow");
    for how in ["visible", "durable"] {
        let reports =
            bench(&dir, &format!("fillrandom,readseq --num 3000 --batch 3 --follow {how}"));
        assert_eq!(reports[0]["feed"]["changes"], 3000, "{}", reports[0]);
        assert_eq!(reports[0]["feed"]["bytes"], reports[0]["bytes"]);
        assert!(reports[0]["feed"]["seconds_after"].as_f64().unwrap() >= 0.0);
        assert_eq!(reports[1]["feed"]["changes"], 0);
    }
}

/// Before, an option that was given with its default counted as not given, and one that was given
/// reset all others.
#[test]
fn options_of_value_gc_hold_as_they_are_given() {
    let dir = Dir::new("bench-gc-options");
    let recorded = |args: &str| {
        bench(&dir, args);
        let text = fs::read_to_string(dir.path().join("DB/OPTIONS")).unwrap();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_start_matches(" = ").to_owned()
        };
        [of("gc.automatic"), of("gc.max_space_amplification"), of("gc.space_allowance_bytes")]
    };
    let fill = "fillseq --num 100";
    let mib10 = "10485760";
    let tight = recorded(&format!("{fill} --max-space-amplification 1.3 --space-allowance-mb 10"));
    assert_eq!(tight, ["true", "1.3", mib10]);
    assert_eq!(recorded(fill), ["true", "1.3", mib10], "what is not given stays");
    assert_eq!(recorded(&format!("{fill} --no-gc")), ["false", "1.3", mib10]);
    let wide = recorded(&format!("{fill} --max-space-amplification 2"));
    assert_eq!(wide, ["true", "2", mib10]);
    let told = fails(&dir, &["bench", "DB", "fillseq", "--cache-mb", "17592186044417"], b"");
    assert!(told.contains("17592186044417"), "{told}");
}

#[test]
fn a_collection_tells_of_holes() {
    let dir = Dir::new("bench-holes");
    let words = "bench DB fillseq --num 40 --value-size 1000000 --no-gc --separation at_write";
    ok(&dir, &words.split(' ').collect::<Vec<_>>(), b"");
    let keys: Vec<String> = (0..40).step_by(4).map(|number| format!("{number:016}")).collect();
    let mut words = vec!["del", "DB"];
    words.extend(keys.iter().map(String::as_str));
    ok(&dir, &words, b"");
    let told = String::from_utf8(ok(&dir, &["gc", "DB"], b"")).unwrap();
    // Where the file system makes no holes, what is live is moved instead.
    assert!(told.contains(" punched (") || !told.contains(" 0 values moved"), "{told}");
}

//! `cleave space`: the report of a store with garbage and a checkpoint, in every form.

use crate::common::{Dir, fails, ok, run};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A store in which half of the values were replaced. GC may have come to it already.
fn worn(dir: &Dir) {
    for round in 0..2 {
        let lines: String = (0..200 / (1 + round))
            .map(|number| format!("key{number:03}\t{}\n", format!("{round}x").repeat(1000)))
            .collect();
        ok(dir, &["load", "DB"], lines.as_bytes());
    }
    ok(dir, &["compact", "DB"], b"");
}

fn sum(list: &Value, field: &str) -> u64 {
    list.as_array().unwrap().iter().map(|item| item[field].as_u64().unwrap()).sum()
}

#[test]
fn as_json_it_adds_up() {
    let dir = Dir::new("space-json");
    worn(&dir);
    let report: Value = serde_json::from_slice(&ok(&dir, &["space", "DB", "--json"], b"")).unwrap();
    let files = fs::read_dir(dir.path().join("DB")).unwrap();
    let blocks: u64 = files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum();
    let allocated = report["allocated"].as_u64().unwrap();
    assert_eq!(allocated, blocks);
    let parts: u64 =
        report["parts"].as_object().unwrap().values().map(|p| p.as_u64().unwrap()).sum();
    assert_eq!(parts, allocated);
    assert_eq!(sum(&report["classes"], "allocated"), allocated);
    assert_eq!(sum(&report["keyspaces"], "entries"), 200);
    assert_eq!(sum(&report["keyspaces"], "live_bytes"), report["live_bytes"].as_u64().unwrap());
    assert_eq!(report["keyspaces"][0]["inline_bytes"], 0);
    assert_eq!(sum(&report["segments"], "live_records"), 200);
    assert_eq!(report["warnings"], serde_json::json!([]));
    let names = ["live", "pinned", "garbage", "log", "hole", "unwritten"];
    assert_eq!(report["cell_parts"], serde_json::json!(names));
    for segment in report["segments"].as_array().unwrap() {
        assert!(segment["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
        assert_eq!(segment["links"], 1);
        for cell in segment["cells"].as_array().unwrap() {
            let shares = cell.as_array().unwrap().iter().map(|share| share.as_u64().unwrap());
            assert_eq!(shares.sum::<u64>(), 100);
        }
    }
}

#[test]
fn it_goes_by_the_settings_of_whoever_opened_the_store_last() {
    let dir = Dir::new("space-settings");
    worn(&dir);
    let path = dir.path().join("DB/OPTIONS");
    let settled = || {
        let report = ok(&dir, &["space", "DB", "--json"], b"");
        let report = serde_json::from_slice::<Value>(&report).unwrap();
        let ratio = report["settled_bytes"].as_f64()? / report["live_bytes"].as_f64().unwrap();
        Some((ratio * 100.0).round() / 100.0)
    };
    assert_eq!(settled(), Some(1.2));
    let settings = fs::read_to_string(&path).unwrap();
    let own =
        settings.replace("settled_space_amplification = 1.2", "settled_space_amplification = 1.5");
    fs::write(&path, &own).unwrap();
    assert_eq!(settled(), Some(1.5));
    let table = String::from_utf8(ok(&dir, &["space", "DB"], b"")).unwrap();
    assert!(table.contains(", settles at "), "{table}");
    fs::write(&path, own.replace("gc.automatic = true", "gc.automatic = false")).unwrap();
    assert_eq!(settled(), None);
    // A command that writes leaves them as they are.
    ok(&dir, &["compact", "DB"], b"");
    ok(&dir, &["put", "DB", "key", "value"], b"");
    let kept = fs::read_to_string(&path).unwrap();
    assert!(
        kept.contains("settled_space_amplification = 1.5") && kept.contains("automatic = false"),
        "{kept}"
    );
    // What nobody can have set stops no command that reads, and is not replaced by others.
    let wrong = "gc.max_space_amplification = much\n";
    fs::write(&path, wrong).unwrap();
    assert_eq!(settled(), Some(1.2));
    let refused = fails(&dir, &["put", "DB", "key", "value"], b"");
    assert!(refused.contains("max_space_amplification can't be \"much\""), "{refused}");
    assert!(refused.contains("OPTIONS"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), wrong);
    fs::write(&path, wrong.trim_end()).unwrap();
    ok(&dir, &["put", "DB", "key", "value"], b"");
}

#[test]
fn for_people_there_is_a_table_a_map_and_a_picture() {
    let dir = Dir::new("space-people");
    worn(&dir);
    let table = String::from_utf8(ok(&dir, &["space", "DB"], b"")).unwrap();
    for part in ["amplification", "garbage", "keyspace", "default", "why it stays or goes"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    // No terminal: no colours, and nothing but letters.
    let map = String::from_utf8(ok(&dir, &["space", "DB", "--map"], b"")).unwrap();
    assert!(map.is_ascii() && !map.contains('\x1b'), "{map}");
    assert!(map.lines().any(|row| row.ends_with('#')), "{map}");
    let first = map.lines().next().unwrap();
    assert!(first.starts_with("Space of /") && first.contains("/DB, 20"), "{first}");
    for row in ["the whole store", "default      tables"] {
        assert!(map.lines().any(|line| line.starts_with(row)), "{row}: {map}");
    }
    let told = ok(&dir, &["space", "DB", "--svg", "map.svg"], b"");
    assert_eq!(told, b"map drawn to map.svg\n");
    let picture = fs::read_to_string(dir.path().join("map.svg")).unwrap();
    assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("/DB, 20") && picture.contains("live 100 %"));
    assert!(picture.contains("keyspace default: "), "tables are drawn, too");
    let failed = run(&dir, &["space", "DB", "--svg", "no/such/place"], b"");
    assert_eq!(failed.status.code(), Some(2));
    // Nothing of this has changed the store.
    let checked = String::from_utf8(ok(&dir, &["check", "DB"], b"")).unwrap();
    assert!(checked.starts_with("sound"), "{checked}");
}

#[test]
fn the_shell_explains_a_store_in_use() {
    let dir = Dir::new("space-shell");
    let answers = ok(&dir, &["shell", "DB"], b"put a 1\nspace\n");
    let answers = String::from_utf8(answers).unwrap();
    let report: Value = serde_json::from_str(answers.lines().nth(1).unwrap()).unwrap();
    assert_eq!(report["live_bytes"], 2);
    assert_eq!(report["keyspaces"][0]["entries"], 1);
}

#[test]
fn gc_frees_what_the_report_calls_garbage() {
    let dir = Dir::new("space-gc");
    worn(&dir);
    let pairs = ok(&dir, &["dump", "DB"], b"");
    let report = |dir: &Dir| -> Value {
        serde_json::from_slice(&ok(dir, &["space", "DB", "--json"], b"")).unwrap()
    };
    let garbage = |report: &Value| report["parts"]["garbage"].as_u64().unwrap();
    let is_tight = |report: &Value| garbage(report) * 5 < report["live_bytes"].as_u64().unwrap();
    let before = report(&dir);
    ok(&dir, &["gc", "DB"], b"");
    let after = report(&dir);
    assert!(is_tight(&after), "{after}");
    assert_eq!(after["live_bytes"], before["live_bytes"]);
    ok(&dir, &["reorganize", "DB", "--from", "key000", "--to", "key900"], b"");
    let kinds = report(&dir);
    let kinds = kinds["segments"].as_array().unwrap().iter().map(|s| &s["kind"]);
    assert!(kinds.clone().any(|kind| kind == "sorted"), "{:?}", kinds.collect::<Vec<_>>());
    ok(&dir, &["gc", "DB"], b"");
    assert!(is_tight(&report(&dir)));
    assert_eq!(ok(&dir, &["dump", "DB"], b""), pairs);
}

#[test]
fn what_a_checkpoint_has_as_well_is_told() {
    let dir = Dir::new("space-checkpoint");
    // Nothing is dead: no file is replaced.
    let lines: String =
        (0..200).map(|number| format!("key{number:03}\t{}\n", "x".repeat(2000))).collect();
    ok(&dir, &["load", "DB"], lines.as_bytes());
    ok(&dir, &["checkpoint", "DB", "COPY"], b"");
    for store in ["DB", "COPY"] {
        let report = ok(&dir, &["space", store, "--json"], b"");
        let report: Value = serde_json::from_slice(&report).unwrap();
        assert!(sum(&report["classes"], "shared") > 200 * 2000, "{report}");
        let mut segments = report["segments"].as_array().unwrap().iter();
        assert!(segments.any(|segment| segment["links"] == 2), "{report}");
    }
}

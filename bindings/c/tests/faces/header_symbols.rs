//! Checks that the headers declare exactly the exported symbols.

use crate::support::{include_dir, library, run};
use std::collections::BTreeSet;
use std::process::Command;

/// The functions that a header declares: names before a parenthesis, comments left out.
fn declared(header: &str) -> BTreeSet<String> {
    let mut code = String::new();
    for (at, part) in header.split("/*").enumerate() {
        code.push_str(if at == 0 {
            part
        } else {
            part.split_once("*/").map_or("", |(_, rest)| rest)
        });
    }
    let is_ours = |name: &&str| name.starts_with("leveldb_") || name.starts_with("cleavedb_");
    let calls = code.split('(').map(|before| {
        before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("")
    });
    calls.filter(is_ours).map(str::to_owned).collect()
}

fn exported() -> BTreeSet<String> {
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

#[test]
fn headers_and_library_agree() {
    let read = |name| std::fs::read_to_string(include_dir().join(name)).expect("a header");
    let leveldb = declared(&read("leveldb/c.h"));
    assert_eq!(leveldb.len(), 68, "LevelDB 1.23 has 68 functions");
    let mut all = declared(&read("cleavedb/c.h"));
    all.extend(leveldb);
    assert_eq!(exported(), all);
}

#[test]
#[cfg_attr(not(has_leveldb), ignore = "LevelDB's header is missing; install libleveldb-dev")]
fn debians_header_declares_the_same() {
    let header = std::fs::read_to_string("/usr/include/leveldb/c.h").expect("Debian's header");
    let ours = std::fs::read_to_string(include_dir().join("leveldb/c.h")).expect("a header");
    assert_eq!(declared(&header), declared(&ours));
}

#[test]
fn the_loader_finds_it_by_name_and_version() {
    let output = run(Command::new("readelf").arg("-d").arg(library()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("soname: [libcleavedb.so.0]"), "{text}");
}

//! One opener at a time.

use crate::common;
use crate::common::child::{self, Running};
use cleavedb::{Db, ErrorKind, Options};
use std::path::Path;

fn refused(dir: &Path, options: Options, holder: u32) {
    let error = Db::builder(dir).options(options).open().err().expect("it is held open");
    assert_eq!(error.kind(), ErrorKind::Busy);
    let text = error.to_string();
    assert!(text.contains(&format!("process {holder} ")), "{text}");
    assert!(text.contains(&dir.display().to_string()) && text.contains("close it"), "{text}");
}

#[test]
fn twice_in_one_process() {
    let dir = common::dir();
    let db = common::open(dir.path());
    db.default_keyspace().put("key", "value").unwrap();
    for read_only in [false, true] {
        let options = Options { read_only, ..common::tiny() };
        refused(dir.path(), options, std::process::id());
    }
    // By another path to the same place, too.
    let link = dir.path().with_extension("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    refused(&link, common::tiny(), std::process::id());
    std::fs::remove_file(link).unwrap();
    db.close().unwrap();
    let db = common::open(dir.path());
    assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "value");
}

#[test]
fn an_opening_that_failed_holds_nothing() {
    let dir = common::dir();
    common::open(dir.path()).close().unwrap();
    let current = dir.path().join("CURRENT");
    let good = std::fs::read(&current).unwrap();
    std::fs::write(&current, "damaged").unwrap();
    for _ in 0..2 {
        let error = Db::builder(dir.path()).open().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
    std::fs::write(&current, good).unwrap();
    common::open(dir.path()).close().unwrap();
}

#[test]
fn from_another_process_until_it_is_killed() {
    let dir = common::dir();
    let mut holder = Running::start("locks::child_that_holds", dir.path(), "");
    assert_eq!(holder.hear(), "open");
    for read_only in [false, true] {
        refused(dir.path(), Options { read_only, ..common::tiny() }, holder.id());
    }
    holder.kill();
    let db = common::open(dir.path());
    assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "of the child");
}

#[test]
#[ignore = "runs in a process of its own, started by from_another_process_until_it_is_killed"]
fn child_that_holds() {
    let Some((dir, _)) = child::job() else {
        return;
    };
    let db = common::open(&dir);
    db.default_keyspace().put("key", "of the child").unwrap();
    child::tell("open");
    child::wait_to_be_killed();
}

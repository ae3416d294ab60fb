//! A program compiled against Debian's LevelDB prints the same with Debian's library and with ours
//! preloaded.

use crate::support::{compile, fresh, library, run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
#[cfg_attr(not(has_leveldb), ignore = "Debian's LevelDB is missing; install libleveldb-dev")]
fn a_program_of_leveldb_prints_the_same() {
    let dir = fresh("same-output");
    let program = dir.join("program");
    compile("compare.c", &program, &["-lleveldb"]);
    for seed in 1..=4 {
        let print = |name: &str, preload: bool| {
            let mut command = Command::new(&program);
            let data = fresh(&format!("same-output-{name}"));
            command.arg(data).args([&seed.to_string(), "3000"]);
            if preload {
                command.env("LD_PRELOAD", library());
            }
            String::from_utf8_lossy(&run(&mut command).stdout).into_owned()
        };
        let (theirs, ours) = (print("theirs", false), print("ours", true));
        assert!(theirs.lines().count() > 3000, "{theirs}");
        for (number, (theirs, ours)) in theirs.lines().zip(ours.lines()).enumerate() {
            assert_eq!(theirs, ours, "line {number}, seed {seed}");
        }
        assert_eq!(theirs.len(), ours.len(), "seed {seed}");
    }
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(dir).expect("the database's directory");
    let paths = files.map(|file| file.expect("a file").path());
    paths.map(|path| (path.clone(), std::fs::read(path).expect("a file's bytes"))).collect()
}

/// Destroying took CURRENT and LOCK of a LevelDB database for ours, and with them the database.
#[test]
#[cfg_attr(not(has_leveldb), ignore = "Debian's LevelDB is missing; install libleveldb-dev")]
fn a_database_of_leveldb_stays_as_it_is() {
    let dir = fresh("foreign");
    let program = dir.join("program");
    compile("foreign.c", &program, &["-lleveldb"]);
    let print = |action: &str, preload: bool| {
        let mut command = Command::new(&program);
        command.arg(&dir).arg(action);
        if preload {
            command.env("LD_PRELOAD", library());
        }
        String::from_utf8_lossy(&run(&mut command).stdout).into_owned()
    };
    assert_eq!(print("open", false), "ok\n");
    let before = contents(&dir.join("db"));
    for action in ["open", "repair", "destroy"] {
        assert_eq!(print(action, true), "refused\n", "{action}");
        assert_eq!(contents(&dir.join("db")), before, "{action}");
    }
    assert_eq!(print("open", false), "ok\n");
}

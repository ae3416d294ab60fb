//! A program compiled against Debian's LevelDB prints the same with Debian's library and with ours
//! preloaded.

use crate::support::{compile, fresh, library, run};
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

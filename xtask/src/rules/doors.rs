//! Sole owners: only `env` names files, time, threads, randomness and locks, so that a test can
//! stand in for all of them. Test code is free.

use crate::paths::{NamedPath, named_paths};
use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

const RULE: &str = "doors";

/// Names that only one part of the engine may use.
struct Door {
    /// The paths; those below them are included.
    names: &'static [&'static str],
    /// The folder that may use them.
    owner: &'static str,
    /// The replacement for all others.
    instead: &'static str,
}

const DOORS: [Door; 5] = [
    Door {
        names: &["std::fs", "std::os::unix::fs", "rustix::fs", "rustix::io"],
        owner: "engine/src/env/",
        instead: "go through `env::fs::Fs`",
    },
    Door {
        names: &["std::time::Instant", "std::time::SystemTime", "std::time::UNIX_EPOCH"],
        owner: "engine/src/env/",
        instead: "ask `env::clock::Clock`",
    },
    Door {
        names: &["std::thread", "rayon", "crossbeam"],
        owner: "engine/src/env/",
        instead: "hand the work to env's scheduler",
    },
    Door {
        names: &[
            "rand",
            "fastrand",
            "getrandom",
            "rustix::rand",
            "std::hash::RandomState",
            "std::collections::hash_map::RandomState",
        ],
        owner: "engine/src/env/",
        instead: "draw from env's random source, which replays from a seed",
    },
    Door {
        names: &[
            "std::sync::Mutex",
            "std::sync::RwLock",
            "std::sync::Condvar",
            "std::sync::Barrier",
            "std::sync::mpsc",
            "parking_lot",
        ],
        owner: "engine/src/env/",
        instead: "take it from `env::sync`, so that a simulated thread never blocks unseen",
    },
];

pub(crate) fn check(_: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    for file in files.iter().filter(|file| file.path.starts_with("engine/src/")) {
        for path in named_paths(&file.syntax) {
            if file.is_test_line(path.line) {
                continue;
            }
            for door in DOORS.iter().filter(|door| !file.path.starts_with(door.owner)) {
                if let Some(name) = door.names.iter().find(|name| opens(&path, name)) {
                    let message =
                        format!("only {} may name `{name}`; {}", door.owner, door.instead);
                    report.error(RULE, file.path, path.line, message);
                }
            }
        }
    }
}

/// Returns true if the path names `name` or something below it, or imports a parent of it:
/// `use std::time;` makes `time::Instant` possible.
fn opens(path: &NamedPath, name: &str) -> bool {
    let wanted: Vec<&str> = name.split("::").collect();
    let given = &path.segments;
    let common = given.iter().zip(&wanted).take_while(|(given, wanted)| given == wanted).count();
    let below = common == wanted.len() && (given.len() > 1 || path.is_import);
    let above = path.is_import && common == given.len();
    below || above
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    fn errors(text: &str) -> usize {
        let files = [("engine/Cargo.toml", ""), ("engine/src/lib.rs", "mod read;")];
        errors_of(check, &[files[0], files[1], ("engine/src/read.rs", text)]).len()
    }

    #[test]
    fn each_door_is_guarded() {
        for text in [
            "use std::fs::File;",
            "fn f() { std::fs::read(p) }",
            "use std::time::{Duration, Instant};",
            "use std::thread;",
            "use std::sync::{Arc, Mutex};",
            "use std::sync::RwLock as Lock;",
            "use std::collections::hash_map::RandomState;",
            "use parking_lot::Mutex;",
        ] {
            assert_eq!(errors(text), 1, "{text}");
        }
    }

    #[test]
    fn importing_the_parent_is_no_way_around() {
        assert!(errors("use std::time;") > 0);
        assert!(errors("use std::sync::*;") > 0);
        assert!(errors("use std::sync::{self, Arc};") > 0);
        assert!(errors("use std as s;") > 0);
    }

    #[test]
    fn what_needs_no_door_is_free() {
        assert_eq!(
            errors("use std::time::Duration; use std::sync::{Arc, OnceLock}; // std::fs"),
            0
        );
        assert_eq!(errors("use std::{io, fmt}; fn f(thread: u8) { Rand::new(); }"), 0);
        assert_eq!(errors("#[cfg(test)]\nmod tests { use std::fs; }"), 0);
    }

    #[test]
    fn the_owner_is_free() {
        let files = [("engine/src/env/os.rs", "use std::fs; use std::sync::Mutex;")];
        assert_eq!(errors_of(check, &files), [""; 0]);
    }
}

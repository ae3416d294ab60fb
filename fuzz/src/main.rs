//! One program for all fuzz targets, so that it links once: `CLEAVEDB_FUZZ_TARGET` names the
//! target. With `CLEAVEDB_FUZZ_SEEDS` it writes the seeds of all targets to that folder instead.

#![no_main]

mod command;
#[path = "../../cli/src/format/mod.rs"]
#[expect(dead_code, reason = "only what parses is called")]
mod format;
#[path = "../../cli/src/import/mod.rs"]
#[expect(dead_code, unused_imports, reason = "only what parses is called")]
mod import;
#[path = "../../cli/src/progress.rs"]
#[expect(dead_code, reason = "only what parses is called")]
mod progress;
#[path = "../../cli/src/text.rs"]
#[expect(dead_code, reason = "only what parses is called")]
mod text;
#[path = "../../cli/src/cmd/shell/words.rs"]
mod words;

use cleavedb::fuzzing;
use std::path::Path;
use std::sync::OnceLock;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

/// The targets of the engine and of the command.
fn targets() -> impl Iterator<Item = (&'static str, fn(&[u8]))> {
    fuzzing::TARGETS.iter().chain(command::TARGETS).copied()
}

libfuzzer_sys::fuzz_target!(
    init: {
        if let Some(folder) = std::env::var_os("CLEAVEDB_FUZZ_SEEDS") {
            write_seeds(folder.as_ref());
            std::process::exit(0);
        }
        let name = std::env::var("CLEAVEDB_FUZZ_TARGET").expect("CLEAVEDB_FUZZ_TARGET is set");
        let target = targets().find(|(known, _)| *known == name);
        TARGET.set(target.expect("a target of this name").1).expect("set once");
    },
    |data: &[u8]| {
        TARGET.get().expect("set at the start")(data);
    }
);

/// A folder for each target; a file for each seed.
fn write_seeds(folder: &Path) {
    for (target, _) in targets() {
        std::fs::create_dir_all(folder.join(target)).expect("a folder");
    }
    let seeds = fuzzing::seeds().into_iter().chain(command::seeds());
    for (number, (target, bytes)) in seeds.enumerate() {
        std::fs::write(folder.join(target).join(format!("seed{number}")), bytes).expect("a seed");
    }
}

//! One program for all fuzz targets, so that it links once: `CLEAVEDB_FUZZ_TARGET` names the
//! target. With `CLEAVEDB_FUZZ_SEEDS` it writes the seeds of all targets to that folder instead.

#![no_main]

use cleavedb::fuzzing::{TARGETS, seeds};
use std::path::Path;
use std::sync::OnceLock;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        if let Some(folder) = std::env::var_os("CLEAVEDB_FUZZ_SEEDS") {
            write_seeds(folder.as_ref());
            std::process::exit(0);
        }
        let name = std::env::var("CLEAVEDB_FUZZ_TARGET").expect("CLEAVEDB_FUZZ_TARGET is set");
        let target = TARGETS.into_iter().find(|(known, _)| *known == name);
        TARGET.set(target.expect("a target of this name").1).expect("set once");
    },
    |data: &[u8]| {
        TARGET.get().expect("set at the start")(data);
    }
);

/// A folder for each target; a file for each seed.
fn write_seeds(folder: &Path) {
    for (target, _) in TARGETS {
        std::fs::create_dir_all(folder.join(target)).expect("a folder");
    }
    for (number, (target, bytes)) in seeds().into_iter().enumerate() {
        std::fs::write(folder.join(target).join(format!("seed{number}")), bytes).expect("a seed");
    }
}

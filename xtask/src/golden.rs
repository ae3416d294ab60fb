//! `cargo xtask golden`: writes the golden stores in `engine/tests/golden` that are missing. They
//! depend on a seed, the engine and its codecs alone.

use std::path::Path;
use std::process::{Command, ExitCode};

const MAKE: [&str; 11] = [
    "test",
    "--locked",
    "--package",
    "cleavedb",
    "--features",
    "zstd",
    "--test",
    "golden",
    "--",
    "--ignored",
    "make",
];

/// Writes the stores.
pub(crate) fn run(root: &Path) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    match Command::new(cargo).args(MAKE).current_dir(root).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

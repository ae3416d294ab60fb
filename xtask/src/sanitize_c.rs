//! `cargo xtask sanitize-c`: the C programs under address, leak and undefined-behaviour
//! sanitizers, first against the library as it is shipped, then against one that is built with the
//! address sanitizer itself. Takes some minutes; not part of `ci`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HOST: &str = "x86_64-unknown-linux-gnu";
const C_FLAGS: &str = "-fsanitize=address,undefined -fno-omit-frame-pointer";

/// Runs both.
pub(crate) fn run(root: &Path) -> ExitCode {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root.join("target"));
    let own = target.join("sanitize");
    let build = ["build", "--release", "--locked", "--package", "cleavedb-c"];
    let shipped = cargo(root, &build, &[]);
    let sanitized = [
        ("RUSTC_BOOTSTRAP", OsStr::new("1")),
        ("RUSTFLAGS", OsStr::new("-Zsanitizer=address")),
        ("CARGO_TARGET_DIR", own.as_os_str()),
    ];
    let instrumented = cargo(root, &[&build[..], &["--target", HOST]].concat(), &sanitized);
    let libraries =
        [target.join("release"), own.join(HOST).join("release")].map(|d| d.join("libcleavedb.so"));
    let test = ["test", "--locked", "--package", "cleavedb-c", "programs::"];
    let tested = libraries.iter().all(|library| {
        println!("== {}", library.display());
        let environment = [
            ("CLEAVEDB_C_LIBRARY", library.as_os_str()),
            ("CLEAVEDB_C_FLAGS", OsStr::new(C_FLAGS)),
            ("ASAN_OPTIONS", OsStr::new("detect_leaks=1")),
            ("UBSAN_OPTIONS", OsStr::new("halt_on_error=1:print_stacktrace=1")),
        ];
        cargo(root, &test, &environment)
    });
    if shipped && instrumented && tested { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &OsStr)]) -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root).envs(environment.iter().copied());
    command.status().is_ok_and(|status| status.success())
}

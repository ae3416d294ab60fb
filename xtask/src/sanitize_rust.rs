//! `cargo xtask sanitize-rust`: the engine's tests under the thread sanitizer, then under that for
//! addresses and leaks. Takes up to an hour; not part of `ci`.
//!
//! Needs `rustup toolchain install nightly --component rust-src`. All that is built stays in
//! `target/sanitize-thread` and `target/sanitize-address`.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The sanitizers, by name.
const SANITIZERS: [Sanitizer; 2] = [
    Sanitizer {
        name: "thread",
        // The standard library as well: races would be reported that its locks and channels
        // exclude, did the sanitizer not see them work.
        cargo: &["-Zbuild-std"],
        // System calls through libc, where the sanitizer sees them: a mapping made where another
        // one was would be taken for the same memory.
        rustc: "-Zsanitizer=thread --cfg=rustix_use_libc",
        options: ("TSAN_OPTIONS", "second_deadlock_stack=1 history_size=4"),
    },
    Sanitizer {
        name: "address",
        cargo: &[],
        rustc: "-Zsanitizer=address",
        options: ("ASAN_OPTIONS", "detect_leaks=1 detect_stack_use_after_return=1"),
    },
];

/// The default tests. The simulated ones are left out, because simulated threads run one at a time
/// and show no race.
const TESTS: [&str; 3] = ["--lib", "--test", "behaviour"];

struct Sanitizer {
    name: &'static str,
    cargo: &'static [&'static str],
    rustc: &'static str,
    options: (&'static str, &'static str),
}

/// Runs all sanitizers, or the one named first; the other arguments go to `cargo test`.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let named = |sanitizer: &&Sanitizer| Some(&sanitizer.name) == arguments.first();
    let (chosen, rest) = match SANITIZERS.iter().find(named) {
        Some(one) => (std::slice::from_ref(one), &arguments[1..]),
        None => (&SANITIZERS[..], arguments),
    };
    let tests = if rest.is_empty() { &TESTS } else { rest };
    let clean = chosen.iter().map(|sanitizer| sanitizer.test(root, tests)).collect::<Vec<_>>();
    if clean.contains(&false) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

impl Sanitizer {
    /// Returns true if all tests pass; a report of the sanitizer makes its program fail.
    fn test(&self, root: &Path, tests: &[&str]) -> bool {
        println!("== {} sanitizer", self.name);
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let mut target = target.unwrap_or_else(|| OsString::from(root.join("target")));
        target.push(format!("/sanitize-{}", self.name));
        // Named, so that the flags are for the tests alone, not for build scripts.
        let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo", "test", "--locked", "--target", &host]);
        command.args(["--package", "cleavedb", "--features", "io-uring"]);
        command.args(self.cargo).args(tests).current_dir(root);
        command.env("RUSTFLAGS", self.rustc).env("CARGO_TARGET_DIR", target);
        command.env(self.options.0, self.options.1);
        match command.status() {
            Ok(status) => status.success(),
            Err(error) => {
                eprintln!("rustup cannot be run: {error}");
                false
            }
        }
    }
}

//! `cargo xtask sanitize-rust`: the engine's tests under the thread sanitizer, then under that for
//! addresses. Takes up to an hour; `ci` has the unit tests under the latter, in minutes.
//!
//! The thread sanitizer needs `rustup toolchain install nightly --component rust-src`, the other
//! works with the stable toolchain. All that is built stays in `target/sanitize-thread` and
//! `target/sanitize-address`.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The sanitizers, by name.
const SANITIZERS: [Sanitizer; 2] = [
    Sanitizer {
        name: "thread",
        needs_nightly: true,
        // The standard library as well: races would be reported that its locks and channels
        // exclude, did the sanitizer not see them work.
        cargo: &["-Zbuild-std", "--features", "io-uring"],
        // System calls through libc, where the sanitizer sees them: a mapping made where another
        // one was would be taken for the same memory.
        rustc: "-Zsanitizer=thread --cfg=rustix_use_libc",
        options: ("TSAN_OPTIONS", "second_deadlock_stack=1 history_size=4"),
    },
    Sanitizer {
        name: "address",
        needs_nightly: false,
        // Reports name functions without lines, because building takes longer than running.
        cargo: &["--all-features", "--config=profile.dev.debug=0"],
        rustc: "-Zsanitizer=address",
        // Some tests leave memory on purpose: the threads of a simulation that is stuck, and what a
        // forked child must not take apart. Others ask for more memory than there is: that returns
        // null, as without a sanitizer.
        options: (
            "ASAN_OPTIONS",
            "detect_leaks=0 detect_stack_use_after_return=1 allocator_may_return_null=1",
        ),
    },
];

/// The default tests. The simulated ones are left out, because simulated threads run one at a time
/// and show no race.
const TESTS: [&str; 3] = ["--lib", "--test", "behaviour"];

struct Sanitizer {
    name: &'static str,
    /// True if the stable toolchain does not do.
    needs_nightly: bool,
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
        let mut command = self.cargo_command();
        command.args(["test", "--locked", "--target", &host, "--package", "cleavedb"]);
        command.args(self.cargo).args(tests).current_dir(root);
        // What was built before is not built again, so what helps with that would cost only.
        command.env("CARGO_INCREMENTAL", "0");
        command.env("RUSTFLAGS", self.rustc).env("CARGO_TARGET_DIR", target);
        command.env(self.options.0, self.options.1);
        match command.status() {
            Ok(status) => status.success(),
            Err(error) => {
                eprintln!("{:?} cannot be run: {error}", command.get_program());
                false
            }
        }
    }

    /// Returns the command of the toolchain that this sanitizer needs.
    fn cargo_command(&self) -> Command {
        if self.needs_nightly {
            let mut command = Command::new("rustup");
            command.args(["run", "nightly", "cargo"]);
            return command;
        }
        // The cargo that runs us, not another one that is found first.
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // Sanitizers are options that a stable compiler takes only if it is told to.
        command.env("RUSTC_BOOTSTRAP", "1");
        command
    }
}

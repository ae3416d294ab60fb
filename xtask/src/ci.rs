//! `cargo xtask ci`: the steps that must pass before a merge, the cheapest first. It stops at the
//! first failure and prints the time of each step.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A step: its name, its command, and the environment variables set for it.
struct Step {
    name: &'static str,
    command: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

const STEPS: [Step; 14] = [
    step("tidy", "cargo xtask tidy"),
    step("dependencies", "cargo xtask dependencies"),
    step("format", "cargo fmt --all --check"),
    step("lints", "cargo clippy --workspace --all-targets --locked -- -D warnings"),
    // Without the features that tests bring along, as programs build it.
    step("library alone", "cargo clippy -p cleavedb --lib --locked -- -D warnings"),
    step(
        "lints, all features",
        "cargo clippy --workspace --all-targets --all-features --locked -- -D warnings",
    ),
    Step {
        name: "documents",
        command: "cargo doc --workspace --no-deps --all-features --locked",
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    step("measuring harness", "python3 -m unittest discover -s bench/tests"),
    step("examples in documents", "cargo test --workspace --doc --locked"),
    step("tests", "cargo test --workspace --lib --bins --tests --examples --locked"),
    step(
        "golden stores, all codecs",
        "cargo test -p cleavedb --all-features --test golden --locked",
    ),
    step("package", "cargo publish --dry-run --locked --allow-dirty -p cleavedb"),
    step("fuzzing, briefly", "cargo xtask fuzz --inputs 3000"),
    // With real nodes: it takes the longest.
    step("Cassandra module", "cassandra/test"),
];

const fn step(name: &'static str, command: &'static str) -> Step {
    Step { name, command, environment: &[] }
}

/// Runs the steps.
pub(crate) fn run(root: &Path) -> ExitCode {
    let mut done: Vec<(&str, Duration)> = Vec::new();
    for step in &STEPS {
        println!("== {}: {}", step.name, step.command);
        let start = Instant::now();
        let passed = run_step(root, step);
        done.push((step.name, start.elapsed()));
        if !passed {
            print_durations(&done);
            eprintln!("== red: {} ({})", step.name, step.command);
            return ExitCode::FAILURE;
        }
    }
    print_durations(&done);
    println!("== green");
    ExitCode::SUCCESS
}

fn run_step(root: &Path, step: &Step) -> bool {
    let mut words = step.command.split_whitespace();
    let Some(program) = words.next() else { return false };
    // The cargo that runs us, not another one that is found first.
    let cargo = std::env::var_os("CARGO").filter(|_| program == "cargo");
    let mut command = Command::new(cargo.unwrap_or_else(|| program.into()));
    command.args(words).current_dir(root).envs(step.environment.iter().copied());
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{program} cannot be run: {error}");
            false
        }
    }
}

fn print_durations(done: &[(&str, Duration)]) {
    for (name, duration) in done {
        println!("{:>8.1} s  {name}", duration.as_secs_f64());
    }
}

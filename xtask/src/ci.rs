//! `cargo xtask ci`: all that must be green before anything is merged, cheapest first. It stops
//! at the first red step, and ends with how long each took.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A step: what it is called and the command; `cargo` is the one that runs us.
struct Step {
    name: &'static str,
    arguments: &'static str,
    /// Variables set for it.
    environment: &'static [(&'static str, &'static str)],
}

const STEPS: [Step; 7] = [
    step("tidy", "xtask tidy"),
    step("format", "fmt --all --check"),
    step("lints", "clippy --workspace --all-targets --locked -- -D warnings"),
    step(
        "lints, all features",
        "clippy --workspace --all-targets --all-features --locked -- -D warnings",
    ),
    Step {
        name: "documents",
        arguments: "doc --workspace --no-deps --all-features --locked",
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    step("examples in documents", "test --workspace --doc --locked"),
    // Last, so that its summary closes the output.
    step("tests", "test --workspace --lib --bins --tests --examples --locked"),
];

const fn step(name: &'static str, arguments: &'static str) -> Step {
    Step { name, arguments, environment: &[] }
}

/// Runs the steps.
pub(crate) fn run(root: &Path) -> ExitCode {
    let mut done: Vec<(&str, Duration)> = Vec::new();
    for step in &STEPS {
        println!("== {}: cargo {}", step.name, step.arguments);
        let start = Instant::now();
        let passed = run_step(root, step);
        done.push((step.name, start.elapsed()));
        if !passed {
            eprintln!("== red: {} (cargo {})", step.name, step.arguments);
            print_durations(&done);
            return ExitCode::FAILURE;
        }
    }
    print_durations(&done);
    println!("== green");
    ExitCode::SUCCESS
}

fn run_step(root: &Path, step: &Step) -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(step.arguments.split_whitespace()).current_dir(root);
    command.envs(step.environment.iter().copied());
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cargo cannot be run: {error}");
            false
        }
    }
}

fn print_durations(done: &[(&str, Duration)]) {
    for (name, duration) in done {
        println!("{:>8.1} s  {name}", duration.as_secs_f64());
    }
}

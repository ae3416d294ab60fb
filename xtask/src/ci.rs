//! `cargo xtask ci`: the steps that must pass before a merge, the cheapest first. It stops at the
//! first failure and prints the time of each step.
//!
//! One step waits for servers most of its time, so it runs beside the others, and what it prints
//! comes at its end.

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::side_command::SideCommand;

/// A step: its name, its command, and the environment variables set for it.
struct Step {
    name: &'static str,
    command: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

/// The steps that take seconds, so that little is begun in vain.
const QUICK_STEPS: [Step; 3] = [
    step("tidy", "cargo xtask tidy"),
    step("dependencies", "cargo xtask dependencies"),
    step("format", "cargo fmt --all --check"),
];

const STEPS: [Step; 13] = [
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
    step("examples", "cargo xtask examples"),
    // Every database of these tests is encrypted.
    Step {
        name: "tests, encrypted",
        command: "cargo test -p cleavedb --test behaviour --locked",
        environment: &[(
            "CLEAVEDB_TEST_KEY",
            "8f1d3c5b7a90e2f4a6c8b0d2e4f60718293a4b5c6d7e8f90a1b2c3d4e5f60718",
        )],
    },
    step("instructions of hot paths", "cargo xtask instructions"),
    // The golden stores too, because the sanitizer's build has all codecs.
    step(
        "address sanitizer, all features",
        "cargo xtask sanitize-rust address --lib --test golden",
    ),
    step("package", "cargo publish --dry-run --locked --allow-dirty -p cleavedb"),
    step("fuzzing, briefly", "cargo xtask fuzz --inputs 3000"),
];

/// The step that runs beside the long ones: its nodes take minutes to begin, to agree and to end.
const STEP_BESIDE: Step = step("Cassandra module", "cassandra/test");

const fn step(name: &'static str, command: &'static str) -> Step {
    Step { name, command, environment: &[] }
}

/// Runs the steps.
pub(crate) fn run(root: &Path) -> ExitCode {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let output = root.join(target).join("ci/beside.log");
    let report = run_all(root, (&QUICK_STEPS, &STEPS), &STEP_BESIDE, &output);
    print!("{}", report.text());
    match report.red {
        Some(_) => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    }
}

/// What became of the steps.
#[derive(Default)]
struct CiReport {
    done: Vec<(&'static str, Duration)>,
    /// The first step that failed, with its command.
    red: Option<(&'static str, &'static str)>,
}

impl CiReport {
    /// Notes how a step ended; returns true if it passed.
    fn note(&mut self, step: &Step, (passed, time): (bool, Duration)) -> bool {
        self.done.push((step.name, time));
        if !passed && self.red.is_none() {
            self.red = Some((step.name, step.command));
        }
        passed
    }

    /// Returns the time of each step and the outcome.
    fn text(&self) -> String {
        let mut text = String::new();
        for (name, duration) in &self.done {
            let _ = writeln!(text, "{:>8.1} s  {name}", duration.as_secs_f64());
        }
        match self.red {
            Some((name, command)) => text + &format!("== red: {name} ({command})\n"),
            None => text + "== green\n",
        }
    }
}

/// Runs the quick steps, then the others and, beside them, one whose output goes to a file until
/// it ends. The first failure, seen at the end of a step, is the last thing that happens.
fn run_all(
    root: &Path,
    (quick, long): (&[Step], &[Step]),
    beside: &Step,
    output: &Path,
) -> CiReport {
    let mut report = CiReport::default();
    if !quick.iter().all(|step| report.note(step, run_step(root, step))) {
        return report;
    }
    println!("== {}, beside the next steps: {}", beside.name, beside.command);
    let begun = command_of(root, beside).and_then(|command| SideCommand::begin(&command, output));
    let mut running = match begun {
        Ok(running) => running,
        Err(error) => {
            eprintln!("{} cannot be run: {error}", beside.command);
            report.note(beside, (false, Duration::ZERO));
            return report;
        }
    };
    for step in long {
        if !report.note(step, run_step(root, step)) {
            end(beside, running);
            return report;
        }
        if running.has_failed() {
            break;
        }
    }
    let outcome = running.wait();
    println!("== {}: {}\n{}", beside.name, beside.command, running.printed());
    report.note(beside, outcome);
    report
}

/// Ends the step beside the others because one of those has failed.
fn end(beside: &Step, running: SideCommand) {
    println!("== {} is ended; what it printed is in {}", beside.name, running.output().display());
    if let Err(error) = running.end() {
        eprintln!("{} cannot be waited for: {error}", beside.command);
    }
}

/// Runs a step; returns whether it passed, and how long it took.
fn run_step(root: &Path, step: &Step) -> (bool, Duration) {
    println!("== {}: {}", step.name, step.command);
    let begun = Instant::now();
    let passed = command_of(root, step).and_then(|mut command| command.status());
    let passed = passed.map(|status| status.success()).unwrap_or_else(|error| {
        eprintln!("{} cannot be run: {error}", step.command);
        false
    });
    (passed, begun.elapsed())
}

/// Returns the command of a step, with its environment, for either way to wait for it.
fn command_of(root: &Path, step: &Step) -> io::Result<Command> {
    let mut words = step.command.split_whitespace();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    // The cargo that runs us, not another one that is found first.
    let cargo = std::env::var_os("CARGO").filter(|_| program == "cargo");
    let mut command = Command::new(cargo.unwrap_or_else(|| program.into()));
    command.args(words).current_dir(root).envs(step.environment.iter().copied());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs steps whose commands are given, quick ones, long ones and the one beside; returns the
    /// names of those that ran to their end, the one that failed, and what the last one printed.
    fn outcome(quick: &[&'static str], long: &[&'static str], beside: &'static str) -> String {
        let dir = tempdir(beside);
        let output = dir.join("beside.log");
        let steps = |commands: &[&'static str]| -> Vec<Step> {
            commands.iter().map(|command| step(command, command)).collect()
        };
        let beside = step("beside", beside);
        let report = run_all(Path::new("/"), (&steps(quick), &steps(long)), &beside, &output);
        let names: Vec<_> = report.done.iter().map(|(name, _)| *name).collect();
        let text = report.text();
        let last = text.lines().last().unwrap_or_default().to_owned();
        let printed = std::fs::read_to_string(&output).unwrap_or_default();
        std::fs::remove_dir_all(&dir).unwrap();
        format!("{}; {last}; printed {printed:?}", names.join(", "))
    }

    fn tempdir(name: &str) -> std::path::PathBuf {
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        let caller = std::thread::current().name().unwrap_or_default().replace("::", "-");
        let name = format!("cleavedb-ci-{}-{caller}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn green_is_told_once_all_have_passed() {
        let found = outcome(&["true"], &["echo a", "echo b"], "echo nodes");
        assert_eq!(found, "true, echo a, echo b, beside; == green; printed \"nodes\\n\"");
    }

    #[test]
    fn nothing_is_begun_after_a_quick_step_that_failed() {
        let found = outcome(&["false", "true"], &["true"], "echo nodes");
        assert_eq!(found, "false; == red: false (false); printed \"\"");
    }

    #[test]
    fn a_failed_step_ends_the_one_beside() {
        // It would run for ever.
        let found = outcome(&["true"], &["echo a", "false", "echo b"], "tail -f /dev/null");
        assert_eq!(found, "true, echo a, false; == red: false (false); printed \"\"");
    }

    #[test]
    fn a_failure_beside_is_told_with_its_name() {
        let found = outcome(&["true"], &[], "ls /there/is/no/such/file");
        let red = "== red: beside (ls /there/is/no/such/file); printed \"";
        assert!(found.starts_with(&format!("true, beside; {red}")), "{found}");
        assert!(found.contains("No such file"), "{found}");
    }

    /// Guards that the environment of a step does not depend on whether it runs beside others.
    #[test]
    fn each_step_has_its_environment() {
        let dir = tempdir("environment");
        let output = dir.join("beside.log");
        let step = Step {
            name: "prints a variable",
            command: "printenv CLEAVEDB_OF_A_STEP",
            environment: &[("CLEAVEDB_OF_A_STEP", "set")],
        };
        let report = run_all(Path::new("/"), (&[], std::slice::from_ref(&step)), &step, &output);
        let printed = std::fs::read_to_string(&output).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!((report.red, printed.as_str()), (None, "set\n"));
    }

    #[test]
    fn a_step_that_cannot_be_run_is_red() {
        let found = outcome(&["/no/such/program"], &[], "true");
        assert_eq!(
            found,
            "/no/such/program; == red: /no/such/program (/no/such/program); printed \"\""
        );
    }
}

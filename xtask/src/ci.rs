//! `cargo xtask ci`: the steps that must pass before a merge, the cheapest first. It stops at the
//! first failure and prints the time of each step.
//!
//! Many steps have one thread at work for minutes, or wait. So they are in several lanes, which run
//! beside each other. What a step of the first lane prints is seen at once, that of another lane
//! after its end, when the first lane is between two steps.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::lane::{Ended, Lane, Step, StepPlace, step};

/// The steps that take seconds, so that little is begun in vain.
const QUICK_STEPS: [Step; 3] = [
    step("tidy", "cargo xtask tidy"),
    step("dependencies", "cargo xtask dependencies"),
    step("format", "cargo fmt --all --check"),
];

/// The steps that share what is built. All but one select the whole workspace: the dependencies of
/// a package that is selected alone have fewer features, so they and it would be built again.
const STEPS: [Step; 8] = [
    step("lints", "cargo clippy --workspace --all-targets --locked -- -D warnings"),
    // Without the features that tests bring along, as programs build it.
    step("library alone", "cargo clippy -p cleavedb --lib --locked -- -D warnings"),
    step(
        "lints, all features",
        "cargo clippy --workspace --all-targets --all-features --locked -- -D warnings",
    ),
    Step {
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
        ..step("documents", "cargo doc --workspace --no-deps --all-features --locked")
    },
    step("examples in documents", "cargo test --workspace --doc --locked"),
    step("tests", "cargo test --workspace --lib --bins --tests --locked"),
    step("examples", "cargo xtask examples"),
    // Every database of these tests is encrypted.
    Step {
        environment: &[(
            "CLEAVEDB_TEST_KEY",
            "8f1d3c5b7a90e2f4a6c8b0d2e4f60718293a4b5c6d7e8f90a1b2c3d4e5f60718",
        )],
        ..step("tests, encrypted", "cargo test --workspace --test behaviour --locked")
    },
];

/// The steps beside them that build with other flags, so in folders of their own: cargo waits for
/// whoever else builds in the same one.
const STEPS_APART: [Step; 5] = [
    step("measuring harness", "python3 -m unittest discover -s bench/tests"),
    // The golden stores too, because the sanitizer's build has all codecs. Optimising the engine
    // would take longer than these tests, and leave fewer accesses to look at.
    step(
        "address sanitizer, all features",
        "cargo xtask sanitize-rust address --lib --test golden \
         --config=profile.dev.package.cleavedb.opt-level=0",
    ),
    step("instructions of hot paths", "cargo xtask instructions"),
    step("fuzzing, briefly", "cargo xtask fuzz --inputs 3000"),
    // It must build; what it was built from is of no use afterwards.
    Step {
        environment: &[("CARGO_PROFILE_DEV_DEBUG", "0")],
        folder: Some("package"),
        ..step("package", "cargo publish --dry-run --locked --allow-dirty -p cleavedb")
    },
];

/// The step beside both whose nodes take minutes to begin, to agree and to end.
const STEPS_OF_NODES: [Step; 1] = [step("Cassandra module", "cassandra/test")];

/// Runs the steps.
pub(crate) fn run(root: &Path) -> ExitCode {
    let report = match StepPlace::new(root) {
        Ok(place) => run_all(&place, &QUICK_STEPS, &STEPS, &[&STEPS_APART, &STEPS_OF_NODES]),
        Err(error) => {
            eprintln!("ci: this program's own path is unknown: {error}");
            return ExitCode::FAILURE;
        }
    };
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

    /// Notes and prints what has ended beside the first lane; returns true if all of it passed.
    fn note_ended<'a>(&mut self, ended: impl IntoIterator<Item = Ended<'a>>) -> bool {
        ended.into_iter().all(|Ended { step, outcome, printed }| {
            println!("== {}: {}\n{printed}", step.name, step.command);
            self.note(step, outcome)
        })
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

/// Runs the quick steps, then the first lane and, beside it, the others. A failure ends what runs
/// in other lanes; it is seen once the first lane is between two steps.
fn run_all(place: &StepPlace, quick: &[Step], first: &[Step], beside: &[&[Step]]) -> CiReport {
    let mut report = CiReport::default();
    if !quick.iter().all(|step| report.note(step, run_step(place, step))) {
        return report;
    }
    let lanes: Vec<_> = beside.iter().map(|steps| Lane::new(place, steps)).collect();
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        for lane in &lanes {
            let sender = sender.clone();
            scope.spawn(move || lane.run(&sender));
        }
        drop(sender);
        let passed = first.iter().all(|step| {
            report.note(step, run_step(place, step)) && report.note_ended(ended.try_iter())
        });
        // The end of the channel is that of the lanes.
        if !passed || !report.note_ended(&ended) {
            lanes.iter().for_each(Lane::end);
        }
    });
    report
}

/// Runs a step; returns whether it passed, and how long it took.
fn run_step(place: &StepPlace, step: &Step) -> (bool, Duration) {
    println!("== {}: {}", step.name, step.command);
    let begun = Instant::now();
    let passed = place.command(step).and_then(|mut command| command.status());
    let passed = passed.map(|status| status.success()).unwrap_or_else(|error| {
        eprintln!("{} cannot be run: {error}", step.command);
        false
    });
    (passed, begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs steps whose commands are given, quick ones, those of the first lane and those of two
    /// beside it; returns the names of those that ran to their end, the one that failed, and what
    /// the last ones beside have printed.
    fn outcome(
        quick: &[&'static str],
        first: &[&'static str],
        beside: [&'static str; 2],
    ) -> String {
        let steps = |commands: &[&'static str]| -> Vec<Step> {
            commands.iter().map(|command| step(command, command)).collect()
        };
        let place = place(beside[0]);
        let lanes = [[step("beside", beside[0])], [step("other", beside[1])]];
        let lanes: Vec<&[Step]> = lanes.iter().map(|lane| &lane[..]).collect();
        let report = run_all(&place, &steps(quick), &steps(first), &lanes);
        let mut names: Vec<_> = report.done.iter().map(|(name, _)| *name).collect();
        // When those beside are over is not known.
        names.sort_by_key(|name| ["beside", "other"].iter().position(|it| it == name));
        let text = report.text();
        let last = text.lines().last().unwrap_or_default().to_owned();
        let printed = std::fs::read_to_string(place.output(&lanes[0][0])).unwrap_or_default();
        std::fs::remove_dir_all(place.target()).unwrap();
        format!("{}; {last}; printed {printed:?}", names.join(", "))
    }

    /// Returns a place whose target folder is an own one of the calling test.
    fn place(name: &str) -> StepPlace {
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        let caller = std::thread::current().name().unwrap_or_default().replace("::", "-");
        let name = format!("cleavedb-ci-{}-{caller}-{name}", std::process::id());
        let target = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&target).unwrap();
        StepPlace::with_target("/".into(), target).unwrap()
    }

    #[test]
    fn green_is_told_once_all_have_passed() {
        let found = outcome(&["true"], &["echo a", "echo b"], ["echo nodes", "true"]);
        assert_eq!(found, "true, echo a, echo b, beside, other; == green; printed \"nodes\\n\"");
    }

    #[test]
    fn nothing_is_begun_after_a_quick_step_that_failed() {
        let found = outcome(&["false", "true"], &["true"], ["echo nodes", "true"]);
        assert_eq!(found, "false; == red: false (false); printed \"\"");
    }

    #[test]
    fn a_failed_step_ends_those_beside() {
        // They would run for ever.
        let endless = "tail -f /dev/null";
        let found = outcome(&["true"], &["echo a", "false", "echo b"], [endless, endless]);
        assert_eq!(found, "true, echo a, false; == red: false (false); printed \"\"");
    }

    #[test]
    fn a_failure_beside_is_told_with_its_name_and_ends_the_other_lane() {
        let found = outcome(&["true"], &[], ["ls /there/is/no/such/file", "tail -f /dev/null"]);
        let red = "== red: beside (ls /there/is/no/such/file); printed \"";
        assert!(found.starts_with(&format!("true, beside; {red}")), "{found}");
        assert!(found.contains("No such file"), "{found}");
    }

    #[test]
    fn a_lane_runs_its_steps_in_order_up_to_the_one_that_fails() {
        let place = place("lane");
        let lane =
            [step("one", "true"), step("two", "true"), step("3", "false"), step("4", "true")];
        let report = run_all(&place, &[], &[], &[&lane]);
        let names: Vec<_> = report.done.iter().map(|(name, _)| *name).collect();
        assert_eq!((&names[..], report.red), (&["one", "two", "3"][..], Some(("3", "false"))));
        assert!(place.output(&lane[2]).exists() && !place.output(&lane[3]).exists());
        std::fs::remove_dir_all(place.target()).unwrap();
    }

    /// Guards that the environment of a step does not depend on whether it runs beside others.
    #[test]
    fn each_step_has_its_environment_and_folder() {
        let place = place("environment");
        let step = Step {
            environment: &[("CLEAVEDB_OF_A_STEP", "set")],
            folder: Some("apart"),
            ..step("prints variables", "printenv CLEAVEDB_OF_A_STEP CARGO_TARGET_DIR")
        };
        let lanes: [&[Step]; 1] = [std::slice::from_ref(&step)];
        let report = run_all(&place, &[], lanes[0], &lanes);
        let printed = std::fs::read_to_string(place.output(&step)).unwrap();
        let folder = place.target().join("apart");
        std::fs::remove_dir_all(place.target()).unwrap();
        assert_eq!((report.red, printed), (None, format!("set\n{}\n", folder.display())));
    }

    #[test]
    fn a_step_that_cannot_be_run_is_red() {
        let found = outcome(&["/no/such/program"], &[], ["true", "true"]);
        let red = "== red: /no/such/program (/no/such/program); printed \"\"";
        assert_eq!(found, format!("/no/such/program; {red}"));
    }

    /// Guards that no step waits for a build of another lane, with which it would share a folder.
    #[test]
    fn commands_of_xtask_are_run_without_cargo() {
        let place = place("own");
        let command = place.command(&step("fuzz", "cargo xtask fuzz --inputs 3")).unwrap();
        std::fs::remove_dir_all(place.target()).unwrap();
        assert_eq!(command.get_program(), std::env::current_exe().unwrap());
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["fuzz", "--inputs", "3"]);
    }
}

//! `cargo xtask instructions`: counts what an operation of each hot path takes in instructions, and
//! compares that with `bench/instructions/expected.txt`. Counts hardly depend on what else the
//! machine does, so a path that has become more expensive is found where times would be noise.
//!
//! The paths are in the program `bench/instructions`, which runs below valgrind's tool callgrind.

mod callgrind;
mod expected;

use crate::instructions::callgrind::{Callgrind, check_for_valgrind};
use crate::instructions::expected::{CountVerdict, Counts};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask instructions [--record] [PATH…]";
const PACKAGE: &str = "cleavedb-instructions";
/// The file of expected counts, from the root.
const EXPECTED: &str = "bench/instructions/expected.txt";
/// Runs of each path whose median is recorded, so that the middle of the spread is expected.
const RUNS_TO_RECORD: usize = 5;
/// The most runs of a path whose count is too high. The lowest is compared: what time adds, such as
/// looks for background work on a busy machine, is not in each run, and a worse path is.
const RUNS_TO_COMPARE: usize = 3;
/// The counts are those of the code for these machines; others have other instructions.
const IS_COUNTED_HERE: bool =
    cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"));

/// Counts the paths that are named, or all; compares the counts or records them.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let is_recorded = match flags.as_slice() {
        [] => false,
        ["--record"] => true,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if !IS_COUNTED_HERE {
        println!("instructions: skipped; the expected counts are those of x86-64 Linux with glibc");
        return ExitCode::SUCCESS;
    }
    let outcome = if is_recorded { record(root, &names) } else { compare(root, &names) };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Counts paths and prints the counts beside the expected ones; returns whether none is too high.
fn compare(root: &Path, names: &[&str]) -> io::Result<bool> {
    let expected = read(root)?;
    let callgrind = prepare(root)?;
    let known = callgrind.paths()?;
    let names = chosen(names, &known)?;
    println!("{:<16}{:>10}{:>10}{:>8}", "path", "expected", "counted", "ratio");
    let mut verdicts = Vec::new();
    for name in names {
        let verdict = judged(&name, expected.get(&name), || callgrind.count(&name))?;
        println!("{verdict}");
        verdicts.push(verdict);
    }
    let gone = expected.names().filter(|name| !known.iter().any(|known| known == name));
    let mut advice: Vec<String> = gone
        .map(|name| format!("{EXPECTED} has `{name}`, which is no path; take out its line"))
        .collect();
    let is_red = !advice.is_empty() || verdicts.iter().any(CountVerdict::is_red);
    advice.extend(verdicts.iter().filter_map(|verdict| verdict.advice(callgrind.folder())));
    let here = environment()?;
    let is_comparable = expected.environment() == here;
    if !advice.is_empty() && !is_comparable {
        advice.push(format!(
            "the expected counts are of {}, this is {here}, so nothing is red; count the parent \
             commit here, and if it differs as much, the change is not the cause",
            expected.environment()
        ));
    }
    advice.iter().for_each(|advice| eprintln!("instructions: {advice}"));
    Ok(!is_red || !is_comparable)
}

/// Counts a path, again if the count is too high; returns what is said of the lowest.
fn judged(
    name: &str,
    expected: Option<u64>,
    mut count: impl FnMut() -> io::Result<u64>,
) -> io::Result<CountVerdict> {
    let mut lowest = count()?;
    for _ in 1..RUNS_TO_COMPARE {
        if !CountVerdict::of(name, expected, lowest).is_red() {
            break;
        }
        lowest = lowest.min(count()?);
    }
    Ok(CountVerdict::of(name, expected, lowest))
}

/// Counts paths several times and writes the medians to the file; returns true.
fn record(root: &Path, names: &[&str]) -> io::Result<bool> {
    let callgrind = prepare(root)?;
    let known = callgrind.paths()?;
    let mut counts = if names.is_empty() { Counts::default() } else { read(root)? };
    println!("{:<16}{:>10}{:>10}{:>10}", "path", "lowest", "median", "highest");
    for name in chosen(names, &known)? {
        let counted: io::Result<Vec<u64>> =
            (0..RUNS_TO_RECORD).map(|_| callgrind.count(&name)).collect();
        let mut counted = counted?;
        counted.sort_unstable();
        let (lowest, median) = (counted[0], counted[RUNS_TO_RECORD / 2]);
        println!("{name:<16}{lowest:>10}{median:>10}{:>10}", counted[RUNS_TO_RECORD - 1]);
        counts.set(&name, median);
    }
    counts.keep_only(&known);
    std::fs::write(root.join(EXPECTED), counts.text(&environment()?))?;
    println!("instructions: {EXPECTED} is written");
    Ok(true)
}

/// Returns the expected counts.
fn read(root: &Path) -> io::Result<Counts> {
    let text = std::fs::read_to_string(root.join(EXPECTED))
        .map_err(|error| io::Error::other(format!("{EXPECTED}: {error}")))?;
    Counts::parse(&text).map_err(|problem| io::Error::other(format!("{EXPECTED}: {problem}")))
}

/// Returns the paths that are named, or all if none is.
fn chosen(names: &[&str], known: &[String]) -> io::Result<Vec<String>> {
    if names.is_empty() {
        return Ok(known.to_vec());
    }
    if let Some(name) = names.iter().find(|name| !known.iter().any(|known| known == *name)) {
        let known = known.join(", ");
        return Err(io::Error::other(format!("there is no path `{name}`; there are {known}")));
    }
    Ok(names.iter().map(|name| (*name).to_owned()).collect())
}

/// Builds the program of the paths, as programs build the engine for use, and returns the way to
/// count.
fn prepare(root: &Path) -> io::Result<Callgrind> {
    check_for_valgrind()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--release", "--locked", "--package", PACKAGE];
    if !Command::new(cargo).args(build).current_dir(root).status()?.success() {
        return Err(io::Error::other("the program of the paths can't be built"));
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let target = root.join(target);
    Callgrind::new(&target.join("release").join(PACKAGE), &target.join("instructions"))
}

/// Returns what the counts depend on besides the sources: compiler, C library and valgrind.
fn environment() -> io::Result<String> {
    let rustc = said("rustc", &["--version"])?;
    let rustc: Vec<&str> = rustc.split_whitespace().take(2).collect();
    let library = said("getconf", &["GNU_LIBC_VERSION"])?;
    Ok(format!("{}, {library}, {}", rustc.join(" "), said("valgrind", &["--version"])?))
}

/// Returns the line that a command prints.
fn said(program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output =
        output.map_err(|error| io::Error::other(format!("{program} cannot be run: {error}")))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_chosen_by_name() {
        let known = ["get".to_owned(), "put".to_owned()];
        assert_eq!(chosen(&[], &known).unwrap(), known);
        assert_eq!(chosen(&["put"], &known).unwrap(), ["put"]);
        let error = chosen(&["put", "pet"], &known).unwrap_err().to_string();
        assert_eq!(error, "there is no path `pet`; there are get, put");
    }

    /// The runs that are needed, and the count that is compared, of these counts of runs.
    fn judged_by(counts: &[u64]) -> (usize, String) {
        let mut left = counts.iter().copied();
        let next = || left.next().ok_or_else(|| io::Error::other("one run too many"));
        let verdict = judged("get", Some(1000), next).unwrap();
        (counts.len() - left.len(), verdict.to_string())
    }

    #[test]
    fn a_count_that_is_too_high_is_counted_again_and_the_lowest_is_told() {
        let told = |counted, ratio| format!("get                   1000{counted:>10}{ratio:>8}");
        assert_eq!(judged_by(&[1030, 900]), (1, told(1030, "1.030")));
        assert_eq!(judged_by(&[1200, 1010, 900]), (2, told(1010, "1.010")));
        assert_eq!(judged_by(&[1200, 1100, 1150]), (3, told(1100, "1.100")));
    }

    /// The file in the repository is one that can be read, whatever wrote it last.
    #[test]
    fn the_expected_counts_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let counts = read(root).unwrap();
        assert!(counts.names().count() >= 9 && !counts.environment().is_empty());
    }
}

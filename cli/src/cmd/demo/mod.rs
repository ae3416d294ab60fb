//! `cleave demo`: the main use on real data, in less than a minute: load, read, scan, overwrite,
//! kill the writer, recover, and verify every record against a model.

mod library;
mod results;
mod words;
mod writer;

use crate::open;
use crate::outcome::{Outcome, Status, Stop, plain, reported};
use crate::output::Output;
use crate::place::{self, PathKind};
use crate::random::SplitMix64;
use crate::text::{human_bytes, human_count};
use clap::Args;
use cleavedb::{Db, Error, ErrorKind, Keyspace, Options, Result};
use library::{Library, Round};
use results::{DemoStep, Results};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

const READS: u64 = 200_000;
/// One word in this many is hot.
const HOT_SHARE: usize = 10;
const HOT_ROUNDS: u64 = 10;
const KILLS: u64 = 5;
/// Range of the number of acknowledged writes at which a writer is killed.
const WRITES_BEFORE_KILL: Range<u64> = 1_000..20_000;

/// Show the database on real data: load a dictionary, read it, revise it, and kill its writer
///
/// It needs no argument: it works in a temporary directory, which it removes. It takes less than a
/// minute. The exit status is 1 if a record was not what it must be.
#[derive(Args)]
pub(crate) struct Demo {
    /// Work in this new directory and keep it
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Run as the writer of this round until killed
    #[arg(long, hide = true, requires = "dir")]
    writer: Option<u64>,
}

pub(crate) fn run(args: &Demo) -> Outcome {
    if let (Some(round), Some(dir)) = (args.writer, &args.dir) {
        writer::write(dir, round)?;
        return Ok(Status::Done);
    }
    let workplace = DemoWorkplace::new(args.dir.as_deref())?;
    let mut out = Output::new();
    match show(&workplace.dir, &mut out) {
        // This command is there to find wrong records, so one is a result, not an error.
        Err(Stop::Error(error)) if error.kind() == ErrorKind::Corruption => {
            let told = out.line(format!("\nNOT verified.\n{}", plain(&error)));
            reported(told.and_then(|()| out.finish()), Status::Negative)
        }
        Err(stop) => Err(stop),
        Ok(()) => {
            if args.dir.is_some() {
                out.line(format!(
                    "\nLook around: cleave scan {0} --prefix sea --keys-only, \
                    cleave get {0} cleave, cleave stats {0}",
                    workplace.dir.display()
                ))?;
            }
            out.finish()?;
            Ok(Status::Done)
        }
    }
}

/// The directory that the demo works in; a temporary one is removed in the end.
struct DemoWorkplace {
    dir: PathBuf,
    temporary: bool,
}

impl DemoWorkplace {
    fn new(dir: Option<&Path>) -> Result<Self> {
        let Some(dir) = dir else {
            let name = format!("cleave-demo-{}", std::process::id());
            return Ok(DemoWorkplace { dir: std::env::temp_dir().join(name), temporary: true });
        };
        match place::look(dir)? {
            PathKind::Missing | PathKind::Empty => {}
            _ => {
                return Err(Error::already_exists("this directory is in use")
                    .in_file(dir)
                    .advise("give a new or empty directory, or none to use a temporary one"));
            }
        }
        Ok(DemoWorkplace { dir: dir.to_path_buf(), temporary: false })
    }
}

impl Drop for DemoWorkplace {
    fn drop(&mut self) {
        if self.temporary {
            // A directory that can't be removed is at least among the temporary files.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn show(dir: &Path, out: &mut Output) -> Result<(), Stop> {
    say(
        out,
        "The demo of CleaveDB loads a dictionary, reads it, revises it, and kills its writer.",
    )?;
    let mut library = Library::new(words::articles());
    let mut results = Results { records: library.articles.len() as u64, ..Results::default() };
    results.bytes = library.bytes();
    say(
        out,
        &format!(
            "Data       WordNet 3.0 of Princeton University (licence: cli/data/NOTICE): the \
             articles of {} English words, {}",
            human_count(results.records),
            human_bytes(results.bytes)
        ),
    )?;
    say(out, &format!("Directory  {}\n", dir.display()))?;

    let db = open::to_fill(dir, Options::default())?;
    work(&db, &mut library, &mut results, out)?;
    db.wait_idle()?;
    results.write_amplification = db.stats().write_amplification();
    db.close()?;

    kill_writers(dir, &mut library, &mut results, out)?;
    results.space_before = place::allocated_bytes(dir)?;
    say(out, "Compact    the tree, and drop dead entries")?;
    let db = open::to_change(dir)?;
    db.compact()?;
    library.verify(&db.default_keyspace())?;
    db.close()?;
    results.space = place::allocated_bytes(dir)?;

    say(out, "Check      every checksum, order and pointer of every file\n")?;
    let report = open::to_check(dir)?.check()?;
    if let Some(finding) = report.problems.iter().chain(&report.unverified).next() {
        return Err(finding.error.clone().into());
    }
    results.files = report.files;
    out.bytes(results.table().as_bytes())
}

/// Loads, reads, scans and revises.
fn work(
    db: &Db,
    library: &mut Library,
    results: &mut Results,
    out: &mut Output,
) -> Result<(), Stop> {
    let keyspace = db.default_keyspace();
    let count = library.articles.len() as u64;
    say(out, "Load       each word with its article, one write per word")?;
    let load = timed("load", count, || library.load(&keyspace))?;
    say(out, &format!("Read       {} random words, each compared", human_count(READS)))?;
    let read = timed("read at random", READS, || library.read_random(&keyspace, READS))?;
    say(out, "Scan       all pairs in order, each compared")?;
    let scan = timed("scan in order", count, || library.verify(&keyspace))?;
    let hot = count / HOT_SHARE as u64;
    say(out, &format!("Overwrite  {} hot words, {HOT_ROUNDS} times each", human_count(hot)))?;
    let revise = timed("overwrite", hot * HOT_ROUNDS, || revise_hot(library, &keyspace))?;
    library.verify(&keyspace)?;
    look_up(&keyspace, "cleave", out)?;
    results.steps = vec![load, read, scan, revise];
    Ok(())
}

fn revise_hot(library: &mut Library, keyspace: &Keyspace) -> Result<u64> {
    let mut bytes = 0;
    for _ in 0..HOT_ROUNDS {
        let count = library.articles.len() - library.articles.len() % HOT_SHARE;
        for index in (0..count).step_by(HOT_SHARE) {
            bytes += library.revise(keyspace, index)?;
        }
    }
    Ok(bytes)
}

/// Prints the article of one word.
fn look_up(keyspace: &Keyspace, word: &str, out: &mut Output) -> Result<(), Stop> {
    let article = keyspace.get(word)?.unwrap_or_default();
    let article: serde_json::Value = serde_json::from_slice(&article)
        .map_err(|error| Error::corruption(format!("the article of {word:?} is cut: {error}")))?;
    for sense in article["senses"].as_array().into_iter().flatten() {
        say(out, &format!("Look up    {word}: {}", sense["gloss"].as_str().unwrap_or_default()))?;
    }
    Ok(())
}

/// Runs writers, kills them, and verifies what they left.
fn kill_writers(
    dir: &Path,
    library: &mut Library,
    results: &mut Results,
    out: &mut Output,
) -> Result<(), Stop> {
    let mut random = SplitMix64::new(u64::from(std::process::id()), 1);
    let span = WRITES_BEFORE_KILL.end - WRITES_BEFORE_KILL.start;
    let mut verifying = DemoStep { name: "recover and verify", ..DemoStep::default() };
    for number in 0..KILLS {
        let enough = WRITES_BEFORE_KILL.start + random.below(span);
        let told = writer::run_and_kill(dir, number, enough)?;
        let started = Instant::now();
        let db = open::to_change(dir)?;
        let round = Round::new(number, library.articles.len());
        let survivors = library.verify_survivors(&db.default_keyspace(), &round, told)?;
        db.close()?;
        verifying.seconds += started.elapsed().as_secs_f64();
        verifying.operations += library.articles.len() as u64;
        verifying.bytes += library.bytes();
        results.kills += 1;
        results.acknowledged += told;
        let more = survivors - told;
        say(
            out,
            &format!(
                "Kill       writer {} after {} acknowledged writes: all are there, and {more} more",
                number + 1,
                human_count(told)
            ),
        )?;
    }
    results.steps.push(verifying);
    Ok(())
}

fn timed(
    name: &'static str,
    operations: u64,
    work: impl FnOnce() -> Result<u64>,
) -> Result<DemoStep, Stop> {
    let started = Instant::now();
    let bytes = work()?;
    Ok(DemoStep { name, operations, bytes, seconds: started.elapsed().as_secs_f64() })
}

/// Prints a line at once, because the next step may take seconds.
fn say(out: &mut Output, line: &str) -> Result<(), Stop> {
    out.line(line)?;
    out.flush()
}

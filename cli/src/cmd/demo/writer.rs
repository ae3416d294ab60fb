//! A writer in a process of its own that gets killed.
//!
//! The demo runs its own program again as the writer. The writer revises words and prints the
//! number of writes after each one that the database acknowledged. The parent reads these lines and
//! kills it without warning (SIGKILL). Lines that were in the pipe by then count, because their
//! writes had been acknowledged.

use super::library::Round;
use super::words;
use crate::open;
use crate::outcome::Stop;
use crate::output::Output;
use cleavedb::{Error, Options, Result};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Runs the writer: writes until it is killed.
pub(super) fn write(dir: &Path, round: u64) -> Result<(), Stop> {
    let articles = words::articles();
    let round = Round::new(round, articles.len());
    let db = open::to_fill(dir, Options::default())?;
    let keyspace = db.default_keyspace();
    let mut out = Output::new();
    for write in 0..articles.len() as u64 {
        let (index, revision) = round.nth(write);
        keyspace.put(&articles[index].word, articles[index].text(revision))?;
        out.line((write + 1).to_string())?;
        out.flush()?;
    }
    Ok(())
}

/// Starts a writer, kills it after `enough` acknowledged writes, and returns how many were
/// acknowledged.
pub(super) fn run_and_kill(dir: &Path, round: u64, enough: u64) -> Result<u64> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| Error::io("find the program", Path::new("."), error))?;
    let failed = |error| Error::io("run the writer process", &program, error);
    let mut child = Command::new(&program)
        .arg("demo")
        .arg("--dir")
        .arg(dir)
        .arg("--writer")
        .arg(round.to_string())
        .envs(open::key_variable())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let acknowledged = listen(&mut child, enough);
    // The writer must be gone before anybody opens its database, whatever was read.
    let killed = child.kill().and_then(|()| child.wait());
    let status = killed.map_err(failed)?;
    let acknowledged = acknowledged?;
    if !was_killed(status) {
        return Err(Error::invalid_argument(format!(
            "the writer process ended unexpectedly: {status}"
        ))
        .advise("see its own message above"));
    }
    Ok(acknowledged)
}

/// Reads acknowledgements, kills the writer when there are `enough`, and reads the lines that were
/// still in the pipe.
fn listen(child: &mut Child, enough: u64) -> Result<u64> {
    let failed = |error| Error::io("read from the writer process", Path::new("pipe"), error);
    let pipe = child.stdout.take().expect("the writer's output is a pipe");
    let mut pipe = BufReader::new(pipe);
    let mut acknowledged = 0;
    let mut line = String::new();
    loop {
        line.clear();
        pipe.read_line(&mut line).map_err(failed)?;
        // A line without its newline was cut by the kill.
        let Some(number) = line.strip_suffix('\n') else { return Ok(acknowledged) };
        acknowledged = number.parse().map_err(|_| {
            Error::invalid_argument(format!("the writer said {number:?} instead of a number"))
        })?;
        if acknowledged == enough {
            child.kill().map_err(failed)?;
        }
    }
}

#[cfg(unix)]
fn was_killed(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    const SIGKILL: i32 = 9;
    status.signal() == Some(SIGKILL)
}

#[cfg(not(unix))]
fn was_killed(status: std::process::ExitStatus) -> bool {
    !status.success()
}

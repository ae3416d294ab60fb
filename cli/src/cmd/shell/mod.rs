//! `cleave shell`: runs one command a line, from a person or from another program.
//!
//! Every command gets an answer, and the answer is flushed before the next line is read, so a
//! program can write a line and wait. Answers are single lines, except for `scan`, `changes`,
//! `keyspaces` and `help`, whose last line marks the end: `(N pairs)`, `(N commits)`, `(N
//! keyspaces)`, `OK`.
//!
//! ```text
//! OK        done
//! (nil)     no such key
//! (mismatch)…  not written: after a tab, the version and value that were there, or (nil)
//! ERR …     an error; the shell goes on
//! other     the value, escaped as in `text` so that it is one line
//! ```
//!
//! The first byte of a value `(nil)`, `(mismatch)…` or `ERR …` is escaped, too, so that it differs
//! from an answer.

mod changes;
mod complete;
mod delete_range;
mod editor;
mod expiry;
mod help;
mod ingest;
mod merge;
mod pager;
mod run;
mod transaction;
mod words;

use crate::args::{CreateKeyspace, Durable, PinTree, Target};
use crate::open;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::{Output, note};
use clap::Args;
use cleavedb::{Db, Error, ErrorKind, Options, WriteOptions};
use editor::LineEditor;
use pager::AnswerPager;
use run::{Answer, Session};
use signal_hook::consts::SIGINT;
use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::sync::atomic::Ordering;

/// The commands that leave.
const LEAVE: [&[u8]; 2] = [b"quit", b"exit"];

/// Run commands from a terminal or a pipe, one per line
///
/// It creates the database if it does not exist. `help` lists the commands. While a transaction is
/// open, the prompt has an asterisk; leaving gives it up. From a pipe, the exit status is 2 if a
/// command failed. If the answers are no longer read, the commands that follow are not done, and
/// the exit status is 2 as well.
///
/// On a terminal, lines can be edited, Tab completes commands, options, keyspaces and keys, and
/// long answers go to the pager that PAGER names, or `less`. The history is in
/// ~/.local/state/cleave/shell_history, but lines that begin with a blank are not, nor is what is
/// typed to an encrypted database. Ctrl-C gives up a line or a running scan.
#[derive(Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    create: CreateKeyspace,

    #[command(flatten)]
    durable: Durable,

    #[command(flatten)]
    pin_tree: PinTree,
}

pub(crate) fn run(args: &Shell) -> Outcome {
    let interactive = io::stdin().is_terminal() && Output::is_terminal();
    let (dir, name, create) = (&args.target.dir, &args.target.keyspace, args.create.create);
    let options = args.pin_tree.apply(Options::default());
    let (db, keyspace) = open::to_fill_keyspace(dir, name, create, options)?;
    let options = WriteOptions::new().durability(args.durable.durability);
    let mut session = Session::new(&db, keyspace, options, interactive);
    let served = if interactive { converse(&mut session, &db) } else { serve(&mut session) };
    if session.transaction.is_some() {
        note!("the transaction that was open was given up: it wrote nothing");
    }
    drop(session);
    db.close()?;
    let failed = served?;
    if failed && !interactive {
        return Err(Stop::Error(
            Error::invalid_argument("a command failed").advise("look for ERR in the answers"),
        ));
    }
    Ok(Status::Done)
}

/// Answers the lines of a program until there are no more; returns true if one of them failed.
fn serve(session: &mut Session<'_>) -> Result<bool, Stop> {
    let mut input = io::stdin().lock();
    let mut out = Output::new();
    let mut failed = false;
    let mut number = 0_u64;
    while let Some(line) = next_line(&mut input)? {
        number += 1;
        match answer(session, &line, &mut out)? {
            Answer::Quit => break,
            Answer::Failed => failed = true,
            Answer::Given => {}
        }
        if out.is_closed() {
            refuse_unheard(&mut input, number)?;
            break;
        }
    }
    Ok(failed)
}

/// Returns the next line of a program, or `None` at the end.
fn next_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, Error> {
    let mut line = Vec::new();
    let read = input.read_until(b'\n', &mut line);
    let read = read.map_err(|e| Error::io("read a command", Path::new("standard input"), e))?;
    Ok((read > 0).then_some(line))
}

/// Fails if commands follow line `number`, whose answer nobody read. Nobody would learn what became
/// of them, and of an input without an end, all would be done for ever.
fn refuse_unheard(input: &mut impl BufRead, mut number: u64) -> Result<(), Error> {
    while let Some(line) = next_line(input)? {
        number += 1;
        match words::split(&line).as_deref() {
            Ok([]) => {}
            Ok([verb]) if LEAVE.iter().any(|it| verb.eq_ignore_ascii_case(it)) => break,
            _ => return Err(unheard_from(number)),
        }
    }
    Ok(())
}

fn unheard_from(number: u64) -> Error {
    let what =
        format!("nobody reads the answers any more: line {number} and what follows was not done");
    let advice = "have all answers read, or send them to a file or to /dev/null";
    Error::new(ErrorKind::Io, what).advise(advice)
}

/// Answers the lines that a person types.
fn converse(session: &mut Session<'_>, db: &Db) -> Result<bool, Stop> {
    let mut editor = LineEditor::new(db, &session.keyspace)?;
    note!("`help` lists the commands, Tab completes, Ctrl-D leaves");
    let mut out = Output::new();
    // The second Ctrl-C during one command ends the process, as it does elsewhere.
    let registered = signal_hook::flag::register_conditional_default(SIGINT, session.stop())
        .and_then(|_| signal_hook::flag::register(SIGINT, session.stop()));
    registered.map_err(|e| Error::io("watch signals for", Path::new("the shell"), e))?;
    let outcome = loop {
        let line = match editor.read(&session.prompt(), &session.keyspace) {
            Ok(Some(line)) => line,
            Ok(None) => break Ok(false),
            Err(error) => break Err(error.into()),
        };
        session.stop().store(false, Ordering::Relaxed);
        let answered = match AnswerPager::start(&line) {
            None => answer(session, line.as_bytes(), &mut out),
            Some((pager, mut paged)) => {
                let answered = answer(session, line.as_bytes(), &mut paged);
                drop(paged);
                pager.wait().and(answered)
            }
        };
        match answered {
            Ok(Answer::Quit) => break Ok(false),
            Ok(_) => {}
            Err(stop) => break Err(stop),
        }
    };
    editor.finish();
    outcome
}

/// Answers a line, and has the answer seen before the next one. Whether the command failed does not
/// depend on whether somebody reads that.
fn answer(session: &mut Session<'_>, line: &[u8], out: &mut Output) -> Result<Answer, Stop> {
    let answer = match session.answer(line, out) {
        Err(Stop::Error(error)) => {
            // An answer is one line, so the whole error is put into one.
            let told = out.line(format!("ERR {}", error.to_string().replace('\n', " ")));
            return told.and_then(|()| out.flush()).or_else(unheard).map(|()| Answer::Failed);
        }
        // The reader left before it had seen all of a long answer.
        Err(Stop::OutputClosed) => Answer::Given,
        Ok(answer) => answer,
    };
    out.flush().or_else(unheard).map(|()| answer)
}

/// Passes a reader that has left, which [`Output::is_closed`] tells.
fn unheard(stop: Stop) -> Result<(), Stop> {
    match stop {
        Stop::OutputClosed => Ok(()),
        stop => Err(stop),
    }
}

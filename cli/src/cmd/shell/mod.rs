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
use cleavedb::{Db, Error, Options, WriteOptions};
use editor::LineEditor;
use pager::AnswerPager;
use run::{Answer, Session};
use signal_hook::consts::SIGINT;
use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Run commands from a terminal or a pipe, one per line
///
/// It creates the database if it does not exist. `help` lists the commands. While a transaction is
/// open, the prompt has an asterisk; leaving gives it up. From a pipe, the exit status is 2 if a
/// command failed.
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
    let mut line = Vec::new();
    let mut failed = false;
    loop {
        line.clear();
        let read = input.read_until(b'\n', &mut line);
        let read = read.map_err(|e| Error::io("read a command", Path::new("standard input"), e))?;
        if read == 0 {
            return Ok(failed);
        }
        match answer(session, &line, &mut out)? {
            Answer::Quit => return Ok(failed),
            Answer::Failed => failed = true,
            Answer::Given => {}
        }
    }
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
                pager.wait().and(match answered {
                    // The pager was left before it had seen all.
                    Err(Stop::OutputClosed) => Ok(Answer::Given),
                    answered => answered,
                })
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

/// Answers a line, and has the answer seen before the next one.
fn answer(session: &mut Session<'_>, line: &[u8], out: &mut Output) -> Result<Answer, Stop> {
    let answer = match session.answer(line, out) {
        Err(Stop::Error(error)) => {
            // An answer is one line, so the whole error is put into one.
            out.line(format!("ERR {}", error.to_string().replace('\n', " ")))?;
            Answer::Failed
        }
        other => other?,
    };
    out.flush()?;
    Ok(answer)
}

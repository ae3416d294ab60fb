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
mod delete_range;
mod expiry;
mod ingest;
mod merge;
mod run;
mod transaction;
mod words;

use crate::args::{Durable, PinTree, Target};
use crate::open;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::Output;
use clap::Args;
use cleavedb::{Error, Options, WriteOptions};
use run::{Answer, Session};
use std::io::{self, BufRead, IsTerminal};
use std::path::Path;

/// Run commands from a terminal or a pipe, one per line
///
/// It creates the database if it does not exist. `help` lists the commands. While a transaction is
/// open, the prompt has an asterisk; leaving gives it up. From a pipe, the exit status is 2 if a
/// command failed.
#[derive(Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    durable: Durable,

    #[command(flatten)]
    pin_tree: PinTree,
}

pub(crate) fn run(args: &Shell) -> Outcome {
    let db = open::to_fill(&args.target.dir, args.pin_tree.apply(Options::default()))?;
    let keyspace = db.open_or_create_keyspace(&args.target.keyspace)?;
    let options = WriteOptions::new().durability(args.durable.durability);
    let interactive = io::stdin().is_terminal() && Output::is_terminal();
    let mut session = Session::new(&db, keyspace, options, interactive);
    let mut out = Output::new();
    let served = serve(&mut session, &mut out, interactive);
    if session.transaction.is_some() {
        eprintln!("the transaction that was open was given up: it wrote nothing");
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

/// Answers lines until there are no more; returns true if one of them failed.
fn serve(session: &mut Session<'_>, out: &mut Output, interactive: bool) -> Result<bool, Stop> {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    let mut failed = false;
    loop {
        if interactive {
            let prompt: &[u8] = match session.transaction {
                Some(_) => b"cleave*> ",
                None => b"cleave> ",
            };
            out.bytes(prompt)?;
            out.flush()?;
        }
        line.clear();
        let read = input.read_until(b'\n', &mut line);
        let read = read.map_err(|e| Error::io("read a command", Path::new("standard input"), e))?;
        if read == 0 {
            return Ok(failed);
        }
        let answer = match session.answer(&line, out) {
            Err(Stop::Error(error)) => {
                failed = true;
                // An answer is one line, so the whole error is put into one.
                out.line(format!("ERR {}", error.to_string().replace('\n', " ")))?;
                Answer::Given
            }
            other => other?,
        };
        out.flush()?;
        if answer == Answer::Quit {
            return Ok(failed);
        }
    }
}

//! The outcome of a command, and how it becomes an exit status and a message.

use cleavedb::{Error, ErrorKind};
use std::io::Write;
use std::process::ExitCode;

/// The end of a command that met no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Exit status 0.
    Done,
    /// Exit status 1: the key was not found or not as expected, or the check failed.
    Negative,
    /// Exit status 2: the check could not verify everything, and printed what it could not.
    Unverified,
}

/// The reason why a command stopped early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Exit status 2 and a message.
    Error(Error),
    /// The reader of our output closed it (`| head`). That is no error: exit status 0. Commands
    /// whose status says what they found return that nevertheless, see [`reported`].
    OutputClosed,
}

/// The result of every command.
pub(crate) type Outcome = Result<Status, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Error(error)
    }
}

/// Returns the outcome of a command that was done before its report was printed: a reader that left
/// early takes nothing from what the report says, so the status is the same.
pub(crate) fn reported(printed: Result<(), Stop>, status: Status) -> Outcome {
    match printed {
        Ok(()) | Err(Stop::OutputClosed) => Ok(status),
        Err(stop) => Err(stop),
    }
}

/// Prints an error, if there is one, and returns the exit status.
pub(crate) fn exit_code(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(Status::Done) | Err(Stop::OutputClosed) => ExitCode::SUCCESS,
        Ok(Status::Negative) => ExitCode::from(1),
        Ok(Status::Unverified) => ExitCode::from(2),
        Err(Stop::Error(error)) => {
            // Only a terminal that wants colours gets them, as with errors of the argument parser.
            let _ = write!(anstream::stderr(), "{}", render(&error));
            ExitCode::from(2)
        }
    }
}

/// The styles of the argument parser's errors, for the same kinds of words.
const ERROR: &str = "\x1b[1m\x1b[31m";
const TIP: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";

/// Formats an error in up to three lines, with colours: what happened, where, what to do.
fn render(error: &Error) -> String {
    let mut lines = format!("{ERROR}error:{PLAIN} {}\n", error.message());
    if let Some(file) = error.file() {
        lines += &format!("{TIP}   in:{PLAIN} {}", file.display());
        if let Some(offset) = error.offset() {
            lines += &format!(" at byte {offset}");
        }
        lines.push('\n');
    }
    if let Some(advice) = error.advice().or_else(|| usual_advice(error.kind())) {
        lines += &format!("{TIP}  try:{PLAIN} {advice}\n");
    }
    lines
}

/// Returns advice for errors that have none of their own.
fn usual_advice(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Io => Some("check the path and its permissions"),
        ErrorKind::Corruption => {
            Some("restore the file from a checkpoint; `cleave check` lists all damage")
        }
        ErrorKind::Locked => Some("close the database in the other process first"),
        ErrorKind::Unsupported => Some("use a newer build"),
        ErrorKind::Internal => Some("report this defect of CleaveDB, with the message"),
        _ => None,
    }
}

/// Formats an error as [`exit_code`] prints it, without colours.
pub(crate) fn plain(error: &Error) -> String {
    anstream::adapter::strip_str(&render(error)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let error = Error::corruption("a checksum does not match")
            .in_file(Path::new("db/000007.seg"))
            .at(4096)
            .advise("restore it from a checkpoint");
        assert_eq!(
            plain(&error),
            "error: a checksum does not match\n   in: db/000007.seg at byte 4096\n  \
             try: restore it from a checkpoint\n"
        );
        assert_eq!(plain(&Error::invalid_argument("x")), "error: x\n");
    }

    /// They differed: the parser's were in colour on a terminal, those of the commands were not.
    #[test]
    fn an_error_looks_like_one_of_the_argument_parser() {
        let of_parser = crate::args::Cli::try_parse_from(["cleave", "nonsense"]).err().unwrap();
        let of_parser = of_parser.render().ansi().to_string();
        let own = render(&Error::invalid_argument("unrecognized").advise("`cleave help`"));
        let head = own.split(' ').next().unwrap();
        assert!(of_parser.starts_with(head), "{of_parser:?} {own:?}");
        let similar = crate::args::Cli::try_parse_from(["cleave", "gett"]).err().unwrap();
        let similar = similar.render().ansi().to_string();
        assert!(similar.contains(&format!("{TIP}tip:{PLAIN}")), "{similar:?}");
    }
}

//! The outcome of a command, and how it becomes an exit status and a message.

use cleavedb::{Error, ErrorKind};
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
    /// The reader of our output closed it (`| head`). That is no error: exit status 0.
    OutputClosed,
}

/// The result of every command.
pub(crate) type Outcome = Result<Status, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Error(error)
    }
}

/// Prints an error, if there is one, and returns the exit status.
pub(crate) fn exit_code(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(Status::Done) | Err(Stop::OutputClosed) => ExitCode::SUCCESS,
        Ok(Status::Negative) => ExitCode::from(1),
        Ok(Status::Unverified) => ExitCode::from(2),
        Err(Stop::Error(error)) => {
            eprint!("{}", render(&error));
            ExitCode::from(2)
        }
    }
}

/// Formats an error in up to three lines: what happened, where, what to do.
pub(crate) fn render(error: &Error) -> String {
    let mut lines = format!("error: {}\n", error.message());
    if let Some(file) = error.file() {
        lines += &format!("   in: {}", file.display());
        if let Some(offset) = error.offset() {
            lines += &format!(" at byte {offset}");
        }
        lines.push('\n');
    }
    if let Some(advice) = error.advice().or_else(|| usual_advice(error.kind())) {
        lines += &format!("  try: {advice}\n");
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let error = Error::corruption("a checksum does not match")
            .in_file(Path::new("db/000007.seg"))
            .at(4096)
            .advise("restore it from a checkpoint");
        assert_eq!(
            render(&error),
            "error: a checksum does not match\n   in: db/000007.seg at byte 4096\n  \
             try: restore it from a checkpoint\n"
        );
        assert_eq!(render(&Error::invalid_argument("x")), "error: x\n");
    }
}

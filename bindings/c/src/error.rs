//! Error messages in LevelDB's form: a prefix for the kind, then the engine's own text with file,
//! offset and advice. Programs test the prefix; `docs/from-leveldb.md` has the table. LevelDB has
//! no conflicts and no change feed: these have prefixes of ours, which only transactions,
//! requirements of batches and changes of `cleavedb/c.h` lead to.

use engine::{Error, ErrorKind};

/// Returns the message that `errptr` gets for `error`.
pub fn message(error: &Error) -> String {
    let prefix = match error.kind() {
        ErrorKind::Corruption => "Corruption: ",
        ErrorKind::NotFound => "NotFound: ",
        ErrorKind::InvalidArgument
        | ErrorKind::InvalidOption
        | ErrorKind::AlreadyExists
        | ErrorKind::WrongState
        | ErrorKind::KeyspaceDropped => "Invalid argument: ",
        ErrorKind::Unsupported => "Not implemented: ",
        ErrorKind::Conflict => "Conflict: ",
        ErrorKind::ChangesGone => "Gone: ",
        _ => "IO error: ",
    };
    format!("{prefix}{error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_those_of_leveldb() {
        for (kind, text) in [
            (ErrorKind::Io, "IO error: x"),
            (ErrorKind::DiskFull, "IO error: x"),
            (ErrorKind::ReadOnly, "IO error: x"),
            (ErrorKind::Locked, "IO error: x"),
            (ErrorKind::Closed, "IO error: x"),
            (ErrorKind::LimitReached, "IO error: x"),
            (ErrorKind::Internal, "IO error: x"),
            (ErrorKind::Corruption, "Corruption: x"),
            (ErrorKind::NotFound, "NotFound: x"),
            (ErrorKind::AlreadyExists, "Invalid argument: x"),
            (ErrorKind::InvalidArgument, "Invalid argument: x"),
            (ErrorKind::InvalidOption, "Invalid argument: x"),
            (ErrorKind::WrongState, "Invalid argument: x"),
            (ErrorKind::KeyspaceDropped, "Invalid argument: x"),
            (ErrorKind::Unsupported, "Not implemented: x"),
            (ErrorKind::Conflict, "Conflict: x"),
            (ErrorKind::ChangesGone, "Gone: x"),
        ] {
            assert_eq!(message(&Error::new(kind, "x")), text);
        }
    }
}

//! The engine's errors as LevelDB words them: a prefix that says the kind, then the engine's own
//! text with file, offset and what to do. Programs look at the prefix.

use engine::{Error, ErrorKind};

/// The message for `errptr`.
pub fn message(error: &Error) -> String {
    let prefix = match error.kind() {
        ErrorKind::Corruption => "Corruption: ",
        ErrorKind::Invalid => "Invalid argument: ",
        ErrorKind::Unsupported => "Not implemented: ",
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
            (ErrorKind::Busy, "IO error: x"),
            (ErrorKind::Corruption, "Corruption: x"),
            (ErrorKind::Invalid, "Invalid argument: x"),
            (ErrorKind::Unsupported, "Not implemented: x"),
        ] {
            assert_eq!(message(&Error::new(kind, "x")), text);
        }
    }
}

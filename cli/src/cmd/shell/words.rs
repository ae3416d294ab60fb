//! Splits a line of the shell into words, separated by blanks, with double quotes and C-style
//! escapes.

use crate::text;
use cleavedb::{Error, Result};

/// Splits `line`. A backslash escapes in and out of quotes; quotes keep blanks and make empty
/// words. A `#` that begins a line makes it a comment.
pub(super) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    split_into(line, &mut words)?;
    Ok(words)
}

/// Splits `line` as [`split`] does. If that fails, `words` has those before the one that is wrong.
pub(super) fn split_into(line: &[u8], words: &mut Vec<Vec<u8>>) -> Result<()> {
    let mut word: Option<Vec<u8>> = None;
    let mut quoted = false;
    let mut rest = line;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'#' if words.is_empty() && word.is_none() => return Ok(()),
            b'"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            b'\\' => {
                let (byte, taken) = text::unescape_one(rest)?;
                word.get_or_insert_default().push(byte);
                rest = &rest[taken..];
            }
            b' ' | b'\t' | b'\r' | b'\n' if !quoted => words.extend(word.take()),
            byte => word.get_or_insert_default().push(*byte),
        }
    }
    if quoted {
        return Err(Error::invalid_argument("a quote is not closed").advise("end the word with \""));
    }
    words.extend(word);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        split(line.as_bytes()).unwrap()
    }

    #[test]
    fn blanks_quotes_and_escapes() {
        assert_eq!(words("put a 1\r\n"), [&b"put"[..], b"a", b"1"]);
        assert_eq!(words(r#"put "a b" "" x"y z""#), [&b"put"[..], b"a b", b"", b"xy z"]);
        assert_eq!(words(r#"\x00\xff "\t\"\\""#), [&[0, 255][..], b"\t\"\\"]);
        assert!(words("  # put a 1").is_empty());
        assert_eq!(words("get a#b"), [&b"get"[..], b"a#b"]);
        assert!(words(" \t\n").is_empty());
    }

    #[test]
    fn unfinished_words_are_refused() {
        for bad in ["put \"a", "put a\\", "put \\q"] {
            let mut words = Vec::new();
            assert!(split_into(bad.as_bytes(), &mut words).is_err(), "{bad}");
            assert_eq!(words, [b"put"], "{bad}");
        }
    }
}

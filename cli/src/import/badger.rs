//! Badger's backups, as `badger backup` and `DB.Backup` write them: lists of pairs in the encoding
//! of protocol buffers, each with its length before it.
//!
//! ```text
//! list   length, 8 | fields 1: a pair
//! pair   fields 1 key, 2 value, 4 version, 5 when it expires in seconds since 1970, 6 flags
//! ```
//!
//! All versions of a key come together, the newest first, and only that counts.

use super::cursor::ByteCursor;
use super::input::ImportInput;
use super::source::{ImportPair, Source};
use crate::text::shown_key;
use cleavedb::{Error, Result};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Badger writes lists of some megabytes; one with a single large value is larger.
const MAX_LIST_BYTES: u64 = (1 << 30) + (64 << 20);
/// Badger's own keys.
const INTERNAL: &[u8] = b"!badger!";
const DELETED: u8 = 1;
const MERGE_ENTRY: u8 = 1 << 3;
const WHAT_TO_DO: &str = "make a whole backup once more, with `badger backup`";

/// A pair of a backup.
#[derive(Debug, Default, PartialEq, Eq)]
struct BackupPair<'a> {
    key: &'a [u8],
    value: &'a [u8],
    version: u64,
    expires_at: u64,
    flags: u8,
}

/// A backup that is read.
pub(crate) struct BadgerSource {
    input: ImportInput,
    list: Vec<u8>,
    /// Where the list begins in the stream, and where its next pair does in it.
    list_at: u64,
    at: usize,
    /// The key that was decided upon last.
    decided: Option<Vec<u8>>,
    is_begun: bool,
}

impl BadgerSource {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self::new(ImportInput::open(path)?))
    }

    pub(crate) fn new(input: ImportInput) -> Self {
        let (list, decided) = (Vec::new(), None);
        BadgerSource { input, list, list_at: 0, at: 0, decided, is_begun: false }
    }

    fn next_list(&mut self) -> Result<bool> {
        let at = self.input.at;
        let located = |input: &ImportInput, what: &str| {
            input.located(Error::corruption(what), at).advise(WHAT_TO_DO)
        };
        let mut length = Vec::new();
        self.input.read(8, &mut length)?;
        if length.is_empty() {
            return Ok(false);
        }
        let bytes = ByteCursor::new(&length).fixed64();
        let Some(bytes) = bytes.filter(|&bytes| bytes <= MAX_LIST_BYTES) else {
            return Err(located(&self.input, "this is no list of a backup of Badger's"));
        };
        self.input.read(bytes, &mut self.list)?;
        if self.list.len() as u64 != bytes {
            return Err(located(&self.input, "the backup ends within a list"));
        }
        (self.list_at, self.at) = (at + 8, 0);
        Ok(true)
    }
}

/// Takes the next pair of a list, and steps over fields that are not known. The inner `None` is the
/// list's end.
#[expect(clippy::option_option, reason = "damage is the outer one")]
fn next_pair<'a>(cursor: &mut ByteCursor<'a>) -> Option<Option<BackupPair<'a>>> {
    while !cursor.is_empty() {
        match field(cursor)? {
            (1, Field::Bytes(bytes)) => return pair(bytes).map(Some),
            (1, Field::Number(_)) => return None,
            _ => {}
        }
    }
    Some(None)
}

/// A field's value.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn field<'a>(cursor: &mut ByteCursor<'a>) -> Option<(u64, Field<'a>)> {
    let tag = cursor.varint64()?;
    let value = match tag & 7 {
        0 => Field::Number(cursor.varint64()?),
        1 => Field::Number(cursor.fixed64()?),
        2 => Field::Bytes(cursor.prefixed()?),
        5 => Field::Number(cursor.fixed32()?.into()),
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn pair(bytes: &[u8]) -> Option<BackupPair<'_>> {
    let mut cursor = ByteCursor::new(bytes);
    let mut pair = BackupPair::default();
    while !cursor.is_empty() {
        match field(&mut cursor)? {
            (1, Field::Bytes(key)) => pair.key = key,
            (2, Field::Bytes(value)) => pair.value = value,
            (4, Field::Number(version)) => pair.version = version,
            (5, Field::Number(seconds)) => pair.expires_at = seconds,
            (6, Field::Bytes(flags)) => pair.flags = flags.first().copied().unwrap_or(0),
            (1 | 2 | 4 | 5 | 6, _) => return None,
            _ => {}
        }
    }
    Some(pair)
}

/// Returns when a pair expires, the inner `None` for never; the outer `None` if it is not there.
#[expect(clippy::option_option, reason = "a pair that is absent is the outer one")]
fn expiry(pair: &BackupPair<'_>, now: SystemTime) -> Option<Option<SystemTime>> {
    if pair.flags & DELETED != 0 || pair.key.starts_with(INTERNAL) {
        return None;
    }
    if pair.expires_at == 0 {
        return Some(None);
    }
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(pair.expires_at));
    // A time that cannot be expressed is as good as never.
    time.map_or(Some(None), |time| (time > now).then_some(Some(time)))
}

impl Source for BadgerSource {
    fn next_part(&mut self) -> Result<Option<String>> {
        let is_first = !self.is_begun;
        self.is_begun = true;
        Ok(is_first.then(String::new))
    }

    fn next(&mut self, out: &mut ImportPair) -> Result<bool> {
        loop {
            let mut cursor = ByteCursor::new(&self.list[self.at..]);
            let at = self.list_at + self.at as u64;
            let damaged = || {
                let error = Error::corruption("a pair of the backup cannot be understood");
                self.input.located(error, at).advise(WHAT_TO_DO)
            };
            let Some(pair) = next_pair(&mut cursor).ok_or_else(damaged)? else {
                if !self.next_list()? {
                    return Ok(false);
                }
                continue;
            };
            self.at += cursor.at();
            if self.decided.as_deref() == Some(pair.key) {
                continue;
            }
            self.decided = Some(pair.key.to_vec());
            if pair.flags & MERGE_ENTRY != 0 {
                let what = format!(
                    "the key {} has merge entries, whose function is code of the program",
                    shown_key(pair.key)
                );
                let advice = "stop the merge operator in that program, which writes the result, \
                              and make a new backup";
                return Err(self.input.located(Error::unsupported(what), at).advise(advice));
            }
            if let Some(expires) = expiry(&pair, SystemTime::now()) {
                out.set(pair.key, pair.value);
                out.expires = expires;
                return Ok(true);
            }
        }
    }

    fn ascends(&self) -> bool {
        false
    }

    fn share(&self) -> Option<f64> {
        self.input.share()
    }
}

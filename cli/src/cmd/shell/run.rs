//! Runs each command of the shell.

use super::delete_range;
use super::help::{help, misunderstood};
use super::transaction::OpenTransaction;
use super::words;
use crate::cmd::merge;
use crate::cmd::scan::ScanWalk;
use crate::outcome::Stop;
use crate::output::Output;
use crate::text;
use cleavedb::{
    DEFAULT_KEYSPACE, Db, Error, ErrorKind, Exchange, Expected, Keyspace, Result, Versioned,
    WriteOptions,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The outcome of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The line was answered.
    Given,
    /// The answer is an error.
    Failed,
    /// The user asked to leave.
    Quit,
}

/// An open database and the state of the session.
pub(super) struct Session<'a> {
    pub(super) db: &'a Db,
    pub(super) keyspace: Keyspace,
    pub(super) options: WriteOptions,
    pub(super) transaction: Option<OpenTransaction>,
    interactive: bool,
    /// True since a program asked for a keyspace in vain: its commands may be meant for that one.
    is_astray: bool,
    /// True once a person wants the running command to end.
    stop: Arc<AtomicBool>,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        db: &'a Db,
        keyspace: Keyspace,
        options: WriteOptions,
        interactive: bool,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (transaction, is_astray) = (None, false);
        Session { db, keyspace, options, transaction, interactive, is_astray, stop }
    }

    /// Returns the flag that has a running scan end.
    pub(super) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Returns what invites a person to type: the keyspace unless it is the usual one, and an
    /// asterisk in a transaction.
    pub(super) fn prompt(&self) -> String {
        let star = if self.transaction.is_some() { "*" } else { "" };
        match self.keyspace.name() {
            DEFAULT_KEYSPACE => format!("cleave{star}> "),
            name => format!("cleave:{}{star}> ", text::escape(name.as_bytes())),
        }
    }

    /// Answers one line. An empty line and a comment get no answer.
    pub(super) fn answer(&mut self, line: &[u8], out: &mut Output) -> Result<Answer, Stop> {
        let mut words = Vec::new();
        if let Err(error) = words::split_into(line, &mut words) {
            // A `use` whose keyspace can't be read has failed, too.
            if words.first().is_some_and(|verb| verb.eq_ignore_ascii_case(b"use")) {
                self.is_astray = !self.interactive;
            }
            return Err(error.into());
        }
        let Some((verb, arguments)) = words.split_first() else { return Ok(Answer::Given) };
        let verb = String::from_utf8_lossy(verb).to_ascii_lowercase();
        if self.is_astray && !NEED_NO_KEYSPACE.contains(&verb.as_str()) {
            return Err(astray(&verb).into());
        }
        match (verb.as_str(), arguments) {
            ("put", [key, value]) => {
                self.put(key, value)?;
                out.line("OK")?;
            }
            ("get", [key]) => match self.keyspace.get_with(key, &self.read_options())? {
                Some(value) => out.line(as_answer(&value))?,
                None => out.line("(nil)")?,
            },
            ("get", [key, option]) if option == b"--with-version" => {
                let found = self.keyspace.get_versioned_with(key, &self.read_options())?;
                out.line(with_version(found.as_ref()))?;
            }
            ("del", [key]) => {
                self.delete(key)?;
                out.line("OK")?;
            }
            _ if self.answer_about_changes(&verb, arguments, out)? => {}
            _ if self.answer_about_merging(&verb, arguments)? => out.line("OK")?,
            _ if self.answer_about_expiry(&verb, arguments, out)? => {}
            ("put" | "cas" | "del", arguments) => {
                let (key, expected, value) = conditional(&verb, arguments)?;
                match self.exchange(key, expected, value)? {
                    Exchange::Done(_) => out.line("OK")?,
                    Exchange::Mismatch(found) => {
                        out.line(format!("(mismatch)\t{}", with_version(found.as_ref())))?;
                    }
                }
            }
            ("delrange", arguments) => match self.delete_range(arguments)? {
                true => out.line("OK")?,
                false => return Err(delete_range::misunderstood().into()),
            },
            ("scan", options) => self.scan(&parse_scan(options)?, out)?,
            ("count", [] | [_]) => {
                let prefix = arguments.first().cloned();
                let walk = ScanWalk { prefix, keys_only: true, ..ScanWalk::default() };
                let visit = |_: &[u8], _: Option<&[u8]>| Ok::<_, Error>(());
                let count = walk.run(&self.keyspace, &self.read_options(), visit)?;
                out.line(count.to_string())?;
            }
            ("quit" | "exit", []) => return Ok(Answer::Quit),
            _ if self.answer_about_transactions(&verb, arguments)? => out.line("OK")?,
            _ => self.answer_about_all(&verb, arguments, out)?,
        }
        Ok(Answer::Given)
    }

    /// Runs the commands that are not about single keys.
    fn answer_about_all(
        &mut self,
        verb: &str,
        arguments: &[Vec<u8>],
        out: &mut Output,
    ) -> Result<(), Stop> {
        match (verb, arguments) {
            ("use", arguments) => self.use_keyspace(arguments)?,
            ("sync", []) => self.db.sync()?,
            ("flush", []) => self.db.flush()?,
            ("compact", []) => self.db.compact()?,
            ("keyspaces", []) => {
                let names = self.db.keyspaces();
                for name in &names {
                    out.line(text::escape(name.as_bytes()))?;
                }
                return out.line(format!("({} keyspaces)", names.len()));
            }
            ("stats", []) if self.interactive => {
                return out.line(self.db.stats().to_string().trim_end());
            }
            ("stats", []) => return out.line(self.db.stats().to_json().replace('\n', " ")),
            ("space", []) if self.interactive => {
                return out.line(self.db.space()?.to_string().trim_end());
            }
            ("space", []) => return out.line(self.db.space()?.to_json()),
            ("ingest", files) => return out.line(self.ingest(files)?),
            ("help", [] | [_]) => {
                out.line(help(arguments.first().map(Vec::as_slice))?)?;
            }
            _ => return Err(misunderstood(verb).into()),
        }
        out.line("OK")
    }

    fn use_keyspace(&mut self, arguments: &[Vec<u8>]) -> Result<()> {
        // If this fails, what a program writes next was not meant for the keyspace before. A person
        // reads the answer first.
        self.is_astray = !self.interactive;
        self.keyspace = match arguments {
            [name] => self.known_keyspace(utf8(name)?)?,
            [name, option] if option == b"--create" => {
                self.db.open_or_create_keyspace(utf8(name)?)?
            }
            [name, option, operator] if option == b"--merge" => {
                merge::open_or_create(self.db, utf8(name)?, utf8(operator)?)?
            }
            _ => return Err(misunderstood("use")),
        };
        self.is_astray = false;
        Ok(())
    }

    fn known_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.db.keyspace(name).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let names = self.db.keyspaces().join(", ");
                error.advise(format!(
                    "choose one of these: {names}; or create it with `use {name} --create`"
                ))
            }
            _ => error,
        })
    }

    fn scan(&self, walk: &ScanWalk, out: &mut Output) -> Result<(), Stop> {
        let mut line = String::new();
        let count = walk.run(&self.keyspace, &self.read_options(), |key, value| {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Io, "the scan was interrupted").into());
            }
            line.clear();
            match value {
                Some(value) => {
                    text::escape_into(key, &mut line);
                    line.push('\t');
                    text::escape_into(value, &mut line);
                }
                None => line.push_str(&as_answer(key)),
            }
            out.line(&line)
        })?;
        out.line(format!("({count} pairs)"))
    }
}

/// The commands that mean the same whatever keyspace is in use.
const NEED_NO_KEYSPACE: [&str; 6] = ["use", "keyspaces", "help", "rollback", "quit", "exit"];

fn astray(verb: &str) -> Error {
    Error::new(ErrorKind::WrongState, format!("{verb} was not done: the last `use` failed"))
        .advise("`use` the keyspace that is meant first")
}

/// Returns `bytes` as one line that can't be confused with another answer.
fn as_answer(bytes: &[u8]) -> String {
    let escaped = text::escape(bytes);
    let count = escaped.starts_with('(') && escaped.ends_with(" pairs)");
    let alike = count
        || escaped == "(nil)"
        || escaped.starts_with("(mismatch)")
        || escaped.starts_with("ERR ");
    match (alike, escaped.as_bytes()) {
        (true, [first, ..]) => format!("\\x{}{}", text::hex(&[*first]), &escaped[1..]),
        _ => escaped,
    }
}

/// Returns a value with its version as one line.
fn with_version(found: Option<&Versioned>) -> String {
    match found {
        Some(found) => format!("{}\t{}", found.version, text::escape(&found.value)),
        None => "(nil)".into(),
    }
}

/// A key, what must be under it, and the new value; `None` deletes the key.
type WriteCondition<'a> = (&'a [u8], Expected<'a>, Option<&'a [u8]>);

/// Parses the arguments of a write that depends on what is there.
fn conditional<'a>(verb: &str, arguments: &'a [Vec<u8>]) -> Result<WriteCondition<'a>> {
    let words: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    Ok(match (verb, words.as_slice()) {
        ("put", &[key, value, b"--if-absent"]) => (key, Expected::Absent, Some(value)),
        ("cas", &[key, old, new]) => (key, Expected::Value(old), Some(new)),
        ("cas", &[key, b"--if-version", version, new]) => {
            (key, Expected::Version(number(version, "the version")?), Some(new))
        }
        ("del", &[key, b"--if", old]) => (key, Expected::Value(old), None),
        ("del", &[key, b"--if-version", version]) => {
            (key, Expected::Version(number(version, "the version")?), None)
        }
        _ => return Err(misunderstood(verb)),
    })
}

fn utf8(name: &[u8]) -> Result<&str> {
    std::str::from_utf8(name)
        .map_err(|_| Error::invalid_argument("the name of a keyspace must be UTF-8"))
}

fn parse_scan(options: &[Vec<u8>]) -> Result<ScanWalk> {
    let mut walk = ScanWalk::default();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        let mut argument = || rest.next().cloned().ok_or_else(|| misunderstood("scan"));
        match option.as_slice() {
            b"--from" => walk.from = Some(argument()?),
            b"--to" => walk.to = Some(argument()?),
            b"--prefix" => walk.prefix = Some(argument()?),
            b"--limit" => walk.limit = Some(number(&argument()?, "the limit")?),
            b"--reverse" => walk.reverse = true,
            b"--keys-only" => walk.keys_only = true,
            _ => return Err(misunderstood("scan")),
        }
    }
    Ok(walk)
}

pub(super) fn number(word: &[u8], what: &str) -> Result<u64> {
    let parsed = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Error::invalid_argument(format!("{what} must be a whole number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_never_looks_like_another_answer() {
        assert_eq!(as_answer(b"(plain)"), "(plain)");
        for odd in [&b"(nil)"[..], b"ERR x", b"(3 pairs)", b"(mismatch)"] {
            let answer = as_answer(odd);
            assert!(answer.starts_with("\\x"), "{answer}");
            assert_eq!(text::unescape(answer.as_bytes()).unwrap(), odd);
        }
    }
}

//! The shell's transaction: what is read and written between `begin` and `commit`.

use super::run::Session;
use crate::text;
use cleavedb::{Db, Error, ErrorKind, Exchange, Expected, Keyspace, ReadOptions, Result};
use cleavedb::{Savepoint, Transaction, Versioned, WriteOptions};

/// A transaction that was begun and has not ended.
pub(super) struct OpenTransaction {
    pub(super) transaction: Transaction,
    /// The savepoints with their names. A later one of the same name hides an earlier one.
    savepoints: Vec<(Vec<u8>, Savepoint)>,
}

impl OpenTransaction {
    fn begin(db: &Db) -> Self {
        OpenTransaction { transaction: db.begin(), savepoints: Vec::new() }
    }

    fn rollback_to(&mut self, name: &[u8]) -> Result<()> {
        let found = self.savepoints.iter().rposition(|(own, _)| own == name);
        let index = found.ok_or_else(|| {
            Error::invalid_argument(format!("there is no savepoint {:?}", text::escape(name)))
                .advise("`savepoint NAME` makes one")
        })?;
        self.transaction.rollback_to(&self.savepoints[index].1)?;
        self.savepoints.truncate(index + 1);
        Ok(())
    }

    /// Does what [`Keyspace::compare_and_set`] does, in the transaction.
    fn exchange(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        expected: Expected<'_>,
        value: Option<&[u8]>,
    ) -> Result<Exchange> {
        let found = keyspace.get_versioned_with(key, &self.transaction.read_options())?;
        if !is_met(expected, found.as_ref()) {
            return Ok(Exchange::Mismatch(found));
        }
        match value {
            Some(value) => self.transaction.put(keyspace, key, value)?,
            None => self.transaction.delete(keyspace, key)?,
        }
        // Writes of a transaction get their version at the commit.
        Ok(Exchange::Done(0))
    }
}

fn is_met(expected: Expected<'_>, found: Option<&Versioned>) -> bool {
    match expected {
        Expected::Absent => found.is_none(),
        Expected::Version(version) => found.is_some_and(|found| found.version == version),
        Expected::Value(value) => found.is_some_and(|found| found.value[..] == *value),
    }
}

fn none_is_open() -> Error {
    Error::wrong_state("no transaction is open").advise("`begin` begins one")
}

impl Session<'_> {
    /// Runs the commands that begin and end transactions; returns false for all others.
    pub(super) fn answer_about_transactions(
        &mut self,
        verb: &str,
        arguments: &[Vec<u8>],
    ) -> Result<bool> {
        match (verb, arguments) {
            ("begin", []) if self.transaction.is_some() => {
                return Err(Error::wrong_state("a transaction is open already")
                    .advise("end it by `commit` or `rollback`"));
            }
            ("begin", []) => self.transaction = Some(OpenTransaction::begin(self.db)),
            ("savepoint", [name]) => {
                let open = self.transaction.as_mut().ok_or_else(none_is_open)?;
                open.savepoints.push((name.clone(), open.transaction.savepoint()?));
            }
            ("rollback", [to, name]) if to.eq_ignore_ascii_case(b"to") => {
                self.transaction.as_mut().ok_or_else(none_is_open)?.rollback_to(name)?;
            }
            ("rollback", []) => {
                self.transaction.take().ok_or_else(none_is_open)?.transaction.rollback();
            }
            ("commit", []) => {
                let open = self.transaction.take().ok_or_else(none_is_open)?;
                open.transaction.commit_with(&self.options).map_err(ended_by)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the options of a read: in the transaction, if one is open.
    pub(super) fn read_options(&self) -> ReadOptions {
        let open = self.transaction.as_ref();
        open.map_or_else(ReadOptions::new, |open| open.transaction.read_options())
    }

    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match &self.transaction {
            Some(open) => open.transaction.put(&self.keyspace, key, value),
            None => self.keyspace.put_with(key, value, &self.options),
        }
    }

    pub(super) fn delete(&self, key: &[u8]) -> Result<()> {
        match &self.transaction {
            Some(open) => open.transaction.delete(&self.keyspace, key),
            None => self.keyspace.delete_with(key, &self.options),
        }
    }

    /// Puts a value, or deletes the key if it is `None`, if what is there is as expected.
    pub(super) fn exchange(
        &self,
        key: &[u8],
        expected: Expected<'_>,
        value: Option<&[u8]>,
    ) -> Result<Exchange> {
        let options: &WriteOptions = &self.options;
        match (&self.transaction, value) {
            (Some(open), value) => open.exchange(&self.keyspace, key, expected, value),
            (None, Some(value)) => {
                self.keyspace.compare_and_set_with(key, expected, value, options)
            }
            (None, None) => self.keyspace.compare_and_delete_with(key, expected, options),
        }
    }
}

/// Adds to the error of a commit that the transaction has ended.
fn ended_by(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Conflict => {
            error.advise("the transaction has ended and wrote nothing; `begin` it again")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A commit that failed left the transaction open, or its message did not say that it ended.
    #[test]
    fn a_conflict_ends_the_transaction_and_says_so() {
        let db = cleavedb::open(cleavedb::doc_dir("shell-conflict")).unwrap();
        let words = db.default_keyspace();
        words.put("a", "1").unwrap();
        let mut session = Session::new(&db, words.clone(), WriteOptions::new(), false);
        assert!(session.answer_about_transactions("begin", &[]).unwrap());
        assert!(session.exchange(b"a", Expected::Value(b"1"), Some(b"2")).unwrap().is_done());
        words.put("a", "3").unwrap();
        let error = session.answer_about_transactions("commit", &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let text = error.to_string();
        assert!(text.contains("\"a\"") && text.contains("has ended and wrote nothing"), "{text}");
        assert!(session.transaction.is_none());
        session.put(b"b", b"4").unwrap();
        assert_eq!(words.get("a").unwrap().unwrap(), "3");
        assert_eq!(words.get("b").unwrap().unwrap(), "4");
    }
}

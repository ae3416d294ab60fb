//! Compare-and-set: writes that depend on what is there, atomic among all writers.
//!
//! The key is read first, without any lock. The commit then checks, under the lock of the log, that
//! nobody wrote the key since (`commit/conditions.rs`); if somebody did, it is read again.

mod deadline;
mod exchange;

pub(super) use exchange::write_if;

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::base::value::Value;
use crate::db::keyspace::Keyspace;
use crate::db::options::WriteOptions;
use crate::db::read_options::ReadOptions;
use crate::db::single_write::SingleWrite;
use exchange::versioned;

/// A value with its version. Made by [`Keyspace::get_versioned`].
///
/// ```
/// # let words = cleavedb::open(cleavedb::doc_dir("versioned"))?.default_keyspace();
/// words.put("one", "eins")?;
/// let before = words.get_versioned("one")?.unwrap();
/// words.put("one", "eins")?;
/// let after = words.get_versioned("one")?.unwrap();
/// assert!(before.value == after.value && before.version < after.version);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versioned {
    /// The value.
    pub value: Value,
    /// The sequence number of the write that made it. No other write has the same, so as long as
    /// the version is the same, nobody has written the key. (Only after a crash that lost the write
    /// may a later one get its number: a version that is kept outside of the database should be of
    /// a write that is durable.) Zero for a transaction's own write, which gets a number when it is
    /// committed.
    pub version: SeqNo,
}

/// What must be under a key for a conditional write to happen.
///
/// Deadlines are judged when the write is committed: a value that has expired by then is absent,
/// even if it was there when the key was read, shortly before.
///
/// ```
/// # let words = cleavedb::open(cleavedb::doc_dir("expected"))?.default_keyspace();
/// use cleavedb::Expected;
/// assert!(words.compare_and_set("one", Expected::Absent, "eins")?.is_done());
/// assert!(words.compare_and_set("one", Expected::Value(b"eins"), "uno")?.is_done());
/// let version = words.get_versioned("one")?.unwrap().version;
/// assert!(words.compare_and_set("one", Expected::Version(version), "un")?.is_done());
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected<'a> {
    /// Nothing: the key was never written, it was deleted, or its value has expired.
    Absent,
    /// The value of this version, as [`Keyspace::get_versioned`] returned it.
    Version(SeqNo),
    /// This value, whoever wrote it and whenever.
    Value(&'a [u8]),
}

/// The outcome of a conditional write.
///
/// ```
/// # let words = cleavedb::open(cleavedb::doc_dir("exchange"))?.default_keyspace();
/// use cleavedb::Exchange;
/// words.put("one", "eins")?;
/// match words.put_if_absent("one", "uno")? {
///     Exchange::Done(version) => println!("written as version {version}"),
///     Exchange::Mismatch(Some(found)) => assert_eq!(found.value, "eins"),
///     Exchange::Mismatch(None) => println!("there is nothing"),
/// }
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "if it is a mismatch, nothing was written"]
pub enum Exchange {
    /// The write happened; this is its version.
    Done(SeqNo),
    /// Nothing was written, because this was under the key instead; `None` if there was nothing.
    Mismatch(Option<Versioned>),
}

impl Exchange {
    /// Returns true if the write happened.
    ///
    /// ```
    /// assert!(cleavedb::Exchange::Done(7).is_done());
    /// assert!(!cleavedb::Exchange::Mismatch(None).is_done());
    /// ```
    pub fn is_done(&self) -> bool {
        matches!(self, Exchange::Done(_))
    }
}

impl Keyspace {
    /// Returns the value of a key with its version, or `None` if it has none. Costs as much as
    /// [`Keyspace::get`].
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("get-versioned"))?.default_keyspace();
    /// use cleavedb::Expected;
    /// words.put("one", "eins")?;
    /// let found = words.get_versioned("one")?.unwrap();
    /// let shouted = found.value.to_ascii_uppercase();
    /// let done = words.compare_and_set("one", Expected::Version(found.version), shouted)?;
    /// assert!(done.is_done());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn get_versioned(&self, key: impl AsRef<[u8]>) -> Result<Option<Versioned>> {
        self.get_versioned_with(key, &ReadOptions::default())
    }

    /// Reads as [`Keyspace::get_versioned`] does, at a snapshot, in a transaction, or without
    /// filling the cache.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("get-versioned-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("one", "eins")?;
    /// let before = db.snapshot();
    /// words.put("one", "uno")?;
    /// let then = words.get_versioned_with("one", &ReadOptions::new().snapshot(&before))?;
    /// assert!(then.unwrap().version < words.get_versioned("one")?.unwrap().version);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn get_versioned_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Versioned>> {
        let key = key.as_ref();
        self.again(options, || self.get_versioned_once(key, options))
    }

    fn get_versioned_once(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Versioned>> {
        let (view, point) = self.peek_at(options.read_snapshot())?;
        if let Some(own) = self.own_value(&view, point.seqno, key, options)? {
            return Ok(own.map(|value| Versioned { value, version: 0 }));
        }
        let (view, found) = self.look_up(view, key, point, options)?;
        versioned(&self.core, &view, key, found)
    }

    /// Puts a value if what is under the key is as expected. Nobody else writes between the
    /// comparison and the put.
    ///
    /// Costs a [`Keyspace::get`], of which the value is read only to be compared or returned, and a
    /// [`Keyspace::put`]; again if another write of the same key came in between, or perhaps came,
    /// because a flush did. Fails as these do.
    ///
    /// ```
    /// # let stock = cleavedb::open(cleavedb::doc_dir("compare-and-set"))?.default_keyspace();
    /// use cleavedb::{Exchange, Expected};
    /// stock.put("apples", "3")?;
    /// let done = stock.compare_and_set("apples", Expected::Value(b"3"), "2")?;
    /// assert!(done.is_done());
    /// let again = stock.compare_and_set("apples", Expected::Value(b"3"), "2")?;
    /// assert!(matches!(again, Exchange::Mismatch(Some(found)) if found.value == "2"));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Expected<'_>,
        value: impl AsRef<[u8]>,
    ) -> Result<Exchange> {
        self.compare_and_set_with(key, expected, value, &WriteOptions::default())
    }

    /// Puts a value as [`Keyspace::compare_and_set`] does, with a durability of its own.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("compare-and-set-with"))?.default_keyspace();
    /// use cleavedb::{Durability, Expected, WriteOptions};
    /// let synced = WriteOptions::new().durability(Durability::Sync);
    /// assert!(words.compare_and_set_with("one", Expected::Absent, "eins", &synced)?.is_done());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn compare_and_set_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Expected<'_>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<Exchange> {
        self.exchange(key.as_ref(), expected, Some(value.as_ref()), options)
    }

    /// Deletes a key if what is under it is as expected, as [`Keyspace::compare_and_set`] puts.
    ///
    /// ```
    /// # let locks = cleavedb::open(cleavedb::doc_dir("compare-and-delete"))?.default_keyspace();
    /// use cleavedb::Expected;
    /// locks.put("door", "held by 7")?;
    /// assert!(!locks.compare_and_delete("door", Expected::Value(b"held by 8"))?.is_done());
    /// assert!(locks.compare_and_delete("door", Expected::Value(b"held by 7"))?.is_done());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn compare_and_delete(
        &self,
        key: impl AsRef<[u8]>,
        expected: Expected<'_>,
    ) -> Result<Exchange> {
        self.compare_and_delete_with(key, expected, &WriteOptions::default())
    }

    /// Deletes a key as [`Keyspace::compare_and_delete`] does, with a durability of its own.
    ///
    /// ```
    /// # let locks = cleavedb::open(cleavedb::doc_dir("cad-with"))?.default_keyspace();
    /// use cleavedb::{Durability, Expected, WriteOptions};
    /// locks.put("door", "7")?;
    /// let synced = WriteOptions::new().durability(Durability::Sync);
    /// assert!(locks.compare_and_delete_with("door", Expected::Value(b"7"), &synced)?.is_done());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn compare_and_delete_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Expected<'_>,
        options: &WriteOptions,
    ) -> Result<Exchange> {
        options.check_no_expiry()?;
        self.exchange(key.as_ref(), expected, None, options)
    }

    /// Puts a value if the key has none: [`Keyspace::compare_and_set`] with [`Expected::Absent`].
    ///
    /// ```
    /// # let users = cleavedb::open(cleavedb::doc_dir("put-if-absent"))?.default_keyspace();
    /// assert!(users.put_if_absent("ada", "Lovelace")?.is_done());
    /// assert!(!users.put_if_absent("ada", "Byron")?.is_done());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn put_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Exchange> {
        self.compare_and_set(key, Expected::Absent, value)
    }

    /// Replaces the value of a key by what `change` makes of it: `None` stands for no value, in
    /// both directions. If somebody else writes the key meanwhile, `change` is called again with
    /// the new value. Returns what `change` returned last.
    ///
    /// The new value does not take over the deadline of the old one: it expires as a put would, by
    /// the expiry of [`Keyspace::update_with`]'s options or the keyspace's default, else never.
    ///
    /// Costs as much as [`Keyspace::compare_and_set`], and nothing is written if there is no value
    /// before nor after.
    ///
    /// ```
    /// # let counters = cleavedb::open(cleavedb::doc_dir("update"))?.default_keyspace();
    /// let count = |old: Option<&[u8]>| {
    ///     let old = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
    ///     Some((old + 1).to_le_bytes())
    /// };
    /// counters.update("visits", count)?;
    /// assert_eq!(counters.update("visits", count)?, Some(2u64.to_le_bytes()));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<V>> {
        self.update_with(key, &WriteOptions::default(), change)
    }

    /// Replaces a value as [`Keyspace::update`] does, with a durability of its own.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("update-with"))?.default_keyspace();
    /// use cleavedb::{Durability, WriteOptions};
    /// let synced = WriteOptions::new().durability(Durability::Sync);
    /// words.update_with("one", &synced, |old| old.is_none().then_some("eins"))?;
    /// assert_eq!(words.get("one")?.unwrap(), "eins");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn update_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
        mut change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<V>> {
        self.try_update_with(key, options, |old| Ok(change(old)))
    }

    /// Replaces a value as [`Keyspace::update_with`] does, by a change that may fail, as one that
    /// can't read the value does. Then nothing is written, and its error is returned.
    ///
    /// ```
    /// # let counters = cleavedb::open(cleavedb::doc_dir("try-update"))?.default_keyspace();
    /// use cleavedb::{Error, ErrorKind, WriteOptions};
    /// let count = |old: Option<&[u8]>| {
    ///     let old = <[u8; 8]>::try_from(old.unwrap_or(&[0; 8]));
    ///     let old = old.map_err(|_| Error::new(ErrorKind::InvalidArgument, "no counter"))?;
    ///     Ok(Some((u64::from_le_bytes(old) + 1).to_le_bytes()))
    /// };
    /// counters.try_update_with("visits", &WriteOptions::default(), count)?;
    /// counters.put("name", "Ada")?;
    /// assert!(counters.try_update_with("name", &WriteOptions::default(), count).is_err());
    /// assert_eq!(counters.get("name")?.unwrap(), "Ada");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn try_update_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
        mut change: impl FnMut(Option<&[u8]>) -> Result<Option<V>>,
    ) -> Result<Option<V>> {
        let key = key.as_ref();
        self.core.check_writable()?;
        let durability = self.core.durability(options)?;
        let _watch = self.core.committer.watch();
        self.core.time_write(self.state.id, || {
            let (mut found, mut holds) = self.read_versioned(key)?;
            let mut admitted = None;
            loop {
                let made = change(found.as_ref().map(|found| &found.value[..]))?;
                if made.is_none() && found.is_none() {
                    return Ok(None);
                }
                let value = made.as_ref().map(AsRef::as_ref);
                let write = SingleWrite::prepare(self, key, value, options)?;
                // What is no larger than what was admitted need not wait once more.
                let size = value.map(<[u8]>::len);
                if admitted.is_none_or(|admitted| size > admitted) {
                    write.with_frame(|frame| self.core.committer.admit_frame(&frame))?;
                    admitted = Some(size);
                }
                let version = found.as_ref().map(|found| found.version);
                // As long as the version stays the same, what was made of the value stays right.
                while found.as_ref().map(|found| found.version) == version {
                    if self.commit_unless_changed(key, holds, &write, durability)?.is_some() {
                        return Ok(made);
                    }
                    (found, holds) = self.read_versioned(key)?;
                }
            }
        })
    }
}

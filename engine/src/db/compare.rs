//! Compare-and-set: writes that depend on what is there, atomic among all writers.
//!
//! The key is read first, without any lock. The commit then checks, under the lock of the log, that
//! nobody wrote the key since (`commit/conditions.rs`); if somebody did, it is read again.

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::value::Value;
use crate::commit::batch::Batch;
use crate::commit::conditions::{Conditions, KeyspaceReads};
use crate::commit::group::Durability;
use crate::commit::request::CommitOutcome;
use crate::db::Core;
use crate::db::batch::{OwnedExpected, Requirement};
use crate::db::keyspace::Keyspace;
use crate::db::options::WriteOptions;
use crate::db::read_options::ReadOptions;
use crate::db::snapshot::Snapshot;
use crate::read::get::{Lookup, get};
use crate::version::expiry::ReadPoint;
use crate::version::view::View;
use std::sync::Arc;

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
    /// The sequence number of the write that made it. No other write of the database ever has the
    /// same, so as long as the version is the same, nobody has written the key. Zero for a
    /// transaction's own write, which gets a number when it is committed.
    pub version: SeqNo,
}

/// What must be under a key for a conditional write to happen.
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
    /// Nothing: the key was never written, or it was deleted.
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
        let (view, point) = self.peek_at(options.snapshot.as_ref())?;
        if let Some(own) = self.own_value(key, options)? {
            return Ok(own.map(|value| Versioned { value, version: 0 }));
        }
        let found = get(&view, key, point, options.fill_cache, Some(&self.core.hot))?;
        versioned(&self.core, &view, key, found)
    }

    /// Puts a value if what is under the key is as expected. Nobody else writes between the
    /// comparison and the put.
    ///
    /// Costs a [`Keyspace::get`], of which the value is read only to be compared or returned, and a
    /// [`Keyspace::put`]; again if another write of the same key came in between. Fails as these
    /// do.
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
        let key = key.as_ref();
        self.core.check_writable()?;
        let durability = self.core.durability(options)?;
        let _watch = self.core.committer.watch();
        self.core.time_write(self.state.id, || {
            loop {
                let (found, since) = self.read_versioned(key)?;
                let made = change(found.as_ref().map(|found| &found.value[..]));
                if made.is_none() && found.is_none() {
                    return Ok(None);
                }
                let batch = self.write_of(key, made.as_ref().map(AsRef::as_ref), options)?;
                if self.commit_unless_written(key, since, &batch, durability)?.is_some() {
                    return Ok(made);
                }
            }
        })
    }

    /// Returns a batch that puts a value, or deletes the key if it is `None`.
    fn write_of(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Result<Arc<Batch>> {
        let mut batch = Batch::default();
        match value {
            Some(value) => batch.put(&self.state, key, value, self.deadline(options.expiry))?,
            None => batch.delete(&self.state, key)?,
        }
        Ok(Arc::new(batch))
    }

    /// Commits a write of `key` and returns its sequence number, or `None` if nothing was written,
    /// because somebody else wrote the key after `since`, or perhaps did.
    fn commit_unless_written(
        &self,
        key: &[u8],
        since: SeqNo,
        batch: &Arc<Batch>,
        durability: Durability,
    ) -> Result<Option<SeqNo>> {
        let reads = [KeyspaceReads::new(self.state.clone(), vec![key.into()], Vec::new())];
        let conditions = Some(Conditions { since, reads: reads.into() });
        match self.core.committer.commit_batch_if(batch, conditions, durability)? {
            CommitOutcome::Committed(version) => Ok(Some(version)),
            CommitOutcome::Conflict(_) | CommitOutcome::Unknown => {
                self.core.counters.conflicts.add(1);
                Ok(None)
            }
        }
    }

    /// Returns what is under a key, and the sequence number up to which that is so.
    fn read_versioned(&self, key: &[u8]) -> Result<(Option<Versioned>, SeqNo)> {
        let (view, point) = self.peek_at(None)?;
        let found = get(&view, key, point, true, Some(&self.core.hot))?;
        Ok((versioned(&self.core, &view, key, found)?, point.seqno))
    }

    /// Puts a value, or deletes the key if it is `None`, if what is there is as expected.
    fn exchange(
        &self,
        key: &[u8],
        expected: Expected<'_>,
        value: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Result<Exchange> {
        self.core.check_writable()?;
        let batch = self.write_of(key, value, options)?;
        let durability = self.core.durability(options)?;
        let _watch = self.core.committer.watch();
        self.core.time_write(self.state.id, || {
            loop {
                let since = match self.compare(key, expected)? {
                    Ok(since) => since,
                    Err(found) => return Ok(Exchange::Mismatch(found)),
                };
                let written = self.commit_unless_written(key, since, &batch, durability)?;
                if let Some(version) = written {
                    return Ok(Exchange::Done(version));
                }
            }
        })
    }

    /// Returns a sequence number after which nobody may have written the key, because up to it the
    /// key was as expected; or else what was found.
    fn compare(
        &self,
        key: &[u8],
        expected: Expected<'_>,
    ) -> Result<std::result::Result<SeqNo, Option<Versioned>>> {
        // The number is read before the view, which then holds every write up to it. The number
        // that comes with the view is read after it: the memtable may have been sealed in between,
        // and a write to the next one is up to that number, but not in the view.
        let since = self.core.snapshots.visible();
        let (view, point) = self.peek_at(None)?;
        let found = get(&view, key, point, true, Some(&self.core.hot))?;
        Ok(mismatch(&self.core, &view, key, expected, found)?.map_or(Ok(since), Err))
    }
}

/// Reads the value of what was found under a key.
fn versioned(core: &Core, view: &View, key: &[u8], found: Lookup) -> Result<Option<Versioned>> {
    Ok(match found {
        Lookup::Nothing => None,
        Lookup::Inline(value, version) => Some(Versioned { value: value.into(), version }),
        Lookup::Pointer(pointer, version) => {
            let value = core.fetcher.value(view, pointer, key, version)?;
            Some(Versioned { value, version })
        }
    })
}

/// Returns what was found under a key if it is not what was expected.
fn mismatch(
    core: &Core,
    view: &View,
    key: &[u8],
    expected: Expected<'_>,
    found: Lookup,
) -> Result<Option<Option<Versioned>>> {
    let version = match &found {
        Lookup::Nothing => None,
        Lookup::Inline(_, version) | Lookup::Pointer(_, version) => Some(*version),
    };
    let is_met = match expected {
        Expected::Absent => version.is_none(),
        Expected::Version(expected) => version == Some(expected),
        Expected::Value(expected) => {
            let found = versioned(core, view, key, found)?;
            let is_met = found.as_ref().is_some_and(|found| found.value[..] == *expected);
            return Ok((!is_met).then_some(found));
        }
    };
    if is_met { Ok(None) } else { versioned(core, view, key, found).map(Some) }
}

/// Commits a batch if all of its requirements are met.
pub(super) fn write_if(
    core: &Arc<Core>,
    batch: Batch,
    requirements: &[Requirement],
    durability: Durability,
) -> Result<()> {
    let batch = Arc::new(batch);
    let read = |requirement: &Requirement| {
        KeyspaceReads::new(requirement.keyspace.clone(), vec![requirement.key.clone()], Vec::new())
    };
    let reads: Arc<[KeyspaceReads]> = requirements.iter().map(read).collect();
    let _watch = core.committer.watch();
    core.time_write(requirements[0].keyspace.id, || {
        loop {
            // The snapshot keeps all that was visible at one moment, over all keyspaces.
            let snapshot = Snapshot::take(core);
            let since = snapshot.seqno();
            for requirement in requirements {
                check_requirement(core, requirement, snapshot.point())?;
            }
            if batch.is_empty() {
                return Ok(());
            }
            let conditions = Some(Conditions { since, reads: reads.clone() });
            let outcome = core.committer.commit_batch_if(&batch, conditions, durability)?;
            if let CommitOutcome::Committed(_) = outcome {
                return Ok(());
            }
            core.counters.conflicts.add(1);
        }
    })
}

/// Returns an error unless a requirement is met at `point`, at which a snapshot lives.
fn check_requirement(core: &Core, requirement: &Requirement, point: ReadPoint<'_>) -> Result<()> {
    let Requirement { keyspace, key, expected } = requirement;
    let view = keyspace.view();
    keyspace.check()?;
    let found = get(&view, key, point, true, Some(&core.hot))?;
    let expected = match expected {
        OwnedExpected::Absent => Expected::Absent,
        OwnedExpected::Version(version) => Expected::Version(*version),
        OwnedExpected::Value(value) => Expected::Value(value),
    };
    if mismatch(core, &view, key, expected, found)?.is_none() {
        return Ok(());
    }
    core.counters.conflicts.add(1);
    let error = Error::conflict(&keyspace.name, key, "is not as the batch requires");
    Err(error.advise("read it again"))
}

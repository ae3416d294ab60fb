//! Transactions: several reads and writes as if they happened at one moment.
//!
//! A transaction reads at a snapshot and keeps its writes to itself. The commit checks, under the
//! lock of the log, that nobody wrote what the transaction has read (`commit/conditions.rs`), so
//! transactions are serializable in the order of their commits. Nobody waits for a transaction.

mod commit;
mod state;
pub(crate) mod tracker;

use crate::base::bounds::Bounds;
use crate::base::error::{Error, Result};
use crate::base::expiry::Deadline;
use crate::base::value::Value;
use crate::commit::batch::Batch;
use crate::commit::conditional::CommitWatch;
use crate::commit::conditions::{Conditions, ReadParts};
use crate::db::expiry::Expiry;
use crate::db::holders::CoreHold;
use crate::db::key_range::KeyRange;
use crate::db::keyspace::Keyspace;
use crate::db::options::WriteOptions;
use crate::db::range::Range;
use crate::db::read_options::ReadOptions;
use crate::db::snapshot::Snapshot;
use crate::db::{Core, Db};
use crate::env::sync::{Mutex, MutexGuard};
use crate::read::cursor::OwnEntries;
use crate::version::view::KeyspaceState;
use state::TransactionWork;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};

/// The state that a transaction shares with its cursors.
pub(crate) struct TransactionState {
    /// Makes the commit's check quick. It is dropped before the snapshot, which may be the last to
    /// hold the database open.
    _watch: CommitWatch,
    /// The moment that is read.
    pub(super) snapshot: Snapshot,
    inner: Mutex<TransactionInner>,
}

#[derive(Default)]
struct TransactionInner {
    work: TransactionWork,
    /// The savepoints that can be gone back to: their ids, and the number of operations before.
    savepoints: Vec<(u64, usize)>,
    next_savepoint: u64,
    /// True once the transaction was committed, or given up.
    ended: bool,
}

/// The work of a transaction, locked.
struct LockedWork<'a>(MutexGuard<'a, TransactionInner>);

impl Deref for LockedWork<'_> {
    type Target = TransactionWork;

    fn deref(&self) -> &TransactionWork {
        &self.0.work
    }
}

impl DerefMut for LockedWork<'_> {
    fn deref_mut(&mut self) -> &mut TransactionWork {
        &mut self.0.work
    }
}

/// What a transaction has made of the value of a key.
pub(crate) enum OwnRead {
    /// It wrote this value, or deleted the key.
    Written(Option<Value>),
    /// It merged last: the value is in these entries and what is below them.
    Merged(OwnEntries),
}

impl TransactionState {
    /// Returns the work of the transaction, or `None` if it has ended.
    fn unless_ended(&self) -> Option<LockedWork<'_>> {
        let inner = self.inner.lock();
        (!inner.ended).then_some(LockedWork(inner))
    }

    fn work(&self) -> Result<LockedWork<'_>> {
        self.unless_ended().ok_or_else(|| {
            Error::wrong_state("the transaction has ended").advise("begin another one")
        })
    }

    /// Ends the transaction; returns its writes, and what it has read, unless that is nothing.
    fn end(&self) -> Result<(Batch, Option<Conditions<'static>>)> {
        let LockedWork(mut inner) = self.work()?;
        inner.ended = true;
        let mut work = std::mem::take(&mut inner.work);
        if !work.batch.is_empty() {
            work.check_reads()?;
        }
        let (since, until) = (self.snapshot.seqno(), work.until.take());
        let (batch, reads) = (std::mem::take(&mut work.batch), work.take_reads());
        debug_assert!(until.is_none() || !reads.is_empty(), "what expires was read");
        let conditions = Conditions { since, reads: ReadParts::Shared(reads.into()), until };
        Ok((batch, (!conditions.reads.is_empty()).then_some(conditions)))
    }

    /// Passes the transaction's writes, and the number of the last one on a key, to `see` and
    /// returns its result. Returns `None` if the transaction did not write the key, and remembers
    /// that it was read.
    pub(crate) fn read<R>(
        &self,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
        see: impl FnOnce(&Batch, usize) -> Result<R>,
    ) -> Result<Option<R>> {
        let mut work = self.work()?;
        let operation = work.read_operation(keyspace, key);
        operation.map(|operation| see(&work.batch, operation)).transpose()
    }

    /// Returns what the transaction itself has made of a key's value, or `None` if it did not write
    /// the key. Remembers that the key was read, unless the transaction knows its value alone.
    ///
    /// All of it is of one moment, whoever else writes in the transaction or rolls it back.
    pub(crate) fn own_read(
        &self,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
    ) -> Result<Option<OwnRead>> {
        let mut work = self.work()?;
        let Some(operation) = work.read_operation(keyspace, key) else {
            return Ok(None);
        };
        if work.batch.is_merge(operation) {
            return Ok(work.own_entries(keyspace)?.map(OwnRead::Merged));
        }
        let value = work.batch.value(operation)?.map(|value| Value::copy_from(&value));
        Ok(Some(OwnRead::Written(value)))
    }

    /// Remembers that a value was read that expires at `deadline`.
    pub(crate) fn note_deadline(
        &self,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
        deadline: Deadline,
    ) {
        if let Some(mut work) = self.unless_ended() {
            work.note_deadline(keyspace, key, deadline);
        }
    }

    /// Returns the transaction's own writes in a keyspace so far, or `None` if there are none.
    pub(crate) fn own_entries(&self, keyspace: &Arc<KeyspaceState>) -> Result<Option<OwnEntries>> {
        self.work()?.own_entries(keyspace)
    }
}

impl fmt::Debug for TransactionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionState").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

/// Several reads and writes, over any keyspaces of a database, that take effect as if they happened
/// at one moment, that of the commit: transactions are *serializable*. [`Db::begin`] begins one;
/// [`Db::transact`] also runs it again after a conflict.
///
/// A transaction reads what was committed when it began, and its own writes. Nobody else sees these
/// before the commit. If somebody else has written by then what the transaction has read, a key or
/// a part of a range that had no keys then, the commit fails with [`ErrorKind::Conflict`] and
/// writes nothing. A transaction that only reads never fails, and one that reads nothing has no
/// conflicts. Nobody ever waits for a transaction. While it lives it keeps the space of what it
/// sees, as a snapshot does.
///
/// A transaction judges deadlines by the time when it began. A value that it has read and that has
/// expired by the commit is a conflict too, as others may know already that it is gone. So a
/// transaction that takes longer than what it reads has left to live is refused in the end, and
/// when [`Db::transact`] runs it again, the value is absent.
///
/// All calls take `&self`, so a transaction can be shared; calls of several threads take turns.
/// One that is dropped without a commit has no effect. Its writes are held in memory, at most
/// [`MAX_BATCH_BYTES`](crate::MAX_BATCH_BYTES), and once more, uncompressed, for cursors and scans
/// in a keyspace that it has written to. So are the keys that it has read, at most 64 MiB: a
/// transaction that has read more, and also writes, fails with [`ErrorKind::LimitReached`]. A range
/// takes only its two ends.
///
/// [`ErrorKind::Conflict`]: crate::ErrorKind::Conflict
/// [`ErrorKind::LimitReached`]: crate::ErrorKind::LimitReached
///
/// ```
/// # let dir = cleavedb::doc_dir("transaction");
/// let db = cleavedb::open(&dir)?;
/// let accounts = db.create_keyspace("accounts")?;
/// accounts.put("ada", "100")?;
/// accounts.put("grace", "0")?;
///
/// let transfer = db.begin();
/// assert_eq!(transfer.get(&accounts, "ada")?.unwrap(), "100");
/// transfer.put(&accounts, "ada", "90")?;
/// transfer.put(&accounts, "grace", "10")?;
/// assert_eq!(transfer.get(&accounts, "ada")?.unwrap(), "90");
/// assert_eq!(accounts.get("ada")?.unwrap(), "100");
/// transfer.commit()?;
/// assert_eq!(accounts.get("ada")?.unwrap(), "90");
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[must_use = "a transaction has no effect until it is committed"]
pub struct Transaction {
    core: CoreHold,
    state: Arc<TransactionState>,
}

/// A point in a transaction that it can go back to. Made by [`Transaction::savepoint`].
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("savepoint"))?;
/// # let words = db.default_keyspace();
/// let transaction = db.begin();
/// let before = transaction.savepoint()?;
/// transaction.put(&words, "one", "eins")?;
/// transaction.rollback_to(&before)?;
/// assert!(transaction.get(&words, "one")?.is_none());
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub struct Savepoint {
    transaction: Weak<TransactionState>,
    id: u64,
}

impl Db {
    /// Begins a transaction over all keyspaces. Cheap: costs no I/O and nothing on disk.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("begin"))?;
    /// # let words = db.default_keyspace();
    /// let transaction = db.begin();
    /// if transaction.get(&words, "one")?.is_none() {
    ///     transaction.put(&words, "one", "eins")?;
    /// }
    /// words.put("one", "uno")?;
    /// assert_eq!(transaction.commit().unwrap_err().kind(), cleavedb::ErrorKind::Conflict);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn begin(&self) -> Transaction {
        // The keys of commits are noted from before the snapshot on, so that nothing is missing.
        let watch = self.core.committer.watch();
        let snapshot = Snapshot::for_transaction(&self.core);
        let inner = Mutex::new(TransactionInner::default());
        let state = Arc::new(TransactionState { _watch: watch, snapshot, inner });
        Transaction { core: CoreHold::new(Arc::clone(&self.core)), state }
    }
}

impl Transaction {
    /// Returns options with which every read of a [`Keyspace`] reads in this transaction: at its
    /// snapshot, with its own writes, and remembered for the commit. The calls below are short
    /// forms for the common ones.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-read-options"))?;
    /// # let words = db.default_keyspace();
    /// let transaction = db.begin();
    /// transaction.put(&words, "b", "2")?;
    /// transaction.put(&words, "a", "1")?;
    /// let last = words.last_key_value_with(&transaction.read_options())?;
    /// assert_eq!(last.unwrap().0, b"b");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions::in_transaction(&self.state)
    }

    /// Returns the value of a key, or `None` if it has none. Costs as much as [`Keyspace::get`].
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-get"))?;
    /// # let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// let transaction = db.begin();
    /// words.put("one", "uno")?;
    /// assert_eq!(transaction.get(&words, "one")?.unwrap(), "eins");
    /// transaction.put(&words, "one", "un")?;
    /// assert_eq!(transaction.get(&words, "one")?.unwrap(), "un");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        keyspace.get_with(key, &self.read_options())
    }

    /// Returns true if the key has a value. Costs as much as [`Keyspace::contains_key`].
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-contains-key"))?;
    /// # let words = db.default_keyspace();
    /// let transaction = db.begin();
    /// transaction.put(&words, "one", "eins")?;
    /// assert!(transaction.contains_key(&words, "one")?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        keyspace.contains_key_with(key, &self.read_options())
    }

    /// Scans the pairs whose keys are in a range, from both ends, as [`Keyspace::range`] does. The
    /// scan sees the writes that the transaction made before it. The part that is walked counts as
    /// read, so a key that somebody else adds there is a conflict too.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-range"))?;
    /// # let words = db.default_keyspace();
    /// words.put("a", "1")?;
    /// let transaction = db.begin();
    /// transaction.delete(&words, "a")?;
    /// transaction.put(&words, "b", "2")?;
    /// let pairs = transaction.range(&words, ..).collect::<cleavedb::Result<Vec<_>>>()?;
    /// assert_eq!(pairs, [(b"b".to_vec(), b"2".to_vec().into())]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn range(&self, keyspace: &Keyspace, range: impl KeyRange) -> Range {
        keyspace.range_with(range, &self.read_options())
    }

    /// Scans the pairs whose keys begin with `prefix`, as [`Transaction::range`] does.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-prefix"))?;
    /// # let users = db.default_keyspace();
    /// let transaction = db.begin();
    /// transaction.put(&users, "user:7:name", "Ada")?;
    /// assert_eq!(transaction.prefix(&users, "user:").count(), 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Range {
        keyspace.prefix_with(prefix, &self.read_options())
    }

    /// Puts a value under a key, at the commit. Costs no I/O before.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-put"))?;
    /// # let words = db.default_keyspace();
    /// let transaction = db.begin();
    /// transaction.put(&words, "one", "eins")?;
    /// assert!(words.get("one")?.is_none());
    /// transaction.commit()?;
    /// assert_eq!(words.get("one")?.unwrap(), "eins");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn put(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write(keyspace, key.as_ref(), Some((value.as_ref(), keyspace.deadline(None))))
    }

    /// Puts a value that expires as [`Keyspace::put_expiring`] says. A time span counts from this
    /// call on. The transaction itself sees what it put, even after the deadline.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-put-expiring"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::Ttl;
    /// let transaction = db.begin();
    /// transaction.put_expiring(&words, "one", "eins", std::time::Duration::from_secs(3600))?;
    /// transaction.commit()?;
    /// assert!(matches!(words.ttl("one")?, Some(Ttl::Left(_))));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn put_expiring(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: impl Into<Expiry>,
    ) -> Result<()> {
        let deadline = keyspace.deadline(Some(expiry.into()));
        self.write(keyspace, key.as_ref(), Some((value.as_ref(), deadline)))
    }

    /// Deletes a key, at the commit. Deleting a key that does not exist succeeds.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-delete"))?;
    /// # let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// let transaction = db.begin();
    /// transaction.delete(&words, "one")?;
    /// assert!(transaction.get(&words, "one")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(keyspace, key.as_ref(), None)
    }

    /// Merges an operand with what is under a key, at the commit, as [`Keyspace::merge`] does. The
    /// key does not count as read, so that transactions which only merge have no conflicts.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-merge"))?;
    /// use cleavedb::{KeyspaceOptions, merge_operators};
    /// let merge_operator = Some(merge_operators::ADD.to_owned());
    /// let options = KeyspaceOptions { merge_operator, ..Default::default() };
    /// let counters = db.create_keyspace_with("counters", options)?;
    /// let (one, two) = (db.begin(), db.begin());
    /// one.merge(&counters, "visits", "1")?;
    /// two.merge(&counters, "visits", "1")?;
    /// one.commit()?;
    /// two.commit()?;
    /// assert_eq!(counters.get("visits")?.unwrap(), "2");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn merge(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.core.check_writable()?;
        self.check_home(&keyspace.core)?;
        self.state.work()?.merge(&keyspace.state, key.as_ref(), operand.as_ref())
    }

    fn write(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        value: Option<(&[u8], Option<Deadline>)>,
    ) -> Result<()> {
        self.core.check_writable()?;
        self.check_home(&keyspace.core)?;
        self.state.work()?.write(&keyspace.state, key, value)
    }

    pub(super) fn delete_bounds(&self, keyspace: &Keyspace, range: Bounds) -> Result<()> {
        self.core.check_writable()?;
        self.check_home(&keyspace.core)?;
        self.state.work()?.delete_range(&keyspace.state, range)
    }

    fn check_home(&self, core: &Arc<Core>) -> Result<()> {
        if self.state.snapshot.belongs_to(core) {
            return Ok(());
        }
        Err(Error::invalid_argument("a transaction is for keyspaces of one database"))
    }

    /// Marks this point, so that later writes can be taken back without those before. Cheap.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-savepoint"))?;
    /// # let words = db.default_keyspace();
    /// let transaction = db.begin();
    /// transaction.put(&words, "one", "eins")?;
    /// let first = transaction.savepoint()?;
    /// transaction.put(&words, "two", "zwei")?;
    /// transaction.rollback_to(&first)?;
    /// transaction.commit()?;
    /// assert_eq!(words.keys().count(), 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn savepoint(&self) -> Result<Savepoint> {
        self.core.check_open()?;
        let LockedWork(mut inner) = self.state.work()?;
        let id = inner.next_savepoint;
        inner.next_savepoint += 1;
        let operations = inner.work.batch.len();
        inner.savepoints.push((id, operations));
        Ok(Savepoint { transaction: Arc::downgrade(&self.state), id })
    }

    /// Takes back the writes since `savepoint`, which may be used again; later ones end. What was
    /// read since then still counts as read. Cursors and scans made before go on seeing what they
    /// saw.
    ///
    /// Costs time in measure to the writes that are taken back, and to all deleted ranges if one of
    /// them is; if a cursor or scan has seen the writes, the next one costs time in measure to
    /// those that are left. Fails with
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the savepoint is of
    /// another transaction, or ended when the transaction went back to an earlier one.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("rollback-to"))?;
    /// # let words = db.default_keyspace();
    /// let transaction = db.begin();
    /// let empty = transaction.savepoint()?;
    /// transaction.put(&words, "one", "eins")?;
    /// transaction.rollback_to(&empty)?;
    /// assert!(transaction.get(&words, "one")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        self.core.check_open()?;
        let LockedWork(mut inner) = self.state.work()?;
        let found = std::ptr::eq(savepoint.transaction.as_ptr(), Arc::as_ptr(&self.state))
            .then(|| inner.savepoints.iter().position(|(id, _)| *id == savepoint.id))
            .flatten();
        let Some(index) = found else {
            return Err(Error::invalid_argument(
                "the savepoint is not of this transaction any more",
            )
            .advise("use one that was made earlier, or begin another transaction"));
        };
        inner.savepoints.truncate(index + 1);
        let (_, operations) = inner.savepoints[index];
        inner.work.take_back(operations);
        Ok(())
    }

    /// Gives the transaction up. Dropping it does the same.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("rollback"))?;
    /// # let words = db.default_keyspace();
    /// let transaction = db.begin();
    /// transaction.put(&words, "one", "eins")?;
    /// transaction.rollback();
    /// assert!(words.get("one")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn rollback(self) {
        drop(self);
    }

    /// Commits the transaction with the database's durability: all of its writes become visible at
    /// once, and after a crash all of them are there or nothing (I1).
    ///
    /// Costs one write of the log and, depending on the durability, one sync. What others wrote
    /// since the transaction began is known for the last few thousand operations, if keys are not
    /// very long. If there were more, what was read is searched for in what was written since then,
    /// before the commit.
    ///
    /// Fails with [`ErrorKind::Conflict`] if somebody else wrote what the transaction has read, or
    /// if a value that it has read has expired; nothing was written then. Other failures are those
    /// of [`Db::write`].
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("commit"))?;
    /// # let words = db.default_keyspace();
    /// let transaction = db.begin();
    /// transaction.put(&words, "one", "eins")?;
    /// transaction.commit()?;
    /// assert_eq!(words.get("one")?.unwrap(), "eins");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Conflict`]: crate::ErrorKind::Conflict
    pub fn commit(self) -> Result<()> {
        self.commit_with(&WriteOptions::default())
    }

    /// Commits as [`Transaction::commit`] does, with a durability of its own.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("commit-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::{Durability, WriteOptions};
    /// let transaction = db.begin();
    /// transaction.put(&words, "one", "eins")?;
    /// transaction.commit_with(&WriteOptions::new().durability(Durability::Sync))?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn commit_with(self, options: &WriteOptions) -> Result<()> {
        commit::commit(&self, options)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // Cursors may live on; they have nothing to remember any more. In a child of the process
        // that opened the database another thread may hold the lock for ever.
        if self.core.check_open().is_ok() {
            let mut inner = self.state.inner.lock();
            inner.ended = true;
            inner.work = TransactionWork::default();
        }
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("snapshot", &self.state.snapshot)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Savepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Savepoint").field("id", &self.id).finish_non_exhaustive()
    }
}

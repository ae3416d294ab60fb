//! A named ordered map inside a database.

use crate::base::error::Result;
use crate::commit::batch::CommitFrame;
use crate::db::holders::CoreHandle;
use crate::db::key_range::{KeyRange, bounds_of};
use crate::db::options::WriteOptions;
use crate::db::single_write::SingleWrite;
use crate::version::settings::KeyspaceOptions;
use crate::version::view::KeyspaceState;
use std::fmt;
use std::sync::Arc;

/// A named ordered map. Handles are cheap to clone and can be used from many threads. Like every
/// handle, one keeps the database open after [`Db`](crate::Db) was dropped. Once the keyspace is
/// dropped, every call on its handles fails with [`ErrorKind::KeyspaceDropped`]; cursors and scans
/// that were made before go on reading what they saw.
///
/// [`ErrorKind::KeyspaceDropped`]: crate::ErrorKind::KeyspaceDropped
///
/// ```
/// # let dir = cleavedb::doc_dir("keyspace");
/// let db = cleavedb::open(&dir)?;
/// let words = db.create_keyspace("words")?;
/// words.put("one", "eins")?;
/// words.put("two", "zwei")?;
/// words.delete("one")?;
/// assert!(words.get("one")?.is_none());
/// for item in words.range("a".."z") {
///     let (key, value) = item?;
///     assert_eq!((&key[..], &value[..]), (&b"two"[..], &b"zwei"[..]));
/// }
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) core: CoreHandle,
    pub(crate) state: Arc<KeyspaceState>,
}

impl Keyspace {
    /// Returns the keyspace's name.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("keyspace-name"))?;
    /// assert_eq!(db.create_keyspace("users")?.name(), "users");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns the settings in force.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("keyspace-options"))?.default_keyspace();
    /// let options = words.options();
    /// println!("values of {} bytes and more are separated", options.separation_threshold);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn options(&self) -> KeyspaceOptions {
        (**self.state.options()).clone()
    }

    /// Changes the settings durably: they are stored with the keyspace. They apply to what is
    /// written from now on; what was written before is read as it is. Costs one durable edit of the
    /// manifest, and nothing if the settings are the same.
    ///
    /// Fails with [`ErrorKind::InvalidOption`] if a setting is out of its range, and with
    /// [`ErrorKind::ReadOnly`] if the database takes no writes.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("set-options");
    /// use cleavedb::{Codec, KeyspaceOptions};
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.set_options(KeyspaceOptions { value_codec: Codec::Lz4, ..words.options() })?;
    /// assert_eq!(words.options().value_codec, Codec::Lz4);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::InvalidOption`]: crate::ErrorKind::InvalidOption
    /// [`ErrorKind::ReadOnly`]: crate::ErrorKind::ReadOnly
    pub fn set_options(&self, options: KeyspaceOptions) -> Result<()> {
        self.core.set_options(&self.state, options)
    }

    /// Puts a value under a key, replacing an earlier value.
    ///
    /// Keys hold up to 64 KiB, values up to 1 GiB. Costs one write of the log and, depending on the
    /// durability, one sync; a value that is separated is never written again by a flush or
    /// compaction. A write stall may delay the call ([`StallReason`](crate::StallReason)).
    ///
    /// Fails with [`ErrorKind::InvalidArgument`] if the key or the value is too large, with
    /// [`ErrorKind::DiskFull`] while the disk is full, and with [`ErrorKind::ReadOnly`] if the
    /// database takes no writes.
    ///
    /// [`ErrorKind::DiskFull`]: crate::ErrorKind::DiskFull
    /// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
    /// [`ErrorKind::ReadOnly`]: crate::ErrorKind::ReadOnly
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("put"))?.default_keyspace();
    /// words.put("one", "eins")?;
    /// words.put("one", "uno")?;
    /// assert_eq!(words.get("one")?.unwrap(), "uno");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, &WriteOptions::default())
    }

    /// Puts a value as [`Keyspace::put`] does, with a durability or an expiry of its own.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("put-with"))?.default_keyspace();
    /// use cleavedb::{Durability, WriteOptions};
    /// // This write is on the device when the call returns, whatever the database's durability is.
    /// words.put_with("one", "eins", &WriteOptions::new().durability(Durability::Sync))?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.write(key.as_ref(), Some(value.as_ref()), options)
    }

    /// Deletes a key. Deleting a key that does not exist succeeds.
    ///
    /// Costs one write of the log and, depending on the durability, one sync; the key is not read.
    /// Fails as [`Keyspace::put`] does.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("delete"))?.default_keyspace();
    /// words.put("one", "eins")?;
    /// words.delete("one")?;
    /// words.delete("never there")?;
    /// assert!(words.get("one")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, &WriteOptions::default())
    }

    /// Deletes a key as [`Keyspace::delete`] does, with a durability of its own.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("delete-with"))?.default_keyspace();
    /// use cleavedb::{Durability, WriteOptions};
    /// words.delete_with("one", &WriteOptions::new().durability(Durability::Sync))?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        options.check_no_expiry()?;
        self.write(key.as_ref(), None, options)
    }

    fn write(&self, key: &[u8], value: Option<&[u8]>, options: &WriteOptions) -> Result<()> {
        self.core.check_writable()?;
        self.commit(SingleWrite::prepare(self, key, value, options)?, options)
    }

    /// Merges an operand with what is under a key, as the keyspace's merge operator says: adds to a
    /// counter, or appends, say. The key is not read for that, and writers of one key do not wait
    /// for each other. [`MergeOperator`](crate::MergeOperator) says when operands become a value.
    ///
    /// Costs as much as [`Keyspace::put`] of the operand; later reads of the key cost a little
    /// more, until a flush or compaction has merged it.
    ///
    /// Fails as [`Keyspace::put`] does, and with [`ErrorKind::InvalidArgument`] if the keyspace has
    /// no merge operator ([`KeyspaceOptions::merge_operator`]), or if that refuses the operand.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("merge"))?;
    /// use cleavedb::{KeyspaceOptions, merge_operators};
    /// let merge_operator = Some(merge_operators::ADD.to_owned());
    /// let options = KeyspaceOptions { merge_operator, ..Default::default() };
    /// let counters = db.create_keyspace_with("counters", options)?;
    /// counters.merge("visits", "1")?;
    /// counters.merge("visits", "1")?;
    /// assert_eq!(counters.get("visits")?.unwrap(), "2");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, &WriteOptions::default())
    }

    /// Merges an operand as [`Keyspace::merge`] does, with a durability of its own. Fails if the
    /// options have an expiry.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("merge-with"))?;
    /// use cleavedb::{Durability, KeyspaceOptions, WriteOptions, merge_operators};
    /// let merge_operator = Some(merge_operators::UNION.to_owned());
    /// let options = KeyspaceOptions { merge_operator, ..Default::default() };
    /// let tags = db.create_keyspace_with("tags", options)?;
    /// tags.merge_with("ada", "poet", &WriteOptions::new().durability(Durability::Sync))?;
    /// assert_eq!(tags.get("ada")?.unwrap(), "poet\n");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        options.check_no_expiry()?;
        self.core.check_writable()?;
        self.commit(SingleWrite::merge(self, key.as_ref(), operand.as_ref())?, options)
    }

    fn commit(&self, write: SingleWrite<'_>, options: &WriteOptions) -> Result<()> {
        let durability = self.core.durability(options)?;
        let commit = |frame: CommitFrame<'_>| {
            self.core.committer.commit(frame, durability, || write.to_batch())
        };
        self.core.time_write(self.state.id, || write.with_frame(commit)).map(|_| ())
    }

    /// Flushes the memtable to a table and waits for it.
    ///
    /// Costs a write of the keys and small values that are in memory. Fails with
    /// [`ErrorKind::ReadOnly`] if the database takes no writes, and with the error of the flush.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("keyspace-flush"))?.default_keyspace();
    /// words.put("one", "eins")?;
    /// words.flush()?;
    /// assert_eq!(words.tables().len(), 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::ReadOnly`]: crate::ErrorKind::ReadOnly
    pub fn flush(&self) -> Result<()> {
        self.state.check()?;
        self.core.flush(std::slice::from_ref(&self.state))
    }

    /// Compacts the tables that overlap a range of keys, and waits for it. No separated value is
    /// rewritten.
    ///
    /// Costs a flush, and a read and a write of those tables for each level that they are in. Fails
    /// as [`Keyspace::flush`] does.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("compact-range"))?.default_keyspace();
    /// for key in ["a:1", "a:2", "b:1"] {
    ///     words.put(key, "")?;
    /// }
    /// words.delete("a:1")?;
    /// words.delete("a:2")?;
    /// words.compact_range("a:".."a;")?;
    /// assert_eq!(words.approximate_len(..)?, 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
        self.state.check()?;
        let bounds = bounds_of(&range);
        // Compacting the upper bound's own key along is harmless, so the bound is passed as
        // inclusive.
        self.core.compact(&self.state, (bounds.lower.as_deref(), bounds.upper.as_deref()))
    }

    /// Rewrites a range of keys and its separated values in key order, so that scans of it read the
    /// device from front to back, and waits for it.
    ///
    /// Costs a read and a write of every value in the range, and of the tables that overlap it.
    /// Until value GC has freed the old places, it takes about as much extra space as the values
    /// do.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("reorganize");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("b", vec![2; 5000])?;
    /// words.put("a", vec![1; 5000])?;
    /// words.reorganize(..)?;
    /// assert_eq!(words.get("a")?.unwrap(), vec![1; 5000]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn reorganize(&self, range: impl KeyRange) -> Result<()> {
        self.state.check()?;
        let bounds = bounds_of(&range);
        self.core.reorganize(&self.state, (bounds.lower.as_deref(), bounds.upper.as_deref()))
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.name()).finish_non_exhaustive()
    }
}

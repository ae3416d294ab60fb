//! The deletion of ranges of keys, alone, in batches and in transactions.

use crate::base::bounds::Bounds;
use crate::base::error::Result;
use crate::commit::batch::Batch;
use crate::db::batch::WriteBatch;
use crate::db::key_range::{KeyRange, bounds_of, prefix_bounds};
use crate::db::keyspace::Keyspace;
use crate::db::options::WriteOptions;
use crate::db::transaction::Transaction;

impl Keyspace {
    /// Deletes all keys of a range; `..` deletes all keys of the keyspace. A range in which there
    /// are none can be deleted, too.
    ///
    /// Costs one write of the log, however many keys there are, and, depending on the durability,
    /// one sync. No key is read. What is deleted needs space until compactions drop it. After the
    /// next flush, those that have nothing more urgent to do drop the tables that lie in the range
    /// as a whole without reading them, together with their separated values; an idle database
    /// flushes by itself for that. Tables at the ends of a range are rewritten when the database is
    /// idle, those in which ranges are small when they are compacted anyway. Until then scans pass
    /// over the range without reading what is deleted, as far as it was not in the memtable at the
    /// deletion.
    ///
    /// Fails as [`Keyspace::put`] does.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("delete-range"))?.default_keyspace();
    /// for key in ["a", "b", "c", "d"] {
    ///     words.put(key, "")?;
    /// }
    /// words.delete_range("b".."d")?;
    /// assert_eq!(words.iter().keys().collect::<Result<Vec<_>, _>>()?, [b"a", b"d"]);
    /// words.delete_range(..)?;
    /// assert_eq!(words.iter().count(), 0);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.delete_range_with(range, &WriteOptions::default())
    }

    /// Deletes a range as [`Keyspace::delete_range`] does, with a durability of its own.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("delete-range-with"))?.default_keyspace();
    /// use cleavedb::{Durability, WriteOptions};
    /// words.put("b", "")?;
    /// words.delete_range_with("a"..="b", &WriteOptions::new().durability(Durability::Sync))?;
    /// assert!(words.get("b")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete_range_with(&self, range: impl KeyRange, options: &WriteOptions) -> Result<()> {
        self.delete_bounds(bounds_of(&range), options)
    }

    /// Deletes all keys that begin with `prefix`, as [`Keyspace::delete_range`] does. The
    /// keyspace's keys must be in byte order.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("delete-prefix"))?.default_keyspace();
    /// for key in ["user/1", "user/2", "zoo"] {
    ///     words.put(key, "")?;
    /// }
    /// words.delete_prefix("user/")?;
    /// assert_eq!(words.iter().keys().collect::<Result<Vec<_>, _>>()?, [b"zoo"]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_prefix_with(prefix, &WriteOptions::default())
    }

    /// Deletes all keys that begin with `prefix`, with a durability of its own.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("delete-prefix-with"))?.default_keyspace();
    /// use cleavedb::{Durability, WriteOptions};
    /// words.put("user/7", "")?;
    /// words.delete_prefix_with("user/", &WriteOptions::new().durability(Durability::Sync))?;
    /// assert!(words.get("user/7")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete_prefix_with(
        &self,
        prefix: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let range = prefix_bounds(prefix.as_ref(), &self.state.order)?;
        self.delete_bounds(range, options)
    }

    fn delete_bounds(&self, range: Bounds, options: &WriteOptions) -> Result<()> {
        options.check_no_expiry()?;
        self.core.check_writable()?;
        let durability = self.core.durability(options)?;
        let mut batch = Batch::default();
        batch.delete_range(&self.state, range)?;
        if batch.is_empty() {
            return Ok(());
        }
        let commit = || self.core.committer.commit_batch(batch, durability);
        self.core.time_write(self.state.id, commit).map(|_| ())
    }
}

impl WriteBatch {
    /// Adds the deletion of all keys of a range, as [`Keyspace::delete_range`] does it. Keys that
    /// an earlier operation of the batch puts are deleted, too; those of a later one are not.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("batch-delete-range"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::WriteBatch;
    /// words.put("old", "")?;
    /// let mut batch = WriteBatch::new();
    /// batch.delete_range(&words, ..).put(&words, "new", "");
    /// db.write(batch)?;
    /// assert_eq!(words.iter().keys().collect::<Result<Vec<_>, _>>()?, [b"new"]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> &mut Self {
        let range = bounds_of(&range);
        self.add(keyspace, |batch| batch.delete_range(&keyspace.state, range))
    }

    /// Adds the deletion of all keys that begin with `prefix`. The keyspace's keys must be in byte
    /// order.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("batch-delete-prefix"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::WriteBatch;
    /// words.put("user/1", "")?;
    /// let mut batch = WriteBatch::new();
    /// batch.delete_prefix(&words, "user/");
    /// db.write(batch)?;
    /// assert_eq!(words.iter().count(), 0);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> &mut Self {
        let range = prefix_bounds(prefix.as_ref(), &keyspace.state.order);
        self.add(keyspace, |batch| batch.delete_range(&keyspace.state, range?))
    }
}

impl Transaction {
    /// Deletes all keys of a range, at the commit: those that are there then. This reads nothing,
    /// so keys that others put into the range meanwhile make no conflict; they are deleted as well.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-delete-range"))?;
    /// # let words = db.default_keyspace();
    /// words.put("b", "")?;
    /// let transaction = db.begin();
    /// transaction.delete_range(&words, "a".."c")?;
    /// assert!(transaction.get(&words, "b")?.is_none());
    /// assert!(words.get("b")?.is_some());
    /// transaction.commit()?;
    /// assert!(words.get("b")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete_range(&self, keyspace: &Keyspace, range: impl KeyRange) -> Result<()> {
        self.delete_bounds(keyspace, bounds_of(&range))
    }

    /// Deletes all keys that begin with `prefix`, as [`Transaction::delete_range`] does. The
    /// keyspace's keys must be in byte order.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transaction-delete-prefix"))?;
    /// # let words = db.default_keyspace();
    /// words.put("user/1", "")?;
    /// let transaction = db.begin();
    /// transaction.delete_prefix(&words, "user/")?;
    /// transaction.commit()?;
    /// assert_eq!(words.iter().count(), 0);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete_prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_bounds(keyspace, prefix_bounds(prefix.as_ref(), &keyspace.state.order)?)
    }
}

//! The scans of a keyspace: constructors of iterators and cursors, and what is read with them.

use crate::base::bounds::Bounds;
use crate::base::error::Result;
use crate::base::value::Value;
use crate::db::cursor::Cursor;
use crate::db::key_range::{KeyRange, bounds_of, prefix_bounds};
use crate::db::keyspace::Keyspace;
use crate::db::range::{Keys, Range};
use crate::db::read_options::ReadOptions;

impl Keyspace {
    /// Scans all pairs in key order, as they are now, from both ends.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("iter");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// for pair in words.iter() {
    ///     let (key, value) = pair?;
    ///     assert_eq!((&key[..], &value[..]), (&b"one"[..], &b"eins"[..]));
    /// }
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn iter(&self) -> Range {
        self.iter_with(&ReadOptions::default())
    }

    /// Scans as [`Keyspace::iter`] does, at a snapshot, without filling the cache or without
    /// reading ahead.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("iter-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("one", "eins")?;
    /// // A scan over everything, for a backup, say, leaves the cache to other readers.
    /// for pair in words.iter_with(&ReadOptions::new().fill_cache(false)) {
    ///     let (key, value) = pair?;
    ///     println!("{}: {} bytes", key.escape_ascii(), value.len());
    /// }
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn iter_with(&self, options: &ReadOptions) -> Range {
        Range::new(self, Ok(Bounds::default()), options)
    }

    /// Scans the pairs whose keys are in a range, in key order, as they are now, from both ends.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("scan-range");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("a", "1")?;
    /// words.put("b", "2")?;
    /// let last = words.range("a"..="b").next_back().unwrap()?;
    /// assert_eq!(last.0, b"b");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.range_with(range, &ReadOptions::default())
    }

    /// Scans as [`Keyspace::range`] does, at a snapshot, without filling the cache or without
    /// reading ahead.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("range-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("a", "1")?;
    /// let then = ReadOptions::new().snapshot(&db.snapshot());
    /// words.put("b", "2")?;
    /// assert_eq!(words.range_with("a".., &then).count(), 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn range_with(&self, range: impl KeyRange, options: &ReadOptions) -> Range {
        Range::new(self, Ok(bounds_of(&range)), options)
    }

    /// Scans the pairs whose keys begin with `prefix`, in key order, as they are now, from both
    /// ends.
    ///
    /// Needs keys in byte order: in a keyspace with a [`Comparator`](crate::Comparator) of your
    /// own the first item is an error.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("prefix");
    /// let db = cleavedb::open(&dir)?;
    /// let users = db.default_keyspace();
    /// users.put("user:7:name", "Ada")?;
    /// users.put("user:8:name", "Grace")?;
    /// assert_eq!(users.prefix("user:7:").count(), 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_with(prefix, &ReadOptions::default())
    }

    /// Scans as [`Keyspace::prefix`] does, at a snapshot, without filling the cache or without
    /// reading ahead.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("prefix-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("user:7:name", "Ada")?;
    /// // Only the first pairs are wanted, so no value is read ahead.
    /// let few = ReadOptions::new().read_ahead(false);
    /// let first = words.prefix_with("user:", &few).next().unwrap()?;
    /// assert_eq!(first.1, "Ada");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn prefix_with(&self, prefix: impl AsRef<[u8]>, options: &ReadOptions) -> Range {
        Range::new(self, prefix_bounds(prefix.as_ref(), &self.state.order), options)
    }

    /// Scans all keys in order, as they are now, from both ends. No separated value is read. For
    /// the keys of a part of the keyspace see [`Range::keys`].
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("all-keys");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// let keys: Vec<_> = words.keys().collect::<cleavedb::Result<_>>()?;
    /// assert_eq!(keys, [b"one"]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn keys(&self) -> Keys {
        self.keys_with(&ReadOptions::default())
    }

    /// Scans as [`Keyspace::keys`] does, at a snapshot or without filling the cache.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("keys-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("one", "eins")?;
    /// let then = ReadOptions::new().snapshot(&db.snapshot());
    /// words.delete("one")?;
    /// assert_eq!(words.keys_with(&then).count(), 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn keys_with(&self, options: &ReadOptions) -> Keys {
        self.iter_with(options).keys()
    }

    /// Returns a cursor over the whole keyspace as it is now. For one within bounds see
    /// [`Range::into_cursor`].
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("whole-cursor");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// let mut cursor = words.cursor()?;
    /// cursor.seek("o")?;
    /// assert!(cursor.valid());
    /// assert_eq!(cursor.key(), b"one");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn cursor(&self) -> Result<Cursor> {
        self.cursor_with(&ReadOptions::default())
    }

    /// Returns a cursor as [`Keyspace::cursor`] does, at a snapshot, without filling the cache or
    /// without reading ahead.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("cursor-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("one", "eins")?;
    /// let then = ReadOptions::new().snapshot(&db.snapshot());
    /// words.delete("one")?;
    /// let mut cursor = words.cursor_with(&then)?;
    /// cursor.seek_to_first()?;
    /// assert_eq!(cursor.value()?, "eins");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn cursor_with(&self, options: &ReadOptions) -> Result<Cursor> {
        Cursor::new(self, self.moment(options)?, options, Bounds::default())
    }

    /// Returns the pair with the first key, or `None` if there is none. Costs a seek and the read
    /// of one value.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("first-last");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// assert!(words.first_key_value()?.is_none());
    /// words.put("a", "1")?;
    /// words.put("b", "2")?;
    /// assert_eq!(words.first_key_value()?.unwrap().0, b"a");
    /// assert_eq!(words.last_key_value()?.unwrap().1, "2");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.first_key_value_with(&ReadOptions::default())
    }

    /// Reads as [`Keyspace::first_key_value`] does, at a snapshot or without filling the cache.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("first-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("b", "2")?;
    /// let then = ReadOptions::new().snapshot(&db.snapshot());
    /// words.put("a", "1")?;
    /// assert_eq!(words.first_key_value_with(&then)?.unwrap().0, b"b");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn first_key_value_with(&self, options: &ReadOptions) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter_with(options).next().transpose()
    }

    /// Returns the pair with the last key, or `None` if there is none. Costs a seek and the read of
    /// one value.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("last"))?;
    /// # let words = db.default_keyspace();
    /// assert!(words.last_key_value()?.is_none());
    /// words.put("a", "1")?;
    /// words.put("b", "2")?;
    /// assert_eq!(words.last_key_value()?.unwrap().0, b"b");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.last_key_value_with(&ReadOptions::default())
    }

    /// Reads as [`Keyspace::last_key_value`] does, at a snapshot or without filling the cache.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("last-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("a", "1")?;
    /// let then = ReadOptions::new().snapshot(&db.snapshot());
    /// words.put("b", "2")?;
    /// assert_eq!(words.last_key_value_with(&then)?.unwrap().0, b"a");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn last_key_value_with(&self, options: &ReadOptions) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter_with(options).next_back().transpose()
    }

    /// Returns true if no key has a value. The answer is exact; it costs a seek, and a walk over
    /// the deleted keys in front of the first one that has a value.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("is-empty");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// assert!(words.is_empty()?);
    /// words.put("one", "eins")?;
    /// assert!(!words.is_empty()?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        self.is_empty_with(&ReadOptions::default())
    }

    /// Checks as [`Keyspace::is_empty`] does, at a snapshot or without filling the cache.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("is-empty-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// let then = ReadOptions::new().snapshot(&db.snapshot());
    /// words.put("one", "eins")?;
    /// assert!(words.is_empty_with(&then)? && !words.is_empty()?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn is_empty_with(&self, options: &ReadOptions) -> Result<bool> {
        Ok(self.keys_with(options).next().transpose()?.is_none())
    }
}

//! The reads of a keyspace: single keys, many keys at once, and the constructors of scans.

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::value::Value;
use crate::db::cursor::Cursor;
use crate::db::key_range::{KeyRange, bounds_of, prefix_bounds};
use crate::db::keyspace::Keyspace;
use crate::db::range::{Keys, Range};
use crate::db::read_options::ReadOptions;
use crate::db::snapshot::Snapshot;
use crate::read::fetch::Want;
use crate::read::get::{Lookup, get};
use crate::read::visible::Bounds;
use crate::version::view::View;
use std::sync::Arc;

/// Reads of single keys and of many keys at once.
impl Keyspace {
    /// Returns the value of a key, or `None` if it has none.
    ///
    /// Costs no I/O for a missing key that the filters rule out, at most one block read for each
    /// sorted run that may hold the key and is not cached, and one read for a separated value.
    ///
    /// Fails with [`ErrorKind::Corruption`] if what is on disk is not what was written, and with
    /// [`ErrorKind::Closed`] once the database was closed, like all reads.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("get");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// assert_eq!(words.get("one")?.unwrap(), "eins");
    /// assert!(words.get("two")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Closed`]: crate::ErrorKind::Closed
    /// [`ErrorKind::Corruption`]: crate::ErrorKind::Corruption
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_with(key, &ReadOptions::default())
    }

    /// Reads as [`Keyspace::get`] does, at a snapshot or without filling the cache.
    pub fn get_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Value>> {
        let key = key.as_ref();
        let (view, seqno) = self.view_at(options.snapshot.as_ref())?;
        let begun = self.core.begin_get();
        let value = match get(&view, key, seqno, options.fill_cache)? {
            Lookup::Nothing => return Ok(None),
            Lookup::Inline(value) => Value::from(value),
            Lookup::Pointer(pointer, seqno) => {
                self.core.fetcher.value(&view, pointer, key, seqno)?
            }
        };
        self.core.end_get(self.state.id, begun);
        Ok(Some(value))
    }

    /// Passes the value of a key to `read` by reference and returns `read`'s result, or `None` if
    /// the key has no value. Use it where the value is copied or parsed at once: it costs one
    /// allocation and one copy less than [`Keyspace::get`].
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("get-pinned");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// assert_eq!(words.get_pinned("one", |value| value.len())?, Some(4));
    /// assert_eq!(words.get_pinned("two", |value| value.len())?, None);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn get_pinned<R>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.get_pinned_with(key, &ReadOptions::default(), read)
    }

    /// Reads as [`Keyspace::get_pinned`] does, at a snapshot or without filling the cache.
    pub fn get_pinned_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let key = key.as_ref();
        let (view, seqno) = self.view_at(options.snapshot.as_ref())?;
        let begun = self.core.begin_get();
        let made = match get(&view, key, seqno, options.fill_cache)? {
            Lookup::Nothing => return Ok(None),
            Lookup::Inline(value) => read(&value),
            Lookup::Pointer(pointer, seqno) => {
                self.core.fetcher.show(&view, pointer, key, seqno, read)?
            }
        };
        self.core.end_get(self.state.id, begun);
        Ok(Some(made))
    }

    /// Returns true if the key has a value. Costs as much as [`Keyspace::get`], except that no
    /// separated value is read.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("contains-key");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// assert!(words.contains_key("one")? && !words.contains_key("two")?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_key_with(key, &ReadOptions::default())
    }

    /// Checks as [`Keyspace::contains_key`] does, at a snapshot or without filling the cache.
    pub fn contains_key_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<bool> {
        let (view, seqno) = self.view_at(options.snapshot.as_ref())?;
        Ok(get(&view, key.as_ref(), seqno, options.fill_cache)? != Lookup::Nothing)
    }

    /// Returns the values of many keys at one moment, in the order of `keys`. Separated values are
    /// read in parallel, neighbours on the disk together. An error concerns its own key only.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("multi-get");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// let mut found = words.multi_get(&["two", "one"]).into_iter();
    /// assert!(found.next().unwrap()?.is_none());
    /// assert_eq!(found.next().unwrap()?.unwrap(), "eins");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Value>>> {
        self.multi_get_with(keys, &ReadOptions::default())
    }

    /// Reads as [`Keyspace::multi_get`] does, at a snapshot or without filling the cache.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        let (view, seqno) = match self.view_at(options.snapshot.as_ref()) {
            Ok(found) => found,
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut wants = Vec::new();
        let mut wanted = Vec::new();
        let mut values = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let key = key.as_ref();
            values.push(match get(&view, key, seqno, options.fill_cache) {
                Err(error) => Err(error),
                Ok(Lookup::Nothing) => Ok(None),
                Ok(Lookup::Inline(value)) => Ok(Some(Value::from(value))),
                Ok(Lookup::Pointer(pointer, seqno)) => {
                    wants.push(Want { pointer, key: key.to_vec(), seqno });
                    wanted.push(index);
                    Ok(None)
                }
            });
        }
        self.core.counters.gets.add(keys.len() as u64);
        let mut fetching = self.core.fetcher.many(&view, wants);
        for (position, index) in wanted.into_iter().enumerate() {
            values[index] = fetching.take(position).map(Some);
        }
        let found = values.iter().filter(|value| matches!(value, Ok(Some(_)))).count();
        self.core.counters.gets_found.add(found as u64);
        values
    }
}

/// Constructors of scans and cursors, and what is read with them.
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
    pub fn cursor_with(&self, options: &ReadOptions) -> Result<Cursor> {
        let (view, seqno) = self.view_at(options.snapshot.as_ref())?;
        Cursor::new(Arc::clone(&self.core), view, seqno, options, Bounds::default())
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
    pub fn first_key_value_with(&self, options: &ReadOptions) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter_with(options).next().transpose()
    }

    /// Returns the pair with the last key, or `None` if there is none. Costs a seek and the read of
    /// one value.
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.last_key_value_with(&ReadOptions::default())
    }

    /// Reads as [`Keyspace::last_key_value`] does, at a snapshot or without filling the cache.
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
    pub fn is_empty_with(&self, options: &ReadOptions) -> Result<bool> {
        Ok(self.keys_with(options).next().transpose()?.is_none())
    }

    /// Returns the view to read and the newest sequence number to see.
    pub(crate) fn view_at(&self, snapshot: Option<&Snapshot>) -> Result<(Arc<View>, SeqNo)> {
        self.core.check_open()?;
        // The view is taken first: it then holds everything up to the number read after it, and it
        // is not the empty view of a keyspace that was dropped by then.
        let view = self.state.view();
        self.state.check()?;
        let Some(snapshot) = snapshot else {
            return Ok((view, self.core.snapshots.visible()));
        };
        if !snapshot.belongs_to(&self.core) {
            return Err(Error::invalid_argument("the snapshot is of another database"));
        }
        Ok((view, snapshot.seqno()))
    }
}

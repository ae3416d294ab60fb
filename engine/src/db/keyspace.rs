//! A named ordered map inside a database.

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::value::Value;
use crate::commit::batch::{Batch, Frame, StoredValue, Target, check_key, deletion};
use crate::db::Core;
use crate::db::cursor::{Cursor, CursorOptions};
use crate::db::options::WriteOptions;
use crate::db::range::{Keys, Range, bounds_of};
use crate::db::snapshot::Snapshot;
use crate::read::fetch::Want;
use crate::read::get::{Found, get};
use crate::version::settings::KeyspaceOptions;
use crate::version::view::{KeyspaceState, View};
use std::ops::RangeBounds;
use std::sync::Arc;

/// How one read is done.
///
/// ```
/// let options = cleavedb::ReadOptions { fill_cache: false, ..Default::default() };
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct ReadOptions {
    /// Read at this moment. `None`: now.
    pub snapshot: Option<Snapshot>,
    /// Keep the table blocks it reads in the cache. Default true.
    pub fill_cache: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { snapshot: None, fill_cache: true }
    }
}

/// A named ordered map. Handles are cheap to clone and can be used from many threads.
///
/// ```
/// # let dir = cleavedb::doc_dir("keyspace");
/// let db = cleavedb::open(&dir)?;
/// let words = db.keyspace("words")?;
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
    pub(crate) core: Arc<Core>,
    pub(crate) state: Arc<KeyspaceState>,
}

impl Keyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Its settings in force.
    pub fn options(&self) -> KeyspaceOptions {
        (**self.state.options()).clone()
    }

    /// Puts a value under a key, replacing what was there.
    ///
    /// Keys hold up to 64 KiB, values up to 1 GiB. Costs one write of the log; a value that is
    /// separated is never written again by a flush or compaction.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, &WriteOptions::default())
    }

    /// As [`Keyspace::put`], with its own durability.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.core.check_writable()?;
        check_key(key)?;
        let stored = StoredValue::prepare(&self.state, value)?;
        let record = stored.record(&self.state, key, value);
        let target = Target { keyspace: &self.state, separated: stored.separated };
        let user_bytes = (key.len() + value.len()) as u64;
        let frame = Frame { records: &[record], targets: &[target], user_bytes };
        let own = || {
            let mut batch = Batch::default();
            batch.put(&self.state, key, value)?;
            Ok(batch)
        };
        self.core.committer.commit(frame, self.core.durability(options), own).map(|_| ())
    }

    /// Deletes a key. Deleting what is not there is fine.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, &WriteOptions::default())
    }

    /// As [`Keyspace::delete`], with its own durability.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        let key = key.as_ref();
        self.core.check_writable()?;
        check_key(key)?;
        let record = deletion(&self.state, key);
        let target = Target { keyspace: &self.state, separated: false };
        let user_bytes = key.len() as u64;
        let frame = Frame { records: &[record], targets: &[target], user_bytes };
        let own = || {
            let mut batch = Batch::default();
            batch.delete(&self.state, key)?;
            Ok(batch)
        };
        self.core.committer.commit(frame, self.core.durability(options), own).map(|_| ())
    }

    /// The value of a key, or `None`.
    ///
    /// Costs no I/O for a missing key that the filters rule out, at most one block read for each
    /// sorted run that may hold the key and is not cached, and one read for a separated value.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_with(key, &ReadOptions::default())
    }

    /// As [`Keyspace::get`], at a snapshot or without filling the cache.
    pub fn get_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Value>> {
        let key = key.as_ref();
        let (view, seqno) = self.view_at(options.snapshot.as_ref())?;
        let begun = self.core.begin_get();
        let value = match get(&view, key, seqno, options.fill_cache)? {
            Found::Nothing => return Ok(None),
            Found::Inline(value) => Value::from(value),
            Found::Pointer(pointer, seqno) => {
                self.core.fetcher.value(&view, pointer, key, seqno)?
            }
        };
        self.core.end_get(begun);
        Ok(Some(value))
    }

    /// Shows the value of a key to `take`; `None` if there is none. For who copies it elsewhere:
    /// costs one allocation and one copy less than [`Keyspace::get_with`].
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("show");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// let options = cleavedb::ReadOptions::default();
    /// assert_eq!(words.show("one", &options, |value| value.len())?, Some(4));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn show<R>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let key = key.as_ref();
        let (view, seqno) = self.view_at(options.snapshot.as_ref())?;
        let begun = self.core.begin_get();
        let taken = match get(&view, key, seqno, options.fill_cache)? {
            Found::Nothing => return Ok(None),
            Found::Inline(value) => take(&value),
            Found::Pointer(pointer, seqno) => {
                self.core.fetcher.show(&view, pointer, key, seqno, take)?
            }
        };
        self.core.end_get(begun);
        Ok(Some(taken))
    }

    /// True if the key has a value. Reads no value.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let (view, seqno) = self.view_at(None)?;
        Ok(get(&view, key.as_ref(), seqno, true)? != Found::Nothing)
    }

    /// The values of many keys at one moment, in the order of the keys; separated values are
    /// read in parallel. An error concerns its own key only.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Value>>> {
        self.multi_get_with(keys, &ReadOptions::default())
    }

    /// As [`Keyspace::multi_get`], at a snapshot or without filling the cache.
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
                Ok(Found::Nothing) => Ok(None),
                Ok(Found::Inline(value)) => Ok(Some(Value::from(value))),
                Ok(Found::Pointer(pointer, seqno)) => {
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

    /// A cursor over the whole keyspace as it is now.
    pub fn cursor(&self) -> Result<Cursor> {
        self.cursor_with(CursorOptions::default())
    }

    /// A cursor with bounds, at a snapshot, for keys only, and so on.
    pub fn cursor_with(&self, options: CursorOptions) -> Result<Cursor> {
        let (view, seqno) = self.view_at(options.snapshot.as_ref())?;
        Cursor::new(self.core.clone(), view, seqno, options)
    }

    /// The pairs whose keys are in a range, as a double-ended iterator.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range {
        Range::new(self, bounds_of(&range))
    }

    /// The pairs whose keys begin with `prefix`. Needs keys in byte order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Range::of_prefix(self, prefix.as_ref())
    }

    /// All pairs.
    pub fn iter(&self) -> Range {
        Range::new(self, Default::default())
    }

    /// All keys; no value is read.
    pub fn keys(&self) -> Keys {
        Keys::new(self, Default::default())
    }

    /// The keys in a range; no value is read.
    pub fn keys_in<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Keys {
        Keys::new(self, bounds_of(&range))
    }

    /// Writes the memtable to a table and waits for it.
    pub fn flush(&self) -> Result<()> {
        self.core.flush(std::slice::from_ref(&self.state))
    }

    /// Compacts the tables that overlap a range of keys, and waits for it. No separated value is
    /// rewritten.
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let bounds = bounds_of(&range);
        // The upper bound's own key may be compacted along: harmless.
        self.core.compact(&self.state, (bounds.lower.as_deref(), bounds.upper.as_deref()))
    }

    /// Rewrites a range of keys with its separated values in the order of the keys, so that scans
    /// of it read the device from front to back; waits for it.
    ///
    /// Costs a read and a write of every value in the range, and of the tables that overlap it.
    /// Until value GC has freed the old places, about as much space besides as the values take.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("reorganize");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("b", vec![2; 5000])?;
    /// words.put("a", vec![1; 5000])?;
    /// words.reorganize::<&str>(..)?;
    /// assert_eq!(words.get("a")?.unwrap(), vec![1; 5000]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn reorganize<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let bounds = bounds_of(&range);
        self.core.reorganize(&self.state, (bounds.lower.as_deref(), bounds.upper.as_deref()))
    }

    /// The view to read and the newest sequence number to see.
    pub(crate) fn view_at(&self, snapshot: Option<&Snapshot>) -> Result<(Arc<View>, SeqNo)> {
        self.core.check_open()?;
        // The view first: it then holds everything up to the number read after it, and it is not
        // the empty one of a keyspace that was dropped by then.
        let view = self.state.view();
        self.state.check()?;
        let Some(snapshot) = snapshot else {
            return Ok((view, self.core.snapshots.visible()));
        };
        if !snapshot.belongs_to(&self.core) {
            return Err(Error::invalid("the snapshot is of another database"));
        }
        Ok((view, snapshot.seqno()))
    }
}

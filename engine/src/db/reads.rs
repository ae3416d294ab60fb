//! The point reads of a keyspace: single keys, and many keys at once.

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::value::Value;
use crate::commit::batch::Batch;
use crate::db::keyspace::Keyspace;
use crate::db::read_options::ReadOptions;
use crate::db::snapshot::Snapshot;
use crate::db::transaction::OwnRead;
use crate::memtable::KeyPlace;
use crate::read::cursor::OwnEntries;
use crate::read::get::{Lookup, TimedLookup, Wanted, get_timed, start_get};
use crate::read::operands::ChainReader;
use crate::read::wants::Wants;
use crate::version::expiry::{Moment, ReadPoint};
use crate::version::view::View;
use arc_swap::Guard;
use std::sync::Arc;

/// What a walk sees: nothing that was written later.
#[derive(Clone)]
pub(crate) struct ReadMoment {
    /// The memtables and files to read.
    pub view: Arc<View>,
    /// The newest sequence number to see, and the time by which deadlines are judged.
    pub point: ReadPoint<'static>,
    /// The entries of the transaction that reads, if it has any.
    pub own: Option<OwnEntries>,
}

/// A get of many keys has the system begin to read the blocks of so many at once.
///
/// Measured with values of 1 KiB in tables, 256 MiB in 96 MiB of memory, 64 keys at once: 17,700
/// keys a second where each waited for its block, and 73,000 since.
const STARTED_KEYS: usize = 64;
/// At most so many separated values of a get of many keys are fetched together. Each may lie in a
/// file of its own, which stays open until it is read, and its bytes take memory until then.
///
/// Measured with 400,000 values of 1 KiB, against all at once: gets of 10,000 keys are 1.16 times
/// as fast where all is in memory, and 0.88 times with a cold cache; those of 1,000 are 1.09 times
/// as fast, and as fast.
const FETCHED_VALUES: usize = 256;
/// If none of so many needs a read, the others are taken to be in memory, too.
const PROBED_KEYS: usize = 4;

/// Has the system begin to read what the gets of the next of `count` keys will read, unless that is
/// probably in memory. `start` does so for one key, and returns true if it began a read.
fn start_gets(count: usize, mut start: impl FnMut(usize) -> bool) {
    if count == 1 {
        return;
    }
    let mut any = false;
    for index in 0..count.min(STARTED_KEYS) {
        if index == PROBED_KEYS && !any {
            return;
        }
        any |= start(index);
    }
}

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

    /// Reads as [`Keyspace::get`] does, at a snapshot, in a transaction, or without filling the
    /// cache.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("get-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("one", "eins")?;
    /// let before = db.snapshot();
    /// words.put("one", "uno")?;
    /// let then = ReadOptions::new().snapshot(&before);
    /// assert_eq!(words.get_with("one", &then)?.unwrap(), "eins");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn get_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.again(options, || self.get_once(key, options))
    }

    fn get_once(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        let (view, point) = self.peek_at(options.read_snapshot())?;
        let begun = self.core.begin_get();
        if let Some(own) = self.own_value(&view, point.seqno, key, options)? {
            self.core.end_get_if(own.is_some(), self.state.id, begun);
            return Ok(own);
        }
        let (view, found) = self.look_up(view, key, point, options)?;
        let value = match found {
            Lookup::Nothing => return Ok(None),
            Lookup::Inline(value, _) => Value::from(value),
            Lookup::Pointer(pointer, seqno) => {
                self.core.fetcher.value(&view, pointer, key, seqno)?
            }
            Lookup::Merge(seqno) => self.merged(&view, key, seqno, options)?,
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

    /// Reads as [`Keyspace::get_pinned`] does, at a snapshot, in a transaction, or without filling
    /// the cache.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("get-pinned-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("one", "eins")?;
    /// let cold = ReadOptions::new().fill_cache(false);
    /// assert_eq!(words.get_pinned_with("one", &cold, |value| value.len())?, Some(4));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn get_pinned_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let key = key.as_ref();
        if self.core.follower.is_some() {
            return Ok(self.get_with(key, options)?.map(|value| read(&value)));
        }
        let (view, point) = self.peek_at(options.read_snapshot())?;
        let begun = self.core.begin_get();
        if let Some(own) = self.own_value(&view, point.seqno, key, options)? {
            self.core.end_get_if(own.is_some(), self.state.id, begun);
            return Ok(own.map(|value| read(&value)));
        }
        let (view, found) = self.look_up(view, key, point, options)?;
        let made = match found {
            Lookup::Nothing => return Ok(None),
            Lookup::Inline(value, _) => read(&value),
            Lookup::Pointer(pointer, seqno) => {
                self.core.fetcher.read_pinned(&view, pointer, key, seqno, read)?
            }
            Lookup::Merge(seqno) => read(&self.merged(&view, key, seqno, options)?),
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

    /// Checks as [`Keyspace::contains_key`] does, at a snapshot, in a transaction, or without
    /// filling the cache.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("contains-key-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// let before = db.snapshot();
    /// words.put("one", "eins")?;
    /// assert!(!words.contains_key_with("one", &ReadOptions::new().snapshot(&before))?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn contains_key_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<bool> {
        let key = key.as_ref();
        self.again(options, || self.contains_once(key, options))
    }

    fn contains_once(&self, key: &[u8], options: &ReadOptions) -> Result<bool> {
        let (view, point) = self.peek_at(options.read_snapshot())?;
        if let Some(transaction) = &options.transaction {
            // What was merged is there, whatever its value is.
            let is_there = |batch: &Batch, operation| {
                Ok(batch.is_merge(operation) || batch.value(operation)?.is_some())
            };
            if let Some(own) = transaction.read(&self.state, key, is_there)? {
                return Ok(own);
            }
        }
        let (_view, found) = self.look_up(view, key, point, options)?;
        Ok(found != Lookup::Nothing)
    }

    /// Returns the values of many keys at one moment, in the order of `keys`. The blocks of 64 keys
    /// are read at once, and separated values in parallel, neighbours on the disk together. An
    /// error concerns its own key only.
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

    /// Reads as [`Keyspace::multi_get`] does, at a snapshot, in a transaction, or without filling
    /// the cache.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("multi-get-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::ReadOptions;
    /// words.put("one", "eins")?;
    /// let then = ReadOptions::new().snapshot(&db.snapshot());
    /// words.put("two", "zwei")?;
    /// let found: Vec<_> = words.multi_get_with(&["one", "two"], &then);
    /// assert!(found[0].as_ref().unwrap().is_some() && found[1].as_ref().unwrap().is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        match options.read_snapshot() {
            Some(snapshot) if self.core.follower.is_some() => {
                let found = self.multi_get_once(keys, options).into_iter();
                found.map(|it| it.map_err(|error| self.lost_at(error, snapshot))).collect()
            }
            _ => self.core.all_again(|| self.multi_get_once(keys, options)),
        }
    }

    fn multi_get_once<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        let (view, point) = match self.peek_fixed(options.read_snapshot()) {
            Ok(seen) => seen,
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut wants = Wants::default();
        let mut wanted = Vec::new();
        let mut values = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            if index.is_multiple_of(STARTED_KEYS) {
                let next = &keys[index..];
                start_gets(next.len(), |at| start_get(&view, next[at].as_ref(), point.seqno));
            }
            let key = key.as_ref();
            let found = match self.own_value(&view, point.seqno, key, options) {
                Ok(Some(own)) => Ok(own),
                Err(error) => Err(error),
                Ok(None) => {
                    let (fill, hot) = (options.fill_cache, Some(&*self.core.hot));
                    let seen = get_timed(&view, key, point, fill, hot, Wanted::Value, None);
                    let seen = seen.inspect(|seen| self.note_deadline(key, seen, options));
                    match seen.map(|seen| seen.found) {
                        Err(error) => Err(error),
                        Ok(Lookup::Nothing) => Ok(None),
                        Ok(Lookup::Inline(value, _)) => Ok(Some(Value::from(value))),
                        Ok(Lookup::Pointer(pointer, seqno)) => {
                            wants.add(pointer, key, seqno);
                            wanted.push(index);
                            Ok(None)
                        }
                        Ok(Lookup::Merge(seqno)) => {
                            self.merged(&view, key, seqno, options).map(Some)
                        }
                    }
                }
            };
            values.push(found);
            if wanted.len() == FETCHED_VALUES {
                self.fetch_into(&mut values, &view, std::mem::take(&mut wants), &wanted);
                wanted.clear();
            }
        }
        self.core.counters.gets.add(keys.len() as u64);
        self.fetch_into(&mut values, &view, wants, &wanted);
        let found = values.iter().filter(|value| matches!(value, Ok(Some(_)))).count();
        self.core.counters.gets_found.add(found as u64);
        values
    }

    /// Puts the values that `wants` lead to in their places, whose indexes are `wanted`.
    fn fetch_into(
        &self,
        values: &mut [Result<Option<Value>>],
        view: &Arc<View>,
        wants: Wants,
        wanted: &[usize],
    ) {
        let mut fetching = self.core.fetcher.many(view, wants);
        for (position, &index) in wanted.iter().enumerate() {
            values[index] = fetching.take(position).map(Some);
        }
    }

    /// Returns the value that the reading transaction itself has written or merged, `Some(None)` if
    /// it deleted the key, and `None` if it did not write it, or if no transaction reads. What it
    /// has merged with is read in `view`, up to `seqno`.
    pub(super) fn own_value(
        &self,
        view: &Arc<View>,
        seqno: SeqNo,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Option<Value>>> {
        let Some(transaction) = &options.transaction else {
            return Ok(None);
        };
        let own = match transaction.own_read(&self.state, key)? {
            None => return Ok(None),
            Some(OwnRead::Written(value)) => return Ok(Some(value)),
            Some(OwnRead::Merged(own)) => own,
        };
        let (newest, own, fill_cache) = (own.last, Some(&own), options.fill_cache);
        let reader = ChainReader { view, own, seqno, fill_cache };
        reader.merged_if_any(key, newest, &self.core.fetcher).map(Some)
    }

    /// Returns the value of a key whose newest entry is an operand with this number.
    #[cold]
    pub(super) fn merged(
        &self,
        view: &Arc<View>,
        key: &[u8],
        newest: SeqNo,
        options: &ReadOptions,
    ) -> Result<Value> {
        let reader = ChainReader { view, own: None, seqno: newest, fill_cache: options.fill_cache };
        reader.merged(key, newest, &self.core.fetcher)
    }

    /// Returns the view to read and what to see of it, for the duration of one call: no reference
    /// is counted, so threads that read at once do not meet on a counter.
    pub(super) fn peek_at(
        &self,
        snapshot: Option<&Snapshot>,
    ) -> Result<(Guard<Arc<View>>, ReadPoint<'_>)> {
        self.core.check_open()?;
        let snapshots = &self.core.snapshots;
        let Some(snapshot) = snapshot else {
            self.core.follow_if_due()?;
            let (view, seqno) = self.peek_newest(|| ())?;
            return Ok((view, ReadPoint { seqno, moment: Moment::Now(&snapshots.expiry) }));
        };
        let view = self.state.peek();
        self.state.check()?;
        if !snapshot.belongs_to(&self.core) {
            return Err(Error::invalid_argument("the snapshot is of another database"));
        }
        // A follower may have seen a commit that failed after it was written.
        debug_assert!(
            snapshot.seqno() <= snapshots.visible() || self.core.follower.is_some(),
            "I6: what a snapshot saw stays visible"
        );
        // I6: if a compaction filter has changed since what the snapshot sees, it goes on with the
        // view from before.
        let view = snapshot.view_before(&view).map_or(view, Guard::from_inner);
        Ok((view, snapshot.point()))
    }

    /// Returns the current view, and the visible sequence number to read it at. `between` runs
    /// before that is read, for tests.
    ///
    /// The view is taken first, so that no compaction can have dropped from it what is the newest
    /// up to the number, and it is not the empty view of a keyspace that was dropped by then. It
    /// may lack some of what was written up to the number: if its memtable was sealed in between,
    /// the last writes, and if something was ingested in between, that, while it has what was
    /// written later. Of one key, the newest entry that is found was the newest at some time of the
    /// call.
    ///
    /// I6: with operands, one entry is not enough: those from after an ingest must not be merged
    /// with what was there before it. So a keyspace with a merge operator has its view taken again
    /// until it is the same after the number was read. So has that of a follower: a catch-up that
    /// failed may have left commits in its memtables which were taken back.
    pub(super) fn peek_newest(&self, between: impl FnOnce()) -> Result<(Guard<Arc<View>>, SeqNo)> {
        let mut between = Some(between);
        loop {
            let view = self.state.peek();
            self.state.check()?;
            if let Some(between) = between.take() {
                between();
            }
            let seqno = self.core.snapshots.visible().max(view.shown);
            let is_any_good = self.state.merging().is_none() && self.core.follower.is_none();
            if is_any_good || Arc::ptr_eq(&view, &self.state.peek()) {
                return Ok((view, seqno));
            }
        }
    }

    /// Looks a key up for a point read; returns the view in which it was found, too.
    ///
    /// An entry that has expired by the time of the call may have been replaced in time, after its
    /// number was read. If anything was written since, the key is looked up once more: what is
    /// found then was there at that time, or had expired by it with nothing in its place.
    pub(super) fn look_up(
        &self,
        view: Guard<Arc<View>>,
        key: &[u8],
        point: ReadPoint<'_>,
        options: &ReadOptions,
    ) -> Result<(Guard<Arc<View>>, Lookup)> {
        let (view, seen) = self.look_up_timed(view, key, point, options, Wanted::Value, None)?;
        self.note_deadline(key, &seen, options);
        Ok((view, seen.found))
    }

    /// Looks a key up as [`Keyspace::look_up`] does, for a reader that remembers deadlines itself.
    pub(super) fn look_up_timed(
        &self,
        view: Guard<Arc<View>>,
        key: &[u8],
        point: ReadPoint<'_>,
        options: &ReadOptions,
        wanted: Wanted,
        place: Option<&mut KeyPlace>,
    ) -> Result<(Guard<Arc<View>>, TimedLookup)> {
        let (fill, hot) = (options.fill_cache, Some(&*self.core.hot));
        let seen = get_timed(&view, key, point, fill, hot, wanted, place)?;
        let (Some(time), Moment::Now(_)) = (seen.expired, point.moment) else {
            return Ok((view, seen));
        };
        let (newer, now) = self.peek_at(None)?;
        if now.seqno == point.seqno && Arc::ptr_eq(&view, &newer) {
            return Ok((view, seen));
        }
        let point = ReadPoint { seqno: now.seqno, moment: Moment::At(time) };
        let seen = get_timed(&newer, key, point, fill, hot, wanted, None)?;
        Ok((newer, seen))
    }

    /// Lets the reading transaction remember when what was found expires.
    fn note_deadline(&self, key: &[u8], seen: &TimedLookup, options: &ReadOptions) {
        if let (Some(transaction), Some(deadline)) = (&options.transaction, seen.deadline) {
            transaction.note_deadline(&self.state, key, deadline);
        }
    }

    /// Returns what [`Keyspace::peek_at`] does, with the time fixed, for more than one look-up.
    ///
    /// What was seen up to the number, in this view, was so at the time: a value that is always
    /// replaced before it expires never seems to have expired.
    pub(super) fn peek_fixed(
        &self,
        snapshot: Option<&Snapshot>,
    ) -> Result<(Guard<Arc<View>>, ReadPoint<'static>)> {
        loop {
            let (view, point) = self.peek_at(snapshot)?;
            if let Moment::At(_) = point.moment {
                return Ok((view, point.fixed()));
            }
            let (seqno, time) = self.core.snapshots.instant();
            let seqno = seqno.max(view.shown);
            // If the active memtable was sealed since the view was taken, the view may lack writes
            // up to the number.
            if Arc::ptr_eq(&view, &self.state.peek()) {
                return Ok((view, ReadPoint { seqno, moment: Moment::At(time) }));
            }
        }
    }

    /// Returns the view of the present.
    pub(super) fn view(&self) -> Result<Arc<View>> {
        self.peek_at(None).map(|(view, _)| Guard::into_inner(view))
    }

    /// Returns what a read with these options sees.
    pub(crate) fn moment(&self, options: &ReadOptions) -> Result<ReadMoment> {
        let (view, point) = self.peek_fixed(options.read_snapshot())?;
        let view = Guard::into_inner(view);
        let transaction = options.transaction.as_ref();
        let own =
            transaction.map(|transaction| transaction.own_entries(&self.state)).transpose()?;
        Ok(ReadMoment { view, point, own: own.flatten() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_many_keys_are_begun_if_one_of_the_first_needs_one() {
        let looked_at = |count, cold: &[usize]| {
            let mut keys = Vec::new();
            start_gets(count, |index| {
                keys.push(index);
                cold.contains(&index)
            });
            assert!(keys.iter().copied().eq(0..keys.len()), "each once, in order");
            keys.len()
        };
        assert_eq!(looked_at(0, &[]), 0);
        assert_eq!(looked_at(1, &[0]), 0, "the get itself reads at once");
        assert_eq!([2, 3, 4, 5, 64].map(|count| looked_at(count, &[])), [2, 3, 4, 4, 4]);
        assert_eq!([0, 3, 4].map(|cold| looked_at(64, &[cold])), [64, 64, 4]);
        assert_eq!([65, 1000].map(|count| looked_at(count, &[3])), [64, 64], "the rest is next");
    }
}

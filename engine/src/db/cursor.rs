//! The public cursor.

use crate::base::bounds::Bounds;
use crate::base::error::Result;
use crate::base::pointer::KeyspaceId;
use crate::base::value::Value;
use crate::db::holders::CoreHold;
use crate::db::keyspace::Keyspace;
use crate::db::read_options::ReadOptions;
use crate::db::reads::ReadMoment;
use crate::db::snapshot::Snapshot;
use crate::db::transaction::tracker::{Move, RangeTracker};
use crate::read::cursor::{CursorSettings, TreeCursor};
use crate::version::pins::{Pin, PinKind, PinOwner};
use std::fmt;
use std::sync::Arc;

/// A cursor walks the keys of a keyspace in both directions at one fixed moment: later writes do
/// not show, and what it sees stays readable, even if the keyspace is dropped. Once the database is
/// closed, every step, seek and value fails with [`ErrorKind::Closed`].
///
/// A new cursor is not positioned; position it with a seek. Values are read only on request, so a
/// walk without values reads keys only. Once a walk with values is steady, or at once if the last
/// ones over the keyspace were, they are read ahead in parallel. Dropping the cursor cancels those
/// reads.
///
/// [`Keyspace::cursor`] makes one over a whole keyspace, [`Range::into_cursor`] one within bounds.
/// Where no step back and no seek is needed, a [`Range`] is the simpler choice.
///
/// [`ErrorKind::Closed`]: crate::ErrorKind::Closed
/// [`Keyspace::cursor`]: crate::Keyspace::cursor
/// [`Range`]: crate::Range
/// [`Range::into_cursor`]: crate::Range::into_cursor
///
/// ```
/// # let dir = cleavedb::doc_dir("cursor");
/// let db = cleavedb::open(&dir)?;
/// let keys = db.default_keyspace();
/// for key in ["a", "b", "c"] {
///     keys.put(key, key)?;
/// }
/// let mut cursor = keys.cursor()?;
/// cursor.seek("b")?;
/// assert_eq!(cursor.key(), b"b");
/// cursor.prev()?;
/// assert_eq!(cursor.value()?, "a");
/// cursor.seek_to_last()?;
/// cursor.next()?;
/// assert!(!cursor.valid());
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub struct Cursor {
    core: CoreHold,
    inner: TreeCursor,
    keyspace: KeyspaceId,
    /// Number of steps made; only some of them are timed.
    steps: u64,
    /// The number of the version that is walked.
    version: u64,
    /// The snapshot that makes compaction keep what the cursor sees, should the cursor outlive its
    /// view.
    _snapshot: Option<Snapshot>,
    /// Remembers what is seen, for the commit of the transaction that the cursor belongs to.
    tracker: Option<RangeTracker>,
    /// The registration of the cursor; `None` if it is part of an iterator, which is registered
    /// itself.
    _pin: Option<Pin>,
}

impl Cursor {
    pub(crate) fn new(
        keyspace: &Keyspace,
        moment: ReadMoment,
        options: &ReadOptions,
        bounds: Bounds,
    ) -> Result<Self> {
        let core = &keyspace.core;
        let (since, id) = (core.env.clock.now(), Some(keyspace.state.id));
        let seqno = moment.point.seqno;
        let owner = PinOwner { kind: PinKind::Cursor, keyspace: id, seqno, since };
        let pin = core.snapshots.pins.register(owner, Some(&moment.view.version));
        let snapshot = options.read_snapshot().cloned();
        let cursor = Self::within(keyspace, moment, options, bounds)?;
        Ok(Cursor { _snapshot: snapshot, _pin: Some(pin), ..cursor })
    }

    /// Creates a cursor as part of an iterator, which holds the snapshot.
    pub(crate) fn within(
        keyspace: &Keyspace,
        moment: ReadMoment,
        options: &ReadOptions,
        bounds: Bounds,
    ) -> Result<Self> {
        let Keyspace { core, state } = keyspace;
        core.check_open()?;
        let tracker = options.transaction.as_ref().map(|transaction| {
            RangeTracker::new(transaction.clone(), state.clone(), bounds.clone())
        });
        let settings = CursorSettings {
            bounds,
            prefetch: options.read_ahead,
            fill_cache: options.fill_cache,
            own: moment.own,
            walks: state.walks.clone(),
        };
        let version = moment.view.version.number;
        let inner = TreeCursor::new(moment.view, moment.point, core.fetcher.clone(), settings)
            .map_err(|error| core.lost(error, version))?;
        Ok(Cursor {
            core: CoreHold::new(Arc::clone(core)),
            inner,
            keyspace: state.id,
            steps: 0,
            version,
            _snapshot: None,
            tracker,
            _pin: None,
        })
    }

    /// Lets the tracker know where a move led, one that failed included.
    fn track(&mut self, by: Move<'_>, moved: Result<()>) -> Result<()> {
        if let Some(tracker) = &mut self.tracker {
            let at = self.inner.valid().then(|| (self.inner.key(), self.inner.deadline()));
            tracker.moved(by, at);
        }
        moved.map_err(|error| self.core.lost(error, self.version))
    }

    /// Returns true if the cursor is on a key.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("cursor-valid"))?.default_keyspace();
    /// # for key in ["a", "b", "c"] { words.put(key, key)?; }
    /// # let mut cursor = words.cursor()?;
    /// assert!(!cursor.valid());
    /// cursor.seek_to_first()?;
    /// while cursor.valid() {
    ///     println!("{}", cursor.key().escape_ascii());
    ///     cursor.next()?;
    /// }
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn valid(&self) -> bool {
        self.inner.valid()
    }

    /// Moves to the first key.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("cursor-first"))?.default_keyspace();
    /// # for key in ["a", "b", "c"] { words.put(key, key)?; }
    /// # let mut cursor = words.cursor()?;
    /// cursor.seek_to_first()?;
    /// assert_eq!(cursor.key(), b"a");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.core.check_open()?;
        let moved = self.inner.seek_to_first();
        self.track(Move::Seek(None), moved)
    }

    /// Moves to the last key.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("cursor-last"))?.default_keyspace();
    /// # for key in ["a", "b", "c"] { words.put(key, key)?; }
    /// # let mut cursor = words.cursor()?;
    /// cursor.seek_to_last()?;
    /// assert_eq!(cursor.key(), b"c");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.core.check_open()?;
        let moved = self.inner.seek_to_last();
        self.track(Move::SeekBack(None), moved)
    }

    /// Moves to the first key at or behind `key`.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("cursor-seek"))?.default_keyspace();
    /// # for key in ["a", "b", "c"] { words.put(key, key)?; }
    /// # let mut cursor = words.cursor()?;
    /// cursor.seek("aa")?;
    /// assert_eq!(cursor.key(), b"b");
    /// cursor.seek("d")?;
    /// assert!(!cursor.valid());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.core.check_open()?;
        let moved = self.inner.seek(key.as_ref());
        self.track(Move::Seek(Some(key.as_ref())), moved)
    }

    /// Moves to the last key at or before `key`.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("cursor-seek-for-prev"))?.default_keyspace();
    /// # for key in ["a", "b", "c"] { words.put(key, key)?; }
    /// # let mut cursor = words.cursor()?;
    /// cursor.seek_for_prev("bb")?;
    /// assert_eq!(cursor.key(), b"b");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.core.check_open()?;
        let moved = self.inner.seek_for_prev(key.as_ref());
        self.track(Move::SeekBack(Some(key.as_ref())), moved)
    }

    /// Moves to the next key; behind the last one the cursor is not positioned.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("cursor-next"))?.default_keyspace();
    /// # for key in ["a", "b", "c"] { words.put(key, key)?; }
    /// # let mut cursor = words.cursor()?;
    /// cursor.seek("b")?;
    /// cursor.next()?;
    /// assert_eq!(cursor.key(), b"c");
    /// cursor.next()?;
    /// assert!(!cursor.valid());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    #[expect(
        clippy::should_implement_trait,
        reason = "the word of every store's cursor; an `Iterator` can't lend its key or step back"
    )]
    pub fn next(&mut self) -> Result<()> {
        self.core.check_open()?;
        self.steps += 1;
        if !self.inner.valid() {
            return Ok(());
        }
        let moved = self.core.time_step(self.keyspace, self.steps, || self.inner.next());
        self.track(Move::Next, moved)
    }

    /// Moves to the previous key; before the first one the cursor is not positioned.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("cursor-prev"))?.default_keyspace();
    /// # for key in ["a", "b", "c"] { words.put(key, key)?; }
    /// # let mut cursor = words.cursor()?;
    /// cursor.seek("b")?;
    /// cursor.prev()?;
    /// assert_eq!(cursor.key(), b"a");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn prev(&mut self) -> Result<()> {
        self.core.check_open()?;
        self.steps += 1;
        if !self.inner.valid() {
            return Ok(());
        }
        let moved = self.core.time_step(self.keyspace, self.steps, || self.inner.prev());
        self.track(Move::Prev, moved)
    }

    /// Returns the key that the cursor is on.
    ///
    /// # Panics
    /// Panics if the cursor is not positioned: check [`Cursor::valid`] first.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("cursor-key"))?.default_keyspace();
    /// # for key in ["a", "b", "c"] { words.put(key, key)?; }
    /// # let mut cursor = words.cursor()?;
    /// cursor.seek("b")?;
    /// if cursor.valid() {
    ///     assert_eq!(cursor.key(), b"b");
    /// }
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn key(&self) -> &[u8] {
        assert!(self.valid(), "the cursor stands on no key");
        self.inner.key()
    }

    /// Returns the value of the current key. An error concerns this value only; the walk can go on.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("cursor-value"))?.default_keyspace();
    /// # for key in ["a", "b", "c"] { words.put(key, key)?; }
    /// # let mut cursor = words.cursor()?;
    /// cursor.seek("b")?;
    /// assert_eq!(cursor.value()?, "b");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn value(&mut self) -> Result<Value> {
        // Once the database is closed, its files may be deleted or replaced by another process.
        self.core.check_open()?;
        self.inner.value().map_err(|error| self.core.lost(error, self.version))
    }

    /// Returns the current key and its value for as long as the cursor stays. An error concerns
    /// this value only; the walk can go on. Values that are neither compressed nor encrypted are
    /// lent from where they lie, in a block or in what was read ahead, without a copy and an
    /// allocation, so walks take less time than with [`Cursor::value`].
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("cursor-pair"))?.default_keyspace();
    /// # for key in ["a", "b", "c"] { words.put(key, key)?; }
    /// # let mut cursor = words.cursor()?;
    /// cursor.seek_to_first()?;
    /// while cursor.valid() {
    ///     let (key, value) = cursor.pair()?;
    ///     assert_eq!(key, value);
    ///     cursor.next()?;
    /// }
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn pair(&mut self) -> Result<(&[u8], &[u8])> {
        self.core.check_open()?;
        let (core, version) = (&self.core, self.version);
        self.inner.pair().map_err(|error| core.lost(error, version))
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("valid", &self.valid()).finish_non_exhaustive()
    }
}

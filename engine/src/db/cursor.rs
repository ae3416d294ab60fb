//! The cursor as users hold it.

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::base::value::Value;
use crate::db::Core;
use crate::db::read_options::ReadOptions;
use crate::db::snapshot::Snapshot;
use crate::read::cursor::{CursorSettings, TreeCursor};
use crate::read::visible::Bounds;
use crate::version::pins::{Pin, PinKind, PinOwner};
use crate::version::view::View;
use std::fmt;
use std::sync::Arc;

/// Walks the keys of a keyspace in both directions. It owns the moment it walks: what is written
/// later does not show, and nothing it stands on is taken away, not even if the keyspace is
/// dropped. Once the database is closed, every step, seek and value fails with
/// [`ErrorKind::Closed`].
///
/// A new cursor stands nowhere; position it with a seek. Values are read when asked for, so a walk
/// that asks for none reads keys only; once a walk with values is steady they are read ahead in
/// parallel. Dropping the cursor cancels those reads.
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
    core: Arc<Core>,
    inner: TreeCursor,
    keyspace: KeyspaceId,
    /// Steps made; one of some is timed.
    steps: u64,
    /// Kept so that compaction keeps what the cursor sees, should it outlive its view.
    _snapshot: Option<Snapshot>,
    /// Says that it is there; `None` if an iterator, which says so itself, walks with it.
    _pin: Option<Pin>,
}

impl Cursor {
    pub(crate) fn new(
        core: Arc<Core>,
        view: Arc<View>,
        seqno: SeqNo,
        options: &ReadOptions,
        bounds: Bounds,
    ) -> Result<Self> {
        let since = core.env.clock.now();
        let owner = PinOwner { kind: PinKind::Cursor, keyspace: Some(view.keyspace), seqno, since };
        let pin = core.snapshots.pins.register(owner, Some(&view.version));
        let snapshot = options.snapshot.clone();
        let cursor = Self::within(core, view, seqno, options, bounds)?;
        Ok(Cursor { _snapshot: snapshot, _pin: Some(pin), ..cursor })
    }

    /// A cursor as a part of an iterator, which keeps the moment.
    pub(crate) fn within(
        core: Arc<Core>,
        view: Arc<View>,
        seqno: SeqNo,
        options: &ReadOptions,
        bounds: Bounds,
    ) -> Result<Self> {
        let settings =
            CursorSettings { bounds, prefetch: options.read_ahead, fill_cache: options.fill_cache };
        let keyspace = view.keyspace;
        let inner = TreeCursor::new(view, seqno, core.fetcher.clone(), settings)?;
        Ok(Cursor { core, inner, keyspace, steps: 0, _snapshot: None, _pin: None })
    }

    /// True if it stands on a key.
    pub fn valid(&self) -> bool {
        self.inner.valid()
    }

    /// Stands on the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.core.check_open()?;
        self.inner.seek_to_first()
    }

    /// Stands on the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.core.check_open()?;
        self.inner.seek_to_last()
    }

    /// Stands on the first key at or behind `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.core.check_open()?;
        self.inner.seek(key.as_ref())
    }

    /// Stands on the last key at or before `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.core.check_open()?;
        self.inner.seek_for_prev(key.as_ref())
    }

    /// Steps to the next key; past the last one it stands nowhere.
    #[expect(
        clippy::should_implement_trait,
        reason = "the word of every store's cursor; an `Iterator` can't lend its key or step back"
    )]
    pub fn next(&mut self) -> Result<()> {
        self.core.check_open()?;
        self.steps += 1;
        self.core.time_step(self.keyspace, self.steps, || self.inner.next())
    }

    /// Steps to the key before; before the first one it stands nowhere.
    pub fn prev(&mut self) -> Result<()> {
        self.core.check_open()?;
        self.steps += 1;
        self.core.time_step(self.keyspace, self.steps, || self.inner.prev())
    }

    /// The key it stands on.
    ///
    /// # Panics
    /// If it stands nowhere: ask [`Cursor::valid`] first.
    pub fn key(&self) -> &[u8] {
        assert!(self.valid(), "the cursor stands on no key");
        self.inner.key()
    }

    /// The value it stands on. An error concerns this value only; the walk can go on.
    pub fn value(&mut self) -> Result<Value> {
        // Once the database is closed its files may go: what is there now is another's.
        self.core.check_open()?;
        self.inner.value()
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("valid", &self.valid()).finish_non_exhaustive()
    }
}

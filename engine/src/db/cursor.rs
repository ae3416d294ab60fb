//! The cursor as users hold it.

use crate::base::error::{Error, Result};
use crate::base::key::{KeyOrder, SeqNo};
use crate::base::value::Value;
use crate::db::Core;
use crate::db::range::prefix_bounds;
use crate::db::snapshot::Snapshot;
use crate::read::cursor::{CursorSettings, TreeCursor};
use crate::read::visible::Bounds;
use crate::version::pins::{Pin, PinKind, PinOwner};
use crate::version::view::View;
use std::sync::Arc;

/// How a cursor reads.
///
/// ```
/// use cleavedb::CursorOptions;
/// let keys_of_a_user = CursorOptions {
///     prefix: Some(b"user:7:".to_vec()),
///     keys_only: true,
///     ..Default::default()
/// };
/// # let _ = keys_of_a_user;
/// ```
#[derive(Clone)]
pub struct CursorOptions {
    /// Walk this moment. `None`: the moment the cursor is made.
    pub snapshot: Option<Snapshot>,
    /// The first key that belongs to the walk.
    pub lower: Option<Vec<u8>>,
    /// The first key that does not any more.
    pub upper: Option<Vec<u8>>,
    /// Only keys that begin with this; narrows the bounds. Needs keys in byte order.
    pub prefix: Option<Vec<u8>>,
    /// Values will not be asked for: none is read.
    pub keys_only: bool,
    /// Read separated values ahead in parallel once the walk is steady. Default true.
    pub prefetch: bool,
    /// Keep the table blocks it reads in the cache. Default true; false suits long scans.
    pub fill_cache: bool,
}

impl Default for CursorOptions {
    fn default() -> Self {
        CursorOptions {
            snapshot: None,
            lower: None,
            upper: None,
            prefix: None,
            keys_only: false,
            prefetch: true,
            fill_cache: true,
        }
    }
}

impl CursorOptions {
    fn bounds(&self) -> Bounds {
        Bounds { lower: self.lower.clone(), upper: self.upper.clone(), ..Bounds::default() }
    }

    /// The part of `bounds` whose keys begin with the prefix, if there is one.
    fn narrow(&self, mut bounds: Bounds, order: &KeyOrder) -> Result<Bounds> {
        let Some(prefix) = &self.prefix else {
            return Ok(bounds);
        };
        if !matches!(order, KeyOrder::Bytewise) {
            return Err(Error::invalid("a prefix needs a keyspace whose keys are in byte order")
                .advise("use `lower` and `upper`"));
        }
        let narrow = prefix_bounds(prefix);
        bounds.lower = bounds.lower.max(narrow.lower);
        bounds.upper = match (bounds.upper, narrow.upper) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Ok(bounds)
    }
}

/// Walks the keys of a keyspace in both directions. It owns the moment it walks: what is written
/// later does not show, and nothing it stands on is taken away.
///
/// A new cursor stands nowhere; position it with a seek. Values are read when asked for; once a
/// walk is steady they are read ahead in parallel. Dropping the cursor cancels those reads.
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
        options: CursorOptions,
    ) -> Result<Self> {
        let bounds = options.bounds();
        let since = core.env.clock.now();
        let owner = PinOwner { kind: PinKind::Cursor, keyspace: Some(view.keyspace), seqno, since };
        let pin = core.snapshots.pins.register(owner, Some(&view.version));
        let cursor = Self::within(core, view, seqno, options, bounds)?;
        Ok(Cursor { _pin: Some(pin), ..cursor })
    }

    /// A cursor over `bounds`, whatever ends `options` has, as a part of an iterator.
    pub(crate) fn within(
        core: Arc<Core>,
        view: Arc<View>,
        seqno: SeqNo,
        options: CursorOptions,
        bounds: Bounds,
    ) -> Result<Self> {
        let settings = CursorSettings {
            bounds: options.narrow(bounds, view.levels.order())?,
            keys_only: options.keys_only,
            prefetch: options.prefetch,
            fill_cache: options.fill_cache,
        };
        let inner = TreeCursor::new(view, seqno, core.fetcher.clone(), settings)?;
        Ok(Cursor { core, inner, _snapshot: options.snapshot, _pin: None })
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
        self.inner.next()
    }

    /// Steps to the key before; before the first one it stands nowhere.
    pub fn prev(&mut self) -> Result<()> {
        self.inner.prev()
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
        self.inner.value()
    }
}

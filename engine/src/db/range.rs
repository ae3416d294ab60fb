//! Scans as iterators of the standard library.

use crate::base::bounds::Bounds;
use crate::base::error::{Error, Result};
use crate::base::value::Value;
use crate::db::cursor::Cursor;
use crate::db::key_range::{KeyRange, bounds_of, intersection};
use crate::db::keyspace::Keyspace;
use crate::db::read_options::ReadOptions;
use crate::db::reads::ReadMoment;
use crate::db::snapshot::Snapshot;
use crate::version::pins::Pin;
use std::fmt;

/// Two cursors that walk towards each other at one moment.
struct Ends {
    keyspace: Keyspace,
    options: ReadOptions,
    /// The moment that is read: the user's snapshot, or one that the scan took itself.
    snapshot: Snapshot,
    /// What is walked. It is held from the start, so that it stays readable if the keyspace is
    /// dropped.
    moment: Result<ReadMoment>,
    /// Registers the scan if the snapshot is the user's; a snapshot that the scan took is
    /// registered itself.
    _pin: Option<Pin>,
    bounds: Result<Bounds>,
    front: Option<Cursor>,
    back: Option<Cursor>,
    /// True once the ends met or an error ended the walk.
    done: bool,
}

impl Ends {
    fn new(keyspace: &Keyspace, bounds: Result<Bounds>, options: &ReadOptions) -> Self {
        let (core, id) = (&keyspace.core, keyspace.state.id);
        let followed = match options.read_snapshot() {
            Some(_) => Ok(()),
            None => core.check_open().and_then(|()| core.follow_if_due()),
        };
        let (snapshot, pin) = match options.read_snapshot() {
            Some(snapshot) => (snapshot.clone(), Some(snapshot.pin_iterator(id))),
            None => (Snapshot::for_iterator(core, id), None),
        };
        let at_snapshot = ReadOptions { snapshot: Some(snapshot.clone()), ..options.clone() };
        let moment = followed.and_then(|()| keyspace.moment(&at_snapshot));
        if let Ok(moment) = &moment {
            pin.as_ref().unwrap_or(snapshot.pin()).keeps(&moment.view.version);
        }
        Ends {
            keyspace: keyspace.clone(),
            options: options.clone(),
            snapshot,
            moment,
            _pin: pin,
            bounds,
            front: None,
            back: None,
            done: false,
        }
    }

    fn cursor(&self) -> Result<Cursor> {
        let bounds = self.bounds.clone()?;
        Cursor::within(&self.keyspace, self.moment.clone()?, &self.options, bounds)
    }

    /// Narrows the bounds to `bounds` and to what was not walked yet.
    fn narrow(&mut self, bounds: Bounds) {
        let order = &self.keyspace.state.order;
        let key = |end: Option<Cursor>| end.map(|cursor| cursor.key().to_vec());
        let (lower, upper) = (key(self.front.take()), key(self.back.take()));
        let walked = Bounds { open_lower: lower.is_some(), lower, upper, closed_upper: false };
        if let Ok(own) = &mut self.bounds {
            let left = intersection(std::mem::take(own), walked, order);
            *own = intersection(left, bounds, order);
        }
    }

    /// Moves one end a step towards the other. The cursor is moved where it is: it is large, and
    /// taking it out and putting it back at each step took a fifth of a scan of short values.
    fn step(&mut self, front: bool) -> Result<Option<&mut Cursor>> {
        if self.done {
            return Ok(None);
        }
        // An error, or the end, is final.
        let moved = self.advance(front);
        self.done = !matches!(moved, Ok(true));
        let end = if front { &mut self.front } else { &mut self.back };
        if self.done {
            *end = None;
        }
        moved.map(|_| end.as_mut())
    }

    /// Moves one end; returns false if it came to the end of the range or met the other.
    fn advance(&mut self, front: bool) -> Result<bool> {
        match if front { &mut self.front } else { &mut self.back } {
            Some(cursor) if front => cursor.next()?,
            Some(cursor) => cursor.prev()?,
            None => {
                let mut cursor = self.cursor()?;
                if front {
                    cursor.seek_to_first()?;
                } else {
                    cursor.seek_to_last()?;
                }
                *if front { &mut self.front } else { &mut self.back } = Some(cursor);
            }
        }
        let (end, other) =
            if front { (&self.front, &self.back) } else { (&self.back, &self.front) };
        let Some(cursor) = end.as_ref().filter(|cursor| cursor.valid()) else {
            return Ok(false);
        };
        let order = &self.keyspace.state.order;
        Ok(other.as_ref().is_none_or(|other| {
            let ordering = order.compare(cursor.key(), other.key());
            if front { ordering.is_lt() } else { ordering.is_gt() }
        }))
    }

    fn pair(&mut self, front: bool) -> Option<Result<(Vec<u8>, Value)>> {
        let step = self.step(front).transpose()?;
        Some(step.and_then(|cursor| {
            let key = cursor.key().to_vec();
            Ok((key, cursor.value()?))
        }))
    }

    fn key(&mut self, front: bool) -> Option<Result<Vec<u8>>> {
        let step = self.step(front).transpose()?;
        Some(step.map(|cursor| cursor.key().to_vec()))
    }

    /// Formats the scan without its keys, because keys are data.
    fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("keyspace", &self.keyspace.name())
            .field("snapshot", &self.snapshot)
            .field("ended", &self.done)
            .finish_non_exhaustive()
    }
}

/// A scan from both ends over the pairs of a range of keys, at the moment it was made or at a
/// snapshot. Made by [`Keyspace::range`], [`Keyspace::prefix`] and [`Keyspace::iter`].
///
/// Nothing is read before the first step. An error of one value is returned as the item in its
/// place and the walk goes on behind it; an error of the walk itself ends it. While the scan lives,
/// it keeps the space of what it sees. It goes on reading that even if the keyspace is dropped;
/// once the database is closed it fails.
///
/// ```
/// # let dir = cleavedb::doc_dir("range");
/// let db = cleavedb::open(&dir)?;
/// let keys = db.default_keyspace();
/// for key in ["a", "b", "c"] {
///     keys.put(key, "1")?;
/// }
/// let last = keys.range("a"..="b").next_back().unwrap()?;
/// assert_eq!(last.0, b"b");
/// assert_eq!(keys.iter().rev().count(), 3);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[must_use = "a scan reads nothing until it is iterated over"]
pub struct Range(Ends);

impl Range {
    pub(crate) fn new(keyspace: &Keyspace, bounds: Result<Bounds>, options: &ReadOptions) -> Self {
        Range(Ends::new(keyspace, bounds, options))
    }

    /// Returns the rest of the scan without the values, which are then not read.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("range-keys");
    /// let db = cleavedb::open(&dir)?;
    /// let users = db.default_keyspace();
    /// users.put("user:7", vec![0; 1 << 20])?;
    /// let keys: Vec<_> = users.prefix("user:").keys().collect::<cleavedb::Result<_>>()?;
    /// assert_eq!(keys, [b"user:7"]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn keys(self) -> Keys {
        Keys(self.0)
    }

    /// Restricts the rest of the scan to `range`, for example to narrow a prefix or to go on behind
    /// a key.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("range-within");
    /// use std::ops::Bound;
    /// let db = cleavedb::open(&dir)?;
    /// let users = db.default_keyspace();
    /// for key in ["user:1", "user:2", "user:3", "word:1"] {
    ///     users.put(key, "")?;
    /// }
    /// // The page of a list that follows the one which ended with user:1.
    /// let rest = (Bound::Excluded("user:1"), Bound::Unbounded);
    /// assert_eq!(users.prefix("user:").within(rest).take(10).count(), 2);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn within(mut self, range: impl KeyRange) -> Range {
        self.0.narrow(bounds_of(&range));
        self
    }

    /// Returns a cursor over the rest of the scan, at the same moment. The cursor is not positioned
    /// yet, and every seek stays within the bounds of the scan.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("range-cursor");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// for key in ["a", "b", "c"] {
    ///     words.put(key, "")?;
    /// }
    /// let mut cursor = words.range("b"..).into_cursor()?;
    /// cursor.seek("a")?;
    /// assert_eq!(cursor.key(), b"b");
    /// cursor.prev()?;
    /// assert!(!cursor.valid());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn into_cursor(mut self) -> Result<Cursor> {
        self.0.narrow(Bounds::default());
        let Ends { keyspace, options, moment, bounds, done, .. } = self.0;
        let mut bounds = bounds?;
        if done {
            // Nothing is left, so the bounds are made empty: from a key on, and before the same
            // key.
            bounds.upper = Some(bounds.lower.get_or_insert_default().clone());
            bounds.closed_upper = false;
        }
        Cursor::new(&keyspace, moment?, &options, bounds)
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as("Range", f)
    }
}

impl Iterator for Range {
    type Item = Result<(Vec<u8>, Value), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.pair(true)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.pair(false)
    }
}

/// A scan from both ends over keys; no value is read. Made by [`Keyspace::keys`] and
/// [`Range::keys`].
///
/// ```
/// # let dir = cleavedb::doc_dir("keys");
/// let db = cleavedb::open(&dir)?;
/// db.default_keyspace().put("a", "1")?;
/// let keys: Result<Vec<_>, _> = db.default_keyspace().keys().collect();
/// assert_eq!(keys?, [b"a"]);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[must_use = "a scan reads nothing until it is iterated over"]
pub struct Keys(Ends);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as("Keys", f)
    }
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.key(true)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.key(false)
    }
}

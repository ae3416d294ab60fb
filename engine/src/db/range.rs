//! Ranges of keys as std iterators.

use crate::base::error::{Error, Result};
use crate::base::value::Value;
use crate::db::cursor::{Cursor, CursorOptions};
use crate::db::keyspace::Keyspace;
use crate::db::snapshot::Snapshot;
use crate::read::visible::Bounds;
use std::ops::{Bound, RangeBounds};

/// The bounds of a Rust range of keys.
pub(crate) fn bounds_of<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Bounds {
    let key = |bound: Bound<&K>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.as_ref().to_vec()),
        Bound::Unbounded => None,
    };
    Bounds {
        lower: key(range.start_bound()),
        upper: key(range.end_bound()),
        open_lower: matches!(range.start_bound(), Bound::Excluded(_)),
        closed_upper: matches!(range.end_bound(), Bound::Included(_)),
    }
}

/// The bounds of all keys that begin with `prefix`.
pub(crate) fn prefix_bounds(prefix: &[u8]) -> Bounds {
    let mut upper = prefix.to_vec();
    while upper.last() == Some(&0xff) {
        upper.pop();
    }
    if let Some(last) = upper.last_mut() {
        *last += 1;
    }
    Bounds {
        lower: Some(prefix.to_vec()),
        upper: (!upper.is_empty()).then_some(upper),
        ..Bounds::default()
    }
}

/// Two cursors that walk towards each other over one moment.
struct Ends {
    keyspace: Keyspace,
    options: CursorOptions,
    bounds: Bounds,
    front: Option<Cursor>,
    back: Option<Cursor>,
    /// Set once the ends met or an error ended the walk.
    done: bool,
}

impl Ends {
    fn new(keyspace: &Keyspace, bounds: Bounds, options: CursorOptions) -> Self {
        let snapshot = Some(Snapshot::for_iterator(&keyspace.core, keyspace.state.id));
        Ends {
            keyspace: keyspace.clone(),
            options: CursorOptions { snapshot, ..options },
            bounds,
            front: None,
            back: None,
            done: false,
        }
    }

    fn cursor(&self) -> Result<Cursor> {
        let (view, seqno) = self.keyspace.view_at(self.options.snapshot.as_ref())?;
        if let Some(snapshot) = &self.options.snapshot {
            snapshot.keeps(&view.version);
        }
        let (core, options) = (self.keyspace.core.clone(), self.options.clone());
        Cursor::within(core, view, seqno, options, self.bounds.clone())
    }

    /// Moves one end a step towards the other.
    fn step(&mut self, front: bool) -> Result<Option<&mut Cursor>> {
        if self.done {
            return Ok(None);
        }
        // An error, or the end, is final.
        self.done = true;
        let cursor = match if front { self.front.take() } else { self.back.take() } {
            Some(mut cursor) => {
                if front {
                    cursor.next()?
                } else {
                    cursor.prev()?
                }
                cursor
            }
            None => {
                let mut cursor = self.cursor()?;
                if front {
                    cursor.seek_to_first()?
                } else {
                    cursor.seek_to_last()?
                }
                cursor
            }
        };
        let other = if front { &self.back } else { &self.front };
        let order = &self.keyspace.state.order;
        if !cursor.valid() {
            return Ok(None);
        }
        let met = other.as_ref().is_some_and(|other| {
            let ordering = order.compare(cursor.key(), other.key());
            if front { ordering.is_ge() } else { ordering.is_le() }
        });
        if met {
            return Ok(None);
        }
        self.done = false;
        let end = if front { &mut self.front } else { &mut self.back };
        Ok(Some(end.insert(cursor)))
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
}

/// The pairs of a range of keys, at the moment it was made, from both ends.
///
/// An error of one value is delivered in its place and the walk goes on behind it; an error of
/// the walk itself ends it.
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
/// assert_eq!(keys.prefix("").count(), 3);
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub struct Range(Ends);

impl Range {
    pub(crate) fn new(keyspace: &Keyspace, bounds: Bounds) -> Self {
        Range(Ends::new(keyspace, bounds, CursorOptions::default()))
    }

    pub(crate) fn of_prefix(keyspace: &Keyspace, prefix: &[u8]) -> Self {
        let options = CursorOptions { prefix: Some(prefix.to_vec()), ..CursorOptions::default() };
        Range(Ends::new(keyspace, Bounds::default(), options))
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

/// The keys of a range, at the moment it was made, from both ends. No value is read.
///
/// ```
/// # let dir = cleavedb::doc_dir("keys");
/// let db = cleavedb::open(&dir)?;
/// db.default_keyspace().put("a", "1")?;
/// let keys: Result<Vec<_>, _> = db.default_keyspace().keys().collect();
/// assert_eq!(keys?, [b"a"]);
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub struct Keys(Ends);

impl Keys {
    pub(crate) fn new(keyspace: &Keyspace, bounds: Bounds) -> Self {
        let options = CursorOptions { keys_only: true, ..CursorOptions::default() };
        Keys(Ends::new(keyspace, bounds, options))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_where_they_should() {
        let upper = |prefix: &[u8]| prefix_bounds(prefix).upper;
        assert_eq!(upper(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(upper(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(upper(b"\xff"), None);
        assert_eq!(upper(b""), None);
    }
}

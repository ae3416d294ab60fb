//! Ranges of keys as std iterators.

use crate::base::error::{Error, Result};
use crate::base::value::Value;
use crate::db::cursor::{Cursor, CursorOptions};
use crate::db::keyspace::Keyspace;
use crate::db::snapshot::Snapshot;
use crate::read::visible::Bounds;
use std::ops::{Bound, RangeBounds};

/// The bounds of a Rust range of keys, in byte order.
pub(crate) fn bounds_of<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Bounds {
    let next = |key: &K| {
        let mut key = key.as_ref().to_vec();
        key.push(0);
        key
    };
    let lower = match range.start_bound() {
        Bound::Included(key) => Some(key.as_ref().to_vec()),
        Bound::Excluded(key) => Some(next(key)),
        Bound::Unbounded => None,
    };
    let upper = match range.end_bound() {
        Bound::Included(key) => Some(next(key)),
        Bound::Excluded(key) => Some(key.as_ref().to_vec()),
        Bound::Unbounded => None,
    };
    Bounds { lower, upper }
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
    Bounds { lower: Some(prefix.to_vec()), upper: (!upper.is_empty()).then_some(upper) }
}

/// Two cursors that walk towards each other over one moment.
struct Ends {
    keyspace: Keyspace,
    snapshot: Snapshot,
    bounds: Bounds,
    keys_only: bool,
    front: Option<Cursor>,
    back: Option<Cursor>,
    /// Set once the ends met or an error ended the walk.
    done: bool,
}

impl Ends {
    fn new(keyspace: &Keyspace, bounds: Bounds, keys_only: bool) -> Self {
        Ends {
            keyspace: keyspace.clone(),
            snapshot: Snapshot::take(&keyspace.core),
            bounds,
            keys_only,
            front: None,
            back: None,
            done: false,
        }
    }

    fn cursor(&self) -> Result<Cursor> {
        self.keyspace.cursor_with(CursorOptions {
            snapshot: Some(self.snapshot.clone()),
            lower: self.bounds.lower.clone(),
            upper: self.bounds.upper.clone(),
            keys_only: self.keys_only,
            ..Default::default()
        })
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
        Range(Ends::new(keyspace, bounds, false))
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
        Keys(Ends::new(keyspace, bounds, true))
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

    #[test]
    fn ranges_become_half_open() {
        let bounds = bounds_of(&("a"..="b"));
        assert_eq!(bounds.upper, Some(b"b\0".to_vec()));
        let range: (Bound<&str>, Bound<&str>) = (Bound::Excluded("a"), Bound::Unbounded);
        assert_eq!(bounds_of::<&str>(&range).lower, Some(b"a\0".to_vec()));
    }
}

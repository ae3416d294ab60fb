//! Ranges of keys: the public trait, and the bounds that the engine uses.

use crate::base::bounds::Bounds;
use crate::base::error::{Error, Result};
use crate::base::key::KeyOrder;
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys: any of Rust's ranges over anything that is bytes, and `..` for all keys.
///
/// Unlike with a bound by [`RangeBounds`], `..` needs no type annotation here. A pair of [`Bound`]s
/// can begin behind a key or be built at run time. A range whose end is before its start is empty.
/// Bounds are compared by the keyspace's comparator.
///
/// ```
/// # let dir = cleavedb::doc_dir("key-range");
/// use std::ops::Bound;
/// let db = cleavedb::open(&dir)?;
/// let words = db.default_keyspace();
/// for key in ["a", "b", "c"] {
///     words.put(key, "")?;
/// }
/// let last = String::from("b");
/// assert_eq!(words.range(..).count(), 3);
/// assert_eq!(words.range("a".."c").count(), 2);
/// assert_eq!(words.range(b"a"..=b"c").count(), 3);
/// assert_eq!(words.range(vec![b'b']..).count(), 2);
/// assert_eq!(words.range((Bound::Excluded(&last), Bound::Unbounded)).count(), 1);
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub trait KeyRange {
    /// Returns the key where the range begins.
    fn lower_bound(&self) -> Bound<&[u8]>;
    /// Returns the key where the range ends.
    fn upper_bound(&self) -> Bound<&[u8]>;
}

impl KeyRange for RangeFull {
    fn lower_bound(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }

    fn upper_bound(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}

impl<R: KeyRange + ?Sized> KeyRange for &R {
    fn lower_bound(&self) -> Bound<&[u8]> {
        (**self).lower_bound()
    }

    fn upper_bound(&self) -> Bound<&[u8]> {
        (**self).upper_bound()
    }
}

macro_rules! std_ranges {
    ($($range:ty),*) => {$(
        impl<K: AsRef<[u8]>> KeyRange for $range {
            fn lower_bound(&self) -> Bound<&[u8]> {
                self.start_bound().map(AsRef::as_ref)
            }

            fn upper_bound(&self) -> Bound<&[u8]> {
                self.end_bound().map(AsRef::as_ref)
            }
        }
    )*};
}

std_ranges!(
    Range<K>,
    RangeFrom<K>,
    RangeTo<K>,
    RangeInclusive<K>,
    RangeToInclusive<K>,
    (Bound<K>, Bound<K>)
);

/// Converts a range to the engine's bounds.
pub(crate) fn bounds_of(range: &impl KeyRange) -> Bounds {
    let key = |bound: Bound<&[u8]>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.to_vec()),
        Bound::Unbounded => None,
    };
    let (lower, upper) = (range.lower_bound(), range.upper_bound());
    Bounds {
        lower: key(lower),
        upper: key(upper),
        open_lower: matches!(lower, Bound::Excluded(_)),
        closed_upper: matches!(upper, Bound::Included(_)),
    }
}

/// Returns both ends of a range as the standard library has them.
pub(crate) fn ends_of(range: &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    let lower = match range.lower.as_deref() {
        None => Bound::Unbounded,
        Some(key) if range.open_lower => Bound::Excluded(key),
        Some(key) => Bound::Included(key),
    };
    let upper = match range.upper.as_deref() {
        None => Bound::Unbounded,
        Some(key) if range.closed_upper => Bound::Included(key),
        Some(key) => Bound::Excluded(key),
    };
    (lower, upper)
}

/// Returns the bounds of all keys that begin with `prefix`; fails unless keys are in byte order.
pub(crate) fn prefix_bounds(prefix: &[u8], order: &KeyOrder) -> Result<Bounds> {
    if !matches!(order, KeyOrder::Bytewise) {
        return Err(Error::invalid_argument(
            "a prefix needs a keyspace whose keys are in byte order",
        )
        .advise("use a range"));
    }
    let mut upper = prefix.to_vec();
    while upper.last() == Some(&0xff) {
        upper.pop();
    }
    if let Some(last) = upper.last_mut() {
        *last += 1;
    }
    Ok(Bounds {
        lower: Some(prefix.to_vec()),
        upper: (!upper.is_empty()).then_some(upper),
        ..Bounds::default()
    })
}

/// Returns the intersection of two bounds.
pub(crate) fn intersection(a: Bounds, b: Bounds, order: &KeyOrder) -> Bounds {
    let (begin, end) = (a.begin().later(b.begin(), order), a.end().earlier(b.end(), order));
    Bounds::between(begin, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_where_they_should() {
        let upper = |prefix: &[u8]| prefix_bounds(prefix, &KeyOrder::Bytewise).unwrap().upper;
        assert_eq!(upper(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(upper(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(upper(b"\xff"), None);
        assert_eq!(upper(b""), None);
    }

    #[test]
    fn the_intersection_holds_what_both_hold() {
        use Bound::{Excluded, Included, Unbounded};
        let all = [Unbounded, Included("b"), Excluded("b"), Included("c"), Excluded("c")];
        let is_in = |bounds: &Bounds, key: &str| {
            let key = key.as_bytes();
            let above = bounds
                .lower
                .as_deref()
                .is_none_or(|lower| if bounds.open_lower { key > lower } else { key >= lower });
            let below = bounds
                .upper
                .as_deref()
                .is_none_or(|upper| if bounds.closed_upper { key <= upper } else { key < upper });
            above && below
        };
        let ranges: Vec<Bounds> =
            all.iter().flat_map(|a| all.iter().map(|b| bounds_of(&(*a, *b)))).collect();
        for a in &ranges {
            for b in &ranges {
                let both = intersection(a.clone(), b.clone(), &KeyOrder::Bytewise);
                for key in ["a", "b", "bb", "c", "cc"] {
                    let expected = is_in(a, key) && is_in(b, key);
                    assert_eq!(is_in(&both, key), expected, "{a:?} {b:?} {key}");
                }
            }
        }
    }
}

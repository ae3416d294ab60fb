//! Ranges of keys, and the places between keys at which they begin and end.

use super::error::{Error, Result};
use super::key::{KeyOrder, MAX_KEY_BYTES};
use std::cmp::Ordering;

/// A range of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The lower end; `None` if the range has none.
    pub lower: Option<Vec<u8>>,
    /// The upper end; `None` if the range has none.
    pub upper: Option<Vec<u8>>,
    /// True if `lower` itself is excluded; else it is included.
    pub open_lower: bool,
    /// True if `upper` itself is included; else it is excluded. Both flags are needed because in a
    /// user's order there may be no key right after another key that could be given as the end
    /// instead.
    pub closed_upper: bool,
}

impl Bounds {
    /// Returns the range between two places.
    pub fn between(begin: Cut<'_>, end: Cut<'_>) -> Bounds {
        Bounds {
            lower: begin.key().map(<[u8]>::to_vec),
            upper: end.key().map(<[u8]>::to_vec),
            open_lower: matches!(begin, Cut::Behind(_)),
            closed_upper: matches!(end, Cut::Behind(_)),
        }
    }

    /// Returns true if `key` is before the range.
    #[inline]
    pub fn is_before(&self, order: &KeyOrder, key: &[u8]) -> bool {
        !self.begin().is_before(order, key)
    }

    /// Returns true if `key` is behind the range.
    #[inline]
    pub fn is_behind(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.end().is_before(order, key)
    }

    /// Returns the place where the range begins.
    #[inline]
    pub fn begin(&self) -> Cut<'_> {
        match &self.lower {
            None => Cut::First,
            Some(lower) if self.open_lower => Cut::Behind(lower),
            Some(lower) => Cut::Before(lower),
        }
    }

    /// Returns the place where the range ends.
    #[inline]
    pub fn end(&self) -> Cut<'_> {
        match &self.upper {
            None => Cut::Last,
            Some(upper) if self.closed_upper => Cut::Behind(upper),
            Some(upper) => Cut::Before(upper),
        }
    }

    /// Returns true if `key` is in the range.
    pub fn contains(&self, order: &KeyOrder, key: &[u8]) -> bool {
        !self.is_before(order, key) && !self.is_behind(order, key)
    }

    /// Returns true if no key can be in the range, because it ends where it begins or before.
    pub fn is_empty(&self, order: &KeyOrder) -> bool {
        self.end().compare(self.begin(), order).is_le()
    }

    /// Returns true if both ranges have a part in common.
    pub fn overlaps(&self, other: &Bounds, order: &KeyOrder) -> bool {
        self.begin().compare(other.end(), order).is_lt()
            && other.begin().compare(self.end(), order).is_lt()
    }

    /// Returns true if the range holds all keys from `smallest` to `largest`, both inclusive.
    pub fn covers(&self, order: &KeyOrder, smallest: &[u8], largest: &[u8]) -> bool {
        !self.is_before(order, smallest) && !self.is_behind(order, largest)
    }

    /// Returns true if the range may hold a key from `smallest` to `largest`, both inclusive.
    pub fn meets(&self, order: &KeyOrder, smallest: &[u8], largest: &[u8]) -> bool {
        !self.is_before(order, largest) && !self.is_behind(order, smallest)
    }

    /// Returns the bytes of both ends.
    pub fn bytes(&self) -> usize {
        let len = |end: &Option<Vec<u8>>| end.as_ref().map_or(0, Vec::len);
        len(&self.lower) + len(&self.upper)
    }
}

/// The bits of [`Bounds::ends`], which are persistent.
const HAS_LOWER: u8 = 1;
const OPEN_LOWER: u8 = 2;
const HAS_UPPER: u8 = 4;
const CLOSED_UPPER: u8 = 8;

impl Bounds {
    /// Returns the kind of both ends as persistent bits: 1, there is a lower key; 2, it is
    /// excluded; 4, there is an upper key; 8, it is included.
    pub fn ends(&self) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let lower = bit(self.lower.is_some(), HAS_LOWER);
        let upper = bit(self.upper.is_some(), HAS_UPPER);
        lower
            | bit(lower > 0 && self.open_lower, OPEN_LOWER)
            | upper
            | bit(upper > 0 && self.closed_upper, CLOSED_UPPER)
    }

    /// Returns the range whose ends are of this kind (I7), with the keys there; a key is empty if
    /// the range has no end there.
    pub fn from_ends(ends: u8, lower: &[u8], upper: &[u8]) -> Result<Bounds> {
        let (has_lower, has_upper) = (ends & HAS_LOWER > 0, ends & HAS_UPPER > 0);
        let (open_lower, closed_upper) = (ends & OPEN_LOWER > 0, ends & CLOSED_UPPER > 0);
        let is_kind = ends <= HAS_LOWER | OPEN_LOWER | HAS_UPPER | CLOSED_UPPER;
        let has_rest = |has: bool, flag: bool, key: &[u8]| !has && (flag || !key.is_empty());
        if !is_kind
            || has_rest(has_lower, open_lower, lower)
            || has_rest(has_upper, closed_upper, upper)
        {
            return Err(Error::corruption(format!("a range has ends of the unknown kind {ends}")));
        }
        if lower.len().max(upper.len()) > MAX_KEY_BYTES {
            return Err(Error::corruption("a range ends at a key that is over the limit"));
        }
        let (lower, upper) = (has_lower.then(|| lower.to_vec()), has_upper.then(|| upper.to_vec()));
        Ok(Bounds { lower, upper, open_lower, closed_upper })
    }
}

/// A place between keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut<'a> {
    /// Before all keys.
    First,
    /// Right before a key.
    Before(&'a [u8]),
    /// Right behind a key.
    Behind(&'a [u8]),
    /// Behind all keys.
    Last,
}

impl<'a> Cut<'a> {
    /// Returns the key that the place is right beside; `None` at both ends of the keyspace.
    pub fn key(self) -> Option<&'a [u8]> {
        match self {
            Cut::Before(key) | Cut::Behind(key) => Some(key),
            Cut::First | Cut::Last => None,
        }
    }

    /// Returns the later one of two places in a keyspace's order.
    pub fn later(self, other: Cut<'a>, order: &KeyOrder) -> Cut<'a> {
        if self.compare(other, order).is_lt() { other } else { self }
    }

    /// Returns the earlier one of two places in a keyspace's order.
    pub fn earlier(self, other: Cut<'a>, order: &KeyOrder) -> Cut<'a> {
        if self.compare(other, order).is_gt() { other } else { self }
    }

    /// Compares two places in a keyspace's order.
    pub fn compare(self, other: Cut<'_>, order: &KeyOrder) -> Ordering {
        use Cut::{Before, Behind, First, Last};
        match (self, other) {
            (First, First) | (Last, Last) => Ordering::Equal,
            (First, _) | (_, Last) => Ordering::Less,
            (_, First) | (Last, _) => Ordering::Greater,
            (Before(a) | Behind(a), Before(b) | Behind(b)) => {
                let behind = |cut| matches!(cut, Behind(_));
                order.compare(a, b).then(behind(self).cmp(&behind(other)))
            }
        }
    }

    /// Returns true if the place is before `key`.
    #[inline]
    pub fn is_before(self, order: &KeyOrder, key: &[u8]) -> bool {
        match self {
            Cut::First => true,
            Cut::Before(cut) => order.compare(cut, key).is_le(),
            Cut::Behind(cut) => order.compare(cut, key).is_lt(),
            Cut::Last => false,
        }
    }
}

#[cfg(test)]
impl Bounds {
    /// Parses a range like `[b-d)`; `(` and `)` exclude the key beside them, and where none is, the
    /// range has no end.
    pub fn parse(text: &str) -> Bounds {
        let (lower, upper) = text[1..text.len() - 1].split_once('-').expect(text);
        let key = |key: &str| Some(key.as_bytes().to_vec()).filter(|key| !key.is_empty());
        Bounds {
            lower: key(lower),
            upper: key(upper),
            open_lower: text.starts_with('('),
            closed_upper: text.ends_with(']'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ranges with ends at `b` and `c`, open, closed or absent, against each other and against
    /// the keys around them.
    #[test]
    fn places_order_ranges_as_their_keys_do() {
        let order = KeyOrder::Bytewise;
        let ends = [None, Some("b"), Some("c")];
        let mut all = Vec::new();
        for (lower, upper) in (0..9).map(|n| (ends[n % 3], ends[n / 3])) {
            for (open_lower, closed_upper) in (0..4).map(|n| (n % 2 == 1, n / 2 == 1)) {
                let key = |end: Option<&str>| end.map(|end| end.as_bytes().to_vec());
                all.push(Bounds { lower: key(lower), upper: key(upper), open_lower, closed_upper });
            }
        }
        let keys = ["a", "b", "bb", "c", "cc"].map(str::as_bytes);
        for a in &all {
            let held: Vec<_> = keys.iter().filter(|key| a.contains(&order, key)).collect();
            for key in keys {
                let is_in = a.begin().is_before(&order, key) && !a.end().is_before(&order, key);
                assert_eq!(is_in, a.contains(&order, key), "{a:?} {key:?}");
            }
            assert_eq!(a.is_empty(&order), held.is_empty(), "{a:?}");
            let whole =
                (0..keys.len()).flat_map(|low| (low..keys.len()).map(move |high| (low, high)));
            for (low, high) in whole {
                let held = |n: &usize| a.contains(&order, keys[*n]);
                let covers = (low..=high).all(|n| held(&n));
                assert_eq!(a.covers(&order, keys[low], keys[high]), covers && !a.is_empty(&order));
                if (low..=high).any(|n| held(&n)) {
                    assert!(a.meets(&order, keys[low], keys[high]));
                }
            }
            for b in &all {
                let both =
                    keys.iter().any(|key| a.contains(&order, key) && b.contains(&order, key));
                assert_eq!(
                    a.overlaps(b, &order) && !a.is_empty(&order) && !b.is_empty(&order),
                    both,
                    "{a:?} {b:?}"
                );
            }
        }
    }
}

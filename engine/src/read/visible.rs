//! What a reader at one sequence number sees of a walk over entries: the newest entry of each
//! key, tombstones hidden, within bounds.

use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::key::{EntryKind, KeyOrder, SeqNo, Trailer};
use std::cmp::Ordering;

/// Keys between two ends.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// Where it begins.
    pub lower: Option<Vec<u8>>,
    /// Where it ends.
    pub upper: Option<Vec<u8>>,
    /// True if `lower` itself does not belong to it; else it does.
    pub open_lower: bool,
    /// True if `upper` itself belongs to it; else it does not. In an order of the user's there
    /// may be no key behind a key, so neither can be told by another key.
    pub closed_upper: bool,
}

impl Bounds {
    /// True of a key in front of it.
    pub fn is_before(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.lower.as_ref().is_some_and(|lower| match order.compare(key, lower) {
            Ordering::Less => true,
            Ordering::Equal => self.open_lower,
            Ordering::Greater => false,
        })
    }

    /// True of a key behind it.
    pub fn is_behind(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.upper.as_ref().is_some_and(|upper| match order.compare(key, upper) {
            Ordering::Less => false,
            Ordering::Equal => !self.closed_upper,
            Ordering::Greater => true,
        })
    }
}

/// Walks user keys with their newest visible entry.
///
/// Going forward the inner iterator stands on the current entry. Going backward it stands before
/// all entries of the current key, which is kept aside, since the newest entry of a key is the
/// last one met on the way.
pub struct VisibleIter<I> {
    inner: I,
    order: KeyOrder,
    seqno: SeqNo,
    bounds: Bounds,
    state: VisibleState,
    key: Vec<u8>,
    trailer: Trailer,
    payload: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VisibleState {
    Invalid,
    Forward,
    Backward,
}

impl<I: EntryIter> VisibleIter<I> {
    /// What is visible at `seqno` of `inner`, within `bounds`.
    pub fn new(inner: I, order: KeyOrder, seqno: SeqNo, bounds: Bounds) -> Self {
        VisibleIter {
            inner,
            order,
            seqno,
            bounds,
            state: VisibleState::Invalid,
            key: Vec::new(),
            trailer: Trailer::LAST,
            payload: Vec::new(),
        }
    }

    /// True if it stands on a key.
    pub fn valid(&self) -> bool {
        self.state != VisibleState::Invalid
    }

    /// The key it stands on.
    pub fn user_key(&self) -> &[u8] {
        if self.state == VisibleState::Backward { &self.key } else { self.inner.user_key() }
    }

    /// The sequence number and kind of the visible entry.
    pub fn trailer(&self) -> Trailer {
        if self.state == VisibleState::Backward { self.trailer } else { self.inner.trailer() }
    }

    /// The stored payload of the visible entry.
    pub fn payload(&self) -> &[u8] {
        if self.state == VisibleState::Backward { &self.payload } else { self.inner.payload() }
    }

    /// Stands on the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.state = VisibleState::Invalid;
        match self.bounds.lower.clone() {
            Some(lower) if self.bounds.open_lower => self.inner.seek(&lower, Trailer::LAST)?,
            Some(lower) => self.inner.seek(&lower, Trailer::seek(self.seqno))?,
            None => self.inner.seek_to_first()?,
        }
        self.settle_forward(false)
    }

    /// Stands on the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.state = VisibleState::Invalid;
        match self.bounds.upper.clone() {
            Some(upper) if self.bounds.closed_upper => {
                self.inner.seek_before(&upper, Trailer::LAST)?;
            }
            Some(upper) => self.inner.seek_before(&upper, Trailer::seek(u64::MAX >> 8))?,
            None => self.inner.seek_to_last()?,
        }
        self.settle_backward()
    }

    /// Stands on the first key at or behind `user_key`.
    pub fn seek(&mut self, user_key: &[u8]) -> Result<()> {
        if self.bounds.is_before(&self.order, user_key) {
            return self.seek_to_first();
        }
        self.state = VisibleState::Invalid;
        self.inner.seek(user_key, Trailer::seek(self.seqno))?;
        self.settle_forward(false)
    }

    /// Stands on the last key at or before `user_key`.
    pub fn seek_for_prev(&mut self, user_key: &[u8]) -> Result<()> {
        if self.bounds.is_behind(&self.order, user_key) {
            return self.seek_to_last();
        }
        self.state = VisibleState::Invalid;
        // Everything of `user_key` itself sorts at or before this place, but for its last
        // conceivable entry, which can't exist: sequence numbers start at one.
        self.inner.seek_before(user_key, Trailer::LAST)?;
        self.settle_backward()
    }

    /// Steps to the next key. Requires: valid.
    pub fn next(&mut self) -> Result<()> {
        match self.state {
            VisibleState::Invalid => Ok(()),
            VisibleState::Forward => {
                self.key.clear();
                self.key.extend_from_slice(self.inner.user_key());
                self.step_inner()?;
                self.settle_forward(true)
            }
            VisibleState::Backward => {
                // The inner iterator stands before the entries of the current key.
                self.state = VisibleState::Invalid;
                let key = std::mem::take(&mut self.key);
                self.inner.seek(&key, Trailer::LAST)?;
                self.key = key;
                self.settle_forward(true)
            }
        }
    }

    /// Steps to the key before. Requires: valid.
    pub fn prev(&mut self) -> Result<()> {
        if self.state == VisibleState::Forward {
            self.state = VisibleState::Invalid;
            let key = self.inner.user_key().to_vec();
            self.inner.seek_before(&key, Trailer::seek(u64::MAX >> 8))?;
        } else if self.state == VisibleState::Invalid {
            return Ok(());
        }
        self.settle_backward()
    }

    fn step_inner(&mut self) -> Result<()> {
        self.inner.next().inspect_err(|_| self.state = VisibleState::Invalid)
    }

    /// From where the inner iterator stands, finds the next visible key; with `skip`, one that is
    /// not `self.key`.
    fn settle_forward(&mut self, mut skip: bool) -> Result<()> {
        self.state = VisibleState::Invalid;
        while self.inner.valid() {
            let key = self.inner.user_key();
            if self.bounds.is_behind(&self.order, key) {
                return Ok(());
            }
            let hidden = skip && self.order.compare(key, &self.key).is_eq();
            let trailer = self.inner.trailer();
            if !hidden && trailer.seqno() <= self.seqno {
                if trailer.kind()? != EntryKind::Delete {
                    self.state = VisibleState::Forward;
                    return Ok(());
                }
                skip = true;
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            self.inner.next()?;
        }
        Ok(())
    }

    /// From where the inner iterator stands, walks back over the entries of one key after the
    /// other until one has a visible value; keeps that aside.
    fn settle_backward(&mut self) -> Result<()> {
        self.state = VisibleState::Invalid;
        while self.inner.valid() {
            if self.bounds.is_before(&self.order, self.inner.user_key()) {
                return Ok(());
            }
            if self.collect_newest()? {
                self.state = VisibleState::Backward;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Walks back over all entries of the key the inner iterator stands on; true if the newest
    /// visible one is a value, which is then kept aside. Steps at least once: an order of the
    /// user's by which a key is not even equal to itself must not hold the walk.
    fn collect_newest(&mut self) -> Result<bool> {
        self.key.clear();
        self.key.extend_from_slice(self.inner.user_key());
        let mut found = false;
        loop {
            let trailer = self.inner.trailer();
            if trailer.seqno() <= self.seqno {
                // Oldest first: the last one taken is the newest visible.
                found = trailer.kind()? != EntryKind::Delete;
                if found {
                    self.trailer = trailer;
                    self.payload.clear();
                    self.payload.extend_from_slice(self.inner.payload());
                }
            }
            self.inner.prev()?;
            let ends =
                !self.inner.valid() || self.order.compare(self.inner.user_key(), &self.key).is_ne();
            if ends {
                return Ok(found);
            }
        }
    }
}

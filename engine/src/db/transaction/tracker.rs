//! Remembers which part of a keyspace a cursor of a transaction has seen: from the key it was
//! positioned at to the last one it stood on, with all keys in between that do not exist.

use crate::base::bounds::Bounds;
use crate::base::expiry::Deadline;
use crate::db::key_range::intersection;
use crate::db::transaction::TransactionState;
use crate::version::view::KeyspaceState;
use std::sync::Arc;

/// The way in which a cursor moved.
#[derive(Clone, Copy)]
pub(crate) enum Move<'a> {
    /// Forward, from this key or else from the beginning.
    Seek(Option<&'a [u8]>),
    /// Backward, from this key or else from the end.
    SeekBack(Option<&'a [u8]>),
    /// A step forward.
    Next,
    /// A step backward.
    Prev,
}

/// Follows one cursor.
pub(crate) struct RangeTracker {
    transaction: Arc<TransactionState>,
    keyspace: Arc<KeyspaceState>,
    /// The bounds of the cursor.
    bounds: Bounds,
    /// The number of the range that the cursor has seen since its last seek.
    range: Option<usize>,
}

impl RangeTracker {
    pub(crate) fn new(
        transaction: Arc<TransactionState>,
        keyspace: Arc<KeyspaceState>,
        bounds: Bounds,
    ) -> Self {
        RangeTracker { transaction, keyspace, bounds, range: None }
    }

    /// Notes that the cursor moved and now stands on the key `at`, with the deadline of its value,
    /// or on none.
    pub(crate) fn moved(&mut self, moved: Move<'_>, at: Option<(&[u8], Option<Deadline>)>) {
        let Some(mut work) = self.transaction.unless_ended() else {
            return;
        };
        if let Some((key, Some(deadline))) = at {
            work.note_deadline(&self.keyspace, key, deadline);
        }
        let at = at.map(|(key, _)| key);
        match (moved, self.range) {
            (Move::Seek(_) | Move::SeekBack(_), _) => {
                let seen = intersection(
                    seen_from(moved, at, &self.bounds),
                    self.bounds.clone(),
                    &self.keyspace.order,
                );
                self.range = Some(work.note_range(&self.keyspace, seen));
            }
            (Move::Next | Move::Prev, Some(range)) => {
                let forward = matches!(moved, Move::Next);
                work.extend_range(&self.keyspace, range, forward, at, &self.bounds);
            }
            // A cursor without a position makes no step.
            (Move::Next | Move::Prev, None) => {}
        }
    }
}

/// Returns the range that a seek has seen which ended on the key `at`, or on none.
fn seen_from(seek: Move<'_>, at: Option<&[u8]>, bounds: &Bounds) -> Bounds {
    let end = |key: Option<&[u8]>, bound: &Option<Vec<u8>>| match key {
        Some(key) => Some(key.to_vec()),
        None => bound.clone(),
    };
    let (first, last) = match seek {
        Move::SeekBack(from) => (at, from),
        Move::Seek(from) => (from, at),
        Move::Next | Move::Prev => unreachable!("a step is no seek"),
    };
    Bounds {
        lower: end(first, &bounds.lower),
        open_lower: first.is_none() && bounds.open_lower,
        upper: end(last, &bounds.upper),
        closed_upper: last.is_some() || bounds.closed_upper,
    }
}

//! Segments of the log that are sealed and not synced yet. A rotation puts the old segment here and
//! goes on in the next; a thread of the background syncs the segments, oldest first.
//!
//! I2: whoever makes something durable that is in the log makes durable all of the log before it.
//! So no segment is synced while an earlier one is in this list, nor is the active one. After a
//! crash the log ends in the first segment that is not whole, and nothing that was promised to be
//! durable lies behind.
//!
//! Locks: `turn` is held during syncs and the edits of `wal_only.rs`, `list` for a moment. Both may
//! be taken under the lock of the log.

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::env::sync::Mutex;
use crate::segment::Syncer;
use crate::throttle::tree::MOST_UNSYNCED;
use crate::version::job::JobResult;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A segment that is sealed and perhaps not synced.
#[derive(Clone)]
pub struct UnsyncedSegment {
    /// The id of the segment.
    pub id: SegmentId,
    /// Its final length in bytes.
    pub length: u64,
    /// True if it is WAL-only (`wal_only.rs`).
    pub is_wal_only: bool,
    /// The newest number that was visible when it was sealed: all commits up to it are in this
    /// segment or before it.
    pub visible: SeqNo,
    /// The newest number that was used up by then.
    pub last_seqno: SeqNo,
    /// Syncs it.
    pub syncer: Syncer,
}

/// WAL-only segments may be left unsynced up to the bytes of so many full ones: half of those at
/// which writers wait for syncs. While a store is small its segments are, too, and the log of a
/// memtable is in more of them.
const MOST_WAL_ONLY: u64 = MOST_UNSYNCED as u64 / 2;

/// The sealed segments that are not synced yet.
pub struct UnsyncedSegments {
    /// The oldest comes first.
    list: Mutex<VecDeque<UnsyncedSegment>>,
    /// Their number for the rule that holds writers up; see [`counted_of`].
    count: Arc<AtomicUsize>,
    /// The most bytes that are left unsynced.
    most_wal_only_bytes: u64,
    /// Held by who syncs: the segments are synced one after the other.
    turn: Mutex<()>,
}

impl UnsyncedSegments {
    /// Creates an empty list that keeps in `count` what writers wait for. A full segment has
    /// `segment_bytes`.
    pub fn new(count: Arc<AtomicUsize>, segment_bytes: u64) -> Self {
        let most_wal_only_bytes = MOST_WAL_ONLY.saturating_mul(segment_bytes);
        let (list, turn) = (Mutex::default(), Mutex::new(()));
        UnsyncedSegments { list, count, most_wal_only_bytes, turn }
    }

    fn due(&self, list: &VecDeque<UnsyncedSegment>) -> usize {
        let segments = list.iter().map(|segment| (segment.is_wal_only, segment.length));
        due_of(segments, self.most_wal_only_bytes)
    }

    fn note_count(&self, list: &VecDeque<UnsyncedSegment>) {
        self.count.store(counted_of(list.len(), self.due(list)), Ordering::Release);
    }

    /// Adds a segment that was just sealed.
    pub fn push(&self, segment: UnsyncedSegment) {
        let mut list = self.list.lock();
        let is_later = list.back().is_none_or(|last| last.id < segment.id);
        assert!(is_later, "I2: segments are synced in the order of their ids");
        list.push_back(segment);
        self.note_count(&list);
    }

    /// Returns the oldest segment of the list.
    pub fn first(&self) -> Option<SegmentId> {
        self.list.lock().front().map(|first| first.id)
    }

    /// Returns their number for the rule that holds writers up; see [`counted_of`].
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns the most bytes of WAL-only segments that are left unsynced.
    pub fn most_wal_only_bytes(&self) -> u64 {
        self.most_wal_only_bytes
    }

    /// Returns true if all of these segments are WAL-only.
    pub fn are_wal_only(&self) -> bool {
        self.list.lock().iter().all(|segment| segment.is_wal_only)
    }

    /// Returns the bytes of these segments.
    pub fn bytes(&self) -> u64 {
        self.list.lock().iter().map(|segment| segment.length).sum()
    }

    /// Returns the end of those that are to be synced now; `None` if there are none. WAL-only ones
    /// may wait for a flush, if they `may_be_wal_only` and nothing behind them is to be synced.
    pub fn due_before(&self, may_be_wal_only: bool) -> Option<SegmentId> {
        let list = self.list.lock();
        let due = if may_be_wal_only { self.due(&list) } else { list.len() };
        due.checked_sub(1).map(|last| SegmentId(list[last].id.0 + 1))
    }

    /// Removes the segments before `end`, which are durable elsewhere once `replace` is done. It is
    /// given these, and nobody syncs anything meanwhile. If it fails, they stay.
    pub fn remove_before<T>(
        &self,
        end: SegmentId,
        replace: impl FnOnce(&[UnsyncedSegment]) -> JobResult<T>,
    ) -> JobResult<T> {
        let _turn = self.turn.lock();
        let before: Vec<UnsyncedSegment> =
            self.list.lock().iter().take_while(|it| it.id < end).cloned().collect();
        let replaced = replace(&before)?;
        let mut list = self.list.lock();
        list.drain(..before.len());
        self.note_count(&list);
        Ok(replaced)
    }

    /// Has `sync` make durable the segments before `end`, oldest first, unless somebody does so
    /// already, and then waits for that. I8: a segment whose sync fails stays in the list, so that
    /// nothing behind it is ever called durable.
    pub fn sync_before(
        &self,
        end: SegmentId,
        sync: impl Fn(&UnsyncedSegment) -> Result<()>,
    ) -> Result<()> {
        if self.list.lock().is_empty() {
            return Ok(());
        }
        let _turn = self.turn.lock();
        loop {
            let first = self.list.lock().front().filter(|first| first.id < end).cloned();
            let Some(first) = first else { return Ok(()) };
            sync(&first)?;
            let mut list = self.list.lock();
            let synced = list.pop_front();
            assert!(synced.is_some_and(|it| it.id == first.id), "only who has the turn takes any");
            self.note_count(&list);
        }
    }
}

/// Returns of how many of these segments, the oldest, a sync is due: of those up to the last that
/// is not WAL-only, and of those behind which there are too many bytes. Each comes with whether it
/// is WAL-only, and its length.
fn due_of(
    segments: impl DoubleEndedIterator<Item = (bool, u64)> + ExactSizeIterator,
    most_wal_only_bytes: u64,
) -> usize {
    let (count, mut bytes) = (segments.len(), 0);
    let is_left = |&(is_wal_only, length): &(bool, u64)| {
        bytes += length;
        is_wal_only && bytes <= most_wal_only_bytes
    };
    count - segments.rev().take_while(is_left).count()
}

/// Returns the number of segments that counts for the rule that holds writers up, of so many of
/// which the sync of `due` is due. Those that are left unsynced have no more bytes than a few full
/// ones, and count as no more, so that a power cut never takes more than so many full ones have.
fn counted_of(segments: usize, due: usize) -> usize {
    due + (segments - due).min(MOST_WAL_ONLY as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_segments_that_are_left_unsynced_count_as_two() {
        for (segments, due, counted) in [(0, 0, 0), (1, 0, 1), (8, 0, 2), (8, 1, 3), (4, 4, 4)] {
            assert_eq!(counted_of(segments, due), counted, "{due} of {segments}");
        }
    }

    #[test]
    fn wal_only_segments_are_left_unsynced_up_to_some_bytes() {
        let (wal_only, with_values) = (true, false);
        for (segments, due, why) in [
            (&[][..], 0, "there is nothing"),
            (&[(wal_only, 64), (wal_only, 64)], 0, "two full ones"),
            (&[(wal_only, 64), (wal_only, 64), (wal_only, 1)], 1, "the oldest is too much"),
            (&[(wal_only, 16); 8], 0, "many small ones"),
            (&[(wal_only, 16); 11], 3, "too many of them"),
            (&[(wal_only, 1), (with_values, 1), (wal_only, 1)], 2, "those behind it may wait"),
            (&[(wal_only, 1), (with_values, 1)], 2, "what is before it is synced first"),
        ] {
            assert_eq!(due_of(segments.iter().copied(), 128), due, "{why}");
        }
    }
}

//! How much of the log the device was really spared.
//!
//! A flush may replace segments that nobody has synced (`commit/wal_only.rs`), so that their bytes
//! need never reach the device. The system may have written them all the same: it writes dirty
//! pages back when there are many for its memory, and in a small control group a memtable's worth
//! is many. For a while after a sync the engine asks it to, too. Then the flush has written each
//! value for the second time. The system tells how much of a file it had not written only as that
//! is removed, so this compares the two afterwards.

use crate::base::pointer::SegmentId;
use crate::env::sync::Mutex;
use crate::version::separation::part_of;
use std::collections::BTreeMap;

/// The share is taken for all of it until so much was removed: less says little.
const LEAST_REMOVED: u64 = 64 << 20;
/// What was removed counts half each time that so much was.
const MOST_REMOVED: u64 = 128 << 20;
/// Of what is written meanwhile without such a log, this part (one in this many) counts as spared,
/// so that it is tried again: after about three gigabytes, for two memtables.
const RETRY_PART: u64 = 32;

/// The segments of the log that flushes have replaced, and what became of them.
///
/// Locks: `state` is a leaf.
#[derive(Default)]
pub struct SparedLog {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The segments that are not removed yet, with their bytes.
    replaced: BTreeMap<SegmentId, u64>,
    recent: SparedShare,
    /// All bytes that the system had written before they were removed.
    written_back: u64,
}

impl SparedLog {
    /// Notes a segment that a flush has replaced before anybody synced it.
    pub fn expect(&self, id: SegmentId, bytes: u64) {
        self.state.lock().replaced.insert(id, bytes);
    }

    /// Takes that back, because it was not replaced after all.
    pub fn forget(&self, id: SegmentId) {
        self.state.lock().replaced.remove(&id);
    }

    /// Returns true if the segment is one of those, and is to be removed.
    pub fn is_expected(&self, id: SegmentId) -> bool {
        self.state.lock().replaced.contains_key(&id)
    }

    /// Notes that such a segment was removed, and that `unwritten` bytes of it were in memory only;
    /// `None` if the system doesn't tell.
    pub fn note_removed(&self, id: SegmentId, unwritten: Option<u64>) {
        let mut state = self.state.lock();
        let bytes = state.replaced.remove(&id).unwrap_or(0);
        // The head of the file, and what was prepared behind its end, are no bytes of the log.
        let unwritten = unwritten.map_or(bytes, |unwritten| unwritten.min(bytes));
        state.written_back += bytes - unwritten;
        state.recent.add(bytes, unwritten);
    }

    /// Notes that `bytes` of values were flushed whose log was no such segment.
    pub fn note_kept(&self, bytes: u64) {
        self.state.lock().recent.add(bytes / RETRY_PART, bytes / RETRY_PART);
    }

    /// Returns all bytes of replaced segments that the system had written before.
    pub fn written_back(&self) -> u64 {
        self.state.lock().written_back
    }

    /// Returns of how many of `bytes`, whose log a flush replaces, the device is probably spared
    /// it.
    pub fn likely(&self, bytes: u64) -> u64 {
        self.state.lock().recent.of(bytes)
    }
}

/// The share of the log that was removed before it was written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct SparedShare {
    removed: u64,
    unwritten: u64,
}

impl SparedShare {
    fn add(&mut self, removed: u64, unwritten: u64) {
        self.removed += removed;
        self.unwritten += unwritten;
        if self.removed > MOST_REMOVED {
            *self = SparedShare { removed: self.removed / 2, unwritten: self.unwritten / 2 };
        }
    }

    fn of(&self, bytes: u64) -> u64 {
        if self.removed < LEAST_REMOVED {
            return bytes;
        }
        part_of(bytes, self.unwritten, self.removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Has segments of 32 MiB removed, of which the system had not written `unwritten` MiB each.
    fn remove(log: &SparedLog, count: u64, unwritten: Option<u64>) {
        for id in (1..=count).map(SegmentId) {
            log.expect(id, 32 * MIB);
            assert!(log.is_expected(id));
            log.note_removed(id, unwritten.map(|mib| mib * MIB));
            assert!(!log.is_expected(id));
        }
    }

    fn percent(log: &SparedLog) -> u64 {
        log.likely(100)
    }

    #[test]
    fn all_is_spared_until_enough_is_known() {
        let log = SparedLog::default();
        assert_eq!(percent(&log), 100);
        remove(&log, 1, Some(0));
        assert_eq!((percent(&log), log.written_back()), (100, 32 * MIB));
        remove(&log, 1, Some(8));
        assert_eq!((percent(&log), log.written_back()), (12, 56 * MIB));
        log.note_removed(SegmentId(9), Some(MIB));
        assert_eq!((percent(&log), log.written_back()), (12, 56 * MIB), "of another file");
    }

    #[test]
    fn what_the_system_does_not_tell_is_spared() {
        let log = SparedLog::default();
        remove(&log, 5, None);
        assert_eq!((percent(&log), log.written_back()), (100, 0));
        remove(&log, 1, Some(33));
        assert_eq!((percent(&log), log.written_back()), (100, 0), "more than was in the log");
    }

    #[test]
    fn two_memtables_tell_of_a_change() {
        let log = SparedLog::default();
        remove(&log, 20, Some(32));
        remove(&log, 4, Some(0));
        assert!(percent(&log) < 50, "{}", percent(&log));
        remove(&log, 20, Some(8));
        assert_eq!(percent(&log), 25);
    }

    #[test]
    fn it_is_tried_again_after_gigabytes() {
        let log = SparedLog::default();
        remove(&log, 20, Some(8));
        let written = (1..).find(|_| {
            log.note_kept(64 * MIB);
            percent(&log) >= 70
        });
        let mib = written.unwrap() * 64;
        assert!((1500..5000).contains(&mib), "{mib} MiB");
    }
}

//! The reserve: the last free space of the file system, which puts leave to what makes room (I9).
//!
//! On a file system without any space nothing comes back: the log takes no deletion, no flush lets
//! the log's head move on, no live value can be moved out of a segment that is mostly dead. So puts
//! are refused while less is free than
//!
//! - the *base*, an eighth of the store, for deletions, the manifest, compaction and value GC, and
//! - what the memtables hold, as flushing them takes about that much at most, and
//! - what L0 and L1 hold, unless L0 is empty, as a merge of both may write them anew. It is small
//!   where values are separated; where they are not, it is where the garbage is.
//!
//! When it comes to that, memtables are flushed and L0 is merged, so most of it is free for puts
//! again. Deletions go on until an eighth of the base is left besides what flushing takes. Flushes,
//! edits of the manifest, compaction and value GC write until there is nothing left.
//!
//! How much is free is looked at by whoever holds the log, the more often the less there is, and by
//! the GC thread while puts are refused; never once for each put, which costs one load here. Others
//! fill the same disk: the reserve is no promise, and without it writes fail as the disk says.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::size::sized;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The base of the reserve is this part of the store...
const BASE_PART: u64 = 8;
/// ...but at least so many bytes...
const LEAST_BASE: u64 = 4 << 20;
/// ...and at most so many segments of full size.
const MOST_SEGMENTS: u64 = 2;
/// Deletions leave this part of the base.
const DELETES_LEAVE_PART: u64 = 8;
/// Puts go on once this part of the base is free besides the reserve: not for each freed block.
const RESUME_PART: u64 = 4;
/// Memtables are flushed early, and L0 is merged, once they have this part of the base.
const NOTABLE_PART: u64 = 4;
/// The disk is looked at after so many bytes of log at the latest...
const LOOK_AT_LATEST: u64 = 16 << 20;
/// ...and never more often than after this part of the base.
const LOOK_PART: u64 = 16;

/// The base of the reserve for a store of so many bytes.
pub fn base_bytes(store: u64, segment_bytes: u64) -> u64 {
    (store / BASE_PART).max(LEAST_BASE).min(MOST_SEGMENTS * segment_bytes)
}

/// What was found at a look at the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that can still be written to the file system.
    pub free: u64,
    /// The base of the reserve.
    pub base: u64,
    /// Bytes in memtables, all of which a flush may have to write.
    pub unflushed: u64,
    /// Bytes that a merge of L0 and L1 may have to write.
    pub unmerged: u64,
}

impl DiskSpace {
    /// Puts are refused with less than this.
    pub fn reserve(&self) -> u64 {
        self.base + self.unflushed + self.unmerged
    }

    /// Deletions are refused with less than this.
    fn least_for_deletes(&self) -> u64 {
        self.base / DELETES_LEAVE_PART + self.unflushed
    }

    /// True if puts are to be refused, if they were or were not before.
    fn is_low(&self, was_low: bool) -> bool {
        let margin = if was_low { self.base / RESUME_PART } else { 0 };
        self.free < self.reserve() + margin
    }

    /// From so many bytes on a flush, or a merge of L0, makes the reserve notably smaller.
    pub fn notable(&self) -> u64 {
        self.base / NOTABLE_PART
    }

    /// After so many bytes of log the disk should be looked at again.
    pub fn next_look(&self) -> u64 {
        let least = (self.base / LOOK_PART).max(1);
        (self.free.saturating_sub(self.reserve()) / 2).clamp(least, LOOK_AT_LATEST.max(least))
    }
}

/// Knows whether puts are refused.
pub struct Reserve {
    dir: PathBuf,
    low: AtomicBool,
    free: AtomicU64,
    base: AtomicU64,
    unflushed: AtomicU64,
    unmerged: AtomicU64,
}

impl Reserve {
    /// The reserve of the database in `dir`; nothing is known of the disk yet.
    pub fn new(dir: PathBuf) -> Self {
        Reserve {
            dir,
            low: AtomicBool::new(false),
            free: AtomicU64::new(u64::MAX),
            base: AtomicU64::new(0),
            unflushed: AtomicU64::new(0),
            unmerged: AtomicU64::new(0),
        }
    }

    /// True while puts are refused.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Takes note of a look at the disk; true if puts are refused from now on, or no longer.
    pub fn note(&self, found: DiskSpace) -> bool {
        self.free.store(found.free, Ordering::Relaxed);
        self.base.store(found.base, Ordering::Relaxed);
        self.unflushed.store(found.unflushed, Ordering::Relaxed);
        self.unmerged.store(found.unmerged, Ordering::Relaxed);
        let was_low = self.is_low();
        let low = found.is_low(was_low);
        self.low.store(low, Ordering::Relaxed);
        low != was_low
    }

    /// What the last look found. One that is made meanwhile may be mixed in: harmless.
    pub fn found(&self) -> DiskSpace {
        DiskSpace {
            free: self.free.load(Ordering::Relaxed),
            base: self.base.load(Ordering::Relaxed),
            unflushed: self.unflushed.load(Ordering::Relaxed),
            unmerged: self.unmerged.load(Ordering::Relaxed),
        }
    }

    /// Of `free` bytes, those that one job may fill: the rest keeps the log and the manifest going.
    pub fn usable(&self, free: u64) -> u64 {
        free.saturating_sub(self.base.load(Ordering::Relaxed) / DELETES_LEAVE_PART)
    }

    /// An error if a write has to leave the space that there is to others.
    #[cold]
    pub fn admit(&self, only_deletes: bool) -> Result<()> {
        let found = self.found();
        if !self.is_low() || only_deletes && found.free >= found.least_for_deletes() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::DiskFull, self.describe())
            .in_file(&self.dir)
            .advise("delete keys, or free space on this file system; writing then resumes"))
    }

    /// What is the matter, in words.
    pub fn describe(&self) -> String {
        let found = self.found();
        format!(
            "the disk is almost full: {} are free, and the last {} are kept for deletions and for \
             what makes room",
            sized(found.free),
            sized(found.reserve())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn found(free: u64, unwritten: u64) -> DiskSpace {
        let (unflushed, unmerged) = (unwritten * MIB / 2, unwritten * MIB / 2);
        DiskSpace { free: free * MIB, base: 32 * MIB, unflushed, unmerged }
    }

    #[test]
    fn the_base_follows_the_store_within_bounds() {
        let base = |store: u64| base_bytes(store * MIB, 64 * MIB) / MIB;
        assert_eq!([0, 31, 64, 256, 1024, 1 << 30].map(base), [4, 4, 8, 32, 128, 128]);
        assert_eq!(base_bytes(1 << 40, 6 << 10), 12 << 10, "tiny segments need little");
    }

    #[test]
    fn i09_puts_leave_the_reserve_and_deletes_what_flushing_takes() {
        let reserve = Reserve::new("db".into());
        reserve.admit(false).unwrap();
        assert!(!reserve.note(found(52, 20)));
        reserve.admit(false).unwrap();
        assert!(reserve.note(found(51, 20)));
        let error = reserve.admit(false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        for part in ["51.0 MiB are free", "the last 52.0 MiB", "in db", "delete keys"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        reserve.admit(true).unwrap();
        reserve.note(found(14, 20));
        reserve.admit(true).unwrap();
        reserve.note(found(13, 20));
        assert_eq!(reserve.admit(true).unwrap_err().kind(), ErrorKind::DiskFull);
        assert_eq!(reserve.usable(13 * MIB), 9 * MIB);
    }

    #[test]
    fn i09_puts_resume_with_some_room_to_go() {
        let reserve = Reserve::new("db".into());
        assert!(reserve.note(found(31, 0)));
        assert!(!reserve.note(found(39, 0)));
        assert!(reserve.is_low());
        assert!(reserve.note(found(40, 0)));
        reserve.admit(false).unwrap();
        assert!(!reserve.note(found(32, 0)), "and go on until the reserve is reached");
    }

    #[test]
    fn looks_are_the_closer_the_less_is_free() {
        let looks = [1 << 20, 60, 40, 33, 0].map(|free| found(free, 0).next_look() / MIB);
        assert_eq!(looks, [16, 14, 4, 2, 2]);
    }
}

//! The reserve: the last free space of the file system, which puts leave to work that frees space
//! (I9).
//!
//! On a completely full file system no space can be freed: the log takes no deletion, no flush can
//! move the log's head, and no live value can be moved out of a mostly dead segment. So puts are
//! refused while less is free than the sum of
//!
//! - the *base*, an eighth of the store, for deletions, the manifest, compaction and value GC,
//! - the bytes in memtables, because flushing them writes about as much at most, and
//! - the bytes in L0 and L1, unless L0 is empty, because a merge of both may rewrite them. They are
//!   few where values are separated; where they are not, the garbage is there.
//!
//! When the reserve is reached, memtables are flushed and L0 is merged, which makes most of it
//! available to puts again. Deletions go on until an eighth of the base is left besides what
//! flushing needs. Flushes, edits of the manifest, compaction and value GC write until nothing is
//! left.
//!
//! The free space is checked by the holder of the log, more often the less there is, and by the GC
//! thread while puts are refused, but never for each put, which costs one load here. Other programs
//! fill the same disk, so the reserve is not a guarantee; without it writes fail when the disk is
//! full.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::size::sized;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The base of the reserve is the store's bytes divided by this.
const BASE_PART: u64 = 8;
/// The least base in bytes.
const LEAST_BASE: u64 = 4 << 20;
/// The greatest base, in segments of full size.
const MOST_SEGMENTS: u64 = 2;
/// Deletions leave the base divided by this, besides what flushing needs.
const DELETES_LEAVE_PART: u64 = 8;
/// Puts resume once the base divided by this is free besides the reserve, so that they do not
/// resume for each freed block.
const RESUME_PART: u64 = 4;
/// Memtables are flushed early and L0 is merged once they have the base divided by this.
const NOTABLE_PART: u64 = 4;
/// The disk is checked after at most this many bytes of log.
const MAX_CHECK_BYTES: u64 = 16 << 20;
/// The disk is checked after at least this many bytes of log: the base divided by this.
const CHECK_PART: u64 = 16;

/// Returns the base of the reserve for a store of `store` bytes.
pub fn base_bytes(store: u64, segment_bytes: u64) -> u64 {
    (store / BASE_PART).max(LEAST_BASE).min(MOST_SEGMENTS * segment_bytes)
}

/// The result of a check of the disk.
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
    /// Returns the reserve in bytes: puts are refused while less is free.
    pub fn reserve(&self) -> u64 {
        self.base + self.unflushed + self.unmerged
    }

    /// Returns the bytes below which deletions are refused.
    fn least_for_deletes(&self) -> u64 {
        self.base / DELETES_LEAVE_PART + self.unflushed
    }

    /// Returns true if puts are to be refused; `was_low` says whether they were before.
    fn is_low(&self, was_low: bool) -> bool {
        let margin = if was_low { self.base / RESUME_PART } else { 0 };
        self.free < self.reserve() + margin
    }

    /// Returns from how many bytes on a flush, or a merge of L0, makes the reserve notably smaller.
    pub fn notable(&self) -> u64 {
        self.base / NOTABLE_PART
    }

    /// Returns after how many bytes of log the disk should be checked again.
    pub fn next_check(&self) -> u64 {
        let least = (self.base / CHECK_PART).max(1);
        (self.free.saturating_sub(self.reserve()) / 2).clamp(least, MAX_CHECK_BYTES.max(least))
    }
}

/// The result of the last check of the disk, and whether puts are refused.
pub struct Reserve {
    dir: PathBuf,
    low: AtomicBool,
    free: AtomicU64,
    base: AtomicU64,
    unflushed: AtomicU64,
    unmerged: AtomicU64,
}

impl Reserve {
    /// Creates the reserve of the database in `dir`, before any check of the disk.
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

    /// Returns true while puts are refused.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Records a check of the disk; returns true if it changed whether puts are refused.
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

    /// Returns the result of the last check. A concurrent check may be mixed in, which is harmless.
    pub fn found(&self) -> DiskSpace {
        DiskSpace {
            free: self.free.load(Ordering::Relaxed),
            base: self.base.load(Ordering::Relaxed),
            unflushed: self.unflushed.load(Ordering::Relaxed),
            unmerged: self.unmerged.load(Ordering::Relaxed),
        }
    }

    /// Returns how many of `free` bytes one job may fill; the rest keeps the log and the manifest
    /// going.
    pub fn usable(&self, free: u64) -> u64 {
        free.saturating_sub(self.base.load(Ordering::Relaxed) / DELETES_LEAVE_PART)
    }

    /// Returns an error if a write is refused because of the reserve.
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

    /// Returns the message of that error.
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
        let looks = [1 << 20, 60, 40, 33, 0].map(|free| found(free, 0).next_check() / MIB);
        assert_eq!(looks, [16, 14, 4, 2, 2]);
    }
}

//! What was found at the last check of the disk, and whether puts are refused since then (I9). The
//! rules are in [`disk`](crate::throttle::disk).
//!
//! The free space is checked by the holder of the log, more often the less there is, and by the GC
//! thread while puts are refused, but never for each put, which costs one load here. Other programs
//! fill the same disk, so the reserve is not a guarantee; without it writes fail when the disk is
//! full.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::size::sized;
use crate::env::begin_and_end::BeginAndEnd;
use crate::env::clock::Clock;
use crate::events::{Event, Events};
use crate::throttle::disk::DiskSpace;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The result of the last check of the disk, and whether puts are refused.
pub struct Reserve {
    dir: PathBuf,
    low: AtomicBool,
    free: AtomicU64,
    base: AtomicU64,
    unflushed: AtomicU64,
    unmerged: AtomicU64,
    /// Whether listeners know that puts are refused.
    reported: BeginAndEnd,
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
            reported: BeginAndEnd::default(),
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

    /// Emits an event if puts are refused since the last call, or accepted again; otherwise costs
    /// two loads. Requires: the caller holds no lock, because a listener is the user's code, and
    /// while it runs no other thread can emit such an event.
    #[inline]
    pub fn report(&self, clock: &dyn Clock, events: &Events) {
        // Another thread may have checked the disk while an event was emitted.
        while self.is_low() != self.reported.is_open() {
            self.report_change(clock, events);
        }
    }

    #[cold]
    fn report_change(&self, clock: &dyn Clock, events: &Events) {
        let found = self.found();
        let (free_bytes, reserve_bytes) = (found.free, found.reserve());
        let now = || clock.now();
        match self.is_low() {
            true => self
                .reported
                .begin(now, events, || Event::LowSpaceBegun { free_bytes, reserve_bytes }),
            false => {
                self.reported.end(now, events, |took| Event::LowSpaceEnded { free_bytes, took })
            }
        }
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
        self.found().usable(free)
    }

    /// Returns an error if a write is refused because of the reserve.
    #[cold]
    pub fn admit(&self, only_deletes: bool) -> Result<()> {
        let found = self.found();
        if !self.is_low() || found.admits_when_low(only_deletes) {
            return Ok(());
        }
        let advice = match only_deletes {
            true => "free space on this file system; writing then resumes",
            false => "delete keys, or free space on this file system; writing then resumes",
        };
        Err(Error::new(ErrorKind::DiskFull, self.describe()).in_file(&self.dir).advise(advice))
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
        let error = reserve.admit(true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        assert!(!error.to_string().contains("delete keys"), "that is what was refused: {error}");
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
}

//! The rules of a nearly full disk (I9): who is refused, so that the last space is left to work
//! that frees space.
//!
//! On a completely full file system no space can be freed: the log takes no deletion, no flush can
//! move the log's head, and no live value can be moved out of a mostly dead segment. So there is a
//! *reserve*: puts are refused while less is free than the sum of
//!
//! - the *base*, an eighth of the store, for deletions, the manifest, compaction and value GC,
//! - the bytes in memtables, because flushing them writes about as much at most (values that a
//!   flush separates count whole, as they are written again, and with their keys twice), and
//! - the bytes in L0 and L1, unless L0 is empty, because a merge of both may rewrite them. They are
//!   few where values are separated; where they are not, the garbage is there.
//!
//! When the reserve is reached, memtables are flushed and L0 is merged, which makes most of it
//! available to puts again. Deletions go on until an eighth of the base is left besides what
//! flushing needs. Compaction and value GC begin only what leaves that eighth as well. Flushes and
//! edits of the manifest write until nothing is left.

/// The base of the reserve is the store's bytes divided by this.
const BASE_PART: u64 = 8;
/// The least base in bytes: a manifest and a log segment need some room however small the store is.
const LEAST_BASE: u64 = 4 << 20;
/// The greatest base, in segments of full size: what makes room works in steps of about a segment,
/// so the rest of a large disk is not withheld from puts.
const MOST_SEGMENTS: u64 = 2;
/// Deletions, compaction and value GC leave the base divided by this, which keeps the log and the
/// manifest going.
const LEAVE_PART: u64 = 8;
/// Puts resume once the base divided by this is free besides the reserve, so that they do not
/// resume for each freed block.
const RESUME_PART: u64 = 4;
/// Memtables are flushed early and L0 is merged once they have the base divided by this: as much as
/// must be free besides the reserve before puts resume (`RESUME_PART`). To flush less would leave
/// puts refused, and a small table behind.
const NOTABLE_PART: u64 = RESUME_PART;
/// The disk is checked after at most this many bytes of log, because other programs fill it too. A
/// check is one system call, which costs next to nothing beside writing that much.
const MAX_CHECK_BYTES: u64 = 16 << 20;
/// The disk is checked after at least this many bytes of log: the base divided by this. More
/// checks would cost each commit a system call while the disk is nearly full.
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

    /// Returns true if puts are to be refused; `was_low` says whether they were before.
    pub fn is_low(&self, was_low: bool) -> bool {
        let margin = if was_low { self.base / RESUME_PART } else { 0 };
        self.free < self.reserve() + margin
    }

    /// Returns true if a batch is accepted while puts are refused: it only deletes, and leaves what
    /// flushing needs.
    pub fn admits_when_low(&self, only_deletes: bool) -> bool {
        only_deletes && self.free >= self.base / LEAVE_PART + self.unflushed
    }

    /// Returns from how many bytes on a flush, or a merge of L0, makes the reserve notably smaller.
    pub fn notable(&self) -> u64 {
        self.base / NOTABLE_PART
    }

    /// Returns how many of `free` bytes one compaction or one step of value GC may fill.
    pub fn usable(&self, free: u64) -> u64 {
        free.saturating_sub(self.base / LEAVE_PART)
    }

    /// Returns after how many bytes of log the disk should be checked again.
    pub fn next_check(&self) -> u64 {
        let least = (self.base / CHECK_PART).max(1);
        (self.free.saturating_sub(self.reserve()) / 2).clamp(least, MAX_CHECK_BYTES.max(least))
    }
}

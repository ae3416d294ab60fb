//! The input of the picker of value GC: where the space is, and what freeing some of it costs.

use crate::base::pointer::SegmentId;
use crate::base::size::FILE_BLOCK_BYTES;
use crate::gc::hidden_share::TreeSpread;
use crate::segment::SegmentKind;

/// The use of a database's space, in allocated bytes of its files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpaceFacts {
    /// Bytes of all segments, including spare and preallocated ones.
    pub segment_bytes: u64,
    /// Bytes of all tables, including those that are being written.
    pub table_bytes: u64,
    /// Bytes of the manifest, relocations, and so on.
    pub other_bytes: u64,
    /// Bytes of visible keys and values as they are stored; the best estimate.
    pub live_bytes: u64,
    /// Bytes of keys and inline values in memtables, which a flush writes to new files before the
    /// log that holds them can go.
    pub unflushed_bytes: u64,
    /// What the log has of that, at most, and of tombstones in memtables.
    pub unflushed_log_bytes: u64,
    /// Those of the keyspace that has most of them.
    pub most_unflushed_bytes: u64,
    /// Those of memtables that are full and wait for their flush, or are being flushed.
    pub sealed_bytes: u64,
    /// Bytes that flushes under way have written.
    pub flushed_bytes: u64,
    /// Bytes of records in the log that memtables point to. A flush leaves them there.
    pub pointed_bytes: u64,
    /// What tables and memtables hold.
    pub tree: TreeSpread,
    /// Bytes of records that the last liveness scan found live, and that no table references any
    /// more.
    pub unreferenced_since: u64,
    /// Bytes of records that newer entries may hide; 0 once a liveness scan has counted them.
    pub hideable_bytes: u64,
    /// Garbage in segments that are kept for a consumer of the change feed, or damaged. It is
    /// beyond the bounds of space, as nothing frees it.
    pub kept_bytes: u64,
    /// The facts of each segment.
    pub segments: Vec<SegmentFacts>,
}

impl SpaceFacts {
    /// Returns true if a table references a segment. If none does, a liveness scan would read every
    /// value, and find nothing to free.
    pub fn has_references(&self) -> bool {
        self.segments.iter().any(|segment| segment.referenced > 0)
    }

    /// Returns the bytes of tables, and of the records that they reference.
    pub fn referenced_bytes(&self) -> u64 {
        let records = self.segments.iter().map(|it| it.referenced.min(it.written));
        records.sum::<u64>() + self.table_bytes
    }

    /// Returns true if there are tables, and all values are in them.
    pub fn is_all_inline(&self) -> bool {
        self.tree.entries > 0 && !self.has_references()
    }

    /// Returns the bytes that compactions can free, if all values are in tables; else 0.
    pub fn freed_by_merging(&self) -> u64 {
        if self.is_all_inline() { self.tree.bytes.saturating_sub(self.live_bytes) } else { 0 }
    }

    /// Returns the bytes that flushes are going to write before the log that has them can go; 0 if
    /// all values are in tables, where a memtable or two come on top of the ceiling.
    pub fn to_flush(&self) -> u64 {
        let all = if self.is_all_inline() { 0 } else { self.unflushed_bytes };
        all.saturating_sub(self.flushed_bytes)
    }

    /// Returns the share of the bytes put that room is kept for, as a flush writes them once more;
    /// `None` if memtables are empty, so that nothing tells.
    pub fn flushed_share(&self) -> Option<f64> {
        let all = self.unflushed_bytes + self.pointed_bytes;
        if self.is_all_inline() {
            return Some(0.0);
        }
        (all > 0).then(|| self.unflushed_bytes as f64 / all as f64)
    }

    /// Returns the number of memtables that share the room for flushes, as if each had as much as
    /// the largest: many keyspaces that are hardly written count for little.
    pub fn memtables(&self) -> u64 {
        let most = self.most_unflushed_bytes.max(1);
        (self.unflushed_bytes.saturating_add(most / 2) / most).max(1)
    }

    /// Sums up the garbage of the segments that a consumer keeps or that are damaged, once these
    /// are marked. Nothing frees it, so writers would wait for it in vain.
    pub fn sum_kept(&mut self) {
        let keeps = |fault| matches!(fault, SegmentFault::Followed | SegmentFault::Damaged);
        let kept = self.segments.iter().filter(|it| it.fault.is_some_and(keeps));
        self.kept_bytes = kept.map(SegmentFacts::garbage).sum();
    }

    /// Returns the allocated bytes of all files, as far as the bounds of space are about them.
    pub fn allocated(&self) -> u64 {
        let all = self.segment_bytes + self.table_bytes + self.other_bytes;
        all.saturating_sub(self.kept_bytes)
    }
}

/// The facts of one segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentFacts {
    /// The segment's id.
    pub id: SegmentId,
    /// The kind: part of the log, or sorted.
    pub kind: SegmentKind,
    /// Allocated bytes of its file.
    pub allocated: u64,
    /// Bytes written to it; less than `allocated` while its file is preallocated.
    pub written: u64,
    /// Bytes of live records; the best estimate, and never too low.
    pub live: u64,
    /// Those of them, in the tail of the log, that only replay needs: no table and no memtable
    /// points to them.
    pub replayed: u64,
    /// Number of live records.
    pub live_records: u64,
    /// Bytes that tables reference, directly or through a relocation.
    pub referenced: u64,
    /// True if a liveness scan or a look has counted what is live in it.
    pub counted: bool,
    /// True if nothing is appended to it any more.
    pub sealed: bool,
    /// True if no replay needs it and no memtable points into it.
    pub behind_head: bool,
    /// The runs of dead bytes that are worth a call; `None` if they are not known, or if its file
    /// has a second name: a checkpoint shares it.
    pub dead_runs: Option<DeadRuns>,
    /// The reason why it can't be freed, if there is one.
    pub fault: Option<SegmentFault>,
}

/// The reason why a segment can't be freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentFault {
    /// It is damaged, or what leads to it is.
    Damaged,
    /// It failed lately, for a reason that may pass.
    Failing,
    /// Damage in the tree makes it impossible to determine what is live in it.
    Uncountable,
    /// A consumer of the change feed keeps it.
    Followed,
}

/// The runs of dead bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadRuns {
    /// Number of runs.
    pub count: u64,
    /// Bytes that come back if they are punched, in whole blocks.
    pub bytes: u64,
}

impl SegmentFacts {
    /// Returns true if it may be freed at all, which segments in the log's tail never may.
    pub fn is_collectable(&self) -> bool {
        self.sealed && (self.behind_head || self.kind == SegmentKind::Sorted)
    }

    /// Returns true if it is a log segment that could be freed, but was closed after all counting.
    /// Sorted segments were full of live records when written, so a look at them would win nothing.
    pub fn is_new(&self) -> bool {
        self.is_collectable() && !self.counted && self.kind == SegmentKind::Log
    }

    /// Returns the bytes that would come back if only the live ones were kept.
    pub fn garbage(&self) -> u64 {
        self.allocated.min(self.written).saturating_sub(self.live)
    }
}

/// The way in which a segment is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Its live records are moved to a new sorted segment, and the file is removed.
    Relocate,
    /// Its dead bytes become holes in the file.
    Punch,
}

/// The gain and the cost of freeing one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gain {
    /// The way in which it is freed.
    pub how: How,
    /// Bytes that come back.
    pub won: u64,
    /// Bytes that have to be moved for that.
    pub moved: u64,
    /// The price in bytes moved, or in bytes that could have been moved in the same time.
    pub cost: u64,
}

impl Gain {
    /// Returns true if this wins more per byte of cost. It is exact: no rounding decides.
    pub fn beats(&self, other: &Gain) -> bool {
        u128::from(self.won) * u128::from(other.cost + 1)
            > u128::from(other.won) * u128::from(self.cost + 1)
    }
}

/// The cost of punching on this file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PunchCost {
    /// Nanoseconds per call, whatever the length of its range.
    pub call_nanos: u64,
}

/// About the nanoseconds for moving one MiB.
const MOVE_NANOS: u64 = 4_000_000;

/// A call has to free this part (one in this many) of the bytes that could have been moved in the
/// same time: about what the picker wants of a whole segment.
const LEAST_RUN_PART: u64 = 16;
/// Least length in bytes of a run that is punched.
pub const LEAST_RUN_BYTES: u64 = 2 * FILE_BLOCK_BYTES;

impl PunchCost {
    /// Returns the number of bytes that could be moved during one call.
    pub fn call_bytes(&self) -> u64 {
        let nanos = u128::from(self.call_nanos);
        let bytes = (nanos << 20) / u128::from(MOVE_NANOS);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns the least length in bytes of a run that is worth a call.
    pub fn least_run(&self) -> u64 {
        (self.call_bytes() / LEAST_RUN_PART).max(LEAST_RUN_BYTES)
    }
}

/// Approximate size in bytes of one entry of a relocation.
const RELOCATION_ENTRY_BYTES: u64 = 16;

/// Returns the approximate space of `live` bytes in `records` records after they were moved.
pub fn relocated_bytes(live: u64, records: u64) -> u64 {
    live + (records * RELOCATION_ENTRY_BYTES).next_multiple_of(FILE_BLOCK_BYTES)
}

impl SegmentFacts {
    /// Returns the gain of the better way to free this segment.
    pub fn gain(&self, punch: Option<&PunchCost>) -> Gain {
        let relocating = self.relocating();
        match punch.and_then(|cost| self.punching(cost)) {
            Some(punching) if punching.beats(&relocating) => punching,
            _ => relocating,
        }
    }

    /// Returns the gain of moving the live records away, less the file of the relocation.
    fn relocating(&self) -> Gain {
        let kept = relocated_bytes(self.live, self.live_records);
        let won = self.allocated.saturating_sub(kept);
        Gain { how: How::Relocate, won, moved: self.live, cost: self.live }
    }

    /// Returns the gain of punching; `None` if there is nothing to punch.
    fn punching(&self, cost: &PunchCost) -> Option<Gain> {
        let runs = self.dead_runs.filter(|runs| runs.count > 0)?;
        let cost = runs.count.saturating_mul(cost.call_bytes());
        Some(Gain { how: How::Punch, won: runs.bytes, moved: 0, cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyspaces_that_are_hardly_written_share_no_room() {
        let memtables = |unflushed_bytes, most_unflushed_bytes| {
            SpaceFacts { unflushed_bytes, most_unflushed_bytes, ..SpaceFacts::default() }
                .memtables()
        };
        assert_eq!(memtables(0, 0), 1);
        assert_eq!(memtables(100, 100), 1);
        assert_eq!(memtables(140, 100), 1, "many of little");
        assert_eq!(memtables(300, 100), 3, "three alike");
    }
}

//! What the picker of value GC knows: where the space is, and what freeing some of it costs.

use crate::base::pointer::SegmentId;
use crate::segment::SegmentKind;

/// Where the space of a database is, in allocated bytes of its files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpaceFacts {
    /// All segments, with spare and preallocated ones.
    pub segment_bytes: u64,
    /// All tables, with those that are being written.
    pub table_bytes: u64,
    /// Manifest, relocations, and so on.
    pub other_bytes: u64,
    /// Visible keys and values as they are stored; the best estimate.
    pub live_bytes: u64,
    /// Each segment.
    pub segments: Vec<SegmentFacts>,
}

impl SpaceFacts {
    /// All of it.
    pub fn allocated(&self) -> u64 {
        self.segment_bytes + self.table_bytes + self.other_bytes
    }
}

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFacts {
    /// Which one.
    pub id: SegmentId,
    /// Part of the log, or sorted.
    pub kind: SegmentKind,
    /// Bytes of blocks that its file takes.
    pub allocated: u64,
    /// Bytes written to it; less than `allocated` while its file is preallocated.
    pub written: u64,
    /// Bytes of live records; the best estimate, and never less than what is live.
    pub live: u64,
    /// How many those are.
    pub live_records: u64,
    /// Bytes that tables reference, directly or through a relocation.
    pub referenced: u64,
    /// True if a liveness scan has counted what is live in it.
    pub counted: bool,
    /// True if nothing is appended to it any more.
    pub sealed: bool,
    /// True if no replay needs it and no memtable points into it.
    pub behind_head: bool,
    /// True if its file has another link: a checkpoint shares it.
    pub linked: bool,
    /// The runs of dead bytes that are worth a call, if they are known.
    pub dead_runs: Option<DeadRuns>,
    /// What keeps it from being freed.
    pub fault: Option<SegmentFault>,
}

/// What keeps a segment from being freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentFault {
    /// It is damaged, or what leads to it is.
    Damaged,
    /// It failed lately, for a reason that may pass.
    Failing,
    /// Damage in the tree keeps everybody from knowing what is live in it.
    Uncountable,
}

/// Runs of dead bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadRuns {
    /// How many.
    pub count: u64,
    /// What comes back if they are punched: whole blocks.
    pub bytes: u64,
}

impl SegmentFacts {
    /// True if it may be freed at all: what still is part of the log's tail never is.
    pub fn is_collectable(&self) -> bool {
        self.sealed && (self.behind_head || self.kind == SegmentKind::Sorted)
    }

    /// True if it is a segment of the log that could be freed, but was closed after all counting.
    /// Sorted ones were full of what is live; a look at them would find as much again.
    pub fn is_new(&self) -> bool {
        self.is_collectable() && !self.counted && self.kind == SegmentKind::Log
    }

    /// Bytes that would come back if only the live ones were kept.
    pub fn garbage(&self) -> u64 {
        self.allocated.min(self.written).saturating_sub(self.live)
    }
}

/// How a segment is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// What is live is moved to a new sorted segment, and the file goes.
    Relocate,
    /// What is dead becomes holes in the file.
    Punch,
}

/// What freeing one segment would bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gain {
    /// In which way.
    pub how: How,
    /// Bytes that come back.
    pub won: u64,
    /// Bytes that have to be moved for that.
    pub moved: u64,
    /// The price in bytes moved, or in bytes that could have been in the same time.
    pub cost: u64,
}

impl Gain {
    /// True if this wins more per byte of cost. Exact: no rounding decides.
    pub fn beats(&self, other: &Gain) -> bool {
        u128::from(self.won) * u128::from(other.cost + 1)
            > u128::from(other.won) * u128::from(self.cost + 1)
    }
}

/// What punching costs here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PunchCost {
    /// Nanoseconds a call takes, whatever the length of its range.
    pub call_nanos: u64,
    /// Nanoseconds that moving one MiB takes.
    pub move_nanos_per_mib: u64,
}

/// A call has to free this part of what could have been moved in the same time: about what the
/// picker wants of a whole segment.
const LEAST_RUN_PART: u64 = 16;
/// Shorter runs are never punched.
const LEAST_RUN_BYTES: u64 = 2 * BLOCK_BYTES;

impl PunchCost {
    /// How many bytes could be moved while a call is under way.
    pub fn call_bytes(&self) -> u64 {
        let nanos = u128::from(self.call_nanos);
        let bytes = (nanos << 20) / u128::from(self.move_nanos_per_mib.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Runs of fewer bytes are not worth a call.
    pub fn least_run(&self) -> u64 {
        (self.call_bytes() / LEAST_RUN_PART).max(LEAST_RUN_BYTES)
    }
}

/// Files take whole blocks, and only whole blocks can be punched.
const BLOCK_BYTES: u64 = 4096;
/// About what a relocation keeps for each record.
const RELOCATION_ENTRY_BYTES: u64 = 16;

/// About what so many live bytes of so many records take once they were moved.
pub fn relocated_bytes(live: u64, records: u64) -> u64 {
    live + (records * RELOCATION_ENTRY_BYTES).next_multiple_of(BLOCK_BYTES)
}

impl SegmentFacts {
    /// The better way to free this segment.
    pub fn gain(&self, punch: Option<&PunchCost>) -> Gain {
        let relocating = self.relocating();
        match punch.filter(|_| !self.linked).and_then(|cost| self.punching(cost)) {
            Some(punching) if punching.beats(&relocating) => punching,
            _ => relocating,
        }
    }

    /// What moving the live records away brings, less the file of the relocation.
    fn relocating(&self) -> Gain {
        let kept = relocated_bytes(self.live, self.live_records);
        let won = self.allocated.saturating_sub(kept);
        Gain { how: How::Relocate, won, moved: self.live, cost: self.live }
    }

    /// What punching brings.
    pub fn punching(&self, cost: &PunchCost) -> Option<Gain> {
        let runs = self.dead_runs.filter(|runs| runs.count > 0)?;
        let cost = runs.count.saturating_mul(cost.call_bytes());
        Some(Gain { how: How::Punch, won: runs.bytes, moved: 0, cost })
    }
}

//! The tail of the log: segments that replay may need, so that no pick can touch them. Hot
//! overwrites leave most of their garbage there. A flush moves the log's head past them; this file
//! decides when a flush is worth it.

use crate::gc::bounds::SpaceMarks;
use crate::gc::facts::{Gain, How, SegmentFacts, SegmentFault, SpaceFacts};
use crate::gc::picker::{Mode, Policy};
use crate::segment::SegmentKind;
use crate::throttle::ceiling::{LEAST_MEMTABLE_BYTES, SMALL_STORE_BYTES};

/// The advice to flush, by which garbage in the tail of the log becomes collectable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogTailAdvice {
    /// The bytes of garbage that GC can then free.
    pub garbage: u64,
    /// True if the active segment is to be closed first, so that its garbage is among them.
    pub seals_active: bool,
}

/// Least garbage, in bytes, that justifies a flush while the database is idle.
const LEAST_IDLE_FLUSH_BYTES: u64 = 1 << 20;
/// Least part (one in this many) of all allocated bytes that justifies a flush under load; the
/// larger of this and `LEAST_MEMTABLE_BYTES` counts.
const LEAST_FLUSH_PART: u64 = 50;
/// Least part (one in this many) of all allocated bytes that justifies a flush when the disk is
/// almost full; never more than `LEAST_IDLE_FLUSH_BYTES`.
const LEAST_LOW_FLUSH_PART: u64 = 128;
/// A tail longer than this part (one in this many) of the live bytes is too long. No pick can touch
/// it, so in a small store the collectable rest alone would have to keep to the bound.
const LONG_TAIL_PART: u64 = 4;
/// A long tail is left alone if less than this part (one in this many) of it is garbage, as the
/// frames around small records are.
const LEAST_GARBAGE_PART: u64 = 8;

/// The sizes of the tail of the log, which no pick can touch until the log's head has moved past
/// it.
#[derive(Clone, Copy, Default)]
pub struct LogTail {
    /// Bytes written to closed segments, and to the active one.
    written: [u64; 2],
    /// Garbage in closed segments, and in the active one, in bytes. What a flush would write to
    /// other files before the segments can go is no garbage.
    garbage: [u64; 2],
    /// The same with what only replay needs beyond that. It dies in memtables at no cost, and goes
    /// with their flush, so it is no reason to flush them while users fill them.
    idle_garbage: [u64; 2],
}

const CLOSED: usize = 0;
const ACTIVE: usize = 1;

impl LogTail {
    /// Sums up the segments of the tail.
    pub fn of(facts: &SpaceFacts) -> Self {
        let mut tail = LogTail::default();
        // What a consumer of the change feed keeps stays after a flush, too.
        let is_tail = |s: &&SegmentFacts| {
            let is_followed = s.fault == Some(SegmentFault::Followed);
            s.kind == SegmentKind::Log && !s.is_collectable() && !is_followed
        };
        for segment in facts.segments.iter().filter(is_tail) {
            let part = if segment.sealed { CLOSED } else { ACTIVE };
            tail.written[part] += segment.written;
            tail.garbage[part] += segment.garbage();
            tail.idle_garbage[part] += segment.garbage() + segment.replayed;
        }
        // Each flush writes all memtables.
        leave_out(&mut tail.garbage, facts.unflushed_bytes);
        leave_out(&mut tail.idle_garbage, facts.unflushed_log_bytes);
        tail
    }

    /// Returns the tail with what counts as garbage while nobody writes, or space is short.
    fn at_rest(&self) -> LogTail {
        LogTail { garbage: self.idle_garbage, ..*self }
    }

    fn all_garbage(&self) -> u64 {
        self.garbage.iter().sum()
    }

    /// Returns what collecting brings once the advice was followed.
    pub fn gain(&self, advice: LogTailAdvice) -> Gain {
        let LogTailAdvice { garbage: won, seals_active } = advice;
        let active = if seals_active { self.written[ACTIVE] } else { 0 };
        let written = self.written[CLOSED] + active;
        let moved = written.saturating_sub(won);
        Gain { how: How::Relocate, won, moved, cost: moved }
    }
}

/// Leaves `kept` bytes out of the garbage, those in closed segments first: they have the oldest
/// entries.
fn leave_out(garbage: &mut [u64; 2], mut kept: u64) {
    for garbage in garbage {
        let part = kept.min(*garbage);
        (*garbage, kept) = (*garbage - part, kept - part);
    }
}

/// Returns the advice to flush if space presses, the tail is too long, or the database is at rest,
/// and the garbage in the tail justifies a flush.
pub fn advise(
    facts: &SpaceFacts,
    policy: &Policy,
    marks: &SpaceMarks,
    tail: &LogTail,
) -> Option<LogTailAdvice> {
    let allocated = facts.allocated();
    // Time that users leave is no reason to flush memtables that they still fill: each flush makes
    // compaction rewrite keys.
    let is_pressed = policy.mode != Mode::Spare && allocated > marks.start();
    let is_at_rest = matches!(policy.mode, Mode::Idle | Mode::Low | Mode::Manual);
    let tail = &if is_at_rest || is_pressed { tail.at_rest() } else { *tail };
    let least = LEAST_MEMTABLE_BYTES.max(allocated / LEAST_FLUSH_PART);
    let worth = match policy.mode {
        Mode::Manual => 1,
        Mode::Low => (allocated / LEAST_LOW_FLUSH_PART).min(LEAST_IDLE_FLUSH_BYTES),
        Mode::Idle => LEAST_IDLE_FLUSH_BYTES,
        _ if allocated < SMALL_STORE_BYTES => return None,
        _ => least,
    };
    let written: u64 = tail.written.iter().sum();
    let is_discardable = policy.mode == Mode::Idle
        && tail.all_garbage() as f64 >= policy.discardable.ratio * written as f64;
    let is_too_long = written > SMALL_STORE_BYTES.max(facts.live_bytes / LONG_TAIL_PART)
        && tail.all_garbage() >= written / LEAST_GARBAGE_PART;
    let takes_all = matches!(policy.mode, Mode::Manual | Mode::Low);
    if !(is_pressed || is_discardable || is_too_long || takes_all) {
        return None;
    }
    let [closed, active] = tail.garbage;
    let breaks_bound = active >= marks.slack();
    if active >= worth && (breaks_bound || closed < worth) {
        return Some(LogTailAdvice { garbage: closed + active, seals_active: true });
    }
    (closed >= worth).then_some(LogTailAdvice { garbage: closed, seals_active: false })
}

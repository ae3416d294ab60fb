//! Whether a process counts for the first time what is live. One that writes does so once it wrote
//! enough. One that only reads does so when it is idle and newer entries may hide so much, in the
//! memtables that it replayed and in the upper levels, that space is over its settled bound, or
//! that there is the room for which a job waits. The decision is pure.

use crate::gc::bounds::SpaceBounds;
use crate::gc::discardable::DiscardableRule;
use crate::gc::facts::SpaceFacts;
use crate::gc::live_estimate::{HURRY_PART, Written};
use crate::gc::picker::Mode;
use crate::version::levels::LEVELS;
use crate::version::view::View;

/// A process counts once it put this part (one in this many) of what the store takes, or, when
/// idle, the `HURRY_PART`.
const PUT_PART: u64 = 16;

/// Returns true if the first liveness scan is due, where `written` is what users wrote since the
/// opening. In `mode` GC is neither off nor paused.
pub fn is_first_scan_due(
    facts: &SpaceFacts,
    bounds: &SpaceBounds,
    written: Written,
    (mode, discardable): (Mode, &DiscardableRule),
) -> bool {
    let is_idle = mode == Mode::Idle;
    // A scan while others write has to pay; one while nobody does is in nobody's way. What it may
    // find is reason enough then, and where a job waits for room. If space is so near the ceiling
    // that GC is urgent, the job waits all the same.
    let is_asked = bounds.asked_room > 0;
    let hidden = if is_idle || is_asked { facts.hideable_bytes } else { 0 };
    let live = facts.referenced_bytes().saturating_sub(hidden);
    let start = |mode| bounds.of(mode, live).start();
    let start = if is_asked { start(mode).min(start(Mode::Spare)) } else { start(mode) };
    let part = if is_idle { HURRY_PART } else { PUT_PART };
    mode == Mode::Low
        || facts.allocated() > start
        || written.put_bytes > facts.allocated() / part
        || is_idle && written.deletes > 0
        || discardable.is_first_scan_due(facts, mode)
}

/// Bytes of the records of a keyspace's tables that newer entries may hide, if each hides a mean
/// one. A sorted run has no key twice, but for snapshots, so no more entries are hidden than are
/// outside of the longest run.
pub fn hideable_bytes(view: &View) -> u64 {
    let (mut entries, mut longest) = (0u64, 0u64);
    let mut add = |run: u64| {
        entries = entries.saturating_add(run);
        longest = longest.max(run);
    };
    view.memtables().for_each(|memtable| add(memtable.table.entries()));
    let (mut count, mut bytes, mut runs) = (0u64, 0u64, [0u64; LEVELS]);
    for (level, table) in view.levels.tables() {
        let summary = &table.meta.summary;
        match level {
            0 => add(summary.entries),
            _ => runs[level] = runs[level].saturating_add(summary.entries),
        }
        for used in summary.segments.values() {
            // I7: the numbers are from files.
            count = count.saturating_add(used.count);
            bytes = bytes.saturating_add(used.bytes);
        }
    }
    runs.into_iter().for_each(add);
    debug_assert!(longest <= entries, "the longest run is one of those in the sum");
    (entries - longest).saturating_mul(bytes / count.max(1)).min(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gc::discardable::CollectDiscardable;
    use crate::gc::settings::GcOptions;

    const MIB: u64 = 1 << 20;

    fn facts(allocated_mib: u64, referenced_mib: u64, hideable_mib: u64) -> SpaceFacts {
        SpaceFacts {
            table_bytes: referenced_mib * MIB,
            other_bytes: (allocated_mib - referenced_mib) * MIB,
            hideable_bytes: hideable_mib * MIB,
            ..SpaceFacts::default()
        }
    }

    fn is_due(allocated_mib: u64, hideable_mib: u64, put_mib: u64, deletes: u64) -> [bool; 3] {
        let facts = facts(allocated_mib, 1000, hideable_mib);
        let written = Written { put_bytes: put_mib * MIB, deletes };
        let bounds = SpaceBounds::plain(1.3, 1.3, 0);
        let modes = [Mode::Busy, Mode::Idle, Mode::Low];
        let rule = DiscardableRule::of(&GcOptions::default());
        modes.map(|mode| is_first_scan_due(&facts, &bounds, written, (mode, &rule)))
    }

    #[test]
    fn the_first_scan_is_due_once_it_may_find_something() {
        let rows = [
            ((1000, 0, 0, 0), [false, false, true], "nothing is hidden or was written"),
            ((1240, 0, 0, 0), [false, false, true], "the bounds hold in any case"),
            ((1290, 0, 0, 0), [true, false, true], "the ceiling is near, the settled bound holds"),
            ((1301, 0, 0, 0), [true, true, true], "both are missed in any case"),
            ((1000, 200, 0, 0), [false, false, true], "it holds whatever is hidden"),
            ((1000, 300, 0, 0), [false, true, true], "it may be missed"),
            ((1000, 1000, 0, 0), [false, true, true], "all may be hidden"),
            ((1000, 2000, 0, 0), [false, true, true], "more cannot be"),
            ((1000, 0, 16, 0), [false, true, true], "a little was put"),
            ((1000, 0, 63, 0), [true, true, true], "much was put"),
            ((1000, 0, 0, 1), [false, true, true], "something was deleted"),
        ];
        for ((allocated, hideable, put, deletes), expected, why) in rows {
            assert_eq!(is_due(allocated, hideable, put, deletes), expected, "{why}");
        }
    }

    /// The bounds hold, and little was put: only the ratio of garbage makes it due.
    #[test]
    fn discardable_segments_make_it_due_where_they_are_always_freed() {
        let is_due = |collect_discardable, hideable_mib| {
            let options = GcOptions { collect_discardable, ..GcOptions::default() };
            let rule = DiscardableRule::of(&options);
            let bounds = SpaceBounds::plain(10.0, 10.0, 0);
            let facts = facts(1000, 1000, hideable_mib);
            is_first_scan_due(&facts, &bounds, Written::default(), (Mode::Busy, &rule))
        };
        assert!(!is_due(CollectDiscardable::Idle, 900));
        let dues = [300, 400].map(|hideable| is_due(CollectDiscardable::Always, hideable));
        assert_eq!(dues, [false, true]);
    }

    #[test]
    fn what_may_be_hidden_counts_where_a_job_waits_for_room() {
        let is_due = |allocated_mib, asked_mib, hideable_mib| {
            let facts = facts(allocated_mib, 253, hideable_mib);
            let asked_room = asked_mib * MIB;
            let bounds = SpaceBounds { asked_room, ..SpaceBounds::plain(2.0, 1.2, 256 * MIB) };
            let rule = DiscardableRule::of(&GcOptions::default());
            let written = Written::default();
            let due = |mode| is_first_scan_due(&facts, &bounds, written, (mode, &rule));
            [Mode::Busy, Mode::Spare].map(due)
        };
        assert_eq!(is_due(299, 0, 126), [false, false], "a small store is left in peace");
        assert_eq!(is_due(299, 113, 126), [true, true], "the room is probably there to be made");
        assert_eq!(is_due(299, 113, 0), [false, false], "there is probably none");
        // Scans waited for 9 s where GC took itself for urgent, and had counted nothing.
        assert_eq!(is_due(457, 0, 2), [false, false], "the ceiling is near, but not reached");
        assert_eq!(is_due(457, 43, 2), [true, true], "there is room to be made");
        assert_eq!(is_due(440, 43, 2), [true, true], "by the bound for the room, not the ceiling");
    }
}

//! Gives each segment the reason why value GC takes or leaves it: the answer of GC's picker for the
//! exact numbers of this report. GC itself works with those of its last liveness scan.

use crate::base::pointer::SegmentId;
use crate::gc::bounds::SpaceBounds;
use crate::gc::discardable::DiscardableRule;
use crate::gc::explain::Reason;
use crate::gc::facts::{SegmentFacts, SegmentFault, SpaceFacts};
use crate::gc::picker::{Mode, Policy, pick};
use crate::gc::settings::GcOptions;
use crate::segment::SegmentKind;
use crate::space::report::{SegmentSpace, SpaceParts};

/// Returns the rules that GC picks by.
pub(super) fn policy(options: &GcOptions, is_paused: bool) -> Policy {
    let mode = match (options.automatic, is_paused) {
        (false, _) => Mode::Off,
        (true, true) => Mode::Paused,
        // What GC frees once nobody writes.
        (true, false) => Mode::Idle,
    };
    Policy {
        mode,
        // What is under way, or is to be flushed, is not in a report.
        bounds: SpaceBounds::new(options),
        discardable: DiscardableRule::of(options),
        punch: None,
    }
}

/// Sets the reason of each segment. `seen_bytes` is what reads and snapshots see in the whole
/// store; `fault_of` returns what keeps GC from freeing a segment.
pub(super) fn give(
    segments: &mut [SegmentSpace],
    parts: &SpaceParts,
    seen_bytes: u64,
    policy: &Policy,
    fault_of: &dyn Fn(SegmentId) -> Option<SegmentFault>,
) {
    let facts = SpaceFacts {
        segment_bytes: segments.iter().map(|segment| segment.allocated).sum(),
        table_bytes: parts.tree,
        other_bytes: parts.metadata,
        live_bytes: seen_bytes,
        segments: segments.iter().map(|segment| facts_of(segment, fault_of)).collect(),
        // What is to be flushed is no reason for a segment, and the report shows all bytes.
        ..SpaceFacts::default()
    };
    let reasons = pick(&facts, policy).reasons;
    for segment in segments {
        let is_spare = !segment.sealed && segment.length == 0;
        segment.reason = match reasons.get(&SegmentId(segment.id)) {
            Some(Reason::Active) | None if is_spare => "prepared, not begun yet".to_owned(),
            Some(reason) => reason.to_string(),
            None => String::new(),
        };
    }
}

fn facts_of(
    segment: &SegmentSpace,
    fault_of: &dyn Fn(SegmentId) -> Option<SegmentFault>,
) -> SegmentFacts {
    SegmentFacts {
        id: SegmentId(segment.id),
        kind: if segment.sorted { SegmentKind::Sorted } else { SegmentKind::Log },
        allocated: segment.allocated,
        written: segment.length.saturating_sub(segment.hole_bytes),
        live: segment.live_bytes + segment.pinned_bytes,
        live_records: segment.live_records,
        referenced: segment.referenced_bytes,
        counted: true,
        sealed: segment.sealed,
        behind_head: !segment.sorted && !segment.replay,
        fault: fault_of(SegmentId(segment.id)),
        ..SegmentFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(id: u64, live: u64, sealed: bool, replay: bool) -> SegmentSpace {
        SegmentSpace {
            id,
            sealed,
            replay,
            length: 1 << 20,
            allocated: 1 << 20,
            live_records: live >> 10,
            live_bytes: live / 2,
            pinned_bytes: live / 2,
            referenced_bytes: 1 << 19,
            links: 1,
            ..SegmentSpace::default()
        }
    }

    fn reasons(options: &GcOptions, is_paused: bool) -> Vec<String> {
        let mut segments = vec![
            segment(1, 1 << 18, true, false),
            segment(2, 1 << 20, true, false),
            segment(3, 1 << 18, true, true),
            segment(4, 0, false, true),
            SegmentSpace { length: 0, ..segment(5, 0, false, true) },
            segment(6, 1 << 18, true, false),
        ];
        let parts = SpaceParts { tree: 1 << 16, metadata: 1 << 12, ..SpaceParts::default() };
        let fault_of = |id| (id == SegmentId(6)).then_some(SegmentFault::Damaged);
        let seen = (1 << 20) + (1 << 19);
        give(&mut segments, &parts, seen, &policy(options, is_paused), &fault_of);
        segments.into_iter().map(|segment| segment.reason).collect()
    }

    #[test]
    fn each_segment_has_the_reason_of_the_picker() {
        let [first, rest @ ..] = &reasons(&GcOptions::default(), false)[..] else { panic!() };
        assert!(first.starts_with("taken: moving 256.0 KiB wins"), "{first}");
        assert!(rest[0].starts_with("live 100 %"), "{}", rest[0]);
        assert_eq!(rest[1], "still part of replay, until a flush");
        assert_eq!(rest[2], "still written to");
        assert_eq!(rest[3], "prepared, not begun yet");
        assert_eq!(rest[4], "damaged: can't be moved");
        assert_eq!(reasons(&GcOptions::default(), true)[0], "GC is paused");
        let off = GcOptions { automatic: false, ..GcOptions::default() };
        assert_eq!(reasons(&off, false)[0], "automatic GC is off");
    }
}

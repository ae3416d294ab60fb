//! Finds the ranges of a segment that are worth punching: what lies between its live records, in
//! whole blocks. Pure.
//!
//! I5: a range touches neither a block that holds a byte of a live record nor the segment's head. A
//! range for one call is dead from end to end: only earlier holes may lie in it.

use crate::gc::facts::DeadRuns;
use crate::gc::record_list::{LiveRecord, RecordList};
use crate::segment::SegmentKind;
use crate::version::{HOLE_UNIT, Holes, LiveSegment, hole_bytes};

/// The most holes of a segment; one that would have more is moved instead. Each hole is an extent
/// for the file system to keep, and some bytes in every manifest.
const MAX_HOLES: usize = 1024;
/// Mean length in bytes from which on live records may have dead ones between them that are worth a
/// hole each.
pub const LEAST_PUNCHED_RECORD: u64 = 16 << 10;
/// Of shorter records only those are worth a hole that died together, with their neighbours: so
/// many bytes. In a sorted segment those are neighbours by key, which were put in order, or
/// deleted, or overwritten one after the other.
const LEAST_STRETCH_BYTES: u64 = 64 << 10;

/// A range to punch by one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PunchRange {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Number of its bytes that are in no hole yet.
    pub fresh: u64,
}

/// Returns the dead ranges of a segment that are worth a hole, where one of fewer than `least`
/// bytes is not; none if it would have too many holes. `list` has its live records.
pub fn runs_to_punch(list: &RecordList, segment: &LiveSegment, least: u64) -> Vec<PunchRange> {
    let is_log = segment.handle.segment.kind() == SegmentKind::Log;
    match segment.sealed {
        // In the log, neighbours by key lie apart, and long records alone leave much between them.
        Some(sealed) if are_long(list) || !is_log => {
            worth_a_hole(list, sealed, &segment.holes, least)
        }
        _ => Vec::new(),
    }
}

fn are_long(list: &RecordList) -> bool {
    list.record_bytes() >= LEAST_PUNCHED_RECORD * list.len().max(1) as u64
}

fn worth_a_hole(list: &RecordList, sealed: u64, holes: &Holes, least: u64) -> Vec<PunchRange> {
    let least = if are_long(list) { least } else { least.max(LEAST_STRETCH_BYTES) };
    if list.is_in_place() && list.widest_gap(sealed) < least {
        return Vec::new();
    }
    let runs = dead_runs(list, sealed, holes, least);
    if holes.len() + runs.len() > MAX_HOLES { Vec::new() } else { runs }
}

/// Returns the number of ranges, and the bytes that come back with them.
pub fn sum_up(runs: &[PunchRange]) -> DeadRuns {
    DeadRuns { count: runs.len() as u64, bytes: runs.iter().map(|run| run.fresh).sum() }
}

/// Returns the dead ranges of a segment of `sealed` bytes whose live records are in `list`,
/// ascending. Each range has at least `least` bytes that are in none of `holes`.
fn dead_runs(list: &RecordList, sealed: u64, holes: &Holes, least: u64) -> Vec<PunchRange> {
    // I7: both numbers may come from a damaged pointer.
    let place = |it: LiveRecord| (it.offset.min(sealed), it.end().min(sealed));
    let live = list.iter().map(place);
    // The head of the segment is in the first block.
    let (mut end, mut runs) = (HOLE_UNIT, Vec::new());
    let mut pass = |(offset, behind): (u64, u64)| {
        let (first, last) = (end.next_multiple_of(HOLE_UNIT), offset / HOLE_UNIT * HOLE_UNIT);
        if last > first {
            runs.extend(fresh_run(first, last, holes).filter(|run| run.fresh >= least.max(1)));
        }
        end = end.max(behind);
    };
    // In a sorted segment, records are in the order of their places already.
    if list.is_in_place() {
        live.for_each(&mut pass);
    } else {
        let mut sorted: Vec<(u64, u64)> = live.collect();
        sorted.sort_unstable();
        sorted.into_iter().for_each(&mut pass);
    }
    pass((sealed, sealed));
    debug_assert!(
        runs.windows(2).all(|pair| pair[0].offset + pair[0].len <= pair[1].offset),
        "I5: between two ranges are live records"
    );
    runs
}

/// Returns the part of a dead range from its first to its last byte that is in no hole.
fn fresh_run(first: u64, last: u64, holes: &Holes) -> Option<PunchRange> {
    let (mut at, mut fresh, mut span) = (first, 0, None);
    let begin = holes.partition_point(|&(offset, len)| offset + len <= first);
    for &(offset, len) in holes[begin..].iter().chain([&(last, 0)]) {
        let next = offset.min(last);
        if next > at {
            fresh += next - at;
            span = Some((span.map_or(at, |(start, _)| start), next));
        }
        at = at.max(offset + len);
        if at >= last {
            break;
        }
    }
    let run = span.map(|(start, end)| PunchRange { offset: start, len: end - start, fresh });
    debug_assert!(
        run.is_none_or(|run| run.offset >= first && run.offset + run.len <= last),
        "I5: the range is in what is dead"
    );
    debug_assert!(
        run.is_none_or(|run| 0 < run.fresh && run.fresh <= run.len),
        "the range begins and ends with fresh bytes"
    );
    run
}

/// Returns the union of `holes` and `runs`, ascending, with adjacent holes joined.
pub fn union(holes: &Holes, runs: &[PunchRange]) -> Holes {
    let new = runs.iter().map(|run| (run.offset, run.len));
    let mut all: Vec<(u64, u64)> = holes.iter().copied().chain(new).collect();
    all.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(all.len());
    for (offset, len) in all {
        match joined.last_mut() {
            Some((start, length)) if *start + *length >= offset => {
                *length = (*length).max(offset + len - *start);
            }
            _ => joined.push((offset, len)),
        }
    }
    debug_assert!(
        joined.iter().map(|&(_, len)| len).sum::<u64>()
            == hole_bytes(holes) + runs.iter().map(|run| run.fresh).sum::<u64>(),
        "the fresh bytes of the ranges are what the holes grow by"
    );
    joined.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gc::record_list::LiveRecord;

    const K: u64 = 1 << 10;

    fn list(records: &[(u64, u64)]) -> RecordList {
        let record = |(rank, &(offset, length)): (u64, &(u64, u64))| LiveRecord {
            rank,
            offset,
            length: u32::try_from(length).unwrap(),
        };
        (0..).zip(records).map(record).collect()
    }

    fn runs(records: &[(u64, u64)], sealed: u64, holes: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
        let found = dead_runs(&list(records), sealed, &holes.into(), 0);
        found.into_iter().map(|run| (run.offset, run.len, run.fresh)).collect()
    }

    #[test]
    fn i05_whole_blocks_between_live_records() {
        assert_eq!(runs(&[], 100 * K, &[]), [(4 * K, 96 * K, 96 * K)], "but for the head");
        assert_eq!(runs(&[], 102 * K, &[]), [(4 * K, 96 * K, 96 * K)], "and a part of a block");
        let live = [(40 * K - 1, 2), (70 * K, 4 * K)];
        let expected = [(4 * K, 32 * K), (44 * K, 24 * K), (76 * K, 24 * K)];
        assert_eq!(runs(&live, 100 * K, &[]), expected.map(|(at, len)| (at, len, len)));
        let turned = [live[1], live[0], (71 * K, K)];
        assert_eq!(runs(&turned, 100 * K, &[]), runs(&live, 100 * K, &[]), "in any order");
        assert_eq!(runs(&[(100, 99 * K)], 100 * K, &[]), [], "all is live");
        assert_eq!(runs(&[(100, 6 * K), (11 * K, 89 * K)], 100 * K, &[]), [], "no whole block");
    }

    #[test]
    fn what_is_punched_already_is_not_fresh() {
        let holes = [(4 * K, 8 * K), (20 * K, 4 * K)];
        assert_eq!(runs(&[], 40 * K, &holes), [(12 * K, 28 * K, 24 * K)], "one call over a hole");
        assert_eq!(runs(&[(12 * K, 8 * K)], 24 * K, &holes), [], "nothing is left");
        assert_eq!(runs(&[(12 * K, 8 * K)], 28 * K, &holes), [(24 * K, 4 * K, 4 * K)]);
        assert_eq!(runs(&[], 24 * K, &holes), [(12 * K, 8 * K, 8 * K)]);
        assert_eq!(runs(&[], 16 * K, &[(0, 20 * K)]), [], "a hole over everything");
    }

    #[test]
    fn short_runs_are_left_alone() {
        let live = list(&[(40 * K, K), (80 * K, K)]);
        let found = |least| dead_runs(&live, 100 * K, &Holes::default(), least).len();
        assert_eq!([found(0), found(17 * K), found(36 * K), found(37 * K)], [3, 2, 2, 0]);
    }

    #[test]
    fn a_list_knows_its_widest_gap_and_whether_it_goes_back() {
        let short = list(&[(5 * K, K), (6 * K, K), (90 * K, K)]);
        assert!(short.is_in_place());
        assert_eq!([short.widest_gap(91 * K), short.widest_gap(200 * K)], [83 * K, 109 * K]);
        assert_eq!(list(&[]).widest_gap(70 * K), 70 * K);
        assert!(!list(&[(90 * K, K), (5 * K, K)]).is_in_place());
        let found = |records: &[(u64, u64)]| worth_a_hole(&list(records), 91 * K, &[].into(), 0);
        assert_eq!(found(&[(5 * K, K), (90 * K, K)]).len(), 1);
        assert_eq!(found(&[(90 * K, K), (5 * K, K)]), found(&[(5 * K, K), (90 * K, K)]));
        assert_eq!(found(&[(5 * K, K), (40 * K, K), (90 * K, K)]), [], "no gap is long enough");
    }

    #[test]
    fn i07_a_place_beyond_any_file_keeps_no_live_record_from_being_seen() {
        let beyond = (1 << 63) + 500 * K;
        let found = list(&[(1000 * K, K), (beyond, K), (200 * K, K), (u64::MAX, K)]);
        assert!(!found.is_in_place());
        let runs = worth_a_hole(&found, 1200 * K, &Holes::default(), 0);
        let is_live = |run: &PunchRange| run.offset <= 200 * K && 200 * K < run.offset + run.len;
        assert!(runs.len() == 3 && !runs.iter().any(is_live), "{runs:?}");
    }

    #[test]
    fn of_short_records_only_long_stretches_are_worth_a_hole() {
        let worth = |length: u64, gap: u64, count: u64, least: u64| {
            let records: Vec<_> =
                (0..count).map(|number| (4 * K + number * (length + gap), length)).collect();
            let sealed = 4 * K + count * (length + gap);
            worth_a_hole(&list(&records), sealed, &Holes::default(), least).len()
        };
        assert_eq!(worth(16 * K, 16 * K, 10, 8 * K), 10, "long records");
        assert_eq!(worth(16 * K - 4, 16 * K, 10, 8 * K), 0, "short ones, apart");
        assert_eq!([worth(K, 63 * K, 10, 8 * K), worth(K, 72 * K, 10, 8 * K)], [0, 10]);
        assert_eq!(worth(K, 72 * K, 10, 80 * K), 0, "a call costs more");
        assert_eq!([worth(K, 72 * K, 1024, 0), worth(K, 72 * K, 1025, 0)], [1024, 0], "too many");
    }

    #[test]
    fn holes_grow_together() {
        let holes: Holes = [(4 * K, 8 * K), (20 * K, 4 * K), (80 * K, 4 * K)].into();
        let run = |offset, len, fresh| PunchRange { offset, len, fresh };
        let around = run(12 * K, 28 * K, 24 * K);
        let runs = [around, run(84 * K, 4 * K, 4 * K), run(60 * K, 4 * K, 4 * K)];
        let grown = union(&holes, &runs);
        assert_eq!(*grown, [(4 * K, 36 * K), (60 * K, 4 * K), (80 * K, 8 * K)]);
        assert_eq!(hole_bytes(&grown), 48 * K);
        assert_eq!(union(&holes, &[]), holes);
    }

    #[test]
    fn i05_no_run_has_a_live_byte() {
        use crate::env::Env;
        let (env, _) = Env::simulated(11);
        let below = |bound: u64| env.random.next_u64() % bound;
        for _ in 0..2000 {
            let sealed = 1 + below(200 * K);
            let (mut records, mut holes, mut at) = (Vec::new(), Vec::new(), 64);
            while at < sealed {
                let length = (1 + below(20 * K)).min(sealed - at);
                match below(3) {
                    0 => records.push((at, length)),
                    1 if length > 8 * K && at > 4 * K => {
                        let first = at.next_multiple_of(4 * K);
                        holes.push((first, (at + length) / (4 * K) * (4 * K) - first));
                    }
                    _ => {}
                }
                at += length;
            }
            holes.retain(|(_, len)| *len > 0);
            let holes: Holes = holes.into();
            let least = 4 * K * below(4);
            let found = dead_runs(&list(&records), sealed, &holes, least);
            for run in &found {
                assert!(run.offset >= 4 * K && run.offset + run.len <= sealed && run.len > 0);
                assert!(run.offset.is_multiple_of(4 * K) && run.len.is_multiple_of(4 * K));
                assert!(run.fresh >= least && run.fresh <= run.len);
                let touches =
                    |&(at, len): &(u64, u64)| at < run.offset + run.len && run.offset < at + len;
                assert!(!records.iter().any(touches), "{run:?} of {records:?}");
            }
            let all = union(&holes, &found);
            let fresh: u64 = found.iter().map(|run| run.fresh).sum();
            assert_eq!(hole_bytes(&all), hole_bytes(&holes) + fresh);
        }
    }
}

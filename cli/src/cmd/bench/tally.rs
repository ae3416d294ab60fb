//! What the threads of a workload have done, and how long each operation took.

use hdrhistogram::Histogram;

const LONGEST_NANOS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// The work that a thread has done.
pub(super) struct WorkerTally {
    pub(super) ops: u64,
    pub(super) bytes: u64,
    pub(super) found: u64,
    pub(super) nanos: Histogram<u64>,
    /// Of a workload that mixes them, the reads and the writes apart, in the order of [`Side`];
    /// without bytes.
    pub(super) sides: Option<Box<[WorkerTally; 2]>>,
}

/// The sides of a workload that mixes reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Reads,
    Writes,
}

impl WorkerTally {
    pub(super) fn new() -> Self {
        let nanos = Histogram::new_with_bounds(1, LONGEST_NANOS, DIGITS);
        WorkerTally {
            ops: 0,
            bytes: 0,
            found: 0,
            nanos: nanos.expect("bounds and digits are sound"),
            sides: None,
        }
    }

    /// Notes operations that took so many nanoseconds together.
    pub(super) fn record(&mut self, ops: u64, nanos: u64) {
        self.ops += ops;
        self.nanos.saturating_record(nanos);
    }

    /// Returns the tally of one side alone, to which nothing but that side is added.
    pub(super) fn side(&mut self, side: Side) -> &mut WorkerTally {
        &mut self.both_sides()[side as usize]
    }

    fn both_sides(&mut self) -> &mut [WorkerTally; 2] {
        self.sides.get_or_insert_with(|| Box::new([WorkerTally::new(), WorkerTally::new()]))
    }

    pub(super) fn add(&mut self, other: &WorkerTally) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.found += other.found;
        self.nanos.add(&other.nanos).expect("all have the same bounds");
        if let Some(others) = &other.sides {
            self.both_sides().iter_mut().zip(&**others).for_each(|(side, other)| side.add(other));
        }
    }
}

//! Events for the begin and end of write stalls. A rule delays many writers, and each of them many
//! times, but this is reported as one write stall.

use crate::env::clock::Clock;
use crate::events::{Event, Events};
use crate::stats::StallReason;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The write stalls that were reported as begun, one slot for each reason: 0 if there is none, else
/// one plus the begin in nanoseconds since the clock's start.
#[derive(Default)]
pub struct OpenStalls {
    begun: [AtomicU64; StallReason::ALL.len()],
}

impl OpenStalls {
    /// Records that a writer is held up for this reason; reports a stall unless one has begun.
    pub fn begin(&self, reason: StallReason, clock: &dyn Clock, events: &Events) {
        let slot = &self.begun[reason as usize];
        if slot.load(Ordering::Relaxed) != 0 {
            return;
        }
        let now = u64::try_from(clock.now().as_nanos()).unwrap_or(u64::MAX - 1) + 1;
        // Of concurrent writers, only one reports it.
        if slot.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            events.emit(Event::StallBegun { reason });
        }
    }

    /// Records that a writer was not held up for these reasons; reports the end of their stalls.
    /// Costs one load for each reason.
    #[inline]
    pub fn end(&self, reasons: &[StallReason], clock: &dyn Clock, events: &Events) {
        for &reason in reasons {
            if self.begun[reason as usize].load(Ordering::Relaxed) != 0 {
                self.end_one(reason, clock, events);
            }
        }
    }

    #[cold]
    fn end_one(&self, reason: StallReason, clock: &dyn Clock, events: &Events) {
        let begun = self.begun[reason as usize].swap(0, Ordering::Relaxed);
        if begun != 0 {
            let took = clock.since(Duration::from_nanos(begun - 1));
            events.emit(Event::StallEnded { reason, took });
        }
    }
}

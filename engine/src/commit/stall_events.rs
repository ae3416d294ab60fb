//! Events for the begin and end of what lasts: write stalls, and the refusal of puts. A rule delays
//! many writers, and each of them many times, but this is reported as one write stall.

use crate::env::clock::Clock;
use crate::events::{Event, Events};
use crate::stats::StallReason;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Whether something was reported as begun and not yet as ended: 0 if not, else one plus its begin
/// in nanoseconds since the clock's start.
#[derive(Default)]
pub struct ReportedBegin(AtomicU64);

impl ReportedBegin {
    /// Returns true if it was reported as begun and not yet as ended.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Records that it has begun. Returns true if it was not open: then the caller reports it, of
    /// concurrent callers only one.
    pub fn open(&self, clock: &dyn Clock) -> bool {
        if self.is_open() {
            return false;
        }
        let now = u64::try_from(clock.now().as_nanos()).unwrap_or(u64::MAX - 1) + 1;
        self.0.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Records that it has ended. Returns the time that it took if it was open: then the caller
    /// reports it, of concurrent callers only one.
    pub fn close(&self, clock: &dyn Clock) -> Option<Duration> {
        let begun = self.0.swap(0, Ordering::Relaxed);
        (begun != 0).then(|| clock.since(Duration::from_nanos(begun - 1)))
    }
}

/// The write stalls that were reported as begun.
#[derive(Default)]
pub struct OpenStalls {
    begun: [ReportedBegin; StallReason::ALL.len()],
}

impl OpenStalls {
    /// Records that a writer is held up for this reason; reports a stall unless one has begun.
    pub fn begin(&self, reason: StallReason, clock: &dyn Clock, events: &Events) {
        if self.begun[reason as usize].open(clock) {
            events.emit(Event::StallBegun { reason });
        }
    }

    /// Records that a writer was not held up for these reasons; reports the end of their stalls.
    /// Costs one load for each reason.
    #[inline]
    pub fn end(&self, reasons: &[StallReason], clock: &dyn Clock, events: &Events) {
        for &reason in reasons {
            if self.begun[reason as usize].is_open() {
                self.end_one(reason, clock, events);
            }
        }
    }

    #[cold]
    fn end_one(&self, reason: StallReason, clock: &dyn Clock, events: &Events) {
        if let Some(took) = self.begun[reason as usize].close(clock) {
            events.emit(Event::StallEnded { reason, took });
        }
    }
}

//! Events for the begin and end of write stalls. A rule delays many writers, and each of them many
//! times, but this is reported as one write stall.

use crate::env::begin_and_end::BeginAndEnd;
use crate::env::clock::Clock;
use crate::events::{Event, Events};
use crate::stats::StallReason;

/// The write stalls that were reported as begun.
#[derive(Default)]
pub struct OpenStalls {
    begun: [BeginAndEnd; StallReason::ALL.len()],
}

impl OpenStalls {
    /// Records that a writer is held up for this reason; reports a stall unless one has begun.
    pub fn begin(&self, reason: StallReason, clock: &dyn Clock, events: &Events) {
        let begun = || Event::StallBegun { reason };
        self.begun[reason as usize].begin(|| clock.now(), events, begun);
    }

    /// Records that a writer was not held up for these reasons; reports the end of their stalls.
    /// Costs one load for each reason.
    #[inline]
    pub fn end(&self, reasons: &[StallReason], clock: &dyn Clock, events: &Events) {
        for &reason in reasons {
            let ended = |took| Event::StallEnded { reason, took };
            self.begun[reason as usize].end(|| clock.now(), events, ended);
        }
    }
}

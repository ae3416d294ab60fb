//! A liveness scan that any thread can run. It reads views that were taken before it began, and
//! holds tables, memtables and relocations, but no segment (I5), so value GC can go on meanwhile.

use crate::base::error::Error;
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::gc::liveness_scan::{self, LivenessScan, Scope};
use crate::version::entries::EntriesView;
use crate::version::job::{JobError, JobResult};
use crate::version::runtime::Runtime;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The input of a liveness scan, for the thread that runs it; see [`Scope`].
pub(super) struct Task {
    pub(super) context: Runtime,
    pub(super) seqno: SeqNo,
    pub(super) visible: SeqNo,
    pub(super) snapshots: Vec<SeqNo>,
    pub(super) views: Vec<EntriesView>,
    pub(super) wanted: Vec<SegmentId>,
    pub(super) wanted_only: bool,
    pub(super) max_list_bytes: usize,
    pub(super) walk: u64,
}

/// The result of a liveness scan.
pub(super) struct TimedLivenessScan {
    pub(super) liveness_scan: LivenessScan,
    /// The duration of the scan.
    pub(super) time: Duration,
}

impl Task {
    /// Runs the liveness scan on this thread. It ends early if the database closes or `is_given_up`
    /// becomes true.
    pub(super) fn run(&self, is_given_up: &AtomicBool) -> JobResult<TimedLivenessScan> {
        let scope = Scope {
            seqno: self.seqno,
            visible: self.visible,
            snapshots: &self.snapshots,
            views: &self.views,
            wanted: &self.wanted,
            wanted_only: self.wanted_only,
            max_list_bytes: self.max_list_bytes,
            walk: self.walk,
        };
        let clock = &self.context.env.clock;
        let begun = clock.now();
        let liveness_scan = liveness_scan::take(&scope, || {
            if is_given_up.load(Ordering::Relaxed) {
                let given_up = Error::wrong_state("the liveness scan was given up");
                return Err(JobError::Obsolete(given_up));
            }
            self.context.check_closing()
        })?;
        Ok(TimedLivenessScan { liveness_scan, time: clock.since(begun) })
    }
}

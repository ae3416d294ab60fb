//! What runs now, for people who look: each job on a thread of the background or of a user.

use super::choice::{BackgroundWork, CompactionReason};
use super::{Background, BackgroundState};
use std::collections::BTreeMap;
use std::time::Duration;

/// A job that runs.
#[derive(Debug, Clone)]
pub struct RunningJob {
    /// The kind of work, such as "compaction".
    pub kind: &'static str,
    /// The occasion of a compaction; `None` for other jobs.
    pub reason: Option<&'static str>,
    /// The keyspace, if the job is for one.
    pub keyspace: Option<String>,
    /// The level from which a compaction takes tables.
    pub level: Option<usize>,
    /// Bytes that a compaction reads; 0 if that is not known.
    pub bytes: u64,
    /// The reading of the clock at the beginning.
    pub begun: Duration,
}

impl CompactionReason {
    /// Returns the name of the reason in reports.
    pub fn name(self) -> &'static str {
        match self {
            CompactionReason::FullLevel => "full_level",
            CompactionReason::StaleTables => "stale_tables",
            CompactionReason::Settling => "settling",
            CompactionReason::Early => "early",
            CompactionReason::Deletions => "deletions",
            CompactionReason::ScanOrder(_) => "scan_order",
            CompactionReason::Manual => "manual",
            CompactionReason::Reorganization => "reorganization",
            CompactionReason::Conversion => "conversion",
        }
    }
}

/// The jobs that run, by number.
#[derive(Default)]
pub(super) struct RunningJobs {
    jobs: BTreeMap<u64, RunningJob>,
    begun: u64,
}

impl RunningJobs {
    /// Notes a job, and returns the number under which it is noted.
    pub(super) fn begin(&mut self, job: RunningJob) -> u64 {
        self.begun += 1;
        self.jobs.insert(self.begun, job);
        self.begun
    }

    /// Forgets the job of this number.
    pub(super) fn end(&mut self, number: u64) {
        let was_running = self.jobs.remove(&number).is_some();
        debug_assert!(was_running, "a job ends once");
    }
}

impl Background {
    /// Notes that `work` runs from now on, and returns the number to end it with.
    pub(super) fn begin_work(&self, work: &BackgroundWork, state: &mut BackgroundState) -> u64 {
        let mut job = self.job_of_kind("");
        match work {
            BackgroundWork::Flush(keyspace) => {
                (job.kind, job.keyspace) = ("flush", Some(keyspace.name.clone()));
            }
            BackgroundWork::Compact(claimed) => {
                let chosen = &claimed.chosen;
                (job.kind, job.reason) = ("compaction", Some(chosen.reason.name()));
                job.keyspace = Some(chosen.keyspace.name.clone());
                (job.level, job.bytes) = (Some(chosen.pick.level), chosen.pick.bytes());
            }
            BackgroundWork::Spare => job.kind = "prepare_segment",
            BackgroundWork::DropDead => job.kind = "drop_segments",
            BackgroundWork::Purge => job.kind = "unlink",
            BackgroundWork::Pin(_) => job.kind = "pin_table",
        }
        state.running.begin(job)
    }

    /// Notes that value GC runs from now on, and returns the number to end it with.
    pub(super) fn begin_collecting(&self, state: &mut BackgroundState) -> u64 {
        state.running.begin(self.job_of_kind("value_gc"))
    }

    fn job_of_kind(&self, kind: &'static str) -> RunningJob {
        let begun = self.runtime.env.clock.now();
        RunningJob { kind, reason: None, keyspace: None, level: None, bytes: 0, begun }
    }

    /// Returns the jobs that run now, in the order in which they began.
    pub fn running_jobs(&self) -> Vec<RunningJob> {
        self.state.lock().running.jobs.values().cloned().collect()
    }
}

//! Value GC beside a workload, to see what it costs the workload meanwhile.

use super::BenchPlan;
use super::measure::BenchShared;
use crate::text::{human_bytes, human_count, per_second};
use cleavedb::{GcReport, Result};
use std::time::Instant;

/// What one call of [`cleavedb::Db::gc`] did beside a workload.
pub(super) struct BenchGc {
    seconds: f64,
    /// Operations of the workload meanwhile.
    ops: u64,
    report: GcReport,
}

/// Frees the space of dead values, whatever the bounds say.
pub(super) fn collect(plan: &BenchPlan<'_>, shared: &BenchShared) -> Result<BenchGc> {
    let started = Instant::now();
    let report = plan.db.gc()?;
    Ok(BenchGc { seconds: started.elapsed().as_secs_f64(), ops: shared.done(), report })
}

impl BenchGc {
    /// Returns the rate of a workload that took `seconds`, until this or the workload ended.
    fn rate(&self, seconds: f64) -> f64 {
        per_second(self.ops, self.seconds.min(seconds))
    }

    /// Returns the member `gc` of the workload's JSON object.
    pub(super) fn to_json(&self, seconds: f64) -> String {
        let (freed, punched) = (self.report.bytes_freed, self.report.bytes_punched);
        format!(
            ",\"gc\":{{\"seconds\":{:.6},\"ops\":{},\"ops_per_second\":{:.1},\
             \"bytes_freed\":{},\"bytes_written\":{}}}",
            self.seconds,
            self.ops,
            self.rate(seconds),
            freed + punched,
            self.report.bytes_written,
        )
    }

    /// Returns a line for people.
    pub(super) fn to_text(&self, seconds: f64) -> String {
        format!(
            "\n  value GC   {:>11} ops/s while it ran, {:.2} s; {} freed, {} written",
            human_count(self.rate(seconds) as u64),
            self.seconds,
            human_bytes(self.report.bytes_freed + self.report.bytes_punched),
            human_bytes(self.report.bytes_written),
        )
    }
}

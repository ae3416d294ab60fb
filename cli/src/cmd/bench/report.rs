//! Prints the figures of a workload, for people and for programs.

use super::worker::WorkerTally;
use super::workload::Workload;
use crate::text::{human_count, per_second};

/// The figures of one workload.
pub(super) struct BenchReport {
    pub(super) workload: Workload,
    pub(super) threads: u64,
    pub(super) tally: WorkerTally,
    pub(super) seconds: f64,
    /// The tally of the threads that read beside it; `None` if there were none.
    pub(super) reads: Option<WorkerTally>,
    pub(super) settle_seconds: Option<f64>,
}

impl BenchReport {
    fn mb_per_second(&self) -> f64 {
        per_second(self.tally.bytes, self.seconds) / 1e6
    }

    /// Returns one JSON object. Megabytes are decimal; bytes are those of keys and values.
    pub(super) fn to_json(&self) -> String {
        let settle = match self.settle_seconds {
            Some(seconds) => format!(",\"settle_seconds\":{seconds:.3}"),
            None => String::new(),
        };
        let reads = self.reads.as_ref().map(|reads| {
            let rate = per_second(reads.ops, self.seconds);
            let (ops, found, micros) = (reads.ops, reads.found, micros_json(reads));
            format!(
                ",\"reads\":{{\"ops\":{ops},\"ops_per_second\":{rate:.1},{micros},\
                 \"found\":{found}}}"
            )
        });
        format!(
            "{{\"workload\":\"{}\",\"threads\":{},\"ops\":{},\"seconds\":{:.6},\
             \"ops_per_second\":{:.1},\"bytes\":{},\"mb_per_second\":{:.3},{},\
             \"found\":{}{settle}{}}}",
            self.workload.name(),
            self.threads,
            self.tally.ops,
            self.seconds,
            per_second(self.tally.ops, self.seconds),
            self.tally.bytes,
            self.mb_per_second(),
            micros_json(&self.tally),
            self.tally.found,
            reads.unwrap_or_default(),
        )
    }

    /// Returns one line for people.
    pub(super) fn to_text(&self) -> String {
        let mut line = format!(
            "{:<12} {:>11} ops/s {:>8.1} MB/s   {}",
            self.workload.name(),
            human_count(per_second(self.tally.ops, self.seconds) as u64),
            self.mb_per_second(),
            micros_text(&self.tally),
        );
        line += &format!("   ({} ops in {:.2} s", human_count(self.tally.ops), self.seconds);
        if !self.workload.fills() && !self.workload.deletes() {
            line += &format!(", {} found", human_count(self.tally.found));
        }
        if let Some(seconds) = self.settle_seconds {
            line += &format!(", settled in {seconds:.2} s");
        }
        line += ")";
        if let Some(reads) = &self.reads {
            let rate = human_count(per_second(reads.ops, self.seconds) as u64);
            line += &format!("\n  beside it  {rate:>11} reads/s{:>14}{}", "", micros_text(reads));
        }
        line
    }
}

fn micros(tally: &WorkerTally, quantile: f64) -> f64 {
    tally.nanos.value_at_quantile(quantile) as f64 / 1000.0
}

fn max_micros(tally: &WorkerTally) -> f64 {
    tally.nanos.max() as f64 / 1000.0
}

fn micros_json(tally: &WorkerTally) -> String {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| micros(tally, quantile));
    let max = max_micros(tally);
    format!("\"p50_us\":{p50:.3},\"p99_us\":{p99:.3},\"p999_us\":{p999:.3},\"max_us\":{max:.3}")
}

fn micros_text(tally: &WorkerTally) -> String {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| micros(tally, quantile));
    let max = max_micros(tally);
    format!("us: p50 {p50:.1}  p99 {p99:.1}  p99.9 {p999:.1}  max {max:.0}")
}

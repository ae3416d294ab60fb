//! The figures of a workload, for people and for programs.

use super::Workload;
use super::worker::Tally;
use crate::text::{human_count, per_second};

/// What was measured.
pub(super) struct Report {
    pub(super) workload: Workload,
    pub(super) threads: u64,
    pub(super) tally: Tally,
    pub(super) seconds: f64,
    pub(super) settle_seconds: Option<f64>,
}

impl Report {
    fn micros(&self, quantile: f64) -> f64 {
        self.tally.nanos.value_at_quantile(quantile) as f64 / 1000.0
    }

    fn max_micros(&self) -> f64 {
        self.tally.nanos.max() as f64 / 1000.0
    }

    fn mb_per_second(&self) -> f64 {
        per_second(self.tally.bytes, self.seconds) / 1e6
    }

    /// One JSON object. Megabytes are decimal; bytes are those of keys and values.
    pub(super) fn to_json(&self) -> String {
        let settle = match self.settle_seconds {
            Some(seconds) => format!(",\"settle_seconds\":{seconds:.3}"),
            None => String::new(),
        };
        format!(
            "{{\"workload\":\"{}\",\"threads\":{},\"ops\":{},\"seconds\":{:.6},\
             \"ops_per_second\":{:.1},\"bytes\":{},\"mb_per_second\":{:.3},\"p50_us\":{:.3},\
             \"p99_us\":{:.3},\"p999_us\":{:.3},\"max_us\":{:.3},\"found\":{}{settle}}}",
            self.workload.name(),
            self.threads,
            self.tally.ops,
            self.seconds,
            per_second(self.tally.ops, self.seconds),
            self.tally.bytes,
            self.mb_per_second(),
            self.micros(0.5),
            self.micros(0.99),
            self.micros(0.999),
            self.max_micros(),
            self.tally.found,
        )
    }

    /// One line for people.
    pub(super) fn to_text(&self) -> String {
        let mut line = format!(
            "{:<12} {:>11} ops/s {:>8.1} MB/s   us: p50 {:.1}  p99 {:.1}  p99.9 {:.1}  max {:.0}",
            self.workload.name(),
            human_count(per_second(self.tally.ops, self.seconds) as u64),
            self.mb_per_second(),
            self.micros(0.5),
            self.micros(0.99),
            self.micros(0.999),
            self.max_micros(),
        );
        line += &format!("   ({} ops in {:.2} s", human_count(self.tally.ops), self.seconds);
        if !self.workload.fills() && self.workload != Workload::DeleteRandom {
            line += &format!(", {} found", human_count(self.tally.found));
        }
        if let Some(seconds) = self.settle_seconds {
            line += &format!(", settled in {seconds:.2} s");
        }
        line + ")"
    }
}

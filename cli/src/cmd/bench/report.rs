//! Prints the figures of a workload, for people and for programs.

use super::collect::BenchGc;
use super::follow::BenchFeed;
use super::tally::WorkerTally;
use super::workload::Workload;
use crate::text::{human_count, per_second};

/// The figures of one workload.
pub(super) struct BenchReport {
    pub(super) workload: Workload,
    pub(super) threads: u64,
    pub(super) tally: WorkerTally,
    pub(super) seconds: f64,
    /// The tally of the threads that read beside it; `None` if there were none.
    pub(super) beside: Option<WorkerTally>,
    /// The reads and the writes of a workload that mixes them, in the order of `Side`.
    pub(super) sides: Option<Box<[WorkerTally; 2]>>,
    /// What value GC did beside it, if it was asked for.
    pub(super) gc: Option<BenchGc>,
    /// What a consumer of the change feed did beside it, if it was asked for.
    pub(super) feed: Option<BenchFeed>,
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
        let gc = self.gc.as_ref().map_or(String::new(), |gc| gc.to_json(self.seconds));
        let feed = self.feed.as_ref().map_or(String::new(), |feed| feed.to_json(self.seconds));
        let parts: String = self.parts().map(|(name, part)| self.part_json(name, part)).collect();
        format!(
            "{{\"workload\":\"{}\",\"threads\":{},\"ops\":{},\"seconds\":{:.6},\
             \"ops_per_second\":{:.1},\"bytes\":{},\"mb_per_second\":{:.3},{},\
             \"found\":{}{settle}{parts}{gc}{feed}}}",
            self.workload.name(),
            self.threads,
            self.tally.ops,
            self.seconds,
            per_second(self.tally.ops, self.seconds),
            self.tally.bytes,
            self.mb_per_second(),
            micros_json(&self.tally),
            self.tally.found,
        )
    }

    /// Returns what has figures of its own, by its name in JSON.
    fn parts(&self) -> impl Iterator<Item = (&'static str, &WorkerTally)> {
        let sides =
            self.sides.iter().flat_map(|sides| ["reads", "writes"].into_iter().zip(&**sides));
        self.beside.iter().map(|reads| ("reads", reads)).chain(sides)
    }

    fn part_json(&self, name: &str, part: &WorkerTally) -> String {
        let rate = per_second(part.ops, self.seconds);
        let (ops, found, micros) = (part.ops, part.found, micros_json(part));
        format!(
            ",\"{name}\":{{\"ops\":{ops},\"ops_per_second\":{rate:.1},{micros},\
             \"found\":{found}}}"
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
        if self.workload.finds() {
            line += &format!(", {} found", human_count(self.tally.found));
        }
        if let Some(seconds) = self.settle_seconds {
            line += &format!(", settled in {seconds:.2} s");
        }
        line += ")";
        for (name, part) in self.parts() {
            let rate = human_count(per_second(part.ops, self.seconds) as u64);
            let name = if self.beside.is_some() { "beside it" } else { name };
            line += &format!("\n  {name:<10} {rate:>11} ops/s{:>17}{}", "", micros_text(part));
        }
        if let Some(gc) = &self.gc {
            line += &gc.to_text(self.seconds);
        }
        if let Some(feed) = &self.feed {
            line += &feed.to_text(self.seconds);
        }
        line
    }
}

fn micros(tally: &WorkerTally, quantile: f64) -> f64 {
    tally.nanos.value_at_quantile(quantile) as f64 / 1000.0
}

fn mean_micros(tally: &WorkerTally) -> f64 {
    tally.nanos.mean() / 1000.0
}

fn max_micros(tally: &WorkerTally) -> f64 {
    tally.nanos.max() as f64 / 1000.0
}

fn micros_json(tally: &WorkerTally) -> String {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| micros(tally, quantile));
    let (mean, max) = (mean_micros(tally), max_micros(tally));
    format!(
        "\"mean_us\":{mean:.3},\"p50_us\":{p50:.3},\"p99_us\":{p99:.3},\
         \"p999_us\":{p999:.3},\"max_us\":{max:.3}"
    )
}

fn micros_text(tally: &WorkerTally) -> String {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| micros(tally, quantile));
    let (mean, max) = (mean_micros(tally), max_micros(tally));
    format!("us: mean {mean:.1}  p50 {p50:.1}  p99 {p99:.1}  p99.9 {p999:.1}  max {max:.0}")
}

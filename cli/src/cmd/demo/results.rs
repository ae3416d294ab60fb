//! The measurements of the demo, as the table that it ends with.

use crate::text::{human_bytes, human_count, per_second};

/// The figures of one step.
#[derive(Default)]
pub(super) struct DemoStep {
    pub(super) name: &'static str,
    pub(super) operations: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

/// The figures of all steps.
#[derive(Default)]
pub(super) struct Results {
    /// Number of words in the dictionary, and the bytes of the words and their articles.
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) steps: Vec<DemoStep>,
    /// Write amplification of loading and overwriting.
    pub(super) write_amplification: f64,
    /// Bytes on disk before and after the compaction.
    pub(super) space_before: u64,
    pub(super) space: u64,
    /// Number of writers killed, and of the writes that were acknowledged to them.
    pub(super) kills: u64,
    pub(super) acknowledged: u64,
    /// Number of files found sound.
    pub(super) files: u64,
}

impl Results {
    pub(super) fn table(&self) -> String {
        let mut lines = String::new();
        let mut line = |name: &str, figure: &str, rest: &str| {
            lines += &format!("  {name:<20}{figure:>12} {rest}\n");
        };
        for step in &self.steps {
            let rate = human_count(per_second(step.operations, step.seconds) as u64);
            let bytes = human_bytes(per_second(step.bytes, step.seconds) as u64);
            let rest = format!("records {rate:>10}/s {bytes:>12}/s");
            line(step.name, &human_count(step.operations), &rest);
        }
        let factor = format!("{:.2}", self.write_amplification);
        line("write amplification", &factor, "bytes written for each byte loaded or overwritten");
        let space = format!(
            "on disk for {} of words and articles, {} before the compaction",
            human_bytes(self.bytes),
            human_bytes(self.space_before)
        );
        line("space", &human_bytes(self.space), &space);
        let lost =
            format!("killed after {} acknowledged writes, 0 lost", human_count(self.acknowledged));
        line("writers", &self.kills.to_string(), &lost);
        let verified = format!(
            "of {} records, in full, after every kill; all {} files sound",
            human_count(self.records),
            self.files
        );
        line("verified", &human_count(self.records), &verified);
        lines
    }
}

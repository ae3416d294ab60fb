//! The workloads of `cleave bench`, and their load: keys, values, threads and time.

use crate::text::parse_size;
use clap::{Args, ValueEnum};

/// What is done, by db_bench's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(super) enum Workload {
    /// Write all keys in order
    FillSeq,
    /// Write as many random keys
    FillRandom,
    /// Write random keys of those that are there; --total says how many
    Overwrite,
    /// Get random keys
    ReadRandom,
    /// Get keys that do not exist
    ReadMissing,
    /// Walk forward
    ReadSeq,
    /// Walk backward
    ReadReverse,
    /// Seek to random keys and read on
    SeekRandom,
    /// Delete random keys
    DeleteRandom,
    /// Delete every key, in order
    DeleteAll,
}

impl Workload {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub(super) fn fills(self) -> bool {
        matches!(self, Workload::FillSeq | Workload::FillRandom | Workload::Overwrite)
    }

    pub(super) fn deletes(self) -> bool {
        matches!(self, Workload::DeleteRandom | Workload::DeleteAll)
    }

    /// Returns the number of operations of all threads together, if no time is set.
    pub(super) fn ops(self, load: &LoadArgs) -> u64 {
        let ops = match (self, load.total) {
            (Workload::Overwrite, Some(factor)) => (load.num as f64 * factor).round() as u64,
            (Workload::DeleteAll, _) => load.num,
            _ if self.fills() => load.num,
            _ => load.reads.unwrap_or(load.num),
        };
        ops.max(1)
    }
}

/// How often each key is drawn where keys are drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Distribution {
    /// All alike
    Uniform,
    /// By Zipf's law with exponent 0.99, as YCSB has it; which keys are often drawn, is random
    Zipf,
}

/// The shape of the work.
#[derive(Args)]
pub(super) struct LoadArgs {
    /// How many keys there are, and how many operations a filling workload does
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) num: u64,

    /// How many operations a reading or deleting workload does [default: --num]
    #[arg(long, value_name = "N")]
    pub(super) reads: Option<u64>,

    /// overwrite: how many times --num values are written, such as 8 or 0.5 [default: 1]
    #[arg(long, value_name = "FACTOR", value_parser = parse_factor)]
    pub(super) total: Option<f64>,

    /// How often each key is drawn by workloads that draw keys at random
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub(super) distribution: Distribution,

    /// Bytes of a value
    #[arg(long, value_name = "SIZE", default_value = "1k", value_parser = parse_size)]
    pub(super) value_size: usize,

    /// Bytes that a value takes when compressed, as a share: 1 is random, 0.5 halves
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = parse_ratio)]
    pub(super) compression_ratio: f64,

    /// fillrandom: each key exactly once, in random order, instead of random keys
    #[arg(long)]
    pub(super) unique: bool,

    /// Threads that work at a time
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(super) threads: u64,

    /// Threads that get random keys beside a workload that writes or deletes, until it is done
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=1024))]
    pub(super) readers: u64,

    /// Writes a batch
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) batch: u64,

    /// seekrandom: pairs read from the found key on
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) scan_length: u64,

    /// Scans do not read values
    #[arg(long)]
    pub(super) keys_only: bool,

    /// Scans do not read values ahead
    #[arg(long)]
    pub(super) no_prefetch: bool,

    /// At most this long a workload; random ones go on until then, beyond their count
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) duration: Option<u64>,

    /// Where the random order begins
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// After each workload wait until flushes and compactions are done
    #[arg(long)]
    pub(super) settle: bool,

    /// After the last workload keep the store open this long and do nothing
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) idle: u64,
}

fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.0..=1e6).contains(factor));
    factor.ok_or_else(|| "a factor is a number from 0 to a million, such as 8 or 0.5".into())
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.01..=1.0).contains(ratio));
    ratio.ok_or_else(|| "a share is a number from 0.01 to 1".into())
}

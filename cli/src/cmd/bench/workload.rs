//! The workloads of `cleave bench`, and their load: keys, values, threads and time.

use super::follow::Follow;
use crate::text::{parse_count, parse_size};
use clap::{Args, ValueEnum};

/// The workloads, named as in db_bench and YCSB. Those of YCSB run on keys that were loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(super) enum Workload {
    /// Write all keys in order
    FillSeq,
    /// Write random keys, --num of them
    FillRandom,
    /// Overwrite random existing keys; --total sets how many
    Overwrite,
    /// Get random keys
    ReadRandom,
    /// Get keys that do not exist
    ReadMissing,
    /// Scan forward
    ReadSeq,
    /// Scan backward
    ReadReverse,
    /// Seek to random keys and read the pairs that follow
    SeekRandom,
    /// Delete random keys
    DeleteRandom,
    /// Delete every key below --num, in order
    DeleteAll,
    /// 50 % gets, 50 % updates; this and the others on keys that fillseq or fillrandom --unique has
    /// loaded
    YcsbA,
    /// 95 % gets, 5 % updates
    YcsbB,
    /// Gets only
    YcsbC,
    /// 95 % gets, the higher a key the likelier, or all alike if --distribution uniform is given;
    /// 5 % insertions of new keys, behind the others
    YcsbD,
    /// 95 % scans of 1 to 100 pairs, 5 % insertions of new keys
    YcsbE,
    /// 50 % gets, 50 % read-modify-writes: a get and an update of its key
    YcsbF,
    /// Compare and set by version, each thread on keys of its own share; this and the two groups
    /// on keys that were loaded
    Cas,
    /// Add one to counters, --num of them, that all threads share, in a keyspace of their own
    Increment,
    /// Do so by merging the operand 1, in a keyspace of their own, too; the counters are added up
    /// at the end
    Merge,
    /// The same writes as plain puts, which count nothing
    PutCounters,
    /// Transactions of 4 gets and 4 puts of other keys
    Transactions,
    /// The same without a transaction: 4 gets and a batch of 4 puts
    BatchGet,
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

    /// Returns true if it reads values, which are counted.
    pub(super) fn finds(self) -> bool {
        let counts = self.counters().is_some();
        !self.fills() && !self.deletes() && !counts && self != Workload::Cas
    }

    /// Returns what the name of the keyspace of its counters ends in, if it works on counters.
    pub(super) fn counters(self) -> Option<&'static str> {
        match self {
            Workload::Increment => Some("counters"),
            Workload::Merge => Some("merged"),
            Workload::PutCounters => Some("put"),
            _ => None,
        }
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

/// The distribution of random keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Distribution {
    /// Every key is equally likely
    Uniform,
    /// Zipf's law with exponent 0.99, as in YCSB; the popular keys are spread over all
    Zipf,
}

fn parse_least_one(text: &str) -> Result<u64, String> {
    parse_count(text).and_then(|count| match count {
        0 => Err("at least 1 is needed".into()),
        count => Ok(count),
    })
}

/// The shape of the work.
#[derive(Args)]
pub(super) struct LoadArgs {
    /// Number of keys, and of the operations of workloads that fill, such as 10M
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = parse_least_one)]
    pub(super) num: u64,

    /// Number of operations of workloads that read, delete or mix (YCSB's) [default: --num]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(super) reads: Option<u64>,

    /// For overwrite: values written, as a multiple of --num, such as 8 or 0.5 [default: 1]
    #[arg(long, value_name = "FACTOR", value_parser = parse_factor)]
    pub(super) total: Option<f64>,

    /// Distribution of random keys [default: zipf for YCSB's workloads, uniform for others]
    #[arg(long, value_enum)]
    pub(super) distribution: Option<Distribution>,

    /// For transactions and batchget: draw from all keys, not from each thread's own share
    #[arg(long)]
    pub(super) shared: bool,

    /// For YCSB's workloads: share of the operations that read, instead of their own
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(super) read_share: Option<f64>,

    /// Size of a value in bytes
    #[arg(long, value_name = "SIZE", default_value = "1k", value_parser = parse_size)]
    pub(super) value_size: usize,

    /// Compressed size of a value as a share of its size: 1 is incompressible, 0.5 halves
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = parse_ratio)]
    pub(super) compression_ratio: f64,

    /// For fillrandom: write each key exactly once, in random order
    #[arg(long)]
    pub(super) unique: bool,

    /// Number of threads
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(super) threads: u64,

    /// Number of threads that read random keys while a workload fills or deletes
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=1024))]
    pub(super) readers: u64,

    /// Beside each workload, free the space of dead values once, as `cleave gc` does
    #[arg(long)]
    pub(super) collect: bool,

    /// Beside each workload, follow the change feed, and verify what it hands out
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(super) follow: Option<Follow>,

    /// Writes per batch
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) batch: u64,

    /// For seekrandom: pairs read after each seek
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) scan_length: u64,

    /// Leave values out of scans
    #[arg(long)]
    pub(super) keys_only: bool,

    /// Read no values ahead in scans
    #[arg(long)]
    pub(super) no_prefetch: bool,

    /// Most time per workload; random workloads use all of it, beyond their number of operations
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) duration: Option<u64>,

    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// After each workload, wait until flushes and compactions are done
    #[arg(long)]
    pub(super) settle: bool,

    /// After the last workload, keep the database open and idle for this long
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) idle: u64,
}

fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.0..=1e6).contains(factor));
    factor.ok_or_else(|| "a factor is a number from 0 to a million, such as 8 or 0.5".into())
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is a number from 0 to 1".into())
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.01..=1.0).contains(ratio));
    ratio.ok_or_else(|| "a share is a number from 0.01 to 1".into())
}

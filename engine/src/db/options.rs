//! Every setting in one place, composed of the rooms' own.

use crate::base::error::{Error, Result};
use crate::commit::group::Durability;
use crate::commit::stall::StallLimits;
use crate::env::OsSettings;
use crate::env::batch_read::ParallelReads;
use crate::gc::settings::GcOptions;
use crate::version::owner::OPTIONS_HEAD;
use crate::version::settings::KeyspaceOptions;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The settings of a database. All can be changed from one opening to the next.
///
/// ```
/// use cleavedb::{Durability, Options};
/// let options = Options { durability: Durability::Sync, ..Options::default() };
/// options.validate()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// When a write is acknowledged, unless the write says otherwise. Default: [`Durability::Os`].
    pub durability: Durability,
    /// Bytes of table blocks kept in memory. Default 64 MiB. Filters and indexes of tables are
    /// kept besides. Raise it until the tree's blocks fit, if they can: values are not in them.
    pub cache_bytes: u64,
    /// The most bytes of log that recovery may have to replay. Default 512 MiB, about a second.
    /// Smaller values open faster after a crash and flush more often.
    pub max_replay_bytes: u64,
    /// A log segment is closed at this size, in bytes. Default 64 MiB. Space comes back in units
    /// of segments.
    pub segment_bytes: u64,
    /// Bytes that `Durability::Buffered` may hold back in this process. Default 1 MiB.
    pub write_buffer_bytes: usize,
    /// Files kept open at a time. Default 512.
    pub max_open_files: usize,
    /// Threads that compact. Default 1 for each two processors, at least 1.
    pub compaction_threads: usize,
    /// Memtables of a keyspace that may wait for their flush before writers do. Default 3.
    pub max_immutable_memtables: usize,
    /// From this many tables in L0 on writes are delayed a little. Default 20.
    pub level0_slowdown: usize,
    /// At this many tables in L0 writes wait. Default 36.
    pub level0_stop: usize,
    /// The most bytes a second that compaction and value GC write together. Default: no cap; they
    /// give way to reads by themselves when those get slower. At least 1 MiB. A cap below what
    /// the writes need holds writers up, in the end, by the rules for L0 and for space. Flushes
    /// are never held up.
    pub background_bytes_per_second: Option<u64>,
    /// How many separated values are read at once. Default: threads.
    pub parallel_reads: ParallelReads,
    /// Threads for parallel reads, started when first needed. Default 32.
    pub read_threads: usize,
    /// Create the database if there is none. Default true.
    pub create_if_missing: bool,
    /// Refuse to open a database that exists. Default false.
    pub error_if_exists: bool,
    /// Change nothing on disk but the text of the lock file; writes are refused. Any number of
    /// processes, and of handles in each, may hold a database open like that, as long as nobody
    /// writes to it. Default false.
    pub read_only: bool,
    /// How much space may be taken, and what value GC may spend on that.
    pub gc: GcOptions,
    /// The settings of keyspaces created without settings of their own.
    pub keyspace: KeyspaceOptions,
}

impl Default for Options {
    fn default() -> Self {
        let processors = crate::env::threads::processors();
        Options {
            durability: Durability::Os,
            cache_bytes: 64 << 20,
            max_replay_bytes: 512 << 20,
            segment_bytes: 64 << 20,
            write_buffer_bytes: 1 << 20,
            max_open_files: 512,
            compaction_threads: (processors / 2).max(1),
            max_immutable_memtables: 3,
            level0_slowdown: 20,
            level0_stop: 36,
            background_bytes_per_second: None,
            parallel_reads: ParallelReads::Auto,
            read_threads: 32,
            create_if_missing: true,
            error_if_exists: false,
            read_only: false,
            gc: GcOptions::default(),
            keyspace: KeyspaceOptions::default(),
        }
    }
}

fn at_least(name: &str, value: u64, low: u64) -> Result<()> {
    if value >= low {
        return Ok(());
    }
    Err(Error::invalid_option(format!("{name} is {value}, it must be at least {low}")))
}

impl Options {
    /// Checks every field; the error names the field and its range.
    pub fn validate(&self) -> Result<()> {
        at_least("max_replay_bytes", self.max_replay_bytes, 64 << 10)?;
        at_least("segment_bytes", self.segment_bytes, 4 << 10)?;
        at_least("max_open_files", self.max_open_files as u64, 8)?;
        at_least("compaction_threads", self.compaction_threads as u64, 1)?;
        at_least("max_immutable_memtables", self.max_immutable_memtables as u64, 1)?;
        at_least("level0_slowdown", self.level0_slowdown as u64, 1)?;
        at_least("level0_stop", self.level0_stop as u64, self.level0_slowdown as u64)?;
        at_least("read_threads", self.read_threads as u64, 1)?;
        let cap = self.background_bytes_per_second;
        at_least("background_bytes_per_second", cap.unwrap_or(u64::MAX), 1 << 20)?;
        self.gc.validate()?;
        self.keyspace.validate()
    }

    pub(super) fn stall_limits(&self) -> StallLimits {
        StallLimits {
            immutables: self.max_immutable_memtables,
            level0_slow: self.level0_slowdown,
            level0_full: self.level0_stop,
            replay_bytes: self.max_replay_bytes,
        }
    }

    pub(super) fn os_settings(&self) -> OsSettings {
        OsSettings { parallel_reads: self.parallel_reads, read_threads: self.read_threads }
    }

    /// The settings in force as text for people, written beside the manifest.
    pub(super) fn to_text(&self) -> String {
        format!(
            "{OPTIONS_HEAD} Changes here do nothing, but that the\n\
             # command cleave goes by those of gc.\n\
             durability = {}\ncache_bytes = {}\nmax_replay_bytes = {}\nsegment_bytes = {}\n\
             write_buffer_bytes = {}\nmax_open_files = {}\ncompaction_threads = {}\n\
             max_immutable_memtables = {}\nlevel0_slowdown = {}\nlevel0_stop = {}\n\
             background_bytes_per_second = {}\nread_threads = {}\n{}\n# of new keyspaces\n{}",
            self.durability,
            self.cache_bytes,
            self.max_replay_bytes,
            self.segment_bytes,
            self.write_buffer_bytes,
            self.max_open_files,
            self.compaction_threads,
            self.max_immutable_memtables,
            self.level0_slowdown,
            self.level0_stop,
            self.background_bytes_per_second.map_or("none".into(), |cap| cap.to_string()),
            self.read_threads,
            self.gc.to_text(),
            self.keyspace.to_text()
        )
    }
}

/// How one write is done.
///
/// ```
/// use cleavedb::{Durability, WriteOptions};
/// let synced = WriteOptions { durability: Some(Durability::Sync) };
/// # let _ = synced;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// When it is acknowledged. `None`: as the database's options say.
    pub durability: Option<Durability>,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Buffered => f.write_str("buffered"),
            Durability::Os => f.write_str("os"),
            Durability::Sync => f.write_str("sync"),
            Durability::SyncEvery(time) => write!(f, "every:{}ms", time.as_millis()),
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    /// Reads `buffered`, `os`, `sync` or `every:100ms` (also `s`).
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid_option(format!("durability {text:?} is unknown"))
                .advise("use buffered, os, sync, or every:100ms")
        };
        match text {
            "buffered" => return Ok(Durability::Buffered),
            "os" => return Ok(Durability::Os),
            "sync" => return Ok(Durability::Sync),
            _ => {}
        }
        let time = text.strip_prefix("every:").ok_or_else(wrong)?;
        let (digits, unit) = match time.strip_suffix("ms") {
            Some(digits) => (digits, 1),
            None => (time.strip_suffix('s').ok_or_else(wrong)?, 1000),
        };
        let count: u64 = digits.parse().map_err(|_| wrong())?;
        Ok(Durability::SyncEvery(Duration::from_millis(count.saturating_mul(unit))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_reads_what_it_prints() {
        for text in ["buffered", "os", "sync", "every:250ms"] {
            assert_eq!(text.parse::<Durability>().unwrap().to_string(), text);
        }
        assert_eq!("every:2s".parse::<Durability>().unwrap().to_string(), "every:2000ms");
        for text in ["", "fsync", "every:", "every:5", "every:xms"] {
            assert!(text.parse::<Durability>().is_err(), "{text}");
        }
    }

    #[test]
    fn wrong_options_are_named() {
        let options = Options { level0_stop: 3, ..Default::default() };
        let error = options.validate().unwrap_err().to_string();
        assert!(error.contains("level0_stop is 3, it must be at least 20"), "{error}");
        Options::default().validate().unwrap();
    }
}

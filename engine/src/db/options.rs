//! The options of a database, composed of the options of each room.

use crate::base::error::{Error, Result};
use crate::commit::group::Durability;
use crate::db::expiry::Expiry;
use crate::env::OsSettings;
use crate::env::batch_read::ParallelReads;
use crate::env::memory;
use crate::gc::settings::GcOptions;
use crate::hot::StaleTrigger;
use crate::throttle::tree::{MOST_UNSYNCED, StallLimits};
use crate::version::owner::OPTIONS_HEAD;
use crate::version::settings::{KeyspaceOptions, within};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The options of a database. All can be changed from one opening to the next.
///
/// ```
/// use cleavedb::{Durability, Options};
/// let options = Options { durability: Durability::Sync, ..Options::default() };
/// options.validate()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Durability of writes that do not set their own. Default: [`Durability::Os`].
    pub durability: Durability,
    /// Bytes of table blocks kept in memory. Default 64 MiB, or less where the process may use less
    /// than 512 MiB of memory (`docs/tuning.md`). Filters and indexes of tables are kept in
    /// addition to it. If possible, raise it until the tree's blocks fit; separated values are not
    /// in them.
    pub cache_bytes: u64,
    /// Bytes that indexes and filters of tables and directories of relocations may take in memory,
    /// beyond those that running reads, cursors and compactions hold. Default `None`: as many as
    /// [`Options::cache_bytes`], but at least 256 MiB, or less where the process may use less than
    /// 512 MiB; 256 MiB are enough for about a hundred million keys of 16 bytes with separated
    /// values. If they do not fit, those of tables that were not read lately are dropped, and the
    /// next read of such a table reads them again, which costs about a hundred times as much as a
    /// block. Statistics count these in [`Stats::table_evictions`](crate::Stats::table_evictions).
    pub max_index_and_filter_bytes: Option<u64>,
    /// Bytes of memory in which the tree is kept as a whole: all blocks of all tables, with their
    /// indexes and filters. The opening loads them, upper levels first, and takes as long as
    /// reading the tree does; what flushes and compactions write later is loaded in the background.
    /// Walks over keys, and reads of values that are not separated, then read nothing from disk.
    /// Tables that do not fit are read as before, through the block cache;
    /// [`Stats::pinned_tree_missing_bytes`](crate::Stats::pinned_tree_missing_bytes) and
    /// [`Event::TreeLoaded`](crate::Event::TreeLoaded) say how much more they need. Default 0: off.
    pub pin_tree: u64,
    /// The most bytes of log that recovery may have to replay. Default 512 MiB, about a second;
    /// from 64 KiB to 1 TiB. Smaller values open faster after a crash and flush more often.
    pub max_replay_bytes: u64,
    /// Size in bytes at which a log segment is sealed. Default 64 MiB; from 4 KiB to 4 GiB. Space
    /// comes back in units of segments, so those of a small store are smaller, from 4 MiB on:
    /// an eighth of the store at most, and in measure to the garbage that [`GcOptions`] allow.
    pub segment_bytes: u64,
    /// Bytes that `Durability::Buffered` may hold back in this process. Default 1 MiB; from 1 KiB
    /// to 1 GiB.
    pub write_buffer_bytes: usize,
    /// Append to the log by copies into a memory mapping where the file system allows it (ext4, XFS
    /// and tmpfs). Default true: a small commit takes half the time of one that writes by a system
    /// call. A device that fails under a mapping ends the process by the signal `SIGBUS`, where a
    /// system call returns an error; set it to false if that must not happen.
    pub mapped_appends: bool,
    /// Files kept open at a time. Default 512; from 8 to 1048576. A quarter of them is for long
    /// scans and compactions, which open what they read in sequence once more. A get of many keys
    /// may have up to 256 more open while it reads values, and a scan of strewn ones 128.
    pub max_open_files: usize,
    /// Threads that compact. Default 1 for each two processors; from 1 to 128.
    pub compaction_threads: usize,
    /// Memtables of a keyspace that may wait for their flush while writers fill one more; once that
    /// is full, they wait. Default 2; from 1 to 1000.
    pub max_immutable_memtables: usize,
    /// Number of tables in L0 from which writes are delayed a little. Default 20.
    pub level0_slowdown: usize,
    /// Number of tables in L0 at which writes wait. Default 36; from `level0_slowdown` to 10000,
    /// and not below the `level0_trigger` of any keyspace, at which compaction begins.
    pub level0_stop: usize,
    /// The most bytes per second that compaction and value GC write together. At least 1 MiB.
    /// Default: no cap; they give way to reads by themselves when reads get slower. A cap below
    /// what the writes need stalls writers in the end, by the rules for L0 and for space. Flushes
    /// are never held up.
    pub background_bytes_per_second: Option<u64>,
    /// The way in which several separated values are read at once. Default: threads.
    pub parallel_reads: ParallelReads,
    /// Threads for parallel reads, started when first needed. Default 32; from 1 to 1024.
    pub read_threads: usize,
    /// Duration from which an operation is reported by an
    /// [`Event::SlowOperation`](crate::Event::SlowOperation). Default `None`: none is reported and
    /// one in 16 operations is timed. With a limit all are timed, for which a put takes about a
    /// twentieth more instructions.
    pub slow_operation: Option<Duration>,
    /// Creates the database if there is none. Default true.
    pub create_if_missing: bool,
    /// Refuses to open a database that exists. Default false.
    pub error_if_exists: bool,
    /// Changes nothing on disk but the text of the lock file, and refuses writes. Any number of
    /// processes, and of handles in each, may open a database read-only, as long as nobody has it
    /// open for writing. Default false.
    pub read_only: bool,
    /// Answers other processes of the same user at a socket in the database's directory,
    /// `CONTROL`: what the commands `cleave stats`, `top` and others ask for, and collections,
    /// compactions and checkpoints. Openings that only read have none. It costs a sleeping thread
    /// while nobody asks. If the socket can't be made, the database opens all the same, and
    /// [`Event::ControlSocketFailed`](crate::Event::ControlSocketFailed) tells why. Default true.
    pub control_socket: bool,
    /// Follows the process that has the database open for writing, if there is one: any number of
    /// processes can read in this way beside it. Reads see the state of the opening, and newer
    /// ones after [`Db::catch_up`](crate::Db::catch_up). No lock is held, so nobody is kept from
    /// opening the database for writing, and the writer does not know of its readers: it removes
    /// files that they may still need. A read whose file is gone goes on in a newer state; a cursor
    /// or scan fails then with [`ErrorKind::WrongState`](crate::ErrorKind::WrongState). That is
    /// rare, since up to [`Options::max_open_files`] files are opened as soon as they are seen.
    /// Implies [`Options::read_only`]. Default false.
    pub follow: bool,
    /// Follows as [`Options::follow`] does, which it implies, and keeps the files of what is seen
    /// by hard links in a directory of its own, `pinned.1` to `pinned.16` in the database's: no
    /// cursor or scan fails for want of a file, as an export of hours must not. Until the next
    /// catch-up or the end, the space of these files does not come back, and value GC punches no
    /// holes in them. What a killed process leaves goes with the next opening for writing. The
    /// user must be able to create files there. Default false.
    pub follow_pinned: bool,
    /// With [`Options::follow`], reads without a snapshot catch up first if what they would see is
    /// older than this. Default `None`: only calls of [`Db::catch_up`](crate::Db::catch_up) do.
    pub follow_every: Option<Duration>,
    /// Memory for the update table, in bytes, at most 16 GiB. It knows the newest entries of the
    /// keys that were flushed last, a million keys of 16 bytes in 64 MiB: compactions drop what
    /// those supersede, and point reads go straight to the table that holds them. Default 0, which
    /// switches it off: it makes tables smaller, and costs processor time for each entry that is
    /// flushed, and for each in a compaction of whose inputs it knows enough. Where entries are
    /// small, that is more than it wins. Memory is taken as keys are flushed; up to a quarter of it
    /// is taken besides while a flush of a keyspace runs.
    pub update_table_bytes: u64,
    /// From when on a table is compacted early because newer tables supersede much of it, as far as
    /// the update table knows. Default: half of its entries. Has no effect without an update table.
    pub early_compaction: StaleTrigger,
    /// Whether separated values that scans find strewn over the log and many segments are put into
    /// key order in the background. It is done range by range of keys, at the lowest priority, once
    /// scans have lost as much time to reads that ordered values would have saved as the rewriting
    /// takes; so where nothing is scanned, nothing is done. Costs reading and writing such values
    /// once more, and the space of both copies until value GC has freed the old ones, within the
    /// ceiling that [`GcOptions`] set. Default true. See [`Keyspace::reorganize`] to do it at once.
    ///
    /// [`Keyspace::reorganize`]: crate::Keyspace::reorganize
    pub scan_order: bool,
    /// The space that may be used, and what value GC may spend to keep to it.
    pub gc: GcOptions,
    /// The settings of keyspaces created without settings of their own.
    pub keyspace: KeyspaceOptions,
}

impl Default for Options {
    fn default() -> Self {
        let processors = crate::env::threads::processors();
        Options {
            durability: Durability::Os,
            cache_bytes: memory::shrunk(64 << 20, memory::limit()),
            max_index_and_filter_bytes: None,
            pin_tree: 0,
            max_replay_bytes: 512 << 20,
            segment_bytes: 64 << 20,
            write_buffer_bytes: 1 << 20,
            mapped_appends: true,
            max_open_files: 512,
            compaction_threads: (processors / 2).max(1),
            max_immutable_memtables: 2,
            level0_slowdown: 20,
            level0_stop: 36,
            background_bytes_per_second: None,
            parallel_reads: ParallelReads::Auto,
            read_threads: 32,
            slow_operation: None,
            create_if_missing: true,
            error_if_exists: false,
            read_only: false,
            control_socket: true,
            follow: false,
            follow_pinned: false,
            follow_every: None,
            update_table_bytes: 0,
            early_compaction: StaleTrigger::Share(0.5),
            scan_order: true,
            gc: GcOptions::default(),
            keyspace: KeyspaceOptions::default(),
        }
    }
}

/// Returns the most bytes that a memtable gets, where the process may use so many bytes of memory:
/// the default, or less, where it is less than the default wants, and else as many as is asked for.
fn most_memtable_bytes(memory_limit: Option<u64>) -> u64 {
    let default = KeyspaceOptions::default().memtable_bytes;
    let shrunk = memory::shrunk(default, memory_limit);
    if shrunk < default { shrunk.max(1) } else { u64::MAX }
}

/// The least bytes of indexes and filters that are kept in memory by default.
const DEFAULT_INDEX_AND_FILTER_BYTES: u64 = 256 << 20;
/// The longest allowed time between syncs, in seconds: a day.
const MAX_SYNC_SECONDS: u64 = 24 * 60 * 60;
/// The highest allowed `level0_stop`.
const MAX_LEVEL0: u64 = 10_000;
/// The highest cap on background writes, in bytes per second.
const MAX_RATE: u64 = 1 << 40;

/// Returns an error unless syncs come at least once a day.
pub(super) fn check_durability(durability: Durability) -> Result<()> {
    match durability {
        Durability::SyncEvery(time) if time > Duration::from_secs(MAX_SYNC_SECONDS) => {
            let most = MAX_SYNC_SECONDS;
            Err(Error::invalid_option(format!(
                "durability is {durability}, it must be from every:0s to every:{most}s"
            )))
        }
        _ => Ok(()),
    }
}

/// Returns an error if L0 would be compacted only after writers began to wait for that.
pub(super) fn check_level0(keyspace: &KeyspaceOptions, level0_stop: usize) -> Result<()> {
    within("level0_trigger", keyspace.level0_trigger as u64, 1, level0_stop as u64).map_err(
        |error| error.advise("raise level0_stop, the number of tables at which writers wait"),
    )
}

impl Options {
    /// Checks every field, alone and against the others. The error names the field, its value and
    /// its range.
    ///
    /// ```
    /// let options = cleavedb::Options { segment_bytes: 0, ..Default::default() };
    /// let error = options.validate().unwrap_err();
    /// assert_eq!(error.kind(), cleavedb::ErrorKind::InvalidOption);
    /// assert!(error.message().starts_with("segment_bytes is 0"));
    /// ```
    pub fn validate(&self) -> Result<()> {
        check_durability(self.durability)?;
        within("cache_bytes", self.cache_bytes, 0, 1 << 44)?;
        within("max_index_and_filter_bytes", self.index_and_filter_capacity(), 0, 1 << 44)?;
        within("pin_tree", self.pin_tree, 0, 1 << 44)?;
        within("max_replay_bytes", self.max_replay_bytes, 64 << 10, 1 << 40)?;
        within("segment_bytes", self.segment_bytes, 4 << 10, 4 << 30)?;
        within("write_buffer_bytes", self.write_buffer_bytes as u64, 1 << 10, 1 << 30)?;
        within("max_open_files", self.max_open_files as u64, 8, 1 << 20)?;
        within("compaction_threads", self.compaction_threads as u64, 1, 128)?;
        within("max_immutable_memtables", self.max_immutable_memtables as u64, 1, 1000)?;
        within("level0_slowdown", self.level0_slowdown as u64, 1, MAX_LEVEL0)?;
        let slowdown = self.level0_slowdown as u64;
        within("level0_stop", self.level0_stop as u64, slowdown, MAX_LEVEL0)?;
        within("read_threads", self.read_threads as u64, 1, 1024)?;
        let cap = self.background_bytes_per_second.unwrap_or(MAX_RATE);
        within("background_bytes_per_second", cap, 1 << 20, MAX_RATE)?;
        within("update_table_bytes", self.update_table_bytes, 0, 16 << 30)?;
        self.early_compaction.validate()?;
        self.gc.validate()?;
        self.keyspace.validate()?;
        check_level0(&self.keyspace, self.level0_stop)
    }

    /// Returns the bytes that indexes and filters may take in memory.
    pub(super) fn index_and_filter_capacity(&self) -> u64 {
        let least = memory::shrunk(DEFAULT_INDEX_AND_FILTER_BYTES, memory::limit());
        let default = self.cache_bytes.max(least);
        self.max_index_and_filter_bytes.unwrap_or(default)
    }

    /// Returns the limits at which writers are held up, where the process may use so many bytes of
    /// memory.
    pub(super) fn stall_limits(&self, memory_limit: Option<u64>) -> StallLimits {
        StallLimits {
            immutables: self.max_immutable_memtables,
            level0_slow: self.level0_slowdown,
            level0_full: self.level0_stop,
            replay_bytes: self.max_replay_bytes,
            unsynced: MOST_UNSYNCED,
            memtable_bytes: most_memtable_bytes(memory_limit),
        }
    }

    pub(super) fn os_settings(&self) -> OsSettings {
        OsSettings { parallel_reads: self.parallel_reads, read_threads: self.read_threads }
    }

    /// Returns the settings in force as text for people; it is written beside the manifest.
    pub(super) fn to_text(&self) -> String {
        format!(
            "{OPTIONS_HEAD} Changes here have no effect, except that\n\
             # the command cleave uses the settings of gc.\n\
             durability = {}\ncache_bytes = {}\nmax_index_and_filter_bytes = {}\n\
             pin_tree = {}\nmax_replay_bytes = {}\nsegment_bytes = {}\n\
             write_buffer_bytes = {}\nmapped_appends = {}\nmax_open_files = {}\n\
             compaction_threads = {}\nmax_immutable_memtables = {}\n\
             level0_slowdown = {}\nlevel0_stop = {}\n\
             background_bytes_per_second = {}\nread_threads = {}\n\
             control_socket = {}\n\
             update_table_bytes = {}\nearly_compaction = {}\n\
             scan_order = {}\n{}\n# of new keyspaces\n{}",
            self.durability,
            self.cache_bytes,
            self.index_and_filter_capacity(),
            self.pin_tree,
            self.max_replay_bytes,
            self.segment_bytes,
            self.write_buffer_bytes,
            self.mapped_appends,
            self.max_open_files,
            self.compaction_threads,
            self.max_immutable_memtables,
            self.level0_slowdown,
            self.level0_stop,
            self.background_bytes_per_second.map_or("none".into(), |cap| cap.to_string()),
            self.read_threads,
            self.control_socket,
            self.update_table_bytes,
            self.early_compaction,
            self.scan_order,
            self.gc.to_text(),
            self.keyspace.to_text()
        )
    }
}

/// The options of one write.
///
/// Every call that writes has a form that ends in `_with` and takes these. New options may be added
/// in any release, so they are set by chained calls.
///
/// ```
/// # let dir = cleavedb::doc_dir("write-options");
/// use cleavedb::{Durability, WriteOptions};
/// let db = cleavedb::open(&dir)?;
/// let synced = WriteOptions::new().durability(Durability::Sync);
/// db.default_keyspace().put_with("order:7", "paid", &synced)?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Durability of the write. `None` uses [`Options::durability`].
    pub durability: Option<Durability>,
    /// When what is put expires. `None` uses [`KeyspaceOptions::default_ttl`]. Only single puts
    /// take it; in a batch and in a transaction each put has its own.
    pub expiry: Option<Expiry>,
}

impl WriteOptions {
    /// Returns the defaults: the database's durability and the keyspace's time to live.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`WriteOptions::durability`]; `None` uses the database's.
    #[must_use]
    pub fn durability(mut self, durability: impl Into<Option<Durability>>) -> Self {
        self.durability = durability.into();
        self
    }

    /// Sets [`WriteOptions::expiry`], as a time span, as a time, or as [`Expiry::Never`].
    ///
    /// ```
    /// # let sessions = cleavedb::open(cleavedb::doc_dir("options-expiry"))?.default_keyspace();
    /// use cleavedb::{Durability, WriteOptions};
    /// use std::time::Duration;
    /// let hour = WriteOptions::new().expiry(Duration::from_secs(3600));
    /// sessions.put_with("s1", "Ada", &hour.durability(Durability::Sync))?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    #[must_use]
    pub fn expiry(mut self, expiry: impl Into<Expiry>) -> Self {
        self.expiry = Some(expiry.into());
        self
    }

    /// Returns an error if there is an expiry, for calls that do not put one value.
    pub(crate) fn check_no_expiry(&self) -> Result<()> {
        if self.expiry.is_none() {
            return Ok(());
        }
        Err(Error::invalid_argument("only a put of one value takes an expiry in its options")
            .advise("give each put of a batch or a transaction its own with put_expiring"))
    }
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

    /// Parses `buffered`, `os`, `sync` or `every:100ms` (also `s`).
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
        assert!(error.contains("level0_stop is 3, it must be from 20 to 10000"), "{error}");
        Options::default().validate().unwrap();
    }
}

//! The statistics of a database as plain data. [`gather`] takes them, [`text`] and [`json`] print
//! them.

mod gather;
mod json;
mod text;

pub(in crate::db) use json::{joined, quoted};

use crate::base::error::Error;

use crate::stats::{GcStats, Latencies, StallReason};
use std::time::Duration;

/// One level of one keyspace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LevelStats {
    /// Its tables.
    pub tables: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// How urgent its compaction is; from one on it is due.
    pub score: f64,
}

/// One keyspace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeyspaceStats {
    /// Its name.
    pub name: String,
    /// Its levels, L0 first.
    pub levels: Vec<LevelStats>,
    /// Entries in tables, old versions and tombstones included.
    pub table_entries: u64,
    /// Tombstones in tables.
    pub tombstones: u64,
    /// Bytes of memory that its memtables take.
    pub memtable_bytes: u64,
    /// Memtables that wait for their flush.
    pub immutable_memtables: u64,
}

/// One segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SegmentStats {
    /// Its id, as in its file's name.
    pub id: u64,
    /// Its length in bytes; 0 while it is written.
    pub bytes: u64,
    /// True once it is closed.
    pub sealed: bool,
    /// Records in it that tables reference.
    pub referenced_records: u64,
    /// Bytes of those.
    pub referenced_bytes: u64,
}

/// How often and how long writers were held up for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct StallStats {
    /// The rule.
    pub reason: StallReason,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub time: Duration,
}

macro_rules! stats {
    ($(#[$outer:meta])* { $($(#[$doc:meta])* $number:ident,)* }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Default)]
        #[non_exhaustive]
        pub struct Stats {
            /// The keyspaces, by name.
            pub keyspaces: Vec<KeyspaceStats>,
            /// The segments, by id.
            pub segments: Vec<SegmentStats>,
            /// How often and how long each rule held writers up.
            pub stalls: Vec<StallStats>,
            /// How long operations and background jobs took.
            pub latencies: Latencies,
            /// Why background work can't go on, or value GC can't free something, for as long as
            /// that lasts.
            pub background_error: Option<Error>,
            /// What the disk is short of, if puts are refused for that.
            pub low_on_space: Option<String>,
            /// Why the database is read-only, if an error made it so.
            pub read_only_because: Option<Error>,
            /// How separated values are read at once: "threads", "io_uring" or "one by one".
            pub parallel_reads: &'static str,
            /// Age of the oldest live snapshot; zero if there is none.
            pub oldest_snapshot: Duration,
            /// What value GC did.
            pub gc: GcStats,
            $($(#[$doc])* pub $number: u64,)*
        }

        impl Stats {
            /// Every number by the name of its field, those of value GC included.
            pub fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> {
                let own = [$((stringify!($number), self.$number),)*];
                own.into_iter().chain(self.gc.numbers())
            }
        }
    };
}

stats! {
    /// The state of a database and what it did since it was opened. Counts begin at 0 with each
    /// opening.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("stats");
    /// let db = cleavedb::open(&dir)?;
    /// db.default_keyspace().put("a", "1")?;
    /// let stats = db.stats();
    /// assert_eq!(stats.entries_written, 1);
    /// assert!(stats.to_json().contains("\"entries_written\":1"));
    /// println!("{stats}");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    {
        /// Commits: single writes and batches.
        commits,
        /// Entries written by users.
        entries_written,
        /// Deletions among them.
        deletes_written,
        /// Bytes of keys and values put, as they are stored: values after compression.
        put_bytes_stored,
        /// Bytes of keys and values written by users.
        user_bytes_written,
        /// Bytes written to the log, segment heads excluded.
        log_bytes_written,
        /// Syncs of log segments.
        log_syncs,
        /// Log segments begun.
        log_rotations,
        /// Memtables written to L0.
        flushes,
        /// Bytes of tables that flushes wrote.
        flush_bytes_written,
        /// Compactions that rewrote tables.
        compactions,
        /// Tables that went a level down without being rewritten.
        trivial_moves,
        /// Bytes of tables that compactions read.
        compaction_bytes_read,
        /// Bytes of tables, and of values put in order, that compactions wrote.
        compaction_bytes_written,
        /// Bytes of manifests written.
        manifest_bytes_written,
        /// Entries that flushes and compactions dropped, as no read could see them.
        entries_dropped,
        /// Point reads.
        gets,
        /// Point reads that found a value.
        gets_found,
        /// Reads of separated values from segments.
        value_reads,
        /// Bytes of separated values read from segments.
        value_bytes_read,
        /// Separated values that a scan had fetched before they were asked for.
        prefetched_values,
        /// Reads of table blocks from files.
        block_reads,
        /// Bytes of table blocks read from files.
        block_bytes_read,
        /// Segments that went as a whole, since nothing in them was live.
        segments_dropped,
        /// Files unlinked.
        files_removed,
        /// Writes refused because they would use the reserve of a nearly full disk.
        writes_refused_for_space,
        /// Bytes of that reserve.
        disk_reserve_bytes,
        /// Background jobs that failed.
        background_errors,
        /// Bytes of log that recovery would have to replay now.
        replay_bytes,
        /// Bytes of memory that filters and indexes of open tables take.
        pinned_bytes,
        /// Bytes of memory that cached blocks take.
        cache_bytes,
        /// Freed segments that pointers in tables still name.
        relocations,
        /// Bytes of the files that say where their records went.
        relocation_bytes,
        /// Live snapshots.
        snapshots,
        /// Records that the opening replayed.
        recovery_replayed_records,
        /// Bytes of log that it read for that.
        recovery_replayed_bytes,
        /// Bytes that a crash had torn off the end of the log.
        recovery_torn_bytes,
        /// Files that a crash had left behind, and that the opening removed.
        recovery_orphans_removed,
        /// The limit of background writes in force now, in bytes a second; 0 if there is none.
        background_limit_bytes_per_second,
        /// Table blocks found in the cache.
        cache_hits,
        /// Table blocks that were not.
        cache_misses,
        /// Bytes that the cache may take.
        cache_capacity_bytes,
        /// Bytes that the memtables of all keyspaces may take before writers wait.
        memtable_capacity_bytes,
        /// Filters asked whether a key may be there.
        filter_checks,
        /// Times that a filter ruled a key out.
        filter_useful,
        /// Times that a filter let a key pass that was not there.
        filter_false_positives,
    }
}

impl Stats {
    /// Bytes written by all purposes for each byte that users wrote since the opening; 0 before
    /// they wrote any.
    pub fn write_amplification(&self) -> f64 {
        let written = self.log_bytes_written
            + self.flush_bytes_written
            + self.compaction_bytes_written
            + self.gc.bytes_written()
            + self.manifest_bytes_written;
        match self.user_bytes_written {
            0 => 0.0,
            by_users => written as f64 / by_users as f64,
        }
    }

    /// Bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        self.keyspaces.iter().flat_map(|keyspace| &keyspace.levels).map(|level| level.bytes).sum()
    }

    /// Bytes of all closed segments.
    pub fn segment_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }
}

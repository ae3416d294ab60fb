//! The statistics of a database as plain data. [`gather`] collects them, [`text`] and [`json`]
//! print them.

mod gather;
mod json;
mod metrics;
mod text;

use crate::base::error::Error;
use crate::stats::{GcStats, Latencies, StallReason};
use crate::version::settings::Separation;
use std::time::Duration;

/// The statistics of one level of one keyspace; [`Stats`] has an example.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LevelStats {
    /// Number of tables.
    pub tables: u64,
    /// Bytes of the tables' files.
    pub bytes: u64,
    /// The urgency of the level's compaction; from 1.0 on it is due.
    pub score: f64,
}

/// The statistics of one keyspace; [`Stats`] has an example.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// The keyspace's name.
    pub name: String,
    /// The levels, L0 first.
    pub levels: Vec<LevelStats>,
    /// Entries in tables, old versions and tombstones included.
    pub table_entries: u64,
    /// Tombstones in tables.
    pub tombstones: u64,
    /// Range tombstones that may hide something in tables. Those in memtables do not count.
    pub range_tombstones: u64,
    /// Bytes of memory that the memtables take.
    pub memtable_bytes: u64,
    /// Number of memtables that wait for their flush.
    pub immutable_memtables: u64,
    /// When values are separated: the policy of the settings, or what
    /// [`Separation::Auto`] stands for at the moment.
    pub separation: Separation,
    /// True if the engine has chosen that. Values of 32 KiB and more are separated at write then,
    /// whatever it has chosen for the others.
    pub is_separation_chosen: bool,
    /// The name of the reason for the engine's choice, if it chooses: `log_spared`, `log_kept`,
    /// `scanned` or `delayed`, as in [`Event::SeparationChosen`](crate::Event::SeparationChosen).
    pub separation_reason: Option<&'static str>,
    /// Bytes of values that were flushed when that choice was made or confirmed last, earlier ones
    /// counted half; 0 before the first choice. To write so much is what order for scans costs.
    pub separation_written_bytes: u64,
    /// Those of them whose log the device was spared, or would have been at flush.
    pub separation_spared_bytes: u64,
    /// What reads would have cost scans if all values had been strewn, in bytes that could have
    /// been moved in that time.
    pub separation_scanned_bytes: u64,
    /// What reads of strewn values did cost scans, likewise.
    pub separation_waste_bytes: u64,
    /// Bytes of the records, and of inline values of 256 bytes and more, that were put in the same
    /// time. What newer ones hid before the flush was not written.
    pub separation_put_bytes: u64,
    /// Those of them that were put while writers felt the delays for space.
    pub separation_delayed_bytes: u64,
    /// Those of them that memtables absorb, or would absorb if they had all values. Where operands
    /// are merged, all count.
    pub separation_absorbed_bytes: u64,
}

/// The statistics of one segment, an item of [`Stats::segments`].
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SegmentStats {
    /// The segment's id, which is part of its file name.
    pub id: u64,
    /// Length in bytes; 0 while it is being written.
    pub bytes: u64,
    /// True once the segment is sealed.
    pub sealed: bool,
    /// Number of records that tables refer to.
    pub referenced_records: u64,
    /// Bytes of those records.
    pub referenced_bytes: u64,
}

/// The count and time of write stalls for one reason; [`Stats`] has an example.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StallStats {
    /// The rule that caused the stalls.
    pub reason: StallReason,
    /// Number of stalls.
    pub count: u64,
    /// Total time of the stalls.
    pub time: Duration,
}

macro_rules! stats {
    ($(#[$outer:meta])* { $($(#[doc = $doc:literal])* $number:ident,)* }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Default)]
        #[non_exhaustive]
        pub struct Stats {
            /// The keyspaces, by name.
            pub keyspaces: Vec<KeyspaceStats>,
            /// The segments, by id.
            pub segments: Vec<SegmentStats>,
            /// Count and time of write stalls for each rule.
            pub stalls: Vec<StallStats>,
            /// Latencies of operations and background jobs.
            pub latencies: Latencies,
            /// The reason why background work can't go on, or value GC can't free something, for as
            /// long as that lasts.
            pub background_error: Option<Error>,
            /// The shortage of disk space for which puts are refused; `None` if they are not.
            pub low_on_space: Option<String>,
            /// The error that made the database read-only, if one did.
            pub read_only_because: Option<Error>,
            /// The way in which several separated values are read at once: "threads", "io_uring" or
            /// "one by one".
            pub parallel_reads: &'static str,
            /// Age of the oldest live snapshot; zero if there is none.
            pub oldest_snapshot: Duration,
            /// The work of value GC.
            pub gc: GcStats,
            $($(#[doc = $doc])* pub $number: u64,)*
        }

        impl Stats {
            /// Returns every number with the name of its field, those of value GC included.
            pub fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> {
                self.described().map(|(name, value, _)| (name, value))
            }

            /// Returns every number with the name of its field, and what it means.
            fn described(&self) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
                let own = [$((stringify!($number), self.$number, concat!($($doc),*)),)*];
                own.into_iter().chain(self.gc.described())
            }
        }
    };
}

stats! {
    /// The state of a database and what it did since it was opened. Counters begin at 0 with each
    /// opening.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("stats");
    /// let db = cleavedb::open(&dir)?;
    /// db.default_keyspace().put("a", "1")?;
    /// let stats = db.stats();
    /// assert_eq!(stats.entries_written, 1);
    /// println!("{:.2} bytes written per byte of users", stats.write_amplification());
    /// println!("{} bytes of tables, {} of segments", stats.table_bytes(), stats.segment_bytes());
    /// for keyspace in &stats.keyspaces {
    ///     for (number, level) in keyspace.levels.iter().enumerate() {
    ///         println!("{} L{number}: {} tables", keyspace.name, level.tables);
    ///     }
    /// }
    /// for stall in stats.stalls.iter().filter(|stall| stall.count > 0) {
    ///     println!("writes stalled: {}, {:?}", stall.reason.name(), stall.time);
    /// }
    /// for (name, latency) in stats.latencies.all() {
    ///     println!("{name}: {latency}");
    /// }
    /// // Every counter by name, for a monitoring system.
    /// for (name, number) in stats.numbers() {
    ///     println!("cleavedb_{name} {number}");
    /// }
    /// // All of it as text for people, and as JSON.
    /// println!("{stats}");
    /// assert!(stats.to_json().contains("\"entries_written\":1"));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    {
        /// Commits: single writes and batches.
        commits,
        /// Entries written by users.
        entries_written,
        /// Deletions among the entries written by users.
        deletes_written,
        /// Bytes of keys and values put, as they are stored: values after compression.
        put_bytes_stored,
        /// Bytes of keys and values written by users.
        user_bytes_written,
        /// Bytes written to the log, segment heads excluded.
        log_bytes_written,
        /// Those of these bytes that a flush had replaced before anything synced them, so that the
        /// device was spared them, but for `log_bytes_written_back`.
        log_bytes_spared,
        /// Those of the bytes spared that the system had written before their file was removed, as
        /// it does when it lacks memory, and as the engine asks it to for a while after a commit
        /// that asked for a sync. It tells on Linux only.
        log_bytes_written_back,
        /// Syncs of log segments.
        log_syncs,
        /// Log segments begun.
        log_rotations,
        /// Memtables flushed to L0.
        flushes,
        /// Bytes of tables, and of values separated at flush, that flushes wrote.
        flush_bytes_written,
        /// Compactions that rewrote tables.
        compactions,
        /// Tables that went a level down without being rewritten.
        trivial_moves,
        /// Bytes of tables that compactions read.
        compaction_bytes_read,
        /// Bytes that compactions wrote: tables, and values that they put in key order.
        compaction_bytes_written,
        /// Bytes of manifests written.
        manifest_bytes_written,
        /// Entries that flushes and compactions dropped because no read could see them.
        entries_dropped,
        /// Point reads.
        gets,
        /// Point reads that found a value.
        gets_found,
        /// Reads of separated values from segments.
        value_reads,
        /// Bytes of separated values read from segments.
        value_bytes_read,
        /// Separated values that a scan had fetched before they were read.
        prefetched_values,
        /// Reads that fetched these; values in order share one.
        prefetch_reads,
        /// What the reads that ordered values would have saved have cost scans lately, and no job
        /// was paid with: the bytes that a device moves in about that time.
        scan_cost_bytes,
        /// Ranges of keys in which scans found values strewn, and no job was paid with it yet;
        /// [`Keyspace::scan_costs`](crate::Keyspace::scan_costs) has them.
        scan_cost_ranges,
        /// Jobs that put values in key order because scans had found them strewn.
        scan_orders,
        /// Bytes of values that these wrote; they are among those that compactions wrote.
        scan_order_bytes_written,
        /// The time that these took, in nanoseconds.
        scan_order_nanos,
        /// Reads of table blocks from files.
        block_reads,
        /// Bytes of table blocks read from files.
        block_bytes_read,
        /// Segments dropped as a whole because nothing in them was live.
        segments_dropped,
        /// Files unlinked.
        files_removed,
        /// Transactions, and batches with requirements, refused because others had written what
        /// they rely on, and repetitions of other conditional writes for that reason.
        conflicts,
        /// Searches in the tree for what others had written, because it was not in memory any more.
        conflict_searches,
        /// Ingests that took effect.
        ingests,
        /// Entries that ingests brought.
        entries_ingested,
        /// Bytes of tables and of separated values that ingests wrote.
        ingest_bytes_written,
        /// Writes refused because they would use the reserve of a nearly full disk.
        writes_refused_for_space,
        /// Bytes of the disk that puts leave to deletions and to what makes room.
        disk_reserve_bytes,
        /// Background jobs that failed.
        background_errors,
        /// Bytes of log that recovery would have to replay now.
        replay_bytes,
        /// Bytes of memory that indexes and filters of open tables and directories of open
        /// relocations take, those included that readers hold beyond the capacity.
        index_and_filter_bytes,
        /// Bytes that indexes, filters and directories may take, but for those that readers hold.
        index_and_filter_capacity_bytes,
        /// Bytes of memory that pinned tables take (`Options::pin_tree`), those included that only
        /// their readers still hold. They count neither as cached blocks nor among indexes and
        /// filters.
        pinned_tree_bytes,
        /// Bytes that pinned tables may take; 0 if the tree is not pinned.
        pinned_tree_capacity_bytes,
        /// Tables of the tree that are pinned.
        pinned_tables,
        /// Tables of the tree that are not pinned, because they do not fit or are yet to be loaded.
        unpinned_tables,
        /// Tables of the tree that are not pinned because they could not be read. A read of the
        /// same block fails, too, if it is damaged.
        unreadable_unpinned_tables,
        /// About how many bytes the capacity of pinned tables lacks for those that are not pinned.
        pinned_tree_missing_bytes,
        /// Tables that did not fit in the pinned tree, and were given up while they were loaded.
        pinned_tree_refusals,
        /// Keys whose newest entry the update table knows.
        update_table_keys,
        /// Bytes of memory that the update table takes.
        update_table_bytes,
        /// Bytes that the update table may take; 0 if it is switched off.
        update_table_capacity_bytes,
        /// Keys that the update table forgot to make room for others.
        update_table_evictions,
        /// Point reads that asked the update table, for keys that no memtable had.
        update_table_lookups,
        /// Point reads that found their entry in the table that the update table named.
        short_cut_reads,
        /// Entries that compactions dropped because the update table knew a newer one elsewhere.
        superseded_entries_dropped,
        /// Bytes of these entries: of their keys, and of their values, separated ones included.
        superseded_bytes_dropped,
        /// Compactions of tables because much of them was stale.
        early_compactions,
        /// Entries that compaction filters were asked about.
        entries_filtered,
        /// Entries that compaction filters dropped.
        filtered_entries_dropped,
        /// Entries whose value compaction filters changed.
        filtered_entries_changed,
        /// Tables and relocations opened, which means that their indexes, filters and directories
        /// were read.
        table_opens,
        /// Tables and relocations whose indexes, filters and directories were dropped from memory
        /// to make room for others.
        table_evictions,
        /// Bytes of memory that cached blocks take.
        cache_bytes,
        /// Relocations: freed segments that pointers in tables still name.
        relocations,
        /// Bytes of relocation files.
        relocation_bytes,
        /// Live snapshots.
        snapshots,
        /// Records that the opening replayed.
        recovery_replayed_records,
        /// Bytes of log that the opening read to replay records.
        recovery_replayed_bytes,
        /// Bytes of the torn tail that a crash left at the end of the log.
        recovery_torn_bytes,
        /// Files that a crash left behind and the opening removed.
        recovery_orphans_removed,
        /// The present limit of background writes, in bytes per second; 0 if there is none.
        background_limit_bytes_per_second,
        /// Table blocks found in the cache.
        cache_hits,
        /// Table blocks not found in the cache.
        cache_misses,
        /// Bytes that the cache may take.
        cache_capacity_bytes,
        /// Bytes that the memtables of all keyspaces may take before writers wait.
        memtable_capacity_bytes,
        /// Checks of a filter for a key.
        filter_checks,
        /// Filter checks that ruled the key out.
        filter_useful,
        /// Filter checks that let a key pass that was not there.
        filter_false_positives,
    }
}

impl Stats {
    /// Returns the bytes of the log that the device was given, or will be.
    pub(super) fn log_bytes_on_device(&self) -> u64 {
        let spared = self.log_bytes_spared.saturating_sub(self.log_bytes_written_back);
        self.log_bytes_written.saturating_sub(spared)
    }

    /// Returns the bytes written for all purposes per byte that users wrote since the opening, or 0
    /// before they wrote any. What an ingest writes counts as written by users, too, and what the
    /// device was spared of the log does not count.
    pub fn write_amplification(&self) -> f64 {
        let written = self.log_bytes_on_device()
            + self.ingest_bytes_written
            + self.flush_bytes_written
            + self.compaction_bytes_written
            + self.gc.bytes_written()
            + self.manifest_bytes_written;
        match self.user_bytes_written + self.ingest_bytes_written {
            0 => 0.0,
            by_users => written as f64 / by_users as f64,
        }
    }

    /// Returns the bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        self.keyspaces.iter().flat_map(|keyspace| &keyspace.levels).map(|level| level.bytes).sum()
    }

    /// Returns the bytes of records in segments that tables refer to.
    fn referenced_bytes(&self) -> u64 {
        // I7: the numbers are from files.
        let bytes = self.segments.iter().map(|segment| segment.referenced_bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the bytes of all sealed segments.
    pub fn segment_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }
}

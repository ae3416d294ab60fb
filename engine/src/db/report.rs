//! What the database did and is: numbers as plain data, as a table, and as JSON.

use crate::base::size::sized;
use crate::db::Db;
use crate::stats::{GcStats, StallReason};
use crate::version::levels::LEVELS;
use std::fmt::{self, Write};
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
    /// The rule's name.
    pub reason: &'static str,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub time: Duration,
}

/// The state of a database and what it did since it was opened.
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
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// The keyspaces, by name.
    pub keyspaces: Vec<KeyspaceStats>,
    /// The segments, by id.
    pub segments: Vec<SegmentStats>,
    /// Why and how long writers were held up.
    pub stalls: Vec<StallStats>,
    /// Why background work can't go on, or value GC can't free something, as long as that lasts.
    pub background_error: Option<String>,
    /// What the disk is short of, if puts are refused for that.
    pub low_on_space: Option<String>,
    /// Why the database is read-only, if it is.
    pub read_only_because: Option<String>,
    /// How many separated values are read at once: "threads", "io_uring" or "one by one".
    pub parallel_reads: &'static str,
    /// Live snapshots.
    pub snapshots: u64,
    /// Age of the oldest.
    pub oldest_snapshot: Duration,
    /// What value GC did.
    pub gc: GcStats,
    numbers: Vec<(&'static str, u64)>,
    /// Entries written by users since the opening.
    pub entries_written: u64,
    /// Bytes of keys and values written by users since the opening.
    pub user_bytes_written: u64,
    /// Bytes written to the log, segment heads excluded.
    pub log_bytes_written: u64,
    /// Bytes of tables that flushes wrote.
    pub flush_bytes_written: u64,
    /// Bytes of tables that compactions read.
    pub compaction_bytes_read: u64,
    /// Bytes of tables that compactions wrote.
    pub compaction_bytes_written: u64,
    /// Bytes of manifests written.
    pub manifest_bytes_written: u64,
    /// Reads of separated values.
    pub value_reads: u64,
    /// Bytes of those.
    pub value_bytes_read: u64,
    /// Reads of table blocks from files.
    pub block_reads: u64,
    /// Bytes of those.
    pub block_bytes_read: u64,
    /// Bytes of log that recovery would have to replay now.
    pub replay_bytes: u64,
    /// Bytes of memory that filters and indexes of open tables take.
    pub pinned_bytes: u64,
    /// Bytes of memory that cached blocks take.
    pub cache_bytes: u64,
    /// Freed segments that pointers in tables still name, and are led on from.
    pub relocations: u64,
    /// Bytes of the files that say to where.
    pub relocation_bytes: u64,
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

    /// Every count by its name.
    pub fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.numbers.iter().copied()
    }

    /// As one JSON object.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        for (name, value) in &self.numbers {
            let _ = write!(json, "{}:{value},", quoted(name));
        }
        let _ = write!(json, "\"write_amplification\":{:.4},", self.write_amplification());
        let _ = write!(json, "\"parallel_reads\":{},", quoted(self.parallel_reads));
        let text = |text: &Option<String>| text.as_ref().map_or("null".into(), |t| quoted(t));
        let _ = write!(json, "\"background_error\":{},", text(&self.background_error));
        let _ = write!(json, "\"low_on_space\":{},", text(&self.low_on_space));
        let _ = write!(json, "\"read_only_because\":{},", text(&self.read_only_because));
        let stalls = self.stalls.iter().map(|stall| {
            let seconds = stall.time.as_secs_f64();
            format!(
                "{}:{{\"count\":{},\"seconds\":{seconds:.6}}}",
                quoted(stall.reason),
                stall.count
            )
        });
        let _ = write!(json, "\"stalls\":{{{}}},", joined(stalls));
        let keyspaces = self.keyspaces.iter().map(keyspace_json);
        let _ = write!(json, "\"keyspaces\":[{}],", joined(keyspaces));
        let segments = self.segments.iter().map(|segment| {
            format!(
                "{{\"id\":{},\"bytes\":{},\"sealed\":{},\"referenced_records\":{},\
                 \"referenced_bytes\":{}}}",
                segment.id,
                segment.bytes,
                segment.sealed,
                segment.referenced_records,
                segment.referenced_bytes
            )
        });
        let _ = write!(json, "\"segments\":[{}]}}", joined(segments));
        json
    }
}

fn keyspace_json(keyspace: &KeyspaceStats) -> String {
    let levels = keyspace.levels.iter().map(|level| {
        let LevelStats { tables, bytes, score } = level;
        format!("{{\"tables\":{tables},\"bytes\":{bytes},\"score\":{score:.3}}}")
    });
    format!(
        "{{\"name\":{},\"table_entries\":{},\"tombstones\":{},\"memtable_bytes\":{},\
         \"immutable_memtables\":{},\"levels\":[{}]}}",
        quoted(&keyspace.name),
        keyspace.table_entries,
        keyspace.tombstones,
        keyspace.memtable_bytes,
        keyspace.immutable_memtables,
        joined(levels)
    )
}

pub(super) fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

/// A JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

impl fmt::Display for StallStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StallStats { reason, count, time } = self;
        write!(f, "stall {reason}: {count} times, {:.3} s", time.as_secs_f64())
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for keyspace in &self.keyspaces {
            writeln!(
                f,
                "keyspace {}: {} entries in tables ({} tombstones), memtables {} ({} waiting)",
                keyspace.name,
                keyspace.table_entries,
                keyspace.tombstones,
                sized(keyspace.memtable_bytes),
                keyspace.immutable_memtables
            )?;
            for (number, level) in keyspace.levels.iter().enumerate() {
                if level.tables > 0 {
                    let bytes = sized(level.bytes);
                    let LevelStats { tables, score, .. } = level;
                    writeln!(f, "  L{number}  {tables:>6} tables  {bytes:>10}  score {score:.2}")?;
                }
            }
        }
        let closed = self.segments.iter().filter(|segment| segment.sealed).count();
        let referenced: u64 = self.segments.iter().map(|segment| segment.referenced_bytes).sum();
        writeln!(
            f,
            "segments: {closed} closed, {}, of which tables reference {}; {} to replay",
            sized(self.segment_bytes()),
            sized(referenced),
            sized(self.replay_bytes)
        )?;
        writeln!(
            f,
            "written: {} by users, {} log, {} flush, {} compaction, {} value GC, {} manifest: \
             amplification {:.2}",
            sized(self.user_bytes_written),
            sized(self.log_bytes_written),
            sized(self.flush_bytes_written),
            sized(self.compaction_bytes_written),
            sized(self.gc.bytes_written()),
            sized(self.manifest_bytes_written),
            self.write_amplification()
        )?;
        writeln!(
            f,
            "read: {} values ({}), {} table blocks ({}), {} by compaction; parallel reads: {}",
            self.value_reads,
            sized(self.value_bytes_read),
            self.block_reads,
            sized(self.block_bytes_read),
            sized(self.compaction_bytes_read),
            self.parallel_reads
        )?;
        writeln!(
            f,
            "memory: cache {}, filters and indexes {}; {} snapshots, the oldest {:.1} s old",
            sized(self.cache_bytes),
            sized(self.pinned_bytes),
            self.snapshots,
            self.oldest_snapshot.as_secs_f64()
        )?;
        writeln!(f, "value GC: {}", self.gc)?;
        self.fmt_exceptions(f)
    }
}

impl Stats {
    /// What is there to tell in some databases only.
    fn fmt_exceptions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.relocations > 0 {
            let (count, bytes) = (self.relocations, sized(self.relocation_bytes));
            writeln!(f, "relocations: {count} freed segments are still named, {bytes}")?;
        }
        self.stalls.iter().try_for_each(|stall| writeln!(f, "{stall}"))?;
        if let Some(error) = &self.background_error {
            writeln!(f, "background work waits: {error}")?;
        }
        if let Some(matter) = &self.low_on_space {
            writeln!(f, "puts are refused: {matter}")?;
        }
        if let Some(cause) = &self.read_only_because {
            writeln!(f, "read-only: {cause}")?;
        }
        Ok(())
    }
}

impl Db {
    /// What the database did since it was opened, and what it is now. Costs no I/O.
    pub fn stats(&self) -> Stats {
        let core = &self.core;
        let tables = core.set.tables().stats.counts();
        let cache = core.set.tables().cache.stats();
        let (snapshots, oldest) = core.snapshots.summary();
        let now = core.env.clock.now();
        let reserve = &core.stall_controller.reserve;
        let (counters, version) = (&core.counters, core.set.current());
        let mut stats = Stats {
            keyspaces: self.keyspace_stats(),
            segments: self.segment_stats(),
            stalls: stall_stats(counters.stalls()),
            background_error: core.background.error().map(|error| error.to_string()),
            low_on_space: reserve.is_low().then(|| reserve.describe()),
            read_only_because: core.health.cause().map(|error| error.to_string()),
            parallel_reads: core.env.reader.name(),
            snapshots: snapshots as u64,
            oldest_snapshot: oldest.map_or(Duration::ZERO, |taken| now.saturating_sub(taken)),
            gc: counters.gc.read(),
            entries_written: counters.entries_written.get(),
            user_bytes_written: counters.user_bytes_written.get(),
            log_bytes_written: counters.log_bytes_written.get(),
            flush_bytes_written: counters.flush_bytes_written.get(),
            compaction_bytes_read: counters.compaction_bytes_read.get(),
            compaction_bytes_written: counters.compaction_bytes_written.get(),
            manifest_bytes_written: core.set.manifest_bytes(),
            value_reads: counters.value_reads.get(),
            value_bytes_read: counters.value_bytes_read.get(),
            block_reads: tables.block_reads,
            block_bytes_read: tables.block_read_bytes,
            replay_bytes: core.stall_controller.backlog(),
            pinned_bytes: self.pinned_bytes(),
            cache_bytes: cache.bytes,
            relocations: version.relocations.len() as u64,
            relocation_bytes: version.relocations.values().map(|it| it.meta.bytes).sum(),
            numbers: Vec::new(),
        };
        stats.numbers = self.numbers(&stats);
        stats.numbers.extend(stats.gc.numbers());
        stats.numbers.extend([
            ("background_limit_bytes_per_second", core.budget.limit().unwrap_or(0)),
            ("cache_hits", cache.hits),
            ("cache_misses", cache.misses),
            ("cache_capacity_bytes", core.options.cache_bytes),
            ("memtable_capacity_bytes", self.memtable_capacity_bytes()),
            ("filter_checks", tables.filter_checks),
            ("filter_useful", tables.filter_useful),
            ("filter_false_positives", tables.filter_false_positives),
        ]);
        stats
    }

    fn numbers(&self, stats: &Stats) -> Vec<(&'static str, u64)> {
        let counters = &self.core.counters;
        let recovery = &self.core.recovered;
        vec![
            ("commits", counters.commits.get()),
            ("entries_written", stats.entries_written),
            ("deletes_written", counters.deletes_written.get()),
            ("put_bytes_stored", counters.put_bytes_stored.get()),
            ("user_bytes_written", stats.user_bytes_written),
            ("log_bytes_written", stats.log_bytes_written),
            ("log_syncs", counters.log_syncs.get()),
            ("log_rotations", counters.log_rotations.get()),
            ("flushes", counters.flushes.get()),
            ("flush_bytes_written", stats.flush_bytes_written),
            ("compactions", counters.compactions.get()),
            ("trivial_moves", counters.trivial_moves.get()),
            ("compaction_bytes_read", stats.compaction_bytes_read),
            ("compaction_bytes_written", stats.compaction_bytes_written),
            ("manifest_bytes_written", stats.manifest_bytes_written),
            ("entries_dropped", counters.entries_dropped.get()),
            ("gets", counters.gets.get()),
            ("gets_found", counters.gets_found.get()),
            ("value_reads", stats.value_reads),
            ("value_bytes_read", stats.value_bytes_read),
            ("prefetched_values", counters.prefetched_values.get()),
            ("block_reads", stats.block_reads),
            ("block_bytes_read", stats.block_bytes_read),
            ("segments_dropped", counters.segments_dropped.get()),
            ("files_removed", counters.files_removed.get()),
            ("writes_refused_for_space", counters.writes_refused_for_space.get()),
            ("disk_reserve_bytes", self.core.stall_controller.reserve.found().reserve()),
            ("background_errors", counters.background_errors.get()),
            ("replay_bytes", stats.replay_bytes),
            ("pinned_bytes", stats.pinned_bytes),
            ("cache_bytes", stats.cache_bytes),
            ("relocations", stats.relocations),
            ("relocation_bytes", stats.relocation_bytes),
            ("snapshots", stats.snapshots),
            ("recovery_replayed_records", recovery.replayed_records),
            ("recovery_replayed_bytes", recovery.replayed_bytes),
            ("recovery_torn_bytes", recovery.torn_bytes),
            ("recovery_orphans_removed", recovery.orphans_removed),
        ]
    }

    /// What the memtables of all keyspaces may take together before writers wait.
    fn memtable_capacity_bytes(&self) -> u64 {
        let count = 1 + self.core.options.max_immutable_memtables as u64;
        self.core.states().iter().map(|keyspace| keyspace.options().memtable_bytes * count).sum()
    }

    fn pinned_bytes(&self) -> u64 {
        let pinned = |keyspace: &std::sync::Arc<crate::version::view::KeyspaceState>| -> u64 {
            keyspace.view().levels.tables().map(|(_, table)| table.pinned_bytes()).sum()
        };
        let version = self.core.set.current();
        let relocations: u64 = version.relocations.values().map(|it| it.pinned_bytes()).sum();
        relocations + self.core.states().iter().map(pinned).sum::<u64>()
    }

    fn keyspace_stats(&self) -> Vec<KeyspaceStats> {
        let mut all = Vec::new();
        for keyspace in self.core.states() {
            let view = keyspace.view();
            let options = keyspace.options().clone();
            let scores = crate::compaction::picker::scores(&view.levels, &options);
            let level = |level: usize| LevelStats {
                tables: view.levels.level(level).len() as u64,
                bytes: view.levels.bytes(level),
                score: scores[level],
            };
            let sum = |count: fn(&crate::table::Summary) -> u64| {
                view.levels.tables().map(|(_, table)| count(&table.meta.summary)).sum()
            };
            all.push(KeyspaceStats {
                name: keyspace.name.clone(),
                levels: (0..LEVELS).map(level).collect(),
                table_entries: sum(|summary| summary.entries),
                tombstones: sum(|summary| summary.tombstones),
                memtable_bytes: view.memtables().map(|memtable| memtable.bytes()).sum(),
                immutable_memtables: view.immutables.len() as u64,
            });
        }
        all
    }

    fn segment_stats(&self) -> Vec<SegmentStats> {
        let version = self.core.set.current();
        let segment = |(id, live): (&crate::base::pointer::SegmentId, _)| {
            let live: &crate::version::LiveSegment = live;
            let used = version.uses.of(*id);
            SegmentStats {
                id: id.0,
                bytes: live.sealed.unwrap_or(0),
                sealed: live.sealed.is_some(),
                referenced_records: used.count,
                referenced_bytes: used.bytes,
            }
        };
        version.segments.iter().map(segment).collect()
    }
}

fn stall_stats(stalls: impl Iterator<Item = (StallReason, u64, Duration)>) -> Vec<StallStats> {
    stalls.map(|(reason, count, time)| StallStats { reason: reason.name(), count, time }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_strings_are_escaped() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}

//! Prints statistics as text for people.

use super::{LevelStats, StallStats, Stats};
use crate::base::size::sized;
use std::fmt;

impl fmt::Display for StallStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StallStats { reason, count, time } = self;
        let reason = reason.name();
        write!(f, "stall {reason}: {count} times, {:.3} s", time.as_secs_f64())
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for keyspace in &self.keyspaces {
            writeln!(
                f,
                "keyspace {}: {} entries in tables ({} tombstones, {} of ranges), memtables {} \
                 ({} waiting)",
                keyspace.name,
                keyspace.table_entries,
                keyspace.tombstones,
                keyspace.range_tombstones,
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
        self.fmt_memory(f)?;
        writeln!(f, "value GC: {}", self.gc)?;
        self.fmt_exceptions(f)
    }
}

impl Stats {
    /// Prints what is in memory.
    fn fmt_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "memory: cache {}, indexes and filters {} of {}; {} snapshots, the oldest {:.1} s old",
            sized(self.cache_bytes),
            sized(self.index_and_filter_bytes),
            sized(self.index_and_filter_capacity_bytes),
            self.snapshots,
            self.oldest_snapshot.as_secs_f64()
        )?;
        self.fmt_pinned_tree(f)?;
        writeln!(
            f,
            "update table: {} keys in {} of {}; {} of {} reads took the short cut; {} superseded \
             entries dropped, {} early compactions",
            self.update_table_keys,
            sized(self.update_table_bytes),
            sized(self.update_table_capacity_bytes),
            self.short_cut_reads,
            self.update_table_lookups,
            self.superseded_entries_dropped,
            self.early_compactions
        )
    }

    /// Prints how much of the tree is pinned, if any of it may be.
    fn fmt_pinned_tree(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pinned_tree_capacity_bytes == 0 {
            return Ok(());
        }
        let (used, bound) = (self.pinned_tree_bytes, self.pinned_tree_capacity_bytes);
        let (pinned, left) = (self.pinned_tables, self.unpinned_tables);
        write!(f, "tree in memory: {pinned} tables, {} of {}", sized(used), sized(bound))?;
        if left > 0 && self.pinned_tree_missing_bytes > 0 {
            let missing = sized(self.pinned_tree_missing_bytes);
            write!(f, "; {left} do not fit, about {missing} more would be needed")?;
        } else if left > 0 {
            write!(f, "; {left} are not loaded")?;
        }
        if self.unreadable_unpinned_tables > 0 {
            write!(f, "; {} could not be read", self.unreadable_unpinned_tables)?;
        }
        writeln!(f)
    }

    /// Prints what only some databases have to report.
    fn fmt_exceptions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.relocations > 0 {
            let (count, bytes) = (self.relocations, sized(self.relocation_bytes));
            writeln!(f, "relocations: {count} freed segments are still named, {bytes}")?;
        }
        for (name, latency) in self.latencies.all().filter(|(_, it)| it.count() > 0) {
            writeln!(f, "latency of {}: {latency}", name.replace('_', " "))?;
        }
        if self.entries_filtered > 0 {
            let (asked, dropped) = (self.entries_filtered, self.filtered_entries_dropped);
            let changed = self.filtered_entries_changed;
            writeln!(f, "compaction filters: {asked} asked, {dropped} dropped, {changed} changed")?;
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

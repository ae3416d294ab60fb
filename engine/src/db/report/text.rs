//! Prints statistics as text for people.

use super::{LevelStats, StallStats, Stats};
use crate::base::size::{counted, sized};
use std::fmt;

impl fmt::Display for StallStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StallStats { reason, count, time } = self;
        let (reason, times) = (reason.name(), counted(*count, "time"));
        write!(f, "stall {reason}: {times}, {:.3} s", time.as_secs_f64())
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for keyspace in &self.keyspaces {
            writeln!(
                f,
                "keyspace {}: {} in tables ({}, {} of ranges), memtables {} ({} waiting)",
                keyspace.name,
                counted(keyspace.table_entries, "entry"),
                counted(keyspace.tombstones, "tombstone"),
                keyspace.range_tombstones,
                sized(keyspace.memtable_bytes),
                keyspace.immutable_memtables
            )?;
            for (number, level) in keyspace.levels.iter().enumerate() {
                if level.tables > 0 {
                    let bytes = sized(level.bytes);
                    let LevelStats { tables, score, .. } = level;
                    let noun = if *tables == 1 { "table" } else { "tables" };
                    writeln!(
                        f,
                        "  L{number}  {tables:>6} {noun:<6}  {bytes:>10}  score {score:.2}"
                    )?;
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
            "read: {} ({}), {} ({}), {} by compaction; parallel reads: {}",
            counted(self.value_reads, "value"),
            sized(self.value_bytes_read),
            counted(self.block_reads, "table block"),
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
        let oldest = match self.snapshots {
            0 => String::new(),
            _ => format!(", the oldest {:.1} s old", self.oldest_snapshot.as_secs_f64()),
        };
        writeln!(
            f,
            "memory: cache {}, indexes and filters {} of {}; {}{oldest}",
            sized(self.cache_bytes),
            sized(self.index_and_filter_bytes),
            sized(self.index_and_filter_capacity_bytes),
            counted(self.snapshots, "snapshot"),
        )?;
        self.fmt_pinned_tree(f)?;
        writeln!(
            f,
            "update table: {} in {} of {}; {} of {} took the short cut; {} dropped, {}",
            counted(self.update_table_keys, "key"),
            sized(self.update_table_bytes),
            sized(self.update_table_capacity_bytes),
            self.short_cut_reads,
            counted(self.update_table_lookups, "read"),
            counted(self.superseded_entries_dropped, "superseded entry"),
            counted(self.early_compactions, "early compaction")
        )
    }

    /// Prints how much of the tree is pinned, if any of it may be.
    fn fmt_pinned_tree(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pinned_tree_capacity_bytes == 0 {
            return Ok(());
        }
        let (used, bound) = (self.pinned_tree_bytes, self.pinned_tree_capacity_bytes);
        let (pinned, left) = (self.pinned_tables, self.unpinned_tables);
        let pinned = counted(pinned, "table");
        write!(f, "tree in memory: {pinned}, {} of {}", sized(used), sized(bound))?;
        if left > 0 && self.pinned_tree_missing_bytes > 0 {
            let missing = sized(self.pinned_tree_missing_bytes);
            let do_not = if left == 1 { "does not" } else { "do not" };
            write!(f, "; {left} {do_not} fit, about {missing} more would be needed")?;
        } else if left > 0 {
            write!(f, "; {left} not loaded")?;
        }
        if self.unreadable_unpinned_tables > 0 {
            write!(f, "; {} could not be read", self.unreadable_unpinned_tables)?;
        }
        writeln!(f)
    }

    /// Prints what only some databases have to report.
    fn fmt_exceptions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.relocations > 0 {
            let (freed, bytes) =
                (counted(self.relocations, "freed segment"), sized(self.relocation_bytes));
            writeln!(f, "relocations: {freed} still named, {bytes}")?;
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

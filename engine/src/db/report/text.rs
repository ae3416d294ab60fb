//! Prints statistics as text for people.

use super::{KeyspaceStats, LevelStats, StallStats, Stats};
use crate::base::size::{counted, sized};
use crate::version::separation::{SeparationEvidence, SeparationReason};
use crate::version::settings::LARGE_BYTES;
use std::fmt;

impl fmt::Display for StallStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StallStats { reason, count, time } = self;
        let (reason, times) = (reason.name(), counted(*count, "time"));
        write!(f, "stall {reason}: {times}, {:.3} s", time.as_secs_f64())
    }
}

impl fmt::Display for Stats {
    /// Prints what there is and what was done; what is zero is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keyspaces.iter().try_for_each(|keyspace| keyspace.fmt_tree(f))?;
        self.fmt_segments(f)?;
        self.fmt_written(f)?;
        self.fmt_read(f)?;
        self.fmt_memory(f)?;
        if self.gc.rounds + self.gc.liveness_scans + self.gc.punches > 0 {
            writeln!(f, "value GC: {}", self.gc)?;
        }
        self.fmt_exceptions(f)
    }
}

/// Returns the parts that are not zero, as one list.
fn listed<'a>(parts: impl IntoIterator<Item = (u64, &'a str)>) -> String {
    let parts = parts.into_iter().filter(|(bytes, _)| *bytes > 0);
    parts.map(|(bytes, what)| format!("{} {what}", sized(bytes))).collect::<Vec<_>>().join(", ")
}

impl KeyspaceStats {
    /// Prints the keyspace's keys and its levels.
    fn fmt_tree(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A tombstone is an entry, and hides another. Memtables are not looked through for this.
        let keys = self.table_entries.saturating_sub(self.tombstones.saturating_mul(2));
        write!(f, "keyspace {}: about {} in tables", self.name, counted(keys, "key"))?;
        let kinds = [
            (self.table_entries, counted(self.table_entries, "entry")),
            (self.tombstones, counted(self.tombstones, "tombstone")),
            (self.range_tombstones, counted(self.range_tombstones, "range tombstone")),
        ];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text);
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        if !kinds.is_empty() {
            write!(f, " ({kinds})")?;
        }
        if self.memtable_bytes > 0 {
            write!(f, ", memtables {}", sized(self.memtable_bytes))?;
        }
        if self.immutable_memtables > 0 {
            write!(f, " ({} waiting)", self.immutable_memtables)?;
        }
        writeln!(f)?;
        self.fmt_separation(f)?;
        for (number, level) in self.levels.iter().enumerate().filter(|(_, it)| it.tables > 0) {
            let LevelStats { tables, bytes, score, .. } = level;
            let noun = if *tables == 1 { "table" } else { "tables" };
            let bytes = sized(*bytes);
            writeln!(f, "  L{number}  {tables:>6} {noun:<6}  {bytes:>10}  score {score:.2}")?;
        }
        Ok(())
    }

    /// Prints when values are separated, if the engine chooses that, and why.
    fn fmt_separation(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.separation_reason.and_then(SeparationReason::from_name);
        let Some(reason) = reason.filter(|_| self.is_separation_chosen) else { return Ok(()) };
        let evidence = SeparationEvidence {
            written: self.separation_written_bytes,
            spared: self.separation_spared_bytes,
            scanned: self.separation_scanned_bytes,
            waste: self.separation_waste_bytes,
            put: self.separation_put_bytes,
            delayed: self.separation_delayed_bytes,
            absorbed: self.separation_absorbed_bytes,
        };
        writeln!(
            f,
            "  values separated {} by choice: {} ({}); from {} on at_write",
            self.separation.name(),
            reason.name(),
            evidence.describe(reason),
            sized(LARGE_BYTES as u64)
        )
    }
}

impl Stats {
    fn fmt_segments(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let closed = self.segments.iter().filter(|segment| segment.sealed).count();
        if self.segments.is_empty() {
            return Ok(());
        }
        write!(f, "segments: {closed} closed, {}", sized(self.segment_bytes()))?;
        let referenced = self.referenced_bytes();
        if referenced > 0 {
            write!(f, ", of which tables reference {}", sized(referenced))?;
        }
        if self.replay_bytes > 0 {
            write!(f, "; {} to replay", sized(self.replay_bytes))?;
        }
        writeln!(f)
    }

    fn fmt_written(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = listed([
            (self.user_bytes_written, "by users"),
            (self.log_bytes_on_device(), "log"),
            (self.flush_bytes_written, "flush"),
            (self.compaction_bytes_written, "compaction"),
            (self.gc.bytes_written(), "value GC"),
            (self.manifest_bytes_written, "manifest"),
        ]);
        if parts.is_empty() {
            return Ok(());
        }
        write!(f, "written: {parts}")?;
        if self.user_bytes_written > 0 {
            write!(f, ": amplification {:.2}", self.write_amplification())?;
        }
        writeln!(f)
    }

    fn fmt_read(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = format!("in {}", counted(self.value_reads, "value"));
        let blocks = format!("in {}", counted(self.block_reads, "table block"));
        let parts = listed([
            (self.value_bytes_read, &*values),
            (self.block_bytes_read, &*blocks),
            (self.compaction_bytes_read, "by compaction"),
        ]);
        if parts.is_empty() {
            return Ok(());
        }
        writeln!(f, "read: {parts}; parallel reads: {}", self.parallel_reads)?;
        self.fmt_scans(f)
    }

    /// Prints how well scans read ahead, and what was done about it.
    fn fmt_scans(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefetched_values + self.scan_orders == 0 {
            return Ok(());
        }
        let values = counted(self.prefetched_values, "value");
        write!(f, "scans: {values} read ahead in {}", counted(self.prefetch_reads, "read"))?;
        if self.scan_cost_ranges > 0 {
            let (ranges, cost) = (self.scan_cost_ranges, sized(self.scan_cost_bytes));
            write!(f, "; strewn ones in {} cost as much as {cost}", counted(ranges, "range"))?;
        }
        if self.scan_orders > 0 {
            let bytes = sized(self.scan_order_bytes_written);
            let took = self.scan_order_nanos as f64 / 1e9;
            let jobs = counted(self.scan_orders, "job");
            write!(f, "; {bytes} put in order by {jobs} ({took:.1} s)")?;
        }
        writeln!(f)
    }

    /// Prints what is in memory.
    fn fmt_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = listed([
            (self.cache_bytes, "cache"),
            (self.index_and_filter_bytes, "indexes and filters"),
        ]);
        if !parts.is_empty() {
            let bound = sized(self.index_and_filter_capacity_bytes);
            writeln!(f, "memory: {parts} of {bound}")?;
        }
        if self.snapshots > 0 {
            let (count, age) = (counted(self.snapshots, "snapshot"), self.oldest_snapshot);
            writeln!(f, "{count}, the oldest {:.1} s old", age.as_secs_f64())?;
        }
        self.fmt_pinned_tree(f)?;
        if self.update_table_keys + self.update_table_lookups == 0 {
            return Ok(());
        }
        writeln!(
            f,
            "update table: {} in {} of {}; {} of {} took the short cut; {} ({}) dropped, {}",
            counted(self.update_table_keys, "key"),
            sized(self.update_table_bytes),
            sized(self.update_table_capacity_bytes),
            self.short_cut_reads,
            counted(self.update_table_lookups, "read"),
            counted(self.superseded_entries_dropped, "superseded entry"),
            sized(self.superseded_bytes_dropped),
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
        let stalls = self.stalls.iter().filter(|stall| stall.count > 0);
        stalls.into_iter().try_for_each(|stall| writeln!(f, "{stall}"))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::settings::Separation;

    #[test]
    fn what_is_zero_is_left_out() {
        assert_eq!(Stats::default().to_string(), "");
        let keyspace = KeyspaceStats {
            name: "words".into(),
            table_entries: 10,
            tombstones: 2,
            ..KeyspaceStats::default()
        };
        let stats = Stats {
            keyspaces: vec![keyspace],
            user_bytes_written: 2048,
            log_bytes_written: 3072,
            snapshots: 1,
            ..Stats::default()
        };
        let expected = "keyspace words: about 6 keys in tables (10 entries, 2 tombstones)\n\
                        written: 2.0 KiB by users, 3.0 KiB log: amplification 1.50\n\
                        1 snapshot, the oldest 0.0 s old\n";
        assert_eq!(stats.to_string(), expected);
    }

    #[test]
    fn a_choice_is_told_with_its_reason() {
        let keyspace = |separation_reason| KeyspaceStats {
            name: "words".into(),
            separation: Separation::AtFlush,
            is_separation_chosen: true,
            separation_reason,
            separation_written_bytes: 64 << 20,
            separation_spared_bytes: 16 << 20,
            separation_scanned_bytes: 80 << 20,
            separation_waste_bytes: 1 << 20,
            separation_put_bytes: 70 << 20,
            separation_delayed_bytes: 8 << 20,
            separation_absorbed_bytes: 4 << 20,
            ..KeyspaceStats::default()
        };
        let keyspaces = vec![keyspace(Some("scanned")), keyspace(None)];
        let stats = Stats { keyspaces, ..Stats::default() };
        let expected = "keyspace words: about 0 keys in tables\n  \
                        values separated at_flush by choice: scanned (the log of 16.0 MiB of \
                        64.0 MiB flushed is spared; strewn values would cost scans 80.0 MiB, \
                        their order costs 64.0 MiB; of 70.0 MiB put, 8.0 MiB were delayed for \
                        space, and memtables absorb 4.0 MiB); from 32.0 KiB on at_write\n\
                        keyspace words: about 0 keys in tables\n";
        assert_eq!(stats.to_string(), expected);
        assert!(stats.to_json().contains(
            "\"separation\":\"at_flush\",\"separation_reason\":\"scanned\",\
             \"separation_written_bytes\":67108864,\"separation_spared_bytes\":16777216,\
             \"separation_scanned_bytes\":83886080,\"separation_waste_bytes\":1048576,\
             \"separation_put_bytes\":73400320,\"separation_delayed_bytes\":8388608,\
             \"separation_absorbed_bytes\":4194304,"
        ));
        assert!(stats.to_json().contains("\"separation_reason\":null,"));
    }
}

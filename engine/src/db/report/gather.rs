//! Gathers the statistics of an open database from the rooms below.

use super::{KeyspaceStats, LevelStats, SegmentStats, StallStats, Stats};
use crate::base::error::Result;
use crate::db::Db;
use crate::db::keyspace::Keyspace;
use crate::hot::{ScoredTable, TableScores};
use crate::space::stale;
use crate::stats::{Counters, StallReason};
use crate::version::files::TableHandle;
use crate::version::levels::LEVELS;
use crate::version::runtime::Runtime;
use crate::version::settings::Separation;
use crate::version::view::View;
use std::sync::Arc;
use std::time::Duration;

impl Db {
    /// Returns what the database did since it was opened, and its present state. Costs no I/O. In a
    /// forked child everything is zero or empty.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-stats"))?;
    /// db.default_keyspace().put("one", "eins")?;
    /// let stats = db.stats();
    /// assert_eq!(stats.commits, 1);
    /// println!("{} bytes to replay", stats.replay_bytes);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        let core = &self.core;
        if core.process.is_gone() {
            return Stats::default();
        }
        let (tables, cache) = (core.set.tables().stats.counts(), core.set.tables().cache.stats());
        let open_tables = core.set.tables().open_tables.stats();
        let tree = core.set.tables().tree.stats(&core.set.current());
        let (snapshots, oldest) = core.snapshots.summary();
        let now = core.env.clock.now();
        let reserve = &core.committer.stall_controller().reserve;
        let (counters, version) = (&core.counters, core.set.current());
        let (hot, update_table) = (&core.hot, core.hot.stats());
        let recovery = &core.recovered;
        let (scan_cost_bytes, scan_cost_ranges) = self.scan_cost();
        Stats {
            keyspaces: self.keyspace_stats(),
            segments: self.segment_stats(),
            stalls: stall_stats(counters.stalls()),
            background_error: core.background.error(),
            low_on_space: reserve.is_low().then(|| reserve.describe()),
            read_only_because: core.health.cause().cloned(),
            parallel_reads: core.env.reader.name(),
            oldest_snapshot: oldest.map_or(Duration::ZERO, |taken| now.saturating_sub(taken)),
            manifest_bytes_written: core.set.manifest_bytes(),
            block_reads: tables.block_reads,
            block_bytes_read: tables.block_read_bytes,
            disk_reserve_bytes: reserve.found().reserve(),
            replay_bytes: core.committer.stall_controller().backlog(),
            index_and_filter_bytes: open_tables.held_bytes,
            index_and_filter_capacity_bytes: open_tables.capacity_bytes,
            pinned_tree_bytes: tree.bytes,
            pinned_tree_capacity_bytes: tree.bound,
            pinned_tables: tree.pinned,
            unpinned_tables: tree.left_out,
            unreadable_unpinned_tables: tree.unreadable,
            pinned_tree_missing_bytes: tree.missing_bytes,
            pinned_tree_refusals: tree.refused,
            update_table_keys: update_table.keys,
            update_table_bytes: update_table.bytes,
            update_table_capacity_bytes: update_table.capacity_bytes,
            update_table_evictions: update_table.evicted_keys,
            update_table_lookups: hot.lookups.get(),
            short_cut_reads: hot.short_cuts.get(),
            table_opens: open_tables.opened,
            table_evictions: open_tables.evicted,
            cache_bytes: cache.bytes,
            relocations: version.relocations.len() as u64,
            relocation_bytes: version.relocations.values().map(|it| it.meta.bytes).sum(),
            snapshots: snapshots as u64,
            recovery_replayed_records: recovery.replayed_records,
            recovery_replayed_bytes: recovery.replayed_bytes,
            recovery_torn_bytes: recovery.torn_bytes,
            recovery_orphans_removed: recovery.orphans_removed,
            scan_cost_bytes,
            scan_cost_ranges,
            background_limit_bytes_per_second: core.budget.limit().unwrap_or(0),
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            cache_capacity_bytes: core.options.cache_bytes,
            memtable_capacity_bytes: self.memtable_capacity_bytes(),
            filter_checks: tables.filter_checks,
            filter_useful: tables.filter_useful,
            filter_false_positives: tables.filter_false_positives,
            log_bytes_written_back: core.set.spared().written_back(),
            ..counted(counters)
        }
    }

    /// Returns the tables of which the update table knows entries, those with the greatest share of
    /// stale ones first. What is known is lost when the database is closed. Costs no I/O.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("table-scores");
    /// use cleavedb::{Db, Options};
    /// let options = Options { update_table_bytes: 64 << 20, ..Options::default() };
    /// let db = Db::builder(&dir).options(options).open()?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// db.flush()?;
    /// let tables = db.table_scores();
    /// assert_eq!((tables[0].score.newest_entries, tables[0].score.stale_entries), (1, 0));
    /// words.put("one", "uno")?;
    /// db.flush()?;
    /// let tables = db.table_scores();
    /// assert_eq!((tables[0].score.newest_entries, tables[0].score.stale_entries), (0, 1));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn table_scores(&self) -> Vec<ScoredTable> {
        if self.core.process.is_gone() {
            return Vec::new();
        }
        let scores = self.core.hot.scores();
        let states = self.core.states();
        let tables = states.iter().flat_map(|state| scored(&state.name, &state.view(), &scores));
        sort_by_stale_share(tables.collect())
    }

    /// Counts the stale entries of the tables of all keyspaces; see
    /// [`Keyspace::count_stale_entries`].
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("db-count-stale-entries");
    /// let db = cleavedb::open(&dir)?;
    /// db.default_keyspace().put("one", "eins")?;
    /// db.flush()?;
    /// assert_eq!(db.count_stale_entries()?[0].score.newest_entries, 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn count_stale_entries(&self) -> Result<Vec<ScoredTable>> {
        self.core.check_open()?;
        let mut tables = Vec::new();
        for state in self.core.states() {
            tables.extend(count_scores(&self.core.runtime, &state.name, &state.view())?);
        }
        Ok(sort_by_stale_share(tables))
    }

    /// Returns what strewn values have cost scans of all keyspaces, in bytes, and the ranges of
    /// keys with such costs.
    fn scan_cost(&self) -> (u64, u64) {
        let (mut bytes, mut ranges) = (0u64, 0);
        for state in self.core.states() {
            for cost in self.core.background.scan_costs(state.id) {
                bytes = bytes.saturating_add(cost.waste);
                ranges += u64::from(cost.waste > 0);
            }
        }
        (bytes, ranges)
    }

    /// Returns the bytes that the memtables of all keyspaces may take before writers wait.
    fn memtable_capacity_bytes(&self) -> u64 {
        let count = 1 + self.core.options.max_immutable_memtables as u64;
        let background = &self.core.background;
        let full = |keyspace| background.options_in_force(keyspace).memtable_bytes;
        self.core.states().iter().map(|keyspace| full(keyspace) * count).sum()
    }

    fn keyspace_stats(&self) -> Vec<KeyspaceStats> {
        let mut all = Vec::new();
        for keyspace in self.core.states() {
            let view = keyspace.view();
            let options = keyspace.options().clone();
            let is_chosen = options.separation == Separation::Auto;
            // Who only reads chooses nothing.
            let chooses = is_chosen && !self.core.options.read_only;
            let chosen = chooses.then(|| keyspace.choice.told());
            let evidence = chosen.map(|(_, evidence)| evidence).unwrap_or_default();
            let scores = self.core.background.level_scores(&keyspace, &view.levels);
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
                range_tombstones: view.levels.ranges().len() as u64,
                memtable_bytes: view.memtables().map(|memtable| memtable.bytes()).sum(),
                immutable_memtables: view.immutables.len() as u64,
                separation: keyspace.separation(),
                is_separation_chosen: is_chosen,
                separation_reason: chosen.map(|(reason, _)| reason.name()),
                separation_written_bytes: evidence.written,
                separation_spared_bytes: evidence.spared,
                separation_scanned_bytes: evidence.scanned,
                separation_waste_bytes: evidence.waste,
                separation_put_bytes: evidence.put,
                separation_delayed_bytes: evidence.delayed,
                separation_absorbed_bytes: evidence.absorbed,
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

/// Returns the statistics that are plain counters.
fn counted(counters: &Counters) -> Stats {
    Stats {
        latencies: counters.latencies.read(),
        gc: counters.gc.read(),
        commits: counters.commits.get(),
        entries_written: counters.entries_written.get(),
        deletes_written: counters.deletes_written.get(),
        put_bytes_stored: counters.put_bytes_stored.get(),
        user_bytes_written: counters.user_bytes_written.get(),
        log_bytes_written: counters.log_bytes_written.get(),
        log_bytes_spared: counters.log_bytes_spared.get(),
        log_syncs: counters.log_syncs.get(),
        log_rotations: counters.log_rotations.get(),
        flushes: counters.flushes.get(),
        flush_bytes_written: counters.flush_bytes_written.get(),
        compactions: counters.compactions.get(),
        early_compactions: counters.early_compactions.get(),
        trivial_moves: counters.trivial_moves.get(),
        compaction_bytes_read: counters.compaction_bytes_read.get(),
        compaction_bytes_written: counters.compaction_bytes_written.get(),
        entries_dropped: counters.entries_dropped.get(),
        superseded_entries_dropped: counters.superseded_entries_dropped.get(),
        superseded_bytes_dropped: counters.superseded_bytes_dropped.get(),
        entries_filtered: counters.entries_filtered.get(),
        filtered_entries_dropped: counters.filtered_entries_dropped.get(),
        filtered_entries_changed: counters.filtered_entries_changed.get(),
        gets: counters.gets.get(),
        gets_found: counters.gets_found.get(),
        value_reads: counters.value_reads.get(),
        value_bytes_read: counters.value_bytes_read.get(),
        prefetched_values: counters.prefetched_values.get(),
        prefetch_reads: counters.prefetch_reads.get(),
        scan_orders: counters.scan_orders.get(),
        scan_order_bytes_written: counters.scan_order_bytes_written.get(),
        scan_order_nanos: counters.scan_order_nanos.get(),
        segments_dropped: counters.segments_dropped.get(),
        files_removed: counters.files_removed.get(),
        conflicts: counters.conflicts.get(),
        conflict_searches: counters.conflict_searches.get(),
        ingests: counters.ingests.get(),
        entries_ingested: counters.entries_ingested.get(),
        ingest_bytes_written: counters.ingest_bytes_written.get(),
        writes_refused_for_space: counters.writes_refused_for_space.get(),
        background_errors: counters.background_errors.get(),
        ..Stats::default()
    }
}

fn stall_stats(stalls: impl Iterator<Item = (StallReason, u64, Duration)>) -> Vec<StallStats> {
    stalls.map(|(reason, count, time)| StallStats { reason, count, time }).collect()
}

impl Keyspace {
    /// Counts the stale entries of the keyspace's tables, those superseded in memtables included,
    /// and returns the tables, those with the greatest share of stale ones first. Unlike
    /// [`Db::table_scores`] this needs no update table, and nothing is missing; older versions that
    /// only snapshots see count as stale.
    ///
    /// Costs a read of every table, past the cache; values are not read. Writers and readers go on
    /// meanwhile.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("count-stale-entries");
    /// let words = cleavedb::open(&dir)?.default_keyspace();
    /// words.put("one", "eins")?;
    /// words.flush()?;
    /// words.put("one", "uno")?;
    /// let tables = words.count_stale_entries()?;
    /// assert_eq!((tables[0].score.newest_entries, tables[0].score.stale_entries), (0, 1));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn count_stale_entries(&self) -> Result<Vec<ScoredTable>> {
        let view = self.view()?;
        count_scores(&self.core.runtime, &self.state.name, &view).map(sort_by_stale_share)
    }
}

/// Returns the tables of a keyspace with the exact scores.
fn count_scores(runtime: &Runtime, keyspace: &str, view: &View) -> Result<Vec<ScoredTable>> {
    Ok(scored(keyspace, view, &stale::scores(runtime, view)?))
}

/// Returns the tables of a keyspace that have a score.
fn scored(keyspace: &str, view: &View, scores: &TableScores) -> Vec<ScoredTable> {
    let hot = |(level, table): (usize, &Arc<TableHandle>)| {
        let (id, meta) = (table.meta.id, &table.meta);
        let score = *scores.get(&id)?;
        let (entries, bytes) = (meta.summary.entries, meta.bytes);
        Some(ScoredTable { id: id.0, keyspace: keyspace.to_owned(), level, entries, bytes, score })
    };
    view.levels.tables().filter_map(hot).collect()
}

/// Sorts tables by the share of their entries that is stale, the greatest first.
fn sort_by_stale_share(mut tables: Vec<ScoredTable>) -> Vec<ScoredTable> {
    let share = |table: &ScoredTable| table.score.stale_entries as f64 / table.entries as f64;
    tables.sort_by(|a, b| share(b).total_cmp(&share(a)).then(a.id.cmp(&b.id)));
    tables
}

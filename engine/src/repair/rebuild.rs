//! Reads all files, has the tree written anew, and puts a manifest in force with the new tables, in
//! the deepest level, and the segments that they point into, whose head lies behind the whole log.

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::key::{MAX_SEQNO, SeqNo};
use crate::base::pointer::{KeyspaceId, MAX_ID, SegmentId, TableId};
use crate::env::Env;
use crate::recovery::comparators::Comparators;
use crate::recovery::settle::rewrite;
use crate::repair::aside::FilesAside;
use crate::repair::facts::RepairFacts;
use crate::repair::ingests::{LoggedIngests, Trace};
use crate::repair::log_damage::LogRemains;
use crate::repair::segments::{
    each_record, find_segment, find_without_head, leave_failed_commits, log_end, synced_below,
};
use crate::repair::sources::{KeyspaceSource, describe_table, needs_order};
use crate::repair::tree::TreeWriter;
use crate::repair::values::ValueFinder;
use crate::repair::{RepairReport, Salvage};
use crate::segment::SegmentKind;
use crate::table::{Properties, TableMeta, TableOwner};
use crate::version::LogPosition;
use crate::version::edit::{Change, Edit};
use crate::version::files::names::{self, FileName};
use crate::version::files::{TableContext, TableHandle, TableLimits};
use crate::version::levels::LEVELS;
use crate::version::manifest::ManifestWriter;
use crate::version::merging::MergeOperators;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

/// Sequence numbers that are skipped above the highest found. Lost commits may have had some of
/// these, and none may be used twice (I6).
const SKIPPED_SEQNOS: u64 = 1 << 20;
/// What a repair keeps open and in memory. It reads each block once, so it caches none.
/// Indexes and filters stay for tables that it comes back to.
const LIMITS: TableLimits =
    TableLimits { open_files: 64, cache_bytes: 0, index_and_filter_bytes: 64 << 20, tree_bytes: 0 };

/// A repair under way.
pub struct Rebuild<'a> {
    env: &'a Env,
    comparators: &'a Comparators,
    merge_operators: &'a MergeOperators,
    facts: RepairFacts,
    context: Arc<TableContext>,
    sources: BTreeMap<KeyspaceId, KeyspaceSource>,
    values: ValueFinder,
    /// Segments whose files are there and whose heads are not. Values may still be read from them.
    lost: BTreeSet<SegmentId>,
    /// Those of them whose heads are damaged, unless they are known to be sorted.
    unreadable: BTreeSet<SegmentId>,
    /// Segments that can't stay as they are: a part of them is damaged or in doubt.
    leaving: BTreeSet<SegmentId>,
    ingests: LoggedIngests,
    /// The numbers of all ingests that the manifest or the log tell of.
    ingest_seqnos: BTreeSet<SeqNo>,
    /// The keyspaces of which a table is missing or damaged that others do not replace.
    lacking: BTreeSet<KeyspaceId>,
    next_file: u64,
    last_seqno: u64,
}

impl<'a> Rebuild<'a> {
    /// Creates a repair with only the facts read.
    pub fn new(salvage: &Salvage<'a>, facts: RepairFacts) -> Self {
        let &Salvage { env, dir, comparators, merge_operators, filter_policy, .. } = salvage;
        let context = TableContext::new(env.fs.clone(), dir.to_path_buf(), &facts.identity, LIMITS);
        let context = Arc::new(TableContext { filter_policy: filter_policy.cloned(), ..context });
        let (next_file, last_seqno) = (facts.highest_file + 1, facts.last_seqno);
        let (sources, values) = (BTreeMap::new(), ValueFinder::new(facts.given_up.clone()));
        let (ingests, ingest_seqnos) = Default::default();
        Rebuild {
            env,
            comparators,
            merge_operators,
            facts,
            context,
            sources,
            values,
            lost: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            leaving: BTreeSet::new(),
            ingests,
            ingest_seqnos,
            lacking: BTreeSet::new(),
            next_file,
            last_seqno,
        }
    }

    /// Reads all files, writes the new tree, and puts the new manifest in force.
    pub fn run(mut self, report: &mut RepairReport) -> Result<()> {
        let mut replaced = self.read_segments(report)?;
        replaced.extend(self.read_relocations(report));
        replaced.extend(self.read_tables(report)?);
        self.read_log(report)?;
        report.recovered_keyspaces = std::mem::take(&mut self.facts.recovered);
        self.next_file = self.next_file.max(self.facts.highest_file.saturating_add(1));
        let (tree, needed) = self.write_tree(report)?;
        let synced_below = synced_below(&self.values.segments);
        replaced.extend(self.leave_out(&needed, report));
        let mut changes = self.segment_changes();
        changes.extend(tree);
        self.sync_segments(synced_below)?;
        for (named, path) in &self.facts.files {
            if matches!(named, FileName::Manifest(_)) {
                replaced.push(path.clone());
            }
        }
        let context = self.context.clone();
        let aside = FilesAside::link(self.env, &context.dir, replaced)?;
        self.publish(changes)?;
        report.files_set_aside = aside.finish()?;
        Ok(())
    }

    /// Writes the new tree. Returns the changes that add it, and the segments that it points into.
    fn write_tree(
        &mut self,
        report: &mut RepairReport,
    ) -> Result<(Vec<Change>, BTreeSet<SegmentId>)> {
        let (mut changes, mut needed) = (Vec::new(), BTreeSet::new());
        let leaving = std::mem::take(&mut self.leaving);
        let mut tree =
            TreeWriter::new(self.env, &self.context, &self.values, leaving, self.next_file);
        for (&id, source) in &self.sources {
            let known = &self.facts.keyspaces[&id];
            let (name, merge_operator) =
                (known.name.clone(), source.options.merge_operator.clone());
            let flushed = self.last_seqno;
            let owner = TableOwner { id, name: name.clone(), merge_operator, flushed };
            let ranges = self.facts.ranges.get(&id).cloned().unwrap_or_default();
            let written = tree.write(owner, source, ranges, report)?;
            let (order, settings) = (known.order.clone(), known.settings.clone());
            changes.push(Change::AddKeyspace { id, name, order, settings, flushed });
            for meta in written {
                needed.extend(meta.summary.segments.keys().copied());
                let (level, meta) = (LEVELS - 1, Arc::new(meta));
                changes.push(Change::AddTable { keyspace: id, level, meta });
            }
        }
        let (mut saved, next_file) = tree.finish(report)?;
        self.next_file = next_file;
        saved.extend(changes);
        Ok((saved, needed))
    }

    /// Takes the segments out that no new table points into, and returns their files.
    ///
    /// I5: an opening would remove them, and there may be more in them than the new tables have:
    /// values whose keys are lost with a table, and commits behind damage of the log.
    fn leave_out(
        &mut self,
        needed: &BTreeSet<SegmentId>,
        report: &mut RepairReport,
    ) -> Vec<PathBuf> {
        let all = std::mem::take(&mut self.values.segments);
        let (kept, left_out): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(id, _)| needed.contains(id));
        self.values.segments = kept;
        report.segments = self.values.segments.len() as u64;
        left_out.values().map(|found| found.handle.path().to_path_buf()).collect()
    }

    /// Returns the source of a known keyspace, and creates it if there is none yet.
    fn source(&mut self, id: KeyspaceId) -> Result<&mut KeyspaceSource> {
        match self.sources.entry(id) {
            btree_map::Entry::Occupied(found) => Ok(found.into_mut()),
            btree_map::Entry::Vacant(free) => {
                let known = &self.facts.keyspaces[&id];
                let comparators = self.comparators;
                comparators.check(&known.name, &known.order)?;
                let order = comparators.named(&known.order).map_err(needs_order)?;
                let source = KeyspaceSource::new(order, &known.settings, known.flushed)?;
                self.merge_operators.check_recorded(&known.name, &source.options)?;
                Ok(free.insert(source))
            }
        }
    }

    /// Finds the segments; returns the files that are not usable ones.
    fn read_segments(&mut self, report: &mut RepairReport) -> Result<Vec<PathBuf>> {
        let mut useless = Vec::new();
        for (named, path) in &self.facts.files {
            let FileName::Segment(id) = *named else { continue };
            let recorded = self.facts.recorded(id);
            let error = match find_segment(self.env, &self.context, id, &recorded, report) {
                Ok(Some(found)) => {
                    self.values.segments.insert(id, found);
                    continue;
                }
                Ok(None) => {
                    recorded.length.map(|_| Error::corruption("the segment has lost its head"))
                }
                Err(error) => {
                    if !self.facts.is_sorted(id) {
                        self.unreadable.insert(id);
                    }
                    Some(error)
                }
            };
            report.problems.extend(error.map(|error| error.in_file(path)));
            self.lost.insert(id);
            match find_without_head(self.env, &self.context, id, &recorded) {
                Ok(Some(found)) => drop(self.values.segments.insert(id, found)),
                Ok(None) | Err(_) => useless.push(path.clone()),
            }
        }
        leave_failed_commits(&mut self.values.segments);
        self.ingests = LoggedIngests::take(&mut self.values.segments, &self.lost);
        self.ingest_seqnos = self.ingests.seqnos();
        self.ingest_seqnos.extend(self.facts.ingested.values());
        Ok(useless)
    }

    /// Reads the relocations and returns all their files, because the new tables' pointers bypass
    /// them.
    fn read_relocations(&mut self, report: &mut RepairReport) -> Vec<PathBuf> {
        let mut replaced = Vec::new();
        for (named, path) in &self.facts.files {
            let FileName::Relocation(id) = *named else { continue };
            let added = self.values.add_relocation(self.env, &self.context, id, report);
            report.problems.extend(added.err());
            replaced.push(path.clone());
        }
        replaced
    }

    /// Reads the tables and returns all their files, because new ones replace them.
    fn read_tables(&mut self, report: &mut RepairReport) -> Result<Vec<PathBuf>> {
        let (mut replaced, mut found) = (Vec::new(), Vec::new());
        for (named, path) in &self.facts.files {
            let FileName::Table(id) = *named else { continue };
            replaced.push(path.clone());
            match describe_table(self.env, &self.context, id) {
                Ok(described) => found.push(described),
                Err(error) => {
                    let is_removed = self.facts.is_removed(id);
                    self.lacking.extend(self.facts.owner(id).filter(|_| !is_removed));
                    let is_needed = !is_removed && !self.facts.was_never_added(id);
                    report.damaged_tables += u64::from(is_needed);
                    report.problems.push(error);
                }
            }
        }
        self.facts.learn_tables(found.iter().map(|(properties, _)| properties));
        // A keyspace without tables and without records exists all the same.
        for id in self.facts.keyspaces.keys().copied().collect::<Vec<_>>() {
            self.source(id)?;
        }
        for id in self.facts.lost_tables() {
            let error = Error::corruption("a table is missing");
            report.problems.push(error.in_file(&names::table(&self.context.dir, id)));
            report.damaged_tables += 1;
        }
        self.lacking.extend(self.facts.lacking());
        // Whether one of those that were replaced is needed is known once the others were read.
        found.sort_by_key(|(properties, meta)| self.is_replaced(properties, meta));
        for (properties, meta) in found {
            self.add_table(&properties, meta, report)?;
        }
        Ok(replaced)
    }

    fn is_replaced(&self, properties: &Properties, meta: &TableMeta) -> bool {
        self.facts.is_replaced(meta, properties.owner.id)
    }

    fn add_table(
        &mut self,
        properties: &Properties,
        meta: TableMeta,
        report: &mut RepairReport,
    ) -> Result<()> {
        self.last_seqno = self.last_seqno.max(meta.summary.max_seqno);
        if self.facts.is_dropped(properties.owner.id) {
            return Ok(());
        }
        // I7: a table of this id with numbers of its own is not the one that was ingested.
        let known = self.facts.ingested.get(&meta.id).copied();
        let at = match known {
            None if meta.summary.max_seqno == 0 => match self.number_of_ingest(meta.id, report) {
                Some(number) => number,
                None => return Ok(()),
            },
            known => known.unwrap_or_default(),
        };
        let (owner, is_replaced) = (properties.owner.id, self.is_replaced(properties, &meta));
        let meta = meta.clone().ingested(at).unwrap_or(meta);
        self.last_seqno = self.last_seqno.max(meta.summary.max_seqno);
        let order = self.comparators.named(&properties.comparator).map_err(needs_order)?;
        let is_removed = self.facts.is_removed(meta.id);
        let was_never_added = self.facts.was_never_added(meta.id);
        let is_lacking = self.lacking.contains(&owner);
        let table = Arc::new(TableHandle::new(Arc::new(meta), order, self.context.clone()));
        let ingests = std::mem::take(&mut self.ingest_seqnos);
        let source = self.source(owner)?;
        let operator = source.options.merge_operator.as_deref();
        let own = properties.owner.merge_operator.as_deref();
        if let Some(own) = own.filter(|_| own != operator) {
            let other = operator.unwrap_or("none");
            let what =
                format!("its operands are of {own}, the operator of its keyspace is {other}");
            report.problems.push(Error::corruption(what).in_file(table.path()));
        }
        let merges = operator.is_some();
        // An operand that is in two tables would be merged twice. No ingest has one.
        let is_merged_twice = merges && (is_replaced || was_never_added && at == 0);
        // I6: what was deleted since is still in a table that was replaced.
        if !is_merged_twice && (!is_replaced || is_lacking) {
            if is_replaced {
                let what = "it had been replaced, and is taken because another table is damaged or \
                            missing: keys that were deleted since may be back";
                report.problems.push(Error::corruption(what).in_file(table.path()));
            }
            let is_whole = source.add_table(table, properties, &ingests, was_never_added, report);
            if !is_whole && !is_replaced {
                self.lacking.insert(owner);
                // I2: the log has what a table holds that a crash kept from being added.
                report.damaged_tables += u64::from(!was_never_added);
            }
        } else if !is_removed {
            let what = "no edit has this table, so it is left out: what it has is in others, or \
                        was replaced";
            report.problems.push(Error::corruption(what).in_file(table.path()));
        }
        self.ingest_seqnos = ingests;
        Ok(())
    }

    /// Returns the number of the ingest that wrote a table of which no edit says it, and 0 if that
    /// is lost; `None` if the table has not taken effect.
    fn number_of_ingest(&self, table: TableId, report: &mut RepairReport) -> Option<SeqNo> {
        if let Some(is_added) = self.facts.is_added(table) {
            return is_added.then_some(0);
        }
        let (number, message) = match self.ingests.trace(table) {
            Trace::Logged(seqno) => return Some(seqno),
            Trace::GivenUp => (None, "the log has no ingest with this table, so it is left out"),
            Trace::Unknown => {
                (Some(0), "its ingest may not have taken effect; what it has counts as oldest")
            }
        };
        let path = names::table(&self.context.dir, table);
        report.problems.push(Error::corruption(message).in_file(&path));
        number
    }

    fn read_log(&mut self, report: &mut RepairReport) -> Result<()> {
        let values = std::mem::take(&mut self.values);
        let flushed = self.sources.values().map(|source| source.flushed).max().unwrap_or(0);
        let end = log_end(&values.segments, &self.lost, flushed);
        let last = end.last().map_or(SegmentId(0), |last| last.head.id);
        let behind = values.segments.range((Bound::Excluded(last), Bound::Unbounded));
        let behind = behind.filter(|(_, found)| found.head.kind == SegmentKind::Log);
        let behind: BTreeSet<SegmentId> = behind.map(|(id, _)| *id).collect();
        if !behind.is_empty() {
            let what = format!(
                "the log ends in a torn write, and {} segments that follow were not synced \
                 either: what was written to them is left out",
                behind.len()
            );
            report.problems.push(Error::corruption(what).in_file(&self.context.dir));
        }
        let damaged = self.damaged_logs(&values);
        report.damaged_log_segments = damaged.len() as u64;
        let unsound = values.segments.values().filter(|found| !found.is_sound());
        self.leaving = unsound.map(|found| found.head.id).chain(behind).chain(damaged).collect();
        for found in end {
            each_record(self.env, found, &mut |record| {
                self.last_seqno = self.last_seqno.max(record.seqno);
                if self.facts.learn_record(record.keyspace) {
                    let added = self.source(record.keyspace)?.add_record(found.head.id, record)?;
                    report.log_records += u64::from(added);
                }
                Ok(())
            })?;
        }
        self.values = values;
        Ok(())
    }

    /// Returns the damaged segments of the log of which tables may lack commits.
    fn damaged_logs(&self, values: &ValueFinder) -> BTreeSet<SegmentId> {
        let remains = LogRemains {
            lost: &self.lost,
            unreadable: &self.unreadable,
            missing: self.facts.missing_logs(),
            sealed: self.facts.sealed_logs(),
            head: self.facts.log_head,
            // What is older than this is in the tables of every keyspace.
            flushed: self.sources.values().map(|source| source.flushed).min().unwrap_or(0),
        };
        remains.damaged(&values.segments)
    }

    fn segment_changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (&id, found) in &self.values.segments {
            let (kind, epoch) = (found.head.kind, found.head.epoch);
            changes.push(Change::AddSegment { id, kind, epoch });
            changes.push(Change::SealSegment { id, length: found.length });
            if !found.holes.is_empty() {
                changes.push(Change::Holes { segment: id, holes: found.holes.clone() });
            }
        }
        changes
    }

    /// Makes the segments durable whose lengths the manifest is about to record: after a process
    /// ended, what was read may exist in the page cache alone (I2, I3).
    fn sync_segments(&self, synced_below: SegmentId) -> Result<()> {
        for found in self.values.segments.values() {
            let path = found.handle.path();
            let file = self.env.fs.open_write(path).doing("open", path)?;
            // I8: as after a crash, in case a sync of it had failed (`recovery/settle.rs`).
            let is_log = found.head.kind == SegmentKind::Log && found.holes.is_empty();
            if is_log && found.head.id >= synced_below {
                rewrite(&*file, path, found.length)?;
            }
            file.sync().doing("sync", path)?;
        }
        Ok(())
    }

    /// Makes the tables' names durable, then the manifest.
    fn publish(&mut self, changes: Vec<Change>) -> Result<()> {
        let manifest = self.next_file;
        let next = manifest + 1;
        if next >= MAX_ID {
            return Err(Error::new(ErrorKind::LimitReached, "all ids of files are used up")
                .in_file(&self.context.dir));
        }
        let last_seqno = (self.last_seqno + SKIPPED_SEQNOS).min(MAX_SEQNO);
        let mut state = vec![Change::NextFile(next), Change::LastSeqno(last_seqno)];
        state.extend(changes);
        state.push(Change::DroppedUntil(self.facts.dropped_until));
        // The head lies behind the whole log, because all of it is in the new tables.
        state.push(Change::Head(LogPosition { segment: SegmentId(next), offset: 0 }));
        let (dir, database) = (&self.context.dir, &self.context.identity);
        // This syncs the directory before CURRENT can name the manifest, so the tables are durable
        // first.
        ManifestWriter::create(self.env, dir, database, manifest, &Edit::new(state))?;
        Ok(())
    }
}

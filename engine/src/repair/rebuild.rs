//! Writes the rebuilt tree: one sorted run of new tables per keyspace, in the deepest level, and a
//! manifest with these tables and all segments, whose head lies behind the whole log.

use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::iter::EntryIter;
use crate::base::key::{MAX_SEQNO, SeqNo, Trailer};
use crate::base::pointer::{KeyspaceId, MAX_ID, SegmentId, TableId};
use crate::base::range_tombstone::{RangeCover, RangeTombstones};
use crate::env::Env;
use crate::env::fs::File;
use crate::read::input::SortedRunIter;
use crate::read::merge::MergeIter;
use crate::recovery::comparators::Comparators;
use crate::recovery::settle::rewrite;
use crate::repair::facts::RepairFacts;
use crate::repair::ingests::{LoggedIngests, Trace};
use crate::repair::log_damage::LogRemains;
use crate::repair::sources::{
    KeyspaceSource, describe_table, each_record, find_segment, leave_failed_commits, log_end,
    needs_order, synced_below,
};
use crate::repair::values::ValueFinder;
use crate::repair::{LOST, RepairReport, Salvage, set_aside};
use crate::segment::SegmentKind;
use crate::table::{Properties, TableMeta, TableOwner, TableSettings, TableWriter};
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
    /// Segments whose files are there and whose heads are not.
    lost: BTreeSet<SegmentId>,
    /// Those of them whose heads are damaged, unless they are known to be sorted.
    unreadable: BTreeSet<SegmentId>,
    ingests: LoggedIngests,
    /// The numbers of all ingests that the manifest or the log tell of.
    ingest_seqnos: BTreeSet<SeqNo>,
    /// The keyspaces of which a table is missing or damaged that others do not replace.
    lacking: BTreeSet<KeyspaceId>,
    next_file: u64,
    last_seqno: u64,
}

/// A table that is being written.
type OpenTable = (TableWriter, PathBuf, Arc<dyn File>);

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
        let mut changes = self.segment_changes();
        for (&id, source) in &self.sources {
            let known = &self.facts.keyspaces[&id];
            let written = write_tables(&self, id, source, self.next_file, report)?;
            self.next_file += written.len() as u64;
            changes.push(Change::AddKeyspace {
                id,
                name: known.name.clone(),
                order: known.order.clone(),
                settings: known.settings.clone(),
                flushed: self.last_seqno,
            });
            changes.extend(written.into_iter().map(|meta| Change::AddTable {
                keyspace: id,
                level: LEVELS - 1,
                meta: Arc::new(meta),
            }));
        }
        self.sync_segments()?;
        self.publish(changes)?;
        for (named, path) in &self.facts.files {
            if matches!(named, FileName::Manifest(_)) {
                replaced.push(path.clone());
            }
        }
        let dir = &self.context.dir;
        replaced.iter().try_for_each(|path| set_aside(self.env, dir, path, report))?;
        if report.files_set_aside > 0 {
            // A power cut before this may leave a file in either place; after the next sync it
            // might be in neither.
            let lost = dir.join(LOST);
            self.env.fs.sync_dir(&lost).doing("sync the directory", &lost)?;
        }
        self.env.fs.sync_dir(dir).doing("sync the directory", dir)
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
            let punched = self.facts.punched.get(&id);
            match find_segment(self.env, &self.context, id, punched, report) {
                Ok(Some(found)) => {
                    self.values.segments.insert(id, found);
                    report.segments += 1;
                }
                Ok(None) => {
                    self.lost.insert(id);
                    useless.push(path.clone());
                }
                Err(error) => {
                    self.lost.insert(id);
                    if !self.facts.is_sorted(id) {
                        self.unreadable.insert(id);
                    }
                    report.problems.push(error);
                    useless.push(path.clone());
                }
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
                    let owner = self.facts.owner(id).filter(|_| !self.facts.is_removed(id));
                    self.lacking.extend(owner);
                    report.problems.push(error);
                }
            }
        }
        self.facts.learn_tables(found.iter().map(|(properties, _)| properties));
        // A keyspace without tables and without records exists all the same.
        for id in self.facts.keyspaces.keys().copied().collect::<Vec<_>>() {
            self.source(id)?;
        }
        self.lacking.extend(self.facts.lacking());
        // Whether one of those that were replaced is needed is known once the others were read.
        found.sort_by_key(|(_, meta)| self.facts.is_removed(meta.id));
        for (properties, meta) in found {
            self.add_table(&properties, meta, report)?;
        }
        Ok(replaced)
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
        let meta = meta.clone().ingested(at).unwrap_or(meta);
        self.last_seqno = self.last_seqno.max(meta.summary.max_seqno);
        let order = self.comparators.named(&properties.comparator).map_err(needs_order)?;
        let is_removed = self.facts.is_removed(meta.id);
        let was_never_added = self.facts.was_never_added(meta.id);
        let table = Arc::new(TableHandle::new(Arc::new(meta), order, self.context.clone()));
        let ingests = std::mem::take(&mut self.ingest_seqnos);
        let owner = properties.owner.id;
        let is_lacking = self.lacking.contains(&owner);
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
        let is_merged_twice = merges && (is_removed || was_never_added && at == 0);
        // I6: what was deleted since is still in a table that was replaced.
        if !is_merged_twice && (!is_removed || is_lacking) {
            if is_removed {
                let what = "it had been replaced, and is taken because another table is damaged or \
                            missing: keys that were deleted since may be back";
                report.problems.push(Error::corruption(what).in_file(table.path()));
            }
            let is_whole =
                source.add_table(table, &properties.comparator, &ingests, was_never_added, report);
            if !is_whole && !is_removed {
                self.lacking.insert(owner);
            }
        } else if !is_removed {
            let what = "no edit has this table, so it is left out: its operands are in others";
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
        let behind = behind.filter(|(_, found)| found.head.kind == SegmentKind::Log).count();
        if behind > 0 {
            let what = format!(
                "the log ends in a torn write, and {behind} segments that follow were not synced \
                 either: what was written to them is left out"
            );
            report.problems.push(Error::corruption(what).in_file(&self.context.dir));
        }
        report.damaged_log_segments = self.damaged_logs(&values).len() as u64;
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
    fn sync_segments(&self) -> Result<()> {
        let synced_below = synced_below(&self.values.segments);
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

/// Writes the newest version of every key whose value can be read, with what it is merged with, to
/// tables with ids from `first` on.
fn write_tables(
    rebuild: &Rebuild<'_>,
    keyspace: KeyspaceId,
    source: &KeyspaceSource,
    first: u64,
    report: &mut RepairReport,
) -> Result<Vec<TableMeta>> {
    let mut inputs = vec![SortedRunIter::Memtable(source.loose.iter())];
    for table in &source.tables {
        inputs.push(SortedRunIter::Table(table.table()?.full_scan()));
    }
    let mut merged = MergeIter::new(source.order.clone(), inputs);
    let flushed = rebuild.facts.ranges.get(&keyspace).cloned().unwrap_or_default();
    let flushed = Arc::new(RangeTombstones::of(source.order.clone(), flushed));
    let mut cover = RangeCover::new(source.order.clone(), source.loose.ranges()).with([flushed]);
    let owner = TableOwner {
        id: keyspace,
        name: rebuild.facts.keyspaces[&keyspace].name.clone(),
        merge_operator: source.options.merge_operator.clone(),
    };
    let mut tables = Tables {
        rebuild,
        source,
        owner,
        next: first,
        open: None,
        last_key: Vec::new(),
        done: Vec::new(),
    };
    let mut last: Option<Vec<u8>> = None;
    // The operands of a key and what they are merged with are kept together, or lost together:
    // without one of them the value would be a wrong one.
    let mut chain = KeyChain::default();
    merged.seek_to_first()?;
    while merged.valid() {
        let (key, trailer) = (merged.user_key(), merged.trailer());
        let is_older = last.as_ref().is_some_and(|last| source.order.compare(last, key).is_eq());
        if !is_older {
            chain.write(last.as_deref(), &mut tables, report)?;
            last = Some(key.to_vec());
        }
        // What a range tombstone hides from the newest entry on is deleted.
        if !chain.is_closed && !cover.hides(key, trailer.seqno(), SeqNo::MAX) {
            chain.is_closed = !trailer.kind()?.is_merge();
            match readable(rebuild, keyspace, &merged) {
                Ok(Some(payload)) => chain.push(trailer, payload),
                Ok(None) => {}
                Err(error) => chain.lost = chain.lost.take().or(Some(error)),
            }
        } else {
            chain.is_closed = true;
        }
        merged.next()?;
    }
    chain.write(last.as_deref(), &mut tables, report)?;
    tables.finish()
}

/// What is kept of one key: the newest entry, and if that is an operand, what it is merged with.
#[derive(Default)]
struct KeyChain {
    entries: Vec<(Trailer, Vec<u8>)>,
    /// True if nothing older belongs to it.
    is_closed: bool,
    /// The error for the first value of it that can't be read.
    lost: Option<Error>,
}

impl KeyChain {
    /// Adds the next entry. If tables that replace each other are there, because no manifest says
    /// which of them count, several entries may have one number: what was merged is a later state
    /// of the others.
    fn push(&mut self, trailer: Trailer, payload: Vec<u8>) {
        self.entries.pop_if(|(last, _)| last.seqno() == trailer.seqno());
        self.entries.push((trailer, payload));
    }

    /// Writes the entries of `key` to the tables and begins the next key.
    fn write(
        &mut self,
        key: Option<&[u8]>,
        tables: &mut Tables<'_>,
        report: &mut RepairReport,
    ) -> Result<()> {
        let KeyChain { mut entries, lost, .. } = std::mem::take(self);
        if let Some(error) = lost {
            report.lost_keys += 1;
            report.problems.push(error);
            return Ok(());
        }
        report.keys += u64::from(!entries.is_empty());
        let key = key.unwrap_or_default();
        // Only tables of an ingest have nothing but the number 0, so that a later repair knows
        // them. Where it is all that a key has, 1 is as old.
        if let [(trailer, _)] = entries.as_mut_slice()
            && trailer.seqno() == 0
        {
            *trailer = Trailer::new(1, trailer.kind()?);
        }
        entries.iter().try_for_each(|(trailer, payload)| tables.add(key, *trailer, payload))
    }
}

/// Returns the payload of an entry to keep, `None` for a tombstone, or an error for a lost value.
fn readable(
    rebuild: &Rebuild<'_>,
    keyspace: KeyspaceId,
    entry: &MergeIter,
) -> Result<Option<Vec<u8>>> {
    let trailer = entry.trailer();
    let payload = Payload::decode(trailer.kind()?, entry.payload())?;
    let slot = match payload.slot {
        // Nothing older is left that it could hide.
        _ if payload.is_expired_for_all() => return Ok(None),
        Slot::Delete => return Ok(None),
        Slot::Pointer(pointer) => {
            let (key, seqno) = (entry.user_key(), trailer.seqno());
            Slot::Pointer(rebuild.values.locate(pointer, keyspace, key, seqno)?)
        }
        inline => inline,
    };
    let mut stored = Vec::with_capacity(payload.encoded_len());
    payload.with_slot(slot).encode(&mut stored);
    Ok(Some(stored))
}

/// The tables of one keyspace while they are written.
struct Tables<'a> {
    rebuild: &'a Rebuild<'a>,
    source: &'a KeyspaceSource,
    owner: TableOwner,
    next: u64,
    open: Option<OpenTable>,
    last_key: Vec<u8>,
    done: Vec<TableMeta>,
}

impl Tables<'_> {
    fn add(&mut self, key: &[u8], trailer: Trailer, payload: &[u8]) -> Result<()> {
        let limit = self.source.options.table_bytes;
        // I6: all entries of a key stay in one table.
        let is_full = self.open.as_ref().is_some_and(|(writer, ..)| writer.file_bytes() >= limit);
        if is_full && self.last_key != key {
            self.close()?;
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        let (writer, ..) = match &mut self.open {
            Some(open) => open,
            none => {
                none.insert(create(self.rebuild, self.source, &self.owner, TableId(self.next))?)
            }
        };
        writer.add(key, trailer, payload)
    }

    fn close(&mut self) -> Result<()> {
        if let Some((writer, path, file)) = self.open.take() {
            self.done.push(writer.finish()?);
            self.next += 1;
            // A crash from here to the new CURRENT leaves a table that no edit names.
            file.sync().doing("sync a table", &path)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<TableMeta>> {
        self.close()?;
        Ok(self.done)
    }
}

fn create(
    rebuild: &Rebuild<'_>,
    source: &KeyspaceSource,
    owner: &TableOwner,
    id: TableId,
) -> Result<OpenTable> {
    let context = &rebuild.context;
    let path = names::table(&context.dir, id);
    let file = rebuild.env.fs.create(&path).doing("create a table", &path)?;
    let settings = TableSettings {
        block_bytes: source.options.block_bytes,
        codec: source.options.block_codec,
        filter_bits_per_key: source.options.filter_bits_per_key,
    };
    let writer = TableWriter::create(
        file.clone(),
        path.clone(),
        id,
        &context.identity,
        owner.clone(),
        source.order.clone(),
        settings,
    )?;
    Ok((writer.with_policy(context.filter_policy.as_ref()), path, file))
}

//! Writes the rebuilt tree: one sorted run of new tables per keyspace, with the newest version of
//! every key whose value can be read.

use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, IoContext, Result};
use crate::base::iter::EntryIter;
use crate::base::key::{SeqNo, Trailer};
use crate::base::pointer::{KeyspaceId, SegmentId, TableId, ValuePointer};
use crate::base::range_tombstone::{RangeCover, RangeTombstone, RangeTombstones};
use crate::env::Env;
use crate::env::fs::File;
use crate::read::input::SortedRunIter;
use crate::read::merge::MergeIter;
use crate::repair::RepairReport;
use crate::repair::saved_values::SavedValues;
use crate::repair::sources::KeyspaceSource;
use crate::repair::values::ValueFinder;
use crate::table::{TableMeta, TableOwner, TableSettings, TableWriter};
use crate::version::edit::Change;
use crate::version::files::{TableContext, names};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Lost keys beyond this number are only counted: one lost segment can have tens of thousands.
const MAX_LISTED: u64 = 100;

/// A table that is being written.
type OpenTable = (TableWriter, PathBuf, Arc<dyn File>);

/// Writes the tables of all keyspaces, and the values that move.
pub struct TreeWriter<'a> {
    env: &'a Env,
    context: &'a TableContext,
    values: &'a ValueFinder,
    /// The segments that do not stay.
    leaving: BTreeSet<SegmentId>,
    saved: SavedValues<'a>,
    /// The id of the next file.
    next_file: u64,
}

/// An entry that is kept.
struct FoundEntry<'e> {
    payload: Payload<'e>,
    /// The place and the bytes of its record, if that moves.
    record: Option<(ValuePointer, Vec<u8>)>,
}

impl<'a> TreeWriter<'a> {
    /// Creates a writer whose files have ids from `next_file` on. Values in the segments `leaving`
    /// are copied.
    pub fn new(
        env: &'a Env,
        context: &'a TableContext,
        values: &'a ValueFinder,
        leaving: BTreeSet<SegmentId>,
        next_file: u64,
    ) -> Self {
        let saved = SavedValues::new(env, context);
        TreeWriter { env, context, values, leaving, saved, next_file }
    }

    /// Closes all files. Returns the changes that add the segments with copied values, and the next
    /// free id.
    pub fn finish(self, report: &mut RepairReport) -> Result<(Vec<Change>, u64)> {
        if let Some(more @ 1..) = report.lost_keys.checked_sub(MAX_LISTED) {
            let what = format!("{more} more keys are lost, whose newest values can't be read");
            report.problems.push(Error::corruption(what).in_file(&self.context.dir));
        }
        Ok((self.saved.finish()?, self.next_file))
    }

    /// Writes the newest version of every key whose value can be read, with what it is merged with.
    /// `flushed` are the range tombstones that the log may lack.
    pub fn write(
        &mut self,
        owner: TableOwner,
        source: &KeyspaceSource,
        flushed: Vec<RangeTombstone>,
        report: &mut RepairReport,
    ) -> Result<Vec<TableMeta>> {
        let keyspace = owner.id;
        let mut inputs = vec![SortedRunIter::Memtable(source.loose.iter())];
        for table in &source.tables {
            inputs.push(SortedRunIter::Table(table.table()?.full_scan()));
        }
        let mut merged = MergeIter::new(source.order.clone(), inputs);
        let flushed = Arc::new(RangeTombstones::of(source.order.clone(), flushed));
        let mut cover =
            RangeCover::new(source.order.clone(), source.loose.ranges()).with([flushed]);
        let mut tables = Tables {
            tree: self,
            source,
            owner,
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
            let is_older =
                last.as_ref().is_some_and(|last| source.order.compare(last, key).is_eq());
            if !is_older {
                chain.write(last.as_deref(), &mut tables, report)?;
                last = Some(key.to_vec());
            }
            // What a range tombstone hides from the newest entry on is deleted.
            if !chain.is_closed && !cover.hides(key, trailer.seqno(), SeqNo::MAX) {
                chain.is_closed = !trailer.kind()?.is_merge();
                match tables.tree.readable(keyspace, &merged) {
                    Ok(Some(found)) => chain.push(trailer, tables.tree.store(found)?),
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

    /// Returns an entry to keep, `None` for a tombstone, or an error for a lost value.
    fn readable<'e>(
        &self,
        keyspace: KeyspaceId,
        entry: &'e MergeIter,
    ) -> Result<Option<FoundEntry<'e>>> {
        let trailer = entry.trailer();
        let payload = Payload::decode(trailer.kind()?, entry.payload())?;
        let slot = match payload.slot {
            // Nothing older is left that it could hide.
            _ if payload.is_expired_for_all() => return Ok(None),
            Slot::Delete => return Ok(None),
            Slot::Pointer(pointer) => {
                let (key, seqno) = (entry.user_key(), trailer.seqno());
                let place = self.values.locate(pointer, keyspace, key, seqno)?;
                if self.moves(place) {
                    let segment = &self.values.segments[&place.segment].handle.segment;
                    let record = segment.read_record(place, keyspace, key, seqno)?;
                    return Ok(Some(FoundEntry { payload, record: Some((place, record)) }));
                }
                Slot::Pointer(place)
            }
            inline => inline,
        };
        Ok(Some(FoundEntry { payload: payload.with_slot(slot), record: None }))
    }

    /// Returns true if a record can't stay where it is. I3: no pointer leads behind the length that
    /// the manifest gives a segment, because backups copy only so much.
    fn moves(&self, place: ValuePointer) -> bool {
        let end = place.offset.saturating_add(place.length.into());
        let length = self.values.segments.get(&place.segment).map_or(0, |found| found.length);
        self.leaving.contains(&place.segment) || end > length
    }

    /// Returns the payload to write, and copies the record if it moves.
    fn store(&mut self, found: FoundEntry<'_>) -> Result<Vec<u8>> {
        let FoundEntry { mut payload, record } = found;
        if let Some((place, bytes)) = record {
            let from = &self.values.segments[&place.segment].handle.segment;
            let moved = self.saved.copy(&bytes, from, place.offset, &mut self.next_file)?;
            payload = payload.with_slot(Slot::Pointer(moved));
        }
        let mut stored = Vec::with_capacity(payload.encoded_len());
        payload.encode(&mut stored);
        Ok(stored)
    }

    fn create(&mut self, source: &KeyspaceSource, owner: &TableOwner) -> Result<OpenTable> {
        let (context, id) = (self.context, TableId(self.next_file));
        self.next_file += 1;
        let path = names::table(&context.dir, id);
        let file = self.env.fs.create(&path).doing("create a table", &path)?;
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
        tables: &mut Tables<'_, '_>,
        report: &mut RepairReport,
    ) -> Result<()> {
        let KeyChain { mut entries, lost, .. } = std::mem::take(self);
        let key = key.unwrap_or_default();
        if let Some(error) = lost {
            report.lost_keys += 1;
            if report.lost_keys <= MAX_LISTED {
                report.problems.push(of_key(&error, &tables.owner.name, key));
            }
            return Ok(());
        }
        report.keys += u64::from(!entries.is_empty());
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

/// Returns the error for a lost key, by the one for its value.
fn of_key(error: &Error, keyspace: &str, key: &[u8]) -> Error {
    let what = format!("is lost: {}", error.message());
    let mut lost = Error::about_key(error.kind(), keyspace, key, &what);
    if let Some(file) = error.file() {
        lost = lost.in_file(file);
    }
    match error.offset() {
        Some(offset) => lost.at(offset),
        None => lost,
    }
}

/// The tables of one keyspace while they are written.
struct Tables<'t, 'a> {
    tree: &'t mut TreeWriter<'a>,
    source: &'t KeyspaceSource,
    owner: TableOwner,
    open: Option<OpenTable>,
    last_key: Vec<u8>,
    done: Vec<TableMeta>,
}

impl Tables<'_, '_> {
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
            none => none.insert(self.tree.create(self.source, &self.owner)?),
        };
        writer.add(key, trailer, payload)
    }

    fn close(&mut self) -> Result<()> {
        if let Some((writer, path, file)) = self.open.take() {
            self.done.push(writer.finish()?);
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

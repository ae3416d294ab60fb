//! Collects what tables and the end of the log still hold, as sorted inputs of the rebuilt tree.
//!
//! Whole tables are inputs as they are. The readable entries of damaged tables, and the records at
//! the end of the log that were in no table yet, go to a memtable in front of them.
//!
//! These records are found in the last segments of the log that follow each other without a gap:
//! everything in them that is newer than the keyspace's tables. What lies before a gap had been
//! flushed, or its segment would still be there (I5), and must not come back (I6).

use crate::base::entry::Payload;
use crate::base::error::{Error, IoContext, Result};
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, SeqNo, Trailer};
use crate::base::pointer::{SegmentId, TableId, ValuePointer};
use crate::commit::replay::insert_record;
use crate::env::Env;
use crate::memtable::Memtable;
use crate::repair::RepairReport;
use crate::repair::ingests::LoggedIngest;
use crate::segment::{RecordKind, RecordView, SegmentHead, SegmentKind};
use crate::segment::{ScanMode, ScanStart, read_head, scan};
use crate::table::{Properties, TableMeta};
use crate::version::files::{SegmentHandle, TableContext, TableHandle, names};
use crate::version::settings::KeyspaceOptions;
use crate::version::{Holes, is_punched};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A segment that can be read.
pub struct FoundSegment {
    pub head: SegmentHead,
    pub handle: Arc<SegmentHandle>,
    /// Offset in bytes where its frames end; what lies behind is torn.
    pub length: u64,
    /// Its holes, as far as the manifest recorded them.
    pub holes: Holes,
    /// The ingests of which it has the record.
    pub ingests: Vec<LoggedIngest>,
    /// True if all of its frames could be read.
    pub is_whole: bool,
    /// True if a frame says that a part of it was synced before.
    pub vouches: bool,
}

impl FoundSegment {
    /// Returns true if any byte of a record is in a hole.
    pub fn is_punched(&self, place: ValuePointer) -> bool {
        is_punched(&self.holes, place.offset, place.length.into())
    }
}

/// The inputs of one keyspace.
pub struct KeyspaceSource {
    pub order: KeyOrder,
    pub options: KeyspaceOptions,
    pub tables: Vec<Arc<TableHandle>>,
    pub loose: Arc<Memtable>,
    /// Sequence number up to which everything is in tables.
    pub flushed: SeqNo,
}

impl KeyspaceSource {
    pub fn new(order: KeyOrder, settings: &str, flushed: SeqNo) -> Result<KeyspaceSource> {
        let options = KeyspaceOptions::from_manifest(settings)?.0;
        let loose = Arc::new(Memtable::new(order.clone()));
        Ok(KeyspaceSource { order, options, tables: Vec::new(), loose, flushed })
    }

    /// Adds a table: whole, or what can be read of it. `order` is the name of its comparator,
    /// `ingests` are the numbers of ingests, and `is_orphan` is true if no edit has added it.
    /// Returns true if it is whole.
    pub fn add_table(
        &mut self,
        table: Arc<TableHandle>,
        order: &str,
        ingests: &BTreeSet<SeqNo>,
        is_orphan: bool,
        report: &mut RepairReport,
    ) -> bool {
        // I2: what was flushed has brought all older commits to tables. An ingest has not: those to
        // keys outside of its range may still be in the log only.
        let mut flushed = table.meta.summary.max_seqno;
        if ingests.contains(&flushed) {
            flushed = 0;
        }
        let note = |_: &[u8], trailer: Trailer, _: &[u8]| {
            if !ingests.contains(&trailer.seqno()) {
                flushed = flushed.max(trailer.seqno());
            }
            Ok(())
        };
        let verified = self.check_order(&table, order).and_then(|()| table.table()?.verify(note));
        // I2: what is damaged of a table that a crash kept from being added is in the log.
        if verified.is_ok() || !is_orphan {
            self.flushed = self.flushed.max(flushed);
        }
        match verified {
            Ok(()) => {
                report.tables += 1;
                self.tables.push(table);
                true
            }
            Err(error) => {
                report.problems.push(error);
                if self.options.merge_operator.is_some() {
                    let what = "operands of keys in this table may have lost what they are \
                                merged with, and their values are then too little";
                    report.problems.push(Error::corruption(what).in_file(table.path()));
                }
                self.pick_up(&table);
                false
            }
        }
    }

    /// Refuses a table that can't be merged as it is.
    fn check_order(&self, table: &TableHandle, order: &str) -> Result<()> {
        if order == self.order.name() {
            return Ok(());
        }
        let message = format!(
            "a table of a keyspace ordered by {:?} is ordered by {order:?}",
            self.order.name()
        );
        Err(Error::corruption(message).in_file(table.path()))
    }

    /// Saves the entries before the first damaged block and behind the last one.
    fn pick_up(&self, table: &TableHandle) {
        let Ok(open) = table.table() else { return };
        let mut entries = open.iter(false);
        let mut last = Vec::new();
        let mut step = entries.seek_to_first();
        while step.is_ok() && entries.valid() {
            last = entries.user_key().to_vec();
            self.keep(&entries);
            step = entries.next();
        }
        let mut step = entries.seek_to_last();
        while step.is_ok()
            && entries.valid()
            && self.order.compare(entries.user_key(), &last).is_gt()
        {
            self.keep(&entries);
            step = entries.prev();
        }
    }

    fn keep(&self, entry: &dyn EntryIter) {
        let trailer = entry.trailer();
        let payload = trailer.kind().and_then(|kind| Payload::decode(kind, entry.payload()));
        if let Ok(payload) = payload {
            self.loose.insert(entry.user_key(), trailer, payload);
        }
    }

    /// Adds a record of the log, unless a table has it. Returns true if it was added.
    pub fn add_record(&self, segment: SegmentId, record: &RecordView<'_>) -> Result<bool> {
        let is_new = record.seqno > self.flushed;
        // Tables have no range tombstones, and the edit with one may be lost. It hides only what is
        // older, so it does no harm if it was applied before.
        if is_new || record.kind == RecordKind::DeleteRange {
            let pointer = ValuePointer { segment, offset: record.offset, length: record.length };
            insert_record(&self.loose, record, pointer, &self.options)?;
        }
        Ok(is_new)
    }
}

/// Reads the properties of a table.
pub fn describe_table(
    env: &Env,
    context: &TableContext,
    id: TableId,
) -> Result<(Properties, TableMeta)> {
    let path = names::table(&context.dir, id);
    let file = env.fs.open(&path).doing("open", &path)?;
    let properties = Properties::read(&*file, &path, &context.identity, id)?;
    let bytes = file.len().doing("measure", &path)?;
    let meta = TableMeta {
        id,
        bytes,
        summary: properties.summary.clone(),
        applied_ranges: 0,
        ingested_at: 0,
    };
    Ok((properties, meta))
}

/// Finds a segment and where it ends. Returns `None` if it was never begun.
pub fn find_segment(
    env: &Env,
    context: &TableContext,
    id: SegmentId,
    punched: Option<&(u64, Holes)>,
    report: &mut RepairReport,
) -> Result<Option<FoundSegment>> {
    let path = names::segment(&context.dir, id);
    let file = env.fs.open(&path).doing("open", &path)?;
    let Some(head) = read_head(&*file, &path, context.identity.id, id)? else {
        return Ok(None);
    };
    let mut length = file.len().doing("measure", &path)?;
    let handle = Arc::new(SegmentHandle::open(id, head.kind, head.epoch, context));
    if let Some((sealed, holes)) = punched.filter(|(sealed, _)| *sealed <= length) {
        // The scan of frames would end at the first hole, so values are proven one by one.
        let (length, holes, ingests) = (*sealed, holes.clone(), Vec::new());
        let (is_whole, vouches) = (false, true);
        return Ok(Some(FoundSegment { head, handle, length, holes, ingests, is_whole, vouches }));
    }
    let (first, mut ingests, mut vouches) = (ScanStart::first(&head), Vec::new(), false);
    let seal = handle.segment.seal();
    let scanned = scan(&*file, &path, &head, seal, ScanMode::Tail, first, &mut |frame| {
        ingests.extend(frame.records.iter().filter_map(LoggedIngest::of));
        vouches |= frame.header.durable > 0;
        Ok(())
    });
    let is_whole = scanned.is_ok();
    match scanned {
        // What lies behind the end is torn bytes, or zeroes that were prepared for appends.
        Ok(end) => length = end.end_offset,
        // Good frames follow the bad one, so their values can still be read.
        Err(error) => report.problems.push(error),
    }
    let holes = Holes::default();
    Ok(Some(FoundSegment { head, handle, length, holes, ingests, is_whole, vouches }))
}

/// Ends each segment of the log where the head of the next one says. I1: what it holds beyond is of
/// commits that failed, and their numbers were used again; the cut that removes it may be lost with
/// the sync that follows it.
pub fn leave_failed_commits(segments: &mut BTreeMap<SegmentId, FoundSegment>) {
    let end = |found: &FoundSegment| Some((found.head.previous?, found.head));
    let ends: Vec<(SegmentId, SegmentHead)> = segments.values().filter_map(end).collect();
    for (id, next) in ends {
        if let Some(found) = segments.get_mut(&id)
            && found.length > next.previous_bytes
        {
            found.length = next.previous_bytes;
            found.ingests.retain(|ingest| ingest.seqno < next.first_seqno);
        }
    }
}

/// Returns the id below which all segments of the log were synced, as far as they say.
pub fn synced_below(segments: &BTreeMap<SegmentId, FoundSegment>) -> SegmentId {
    let logs = segments.values().filter(|found| found.head.kind == SegmentKind::Log);
    let known = logs.map(|found| match found.vouches {
        true => found.head.id,
        false => found.head.synced_below(),
    });
    known.max().unwrap_or(SegmentId(0))
}

/// Returns the segments at the end of the log that follow each other without a gap. `lost` are
/// those whose files are there and whose heads are not.
///
/// I2: one that is lost or not whole, and of which nothing says that it was synced, ends the log,
/// as in a replay, unless tables have all commits up to the next segment: up to `flushed`. A flush
/// does not sync the segments that it replaces (`commit/wal_only.rs`).
pub fn log_end<'a>(
    segments: &'a BTreeMap<SegmentId, FoundSegment>,
    lost: &BTreeSet<SegmentId>,
    flushed: SeqNo,
) -> Vec<&'a FoundSegment> {
    let synced_below = synced_below(segments);
    let mut end: Vec<&FoundSegment> = Vec::new();
    for found in segments.values().filter(|found| found.head.kind == SegmentKind::Log) {
        let Some(previous) = found.head.previous else {
            end = vec![found];
            continue;
        };
        let follows = end.last().filter(|last| last.head.id == previous);
        let is_short =
            |last: &&FoundSegment| last.is_whole && last.length < found.head.previous_bytes;
        let is_torn = lost.contains(&previous) || follows.is_some_and(is_short);
        // I7: the number is from a file.
        let is_flushed = found.head.first_seqno <= flushed.saturating_add(1);
        if is_torn && previous >= synced_below && !is_flushed {
            break;
        }
        if follows.is_none() {
            end.clear();
        }
        end.push(found);
    }
    end
}

/// Calls `each` for every record of a segment that can be read.
pub fn each_record(
    env: &Env,
    found: &FoundSegment,
    each: &mut dyn FnMut(&RecordView<'_>) -> Result<()>,
) -> Result<()> {
    let path = found.handle.path();
    let file = env.fs.open(path).doing("open", path)?;
    let mut failed = None;
    let outcome = scan(
        &*file,
        path,
        &found.head,
        found.handle.segment.seal(),
        ScanMode::Sealed(found.length),
        ScanStart::first(&found.head),
        &mut |frame| {
            for record in &frame.records {
                each(record).inspect_err(|error| failed = Some(error.clone()))?;
            }
            Ok(())
        },
    );
    match (outcome, failed) {
        (_, Some(error)) => Err(error),
        // The error was recorded when the segment was found; what lies behind the bad frame stays
        // in doubt.
        (Ok(_), None) | (Err(_), None) => Ok(()),
    }
}

/// Returns the error for a keyspace whose comparator was not given.
pub fn needs_order(error: Error) -> Error {
    error.advise("repair it with the comparator that the database was created with")
}

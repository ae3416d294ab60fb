//! Finds the segments, where they end, and which of them are the end of the log.
//!
//! The log's records that were in no table yet are found in the last segments that follow each
//! other without a gap. What lies before a gap had been flushed, or its segment would still be
//! there (I5), and must not come back (I6).

use crate::base::error::{IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::env::Env;
use crate::env::fs::File;
use crate::repair::RepairReport;
use crate::repair::facts::RecordedSegment;
use crate::repair::ingests::LoggedIngest;
use crate::segment::{
    HEAD_BYTES, RecordView, ScanMode, ScanStart, ScanTail, SegmentHead, SegmentKind, read_head,
    scan, written_bytes,
};
use crate::version::files::{SegmentHandle, TableContext, names};
use crate::version::{Holes, is_punched};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A segment that can be read.
pub struct FoundSegment {
    pub head: SegmentHead,
    /// False if its head is lost, so that the manifest alone says how to read its records.
    pub has_head: bool,
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
    /// True if bytes behind its end look like a torn write, or if its file was cut.
    pub is_torn: bool,
}

impl FoundSegment {
    /// Returns true if there is nothing in it that could not be read. Of one with holes, values are
    /// proven one by one.
    pub fn is_sound(&self) -> bool {
        self.has_head && !self.is_torn && (self.is_whole || !self.holes.is_empty())
    }

    /// Returns true if any byte of a record is in a hole.
    pub fn is_punched(&self, place: ValuePointer) -> bool {
        is_punched(&self.holes, place.offset, place.length.into())
    }
}

/// Finds a segment and where it ends. Returns `None` if it was never begun.
pub fn find_segment(
    env: &Env,
    context: &TableContext,
    id: SegmentId,
    recorded: &RecordedSegment,
    report: &mut RepairReport,
) -> Result<Option<FoundSegment>> {
    let path = names::segment(&context.dir, id);
    let file = env.fs.open(&path).doing("open", &path)?;
    let Some(head) = read_head(&*file, &path, context.identity.id, id)? else {
        return Ok(None);
    };
    let handle = Arc::new(SegmentHandle::open(id, head.kind, head.epoch, context));
    let bytes = file.len().doing("measure", &path)?;
    let mut found = FoundSegment::of(head, handle, bytes, recorded);
    // A scan of frames would end at the first hole, so values are proven one by one.
    if found.holes.is_empty() {
        found.scan(&*file, recorded.length, report);
    }
    Ok(Some(found))
}

/// Finds a segment whose head is lost by what the manifest says, if it says enough. Returns `None`
/// if it does not, or if there is nothing behind the head.
///
/// I3: no read looks at the head. The seed of the checksums is in the manifest, too, and each
/// record proves by itself that it is the right one.
pub fn find_without_head(
    env: &Env,
    context: &TableContext,
    id: SegmentId,
    recorded: &RecordedSegment,
) -> Result<Option<FoundSegment>> {
    let Some((kind, epoch)) = recorded.identity else { return Ok(None) };
    let path = names::segment(&context.dir, id);
    let file = env.fs.open(&path).doing("open", &path)?;
    let bytes = file.len().doing("measure", &path)?;
    if written_bytes(&*file, &path, HEAD_BYTES as u64, bytes)? == 0 {
        return Ok(None);
    }
    let head = SegmentHead {
        database: context.identity.id,
        id,
        // Nobody knows what it follows in the log, so it is none of its segments.
        kind: SegmentKind::Sorted,
        is_encrypted: context.identity.is_encrypted(),
        epoch,
        first_seqno: 0,
        previous: None,
        previous_bytes: 0,
        first_unsynced: None,
    };
    let handle = Arc::new(SegmentHandle::open(id, kind, epoch, context));
    let found = FoundSegment::of(head, handle, bytes, recorded);
    Ok(Some(FoundSegment { has_head: false, ..found }))
}

impl FoundSegment {
    /// Returns a segment in a file of this many bytes, none of whose frames was read.
    fn of(
        head: SegmentHead,
        handle: Arc<SegmentHandle>,
        bytes: u64,
        recorded: &RecordedSegment,
    ) -> FoundSegment {
        let length = recorded.length.filter(|length| *length <= bytes);
        let is_torn = length.is_none() && recorded.length.is_some();
        let length = length.unwrap_or(bytes);
        let (holes, ingests) = (recorded.holes.clone(), Vec::new());
        let (has_head, is_whole, vouches) = (true, false, true);
        FoundSegment { head, has_head, handle, length, holes, ingests, is_whole, vouches, is_torn }
    }

    /// Reads all frames. `recorded` is the length that the manifest gives the segment.
    ///
    /// I3: only the last segments of the log can end in a torn write. One that is sealed, or
    /// sorted, was synced before anything named it, so a bad frame is damage, and what lies behind
    /// it still belongs to the segment: a length up to the bad frame would cut off what pointers
    /// lead to.
    fn scan(&mut self, file: &dyn File, recorded: Option<u64>, report: &mut RepairReport) {
        let is_log = self.head.kind == SegmentKind::Log;
        let mode = match recorded == Some(self.length) || !is_log {
            true => ScanMode::Sealed(self.length),
            false => ScanMode::Tail,
        };
        let (first, mut ingests, mut vouches) = (ScanStart::first(&self.head), Vec::new(), false);
        let (path, seal) = (self.handle.path(), self.handle.segment.seal());
        let scanned = scan(file, path, &self.head, seal, mode, first, &mut |frame| {
            ingests.extend(frame.records.iter().filter_map(LoggedIngest::of));
            vouches |= frame.header.durable > 0;
            Ok(())
        });
        (self.ingests, self.vouches, self.is_whole) = (ingests, vouches, scanned.is_ok());
        match scanned {
            // What lies behind the end is torn bytes, or zeroes that were prepared for appends.
            Ok(end) => {
                self.length = end.end_offset;
                self.is_torn |= matches!(end.tail, ScanTail::Torn { .. });
            }
            // Values behind the bad frame can still be read.
            Err(error) => report.problems.push(error),
        }
    }
}

/// Ends each segment of the log where the head of the next one says. I1: what it holds beyond is of
/// commits that failed, and their numbers were used again; the cut that removes it may be lost with
/// the sync that follows it.
pub fn leave_failed_commits(segments: &mut BTreeMap<SegmentId, FoundSegment>) {
    let end = |found: &FoundSegment| Some((found.head.previous?, found.head));
    let ends: Vec<(SegmentId, SegmentHead)> = segments.values().filter_map(end).collect();
    for (id, next) in ends {
        if let Some(found) = segments.get_mut(&id)
            && found.length >= next.previous_bytes
        {
            found.length = next.previous_bytes;
            found.is_torn = false;
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

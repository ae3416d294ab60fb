//! Replays the log behind the head: a prefix of the commit order, each frame whole (I1, I2).
//!
//! The length of every segment but the last is known: from the manifest, or from the head of the
//! next one, which is written after the former was synced. So all of their content must be there,
//! and anything missing is corruption. Only the last segment may end in a torn tail.
//!
//! Each file is opened twice, first for its head and then for its frames, and only one at a time.

use crate::base::compression::Codec;
use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, InFile, IoContext, Result};
use crate::base::key::{SeqNo, Trailer};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::env::Env;
use crate::memtable::Memtable;
use crate::segment::{
    HEAD_BYTES, RecordKind, RecordView, ScanMode, ScanStart, ScanTail, SegmentHead, SegmentKind,
    read_head, scan,
};
use crate::version::files::SegmentHandle;
use crate::version::settings::KeyspaceOptions;
use crate::version::{LiveSegment, LogPosition, Version};
use std::sync::Arc;

/// One record behind the head.
pub struct Replayed<'a> {
    /// The segment of the record.
    pub segment: &'a Arc<SegmentHandle>,
    /// The position of the record's frame.
    pub at: LogPosition,
    /// Bytes of log replayed before that frame.
    pub log_bytes: u64,
    /// The record itself.
    pub record: &'a RecordView<'a>,
}

/// Bytes at the end of the log that are no part of it: a write that a crash cut short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The id of the segment.
    pub segment: SegmentId,
    /// The offset where the bytes begin.
    pub offset: u64,
    /// The number of bytes; 0 if there are only zeroes that were prepared for appends.
    pub bytes: u64,
}

/// The result of a replay.
#[derive(Debug, Default)]
pub struct ReplayReport {
    /// The newest sequence number in the log behind the head; 0 if there is none.
    pub last_seqno: SeqNo,
    /// The newest sequence number before the last segment that was begun: the one before that was
    /// synced first.
    pub settled_seqno: SeqNo,
    /// The last segment that was begun, and the offset where its last good frame ends.
    pub last: Option<(SegmentId, u64)>,
    /// Segments whose length the manifest lacks, with that length in bytes.
    pub sealed: Vec<(SegmentId, u64)>,
    /// Segments that were never begun.
    pub never_begun: Vec<SegmentId>,
    /// The torn tail, if there is one, and a head that was never written whole.
    pub torn: Vec<TornTail>,
    /// Bytes of log replayed.
    pub bytes: u64,
    /// Records replayed.
    pub records: u64,
}

/// A segment of the log whose head was written.
struct Begun {
    live: LiveSegment,
    head: SegmentHead,
}

/// Inserts a record of the log, at `pointer`, into a memtable of a keyspace with these settings, as
/// the writer did.
pub fn insert_record(
    memtable: &Memtable,
    record: &RecordView<'_>,
    pointer: ValuePointer,
    options: &KeyspaceOptions,
) -> Result<()> {
    let raw;
    let slot = match record.kind {
        RecordKind::DeleteRange => {
            memtable.insert_range(Arc::new(record.range()?), record.seqno);
            return Ok(());
        }
        // What was ingested is in tables, or nowhere if a crash came between this record and the
        // edit that adds them.
        RecordKind::Ingest => return Ok(()),
        RecordKind::Delete => Slot::Delete,
        // Only separated values are compressed in the log. They stay there, whatever the settings
        // have become since: inline they could take many times the memory that the writer had.
        RecordKind::Put | RecordKind::Merge
            if record.codec != Codec::None
                || options.separates_at_write(record.raw_len as usize) =>
        {
            Slot::Pointer(pointer)
        }
        RecordKind::Put | RecordKind::Merge => {
            raw = record.raw_value()?;
            Slot::Inline(&raw)
        }
    };
    let is_merge = record.kind == RecordKind::Merge;
    let payload = Payload { is_merge, deadline: record.deadline, slot };
    memtable.insert(record.key, Trailer::new(record.seqno, payload.kind()), payload);
    Ok(())
}

/// Calls `each` with every record behind the head of `version`, in commit order.
pub fn replay(
    env: &Env,
    version: &Version,
    each: &mut dyn FnMut(Replayed<'_>) -> Result<()>,
) -> Result<ReplayReport> {
    let mut report = ReplayReport::default();
    let begun = find_begun(env, version, &mut report)?;
    let mut expected: Option<SeqNo> = None;
    report.settled_seqno = begun.last().map_or(0, |last| last.head.first_seqno.saturating_sub(1));
    for (index, segment) in begun.iter().enumerate() {
        let length = known_length(segment, begun.get(index + 1))?;
        if segment.live.sealed.is_none()
            && let Some(length) = length
        {
            report.sealed.push((segment.head.id, length));
        }
        let passed = segment.head.id < version.head.segment;
        if passed && let Some(length) = length {
            report.last = Some((segment.head.id, length));
            continue;
        }
        if expected.is_some_and(|expected| expected != segment.head.first_seqno) {
            return Err(gap(segment, expected));
        }
        expected = read_segment(env, segment, length, version.head, &mut report, each)?;
    }
    Ok(report)
}

/// Reads the heads of the log segments from the head of the log on, and of those before it whose
/// length the manifest lacks.
fn find_begun(env: &Env, version: &Version, report: &mut ReplayReport) -> Result<Vec<Begun>> {
    let mut begun: Vec<Begun> = Vec::new();
    let mut unreadable: Option<(TornTail, Error)> = None;
    for (&id, live) in version.segments.iter() {
        let segment = &live.handle.segment;
        let matters = live.sealed.is_none() || id >= version.head.segment;
        if segment.kind() != SegmentKind::Log || !matters {
            continue;
        }
        let path = segment.path();
        let file = env.fs.open(path).doing("open a log segment", path)?;
        match read_head(&*file, path, segment.database(), id) {
            Ok(Some(head)) => {
                // A head is synced before the next one is written.
                if let Some((_, error)) = unreadable {
                    return Err(error);
                }
                begun.push(Begun { live: live.clone(), head });
            }
            Ok(None) if live.sealed.is_none() => report.never_begun.push(id),
            Ok(None) => return Err(lost_content(path)),
            // Only the last head can be torn, because it had not been synced.
            Err(error) if live.sealed.is_some() || unreadable.is_some() => return Err(error),
            Err(error) => {
                let bytes = file.len().doing("measure", path)?;
                unreadable = Some((TornTail { segment: id, offset: 0, bytes }, error));
            }
        }
    }
    if let Some((torn, _)) = unreadable {
        report.never_begun.push(torn.segment);
        report.torn.push(torn);
    }
    Ok(begun)
}

fn lost_content(path: &std::path::Path) -> Error {
    Error::corruption("a log segment has lost its content")
        .in_file(path)
        .advise("restore the database from a checkpoint")
}

/// Returns the length of a segment: from the manifest, else from the next segment's head; `None`
/// for a last segment whose length the manifest lacks.
fn known_length(segment: &Begun, next: Option<&Begun>) -> Result<Option<u64>> {
    let Some(next) = next else {
        return Ok(segment.live.sealed);
    };
    if next.head.previous != Some(segment.head.id) {
        return Err(Error::corruption(format!(
            "log segment {} does not say that it follows segment {}",
            next.head.id, segment.head.id
        ))
        .in_file(next.live.handle.path())
        .advise(
            "a segment is missing in between: restore it, or the database, from a checkpoint",
        ));
    }
    Ok(Some(segment.live.sealed.unwrap_or(next.head.previous_bytes)))
}

fn gap(segment: &Begun, expected: Option<SeqNo>) -> Error {
    Error::corruption(format!(
        "the log goes on with commit {} where {} comes next",
        segment.head.first_seqno,
        expected.unwrap_or_default()
    ))
    .in_file(segment.live.handle.path())
}

/// Reads one segment; returns the sequence number that comes next.
fn read_segment(
    env: &Env,
    segment: &Begun,
    length: Option<u64>,
    log_head: LogPosition,
    report: &mut ReplayReport,
    each: &mut dyn FnMut(Replayed<'_>) -> Result<()>,
) -> Result<Option<SeqNo>> {
    let Begun { live, head } = segment;
    let path = live.handle.path();
    let file = env.fs.open(path).doing("open a log segment", path)?;
    let mode = length.map_or(ScanMode::Tail, ScanMode::Sealed);
    let start = if head.id == log_head.segment && log_head.offset > HEAD_BYTES as u64 {
        ScanStart { offset: log_head.offset, seqno: None }
    } else {
        ScanStart::first(head)
    };
    let replays = head.id >= log_head.segment;
    let mut deliver = |frame: &crate::segment::Frame<'_>| {
        if !replays {
            return Ok(());
        }
        // I7: the number is from a file.
        if frame.header.first_seqno == 0 {
            let error =
                Error::corruption("a frame of the log has the number 0, which no commit has");
            return Err(error.in_file(path).at(frame.offset));
        }
        let at = LogPosition { segment: head.id, offset: frame.offset };
        for record in &frame.records {
            let log_bytes = report.bytes;
            each(Replayed { segment: &live.handle, at, log_bytes, record }).in_file(path)?;
            report.last_seqno = record.seqno;
            report.records += 1;
        }
        report.bytes += frame.end - frame.offset;
        Ok(())
    };
    let seal = live.handle.segment.seal();
    let end = scan(&*file, path, head, seal, mode, start, &mut deliver)?;
    if length.is_none() {
        report.sealed.push((head.id, end.end_offset));
    }
    if let ScanTail::Torn { offset, bytes } = end.tail {
        report.torn.push(TornTail { segment: head.id, offset, bytes });
    } else if length.is_none() && end.end_offset < file.len().doing("measure", path)? {
        // Zeroes that were prepared for appends: they are cut off, and nothing is kept aside.
        report.torn.push(TornTail { segment: head.id, offset: end.end_offset, bytes: 0 });
    }
    report.last = Some((head.id, end.end_offset));
    Ok(end.next_seqno)
}

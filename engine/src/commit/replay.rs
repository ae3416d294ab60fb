//! Replays the log behind the head: a prefix of the commit order, each frame whole (I1, I2).
//!
//! The length of every segment but the last is known: from the manifest, or from the head of the
//! next one. Segments are synced in their order, but perhaps after the next ones were begun. So
//! there are those that are known to have been synced: all of their content must be there, and
//! anything missing is corruption. The others come last, at most a few of them. The first of these
//! that is not whole ends the log in a torn tail. What lies behind it is none of the log, though it
//! may be there: it was not promised to survive, and a commit that is lost comes before it (I2).
//!
//! What tells that a segment was synced: the manifest has its length, or that of a later one; the
//! head of the log has passed it; a table points into a later one (the log is synced before such a
//! table is written); the head of a later segment says so; and, asked only before anything is taken
//! for torn, a frame of a later segment says that this one was synced, at least a part of it.
//!
//! Each file is opened twice, first for its head and then for its frames, and only one at a time.

use crate::base::compression::Codec;
use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, ErrorKind, InFile, IoContext, Result};
use crate::base::key::{SeqNo, Trailer};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::env::Env;
use crate::env::planted::PlantedFault;
use crate::memtable::Memtable;
use crate::segment::{
    HEAD_BYTES, RecordKind, RecordView, ScanMode, ScanStart, ScanTail, SegmentHead, SegmentKind,
    evidence_of_any_sync, read_head, scan, written_bytes,
};
use crate::version::files::SegmentHandle;
use crate::version::settings::{KeyspaceOptions, Separation};
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

/// Bytes at the end of the log that are no part of it: a write that a crash cut short, or one that
/// came after it.
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
    /// The newest sequence number before the first segment that is not known to be synced.
    pub settled_seqno: SeqNo,
    /// The last segment that was begun, and the offset where its last good frame ends.
    pub last: Option<(SegmentId, u64)>,
    /// Segments whose length the manifest lacks, with that length in bytes.
    pub sealed: Vec<(SegmentId, u64)>,
    /// Segments among them before this one were synced before the crash.
    pub synced_below: SegmentId,
    /// Segments that were never begun.
    pub never_begun: Vec<SegmentId>,
    /// Segments that were begun and lie behind the torn tail.
    pub behind: Vec<SegmentId>,
    /// The torn tail, if there is one, all that lies behind it, and a head that was never written
    /// whole.
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

/// What is where the head of a segment would be.
enum HeadFound {
    Whole(SegmentHead),
    Nothing,
    /// A head that is not whole, in a file of this many bytes.
    Torn(u64, Error),
}

/// The segments that a replay looks at.
struct LogFound {
    /// Those that follow each other.
    begun: Vec<Begun>,
    /// Those that were begun behind one whose head is lost.
    behind: Vec<Begun>,
    /// All before this one were synced.
    synced_below: SegmentId,
}

/// Inserts a record of the log, at `pointer`, into a memtable of a keyspace with these settings, as
/// a writer did that separates at write where it is chosen.
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
                || options.separates_at_write(record.raw_len as usize, Separation::AtWrite) =>
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
    let LogFound { mut begun, mut behind, mut synced_below } =
        find_begun(env, version, &mut report)?;
    if env.planted.is(PlantedFault::DamageTorn) {
        synced_below = SegmentId(0);
    }
    report.synced_below = synced_below;
    let unsynced = begun.iter().find(|segment| segment.head.id >= synced_below).or(begun.last());
    report.settled_seqno = unsynced.map_or(0, |first| first.head.first_seqno.saturating_sub(1));
    let mut expected: Option<SeqNo> = None;
    for index in 0..begun.len() {
        let (segment, next) = (&begun[index], begun.get(index + 1));
        let length = known_length(segment, next)?;
        let id = segment.head.id;
        if id < version.head.segment
            && let Some(length) = length
        {
            report.note_end(segment, length);
            continue;
        }
        if expected.is_some_and(|expected| expected != segment.head.first_seqno) {
            return Err(gap(segment, expected));
        }
        let mode = match length {
            Some(length) if id < synced_below => ScanMode::Sealed(length),
            Some(length) => ScanMode::Unsynced(length),
            None => ScanMode::Tail,
        };
        let end;
        (expected, end) = read_segment(env, segment, mode, version.head, &mut report, each)?;
        if length.is_some_and(|length| end < length) {
            // The log ends here.
            behind.splice(0..0, begun.drain(index + 1..));
            if env.planted.is(PlantedFault::TornPassed) {
                expected = None;
                begun.append(&mut behind);
                continue;
            }
            check_unsynced(env, &begun[index], end, &behind)?;
            break;
        }
    }
    for segment in behind {
        report.leave_behind(env, &segment)?;
    }
    Ok(report)
}

/// Reads the heads of the log segments from the head of the log on, and of those before it whose
/// length the manifest lacks.
fn find_begun(env: &Env, version: &Version, report: &mut ReplayReport) -> Result<LogFound> {
    let mut synced_below = version.head.segment;
    let mut found: Vec<(LiveSegment, HeadFound)> = Vec::new();
    for (&id, live) in version.segments.iter() {
        let segment = &live.handle.segment;
        if segment.kind() != SegmentKind::Log {
            continue;
        }
        // What is named by a table is synced, but only as far as it was written by then.
        let is_named = version.uses.of(id).count > 0;
        synced_below = synced_below.max(match live.sealed {
            Some(_) => SegmentId(id.0 + 1),
            None if is_named => id,
            None => SegmentId(0),
        });
        if live.sealed.is_some() && id < version.head.segment {
            continue;
        }
        let path = segment.path();
        let file = env.fs.open(path).doing("open a log segment", path)?;
        let head = match read_head(&*file, path, segment.database(), id) {
            Ok(Some(head)) => {
                synced_below = synced_below.max(head.synced_below());
                HeadFound::Whole(head)
            }
            Ok(None) if live.sealed.is_none() => HeadFound::Nothing,
            Ok(None) => return Err(lost_content(path)),
            // I2: only what was read can be a torn head. One that the disk did not give may be
            // whole.
            Err(error) if live.sealed.is_some() || !is_of_bytes(&error) => return Err(error),
            Err(error) => HeadFound::Torn(file.len().doing("measure", path)?, error),
        };
        found.push((live.clone(), head));
    }
    follow_chain(env, found, synced_below, report)
}

/// Returns true if bytes that were read are the reason of an error. A torn head may look like one
/// of a later version.
fn is_of_bytes(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported)
}

/// Follows the segments from one to the next, up to one whose head is lost.
fn follow_chain(
    env: &Env,
    found: Vec<(LiveSegment, HeadFound)>,
    synced_below: SegmentId,
    report: &mut ReplayReport,
) -> Result<LogFound> {
    let (mut begun, mut behind): (Vec<Begun>, Vec<Begun>) = (Vec::new(), Vec::new());
    let mut lost: Option<(LiveSegment, Option<Error>)> = None;
    for (live, head) in found {
        let id = live.handle.id();
        match head {
            HeadFound::Whole(head) => {
                // What this one does not follow was never begun.
                let follows = |lost: SegmentId| head.previous.is_some_and(|before| before >= lost);
                let is_lost = lost.as_ref().is_some_and(|(lost, _)| follows(lost.handle.id()));
                if is_lost || !behind.is_empty() {
                    behind.push(Begun { live, head });
                } else {
                    lost = None;
                    begun.push(Begun { live, head });
                }
            }
            HeadFound::Nothing => {
                report.never_begun.push(id);
                lost = lost.or(Some((live, None)));
            }
            HeadFound::Torn(bytes, error) => {
                report.never_begun.push(id);
                report.torn.push(TornTail { segment: id, offset: 0, bytes });
                lost = lost.or(Some((live, Some(error))));
            }
        }
    }
    if let Some((live, error)) = lost.filter(|_| !behind.is_empty()) {
        let id = live.handle.id();
        let error = error.unwrap_or_else(|| lost_content(live.handle.path()));
        // The head of a segment is synced before anything behind it is.
        if id < synced_below || witness(env, &behind)?.is_some() {
            return Err(error);
        }
    }
    Ok(LogFound { begun, behind, synced_below })
}

/// Returns the first of these segments in which a frame says that a sync came before it.
fn witness<'a>(env: &Env, segments: &'a [Begun]) -> Result<Option<&'a Begun>> {
    for segment in segments {
        if tells_of_sync(env, &segment.live.handle, &segment.head)? {
            return Ok(Some(segment));
        }
    }
    Ok(None)
}

/// Returns true if a frame in this segment of the log says that a sync came before it: then all
/// segments before this one were synced. Reads all of it, if there is none.
pub fn tells_of_sync(env: &Env, handle: &SegmentHandle, head: &SegmentHead) -> Result<bool> {
    let path = handle.path();
    let file = env.fs.open(path).doing("open a log segment", path)?;
    Ok(evidence_of_any_sync(&*file, path, head, handle.segment.seal())?.is_some())
}

/// Refuses a segment that ends at `end`, before its length, though one of those behind it says that
/// it was synced.
fn check_unsynced(env: &Env, segment: &Begun, end: u64, behind: &[Begun]) -> Result<()> {
    let Some(witness) = witness(env, behind)? else { return Ok(()) };
    if env.planted.is(PlantedFault::DamageTorn) {
        return Ok(());
    }
    let what = format!(
        "a log segment is damaged, though it was synced: a frame in segment {} says so",
        witness.head.id
    );
    Err(Error::corruption(what)
        .in_file(segment.live.handle.path())
        .at(end)
        .advise("restore the database from a checkpoint"))
}

impl ReplayReport {
    /// Notes where a segment ends.
    fn note_end(&mut self, segment: &Begun, end: u64) {
        if segment.live.sealed.is_none() {
            self.sealed.push((segment.head.id, end));
        }
        self.last = Some((segment.head.id, end));
    }

    /// Notes a segment behind the end of the log.
    fn leave_behind(&mut self, env: &Env, segment: &Begun) -> Result<()> {
        let (id, path) = (segment.head.id, segment.live.handle.path());
        let file = env.fs.open(path).doing("open a log segment", path)?;
        let bytes = written_bytes(&*file, path, 0, file.len().doing("measure", path)?)?;
        self.torn.push(TornTail { segment: id, offset: 0, bytes });
        self.never_begun.push(id);
        self.behind.push(id);
        Ok(())
    }
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

/// Reads one segment; returns the sequence number that comes next, and the offset where its frames
/// end.
fn read_segment(
    env: &Env,
    segment: &Begun,
    mode: ScanMode,
    log_head: LogPosition,
    report: &mut ReplayReport,
    each: &mut dyn FnMut(Replayed<'_>) -> Result<()>,
) -> Result<(Option<SeqNo>, u64)> {
    let Begun { live, head } = segment;
    let path = live.handle.path();
    let file = env.fs.open(path).doing("open a log segment", path)?;
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
    if let ScanTail::Torn { offset, bytes } = end.tail {
        report.torn.push(TornTail { segment: head.id, offset, bytes });
    } else if live.sealed.is_none() && end.end_offset < file.len().doing("measure", path)? {
        // Zeroes that were prepared for appends, or what was written behind the final length: they
        // are cut off, and nothing is kept aside.
        report.torn.push(TornTail { segment: head.id, offset: end.end_offset, bytes: 0 });
    }
    report.note_end(segment, end.end_offset);
    Ok((end.next_seqno, end.end_offset))
}

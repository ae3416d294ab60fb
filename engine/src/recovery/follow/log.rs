//! Reads the log on from where a follower has read it, while another process writes to it.
//!
//! The manifest is read first: a segment is in it before anything is acknowledged that is in the
//! segment, so all that the tables of a version have is in the segments of that version, too. The
//! order in which frames are read is that of commits (I2), and each comes whole (I1). Where a power
//! cut left a segment that was not synced before the next one was begun, the log ends in it, as for
//! the writer's next opening.

use crate::base::error::{Error, ErrorKind, InFile, IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::commit::replay::tells_of_sync;
use crate::env::Env;
use crate::recovery::follow::seen::SeenManifest;
use crate::segment::{
    Frame, HEAD_BYTES, RecordKind, ScanMode, ScanStart, SegmentHead, SegmentKind, read_head, scan,
};
use crate::version::LiveSegment;
use crate::version::files::SegmentHandle;
use std::ops::Bound;
use std::sync::Arc;

/// The end of what was read of the log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogEnd {
    /// The segment of the next frame; `None` if no segment was begun.
    pub(super) segment: Option<SegmentId>,
    /// The offset of the next frame.
    offset: u64,
    /// The number that comes next, if a frame was read.
    next_seqno: Option<SeqNo>,
}

/// The reason why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogStop {
    /// All of it was read.
    End,
    /// The next frame is an ingest with this number, whose tables the manifest may not have yet.
    Ingest {
        seqno: SeqNo,
        /// True if something follows, so that the ingest is over.
        is_over: bool,
    },
    /// The next frame is of a keyspace that the manifest may not have had yet.
    Keyspace(KeyspaceId),
    /// The writer took back what was read: a commit had failed after it was written.
    TakenBack,
}

/// How the log is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogRules {
    /// True if nobody writes to it, so that damage can be told from what is being written.
    pub(super) is_strict: bool,
    /// Ingests up to this number are in the manifest, or nowhere.
    pub(super) ingests_until: SeqNo,
}

/// A segment and its head.
struct OpenedSegment<'a> {
    live: &'a LiveSegment,
    head: SegmentHead,
}

impl LogEnd {
    /// Returns the newest number that was read; zero if there is none.
    pub(super) fn last_seqno(&self) -> SeqNo {
        self.next_seqno.map_or(0, |next| next - 1)
    }

    /// Returns the offset of the next frame.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns true if the head of the log has passed this place, so that what is in between is in
    /// tables and its segments may be gone.
    pub(super) fn is_passed(&self, seen: &SeenManifest) -> bool {
        let head = seen.version.head.segment;
        self.segment.is_some_and(|segment| segment < head)
    }

    /// Calls `each` with every frame from here on, and goes on behind each. After an error of
    /// `each` the place is before the frame that it was given.
    pub(super) fn read_on(
        &mut self,
        env: &Env,
        seen: &SeenManifest,
        rules: LogRules,
        each: &mut dyn FnMut(&Arc<SegmentHandle>, &Frame<'_>) -> Result<()>,
    ) -> Result<LogStop> {
        let Some(mut segment) = self.first(env, seen)? else { return Ok(LogStop::End) };
        loop {
            let next = begun_behind(env, seen, Some(segment.head.id))?;
            if let Some(next) = &next {
                check_follows(&segment, next)?;
                if next.head.previous_bytes < self.offset {
                    return Ok(LogStop::TakenBack);
                }
            }
            let mode = mode_of(&segment, next.as_ref(), rules);
            match self.read_segment(env, seen, &segment, mode, rules, each)? {
                LogStop::Ingest { seqno, is_over } => {
                    return Ok(LogStop::Ingest { seqno, is_over: is_over || next.is_some() });
                }
                LogStop::End => {}
                stop => return Ok(stop),
            }
            let Some(next) = next else { return Ok(LogStop::End) };
            if matches!(mode, ScanMode::Unsynced(length) if self.offset < length) {
                check_unsynced(env, &segment, &next, self.offset)?;
                return Ok(LogStop::End);
            }
            self.enter(seen, &next)?;
            segment = next;
        }
    }

    /// Returns the segment of the next frame.
    fn first<'a>(
        &mut self,
        env: &Env,
        seen: &'a SeenManifest,
    ) -> Result<Option<OpenedSegment<'a>>> {
        let Some(id) = self.segment else {
            let head = seen.version.head.segment;
            let before = SegmentId(head.0.saturating_sub(1));
            let Some(first) = begun_behind(env, seen, Some(before).filter(|it| *it < head))? else {
                return Ok(None);
            };
            self.enter(seen, &first)?;
            return Ok(Some(first));
        };
        let live = seen.version.segments.get(&id).ok_or_else(|| {
            Error::corruption(format!("segment {id} is gone, although the log goes on there"))
        })?;
        let head = head_of(env, live)?.ok_or_else(|| {
            Error::corruption("a log segment has lost its head").in_file(live.handle.path())
        })?;
        Ok(Some(OpenedSegment { live, head }))
    }

    /// Goes to the first frame to read of a segment.
    fn enter(&mut self, seen: &SeenManifest, segment: &OpenedSegment<'_>) -> Result<()> {
        let (head, log_head) = (&segment.head, seen.version.head);
        if let Some(next) = self.next_seqno.filter(|next| *next != head.first_seqno) {
            let first = head.first_seqno;
            let what = format!("the log goes on with commit {first} where {next} comes next");
            return Err(Error::corruption(what).in_file(segment.live.handle.path()));
        }
        self.segment = Some(head.id);
        let is_within = head.id == log_head.segment && log_head.offset > HEAD_BYTES as u64;
        (self.offset, self.next_seqno) = match self.next_seqno {
            None if is_within => (log_head.offset, None),
            _ => (HEAD_BYTES as u64, Some(head.first_seqno)),
        };
        Ok(())
    }

    fn read_segment(
        &mut self,
        env: &Env,
        seen: &SeenManifest,
        segment: &OpenedSegment<'_>,
        mode: ScanMode,
        rules: LogRules,
        each: &mut dyn FnMut(&Arc<SegmentHandle>, &Frame<'_>) -> Result<()>,
    ) -> Result<LogStop> {
        let handle = &segment.live.handle;
        let path = handle.path();
        let file = env.fs.open(path).doing("open a log segment", path)?;
        let start = ScanStart { offset: self.offset, seqno: self.next_seqno };
        let mut stop = LogStop::End;
        let mut deliver = |frame: &Frame<'_>| {
            if let LogStop::Ingest { is_over, .. } = &mut stop {
                *is_over = true;
                return Err(stopped());
            }
            match stop_before(frame, seen, rules) {
                LogStop::End => {}
                // One frame more tells whether the ingest is over.
                ingest @ LogStop::Ingest { .. } => {
                    stop = ingest;
                    return Ok(());
                }
                other => {
                    stop = other;
                    return Err(stopped());
                }
            }
            each(handle, frame).in_file(path)?;
            self.offset = frame.end;
            self.next_seqno = Some(frame.header.first_seqno + frame.records.len() as u64);
            Ok(())
        };
        let seal = handle.segment.seal();
        let end = scan(&*file, path, &segment.head, seal, mode, start, &mut deliver);
        match end {
            Err(error) if stop == LogStop::End => Err(error),
            _ => Ok(stop),
        }
    }
}

/// The error that ends a scan early; nobody sees it.
fn stopped() -> Error {
    Error::internal("a scan of the log was ended")
}

/// Returns why a frame must not be read yet.
fn stop_before(frame: &Frame<'_>, seen: &SeenManifest, rules: LogRules) -> LogStop {
    for record in &frame.records {
        if record.kind == RecordKind::Ingest && record.seqno > rules.ingests_until {
            return LogStop::Ingest { seqno: record.seqno, is_over: false };
        }
        let id = record.keyspace;
        if id.0 >= seen.next_file && !seen.version.keyspaces.contains_key(&id) {
            return LogStop::Keyspace(id);
        }
    }
    LogStop::End
}

/// Returns how a segment is read that `next` follows, if one was begun.
fn mode_of(
    segment: &OpenedSegment<'_>,
    next: Option<&OpenedSegment<'_>>,
    rules: LogRules,
) -> ScanMode {
    match (segment.live.sealed, next) {
        (Some(length), _) => ScanMode::Sealed(length),
        (None, Some(next)) if segment.head.id < next.head.synced_below() => {
            ScanMode::Sealed(next.head.previous_bytes)
        }
        (None, Some(next)) => ScanMode::Unsynced(next.head.previous_bytes),
        (None, None) if rules.is_strict => ScanMode::Tail,
        (None, None) => ScanMode::Live,
    }
}

/// Refuses a segment that is not whole from `offset` on, though the next one says that it was
/// synced.
fn check_unsynced(
    env: &Env,
    segment: &OpenedSegment<'_>,
    next: &OpenedSegment<'_>,
    offset: u64,
) -> Result<()> {
    if !tells_of_sync(env, &next.live.handle, &next.head)? {
        return Ok(());
    }
    let error = Error::corruption("a log segment is damaged, though it was synced");
    Err(error.in_file(segment.live.handle.path()).at(offset))
}

/// Returns the first log segment behind `id`, or of all, that was begun.
fn begun_behind<'a>(
    env: &Env,
    seen: &'a SeenManifest,
    id: Option<SegmentId>,
) -> Result<Option<OpenedSegment<'a>>> {
    let from = id.map_or(Bound::Unbounded, Bound::Excluded);
    let mut unreadable: Option<Error> = None;
    let mut lost: Option<SegmentId> = None;
    for (_, live) in seen.version.segments.range((from, Bound::Unbounded)) {
        if live.handle.segment.kind() != SegmentKind::Log {
            continue;
        }
        match head_of(env, live) {
            Ok(Some(head)) => {
                let follows = |lost: SegmentId| head.previous.is_some_and(|before| before >= lost);
                // A power cut may take a head that was not synced, and leave one behind it.
                if lost.is_some_and(|lost| follows(lost) && lost >= head.synced_below()) {
                    return Ok(None);
                }
                let opened = OpenedSegment { live, head };
                return unreadable.map_or(Ok(Some(opened)), Err);
            }
            Ok(None) => lost = lost.or(Some(live.handle.id())),
            // It may be on its way.
            Err(error) if error.kind() == ErrorKind::Corruption && live.sealed.is_none() => {
                lost = lost.or(Some(live.handle.id()));
                unreadable = unreadable.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns the head of a segment, or `None` if it was not begun.
pub(super) fn head_of(env: &Env, live: &LiveSegment) -> Result<Option<SegmentHead>> {
    let segment = &live.handle.segment;
    let path = segment.path();
    let file = env.fs.open(path).doing("open a log segment", path)?;
    let head = read_head(&*file, path, segment.database(), live.handle.id())?;
    if head.is_none() && live.sealed.is_some() {
        return Err(Error::corruption("a log segment has lost its content")
            .in_file(path)
            .advise("restore the database from a checkpoint"));
    }
    Ok(head)
}

/// Checks that no segment is missing between two.
fn check_follows(segment: &OpenedSegment<'_>, next: &OpenedSegment<'_>) -> Result<()> {
    let (id, next_id) = (segment.head.id, next.head.id);
    if next.head.previous == Some(id) {
        return Ok(());
    }
    let what = format!("log segment {next_id} does not say that it follows segment {id}");
    Err(Error::corruption(what).in_file(next.live.handle.path()))
}

//! The change feed: hands out the commits of the log again, in their order, each whole (I1), while
//! the log is written.
//!
//! ```text
//!  segment 7 ─► segment 8 ─► segment 12, being written
//!     │ frames    │             │ committed   │ frames of a commit that may fail
//!     position ───┴─────────────┴► the feed    never looked at
//! ```
//!
//! What may be handed out is decided by numbers: the visible one, or the durable one. Where it is
//! is decided by segments: each knows how far its frames are commits ([`Segment::committed`]),
//! which the leader records before it publishes the number. So once the number of the next commit
//! is visible, that commit is before that end, or else in a later segment.
//!
//! Segments that the feed has not come to may go: the feed notices it by their numbers, which have
//! no gap, and says so. It never passes over a commit. The segment that it reads stays, as its
//! handle is held (I5), but holes may be punched in it. A hole leaves frames that do not validate,
//! and as each hole is recorded before it is punched, those are told from damage.
//!
//! No locks, but leaves. Reads are sequential, in pieces of 1 MiB.
//!
//! [`Segment::committed`]: crate::segment::Segment::committed

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::segment::{Frame, FrameReader, HEAD_BYTES, SegmentHead, SegmentKind};
use crate::version::LiveSegment;
use crate::version::files::SegmentHandle;
use crate::version::log_pins::LogPin;
use crate::version::runtime::Runtime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a feed reads from.
#[derive(Clone, Copy)]
pub struct FeedSource<'a> {
    /// The parts of the database.
    pub runtime: &'a Runtime,
    /// Ends, in bytes, of segments whose length the manifest did not have at the opening.
    pub log_ends: &'a BTreeMap<SegmentId, u64>,
    /// The number that was visible when these ends were looked up, if another process writes the
    /// log; otherwise `None`.
    pub known: Option<SeqNo>,
}

/// A segment of the log that was begun.
struct BegunSegment {
    live: LiveSegment,
    head: SegmentHead,
}

impl FeedSource<'_> {
    /// Returns the number up to which the log can be read here. What another thread of a follower
    /// has read meanwhile lies behind the ends known here.
    pub fn visible(&self) -> SeqNo {
        self.known.unwrap_or_else(|| self.runtime.snapshots.visible())
    }

    /// Returns the log segments from `from` on that the version names or a pin keeps.
    fn segments(&self, from: SegmentId) -> BTreeMap<SegmentId, LiveSegment> {
        // The version comes first: what leaves it is pinned before.
        let version = self.runtime.set.current();
        let kept = self.runtime.set.log_pins().kept_from(from);
        let named = version.segments.range(from..).map(|(id, live)| (*id, live.clone()));
        let is_log = |live: &LiveSegment| live.handle.segment.kind() == SegmentKind::Log;
        let mut all: BTreeMap<_, _> = named.filter(|(_, live)| is_log(live)).collect();
        all.extend(kept);
        all
    }

    /// Returns the offset where the commits in a segment end.
    fn end(&self, live: &LiveSegment) -> u64 {
        let segment = &live.handle.segment;
        let known = segment.committed().or(live.sealed);
        known.or_else(|| self.log_ends.get(&segment.id()).copied()).unwrap_or(0)
    }

    fn has_commits(&self, live: &LiveSegment) -> bool {
        self.end(live) > HEAD_BYTES as u64
    }

    /// Reads the head of a segment; returns `None` if no commit is in it.
    fn begun(&self, live: &LiveSegment) -> Result<Option<BegunSegment>> {
        // The head of a segment without commits may just be written.
        if !self.has_commits(live) {
            return Ok(None);
        }
        let segment = &live.handle.segment;
        let Some(head) = segment.read_head()? else { return Ok(None) };
        // I7: the head is from a file.
        if head.identity() != segment.identity() {
            let what = "the segment's head is not that of the segment in the manifest";
            return Err(Error::corruption(what).in_file(segment.path()).at(0));
        }
        Ok(Some(BegunSegment { live: live.clone(), head }))
    }

    /// Returns true if the log has all commits from the beginning of its newest segment with any up
    /// to the number `visible`. The last segments may be gone, with nothing behind them that would
    /// tell.
    fn reaches(&self, newest: &BegunSegment, visible: SeqNo) -> Result<bool> {
        let end = self.end(&newest.live);
        let mut frames = FrameReader::new(newest.live.handle.segment.clone(), newest.head);
        frames.skip(end, visible.saturating_sub(1))?;
        Ok(frames.next_first(end)?.is_some())
    }

    /// Finds the segment of the first commit that ends behind `since`, or with `None` of the first
    /// that the log has; if all up to a number are wanted, nothing unless they are there. Walks the
    /// segments from the newest back, so its cost is one small read for each segment that is going
    /// to be read, and for the latter those of the newest.
    fn find(&self, since: Option<SeqNo>, wanted: Option<SeqNo>) -> Result<Found> {
        let all = self.segments(SegmentId(0));
        let mut first: Option<BegunSegment> = None;
        for live in all.values().rev() {
            let Some(begun) = self.begun(live)? else { continue };
            // Nothing behind a hole is looked for: where the next frame begins, is not known.
            if !live.holes.is_empty() {
                break;
            }
            if let Some(wanted) = wanted.filter(|_| first.is_none())
                && !self.reaches(&begun, wanted)?
            {
                break;
            }
            if let Some(later) = &first
                && !is_followed(&begun, later, self.end(live))?
            {
                break;
            }
            let is_found = since.is_some_and(|since| begun.head.first_seqno <= since + 1);
            first = Some(begun);
            if is_found {
                return Ok(Found::Start(first.expect("it was just set")));
            }
        }
        Ok(match (first, since) {
            (Some(first), None) => Found::Start(first),
            (Some(first), Some(_)) => Found::Later(first.head.first_seqno),
            (None, _) => Found::Nothing,
        })
    }
}

/// Returns true if no commit is missing between two segments. The commits of `earlier` end at
/// offset
/// `end`.
fn is_followed(earlier: &BegunSegment, later: &BegunSegment, end: u64) -> Result<bool> {
    if later.head.previous == Some(earlier.head.id) {
        return Ok(true);
    }
    // What lay between them got no commit, or is gone with some. That is rare, and the numbers
    // tell.
    let segment = earlier.live.handle.segment.clone();
    let mut frames = FrameReader::new(segment, earlier.head);
    frames.skip(end, later.head.first_seqno.saturating_sub(2))?;
    Ok(frames.next_first(end)?.is_some())
}

/// The result of a search for a commit.
enum Found {
    /// It is in this segment, or behind it.
    Start(BegunSegment),
    /// The log begins later, with this number.
    Later(SeqNo),
    /// The log has no commit, or not the last ones.
    Nothing,
}

/// A consumer's place in the log.
pub struct LogFeed {
    /// The reader of the segment of the next commit; `None` before it is known.
    reader: Option<FollowedSegment>,
    /// The last number that was handed out.
    position: SeqNo,
    /// Keeps the log from the segment of the next commit on.
    pin: Option<LogPin>,
}

struct FollowedSegment {
    frames: FrameReader,
    live: LiveSegment,
}

impl FollowedSegment {
    /// Returns a reader at the first frame of a segment.
    fn at(begun: BegunSegment) -> FollowedSegment {
        let frames = FrameReader::new(begun.live.handle.segment.clone(), begun.head);
        FollowedSegment { frames, live: begun.live }
    }
}

impl LogFeed {
    /// Begins behind `since`, or at the first commit that the log has if that is 0. `pin` was
    /// registered before; it keeps everything for now.
    pub fn begin(source: FeedSource<'_>, since: SeqNo, pin: Option<LogPin>) -> Result<LogFeed> {
        let mut feed = LogFeed { reader: None, position: since, pin };
        if since == 0 {
            feed.find(source, None)?;
        } else {
            feed.skip_to(source, since)?;
        }
        Ok(feed)
    }

    /// Goes on behind `seqno`, which was not handed out yet.
    pub fn skip_to(&mut self, source: FeedSource<'_>, seqno: SeqNo) -> Result<()> {
        let visible = source.runtime.snapshots.visible();
        if seqno > visible {
            return Err(ahead(seqno, visible));
        }
        // What comes next is in the newest segment that has commits, or behind it, as long as that
        // number is still the newest one afterwards.
        let segments = source.segments(SegmentId(0));
        let newest = segments.iter().rev().find(|(_, live)| source.has_commits(live));
        let newest = newest.map_or(SegmentId(0), |(id, _)| *id);
        if seqno < source.visible() {
            self.find(source, Some(seqno))?;
        } else {
            self.reader = None;
            self.move_pin(newest);
        }
        self.position = seqno;
        Ok(())
    }

    /// Returns the last number that was handed out, or behind which the feed began.
    pub fn position(&self) -> SeqNo {
        self.position
    }

    /// Hands the next commit to `take` if its numbers are not greater than `limit`. After an error,
    /// one of `take` included, the feed stays where it was.
    ///
    /// `limit` is at most the visible number, and was read before this call.
    pub fn next<R>(
        &mut self,
        source: FeedSource<'_>,
        limit: SeqNo,
        take: impl FnOnce(&Frame<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        if limit <= self.position {
            return Ok(None);
        }
        self.seek(source)?;
        let position = self.position;
        let open = self.reader.as_mut().expect("the next commit was found");
        let end = source.end(&open.live);
        let (handle, offset) = (&open.live.handle, open.frames.offset());
        let frame = match open.frames.next(end, limit) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(None),
            Err(error) => return Err(explain(source, handle, offset, position, error)),
        };
        let (first, last) = (frame.header.first_seqno, frame.header.last_seqno());
        debug_assert!(first <= position + 1 && last > position, "the frames are in order");
        let taken = take(&frame).map_err(|error| error.in_file(handle.path()).at(offset))?;
        let end = frame.end;
        open.frames.pass(end);
        self.position = last;
        Ok(Some(taken))
    }

    /// Finds the frame of the next commit, which is visible.
    fn seek(&mut self, source: FeedSource<'_>) -> Result<()> {
        if self.reader.is_none() {
            self.find(source, Some(self.position))?;
        }
        loop {
            let open = self.reader.as_mut().ok_or_else(|| gone(self.position, None))?;
            let end = source.end(&open.live);
            let offset = open.frames.offset();
            let skipped = open.frames.skip(end, self.position);
            let next = skipped.and_then(|()| open.frames.next_first(end));
            match next {
                Ok(Some(first)) if first <= self.position + 1 => return Ok(()),
                Ok(Some(first)) => {
                    let what = format!("the log goes on with {first} behind {}", self.position);
                    let error = Error::corruption(what).in_file(open.live.handle.path());
                    return Err(error.at(open.frames.offset()));
                }
                // I1: the next commit is visible and was not in this segment when its end was read,
                // which was later. So it is in another.
                Ok(None) => self.pass_on(source)?,
                Err(error) => {
                    let handle = open.live.handle.clone();
                    return Err(explain(source, &handle, offset, self.position, error));
                }
            }
        }
    }

    /// Goes on to the next segment.
    fn pass_on(&mut self, source: FeedSource<'_>) -> Result<()> {
        let read = self.reader.as_ref().map_or(SegmentId(0), |open| open.frames.segment().id());
        for live in source.segments(SegmentId(read.0 + 1)).values() {
            if let Some(begun) = source.begun(live)? {
                if begun.head.first_seqno > self.position + 1 {
                    break;
                }
                self.move_pin(begun.head.id);
                self.reader = Some(FollowedSegment::at(begun));
                return Ok(());
            }
        }
        Err(gone_from(source, self.position))
    }

    /// Finds the segment of the first commit behind `since`, or of the first of the log.
    fn find(&mut self, source: FeedSource<'_>, since: Option<SeqNo>) -> Result<()> {
        // The number is read first: a commit that comes during the search is behind it.
        let visible = source.visible();
        // Who keeps the log gets all that is there now, or is told at once. It can't go later.
        let wanted = since.and(self.pin.as_ref()).map(|_| visible);
        match source.find(since, wanted)? {
            Found::Start(begun) => {
                if since.is_none() {
                    self.position = begun.head.first_seqno.saturating_sub(1);
                }
                self.move_pin(begun.head.id);
                self.reader = Some(FollowedSegment::at(begun));
                Ok(())
            }
            // A log without a commit begins with the next one.
            Found::Nothing if since.is_none() => {
                self.position = visible;
                Ok(())
            }
            Found::Nothing => Err(gone(since.unwrap_or(0), None)),
            Found::Later(first) => Err(gone(since.unwrap_or(0), Some(first))),
        }
    }

    fn move_pin(&self, segment: SegmentId) {
        if let Some(pin) = &self.pin {
            pin.move_to(segment);
        }
    }
}

/// Returns the error of a feed that was to go on behind `position`.
fn gone_from(source: FeedSource<'_>, position: SeqNo) -> Error {
    match source.find(None, None) {
        Ok(Found::Start(first)) => gone(position, Some(first.head.first_seqno)),
        Ok(_) => gone(position, None),
        Err(error) => error,
    }
}

fn gone(position: SeqNo, first: Option<SeqNo>) -> Error {
    let there = first.map_or_else(
        || "none are left there".to_owned(),
        |first| format!("the first that are still there begin with {first}"),
    );
    let what = format!("the changes behind number {position} are gone from the log; {there}");
    Error::new(ErrorKind::ChangesGone, what).advise(
        "copy what there is at a snapshot and go on from its number; pin the log to keep changes",
    )
}

fn ahead(since: SeqNo, visible: SeqNo) -> Error {
    let what = format!(
        "number {since} is ahead of the database, whose newest is {visible}: it is of another \
         database, or of commits that a power cut took"
    );
    Error::new(ErrorKind::ChangesGone, what)
        .advise("copy what there is at a snapshot and go on from its number")
}

/// Returns the error for a frame at or behind `offset` that could not be read: that it is gone, if
/// a hole was recorded there, or if the file was removed, by another process.
fn explain(
    source: FeedSource<'_>,
    handle: &Arc<SegmentHandle>,
    offset: u64,
    position: SeqNo,
    error: Error,
) -> Error {
    // The version comes first, as in a search for segments.
    let version = source.runtime.set.current();
    let kept = source.runtime.set.log_pins().kept_from(handle.id());
    let live = version.segments.get(&handle.id()).or_else(|| kept.get(&handle.id()));
    // A segment that left, and that nobody keeps, may have been punched before.
    let is_holed =
        live.is_none_or(|live| live.holes.last().is_some_and(|(at, len)| at + len > offset));
    let is_removed = live.is_none()
        && source.runtime.env.fs.exists(handle.path()).is_ok_and(|is_there| !is_there);
    let is_gone = is_removed || error.kind() == ErrorKind::Corruption && is_holed;
    if is_gone { gone_from(source, position) } else { error }
}

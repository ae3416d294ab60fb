//! A compaction that also brings values into key order: it copies each separated value that is kept
//! into a new sorted segment, so that a scan reads them sequentially.
//!
//! Values are fetched a window at a time, sorted by place and in parallel, as in a scan (WiscKey,
//! section 3.3.1), while those of the window before are written. The segment is synced before the
//! edit that names it together with the tables that point into it (I3); a crash before the edit
//! leaves orphans.

use crate::base::entry::{Payload, Slot};
use crate::base::error::ErrorKind;
use crate::base::key::Trailer;
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::compaction::convert::{Converting, HomeDecision};
use crate::compaction::job::{self, CompactionReport, Rewrite};
use crate::compaction::operands::OperandMerger;
use crate::compaction::output::TableOutput;
use crate::compaction::picker::Pick;
use crate::compaction::piece_end::PieceEnd;
use crate::compaction::redirect::Redirect;
use crate::compaction::retain::Retain;
use crate::compaction::scan_order::OrderingPiece;
use crate::compaction::separate::Separator;
use crate::read::fetch::{Fetcher, Fetching};
use crate::read::merge::MergeIter;
use crate::read::walk_files::WalkFiles;
use crate::read::wants::Wants;
use crate::throttle::reads::IoPriority;
use crate::version::job::JobResult;
use crate::version::levels::{Levels, bounds};
use crate::version::runtime::Runtime;
use crate::version::segment_output::{NewSegments, SegmentOutput};
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::{KeyspaceState, View};
use std::sync::Arc;

/// The most entries that a window of fetched values holds.
const WINDOW_ENTRIES: usize = 4096;
/// The most bytes that a window of fetched values holds. There are two at a time.
const WINDOW_BYTES: u64 = 8 << 20;

/// Picks the next tables of `level`, behind the user key `after`, whose values fill about one
/// segment.
pub fn pick(
    levels: &Levels,
    level: usize,
    after: Option<&[u8]>,
    (low, high): (Option<&[u8]>, Option<&[u8]>),
    segment_bytes: u64,
) -> Option<Pick> {
    let order = levels.order();
    let (mut inputs, mut bytes) = (Vec::new(), 0);
    for table in levels.level(level) {
        let (first, last) = bounds(table);
        let before = low.is_some_and(|low| order.compare(last, low).is_lt())
            || after.is_some_and(|after| order.compare(first, after).is_le());
        if before {
            continue;
        }
        let behind = high.is_some_and(|high| order.compare(first, high).is_gt());
        if behind || bytes >= segment_bytes {
            break;
        }
        bytes = table.meta.summary.value_bytes().saturating_add(bytes);
        inputs.push(table.clone());
    }
    (!inputs.is_empty()).then(|| Pick::in_place(level, inputs))
}

/// Runs `pick`, which was made for the tables `levels` of `keyspace`.
pub fn run(
    runtime: &Runtime,
    keyspace: &Arc<KeyspaceState>,
    levels: &Levels,
    pick: &Pick,
    seen: SeenSeqnos,
) -> JobResult<CompactionReport> {
    rewrite(runtime, keyspace, levels, pick, seen, MovedPart::All)
}

/// The values that a rewrite moves.
pub enum MovedPart {
    /// All.
    All,
    /// Those that a conversion asks for.
    Misplaced(Converting),
    /// Those that are strewn.
    Strewn(OrderingPiece),
}

impl MovedPart {
    /// Returns where it ends, if it may end before the last entry.
    fn end(&mut self) -> Option<&mut PieceEnd> {
        match self {
            MovedPart::All => None,
            MovedPart::Misplaced(converting) => Some(&mut converting.end),
            MovedPart::Strewn(piece) => Some(&mut piece.end),
        }
    }

    fn converting(&mut self) -> Option<&mut Converting> {
        match self {
            MovedPart::Misplaced(converting) => Some(converting),
            MovedPart::All | MovedPart::Strewn(_) => None,
        }
    }

    /// Returns true if the record of a pointer moves, for all that a conversion does not decide.
    fn takes(&mut self, pointer: ValuePointer) -> bool {
        match self {
            MovedPart::All | MovedPart::Misplaced(_) => true,
            MovedPart::Strewn(piece) => piece.takes(pointer),
        }
    }
}

/// Runs `pick`, and moves a part of the values.
pub fn rewrite(
    runtime: &Runtime,
    keyspace: &Arc<KeyspaceState>,
    levels: &Levels,
    pick: &Pick,
    seen: SeenSeqnos,
    part: MovedPart,
) -> JobResult<CompactionReport> {
    let view = keyspace.view();
    let mut rewrite = job::prepare(runtime, keyspace, levels, pick, seen, &view.version)?;
    // The pick bounds the segment.
    let priority = IoPriority::Compaction;
    let merger = OperandMerger::of(runtime, keyspace, &view, priority);
    // What was merged just now is in order and at home already, and in a segment that the view does
    // not know.
    let version = view.version.clone();
    let moves = Box::new(move |id| version.segments.contains_key(&id));
    let mut values = InOrder::new(runtime, view, moves, u64::MAX, priority).merger(merger);
    // Of the parts that move, only what is strewn is moved without anybody asking.
    values.leaves_damaged = matches!(part, MovedPart::Strewn(_));
    values.part = part;
    let Rewrite { input, retain, redirect, output, .. } = &mut rewrite;
    values.copy(input, retain, redirect, output)?;
    // Its segments are named as soon as the edit is durable, so they are kept before anything else.
    let segments = values.segments();
    rewrite.moved_values = values.part.converting().map(|it| it.moved).unwrap_or_default();
    let moved_until = values.part.end().and_then(|end| end.until().cloned());
    let report = rewrite.install(segments, || values.keep())?;
    Ok(CompactionReport { moved_until, ..report })
}

/// An entry that waits for its value to be written.
struct PendingEntry {
    key: Vec<u8>,
    trailer: Trailer,
    payload: Vec<u8>,
    value: PendingValue,
}

/// What happens to the value of an entry.
#[derive(Clone, Copy)]
enum PendingValue {
    /// It stays where it is.
    Stays,
    /// It is copied from another segment; the index is that of the request for it.
    Copied(usize),
    /// It is inline, and gets a record of its own.
    Separated,
    /// It is in another segment, and becomes inline if it is small; the index is that of the
    /// request for it.
    Fetched(usize),
}

/// Entries whose values are being read.
struct FetchedWindow {
    entries: Vec<PendingEntry>,
    values: Fetching,
}

/// Returns true for the segments from which values are copied.
pub type Moves = Box<dyn Fn(SegmentId) -> bool>;

/// Copies the values of entries on their way to a table into sorted segments, in key order.
pub struct InOrder<'a> {
    runtime: &'a Runtime,
    view: Arc<View>,
    moves: Moves,
    separator: Option<Separator>,
    /// Which values move; a conversion decides also where to.
    part: MovedPart,
    /// True if the pointer of a damaged value stays as it is; else such a value is an error.
    leaves_damaged: bool,
    fetcher: Fetcher,
    /// The entries that are gathered, and the requests for their values.
    window: Vec<PendingEntry>,
    wants: Wants,
    /// The window before, which is written once the reads of this one have begun.
    fetched: Option<FetchedWindow>,
    /// The files of sorted segments that this reads in sequence.
    files: WalkFiles,
    bytes: u64,
    segments: SegmentOutput<'a>,
    merger: Option<OperandMerger<'a>>,
    /// The segments with values that were merged.
    merged_values: Option<SegmentOutput<'a>>,
    /// All segments that were written.
    written: NewSegments,
}

impl<'a> InOrder<'a> {
    /// Creates a copier of the values that `view` has in segments for which `moves` returns true;
    /// other pointers stay. The new segments are split at `split_bytes` and written with this
    /// priority.
    pub fn new(
        runtime: &'a Runtime,
        view: Arc<View>,
        moves: Moves,
        split_bytes: u64,
        priority: IoPriority,
    ) -> Self {
        // These reads have counters of their own, because they are not a user's reads.
        let fetcher = Fetcher::new(runtime.env.reader.clone(), Arc::default());
        let (window, wants, bytes, separator) = (Vec::new(), Wants::default(), 0, None);
        let segments = SegmentOutput::new(runtime, split_bytes, priority);
        InOrder {
            runtime,
            view,
            moves,
            separator,
            part: MovedPart::All,
            leaves_damaged: false,
            fetcher,
            window,
            wants,
            fetched: None,
            files: WalkFiles::default(),
            bytes,
            segments,
            merger: None,
            merged_values: None,
            written: NewSegments::default(),
        }
    }

    /// Leaves the pointer of a damaged value as it is, as a rewrite that nobody asked for does.
    pub fn leaving_damaged(mut self) -> Self {
        self.leaves_damaged = true;
        self
    }

    /// Also merges operands.
    pub fn merger(mut self, merger: Option<OperandMerger<'a>>) -> Self {
        self.merger = merger;
        self
    }

    /// Also writes the inline values that `separator` takes to the segments.
    pub fn separating(mut self, separator: Separator) -> Self {
        self.separator = Some(separator);
        self
    }

    /// Copies the entries of `input` that must be kept to `output`, and writes out and syncs the
    /// segments with their values.
    pub fn copy<B: FnMut(&[u8]) -> bool>(
        &mut self,
        input: &mut MergeIter,
        retain: &mut Retain<'_, B>,
        redirect: &mut Redirect,
        output: &mut TableOutput<'_>,
    ) -> JobResult {
        let (runtime, mut merger) = (self.runtime, self.merger.take());
        let merges = merger.as_mut();
        job::copy(runtime, input, retain, redirect, merges, |key, trailer, payload| {
            self.add(key, trailer, payload, output)
        })?;
        self.write_all(output)?;
        assert!(self.window.is_empty() && self.fetched.is_none(), "entries wait for their values");
        self.segments.finish()?;
        self.written = self.segments.segments();
        self.merged_values = OperandMerger::finish(merger, &mut self.written)?;
        Ok(())
    }

    /// Adds the next entry, whose pointer must be direct.
    fn add(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        payload: &[u8],
        output: &mut TableOutput<'_>,
    ) -> JobResult {
        if self.part.end().is_some_and(|end| end.ends_before(key)) {
            // What was moved is not in one table with what follows, which the next piece rewrites.
            self.write_all(output)?;
            output.end_table()?;
        }
        let slot = Slot::decode(trailer.kind()?, payload)?;
        let pointer = match slot {
            Slot::Pointer(pointer) if (self.moves)(pointer.segment) && self.part.takes(pointer) => {
                Some(pointer)
            }
            _ => None,
        };
        let mut want = |pointer: ValuePointer| {
            self.bytes += u64::from(pointer.length);
            self.wants.add(pointer, key, trailer.seqno())
        };
        let mut is_due = false;
        let value = match (self.part.converting(), pointer) {
            (Some(converting), _) => match (converting.decide(key, trailer, payload)?, pointer) {
                (HomeDecision::MovesOut, _) => PendingValue::Separated,
                (HomeDecision::MayMoveIn, Some(pointer)) => {
                    is_due = converting.ask(pointer.length.into());
                    PendingValue::Fetched(want(pointer))
                }
                _ => PendingValue::Stays,
            },
            (None, Some(pointer)) => PendingValue::Copied(want(pointer)),
            (None, None) => match &self.separator {
                Some(separator) if separator.takes(trailer, payload)? => PendingValue::Separated,
                _ => PendingValue::Stays,
            },
        };
        let (key, payload) = (key.to_vec(), payload.to_vec());
        self.bytes += payload.len() as u64;
        self.window.push(PendingEntry { key, trailer, payload, value });
        if is_due || self.window.len() >= WINDOW_ENTRIES || self.bytes >= WINDOW_BYTES {
            self.write_window(output)?;
        }
        Ok(())
    }

    /// Begins to read the values of the gathered entries, and writes the window before meanwhile. A
    /// conversion does not know how far it has come before it has read, so it waits for the reads.
    fn write_window(&mut self, output: &mut TableOutput<'_>) -> JobResult {
        let next = self.fetch_window();
        if let Some(before) = self.fetched.replace(next) {
            self.write(before, output)?;
        }
        if self.part.converting().is_some() { self.write_fetched(output) } else { Ok(()) }
    }

    /// Writes the values of all entries so far and adds the entries to `output`.
    fn write_all(&mut self, output: &mut TableOutput<'_>) -> JobResult {
        self.write_window(output)?;
        self.write_fetched(output)
    }

    fn write_fetched(&mut self, output: &mut TableOutput<'_>) -> JobResult {
        self.fetched.take().map_or(Ok(()), |last| self.write(last, output))
    }

    fn fetch_window(&mut self) -> FetchedWindow {
        let (entries, wants) = (std::mem::take(&mut self.window), std::mem::take(&mut self.wants));
        let is_read = |entry: &&PendingEntry| {
            matches!(entry.value, PendingValue::Copied(_) | PendingValue::Fetched(_))
        };
        debug_assert_eq!(
            entries.iter().filter(is_read).count(),
            wants.len(),
            "each value belongs to an entry"
        );
        self.bytes = 0;
        let values = self.fetcher.next_of_walk(&self.view, wants, &mut self.files);
        FetchedWindow { entries, values }
    }

    fn write(&mut self, window: FetchedWindow, output: &mut TableOutput<'_>) -> JobResult {
        self.runtime.check_closing()?;
        let FetchedWindow { entries, values: mut fetching } = window;
        let leaves_damaged = self.leaves_damaged;
        let (segments, mut converting) = (&mut self.segments, self.part.converting());
        converting.iter_mut().for_each(|converting| converting.begin_reading());
        for mut entry in entries {
            let seqno = entry.trailer.seqno();
            let inline;
            let slot = match (entry.value, &mut converting) {
                (PendingValue::Copied(index), _) => {
                    let copied = fetching.record(index, |record, seal, offset| {
                        Ok(segments.copy(record, seal, offset))
                    });
                    match copied {
                        Ok(place) => Some(Slot::Pointer(place?)),
                        // I3: as in any compaction that nobody asked for, the pointer of a damaged
                        // value stays, and reads of it say that it is damaged.
                        Err(error) if leaves_damaged && error.kind() == ErrorKind::Corruption => {
                            None
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                (PendingValue::Separated, converting) => {
                    let own = converting.as_ref().map(|converting| converting.separator());
                    let separator = own.or(self.separator.as_ref()).expect("it took this entry");
                    let PendingEntry { key, trailer, payload, .. } = &entry;
                    Some(Slot::Pointer(separator.write(key, *trailer, payload, segments)?))
                }
                (PendingValue::Fetched(index), Some(converting)) => {
                    inline = converting.inline(fetching.take(index))?;
                    inline.as_deref().map(Slot::Inline)
                }
                (PendingValue::Stays | PendingValue::Fetched(_), _) => None,
            };
            if let Some(slot) = slot {
                let payload = Payload::decode(entry.trailer.kind()?, &entry.payload)?;
                let payload = payload.with_slot(slot);
                entry.payload.clear();
                payload.encode(&mut entry.payload);
                entry.trailer = Trailer::new(seqno, payload.kind());
            }
            output.add(&entry.key, entry.trailer, &entry.payload)?;
        }
        Ok(())
    }

    /// Returns the new segments, which the edit has to name together with the tables.
    pub fn segments(&mut self) -> NewSegments {
        std::mem::take(&mut self.written)
    }

    /// Keeps the segments, because the edit that names them took effect.
    pub fn keep(self) {
        self.segments.keep();
        self.merged_values.into_iter().for_each(|merged_values| merged_values.keep());
    }
}

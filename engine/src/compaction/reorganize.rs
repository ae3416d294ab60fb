//! A compaction that also brings values into key order: it copies each separated value that is kept
//! into a new sorted segment, so that a scan reads them sequentially.
//!
//! Values are fetched a window at a time, sorted by place and in parallel, as in a scan (WiscKey,
//! section 3.3.1). The segment is synced before the edit that names it together with the tables
//! that point into it (I3); a crash before the edit leaves orphans.

use crate::base::entry::Slot;
use crate::base::error::{IoContext, Result};
use crate::base::key::Trailer;
use crate::base::pointer::SegmentId;
use crate::compaction::job::{self, CompactionReport, NewSegments, Rewrite};
use crate::compaction::output::TableOutput;
use crate::compaction::picker::{Pick, value_bytes};
use crate::compaction::redirect::Redirect;
use crate::compaction::retain::Retain;
use crate::read::fetch::{Fetcher, Want};
use crate::read::merge::MergeIter;
use crate::segment::{SegmentIdentity, SegmentKind, SortedWriter};
use crate::throttle::reads::IoPriority;
use crate::version::edit::Change;
use crate::version::files::{SegmentHandle, names};
use crate::version::job::JobResult;
use crate::version::levels::{Levels, bounds};
use crate::version::runtime::Runtime;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::{KeyspaceState, View};
use std::path::PathBuf;
use std::sync::Arc;

/// The most entries that a window of fetched values holds.
const WINDOW_ENTRIES: usize = 4096;
/// The most bytes that a window of fetched values holds.
const WINDOW_BYTES: u64 = 16 << 20;

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
        bytes = value_bytes(table).saturating_add(bytes);
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
    let view = keyspace.view();
    let mut rewrite = job::prepare(runtime, keyspace, levels, pick, seen, &view.version)?;
    let mut values = InOrder::new(runtime, view, Box::new(|_| true));
    let Rewrite { input, retain, redirect, output, .. } = &mut rewrite;
    values.copy(input, retain, redirect, output)?;
    // Its segments are named as soon as the edit is durable, so they are kept before anything else.
    let segments = values.segments();
    rewrite.install(segments, || values.keep())
}

/// An entry that waits for its value to be copied.
struct PendingEntry {
    key: Vec<u8>,
    trailer: Trailer,
    payload: Vec<u8>,
    /// The index of its value in the window; `None` if its value is not copied.
    value: Option<usize>,
}

/// The segment that is being written.
struct OpenSegment {
    writer: SortedWriter,
    handle: Arc<SegmentHandle>,
    file: Arc<dyn crate::env::fs::File>,
}

/// Returns true for the segments from which values are copied.
pub type Moves = Box<dyn Fn(SegmentId) -> bool>;

/// Copies the values of entries on their way to a table into one segment, in key order.
pub struct InOrder<'a> {
    runtime: &'a Runtime,
    view: Arc<View>,
    moves: Moves,
    fetcher: Fetcher,
    window: Vec<PendingEntry>,
    wants: Vec<Want>,
    bytes: u64,
    open: Option<OpenSegment>,
    done: Option<(Arc<SegmentHandle>, u64)>,
    created: Vec<PathBuf>,
    installed: bool,
}

impl<'a> InOrder<'a> {
    /// Creates a copier of the values that `view` has in segments for which `moves` returns true;
    /// other pointers stay.
    pub fn new(runtime: &'a Runtime, view: Arc<View>, moves: Moves) -> Self {
        // These reads have counters of their own, because they are not a user's reads.
        let fetcher = Fetcher::new(runtime.env.reader.clone(), Arc::default());
        let (window, wants, created) = (Vec::new(), Vec::new(), Vec::new());
        let (open, done, installed) = (None, None, false);
        let bytes = 0;
        InOrder {
            runtime,
            view,
            moves,
            fetcher,
            window,
            wants,
            bytes,
            open,
            done,
            created,
            installed,
        }
    }

    /// Copies the entries of `input` that must be kept to `output`, and writes out and syncs the
    /// segment with their values.
    pub fn copy<B: FnMut(&[u8]) -> bool>(
        &mut self,
        input: &mut MergeIter,
        retain: &mut Retain<'_, B>,
        redirect: &mut Redirect,
        output: &mut TableOutput<'_>,
    ) -> JobResult {
        job::copy(self.runtime, input, retain, redirect, |key, trailer, payload| {
            self.add(key, trailer, payload, output)
        })?;
        self.write_window(output)?;
        Ok(self.finish()?)
    }

    /// Adds the next entry, whose pointer must be direct.
    fn add(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        payload: &[u8],
        output: &mut TableOutput<'_>,
    ) -> JobResult {
        let mut value = None;
        if let Slot::Pointer(pointer) = Slot::decode(trailer.kind()?, payload)?
            && (self.moves)(pointer.segment)
        {
            value = Some(self.wants.len());
            self.wants.push(Want { pointer, key: key.to_vec(), seqno: trailer.seqno() });
            self.bytes += u64::from(pointer.length);
        }
        let (key, payload) = (key.to_vec(), payload.to_vec());
        self.bytes += payload.len() as u64;
        self.window.push(PendingEntry { key, trailer, payload, value });
        if self.window.len() >= WINDOW_ENTRIES || self.bytes >= WINDOW_BYTES {
            self.write_window(output)?;
        }
        Ok(())
    }

    /// Copies the values of the waiting entries and adds the entries to `output`.
    fn write_window(&mut self, output: &mut TableOutput<'_>) -> JobResult {
        self.runtime.check_closing()?;
        let values = self.window.iter().filter(|entry| entry.value.is_some()).count();
        debug_assert_eq!(values, self.wants.len(), "each value belongs to an entry");
        let mut fetching = self.fetcher.many(&self.view, std::mem::take(&mut self.wants));
        for mut entry in std::mem::take(&mut self.window) {
            if let Some(index) = entry.value {
                if self.open.is_none() {
                    self.open = Some(self.create()?);
                }
                let open = self.open.as_mut().expect("created just now");
                let place = fetching.record(index, |record, epoch, offset| {
                    open.writer.copy(record, epoch, offset)
                })?;
                entry.payload.clear();
                place.encode(&mut entry.payload);
            }
            output.add(&entry.key, entry.trailer, &entry.payload)?;
        }
        let bytes = std::mem::take(&mut self.bytes);
        self.runtime.budget.spend(IoPriority::Compaction, bytes);
        Ok(())
    }

    fn create(&mut self) -> Result<OpenSegment> {
        let tables = self.runtime.set.tables();
        let id = SegmentId(self.runtime.set.allocate()?);
        let path = names::segment(&tables.dir, id);
        let file = self.runtime.env.fs.create(&path).doing("create a sorted segment", &path)?;
        self.created.push(path.clone());
        let epoch = self.runtime.env.random.next_u64();
        let (database, kind) = (tables.database, SegmentKind::Sorted);
        let identity = SegmentIdentity { database, id, kind, epoch };
        let writer = SortedWriter::create(file.clone(), &path, identity)?;
        let handle = Arc::new(SegmentHandle::open(id, kind, epoch, tables));
        Ok(OpenSegment { writer, handle, file })
    }

    /// Writes out and syncs the segment; its name becomes durable with those of the tables.
    fn finish(&mut self) -> Result<()> {
        assert!(self.window.is_empty(), "entries wait for their values");
        let Some(OpenSegment { writer, handle, file }) = self.open.take() else {
            return Ok(());
        };
        let length = writer.finish()?;
        // I3: before the edit. I8: after a failure the content on the device is unknown.
        let synced = file.sync().doing("sync a sorted segment", handle.path());
        synced.map_err(|error| self.runtime.health.fail(&error))?;
        self.done = Some((handle, length));
        Ok(())
    }

    /// Returns the new segment, if there is one.
    pub fn segments(&self) -> NewSegments {
        let Some((handle, length)) = &self.done else {
            return NewSegments::default();
        };
        let (id, segment) = (handle.id(), &handle.segment);
        let (kind, epoch, length) = (segment.kind(), segment.epoch(), *length);
        NewSegments {
            changes: vec![
                Change::AddSegment { id, kind, epoch },
                Change::SealSegment { id, length },
            ],
            handles: vec![handle.clone()],
            bytes: length,
        }
    }

    /// Keeps the segment, because the edit that names it took effect.
    pub fn keep(mut self) {
        assert!(self.open.is_none(), "a segment that is not synced cannot be named");
        self.installed = true;
    }
}

impl Drop for InOrder<'_> {
    fn drop(&mut self) {
        if !self.installed {
            (self.open, self.done) = (None, None);
            self.runtime.set.discard(&self.created);
        }
    }
}

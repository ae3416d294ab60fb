//! Asks the user's compaction filter about the entries of a compaction, and carries out what it
//! decides.
//!
//! I6: only values that no snapshot sees are changed, so a snapshot that lives when the job begins
//! sees what it saw. Those taken while the job runs keep the view from before its installation
//! (`version/filtered.rs`). What is dropped leaves a tombstone, unless nothing older can be below.
//!
//! I3: a large new value gets a record of its own, in a sorted segment that is synced before the
//! edit that names it together with the tables. The old record is no longer referenced by that
//! edit, and is garbage like that of any dropped entry.

use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{EntryKind, MAX_VALUE_BYTES, SeqNo, Trailer};
use crate::compaction::separate::Separator;
use crate::read::fetch::Fetcher;
use crate::throttle::reads::IoPriority;
use crate::version::compaction_filter::{CompactionFilter, FilterDecision, FilteredEntry};
use crate::version::job::JobResult;
use crate::version::runtime::Runtime;
use crate::version::segment_output::{NewSegments, SegmentOutput};
use crate::version::view::{KeyspaceState, View};
use std::sync::Arc;

/// A segment with changed values is closed once it has this many bytes.
const SEGMENT_BYTES: u64 = 64 << 20;

/// What a filter has decided.
#[derive(Debug, Default, Clone, Copy)]
pub struct FilterReport {
    /// The number of entries that it was asked about.
    pub asked: u64,
    /// The number of those that it dropped.
    pub dropped: u64,
    /// The number of those whose value it changed.
    pub changed: u64,
    /// The least sequence number of those that it dropped or changed.
    pub oldest: Option<SeqNo>,
}

/// What becomes of an entry.
pub enum Filtered<'a> {
    /// It stays as it is.
    Stays,
    /// It goes.
    Goes,
    /// It gets this trailer and payload.
    Becomes(Trailer, &'a [u8]),
}

/// A filter at work in one compaction.
pub struct Filtering<'a> {
    runtime: &'a Runtime,
    filter: Arc<dyn CompactionFilter>,
    /// What panics are told of.
    what: String,
    /// The view whose version resolves pointers.
    view: Arc<View>,
    fetcher: Fetcher,
    level: usize,
    separator: Separator,
    values: SegmentOutput<'a>,
    payload: Vec<u8>,
    /// The decisions so far.
    pub report: FilterReport,
}

impl<'a> Filtering<'a> {
    /// Prepares a compaction of `keyspace`, which has a filter, to `level`.
    pub fn new(
        runtime: &'a Runtime,
        keyspace: &KeyspaceState,
        view: Arc<View>,
        level: usize,
    ) -> Self {
        let filter = runtime.filters[&keyspace.name].clone();
        Filtering {
            runtime,
            what: format!("compaction filter {:?} of {:?}", filter.name(), keyspace.name),
            filter,
            view,
            // These reads have counters of their own, because they are not a user's reads.
            fetcher: Fetcher::new(runtime.env.reader.clone(), Arc::default()),
            level,
            separator: Separator::new(keyspace.id, &keyspace.options()),
            values: SegmentOutput::new(runtime, SEGMENT_BYTES, IoPriority::Compaction),
            payload: Vec::new(),
            report: FilterReport::default(),
        }
    }

    /// Asks about an entry, whose pointer must be direct.
    pub fn ask(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        payload: &[u8],
        needs_tombstone: impl FnOnce() -> bool,
    ) -> JobResult<Filtered<'_>> {
        let seqno = trailer.seqno();
        let read = |pointer| self.fetcher.value(&self.view, pointer, key, seqno);
        let entry = FilteredEntry::new(key, trailer, payload, self.level, &read)?;
        // No lock is held here, and nothing of this job is visible. A panic turns the database
        // read-only, as one in a comparator does.
        let decision: Result<FilterDecision> =
            self.runtime.health.guard(&self.what, || self.filter.filter(&entry));
        match entry.failed_read() {
            // As without a filter, a damaged value stops no compaction, which copies pointers. It
            // stays, whatever the filter made of the error.
            Some(error) if error.kind() == ErrorKind::Corruption => return Ok(Filtered::Stays),
            Some(error) => return Err(error.into()),
            None => {}
        }
        let (decision, deadline) = (decision?, entry.payload().deadline);
        self.report.asked += 1;
        if decision == FilterDecision::Keep {
            return Ok(Filtered::Stays);
        }
        self.report.oldest = Some(self.report.oldest.map_or(seqno, |oldest| oldest.min(seqno)));
        self.payload.clear();
        let FilterDecision::Change(value) = decision else {
            self.report.dropped += 1;
            // I6: what is older, below, must not be seen again.
            return Ok(match needs_tombstone() {
                true => Filtered::Becomes(Trailer::new(seqno, EntryKind::Delete), &self.payload),
                false => Filtered::Goes,
            });
        };
        if value.len() > MAX_VALUE_BYTES {
            let what = format!("{} made a value of {} bytes", self.what, value.len());
            return Err(Error::invalid_argument(what).advise("the limit is 1 GiB").into());
        }
        self.report.changed += 1;
        let mut new = Payload { is_merge: false, deadline, slot: Slot::Inline(&value) };
        new.encode(&mut self.payload);
        let inline = Trailer::new(seqno, new.kind());
        if self.separator.separates(value.len()) {
            let place = self.separator.write(key, inline, &self.payload, &mut self.values)?;
            new.slot = Slot::Pointer(place);
            self.payload.clear();
            new.encode(&mut self.payload);
        }
        Ok(Filtered::Becomes(Trailer::new(seqno, new.kind()), &self.payload))
    }

    /// Writes out and syncs the segments with the changed values, and returns them with their
    /// files, which are kept if the edit that names them takes effect. Lets go of the view.
    pub fn finish(mut self) -> Result<(NewSegments, SegmentOutput<'a>)> {
        self.values.finish()?;
        Ok((self.values.segments(), self.values))
    }
}

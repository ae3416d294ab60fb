//! The liveness scan: a walk over the tree that finds what is live in each segment.
//!
//! Of each key the newest entry is live, and of the older ones those that a live snapshot sees: for
//! each snapshot the newest at or below it. If that is an operand, so is what it is merged with:
//! all that is older, down to the first entry that is none. Everything else is garbage, even while
//! a table still names it. So the scan also finds garbage that a lazy compaction still keeps in
//! tables (I4: the tree alone decides).
//!
//! **Only what is durable counts as newer.** The order is: the wanted segments, a sequence number
//! S, the live snapshots, the views. S is durable: it is what is visible, and the log is synced up
//! to it before the views are taken, or it is what tables have anyway. Entries newer than S are
//! passed over, as if they had not been written: if a crash loses them, the older value is needed,
//! and its bytes must not be gone. So S is read between two commits: an ingest installs its
//! segments before its number is visible, and with an S from between, all of them would be garbage.
//! A snapshot that is taken later sees S or more, so it sees nothing that was found dead (I6: what
//! is garbage here never comes into view again).
//!
//! How much is live is counted as of what was visible when the scan began, V: an entry after S
//! counts instead of the one that it hides, whose record stays listed ([`Newer`]).
//!
//! Cost: one pass over the tables, which hold mostly keys and pointers; for values of 1 KiB that is
//! about a thirtieth of the data. No lock is held. Views keep the tables that they name, but no
//! segment, so what an earlier liveness scan found can be freed while this one is under way. A
//! finding that something is live in a segment holds for as long as the segment exists.

use crate::base::entry::Slot;
use crate::base::error::Result;
use crate::base::iter::{CurrentKey, EntryIter};
use crate::base::key::{SeqNo, Trailer};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::base::range_tombstone::RangeCover;
use crate::gc::facts::DeadRuns;
use crate::gc::record_list::{LiveRecord, RecordList};
use crate::read::cursor::merged;
use crate::read::level_iter::ReadMode;
use crate::segment::MIN_RECORD_BYTES;
use crate::version::entries::EntriesView;
use crate::version::job::JobResult;
use crate::version::placing::Placing;
use crate::version::snapshots::{oldest_reader, stratum};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::time::Duration;

/// Least bytes of a record besides its key and value.
const RECORD_HEADER_BYTES: u64 = MIN_RECORD_BYTES as u64;

/// The live records of one segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    /// Number of live records.
    pub records: u64,
    /// Bytes of live records.
    pub bytes: u64,
    /// The records in the order of keys; `None` if they were not asked for or there was no room.
    pub list: Option<RecordList>,
    /// True if the list was asked for, but there was no room.
    pub is_given_up: bool,
    /// The number of the walk that was to list them, or 0 if none was; ranks of different walks do
    /// not compare.
    pub walk: u64,
    /// Bytes that the segment had when that walk, or the last liveness scan, began.
    pub written: u64,
    /// The runs of dead bytes between the records of the list; `None` until they are measured.
    pub dead_runs: Option<DeadRuns>,
}

impl Live {
    /// Returns true if the segment was closed and behind the head before the walk began. Only then
    /// this is complete: what was not found live in it is garbage.
    pub fn is_counted(&self) -> bool {
        self.walk > 0
    }

    /// Returns the bytes of memory that the list takes.
    pub fn memory_bytes(&self) -> usize {
        self.list.as_ref().map_or(0, RecordList::memory_bytes)
    }
}

/// The result of a liveness scan.
#[derive(Debug, Clone, Default)]
pub struct LivenessScan {
    /// Entries that are newer hide nothing in it.
    pub seqno: SeqNo,
    /// Live records by segment. Segments that a memtable may point into can have more.
    pub segments: BTreeMap<SegmentId, Live>,
    /// Bytes of live keys and values that are kept in tables.
    pub inline_bytes: u64,
    /// What lies after `seqno`.
    pub newer: Newer,
    /// What was live at [`Scope::before`], as far as no merge has dropped it since: how many
    /// entries, and bytes of their keys and values.
    pub live_before: (u64, u64),
    /// For each snapshot of [`Scope::snapshots`], bytes of the keys and values that newer entries
    /// hide from all later readers: they die with the snapshot.
    pub kept_by_snapshots: Vec<(SeqNo, u64)>,
    /// Number of live entries, including those with values in segments.
    pub entries: u64,
    /// Number of entries that the walk passed.
    pub walked: u64,
    /// The duration of the walk.
    pub took: Duration,
}

impl LivenessScan {
    /// Returns the number of live entries, those after `seqno` included.
    pub fn live_entries(&self) -> u64 {
        (self.entries + self.newer.entries).saturating_sub(self.newer.superseded_entries)
    }

    /// Returns the bytes of all live keys and values, without the headers of records.
    pub fn live_bytes(&self) -> u64 {
        let heads = |live: &Live| live.records.saturating_mul(RECORD_HEADER_BYTES);
        let bytes = self.segments.values().map(|live| live.bytes.saturating_sub(heads(live)));
        let sum = bytes.fold(self.inline_bytes, u64::saturating_add);
        let all = sum.saturating_add(self.newer.bytes);
        all.saturating_sub(self.newer.superseded_bytes)
    }
}

/// The entries after S that were visible when the scan began, as sums: what readers see of them,
/// and what they hide of what is live at S. Records are listed without regard to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Newer {
    /// Number of entries with a value that a reader sees.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Number of live entries up to S that no reader sees any more.
    pub superseded_entries: u64,
    /// Bytes of their keys and values.
    pub superseded_bytes: u64,
}

/// The input of a liveness scan.
pub struct Scope {
    /// A sequence number up to which all is durable, S, read before everything else here.
    pub seqno: SeqNo,
    /// The number that was visible then, V; S itself if the log was synced, and for a look, which
    /// does not say how much is live.
    pub visible: SeqNo,
    /// The live snapshots, ascending, listed after `seqno` was read.
    pub snapshots: Vec<SeqNo>,
    /// A view of every keyspace, taken after both.
    pub views: Vec<EntriesView>,
    /// Segments that were closed and behind the head before `seqno` was read, so that only the
    /// tables of the views lead to them, with entries at or below `seqno`. Their records are listed
    /// one by one; lists of the last segments are given up first.
    pub wanted: Vec<SegmentId>,
    /// True if only the wanted segments count, and the views have only the tables that lead to
    /// them. Entries that other tables and memtables hide are then found live, and a record that is
    /// missing is not reported as an error.
    pub wanted_only: bool,
    /// The most bytes of memory for all lists. If they need more, those of the least wanted
    /// segments are given up, except for the first segment's.
    pub max_list_bytes: usize,
    /// The number of this walk, from 1, which no other walk has.
    pub walk: u64,
    /// An older number for which it is told, too, how much was live; 0 if it is not wanted.
    pub before: SeqNo,
}

/// Takes the liveness scan. It calls `go_on` every few milliseconds; an error of that ends the
/// walk.
pub fn take(scope: &Scope, mut go_on: impl FnMut() -> JobResult) -> JobResult<LivenessScan> {
    assert!(scope.snapshots.is_sorted(), "I6: strata of snapshots are looked up by bisection");
    let mut walk = LivenessWalk::new(scope);
    assert_eq!(walk.known.len(), scope.wanted.len(), "a segment is listed once");
    for view in &scope.views {
        walk.keyspace(view, &mut go_on)?;
    }
    debug_assert_eq!(
        walk.segments.iter().map(|(_, live)| live.memory_bytes()).sum::<usize>(),
        walk.list_bytes,
        "the memory of the lists is bounded by their sum"
    );
    debug_assert!(
        walk.segments.iter().map(|(_, live)| live.records).sum::<u64>()
            <= walk.liveness_scan.entries,
        "a live record belongs to a live entry"
    );
    walk.liveness_scan.segments = walk.segments.into_iter().collect();
    Ok(walk.liveness_scan)
}

/// Number of entries between two calls of `go_on`.
const LOOK_UP_EVERY: u64 = 4096;

/// Number of pointers whose places are found together: enough for each block of a relocation to
/// resolve several of them. No block of memory for them exceeds a MiB, so that the heap keeps
/// little (`env/aligned.rs`).
const PLACED_TOGETHER: usize = if cfg!(test) { 50 } else { 32 << 10 };

struct LivenessWalk<'a> {
    scope: &'a Scope,
    liveness_scan: LivenessScan,
    /// The live records of each segment found so far.
    segments: Vec<(SegmentId, Live)>,
    /// Index of each segment in `segments`.
    known: FxHashMap<SegmentId, usize>,
    /// Number of wanted segments that still have a list.
    listed_segments: usize,
    list_bytes: usize,
    rank: u64,
}

impl<'a> LivenessWalk<'a> {
    fn new(scope: &'a Scope) -> Self {
        let walk = scope.walk;
        let list = |&id: &SegmentId| {
            (id, Live { list: Some(RecordList::default()), walk, ..Live::default() })
        };
        LivenessWalk {
            scope,
            liveness_scan: LivenessScan {
                seqno: scope.seqno,
                kept_by_snapshots: scope.snapshots.iter().map(|&seqno| (seqno, 0)).collect(),
                ..LivenessScan::default()
            },
            // The order is the same in both, so the index of a wanted segment is the same, too.
            segments: scope.wanted.iter().map(list).collect(),
            known: scope.wanted.iter().enumerate().map(|(number, &id)| (id, number)).collect(),
            listed_segments: scope.wanted.len(),
            list_bytes: 0,
            rank: 0,
        }
    }

    fn keyspace(
        &mut self,
        entries: &EntriesView,
        go_on: &mut dyn FnMut() -> JobResult,
    ) -> JobResult {
        let view = entries.view();
        let order = view.levels.order().clone();
        let snapshots = &self.scope.snapshots[..];
        let mut iter = merged(view, ReadMode::FullScan)?;
        let (mut cover, mut placing) = (view.ranges(), Placing::new(entries));
        let mut key = CurrentKey::default();
        // The stratum between two snapshots in which the last live entry of `key` was found.
        let mut seen: Option<usize> = None;
        // True if there is a newer entry of `key`, even one after S that was passed over.
        let mut is_hidden = false;
        // The stratum in which the last entry after S that hides older ones was found.
        let mut newer: Option<usize> = None;
        // True if the newest entry of `key` up to `before` was met.
        let mut is_known_before = false;
        iter.seek_to_first()?;
        while iter.valid() {
            if key.enter(&order, iter.user_key()) {
                (seen, is_hidden, newer, is_known_before) = (None, false, None, false);
            }
            let trailer = iter.trailer();
            is_known_before =
                is_known_before || self.note_before(&key, trailer, iter.payload(), &mut cover)?;
            if trailer.seqno() <= self.scope.seqno {
                let stratum = stratum(snapshots, trailer.seqno());
                let reader = oldest_reader(snapshots, stratum, self.scope.seqno);
                if cover.hides(key.bytes(), trailer.seqno(), reader) {
                    // Older ones of the same stratum are hidden, too.
                    seen = Some(stratum);
                } else if seen != Some(stratum) {
                    is_hidden |= cover.hides(key.bytes(), trailer.seqno(), SeqNo::MAX);
                    let slot = Slot::decode(trailer.kind()?, iter.payload())?;
                    self.note_kept(&key, trailer, slot, (stratum, seen.is_some()), &mut cover);
                    // I4: an operand needs what is below it.
                    seen = (!trailer.kind()?.is_merge()).then_some(stratum);
                    if newer == Some(stratum) || self.is_covered(&mut cover, &key, trailer, stratum)
                    {
                        let sums = &mut self.liveness_scan.newer;
                        sums.superseded_entries += u64::from(slot != Slot::Delete);
                        sums.superseded_bytes += pair_bytes(key.bytes(), slot);
                    }
                    self.live(key.bytes(), slot, is_hidden, &mut placing)?;
                    if placing.len() == PLACED_TOGETHER {
                        self.place(&mut placing, go_on)?;
                    }
                }
            } else if trailer.seqno() <= self.scope.visible {
                let stratum = stratum(snapshots, trailer.seqno());
                if newer != Some(stratum) && !self.is_covered(&mut cover, &key, trailer, stratum) {
                    let slot = Slot::decode(trailer.kind()?, iter.payload())?;
                    self.liveness_scan.newer.entries += u64::from(slot != Slot::Delete);
                    self.liveness_scan.newer.bytes += pair_bytes(key.bytes(), slot);
                }
                if !trailer.kind()?.is_merge() {
                    newer = Some(stratum);
                }
            }
            is_hidden |= !trailer.kind()?.is_merge();
            self.liveness_scan.walked += 1;
            if self.liveness_scan.walked.is_multiple_of(LOOK_UP_EVERY) {
                go_on()?;
            }
            iter.next()?;
        }
        self.place(&mut placing, go_on)
    }

    /// Notes the newest entry of a key up to `before`; returns false if this is a newer one.
    fn note_before(
        &mut self,
        key: &CurrentKey,
        trailer: Trailer,
        payload: &[u8],
        cover: &mut RangeCover,
    ) -> Result<bool> {
        if trailer.seqno() > self.scope.before {
            return Ok(false);
        }
        let slot = Slot::decode(trailer.kind()?, payload)?;
        if slot != Slot::Delete && !cover.hides(key.bytes(), trailer.seqno(), self.scope.before) {
            let (entries, bytes) = self.liveness_scan.live_before;
            self.liveness_scan.live_before =
                (entries + 1, bytes.saturating_add(pair_bytes(key.bytes(), slot)));
        }
        Ok(true)
    }

    /// Counts an entry for the oldest snapshot of its stratum, if it is hidden from all who come
    /// later: `is_superseded` by a newer live entry, or by a range tombstone.
    fn note_kept(
        &mut self,
        key: &CurrentKey,
        trailer: Trailer,
        slot: Slot<'_>,
        (stratum, is_superseded): (usize, bool),
        cover: &mut RangeCover,
    ) {
        let all = self.scope.seqno;
        if let Some((_, kept)) = self.liveness_scan.kept_by_snapshots.get_mut(stratum)
            && (is_superseded || cover.hides(key.bytes(), trailer.seqno(), all))
        {
            *kept = kept.saturating_add(pair_bytes(key.bytes(), slot));
        }
    }

    /// Returns true if a range tombstone up to V, but not up to S, hides an entry of the stratum
    /// from all of its readers.
    fn is_covered(
        &self,
        cover: &mut RangeCover,
        key: &CurrentKey,
        trailer: Trailer,
        stratum: usize,
    ) -> bool {
        let Scope { snapshots, visible, seqno, .. } = self.scope;
        visible > seqno && {
            let reader = oldest_reader(snapshots, stratum, *visible);
            cover.hides(key.bytes(), trailer.seqno(), reader)
        }
    }

    /// Counts an entry that seems live. Its record may have been freed as garbage. Then the entry
    /// that hid it may have been dropped since, in favour of a newer one (`is_hidden`) that lies
    /// after S, or after a snapshot that was released before the views were taken. In that case the
    /// entry is still dead.
    fn live(
        &mut self,
        key: &[u8],
        slot: Slot<'_>,
        is_hidden: bool,
        placing: &mut Placing<'_>,
    ) -> Result<()> {
        match slot {
            Slot::Delete => {}
            Slot::Inline(value) => {
                self.liveness_scan.inline_bytes += (key.len() + value.len()) as u64;
                self.liveness_scan.entries += 1;
            }
            Slot::Pointer(pointer) => {
                let wanted_only = self.scope.wanted_only;
                if wanted_only && !self.known.contains_key(&pointer.segment) {
                    return Ok(());
                }
                placing.add(pointer, is_hidden || wanted_only)?;
            }
        }
        Ok(())
    }

    /// Counts the records that the collected pointers lead to.
    fn place(
        &mut self,
        placing: &mut Placing<'_>,
        go_on: &mut dyn FnMut() -> JobResult,
    ) -> JobResult {
        for place in placing.finish(go_on)?.flatten() {
            self.liveness_scan.entries += 1;
            self.note(place);
        }
        Ok(())
    }

    fn note(&mut self, place: ValuePointer) {
        let segments = &mut self.segments;
        let number = *self.known.entry(place.segment).or_insert_with(|| {
            segments.push((place.segment, Live::default()));
            segments.len() - 1
        });
        let (_, live) = &mut segments[number];
        live.records += 1;
        live.bytes += u64::from(place.length);
        if let Some(list) = &mut live.list {
            let ValuePointer { length, offset, .. } = place;
            self.list_bytes -= list.memory_bytes();
            list.push(LiveRecord { rank: self.rank, length, offset });
            self.list_bytes += list.memory_bytes();
            self.rank += 1;
            if self.list_bytes > self.scope.max_list_bytes {
                self.give_up_a_list();
            }
        }
    }

    /// Gives up the list of the least wanted segment. The most wanted one keeps its list: otherwise
    /// no segment could ever be freed with too little memory.
    fn give_up_a_list(&mut self) {
        while self.listed_segments > 1 {
            self.listed_segments -= 1;
            let (_, live) = &mut self.segments[self.listed_segments];
            live.is_given_up = true;
            if let Some(list) = live.list.take().filter(|list| !list.is_empty()) {
                self.list_bytes -= list.memory_bytes();
                return;
            }
        }
    }
}

/// Returns the bytes that a pair adds to those that are live.
fn pair_bytes(key: &[u8], slot: Slot<'_>) -> u64 {
    match slot {
        Slot::Delete => 0,
        Slot::Inline(value) => (key.len() + value.len()) as u64,
        Slot::Pointer(pointer) => u64::from(pointer.length).saturating_sub(RECORD_HEADER_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i07_no_lengths_make_the_sum_overflow() {
        let sum = |found: &[(u64, u64)]| {
            let live = |&(records, bytes): &(u64, u64)| Live { records, bytes, ..Live::default() };
            let segments = (1..).map(SegmentId).zip(found.iter().map(live)).collect();
            LivenessScan { segments, inline_bytes: 5, ..LivenessScan::default() }.live_bytes()
        };
        let newer = Newer { superseded_bytes: u64::MAX, superseded_entries: 2, ..Newer::default() };
        let hidden = LivenessScan { newer, entries: 1, ..LivenessScan::default() };
        assert_eq!((hidden.live_bytes(), hidden.live_entries()), (0, 0));
        assert_eq!(sum(&[(2, 118), (1, 9)]), 105, "without what records add");
        assert_eq!(sum(&[(2, 1), (1, 109)]), 105, "pointers shorter than a record");
        assert_eq!(sum(&[(0, u64::MAX), (0, u64::MAX)]), u64::MAX);
    }
}

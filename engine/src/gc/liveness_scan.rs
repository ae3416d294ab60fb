//! A liveness scan: a walk over the tree that finds what is live in each segment.
//!
//! Of each key the newest entry is live, and of the older ones those that a live snapshot sees:
//! the newest at or below each. Everything else is garbage, also while a table still names it. So
//! garbage is found that hides behind a lazy compaction (I4: the tree alone decides).
//!
//! **Only what is durable counts as newer.** The order is: the visible sequence number S, the live
//! snapshots, a sync of the log, the views. Entries behind S are passed over, as if they had not
//! been written: their loss in a crash must not take an older value with it, whose bytes are gone.
//! A snapshot that is taken later sees S or more, so it sees no less than what was found live
//! (I6: what is garbage here never comes into view again).
//!
//! Cost: one pass over the tables, which hold keys and pointers mostly; for values of 1 KiB that
//! is about a thirtieth of the data. No lock is held; views keep what they name, but no segment:
//! what an earlier liveness scan found can be freed while this one is under way. Where it says that
//! something is live in a segment, that is so as long as the segment exists.

use crate::base::entry::Slot;
use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::key::SeqNo;
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::read::cursor::merged;
use crate::read::level_iter::ReadMode;
use crate::segment::MIN_RECORD_BYTES;
use crate::version::entries::EntriesView;
use crate::version::job::JobResult;
use crate::version::placing::Placing;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Every record has at least as many bytes besides its key and value.
const RECORD_HEADER_BYTES: u64 = MIN_RECORD_BYTES as u64;

/// A live record of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveRecord {
    /// Its place in the order of keyspaces and keys, among all records of the liveness scan.
    pub rank: u32,
    /// The length of the record.
    pub length: u32,
    /// Where it is in the segment.
    pub offset: u64,
}

/// What is live in one segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    /// How many records.
    pub records: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// The records in the order of keys, if they were asked for and there was room.
    pub list: Option<Vec<LiveRecord>>,
    /// True if they were asked for, and there was no room.
    pub is_given_up: bool,
    /// Which walk found them: ranks of one do not compare with those of another.
    pub walk: u64,
}

/// What a liveness scan found.
#[derive(Debug, Clone, Default)]
pub struct LivenessScan {
    /// What was visible when it began: it knows of nothing behind.
    pub seqno: SeqNo,
    /// Live records, by segment; segments that a memtable may lead to can have more.
    pub segments: BTreeMap<SegmentId, Live>,
    /// The segments that were closed and behind the head before the liveness scan began. Of these
    /// alone it knows everything: what it did not find live in them is garbage.
    pub counted: BTreeSet<SegmentId>,
    /// Live keys and values that are kept in tables, in bytes.
    pub inline_bytes: u64,
    /// Live entries, those with values in segments included.
    pub entries: u64,
    /// Entries passed by.
    pub walked: u64,
}

impl LivenessScan {
    /// Bytes of all live keys and values, without what a record adds to them.
    pub fn live_bytes(&self) -> u64 {
        let heads = |live: &Live| live.records.saturating_mul(RECORD_HEADER_BYTES);
        let bytes = self.segments.values().map(|live| live.bytes.saturating_sub(heads(live)));
        bytes.fold(self.inline_bytes, u64::saturating_add)
    }
}

/// What a liveness scan looks at.
pub struct Scope<'a> {
    /// The visible sequence number, read before all else here; the log is synced up to it.
    pub seqno: SeqNo,
    /// The live snapshots, ascending, listed after `seqno` was read.
    pub snapshots: &'a [SeqNo],
    /// A view of every keyspace, taken after both.
    pub views: &'a [EntriesView],
    /// Segments that were closed and behind the head before `seqno` was read, so that nothing
    /// leads to them but what is in the tables of the views. Their records are listed one by one,
    /// those of the first with the least risk of being given up.
    pub wanted: &'a [SegmentId],
    /// True if nothing else counts, and the views are of what leads to the wanted segments alone.
    /// What other tables and memtables hide is then found live; of a record that is gone it is not
    /// told whether it should be there.
    pub wanted_only: bool,
    /// How many records may be listed in all. Lists of the least wanted segments are given up
    /// when there are more, but for one.
    pub max_listed: usize,
    /// A number that no walk had before.
    pub walk: u64,
}

/// Takes the liveness scan. `go_on` is asked every few milliseconds; its error ends the walk.
pub fn take(scope: &Scope<'_>, mut go_on: impl FnMut() -> JobResult) -> JobResult<LivenessScan> {
    let mut walk = LivenessWalk::new(scope);
    for view in scope.views {
        walk.keyspace(view, &mut go_on)?;
    }
    walk.liveness_scan.segments = walk.segments.into_iter().collect();
    Ok(walk.liveness_scan)
}

/// Entries between two looks at whether to go on.
const LOOK_UP_EVERY: u64 = 4096;

/// Pointers whose places are found together: some MiB of memory, and enough for each block of a
/// relocation to be asked about many of them.
const PLACED_TOGETHER: usize = if cfg!(test) { 50 } else { 128 << 10 };

struct LivenessWalk<'a> {
    scope: &'a Scope<'a>,
    liveness_scan: LivenessScan,
    /// What is live in each segment found so far.
    segments: Vec<(SegmentId, Live)>,
    /// Where a segment is among those.
    known: FxHashMap<SegmentId, usize>,
    /// How many of the wanted segments are listed still.
    listed_segments: usize,
    listed_records: usize,
    rank: u32,
}

impl<'a> LivenessWalk<'a> {
    fn new(scope: &'a Scope<'a>) -> Self {
        let walk = scope.walk;
        let list = |&id: &SegmentId| (id, Live { list: Some(Vec::new()), walk, ..Live::default() });
        LivenessWalk {
            scope,
            liveness_scan: LivenessScan {
                seqno: scope.seqno,
                counted: scope.wanted.iter().copied().collect(),
                ..LivenessScan::default()
            },
            // In this order: the number of a wanted segment is the same in both.
            segments: scope.wanted.iter().map(list).collect(),
            known: scope.wanted.iter().enumerate().map(|(number, &id)| (id, number)).collect(),
            listed_segments: scope.wanted.len(),
            listed_records: 0,
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
        let snapshots = self.scope.snapshots;
        let mut iter = merged(view, ReadMode::FullScan)?;
        let mut placing = Placing::new(entries);
        let mut key: Vec<u8> = Vec::new();
        // The stratum between two snapshots in which the newest entry of `key` was found last.
        let mut seen: Option<usize> = None;
        // True if there is a newer entry of `key`, be it one behind S that was passed over.
        let mut is_hidden = false;
        iter.seek_to_first()?;
        while iter.valid() {
            if seen.is_none() || order.compare(iter.user_key(), &key).is_ne() {
                key.clear();
                key.extend_from_slice(iter.user_key());
                (seen, is_hidden) = (Some(usize::MAX), false);
            }
            let trailer = iter.trailer();
            if trailer.seqno() <= self.scope.seqno {
                let stratum = snapshots.partition_point(|&snapshot| snapshot < trailer.seqno());
                if seen != Some(stratum) {
                    seen = Some(stratum);
                    let slot = Slot::decode(trailer.kind()?, iter.payload())?;
                    self.live(&key, slot, is_hidden, &mut placing)?;
                    if placing.len() == PLACED_TOGETHER {
                        self.place(&mut placing, go_on)?;
                    }
                }
            }
            is_hidden = true;
            self.liveness_scan.walked += 1;
            if self.liveness_scan.walked.is_multiple_of(LOOK_UP_EVERY) {
                go_on()?;
            }
            iter.next()?;
        }
        self.place(&mut placing, go_on)
    }

    /// Counts an entry that seems live. If its record was given up, then the entry that hid it may
    /// have been dropped since, for a newer one (`is_hidden`) that is behind S, or that was behind
    /// a snapshot which went before the views were taken: then it is as dead as it was.
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

    /// Counts the records that pointers lead to.
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
            list.push(LiveRecord { rank: self.rank, length, offset });
            self.rank += 1;
            self.listed_records += 1;
            if self.listed_records > self.scope.max_listed || self.rank == u32::MAX {
                self.give_up_a_list();
            }
        }
    }

    /// Forgets the records of the least wanted segment. The most wanted one keeps its list, or
    /// with too little memory none could ever be freed.
    fn give_up_a_list(&mut self) {
        while self.listed_segments > 1 {
            self.listed_segments -= 1;
            let (_, live) = &mut self.segments[self.listed_segments];
            live.is_given_up = true;
            if let Some(list) = live.list.take().filter(|list| !list.is_empty()) {
                self.listed_records -= list.len();
                return;
            }
        }
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
        assert_eq!(sum(&[(2, 118), (1, 9)]), 105, "without what records add");
        assert_eq!(sum(&[(2, 1), (1, 109)]), 105, "pointers shorter than a record");
        assert_eq!(sum(&[(0, u64::MAX), (0, u64::MAX)]), u64::MAX);
    }
}

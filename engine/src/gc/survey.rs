//! The survey of the space, from the version and the last liveness scan: the facts that the picker
//! decides by.

use crate::base::error::{IoContext, Result};
use crate::base::pointer::SegmentId;
use crate::base::size::FILE_BLOCK_BYTES;
use crate::gc::facts::{DeadRuns, LEAST_RUN_BYTES, PunchCost, SegmentFacts, SpaceFacts};
use crate::gc::hidden_share::TreeSpread;
use crate::gc::liveness_scan::{Live, LivenessScan};
use crate::gc::punch::runs::{runs_to_punch, sum_up};
use crate::gc::record_list::LiveRecord;
use crate::gc::relocate::VictimRecords;
use crate::memtable::RecordBytes;
use crate::relocation::RelocationMeta;
use crate::segment::SegmentKind;
use crate::version::runtime::Runtime;
use crate::version::unnamed::WrittenFrom;
use crate::version::{LiveSegment, Version, hole_bytes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The files of a block each that every database has: LOCK, CURRENT and OPTIONS. An encrypted one
/// has KEYS, too.
const FIXED_FILES: u64 = 3;
/// The most bytes that an entry of a memtable takes in the log beside its value, with a short key:
/// 35 of the record and its frame if each commit has one, and for a tombstone the key. Where it is
/// too much, a flush for the sake of space comes later.
const LOG_ENTRY_BYTES: u64 = 64;

/// What is left dead beside new holes is worth moving what is live for, if it is more than this
/// part (one in this many) of the holes.
const LEFT_PART: u64 = 3;

/// The knowledge about the bytes in segments.
#[derive(Default)]
pub struct Knowledge {
    /// The last liveness scan, with what looks at single segments have found since.
    pub liveness_scan: LivenessScan,
}

impl Knowledge {
    /// Replaces the results by those of a liveness scan; when it began, each segment had so many
    /// bytes. `version` is the present one. Findings of looks at segments that were new at that
    /// time are kept, because what is dead there stays dead (I6).
    pub fn renew(
        &mut self,
        liveness_scan: LivenessScan,
        written: &[(SegmentId, u64)],
        version: &Version,
    ) {
        let before = std::mem::replace(&mut self.liveness_scan, liveness_scan).segments;
        let segments = &mut self.liveness_scan.segments;
        for &(id, written) in written {
            segments.entry(id).or_default().written = written;
        }
        let is_known =
            |(id, live): &(SegmentId, Live)| live.is_counted() && version.segments.contains_key(id);
        for (id, live) in before.into_iter().filter(is_known) {
            let found = segments.entry(id).or_default();
            debug_assert!(found.walk != live.walk, "each walk has a number of its own");
            // A later walk found less live, and what it did not find live may be in a hole by now.
            if found.walk < live.walk {
                *found = live;
            }
        }
        // What was freed meanwhile needs no list.
        segments.retain(|id, _| version.segments.contains_key(id));
        self.leave_out_holes(version);
    }

    /// Removes records from the lists that lie in holes which were declared during the scan: they
    /// were dead by then.
    fn leave_out_holes(&mut self, version: &Version) {
        for (id, live) in &mut self.liveness_scan.segments {
            let segment = version.segments.get(id).filter(|segment| !segment.holes.is_empty());
            if let (Some(segment), Some(list)) = (segment, &mut live.list) {
                let is_kept = |it: &LiveRecord| !segment.is_punched(it.offset, it.length.into());
                *list = list.iter().filter(is_kept).collect();
            }
        }
    }

    /// Adds the findings of a look at new segments. Those whose lists were given up stay new.
    pub fn add(&mut self, mut found: LivenessScan, facts: &SpaceFacts) {
        for segment in &facts.segments {
            let live = found.segments.remove(&segment.id).filter(|live| live.list.is_some());
            let live = live.map(|live| (segment.id, Live { written: segment.written, ..live }));
            self.liveness_scan.segments.extend(live);
        }
    }

    /// Measures the runs of dead bytes that are worth a call, in the segments whose lists are new.
    /// While the `cost` of a call is unknown, all that could be counts as worth it; returns true
    /// if there is some then, which is measured once the cost is known.
    pub fn measure_dead_runs(&mut self, version: &Version, cost: Option<&PunchCost>) -> bool {
        let (least, mut waits) = (cost.map_or(LEAST_RUN_BYTES, PunchCost::least_run), false);
        for (id, live) in &mut self.liveness_scan.segments {
            let segment = version.segments.get(id).filter(|_| live.dead_runs.is_none());
            if let Some((segment, list)) = segment.zip(live.list.as_ref()) {
                let runs = sum_up(&runs_to_punch(list, segment, least));
                let is_measured = cost.is_some() || runs.count == 0;
                live.dead_runs = is_measured.then_some(runs);
                waits |= !is_measured;
            }
        }
        waits
    }

    /// Returns the bytes of memory that lists take.
    pub fn list_bytes(&self) -> usize {
        self.liveness_scan.segments.values().map(Live::memory_bytes).sum()
    }

    /// Takes the list of a segment's live records, if there is one. It is used once: what dies
    /// later is found by the next liveness scan.
    pub fn take_list(&mut self, id: SegmentId) -> Option<VictimRecords> {
        let live = self.liveness_scan.segments.get_mut(&id)?;
        let list = live.list.take()?;
        assert!(
            live.is_counted(),
            "I4: only a scan that counted a segment says what is dead in it"
        );
        Some(VictimRecords { id, list })
    }

    /// Puts back the lists of victims that were not freed.
    pub fn put_back(&mut self, victims: Vec<VictimRecords>) {
        for VictimRecords { id, list } in victims {
            if let Some(live) = self.liveness_scan.segments.get_mut(&id) {
                assert!(live.list.is_none(), "segment {id} has another list than the one taken");
                live.list = Some(list);
            }
        }
    }

    /// Puts back the lists of victims of which holes were to be declared, where more than
    /// `LEFT_PART` of what these were to give is still dead: what is live there may be moved. The
    /// other lists are used up, and what dies later is found by the next liveness scan.
    pub fn put_back_after_holes(&mut self, mut victims: Vec<VictimRecords>, version: &Version) {
        victims.retain(|victim| {
            let segment = version.segments.get(&victim.id);
            let live = self.liveness_scan.segments.get_mut(&victim.id);
            let Some((segment, live)) = segment.zip(live) else { return false };
            let runs = live.dead_runs.replace(DeadRuns { count: 0, bytes: 0 });
            let kept = hole_bytes(&segment.holes).saturating_add(live.bytes);
            let left = segment.sealed.unwrap_or_default().saturating_sub(kept);
            left > runs.map_or(0, |runs| runs.bytes) / LEFT_PART
        });
        self.put_back(victims);
    }

    /// Returns the estimate of live bytes in a segment of `written` bytes; it is never too low.
    fn live_in(&self, id: SegmentId, written: u64) -> u64 {
        let known = self.liveness_scan.segments.get(&id);
        let (counted, then) = known.map_or((0, 0), |live| (live.bytes, live.written));
        (counted + written.saturating_sub(then)).min(written)
    }
}

/// Returns the facts of the current version. `live_bytes` is the best estimate of all live bytes.
pub fn survey(context: &Runtime, knowledge: &Knowledge, live_bytes: u64) -> Result<SpaceFacts> {
    let version = &context.set.current();
    let liveness_scan = &knowledge.liveness_scan;
    let mut facts = SpaceFacts { live_bytes, ..SpaceFacts::default() };
    // What newer entries hide is dead if nobody has a snapshot.
    let unflushed = add_memtables(&mut facts, context, context.snapshots.list().is_empty());
    // It is read after the memtables, which keep what a flush writes until it is named.
    facts.flushed_bytes = context.set.unnamed().of(WrittenFrom::Memtables);
    facts.pointed_bytes = unflushed.values().map(|records| records.all).sum();
    let targets = target_bytes(version.relocations.values().map(|it| &*it.meta));
    // A flush that was installed meanwhile has taken entries from memtables, and `version` has no
    // table with them.
    let is_current = context.set.current().number == version.number;
    for (&id, live) in version.segments.iter() {
        let mut segment = physical(context, id, live, version)?;
        let relocated = targets.get(&id).copied().unwrap_or_default();
        segment.referenced = version.uses.of(id).bytes.saturating_add(relocated);
        let counted = liveness_scan.segments.get(&id);
        segment.counted = counted.is_some_and(Live::is_counted);
        segment.live_records = counted.map_or(0, |live| live.records);
        // Live bytes shrink since the scan when tables drop references, or memtables hold newer
        // entries.
        let records = unflushed.get(&id).copied().unwrap_or_default();
        let at_most = match segment.is_collectable() {
            true => segment.referenced,
            false => segment.written.saturating_sub(records.hidden),
        };
        let live_then = knowledge.live_in(id, segment.written);
        segment.live = live_then.min(at_most);
        if segment.counted && segment.is_collectable() {
            facts.unreferenced_since += live_then - segment.live;
        }
        if !segment.is_collectable() && is_current {
            let needed = segment.referenced.saturating_add(records.all - records.hidden);
            segment.replayed = segment.live.saturating_sub(needed);
        }
        // Holes are declared by the list, which is used once.
        let listed = counted.filter(|counted| counted.list.is_some());
        let runs = listed.and_then(|counted| counted.dead_runs);
        segment.dead_runs = runs.filter(|runs| runs.count > 0 && !is_linked(context, live));
        facts.segment_bytes += segment.allocated;
        facts.segments.push(segment);
    }
    add_tables(&mut facts, version);
    // The output of running compactions is on the disk in addition to their inputs.
    facts.table_bytes += context.set.unnamed().get();
    let relocations = version.relocations.values().map(|relocation| blocks(relocation.meta.bytes));
    // I4, I6: the views of a liveness scan must have what leads to the segments of `version`, so
    // all keyspaces have it by the time the facts are there: this waits for that.
    let manifest_bytes = context.set.manifest_length();
    let fixed_files = FIXED_FILES + u64::from(context.set.tables().identity.is_encrypted());
    facts.other_bytes =
        relocations.sum::<u64>() + blocks(manifest_bytes) + fixed_files * FILE_BLOCK_BYTES;
    debug_assert!(facts.segments.is_sorted_by_key(|it| it.id), "the newest segment comes last");
    Ok(facts)
}

/// Adds what tables and memtables hold.
fn add_tables(facts: &mut SpaceFacts, version: &Version) {
    for keyspace in version.keyspaces.values() {
        let bytes = keyspace.levels.tables().map(|(_, table)| blocks(table.meta.bytes));
        facts.table_bytes += bytes.sum::<u64>();
        facts.tree.add(&TreeSpread::of(&keyspace.levels));
    }
    // A memtable is above all runs.
    let bytes = facts.unflushed_bytes;
    facts.tree.add(&TreeSpread { bytes, above_bytes: bytes, ..TreeSpread::default() });
}

fn blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(FILE_BLOCK_BYTES)
}

/// Returns true if the file has a second name: a checkpoint shares it and may see what is dead
/// here. An error counts as true for this segment only, so it keeps no other from being freed.
fn is_linked(context: &Runtime, live: &LiveSegment) -> bool {
    let file = context.set.tables().files.get(live.handle.path());
    !file.is_ok_and(|file| file.links().is_ok_and(|links| links <= 1))
}

/// Adds what memtables hold. Returns the records in each segment to which their entries point. With
/// `no_snapshots` a flush drops what newer entries of the same memtable hide; otherwise nothing
/// counts as hidden.
fn add_memtables(
    facts: &mut SpaceFacts,
    context: &Runtime,
    no_snapshots: bool,
) -> BTreeMap<SegmentId, RecordBytes> {
    let (mut records_in, mut others) = (BTreeMap::<_, RecordBytes>::new(), 0);
    for keyspace in context.set.keyspaces() {
        let before = facts.unflushed_bytes;
        let view = keyspace.view();
        for memtable in view.memtables() {
            let (table, inline) = (&memtable.table, memtable.table.inline());
            let bytes = if no_snapshots { inline.visible() } else { inline.keys + inline.values };
            facts.unflushed_bytes += bytes;
            facts.sealed_bytes += if Arc::ptr_eq(memtable, &view.active) { 0 } else { bytes };
            let mut pointers = 0;
            for (segment, records) in table.records() {
                let sum = records_in.entry(segment).or_default();
                sum.all += records.all;
                sum.hidden += if no_snapshots { records.hidden } else { 0 };
                pointers += records.count;
            }
            others += table.entries().saturating_sub(pointers);
        }
        let bytes = facts.unflushed_bytes - before;
        facts.most_unflushed_bytes = facts.most_unflushed_bytes.max(bytes);
    }
    facts.unflushed_log_bytes = facts.unflushed_bytes + LOG_ENTRY_BYTES * others;
    records_in
}

/// Returns the bytes that relocations list in each target segment: at least as much as is live
/// there.
fn target_bytes<'a>(
    relocations: impl Iterator<Item = &'a RelocationMeta>,
) -> BTreeMap<SegmentId, u64> {
    let mut bytes: BTreeMap<SegmentId, u64> = BTreeMap::new();
    for (&target, used) in relocations.flat_map(|meta| &meta.targets) {
        let sum = bytes.entry(target).or_default();
        // I7: the numbers are from files.
        *sum = sum.saturating_add(used.bytes);
    }
    bytes
}

/// Returns the facts about a segment that the file system and the version give.
fn physical(
    context: &Runtime,
    id: SegmentId,
    live: &LiveSegment,
    version: &Version,
) -> Result<SegmentFacts> {
    let segment = &live.handle.segment;
    // Recorded holes count even before they are punched: they come back without freeing the
    // segment.
    let holes = hole_bytes(&live.holes);
    let (allocated, written) = match live.allocated().zip(live.sealed) {
        Some((allocated, length)) => (allocated, length.saturating_sub(holes)),
        None => {
            let path = segment.path();
            let file = context.set.tables().files.get(path)?;
            (file.allocated().doing("measure", path)?, segment.appended())
        }
    };
    Ok(SegmentFacts {
        id,
        kind: segment.kind(),
        allocated,
        written,
        sealed: live.sealed.is_some(),
        behind_head: segment.kind() == SegmentKind::Log && id < version.head.segment,
        ..SegmentFacts::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relocation::TargetUse;

    #[test]
    fn i07_no_numbers_of_relocations_make_the_sum_overflow() {
        let meta = |segment, bytes| {
            let targets = BTreeMap::from([(SegmentId(9), TargetUse { count: 1, bytes })]);
            RelocationMeta { targets, ..RelocationMeta::empty(SegmentId(segment)) }
        };
        let sum = |metas: [RelocationMeta; 2]| target_bytes(metas.iter())[&SegmentId(9)];
        assert_eq!(sum([meta(1, 20), meta(2, 30)]), 50);
        assert_eq!(sum([meta(1, u64::MAX), meta(2, 30)]), u64::MAX);
    }
}

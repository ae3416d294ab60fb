//! The collector's relocations: the next group of victims that fits, and the copying of it.

use super::situation::Situation;
use super::{Collector, CollectorState};
use crate::base::pointer::SegmentId;
use crate::events::Event;
use crate::gc::facts::{How, relocated_bytes};
use crate::gc::loading::CopyMemory;
use crate::gc::overwritten::Overwritten;
use crate::gc::picker::{GcPlan, Victim};
use crate::gc::relocate::{self, MoveReport, VictimRecords};
use crate::gc::victim_reader::Failure;
use crate::version::health::JobKind;
use crate::version::job::JobResult;
use std::time::Duration;

/// Near the ceiling one relocation moves at most this part (one in this many) of the live bytes, or
/// one segment. Further below it, it may take half of the room that is left, up to a log segment,
/// so that it makes fewer and longer runs (`bench/record/2026-11-27-auto.md`).
const GROUP_PART: u64 = 128;
/// A chunk of the records that are being moved takes this part (one in this many) of GC's memory,
/// 8 MiB by default. There are two: one is loaded while the other is copied.
const CHUNK_PART: u64 = 16;
/// One relocation moves at most this many bytes, or one segment.
const MAX_GROUP_BYTES: u64 = 64 << 20;

impl Collector {
    /// Returns the next victims to relocate, with their live records.
    pub(super) fn group(&self, state: &mut CollectorState, now: &Situation) -> Vec<VictimRecords> {
        let room = self.committer.room_for_job();
        let live_bytes = now.facts.live_bytes;
        let left = now.bounds.ceiling(live_bytes).start().saturating_sub(now.occupied);
        let knowledge = &mut state.knowledge;
        let is_low = self.committer.stall_controller().reserve.is_low();
        // The reserve below the ceiling is made for one segment.
        let most = if is_low { 0 } else { self.committer.log().segment_bytes() };
        let budget = (live_bytes / GROUP_PART).max((left / 2).min(most));
        let budget = budget.min(MAX_GROUP_BYTES).min(room);
        let (mut group, mut bytes, mut walk) = (Vec::new(), 0, None);
        for victim in now.plan.victims.iter().filter(|victim| victim.gain.how == How::Relocate) {
            let Some(live) = knowledge.liveness_scan.segments.get(&victim.id) else {
                continue;
            };
            let (live_bytes, live_walk) = (live.bytes, live.walk);
            // A segment that does not fit now may fit once others are freed.
            if relocated_bytes(live.bytes, live.records) > room {
                continue;
            }
            let is_full = bytes + live_bytes > budget;
            if !group.is_empty() && (is_full || walk != Some(live_walk)) {
                break;
            }
            // A list that was given up, or used already, comes with the next liveness scan.
            if let Some(records) = knowledge.take_list(victim.id) {
                (bytes, walk) = (bytes + live_bytes, Some(live_walk));
                group.push(records);
            }
        }
        // No job may begin in the room that this takes.
        self.room.lessen(bytes);
        debug_assert!(bytes <= budget || group.len() == 1, "several segments fit in the budget");
        group
    }

    /// Returns true if a victim of `plan` can be freed by means of the lists of the liveness scan.
    pub(super) fn has_work(&self, state: &CollectorState, plan: &GcPlan) -> bool {
        let segments = &state.knowledge.liveness_scan.segments;
        let listed = |victim: &Victim| {
            let live = segments.get(&victim.id).filter(|live| live.list.is_some())?;
            Some(match victim.gain.how {
                How::Relocate => relocated_bytes(live.bytes, live.records),
                // Holes need no room.
                How::Punch => 0,
            })
        };
        let least = plan.victims.iter().filter_map(listed).min();
        least.is_some_and(|least| least <= self.committer.room_for_job())
    }

    /// Returns true if a flush goes before the relocation of `group`, because it is due and both
    /// would pass the ceiling. A flush that fails is not waited for (I9), nor does a relocation
    /// that failed wait before it is tried again.
    pub(super) fn is_flush_first(
        &self,
        state: &mut CollectorState,
        now: &Situation,
        group: &[VictimRecords],
    ) -> bool {
        let segments = &state.knowledge.liveness_scan.segments;
        let moved = group.iter().filter_map(|victim| segments.get(&victim.id));
        let moved = moved.map(|live| live.bytes).sum();
        let fails = |job| matches!(job, JobKind::Flush(_) | JobKind::ValueGc);
        let has_no_room = !group.is_empty()
            && !now.bounds.has_room_for_both(&now.facts, now.occupied, moved)
            && self.runtime.health.failed_job(fails).is_none();
        state.flush_turn.is_first(has_no_room, self.runtime.counters.flushes.get())
    }

    fn count(&self, state: &mut CollectorState, report: &MoveReport, time: Duration) {
        let counters = &self.runtime.counters.gc;
        counters.rounds.add(1);
        counters.segments_relocated.add(report.segments);
        counters.bytes_read.add(report.bytes_read);
        counters.bytes_moved.add(report.bytes_moved);
        counters.relocation_bytes.add(report.relocation_bytes);
        counters.nanos.add(time.as_nanos() as u64);
        let kept = report.bytes_moved + report.relocation_bytes;
        let freed = report.bytes_freed.saturating_sub(kept);
        counters.bytes_freed.add(freed);
        state.freed.note(freed, time);
        self.runtime.counters.latencies.relocation.add(time);
    }

    /// Collects what was overwritten since the liveness scan.
    fn overwritten(&self, state: &CollectorState) -> JobResult<Overwritten> {
        let (since, snapshots) = (state.knowledge.liveness_scan.seqno, &self.runtime.snapshots);
        Overwritten::gather(since, &self.committer, snapshots, || self.views())
    }

    /// Returns the victims of `group`, with the bytes that each takes on disk: holes that are not
    /// punched yet are among them.
    fn allocated(&self, state: &CollectorState, group: &[VictimRecords]) -> Vec<(SegmentId, u64)> {
        let version = self.runtime.set.current();
        let allocated = |id| {
            let allocated = version.segments.get(&id)?.allocated()?;
            Some((id, allocated + state.puncher.pending_bytes(id)))
        };
        group.iter().filter_map(|victim| allocated(victim.id)).collect()
    }

    pub(super) fn relocate(
        &self,
        state: &mut CollectorState,
        group: Vec<VictimRecords>,
    ) -> Result<MoveReport, Failure> {
        let clock = &self.runtime.env.clock;
        let begun = clock.now();
        let freed = self.allocated(state, &group);
        let moved = match self.overwritten(state) {
            Ok(overwritten) => {
                let most_bytes = self.options.memory_bytes / CHUNK_PART;
                let memory = CopyMemory { buffers: &mut state.buffers, most_bytes };
                relocate::run(&self.runtime, &group, &overwritten, memory)
            }
            Err(error) => Err(error.into()),
        };
        match moved {
            Ok(report) => {
                let time = clock.since(begun);
                state.has_freed |= report.segments > 0;
                state.held.add(&self.runtime, &freed);
                state.puncher.forget_freed(&self.runtime.set.current());
                self.runtime.emit(Event::SegmentsRelocated {
                    segments: report.segments,
                    bytes_moved: report.bytes_moved,
                    bytes_freed: report.bytes_freed,
                    took: time,
                });
                self.count(state, &report, time);
                // Files are removed here, not by the threads that compact: while those are busy,
                // space would grow.
                // One that can't be unlinked is reported by the job that only unlinks.
                let purged = self.runtime.set.purge();
                self.runtime.counters.files_removed.add(purged.files);
                Ok(report)
            }
            Err(failure) => {
                if let Some(error) = failure.error.failure() {
                    let mut quarantine = self.quarantine.lock();
                    for &segment in &failure.segments {
                        quarantine.note(segment, error, clock.now());
                    }
                }
                // I9: nothing was freed, and perhaps nothing can be written that would make another
                // liveness scan due. The findings of this one stay right, so the lists are put
                // back.
                state.knowledge.put_back(group);
                Err(failure)
            }
        }
    }
}

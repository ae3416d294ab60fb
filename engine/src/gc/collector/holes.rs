//! Holes instead of relocations: recorded first, made later, a few calls in each step.

use super::{Collector, CollectorState};
use crate::base::error::Result;
use crate::gc::facts::How;
use crate::gc::picker::GcPlan;
use crate::gc::punch::Declared;
use crate::gc::relocate::VictimRecords;
use crate::version::job::JobResult;
use std::time::Duration;

/// After so many failures there will be more.
const MAX_FAILURES: u32 = 16;

impl Collector {
    /// Punches some of what was recorded; true if there may be more.
    pub(super) fn punch_pending(&self, state: &mut CollectorState) -> JobResult<bool> {
        let counters = &self.parts.counters.gc;
        let begun = self.parts.context.env.clock.now();
        let worked = state.puncher.run(&self.parts.context, counters);
        self.quarantine.lock().note_holes(state.puncher.error());
        counters.nanos.add(self.parts.context.env.clock.since(begun).as_nanos() as u64);
        worked
    }

    /// Punches all that is due. A few segments that fail keep nothing from the others; where
    /// more do, the rest is left to the background.
    pub(super) fn punch_all(&self, state: &mut CollectorState) -> JobResult {
        let (mut failures, mut outcome) = (0, Ok(()));
        while failures < MAX_FAILURES {
            match self.punch_pending(state) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => (failures, outcome) = (failures + 1, Err(error)),
            }
            self.parts.context.check_closing()?;
        }
        outcome
    }

    /// Records the holes of those victims that are to be punched; calls are made later.
    pub(super) fn declare_holes(
        &self,
        state: &mut CollectorState,
        plan: &GcPlan,
    ) -> Result<Declared> {
        let Some(cost) = state.puncher.costs.get() else {
            return Ok(Declared::default());
        };
        let mut victims = Vec::new();
        for victim in plan.victims.iter().filter(|victim| victim.gain.how == How::Punch) {
            let live = state.knowledge.liveness_scan.segments.get_mut(&victim.id);
            // Used once: what is dead by the next time, the next liveness scan finds.
            let list = live.and_then(|live| live.list.take());
            victims.extend(list.map(|list| VictimRecords { id: victim.id, list }));
        }
        let declared = state.puncher.declare(&self.parts.context, &victims, &cost);
        if declared.is_err() {
            // I9: what the liveness scan found stays right.
            state.knowledge.put_back(victims);
        }
        let declared = declared?;
        if declared.segments > 0 {
            self.parts.counters.gc.rounds.add(1);
            state.has_freed = true;
            let time = Duration::from_nanos(declared.calls * cost.call_nanos);
            state.freed.note(declared.bytes, time);
        }
        Ok(declared)
    }
}

//! Holes instead of relocations: they are recorded first and punched later, a few calls per step.

use super::{Collector, CollectorState};
use crate::base::error::Result;
use crate::gc::facts::How;
use crate::gc::picker::GcPlan;
use crate::gc::punch::Declared;
use crate::version::job::JobResult;
use std::time::Duration;

/// The number of failures after which `punch_all` stops, as more are to be expected.
const MAX_FAILURES: u32 = 16;

impl Collector {
    /// Measures what can be punched in the segments that were counted just now, and, behind a whole
    /// liveness scan (`is_whole`), what a call costs, if there is something to punch.
    pub(super) fn measure_holes(&self, state: &mut CollectorState, is_whole: bool) {
        if !self.options.punch {
            return;
        }
        let (context, costs) = (&self.runtime, &mut state.puncher.costs);
        let (version, knowledge) = (context.set.current(), &mut state.knowledge);
        if is_whole {
            costs.note_liveness_scan();
        }
        // Where nothing can be punched, nothing is measured.
        if costs.get().is_none() && !(is_whole && costs.is_unknown()) {
            return;
        }
        let waits = knowledge.measure_dead_runs(&version, costs.get().as_ref());
        if waits && costs.is_unknown() {
            costs.probe(context);
            let nanos = costs.get().map_or(0, |cost| cost.call_nanos);
            context.counters.gc.punch_call_nanos.add(nanos);
            if let Some(cost) = costs.get() {
                knowledge.measure_dead_runs(&version, Some(&cost));
            }
        }
    }

    /// Returns true if holes may be punched, as far as it is known.
    pub(super) fn can_punch(&self, state: &CollectorState) -> bool {
        let costs = &state.puncher.costs;
        self.options.punch && (costs.is_unknown() || costs.get().is_some())
    }

    /// Punches some of the recorded holes; returns true if there may be more.
    pub(super) fn punch_pending(&self, state: &mut CollectorState) -> JobResult<bool> {
        let counters = &self.runtime.counters.gc;
        let begun = self.runtime.env.clock.now();
        let worked = state.puncher.run(&self.runtime);
        self.quarantine.lock().note_holes(state.puncher.error());
        counters.nanos.add(self.runtime.env.clock.since(begun).as_nanos() as u64);
        worked
    }

    /// Punches all holes that are due. Some failing segments do not keep others from being punched;
    /// after `MAX_FAILURES` the rest is left to the background.
    pub(super) fn punch_all(&self, state: &mut CollectorState) -> JobResult {
        let (mut failures, mut outcome) = (0, Ok(()));
        while failures < MAX_FAILURES {
            match self.punch_pending(state) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => (failures, outcome) = (failures + 1, Err(error)),
            }
            self.runtime.check_closing()?;
        }
        outcome
    }

    /// Records the holes of those victims that are to be punched; the calls are made later.
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
            victims.extend(state.knowledge.take_list(victim.id));
        }
        let declared = match state.puncher.declare(&self.runtime, &victims, &cost) {
            Ok(declared) => declared,
            Err(error) => {
                // I9: the findings of the liveness scan stay right, so the lists are put back.
                state.knowledge.put_back(victims);
                return Err(error);
            }
        };
        state.knowledge.put_back_after_holes(victims, &self.runtime.set.current());
        if declared.segments > 0 {
            self.runtime.counters.gc.rounds.add(1);
            state.has_freed = true;
            let time = Duration::from_nanos(declared.calls * cost.call_nanos);
            state.freed.note(declared.bytes, time);
        }
        Ok(declared)
    }
}

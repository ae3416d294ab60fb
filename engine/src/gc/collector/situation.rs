//! Where the space is at one step of the collector, by which bounds it decides, and what it plans.

use super::{Collector, CollectorState};
use crate::base::error::Result;
use crate::gc::bounds::SpaceBounds;
use crate::gc::discardable::DiscardableRule;
use crate::gc::facts::{PunchCost, SegmentFault, SpaceFacts};
use crate::gc::first_scan::hideable_bytes;
use crate::gc::hidden_sample;
use crate::gc::hidden_share::TreeSpread;
use crate::gc::live_estimate::Written;
use crate::gc::picker::{GcPlan, Mode, Policy, pick};
use crate::gc::survey::survey;
use crate::segment::SegmentKind;
use crate::version::job::JobResult;

/// The situation of one step: facts, and what follows from them alone.
pub(super) struct Situation {
    pub(super) facts: SpaceFacts,
    pub(super) bounds: SpaceBounds,
    /// The mode in which GC works on these facts.
    pub(super) mode: Mode,
    /// The bytes that files take, with those that were freed and come back soon.
    pub(super) occupied: u64,
    pub(super) plan: GcPlan,
}

impl Collector {
    /// Returns the situation that the facts make, for a step in `mode`.
    pub(super) fn situation(
        &self,
        state: &CollectorState,
        facts: SpaceFacts,
        mode: Mode,
    ) -> Situation {
        let bounds = self.bounds_at(&facts);
        let mode = bounds.mode_at(mode, facts.allocated(), facts.live_bytes);
        let discardable = DiscardableRule::of(&self.options);
        let policy = Policy { mode, bounds, discardable, punch: self.punch_cost(state) };
        let context = &self.runtime;
        let pending = state.held.bytes(context) + state.puncher.expected_bytes(context);
        Situation {
            plan: pick(&facts, &policy),
            occupied: facts.allocated().saturating_add(pending),
            bounds,
            mode,
            facts,
        }
    }

    /// Returns where the space is, as far as it is known.
    pub(super) fn facts(&self, state: &CollectorState) -> Result<SpaceFacts> {
        let context = &self.runtime;
        let live = state.live.likely(self.written());
        let mut facts = survey(context, &state.knowledge, live)?;
        if !state.live.is_counted() && facts.has_references() {
            let keyspaces = context.set.keyspaces();
            let hideable = keyspaces.iter().map(|keyspace| hideable_bytes(&keyspace.view()));
            facts.hideable_bytes = hideable.fold(0, u64::saturating_add);
        }
        if facts.is_all_inline() {
            facts.live_bytes = state.hidden_share.live(&facts.tree);
        } else if !state.live.is_counted() {
            // All that tables reference, but for what newer entries may hide, and what was put
            // since the opening.
            let presumed = facts.referenced_bytes().saturating_sub(facts.hideable_bytes);
            facts.live_bytes = presumed.max(facts.live_bytes);
        }
        self.mark_faults(&mut facts);
        Ok(facts)
    }

    /// Returns the cost of punching, if it is known and not switched off.
    fn punch_cost(&self, state: &CollectorState) -> Option<PunchCost> {
        state.puncher.costs.get().filter(|_| self.options.punch)
    }

    /// Returns the bounds where space is as these facts say.
    fn bounds_at(&self, facts: &SpaceFacts) -> SpaceBounds {
        let (asked_room, to_flush) = (self.room.asked(), facts.to_flush());
        // What is under way where all values are in tables is a merge, of whatever size.
        let under_way = match facts.is_all_inline() {
            true => u64::MAX,
            false => self.committer.log().segment_bytes() / 2 * 3,
        };
        SpaceBounds { asked_room, under_way, to_flush, ..SpaceBounds::new(&self.options) }
    }

    /// Marks the segments that can't be freed, so that the picker leaves them out. Those that a
    /// consumer of the change feed keeps are among them: to move what is live in one would cost
    /// space, as the file stays.
    fn mark_faults(&self, facts: &mut SpaceFacts) {
        let now = self.runtime.env.clock.now();
        let floor = self.runtime.set.log_pins().floor();
        let quarantine = self.unexpired_quarantine();
        for segment in &mut facts.segments {
            let fault = quarantine.fault(segment.id, now);
            let is_log = segment.kind == SegmentKind::Log;
            let is_kept = is_log && floor.is_some_and(|floor| floor <= segment.id);
            segment.fault = fault.or(is_kept.then_some(SegmentFault::Followed));
        }
        facts.sum_kept();
    }

    /// Returns what users wrote or ingested since the opening.
    pub(super) fn written(&self) -> Written {
        let counters = &self.runtime.counters;
        Written {
            put_bytes: counters.put_bytes_stored.get() + counters.ingest_bytes_written.get(),
            deletes: counters.deletes_written.get() + counters.deletes_ingested.get(),
        }
    }

    /// Looks how many entries hide others, if nothing else says what is live, and the tree has
    /// changed since the last look. Corrects the facts by it.
    pub(super) fn sample_hidden(
        &self,
        state: &mut CollectorState,
        facts: &mut SpaceFacts,
        mode: Mode,
    ) -> JobResult {
        if wants_sample(state, facts, mode) {
            self.sample(state, &facts.tree)?;
            facts.live_bytes = state.hidden_share.live(&facts.tree);
        }
        Ok(())
    }

    /// Looks so where no table has references and a user has requested a collection: without a
    /// liveness scan, nothing else would tell that damage which was met before is gone.
    pub(super) fn sample_again(&self, state: &mut CollectorState, facts: &SpaceFacts) -> JobResult {
        if facts.is_all_inline() {
            self.sample(state, &facts.tree)?;
        }
        self.quarantine.lock().note_liveness_scan();
        Ok(())
    }

    fn sample(&self, state: &mut CollectorState, tree: &TreeSpread) -> JobResult {
        let context = &self.runtime;
        let keyspaces: Vec<_> = self.views()?.iter().map(|view| view.levels.clone()).collect();
        let sample =
            hidden_sample::take(&keyspaces, &*context.env.random, || context.check_closing());
        let sample = sample.inspect_err(|error| self.note_walk(state, error))?;
        state.hidden_share.learn(sample, tree);
        Ok(())
    }

    /// Notes by how much space may grow, now and at most.
    pub(super) fn note_room(&self, now: &Situation) {
        let (bounds, live) = (&now.bounds, now.facts.live_bytes);
        self.room.note(bounds.start_of_jobs(live).saturating_sub(now.occupied));
        self.room.note_most(bounds.most_room(live));
    }
}

/// Returns true if it is time to look how many entries hide others.
pub(super) fn wants_sample(state: &CollectorState, facts: &SpaceFacts, mode: Mode) -> bool {
    !mode.is_off() && facts.is_all_inline() && state.hidden_share.is_due(&facts.tree)
}

//! How the collector has others keep space below its ceiling: the pace of writers, and the merging
//! of tables where all values are in them.

use super::situation::Situation;
use super::{Collector, CollectorState};
use crate::gc::bounds::SpaceBounds;
use crate::gc::facts::SpaceFacts;
use crate::gc::picker::Mode;
use crate::throttle::ceiling::{PaceFacts, RATE_BEFORE_COUNTING, SpacePace, pace};
use crate::throttle::reads::{Pressure, space_presses};
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Collector {
    /// Returns the bound of space to which tables are to be merged now, as a ratio: the settled one
    /// while the database is idle, and the ceiling when space nears it and nothing else frees any.
    pub fn merging_ratio(&self, is_idle: bool) -> Option<f64> {
        let bounds = SpaceBounds::new(&self.options);
        let presses = self.wants_merges.load(Ordering::Relaxed);
        is_idle.then_some(bounds.settled).or(presses.then_some(bounds.ceiling))
    }

    /// Returns true if a step would ask compactions to merge tables, which it has not yet. A flush
    /// can bring space to the ceiling after the last step, and nothing else is due then.
    pub(super) fn wants_to_merge(&self, now: &Situation) -> bool {
        let is_new = || !self.wants_merges.load(Ordering::Relaxed);
        !now.mode.is_off() && is_new() && now.calls_for_merges()
    }

    /// Returns the bytes that compactions freed since the last call.
    fn freed_by_compactions(&self, state: &mut CollectorState) -> u64 {
        let counters = &self.runtime.counters;
        let read = counters.compaction_bytes_read.get();
        let freed = read.saturating_sub(counters.compaction_bytes_written.get());
        freed.saturating_sub(std::mem::replace(&mut state.compacted_away, freed))
    }

    /// Lets writers go on while GC does nothing: no space would come back, so delays would be
    /// useless.
    pub(super) fn let_writers_go(&self, state: &mut CollectorState) {
        let context = &self.runtime;
        self.wants_merges.store(false, Ordering::Relaxed);
        self.freed_by_compactions(state);
        state.freed.pass(context.env.clock.now(), false);
        context.budget.press(Pressure::Space, false);
        self.committer.stall_controller().space.set(SpacePace::NONE);
    }

    /// Sets how much writers are held up. `counts` is true if a liveness scan begins now.
    pub(super) fn set_pace(&self, state: &mut CollectorState, now: &Situation, counts: bool) {
        if now.mode.is_off() {
            return self.let_writers_go(state);
        }
        let (facts, plan, bounds, mode) = (&now.facts, &now.plan, &now.bounds, now.mode);
        let stall_controller = self.committer.stall_controller();
        // What was freed takes its blocks until nobody holds it. Nothing is to be picked for it,
        // but writers wait for it as well, unless somebody has held it for long.
        let (allocated, live) = (now.occupied, facts.live_bytes);
        let pending = allocated - facts.allocated();
        let ceiling = bounds.ceiling(live);
        let over = allocated > ceiling.start();
        self.wants_merges.store(now.calls_for_merges(), Ordering::Relaxed);
        let presses = space_presses(over, mode == Mode::Low, plan.winnable + pending);
        self.runtime.budget.press(Pressure::Space, presses);
        let is_first_scan = counts && !state.live.is_counted();
        let advised = plan.advice.map_or(0, |advice| advice.garbage);
        // Before the first liveness scan it is unknown what is live, and writers don't wait for
        // what a look may find.
        let looked_next = if state.live.is_counted() { plan.after_look } else { 0 };
        // The findings of a liveness scan under way are unknown; one byte stands for them, so that
        // writers wait.
        let found_next = u64::from(counts || state.counting.is_some());
        let of_tree = facts.freed_by_merging();
        let winnable = plan.winnable + looked_next + found_next + pending + advised + of_tree;
        let compacted = self.freed_by_compactions(state);
        if facts.is_all_inline() {
            state.freed.note(compacted, Duration::ZERO);
        }
        // Nothing is freed during the first liveness scan, so its time tells no rate.
        let is_awaited = over && winnable > 0 && !is_first_scan;
        state.freed.pass(self.runtime.env.clock.now(), is_awaited);
        // Memtables that were flushed just now do not tell.
        state.flushed_share = facts.flushed_share().unwrap_or(state.flushed_share);
        let (insert_share, freed_per_second) = state.insert_share_and_rate(facts, is_first_scan);
        stall_controller.space.set(pace(&PaceFacts {
            allocated,
            live,
            start: ceiling.start(),
            limit: ceiling.before_flushes(),
            slack: ceiling.slack(),
            segment_bytes: self.committer.log().segment_bytes(),
            flushed_share: state.flushed_share,
            memtables: facts.memtables(),
            ceiling: bounds.ceiling,
            insert_share,
            log_bytes: stall_controller.log_bytes.load(Ordering::Relaxed),
            winnable,
            freed_per_second,
        }));
    }
}

impl CollectorState {
    /// Returns the share of the bytes put that count as inserts, and the rate of freeing in bytes
    /// per second, for writers' pace. What the first liveness scan finds is not known until its
    /// end: all that is put meanwhile counts as overwritten, or what is would bring space over the
    /// ceiling unnoticed.
    fn insert_share_and_rate(&self, facts: &SpaceFacts, is_first_scan: bool) -> (f64, u64) {
        if is_first_scan {
            return (0.0, RATE_BEFORE_COUNTING);
        }
        let insert_share = match facts.is_all_inline() {
            true => 1.0 - self.hidden_share.get(),
            false => self.live.insert_share(),
        };
        (insert_share, self.freed.per_second())
    }
}

impl Situation {
    /// Returns true if space is near the ceiling, and only merging tables frees any.
    fn calls_for_merges(&self) -> bool {
        let ceiling = self.bounds.ceiling(self.facts.live_bytes);
        self.facts.is_all_inline() && self.occupied > ceiling.start()
    }
}

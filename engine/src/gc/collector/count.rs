//! When the collector counts, and how: a census, and what is freed in the midst of it.

use super::{Collector, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::pointer::SegmentId;
use crate::gc::census::{self, Scope};
use crate::gc::facts::SpaceFacts;
use crate::gc::pace::{CensusNeed, Counted};
use crate::gc::picker::{Mode, Plan};
use crate::gc::survey::{Knowledge, are_long};
use crate::gc::target::SpaceTarget;
use crate::version::entries::EntriesView;
use crate::version::view::View;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// In the midst of a census planning takes this part of the time at most.
const PLAN_PAUSES: u32 = 16;

/// What is done in the midst of a census.
#[derive(Default)]
struct Meanwhile {
    relocating: Duration,
    /// When to look again.
    not_before: Duration,
}

impl Collector {
    /// Whether what is known is too old, or too little, to decide by.
    pub(super) fn wants_census(
        &self,
        state: &State,
        facts: &SpaceFacts,
        plan: &Plan,
        mode: Mode,
    ) -> bool {
        if matches!(mode, Mode::Off | Mode::Paused) || !facts.segments.iter().any(|s| s.sealed) {
            return false;
        }
        let target = self.parts.options.max_space_amplification;
        let written = self.written();
        if !state.is_counted {
            // What tables reference is live at most; a process that came to read counts nothing.
            let at_most = facts.segments.iter().map(|s| s.referenced.min(s.written)).sum::<u64>();
            let start = SpaceTarget::new(at_most + facts.table_bytes, target).start();
            let part = if mode == Mode::Idle { 64 } else { 16 };
            return mode == Mode::Low
                || facts.allocated() > start
                || written.put_bytes > facts.allocated() / part
                || written.deletes > 0 && mode == Mode::Idle;
        }
        if plan.after_census > 0 {
            return true;
        }
        let is_over = facts.allocated() > SpaceTarget::new(facts.live_bytes, target).start();
        if (is_over || mode == Mode::Idle) && self.is_released(state) {
            return true;
        }
        state.live.is_census_due(&CensusNeed {
            allocated: facts.allocated(),
            max_space_amplification: self.parts.options.max_space_amplification,
            written,
            idle: matches!(mode, Mode::Idle | Mode::Low),
            exhausted: !self.has_work(state, plan),
        })
    }

    /// True if a snapshot is gone that kept something live in the last census.
    fn is_released(&self, state: &State) -> bool {
        let now = self.parts.snapshots.list();
        state.snapshots.iter().any(|seqno| now.binary_search(seqno).is_err())
    }

    /// Counts anew, and frees meanwhile what the last census found, where `mode` is to hold the
    /// space target: a count takes as long as writing some hundredths of the data.
    pub(super) fn take_census(
        &self,
        state: &mut State,
        facts: &SpaceFacts,
        mode: Mode,
    ) -> Result<()> {
        let context = &self.parts.context;
        let (wanted, begun) = (wanted(facts), context.env.clock.now());
        let written = self.written();
        let seqno = self.parts.snapshots.visible();
        let snapshots = self.parts.snapshots.list();
        // I4: what was written over counts as dead only once the newer version is durable.
        self.parts.committer.sync()?;
        let views: Vec<_> = self.views()?.iter().map(|view| EntriesView::of(view)).collect();
        // Half of it: the lists of the last census are in use until this one is taken.
        let memory = self.parts.options.memory_bytes as usize / 2;
        let max_listed = memory / size_of::<census::LiveRecord>();
        let scope =
            Scope { seqno, snapshots: &snapshots, views: &views, wanted: &wanted, max_listed };
        let (mut meanwhile, mut interrupted) = (Meanwhile::default(), false);
        let go_on = || {
            let freed = context.check_closing();
            let freed = freed.and_then(|()| self.free_meanwhile(state, mode, &mut meanwhile));
            interrupted = freed.is_err();
            freed
        };
        let census = match census::take(&scope, go_on) {
            Ok(census) => census,
            Err(error) => {
                if error.kind() == ErrorKind::Corruption && !interrupted {
                    state.broken = Some(error.clone());
                }
                return Err(error);
            }
        };
        let counters = &self.parts.counters.gc;
        counters.censuses.add(1);
        counters.census_entries.add(census.walked);
        let time = (context.env.clock.now() - begun).saturating_sub(meanwhile.relocating);
        counters.census_nanos.add(time.as_nanos() as u64);
        // Writers are held up by the rate at which space comes back, and meanwhile none does.
        state.freed.1 += time;
        state.census_time = time;
        let (live_bytes, live_records) = (census.live_bytes(), census.entries);
        state.live.count(Counted { live_bytes, live_records, written });
        let written_then = facts.segments.iter().map(|segment| (segment.id, segment.written));
        let written_then = written_then.collect();
        state.is_counted = true;
        // One from behind the count kept nothing alive in it.
        state.snapshots = snapshots.into_iter().filter(|&snapshot| snapshot < seqno).collect();
        let mut lists = census.segments.values().filter_map(|live| live.list.as_ref());
        let is_unknown = self.parts.options.punch && state.puncher.costs.is_unknown();
        let may_punch = is_unknown && lists.any(|list| are_long(list));
        // Segments made meanwhile are not in the census.
        let mut moved_since = std::mem::take(&mut state.knowledge.moved_since);
        moved_since.retain(|id, _| !census.counted.contains(id));
        state.knowledge = Knowledge { census, written_then, moved_since };
        if may_punch {
            state.puncher.costs.probe(context);
            let nanos = state.puncher.costs.get().map_or(0, |cost| cost.call_nanos);
            counters.punch_call_nanos.add(nanos);
        }
        Ok(())
    }

    /// A piece of work in the midst of a census, if one is due.
    fn free_meanwhile(&self, state: &mut State, mode: Mode, done: &mut Meanwhile) -> Result<()> {
        let clock = &self.parts.context.env.clock;
        let begun = clock.now();
        let is_low = self.parts.gate.reserve.is_low();
        let mode = if is_low && mode == Mode::Busy { Mode::Low } else { mode };
        let frees = matches!(mode, Mode::Busy | Mode::Low) && !self.paused.load(Ordering::Relaxed);
        if !frees || !state.is_counted || begun < done.not_before {
            return Ok(());
        }
        let (facts, plan) = self.plan(state, mode)?;
        self.set_pace(state, &facts, &plan, mode);
        let planned = clock.now();
        let group = self.group(state, &facts, &plan);
        if !group.is_empty() {
            self.relocate(state, group)?;
            if is_low {
                self.parts.committer.look_at_disk_now();
            }
        }
        let now = clock.now();
        done.relocating += now - planned;
        done.not_before = now + (planned - begun) * PLAN_PAUSES;
        Ok(())
    }

    /// A view of each keyspace that has tables. One that is just being created has none.
    pub(super) fn views(&self) -> Result<Vec<Arc<View>>> {
        let set = &self.parts.context.set;
        let views: Vec<Arc<View>> = set.keyspaces().iter().map(|state| state.view()).collect();
        // Behind the views, so that one that is dropped meanwhile is not missed.
        let version = set.current();
        for (id, keyspace) in &version.keyspaces {
            let seen = views.iter().any(|view| view.keyspace == *id);
            if !seen && keyspace.levels.deepest().is_some() {
                let what = format!("keyspace {:?} is not open for a census", keyspace.name);
                return Err(Error::new(ErrorKind::Busy, what));
            }
        }
        Ok(views)
    }
}

/// Segments whose records a census is to list: those with most garbage for what is live first, as
/// far as is known.
fn wanted(facts: &SpaceFacts) -> Vec<SegmentId> {
    let mut candidates: Vec<_> =
        facts.segments.iter().filter(|segment| segment.is_collectable()).collect();
    candidates.sort_by_key(|segment| {
        let live = segment.live.min(segment.referenced).min(segment.written);
        (live * 1000 / segment.written.max(1), segment.id)
    });
    candidates.iter().map(|segment| segment.id).collect()
}

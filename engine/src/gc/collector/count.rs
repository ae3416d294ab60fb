//! When the collector counts, and how: a census, and what is freed in the midst of it.

use super::beside::{Counting, Taken, Task};
use super::{Collector, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::pointer::SegmentId;
use crate::gc::census::LiveRecord;
use crate::gc::facts::SpaceFacts;
use crate::gc::pace::{CensusNeed, Counted};
use crate::gc::picker::{Mode, Plan};
use crate::gc::survey::{Knowledge, are_long};
use crate::gc::target::SpaceTarget;
use crate::version::entries::EntriesView;
use crate::version::view::View;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// In the midst of a census planning takes this part of the time at most.
const PLAN_PAUSES: u32 = 16;

/// While there is nothing to free, it is looked for so often.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// For a census that nobody gives up.
static NEVER: AtomicBool = AtomicBool::new(false);

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
    /// space target.
    pub(super) fn take_census(
        &self,
        state: &mut State,
        facts: &SpaceFacts,
        mode: Mode,
    ) -> Result<()> {
        let (context, written) = (&self.parts.context, self.written());
        let task = self.task(facts)?;
        let (seqno, snapshots) = (task.seqno, task.snapshots.clone());
        let begun = context.env.clock.now();
        let mut meanwhile = Meanwhile::default();
        let counted = if matches!(mode, Mode::Busy | Mode::Low) && state.is_counted {
            self.count_beside(state, task, mode, &mut meanwhile)?
        } else {
            task.run(&NEVER)
        };
        let Taken { census, time } = counted.inspect_err(|error| {
            if error.kind() == ErrorKind::Corruption {
                state.broken = Some(error.clone());
            }
        })?;
        let counters = &self.parts.counters.gc;
        counters.censuses.add(1);
        counters.census_entries.add(census.walked);
        counters.census_nanos.add(time.as_nanos() as u64);
        state.census_time = time;
        // Writers are held up by the rate at which space comes back, and for so long none did.
        state.freed.1 += (context.env.clock.now() - begun).saturating_sub(meanwhile.relocating);
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

    /// What a census that begins now looks at.
    fn task(&self, facts: &SpaceFacts) -> Result<Task> {
        let seqno = self.parts.snapshots.visible();
        let snapshots = self.parts.snapshots.list();
        // I4: what was written over counts as dead only once the newer version is durable.
        self.parts.committer.sync()?;
        let views = self.views()?.iter().map(|view| EntriesView::of(view)).collect();
        // Half of it: the lists of the last census are in use until this one is taken.
        let memory = self.parts.options.memory_bytes as usize / 2;
        let max_listed = memory / size_of::<LiveRecord>();
        let context = self.parts.context.clone();
        Ok(Task { context, seqno, snapshots, views, wanted: wanted(facts), max_listed })
    }

    /// Has another thread count, and frees meanwhile. An error within is that of the census, one
    /// outside that of freeing.
    fn count_beside(
        &self,
        state: &mut State,
        task: Task,
        mode: Mode,
        meanwhile: &mut Meanwhile,
    ) -> Result<Result<Taken>> {
        let task = Arc::new(task);
        let Ok(counting) = Counting::begin(task.clone()) else {
            return Ok(task.run(&NEVER));
        };
        drop(task);
        loop {
            let closing = self.parts.context.check_closing();
            match closing.and_then(|()| self.free_meanwhile(state, mode, meanwhile)) {
                Ok(worked) => {
                    let time = if worked { Duration::ZERO } else { LOOK_AGAIN };
                    if counting.is_over_within(time) {
                        return Ok(counting.outcome());
                    }
                }
                Err(error) => {
                    counting.give_up();
                    return Err(error);
                }
            }
        }
    }

    /// A piece of work in the midst of a census, if one is due.
    fn free_meanwhile(&self, state: &mut State, mode: Mode, done: &mut Meanwhile) -> Result<bool> {
        let clock = &self.parts.context.env.clock;
        let begun = clock.now();
        if self.paused.load(Ordering::Relaxed) || begun < done.not_before {
            return Ok(false);
        }
        let is_low = self.parts.gate.reserve.is_low();
        let mode = if is_low { Mode::Low } else { mode };
        let (facts, plan) = self.plan(state, mode)?;
        self.set_pace(state, &facts, &plan, mode);
        let planned = clock.now();
        let group = self.group(state, &facts, &plan);
        let works = !group.is_empty();
        if works {
            self.relocate(state, group)?;
            if is_low {
                self.parts.committer.look_at_disk_now();
            }
        }
        let now = clock.now();
        done.relocating += now - planned;
        done.not_before = now + (planned - begun) * PLAN_PAUSES;
        Ok(works)
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

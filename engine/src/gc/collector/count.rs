//! When the collector counts, and how: a census, or a look at what is new.

use super::beside::Beside;
use super::task::{Taken, Task};
use super::{Collector, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::gc::census::LiveRecord;
use crate::gc::facts::{SegmentFacts, SpaceFacts};
use crate::gc::pace::{CensusNeed, Counted, Written};
use crate::gc::picker::{Mode, Plan};
use crate::gc::survey::are_long;
use crate::gc::target::SpaceTarget;
use crate::version::entries::EntriesView;
use crate::version::view::View;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// While a census is under way and there is nothing to free, it is looked for so often.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// For a census that nobody gives up.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A census that another thread takes.
pub(super) struct Counting {
    taking: Beside<Result<Taken>>,
    start: Start,
}

impl Counting {
    pub(super) fn is_over(&self) -> bool {
        self.taking.is_over_within(Duration::ZERO)
    }
}

/// What was so when a census began.
struct Start {
    facts: SpaceFacts,
    written: Written,
    snapshots: Vec<SeqNo>,
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
        if plan.after_look > 0 {
            // There is no room for what a look would list.
            return true;
        }
        let is_over = facts.allocated() > SpaceTarget::new(facts.live_bytes, target).start();
        if (is_over || mode == Mode::Idle) && self.is_released(state) {
            return true;
        }
        let exhausted = !self.has_work(state, plan);
        exhausted && self.wants_lists(state, plan)
            || state.live.is_census_due(&CensusNeed {
                allocated: facts.allocated(),
                max_space_amplification: target,
                written,
                idle: matches!(mode, Mode::Idle | Mode::Low),
                exhausted,
            })
    }

    /// True if the last census had no memory for the list of a victim, which the next one may have,
    /// as what it listed was freed since. Otherwise it would list the same again.
    fn wants_lists(&self, state: &State, plan: &Plan) -> bool {
        state.has_freed && state.given_up(plan).next().is_some()
    }

    /// True if a snapshot is gone that kept something live in the last census.
    fn is_released(&self, state: &State) -> bool {
        let now = self.parts.snapshots.list();
        state.snapshots.iter().any(|seqno| now.binary_search(seqno).is_err())
    }

    /// Begins to count anew. Where `mode` is to hold the space target another thread does that, as
    /// what the last census found can be freed meanwhile; else it is done on return.
    pub(super) fn begin_census(
        &self,
        state: &mut State,
        facts: &SpaceFacts,
        mode: Mode,
    ) -> Result<()> {
        let collectable = facts.segments.iter().filter(|segment| segment.is_collectable());
        let (task, start) = self.start(state, facts, wanted(collectable))?;
        if mode == Mode::Idle || !state.is_counted {
            return self.take_unless_paused(state, &task, start);
        }
        let task = Arc::new(task);
        let (counted, threads) = (task.clone(), &self.parts.context.env.threads);
        let work = move |is_given_up: &AtomicBool| counted.run(is_given_up);
        match Beside::begin(threads, "cleave-census", work) {
            Ok(taking) => {
                state.counting = Some(Counting { taking, start });
                Ok(())
            }
            // The system has no thread left.
            Err(_) => self.take_unless_paused(state, &task, start),
        }
    }

    /// Counts anew on this thread, for whoever asked to have the segments up to `newest` freed.
    /// Nothing is listed of others: they would take the memory, and their lists come with a look.
    pub(super) fn count_up_to(
        &self,
        newest: Option<SegmentId>,
        state: &mut State,
        facts: &SpaceFacts,
    ) -> Result<()> {
        let is_asked_for = |it: &&SegmentFacts| it.is_collectable() && Some(it.id) <= newest;
        let asked_for = facts.segments.iter().filter(is_asked_for);
        let (task, start) = self.start(state, facts, wanted(asked_for))?;
        self.take(state, task.run(&NEVER), start)
    }

    /// A census that begins now, and lists what is live in the `wanted` segments.
    fn start(
        &self,
        state: &mut State,
        facts: &SpaceFacts,
        wanted: Vec<SegmentId>,
    ) -> Result<(Task, Start)> {
        let written = self.written();
        let task = self.task(state, wanted, false)?;
        let start = Start { facts: facts.clone(), written, snapshots: task.snapshots.clone() };
        state.has_freed = false;
        Ok((task, start))
    }

    /// Takes the census on this thread, and gives it up if value GC is paused meanwhile.
    fn take_unless_paused(&self, state: &mut State, task: &Task, start: Start) -> Result<()> {
        let taken = task.run(&self.paused);
        if taken.is_err() && self.paused.load(Ordering::Relaxed) {
            state.has_freed = true;
            return Ok(());
        }
        self.take(state, taken, start)
    }

    /// Takes what a census found that is over.
    pub(super) fn end_census(&self, state: &mut State, counting: Counting) -> Result<()> {
        let Counting { taking, start } = counting;
        self.take(state, taking.outcome(), start)
    }

    /// Waits a little for the census under way, as there is nothing to free; false if none is.
    pub(super) fn await_census(&self, state: &State) -> bool {
        if let Some(counting) = &state.counting {
            counting.taking.is_over_within(LOOK_AGAIN);
        }
        state.counting.is_some()
    }

    fn take(&self, state: &mut State, taken: Result<Taken>, start: Start) -> Result<()> {
        let taken = taken.inspect_err(|error| {
            self.note_walk(error);
            state.has_freed = true;
        });
        let Taken { census, time } = taken?;
        self.troubles.lock().note_census();
        let context = &self.parts.context;
        let counters = &self.parts.counters.gc;
        counters.censuses.add(1);
        counters.census_entries.add(census.walked);
        counters.census_nanos.add(time.as_nanos() as u64);
        let Start { facts, written, snapshots } = start;
        let (live_bytes, live_records) = (census.live_bytes(), census.entries);
        state.live.count(Counted { live_bytes, live_records, written });
        state.is_counted = true;
        // One from behind the count kept nothing alive in it.
        state.snapshots = snapshots.into_iter().filter(|&it| it < census.seqno).collect();
        let mut lists = census.segments.values().filter_map(|live| live.list.as_ref());
        let is_unknown = self.parts.options.punch && state.puncher.costs.is_unknown();
        let may_punch = is_unknown && lists.any(|list| are_long(list));
        state.knowledge.renew(census, &facts, &context.set.current());
        if may_punch {
            state.puncher.costs.probe(context);
            let nanos = state.puncher.costs.get().map_or(0, |cost| cost.call_nanos);
            counters.punch_call_nanos.add(nanos);
        }
        Ok(())
    }

    /// What a census that begins now looks at, or a look at the `wanted` segments alone.
    fn task(&self, state: &mut State, wanted: Vec<SegmentId>, wanted_only: bool) -> Result<Task> {
        let seqno = self.parts.snapshots.visible();
        let snapshots = self.parts.snapshots.list();
        // I4: what was written over counts as dead only once the newer version is durable.
        self.parts.committer.sync()?;
        let segments = wanted.iter().copied().collect();
        let entries = |view: &Arc<View>| match wanted_only {
            true => EntriesView::referencing(view, &segments),
            false => EntriesView::of(view),
        };
        let views = self.views()?.iter().map(entries).collect();
        let listed = if wanted_only { state.knowledge.listed() } else { 0 };
        let max_listed = self.max_listed().saturating_sub(listed);
        let context = self.parts.context.clone();
        state.walks += 1;
        let walk = state.walks;
        Ok(Task { context, seqno, snapshots, views, wanted, wanted_only, max_listed, walk })
    }

    /// True if segments of the log that were closed since the census are worth a look, and there is
    /// room for what it lists.
    pub(super) fn wants_look(&self, state: &State, plan: &Plan) -> bool {
        let has_room = || state.knowledge.listed() < self.max_listed();
        state.is_counted && plan.after_look > 0 && has_room()
    }

    /// Lists what is live in the segments of the log that were closed since the census. Only what
    /// leads to them is read, where a census would read all: they are behind the head, so that is
    /// few tables, the last flushes mostly. What others hide is listed too, and is not moved if it
    /// is known by then to be overwritten.
    pub(super) fn look_at_new(&self, state: &mut State, facts: &SpaceFacts) -> Result<()> {
        let new = facts.segments.iter().filter(|segment| segment.is_new());
        let task = self.task(state, wanted(new), true)?;
        let taken = task.run(&NEVER).inspect_err(|error| self.note_walk(error))?;
        let Taken { census: found, time } = taken;
        let counters = &self.parts.counters.gc;
        counters.census_entries.add(found.walked);
        counters.census_nanos.add(time.as_nanos() as u64);
        state.look_time = time;
        state.knowledge.add(found, facts);
        Ok(())
    }

    /// Remembers what keeps entries from being walked.
    fn note_walk(&self, error: &Error) {
        self.troubles.lock().note_walk(error);
    }

    /// Records that a census may list: half of the memory, as the lists of the last one are in use
    /// until it is taken.
    fn max_listed(&self) -> usize {
        self.parts.options.memory_bytes as usize / 2 / size_of::<LiveRecord>()
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
/// far as is known, and last those that can't be freed now.
fn wanted<'a>(candidates: impl Iterator<Item = &'a SegmentFacts>) -> Vec<SegmentId> {
    let mut candidates: Vec<_> = candidates.collect();
    candidates.sort_by_key(|segment| {
        let live = segment.live.min(segment.referenced).min(segment.written);
        let is_faulty = segment.fault.is_some();
        (is_faulty, live * 1000 / segment.written.max(1), segment.id)
    });
    candidates.iter().map(|segment| segment.id).collect()
}

//! The collector runs value GC in rounds. A round is a liveness scan, a pick, and relocations of a
//! few segments at a time. Where all values are in tables there is nothing to find, and compaction
//! does the freeing.
//!
//! A liveness scan serves several relocations. What it found dead stays dead (I6); what it found
//! live may have died since, and then moving it is wasted. So a new one is taken only when enough
//! was written to make another choice likely. For log segments that were closed meanwhile a look at
//! the tables that reference them is enough. Near the ceiling relocations are small, so that the
//! space they take before they free any stays small, too. While users write, another thread takes
//! the liveness scan, and the findings of the previous one are freed meanwhile.
//!
//! Locks: `state` is held for the length of a step. So steps are serial, and nothing but a step
//! removes relocations or frees segments that are not dead as a whole. `quarantine` is a leaf, held
//! for moments, so that reading the warnings does not wait for a step.

mod beside;
mod count;
mod holes;
mod pace;
mod relocations;

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::commit::group::Committer;
use crate::env::aligned::AlignedBuffer;
use crate::env::sync::{Mutex, MutexGuard};
use crate::gc::bounds::SpaceBounds;
use crate::gc::facts::{PunchCost, SegmentFault, SpaceFacts};
use crate::gc::freed::FreeingRate;
use crate::gc::hidden_sample;
use crate::gc::hidden_share::HiddenShare;
use crate::gc::live_estimate::{LiveEstimate, Written};
use crate::gc::log_tail::LogTailAdvice;
use crate::gc::picker::{GcPlan, Mode, Policy, pick};
use crate::gc::punch::Puncher;
use crate::gc::quarantine::Quarantine;
use crate::gc::relocate::MoveReport;
use crate::gc::settings::GcOptions;
use crate::gc::survey::{Knowledge, survey};
use crate::gc::tidy::Tidy;
use crate::segment::SegmentKind;
use crate::throttle::ceiling::SpacePace;
use crate::version::job::JobResult;
use crate::version::runtime::Runtime;
use count::BackgroundLivenessScan;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectorStep {
    /// There was nothing to do.
    Rested,
    /// Some work was done; there may be more.
    Worked,
    /// A flush is needed before space comes back.
    Flush(LogTailAdvice),
}

/// What the collector does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CollectorAction {
    /// Lists what is live in new segments.
    Look,
    /// Begins a liveness scan.
    Count,
    /// Frees victims that are listed.
    Free,
    /// Asks for a flush.
    Flush(LogTailAdvice),
    /// Waits a little for the liveness scan under way.
    Await,
    /// Nothing.
    Rest,
}

/// The parts of the database that the collector uses.
pub struct CollectorParts {
    /// The parts of the database that its rooms share.
    pub runtime: Runtime,
    /// The writer of the log. An entry counts as newer once that is durable.
    pub committer: Arc<Committer>,
    /// The settings of value GC.
    pub options: GcOptions,
}

/// The collector, which frees the space of dead values.
pub struct Collector {
    parts: CollectorParts,
    /// The number that was visible at the opening.
    opened_at: SeqNo,
    state: Mutex<CollectorState>,
    /// The reasons that keep the collector from freeing segments.
    quarantine: Mutex<Quarantine>,
    paused: AtomicBool,
    /// True while space nears the ceiling and only merging tables frees any.
    wants_merges: AtomicBool,
    /// The bytes by which space may grow before GC becomes urgent if nothing is flushed; 0 while
    /// that is unknown.
    room: AtomicU64,
    /// The most that `room` can become, as of the last step.
    most_room: AtomicU64,
    /// The room that a job waits for; 0 if none does.
    asked_room: AtomicU64,
}

#[derive(Default)]
struct CollectorState {
    knowledge: Knowledge,
    /// True once a liveness scan has succeeded.
    is_counted: bool,
    /// True if anything was freed since the last liveness scan began.
    has_freed: bool,
    /// The liveness scan that another thread runs, if there is one.
    counting: Option<BackgroundLivenessScan>,
    /// Number of walks over entries so far.
    walks: u64,
    /// The snapshots for which the last liveness scan may have kept entries live.
    snapshots: Vec<SeqNo>,
    /// The estimate of live bytes.
    live: LiveEstimate,
    freed: FreeingRate,
    /// The share of entries in upper levels that hide others.
    hidden_share: HiddenShare,
    /// The share of the bytes put that flushes write once more, as memtables last told.
    flushed_share: f64,
    /// Bytes that compactions had freed when writers' pace was set last.
    compacted_away: u64,
    puncher: Puncher,
    tidy: Tidy,
    /// The memory that relocations load records into, kept until there is nothing to move.
    buffer: AlignedBuffer,
}

impl CollectorState {
    /// Gives up the liveness scan that another thread runs.
    fn give_up_liveness_scan(&mut self) {
        // Its beginning cleared the flag; the memory freed before it is still to be used by a scan.
        self.has_freed |= self.counting.take().is_some();
    }

    /// Returns the victims whose records the last liveness scan had no memory to list.
    fn given_up(&self, plan: &GcPlan) -> impl Iterator<Item = SegmentId> {
        let segments = &self.knowledge.liveness_scan.segments;
        let is_given_up = |id: &SegmentId| segments.get(id).is_some_and(|live| live.is_given_up);
        plan.victims.iter().map(|victim| victim.id).filter(is_given_up)
    }
}

impl Collector {
    /// Creates a collector without any knowledge.
    pub fn new(parts: CollectorParts) -> Self {
        let opened_at = parts.committer.visible_between_commits();
        let (state, quarantine) = (Mutex::default(), Mutex::default());
        let (paused, wants_merges) = (AtomicBool::new(false), AtomicBool::new(false));
        Collector {
            parts,
            opened_at,
            state,
            quarantine,
            paused,
            wants_merges,
            room: AtomicU64::new(0),
            most_room: AtomicU64::new(0),
            asked_room: AtomicU64::new(0),
        }
    }

    /// Returns the bytes by which space may grow before GC becomes urgent if nothing is flushed, as
    /// of the last step; 0 while that is unknown.
    pub fn room(&self) -> u64 {
        self.room.load(Ordering::Relaxed)
    }

    /// Returns the most that [`Collector::room`] can become, as GC makes it where garbage takes it.
    pub fn most_room(&self) -> u64 {
        self.most_room.load(Ordering::Relaxed)
    }

    /// Sets the room that a job waits for. [`Mode::Spare`] makes it where garbage takes it.
    pub fn ask_for_room(&self, bytes: u64) {
        self.asked_room.store(bytes, Ordering::Relaxed);
    }

    /// Returns the room that a job waits for; 0 if none does.
    pub fn asked_room(&self) -> u64 {
        self.asked_room.load(Ordering::Relaxed)
    }

    /// Forgets how much room there is until the next step, because a job has taken some.
    pub fn forget_room(&self) {
        self.room.store(0, Ordering::Relaxed);
    }

    /// Returns the flag that is true while the user pauses GC; it also ends a liveness scan under
    /// way.
    pub fn paused(&self) -> &AtomicBool {
        &self.paused
    }

    /// Returns the error that keeps the collector from freeing something, for as long as it lasts.
    pub fn quarantined(&self) -> Option<Error> {
        self.unexpired_quarantine().error().cloned()
    }

    /// Returns a sentence for each reason that keeps the collector from freeing something.
    pub fn warnings(&self) -> Vec<String> {
        self.unexpired_quarantine().warnings()
    }

    /// Returns the quarantine without the entries that have expired.
    fn unexpired_quarantine(&self) -> MutexGuard<'_, Quarantine> {
        let (version, now) = (self.parts.runtime.set.current(), self.parts.runtime.env.clock.now());
        let mut quarantine = self.quarantine.lock();
        quarantine.forget(|id| version.segments.contains_key(&id), now);
        quarantine
    }

    /// Returns the reason why this segment can't be freed now, if there is one.
    pub fn fault(&self, segment: SegmentId) -> Option<SegmentFault> {
        let now = self.parts.runtime.env.clock.now();
        let fault = self.quarantine.lock().fault(segment, now);
        let set = &self.parts.runtime.set;
        let is_kept = || set.log_pins().is_kept(segment) && set.current().is_log(segment);
        fault.or_else(|| is_kept().then_some(SegmentFault::Followed))
    }

    /// Returns true if it cannot be determined what is live. I4: nothing is freed by a guess.
    fn is_blind(&self) -> bool {
        self.quarantine.lock().blinding().is_some()
    }

    /// Does the next piece of work and sets the pace of writers.
    pub fn step(&self, mode: Mode) -> JobResult<CollectorStep> {
        let mut state = self.state.lock();
        let tidied = state.tidy.run(&self.parts.runtime.set)?;
        let punched = match mode {
            Mode::Paused => {
                state.give_up_liveness_scan();
                Ok(false)
            }
            _ => self.punch_pending(&mut state),
        };
        self.parts.runtime.check_closing()?;
        if self.is_blind() {
            self.forget_room();
            state.give_up_liveness_scan();
            self.parts.committer.stall_controller().space.set(SpacePace::NONE);
            return punched.map(|_| CollectorStep::Rested);
        }
        let advanced = self.advance(&mut state, mode)?;
        if advanced == CollectorStep::Rested {
            state.buffer = AlignedBuffer::default();
        }
        match (advanced, punched) {
            // Holes that can't be punched keep nothing else from being done.
            (CollectorStep::Rested, Err(error)) => Err(error),
            (CollectorStep::Rested, Ok(punched)) if tidied || punched => Ok(CollectorStep::Worked),
            (step, _) => Ok(step),
        }
    }

    /// Counts or frees something, as far as the knowledge allows.
    fn advance(&self, state: &mut CollectorState, mode: Mode) -> JobResult<CollectorStep> {
        if let Some(counting) = state.counting.take_if(|counting| counting.is_over()) {
            self.end_liveness_scan(state, counting)?;
        }
        let mut facts = self.facts(state)?;
        self.sample_hidden(state, &mut facts, mode)?;
        let mode = self.mode_at(&facts, mode);
        self.note_room(state, &facts);
        let plan = self.plan(state, &facts, mode);
        let action = self.decide(state, &facts, &plan, mode);
        self.set_pace(state, &facts, &plan, (mode, action == CollectorAction::Count));
        match action {
            CollectorAction::Look => self.look_at_new(state, &facts, mode)?,
            CollectorAction::Count => self.begin_liveness_scan(state, &facts, mode)?,
            CollectorAction::Free => self.free(state, &facts, &plan)?,
            CollectorAction::Flush(advice) => return Ok(CollectorStep::Flush(advice)),
            CollectorAction::Await => self.await_liveness_scan(state),
            CollectorAction::Rest => return Ok(CollectorStep::Rested),
        }
        Ok(CollectorStep::Worked)
    }

    /// Returns what comes next.
    fn decide(
        &self,
        state: &CollectorState,
        facts: &SpaceFacts,
        plan: &GcPlan,
        mode: Mode,
    ) -> CollectorAction {
        let is_counting = state.counting.is_some();
        if self.wants_look(state, plan) {
            CollectorAction::Look
        } else if !is_counting && self.wants_liveness_scan(state, facts, plan, mode) {
            CollectorAction::Count
        } else if self.has_work(state, plan) {
            CollectorAction::Free
        } else if let Some(advice) = plan.advice {
            CollectorAction::Flush(advice)
        } else if is_counting {
            CollectorAction::Await
        } else {
            CollectorAction::Rest
        }
    }

    /// Frees the next victims of the plan.
    fn free(&self, state: &mut CollectorState, facts: &SpaceFacts, plan: &GcPlan) -> JobResult {
        self.declare_holes(state, plan)?;
        let group = self.group(state, facts, plan);
        if !group.is_empty() {
            self.relocate(state, group)?;
            if self.asked_room() > 0 {
                // The job that waits for it looks once this step is over.
                self.note_room(state, &self.facts(state)?);
            }
        }
        Ok(())
    }

    /// Returns true if a step would free something, or count to find out.
    pub fn is_due(&self, mode: Mode) -> Result<bool> {
        let mut state = self.state.lock();
        if self.is_blind() {
            return Ok(false);
        }
        if state.tidy.is_due(&self.parts.runtime.set) || state.puncher.is_due(&self.parts.runtime) {
            return Ok(true);
        }
        let facts = self.facts(&state)?;
        let mode = self.mode_at(&facts, mode);
        let plan = self.plan(&state, &facts, mode);
        let action = self.decide(&state, &facts, &plan, mode);
        Ok(!matches!(action, CollectorAction::Flush(_) | CollectorAction::Rest)
            || state.counting.is_some()
            || wants_sample(&state, &facts, mode)
            || self.wants_to_merge(&state, &facts, mode))
    }

    /// Gives up the liveness scan that another thread runs, and with it the views that it holds.
    pub fn give_up_liveness_scan(&self) {
        self.state.lock().give_up_liveness_scan();
    }

    /// Returns true if there are recorded holes that can be punched now.
    pub fn owes_holes(&self) -> bool {
        self.state.lock().puncher.is_due(&self.parts.runtime)
    }

    /// Takes a liveness scan and frees everything that is worth it, on the caller's thread.
    pub fn collect(&self) -> JobResult<MoveReport> {
        let mut state = self.state.lock();
        state.tidy.run(&self.parts.runtime.set)?;
        // A liveness scan that begins now finds more than the one under way.
        state.counting = None;
        self.quarantine.lock().end_rests(self.parts.runtime.env.clock.now());
        let facts = self.facts(&state)?;
        // Segments that are closed from now on do not count: beside writers there would be no end.
        let newest = facts.segments.last().map(|segment| segment.id);
        let mut unlisted = usize::MAX;
        if facts.has_references() {
            self.count_up_to(newest, &mut state, &facts)?;
        }
        let (mut sum, mut failed) = (MoveReport::default(), None);
        loop {
            let facts = self.facts(&state)?;
            let plan = self.plan(&state, &facts, Mode::Manual);
            let punched = self.declare_holes(&mut state, &plan)?;
            sum.segments_punched += punched.segments;
            sum.bytes_punched += punched.bytes;
            let group = self.group(&mut state, &facts, &plan);
            if !group.is_empty() {
                match self.relocate(&mut state, group) {
                    Ok(report) => sum.add(&report),
                    // The other segments are freed first; the error is returned at the end.
                    Err(failure) if !failure.segments.is_empty() => failed = Some(failure.error),
                    Err(failure) => return Err(failure.error),
                }
            } else if punched.segments == 0 {
                let left = state.given_up(&plan).count();
                if left == 0 || left >= unlisted {
                    break;
                }
                unlisted = left;
                self.count_up_to(newest, &mut state, &facts)?;
            }
        }
        state.buffer = AlignedBuffer::default();
        let holes = self.punch_all(&mut state);
        self.note_room(&state, &self.facts(&state)?);
        failed.map_or(Ok(()), Err).and(holes).map(|()| sum)
    }

    /// Returns where the space is, as far as it is known.
    fn facts(&self, state: &CollectorState) -> Result<SpaceFacts> {
        let version = self.parts.runtime.set.current();
        let live = state.live.likely(self.written());
        let no_snapshots = self.parts.runtime.snapshots.list().is_empty();
        let (context, known) = (&self.parts.runtime, &state.knowledge);
        let mut facts = survey(context, &version, known, live, no_snapshots)?;
        if facts.is_all_inline() {
            facts.live_bytes = state.hidden_share.live(&facts.tree);
        } else if !state.is_counted {
            facts.live_bytes = self.presumed_live(&facts);
        }
        self.mark_faults(&mut facts);
        Ok(facts)
    }

    /// Decides what to free next.
    fn plan(&self, state: &CollectorState, facts: &SpaceFacts, mode: Mode) -> GcPlan {
        let policy = Policy {
            mode,
            bounds: self.bounds_at(facts),
            discardable_ratio: self.parts.options.discardable_ratio,
            punch: self.punch_cost(state),
        };
        pick(facts, &policy)
    }

    /// Returns the cost of punching, if it is known and not switched off.
    fn punch_cost(&self, state: &CollectorState) -> Option<PunchCost> {
        state.puncher.costs.get().filter(|_| self.parts.options.punch)
    }

    /// Returns the mode in which GC works on these facts.
    fn mode_at(&self, facts: &SpaceFacts, mode: Mode) -> Mode {
        self.bounds_at(facts).mode_at(mode, facts.allocated(), facts.live_bytes)
    }

    /// Returns the bytes that files take, with holes that are recorded and still to be punched.
    fn occupied(&self, state: &CollectorState, facts: &SpaceFacts) -> u64 {
        facts.allocated().saturating_add(state.puncher.due_bytes(&self.parts.runtime))
    }

    /// Returns the bounds where space is as these facts say.
    fn bounds_at(&self, facts: &SpaceFacts) -> SpaceBounds {
        let (asked_room, to_flush) = (self.asked_room(), facts.to_flush());
        // What is under way where all values are in tables is a merge, of whatever size.
        let under_way = match facts.is_all_inline() {
            true => u64::MAX,
            false => self.parts.committer.log().segment_bytes() / 2 * 3,
        };
        SpaceBounds { asked_room, under_way, to_flush, ..SpaceBounds::new(&self.parts.options) }
    }

    /// Marks the segments that can't be freed, so that the picker leaves them out. Those that a
    /// consumer of the change feed keeps are among them: to move what is live in one would cost
    /// space, as the file stays.
    fn mark_faults(&self, facts: &mut SpaceFacts) {
        let now = self.parts.runtime.env.clock.now();
        let floor = self.parts.runtime.set.log_pins().floor();
        let quarantine = self.unexpired_quarantine();
        for segment in &mut facts.segments {
            let fault = quarantine.fault(segment.id, now);
            let is_log = segment.kind == SegmentKind::Log;
            let is_kept = is_log && floor.is_some_and(|floor| floor <= segment.id);
            segment.fault = fault.or(is_kept.then_some(SegmentFault::Followed));
        }
        facts.sum_followed();
    }

    /// Returns what users wrote or ingested since the opening.
    fn written(&self) -> Written {
        let counters = &self.parts.runtime.counters;
        Written {
            put_bytes: counters.put_bytes_stored.get() + counters.ingest_bytes_written.get(),
            deletes: counters.deletes_written.get() + counters.deletes_ingested.get(),
        }
    }

    /// Looks how many entries hide others, if nothing else says what is live, and the tree has
    /// changed since the last look. Corrects the facts by it.
    fn sample_hidden(
        &self,
        state: &mut CollectorState,
        facts: &mut SpaceFacts,
        mode: Mode,
    ) -> JobResult {
        if !wants_sample(state, facts, mode) {
            return Ok(());
        }
        let context = &self.parts.runtime;
        let keyspaces: Vec<_> = self.views()?.iter().map(|view| view.levels.clone()).collect();
        let sample =
            hidden_sample::take(&keyspaces, &*context.env.random, || context.check_closing());
        let sample = sample.inspect_err(|error| self.note_walk(error))?;
        state.hidden_share.learn(sample, &facts.tree);
        facts.live_bytes = state.hidden_share.live(&facts.tree);
        Ok(())
    }
}

/// Returns true if it is time to look how many entries hide others.
fn wants_sample(state: &CollectorState, facts: &SpaceFacts, mode: Mode) -> bool {
    !mode.is_off() && facts.is_all_inline() && state.hidden_share.is_due(&facts.tree)
}

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

mod count;
mod holes;
mod pace;
mod relocations;
mod room;
mod situation;

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::commit::group::Committer;
use crate::env::aligned::AlignedBuffer;
use crate::env::sync::{Mutex, MutexGuard};
use crate::gc::facts::SegmentFault;
use crate::gc::flush_turn::FlushTurn;
use crate::gc::freed::FreeingRate;
use crate::gc::held::HeldSegments;
use crate::gc::hidden_share::HiddenShare;
use crate::gc::live_estimate::LiveEstimate;
use crate::gc::log_tail::LogTailAdvice;
use crate::gc::picker::{GcPlan, Mode};
use crate::gc::punch::Puncher;
use crate::gc::quarantine::Quarantine;
use crate::gc::relocate::MoveReport;
use crate::gc::settings::GcOptions;
use crate::gc::survey::Knowledge;
use crate::gc::tidy::Tidy;
use crate::version::job::JobResult;
use crate::version::runtime::Runtime;
use count::BackgroundLivenessScan;
use room::SpaceRoom;
use situation::{Situation, wants_sample};
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
    /// There is more to do once a flush that is due is over.
    AwaitsFlush,
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

/// The collector, which frees the space of dead values.
pub struct Collector {
    runtime: Runtime,
    /// The writer of the log. An entry counts as newer once that is durable.
    committer: Arc<Committer>,
    options: GcOptions,
    /// The number that was visible at the opening.
    opened_at: SeqNo,
    state: Mutex<CollectorState>,
    /// The reasons that keep the collector from freeing segments.
    quarantine: Mutex<Quarantine>,
    paused: AtomicBool,
    /// The number of collections that users requested, under way or about to begin.
    collections: AtomicU64,
    /// True while space nears the ceiling and only merging tables frees any.
    wants_merges: AtomicBool,
    room: SpaceRoom,
}

#[derive(Default)]
struct CollectorState {
    knowledge: Knowledge,
    /// True if anything was freed since the last liveness scan began.
    has_freed: bool,
    /// The liveness scan that another thread runs, if there is one.
    counting: Option<BackgroundLivenessScan>,
    /// Number of walks over entries so far.
    walks: u64,
    /// The snapshots for which the last liveness scan has kept entries live, with the bytes of
    /// those that die with it.
    snapshots: Vec<(SeqNo, u64)>,
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
    held: HeldSegments,
    flush_turn: FlushTurn,
    tidy: Tidy,
    /// The memory that relocations load records into, kept until there is nothing to move.
    buffers: Vec<AlignedBuffer>,
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
    pub fn new(runtime: Runtime, committer: Arc<Committer>, options: GcOptions) -> Self {
        let opened_at = committer.visible_between_commits();
        let (state, quarantine) = (Mutex::default(), Mutex::default());
        let (paused, wants_merges) = (AtomicBool::new(false), AtomicBool::new(false));
        Collector {
            runtime,
            committer,
            options,
            opened_at,
            state,
            quarantine,
            paused,
            collections: AtomicU64::new(0),
            wants_merges,
            room: SpaceRoom::default(),
        }
    }

    /// Returns the room that jobs may take.
    pub fn room(&self) -> &SpaceRoom {
        &self.room
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
        let (version, now) = (self.runtime.set.current(), self.runtime.env.clock.now());
        let mut quarantine = self.quarantine.lock();
        quarantine.forget(|id| version.segments.contains_key(&id), now);
        quarantine
    }

    /// Returns the reason why this segment can't be freed now, if there is one.
    pub fn fault(&self, segment: SegmentId) -> Option<SegmentFault> {
        let now = self.runtime.env.clock.now();
        let fault = self.quarantine.lock().fault(segment, now);
        let set = &self.runtime.set;
        let is_kept = || set.log_pins().is_kept(segment) && set.current().is_log(segment);
        fault.or_else(|| is_kept().then_some(SegmentFault::Followed))
    }

    /// Returns true if it cannot be determined what is live. I4: nothing is freed by a guess.
    fn is_blind(&self) -> bool {
        self.quarantine.lock().blinding().is_some()
    }

    /// Does the next piece of work and sets the pace of writers. Rests while a collection that the
    /// user requested is at work: the thread of this one has to look at the disk meanwhile, so that
    /// writers go on as soon as that has given room back (I9).
    pub fn step(&self, mode: Mode) -> JobResult<CollectorStep> {
        let state = match self.collections.load(Ordering::Relaxed) {
            0 => Some(self.state.lock()),
            _ => self.state.try_lock(),
        };
        let Some(mut state) = state else {
            return Ok(CollectorStep::Rested);
        };
        let punched = match mode {
            Mode::Paused => {
                state.give_up_liveness_scan();
                Ok(false)
            }
            // I9: this needs no room, so it comes before any edit, which may fail for lack of it.
            _ => self.punch_pending(&mut state),
        };
        state.held.forget_unlinked(&self.runtime);
        let tidied = state.tidy.run(&self.runtime.set)?;
        self.runtime.check_closing()?;
        let advanced = if self.is_blind() {
            self.room.forget();
            state.give_up_liveness_scan();
            self.let_writers_go(&mut state);
            CollectorStep::Rested
        } else {
            self.advance(&mut state, mode)?
        };
        if advanced == CollectorStep::Rested {
            state.buffers = Vec::new();
        }
        match (advanced, punched) {
            // Holes that can't be punched keep nothing else from being done.
            (CollectorStep::Rested, Err(error)) => Err(error),
            (CollectorStep::Rested | CollectorStep::AwaitsFlush, Ok(punched))
                if tidied || punched =>
            {
                Ok(CollectorStep::Worked)
            }
            (step, _) => Ok(step),
        }
    }

    /// Counts or frees something, as far as the knowledge allows.
    fn advance(&self, state: &mut CollectorState, mode: Mode) -> JobResult<CollectorStep> {
        if let Some(counting) = state.counting.take_if(|counting| counting.is_over()) {
            self.take(state, counting.taking.outcome(), counting.start)?;
        }
        let mut facts = self.facts(state)?;
        self.sample_hidden(state, &mut facts, mode)?;
        let now = self.situation(state, facts, mode);
        self.note_room(&now);
        let action = self.decide(state, &now);
        self.set_pace(state, &now, action == CollectorAction::Count);
        if matches!(
            action,
            CollectorAction::Flush(_) | CollectorAction::Await | CollectorAction::Rest
        ) {
            state.flush_turn.forget();
        }
        match action {
            CollectorAction::Look => self.look_at_new(state, &now)?,
            CollectorAction::Count => self.begin_liveness_scan(state, &now)?,
            CollectorAction::Free => return self.free(state, &now),
            CollectorAction::Flush(advice) => return Ok(CollectorStep::Flush(advice)),
            CollectorAction::Await => self.await_liveness_scan(state),
            CollectorAction::Rest => return Ok(CollectorStep::Rested),
        }
        Ok(CollectorStep::Worked)
    }

    /// Returns what comes next.
    fn decide(&self, state: &CollectorState, now: &Situation) -> CollectorAction {
        let is_counting = state.counting.is_some();
        if self.wants_look(state, &now.plan) {
            CollectorAction::Look
        } else if !is_counting && self.wants_liveness_scan(state, now) {
            CollectorAction::Count
        } else if self.has_work(state, &now.plan) {
            CollectorAction::Free
        } else if let Some(advice) = now.plan.advice {
            CollectorAction::Flush(advice)
        } else if is_counting {
            CollectorAction::Await
        } else {
            CollectorAction::Rest
        }
    }

    /// Frees the next victims of the plan, but relocates none where a flush goes first.
    fn free(&self, state: &mut CollectorState, now: &Situation) -> JobResult<CollectorStep> {
        // I9: holes need no room, so they wait for nothing.
        let declared = self.declare_holes(state, &now.plan)?;
        let group = self.group(state, now);
        if self.is_flush_first(state, now, &group) {
            state.knowledge.put_back(group);
            let has_declared = declared.segments > 0;
            return Ok(if has_declared {
                CollectorStep::Worked
            } else {
                CollectorStep::AwaitsFlush
            });
        }
        if !group.is_empty() {
            self.relocate(state, group)?;
            if self.room.asked() > 0 {
                // The job that waits for it looks once this step is over.
                self.note_room(&self.situation(state, self.facts(state)?, now.mode));
            }
        }
        Ok(CollectorStep::Worked)
    }

    /// Returns true if a step would do something, or ask compactions to.
    pub fn is_due(&self, mode: Mode) -> Result<bool> {
        let mut state = self.state.lock();
        if state.tidy.is_due(&self.runtime.set) || state.puncher.is_due(&self.runtime) {
            return Ok(true);
        }
        if self.is_blind() || mode.is_off() {
            return Ok(false);
        }
        let now = self.situation(&state, self.facts(&state)?, mode);
        let action = self.decide(&state, &now);
        Ok(!matches!(action, CollectorAction::Flush(_) | CollectorAction::Rest)
            || state.counting.is_some()
            || wants_sample(&state, &now.facts, now.mode)
            || self.wants_to_merge(&now))
    }

    /// Gives up the liveness scan that another thread runs, and with it the views that it holds.
    pub fn give_up_liveness_scan(&self) {
        self.state.lock().give_up_liveness_scan();
    }

    /// Takes a liveness scan and frees everything that is worth it, on the caller's thread.
    pub fn collect(&self) -> JobResult<MoveReport> {
        self.collections.fetch_add(1, Ordering::Relaxed);
        let outcome = self.collect_all(&mut self.state.lock());
        self.collections.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    fn collect_all(&self, state: &mut CollectorState) -> JobResult<MoveReport> {
        // I9: this needs no room, and what follows does.
        let punched_first = self.punch_all(state);
        state.tidy.run(&self.runtime.set)?;
        // A liveness scan that begins now finds more than the one under way.
        state.give_up_liveness_scan();
        self.quarantine.lock().end_rests(self.runtime.env.clock.now());
        let facts = self.facts(state)?;
        // Segments that are closed from now on do not count: beside writers there would be no end.
        let newest = facts.segments.last().map(|segment| segment.id);
        let mut unlisted = usize::MAX;
        if facts.has_references() {
            self.count_up_to(newest, state, &facts)?;
        } else {
            self.sample_again(state, &facts)?;
        }
        let (mut sum, mut failed) = (MoveReport::default(), None);
        loop {
            let now = self.situation(state, self.facts(state)?, Mode::Manual);
            // No step does it meanwhile, and space falls.
            self.set_pace(state, &now, false);
            let punched = self.declare_holes(state, &now.plan)?;
            sum.segments_punched += punched.segments;
            sum.bytes_punched += punched.bytes;
            let group = self.group(state, &now);
            if !group.is_empty() {
                match self.relocate(state, group) {
                    Ok(report) => sum.add(&report),
                    // The other segments are freed first; the error is returned at the end.
                    Err(failure) if !failure.segments.is_empty() => failed = Some(failure.error),
                    Err(failure) => return Err(failure.error),
                }
            } else if punched.segments == 0 {
                let left = state.given_up(&now.plan).count();
                if left == 0 || left >= unlisted {
                    break;
                }
                unlisted = left;
                self.count_up_to(newest, state, &now.facts)?;
            }
        }
        state.buffers = Vec::new();
        let holes = self.punch_all(state);
        self.note_room(&self.situation(state, self.facts(state)?, Mode::Manual));
        failed.map_or(Ok(()), Err).and(punched_first).and(holes).map(|()| sum)
    }
}

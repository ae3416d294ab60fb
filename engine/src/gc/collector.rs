//! Value GC as a whole: one round after the other, each of a census, a pick, and relocations of a
//! few segments at a time.
//!
//! A census serves several relocations: what it found dead stays dead (I6), what it found live may
//! have died since, which costs moving it once for nothing. So it is taken anew only when enough
//! was written to make another choice likely; for segments of the log that were closed meanwhile a
//! look at the tables that reference them is enough. Relocations are small, so that the space they
//! take before they free any stays small too. While users write another thread takes the census,
//! and what the one before found is freed meanwhile.
//!
//! Locks: `state` is held for the length of a step, so steps are serial, and nothing but a step
//! frees segments that are not dead as a whole or ends a relocation.

mod beside;
mod count;
mod task;

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::commit::group::Committer;
use crate::commit::pace::SpacePace;
use crate::commit::stall::Gate;
use crate::env::budget::Pressure;
use crate::env::sync::Mutex;
use crate::gc::copying::Failure;
use crate::gc::facts::{How, SpaceFacts, relocated_bytes};
use crate::gc::freed::Freed;
use crate::gc::log_tail::Advice;
use crate::gc::overwritten::Overwritten;
use crate::gc::pace::{LiveEstimate, PaceFacts, Written, pace};
use crate::gc::picker::{self, Mode, Plan, Policy, pick};
use crate::gc::punch::{Declared, Puncher};
use crate::gc::relocate::{self, MoveReport, Victim};
use crate::gc::settings::GcOptions;
use crate::gc::survey::{Knowledge, survey};
use crate::gc::target::SpaceTarget;
use crate::gc::tidy::Tidy;
use crate::stats::Counters;
use crate::version::job::JobContext;
use crate::version::snapshots::Snapshots;
use count::Counting;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One relocation moves about this part of what is live...
const GROUP_PART: u64 = 128;
/// ...but at most this many bytes, or one segment.
const MAX_GROUP_BYTES: u64 = 64 << 20;

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There was nothing to do.
    Rested,
    /// Something; there may be more.
    Worked,
    /// A flush is needed before space comes back.
    Flush(Advice),
}

/// What the collector works with.
pub struct Parts {
    /// What every job needs.
    pub context: JobContext,
    /// The way in, whose log is synced before anything counts as newer.
    pub committer: Arc<Committer>,
    /// What readers see.
    pub snapshots: Arc<Snapshots>,
    /// Where writers are held up.
    pub gate: Arc<Gate>,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// The settings.
    pub options: GcOptions,
}

/// Frees the space of dead values.
pub struct Collector {
    parts: Parts,
    state: Mutex<State>,
    paused: AtomicBool,
}

#[derive(Default)]
struct State {
    knowledge: Knowledge,
    /// True once there was a census.
    is_counted: bool,
    /// One that another thread takes.
    counting: Option<Counting>,
    /// How long the last look at new segments took.
    look_time: Option<Duration>,
    /// How often entries were walked.
    walks: u64,
    /// The snapshots that it kept something for.
    snapshots: Vec<SeqNo>,
    /// What is live by now, most likely.
    live: LiveEstimate,
    freed: Freed,
    /// Segments that can't be read, and why: they are left alone.
    damaged: BTreeMap<SegmentId, Error>,
    puncher: Puncher,
    /// What keeps a census from telling what is live: nothing is freed by a guess.
    broken: Option<Error>,
    tidy: Tidy,
}

impl Collector {
    /// Nothing is known yet.
    pub fn new(parts: Parts) -> Self {
        let state = Mutex::new(State::default());
        Collector { parts, state, paused: AtomicBool::new(false) }
    }

    /// True while the user wants it to rest, be it in the midst of a census.
    pub fn paused(&self) -> &AtomicBool {
        &self.paused
    }

    /// Does the next piece of work, and sets the pace of writers.
    pub fn step(&self, mode: Mode) -> Result<Step> {
        let mut state = self.state.lock();
        let mut tidied = state.tidy.run(&self.parts.context.set)?;
        if mode != Mode::Paused {
            tidied |= self.punch_pending(&mut state)?;
        }
        if state.broken.is_some() {
            state.counting = None;
            self.parts.gate.space.set(SpacePace::NONE);
            return Ok(Step::Rested);
        }
        if let Some(counting) = state.counting.take_if(|counting| counting.is_over()) {
            self.end_census(&mut state, counting)?;
        }
        let (facts, plan) = self.plan(&state, mode)?;
        let counts = state.counting.is_none() && self.wants_census(&state, &facts, &plan, mode);
        self.set_pace(&mut state, &facts, &plan, (mode, counts));
        if self.wants_look(&state, &plan) {
            self.look_at_new(&mut state, &facts)?;
            return Ok(Step::Worked);
        }
        if counts {
            self.begin_census(&mut state, &facts, mode)?;
            return Ok(Step::Worked);
        }
        let tidied = tidied || state.counting.is_some();
        let punched = self.declare_holes(&mut state, &plan)?;
        let group = self.group(&mut state, &facts, &plan);
        if group.is_empty() && punched.segments > 0 {
            return Ok(Step::Worked);
        }
        if group.is_empty() {
            if plan.advice.is_none() {
                self.await_census(&state);
            }
            return Ok(match plan.advice {
                Some(advice) => Step::Flush(advice),
                None if tidied => Step::Worked,
                None => Step::Rested,
            });
        }
        self.relocate(&mut state, group)?;
        Ok(Step::Worked)
    }

    /// True if a step would free something, or count to find out.
    pub fn is_due(&self, mode: Mode) -> Result<bool> {
        let mut state = self.state.lock();
        if state.broken.is_some() {
            return Ok(false);
        }
        if state.tidy.is_due(&self.parts.context.set) || state.puncher.is_due(&self.parts.context) {
            return Ok(true);
        }
        let (facts, plan) = self.plan(&state, mode)?;
        Ok(state.counting.is_some()
            || self.has_work(&state, &plan)
            || self.wants_look(&state, &plan)
            || self.wants_census(&state, &facts, &plan, mode))
    }

    /// Gives up the census that another thread takes, and with it the views that it holds.
    pub fn give_up_census(&self) {
        self.state.lock().counting = None;
    }

    /// True if holes are recorded that can be punched now.
    pub fn owes_holes(&self) -> bool {
        self.state.lock().puncher.is_due(&self.parts.context)
    }

    /// Takes a census and frees everything that is worth it, on the caller's thread.
    pub fn collect(&self) -> Result<MoveReport> {
        let mut state = self.state.lock();
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        state.tidy.run(&self.parts.context.set)?;
        // A census from now on says more.
        state.counting = None;
        let (facts, _) = self.plan(&state, Mode::Manual)?;
        self.begin_census(&mut state, &facts, Mode::Manual)?;
        let mut sum = MoveReport::default();
        loop {
            let (facts, plan) = self.plan(&state, Mode::Manual)?;
            let punched = self.declare_holes(&mut state, &plan)?;
            sum.segments_punched += punched.segments;
            sum.bytes_punched += punched.bytes;
            let group = self.group(&mut state, &facts, &plan);
            if !group.is_empty() {
                sum.add(&self.relocate(&mut state, group)?);
            } else if punched.segments == 0 {
                break;
            }
        }
        while self.punch_pending(&mut state)? {}
        Ok(sum)
    }

    /// Punches some of what was recorded; true if there may be more.
    fn punch_pending(&self, state: &mut State) -> Result<bool> {
        let counters = &self.parts.counters.gc;
        let begun = self.parts.context.env.clock.now();
        let worked = state.puncher.run(&self.parts.context, counters)?;
        counters.nanos.add((self.parts.context.env.clock.now() - begun).as_nanos() as u64);
        Ok(worked)
    }

    /// Records the holes of those victims that are to be punched; calls are made later.
    fn declare_holes(&self, state: &mut State, plan: &Plan) -> Result<Declared> {
        let Some(cost) = state.puncher.costs.get() else {
            return Ok(Declared::default());
        };
        let mut victims = Vec::new();
        for victim in plan.victims.iter().filter(|victim| victim.gain.how == How::Punch) {
            let live = state.knowledge.census.segments.get_mut(&victim.id);
            // Used once: what is dead by the next time, the next census finds.
            let list = live.and_then(|live| live.list.take());
            victims.extend(list.map(|list| Victim { id: victim.id, list }));
        }
        let declared = state.puncher.declare(&self.parts.context, &victims, &cost)?;
        if declared.segments > 0 {
            self.parts.counters.gc.rounds.add(1);
            let time = Duration::from_nanos(declared.calls * cost.call_nanos);
            state.freed.note(declared.bytes, time);
        }
        Ok(declared)
    }

    fn plan(&self, state: &State, mode: Mode) -> Result<(SpaceFacts, Plan)> {
        let version = self.parts.context.set.current();
        let live = state.live.likely(self.written());
        let punch = state.puncher.costs.get().filter(|_| self.parts.options.punch);
        let no_snapshots = self.parts.snapshots.list().is_empty();
        let (context, known) = (&self.parts.context, &state.knowledge);
        let facts = survey(context, &version, known, live, no_snapshots, punch.as_ref())?;
        let options = &self.parts.options;
        let policy = Policy {
            mode,
            max_space_amplification: options.max_space_amplification,
            discardable_ratio: options.discardable_ratio,
            punch,
            census_cost: state.puncher.costs.movable_in(state.look_time.unwrap_or_default()),
            move_budget: u64::MAX,
        };
        let mut plan = pick(&facts, &policy);
        plan.victims.retain(|victim| !state.damaged.contains_key(&victim.id));
        Ok((facts, plan))
    }

    /// What users wrote since the opening.
    fn written(&self) -> Written {
        let counters = &self.parts.counters;
        Written {
            put_bytes: counters.put_bytes_stored.get(),
            deletes: counters.deletes_written.get(),
        }
    }

    /// Says how much writers are held up, in a mode in which a census begins now, or none does.
    fn set_pace(
        &self,
        state: &mut State,
        facts: &SpaceFacts,
        plan: &Plan,
        (mode, counts): (Mode, bool),
    ) {
        let (gate, now) = (&self.parts.gate, self.parts.context.env.clock.now());
        if matches!(mode, Mode::Off | Mode::Paused) {
            // Waiting would help nobody.
            state.freed.look(now, false);
            self.parts.context.budget.press(Pressure::Space, false);
            return gate.space.set(SpacePace::NONE);
        }
        let ratio = self.parts.options.max_space_amplification;
        // Holes that are only recorded take their blocks still: nothing is to be picked for them,
        // but writers wait for them as well, unless a reader holds them up.
        let pending = state.puncher.due_bytes(&self.parts.context);
        let allocated = facts.allocated() + pending;
        let over = allocated > SpaceTarget::new(facts.live_bytes, ratio).start();
        let presses = (over || mode == Mode::Low) && plan.winnable + pending > 0;
        self.parts.context.budget.press(Pressure::Space, presses);
        let advised = plan.advice.map_or(0, Advice::garbage);
        // Before the first census nothing is known of what is live; writers don't wait for that.
        let counted_next = if state.is_counted { plan.after_census } else { 0 };
        // What a census under way will find is not known, but there is something to wait for.
        let found_next = u64::from(state.is_counted && (counts || state.counting.is_some()));
        let winnable = plan.winnable + counted_next + found_next + pending + advised;
        state.freed.look(now, over && winnable > 0);
        gate.space.set(pace(&PaceFacts {
            allocated,
            max_space_amplification: ratio,
            live: facts.live_bytes,
            insert_share: state.live.insert_share(),
            log_bytes: gate.log_bytes.load(Ordering::Relaxed),
            winnable,
            freed_per_second: state.freed.per_second(),
        }));
    }

    /// The next victims, with what is live in them.
    fn group(&self, state: &mut State, facts: &SpaceFacts, plan: &Plan) -> Vec<Victim> {
        let room = self.room();
        let census = &mut state.knowledge.census;
        let budget = (facts.live_bytes / GROUP_PART).min(MAX_GROUP_BYTES).min(room);
        let (mut group, mut bytes, mut walk) = (Vec::new(), 0, None);
        for victim in plan.victims.iter().filter(|victim| victim.gain.how == How::Relocate) {
            let Some(live) = census.segments.get_mut(&victim.id) else {
                continue;
            };
            // What does not fit may do so once others are freed.
            if relocated_bytes(live.bytes, live.records) > room {
                continue;
            }
            let is_full = bytes + live.bytes > budget;
            if !group.is_empty() && (is_full || walk != Some(live.walk)) {
                break;
            }
            // A list that was given up, or used already, comes with the next census.
            if let Some(list) = live.list.take() {
                bytes += live.bytes;
                walk = Some(live.walk);
                group.push(Victim { id: victim.id, list });
            }
        }
        group
    }

    /// Bytes that a relocation may write before it frees any.
    fn room(&self) -> u64 {
        let context = &self.parts.context;
        let free = context.env.fs.free_space(&context.set.tables().dir);
        // If that can't be told, the disk will tell.
        free.map_or(u64::MAX, |free| self.parts.gate.reserve.usable(free))
    }

    /// True if a victim of `plan` can be freed by what the census listed.
    fn has_work(&self, state: &State, plan: &Plan) -> bool {
        let segments = &state.knowledge.census.segments;
        let listed = |victim: &picker::Victim| {
            let live = segments.get(&victim.id).filter(|live| live.list.is_some())?;
            Some(relocated_bytes(live.bytes, live.records))
        };
        let least = plan.victims.iter().filter_map(listed).min();
        least.is_some_and(|least| least <= self.room())
    }

    fn count(&self, state: &mut State, report: &MoveReport, time: Duration) {
        let counters = &self.parts.counters.gc;
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
    }

    /// What was overwritten since the census; see there for the order.
    fn overwritten(&self, state: &State) -> Result<Overwritten> {
        let seqno = self.parts.snapshots.visible();
        let snapshots = self.parts.snapshots.list();
        self.parts.committer.sync()?;
        Ok(Overwritten::new(state.knowledge.census.seqno, seqno, snapshots, self.views()?))
    }

    fn relocate(&self, state: &mut State, group: Vec<Victim>) -> Result<MoveReport> {
        let clock = &self.parts.context.env.clock;
        let begun = clock.now();
        let moved = match self.overwritten(state) {
            Ok(overwritten) => relocate::run(&self.parts.context, &group, &overwritten),
            Err(error) => Err(error.into()),
        };
        match moved {
            Ok(report) => {
                let time = clock.now() - begun;
                self.count(state, &report, time);
                state.puncher.costs.note_move(report.bytes_moved, time);
                if let Some(target) = report.target {
                    state.knowledge.moved_since.insert(target, report.bytes_moved);
                }
                // Not left to the threads that compact: while those are at it, space would grow.
                let removed = self.parts.context.set.purge()?;
                self.parts.counters.files_removed.add(removed as u64);
                Ok(report)
            }
            Err(Failure { segment, error }) => {
                if let Some(segment) = segment {
                    state.damaged.insert(segment, error.clone());
                }
                // I9: nothing was freed, and perhaps nothing can be written that would make
                // another census due. What this one found stays right.
                state.knowledge.put_back(group);
                Err(error)
            }
        }
    }
}

//! Value GC as a whole: one round after the other, each of a census, a pick, and relocations of a
//! few segments at a time.
//!
//! A census serves several relocations: what it found dead stays dead (I6), what it found live may
//! have died since, which costs moving it once for nothing. So it is taken anew only when enough
//! was written to make another choice likely. Relocations are small, so that the space they take
//! before they free any stays small too.
//!
//! Locks: `state` is held for the length of a step, so steps are serial, and nothing but a step
//! frees segments that are not dead as a whole or ends a relocation.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::commit::group::Committer;
use crate::commit::pace::SpacePace;
use crate::commit::stall::Gate;
use crate::env::budget::Pressure;
use crate::env::sync::Mutex;
use crate::gc::census::{self, Scope};
use crate::gc::copying::Failure;
use crate::gc::facts::{How, SpaceFacts, relocated_bytes};
use crate::gc::log_tail::Advice;
use crate::gc::pace::{CensusNeed, Counted, LiveEstimate, PaceFacts, Written, pace};
use crate::gc::picker::{self, Mode, Plan, Policy, pick};
use crate::gc::punch::{Declared, Puncher};
use crate::gc::relocate::{self, MoveReport, Victim};
use crate::gc::settings::GcOptions;
use crate::gc::survey::{Knowledge, are_long, survey};
use crate::gc::target::SpaceTarget;
use crate::gc::tidy::Tidy;
use crate::stats::Counters;
use crate::version::job::JobContext;
use crate::version::snapshots::Snapshots;
use crate::version::view::View;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One relocation moves about this part of what is live...
const GROUP_PART: u64 = 64;
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
}

#[derive(Default)]
struct State {
    knowledge: Knowledge,
    /// True once there was a census.
    is_counted: bool,
    /// The snapshots that it kept something for.
    snapshots: Vec<SeqNo>,
    /// What is live by now, most likely.
    live: LiveEstimate,
    /// Bytes that rounds freed, and how long they took.
    freed: (u64, Duration),
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
        Collector { parts, state: Mutex::new(State::default()) }
    }

    /// Does the next piece of work, and sets the pace of writers.
    pub fn step(&self, mode: Mode) -> Result<Step> {
        let mut state = self.state.lock();
        let mut tidied = state.tidy.run(&self.parts.context.set)?;
        if mode != Mode::Paused {
            tidied |= self.punch_pending(&mut state)?;
        }
        if state.broken.is_some() {
            self.parts.gate.space.set(SpacePace::NONE);
            return Ok(Step::Rested);
        }
        let (facts, plan) = self.plan(&state, mode)?;
        self.set_pace(&state, &facts, &plan, mode);
        if self.wants_census(&state, &facts, &plan, mode) {
            self.take_census(&mut state, &facts)?;
            return Ok(Step::Worked);
        }
        let punched = self.declare_holes(&mut state, &plan)?;
        let group = self.group(&mut state, &facts, &plan);
        if group.is_empty() && punched.segments > 0 {
            return Ok(Step::Worked);
        }
        if group.is_empty() {
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
        Ok(self.has_work(&state, &plan) || self.wants_census(&state, &facts, &plan, mode))
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
        let (facts, _) = self.plan(&state, Mode::Manual)?;
        self.take_census(&mut state, &facts)?;
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
            state
                .note_freed(declared.bytes, Duration::from_nanos(declared.calls * cost.call_nanos));
        }
        Ok(declared)
    }

    fn plan(&self, state: &State, mode: Mode) -> Result<(SpaceFacts, Plan)> {
        let version = self.parts.context.set.current();
        let live = state.live.likely(self.written());
        let punch = state.puncher.costs.get().filter(|_| self.parts.options.punch);
        let facts = survey(&self.parts.context, &version, &state.knowledge, live, punch.as_ref())?;
        let options = &self.parts.options;
        let policy = Policy {
            mode,
            max_space_amplification: options.max_space_amplification,
            discardable_ratio: options.discardable_ratio,
            punch,
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

    fn set_pace(&self, state: &State, facts: &SpaceFacts, plan: &Plan, mode: Mode) {
        let gate = &self.parts.gate;
        if matches!(mode, Mode::Off | Mode::Paused) {
            // Waiting would help nobody.
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
        let (freed, time) = state.freed;
        let advised = plan.advice.map_or(0, Advice::garbage);
        gate.space.set(pace(&PaceFacts {
            allocated,
            max_space_amplification: ratio,
            live: facts.live_bytes,
            insert_share: state.live.insert_share(),
            log_bytes: gate.log_bytes.load(Ordering::Relaxed),
            winnable: plan.winnable + pending + advised,
            freed_per_second: (freed as f64 / time.as_secs_f64().max(1e-9)) as u64,
        }));
    }

    /// Whether what is known is too old, or too little, to decide by.
    fn wants_census(&self, state: &State, facts: &SpaceFacts, plan: &Plan, mode: Mode) -> bool {
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

    fn take_census(&self, state: &mut State, facts: &SpaceFacts) -> Result<()> {
        let context = &self.parts.context;
        let (wanted, begun) = (wanted(facts), context.env.clock.now());
        let written = self.written();
        let seqno = self.parts.snapshots.visible();
        let snapshots = self.parts.snapshots.list();
        // I4: what was written over counts as dead only once the newer version is durable.
        self.parts.committer.sync()?;
        let views = self.views()?;
        let max_listed = self.parts.options.memory_bytes as usize / size_of::<census::LiveRecord>();
        let scope =
            Scope { seqno, snapshots: &snapshots, views: &views, wanted: &wanted, max_listed };
        let census = census::take(&scope, || context.check_closing()).inspect_err(|error| {
            if error.kind() == ErrorKind::Corruption {
                state.broken = Some(error.clone());
            }
        })?;
        let counters = &self.parts.counters.gc;
        counters.censuses.add(1);
        counters.census_entries.add(census.walked);
        counters.census_nanos.add((context.env.clock.now() - begun).as_nanos() as u64);
        let (live_bytes, live_records) = (census.live_bytes(), census.entries);
        state.live.count(Counted { live_bytes, live_records, written });
        let written_then = facts.segments.iter().map(|segment| (segment.id, segment.written));
        let written_then = written_then.collect();
        (state.is_counted, state.snapshots) = (true, snapshots);
        let mut lists = census.segments.values().filter_map(|live| live.list.as_ref());
        let is_unknown = self.parts.options.punch && state.puncher.costs.is_unknown();
        let may_punch = is_unknown && lists.any(|list| are_long(list));
        state.knowledge = Knowledge { census, written_then, ..Knowledge::default() };
        if may_punch {
            state.puncher.costs.probe(context);
            let nanos = state.puncher.costs.get().map_or(0, |cost| cost.call_nanos);
            counters.punch_call_nanos.add(nanos);
        }
        Ok(())
    }

    /// A view of each keyspace that has tables. One that is just being created has none.
    fn views(&self) -> Result<Vec<Arc<View>>> {
        let set = &self.parts.context.set;
        let version = set.current();
        let views: Vec<Arc<View>> = set.keyspaces().iter().map(|state| state.view()).collect();
        for (id, keyspace) in &version.keyspaces {
            let seen = views.iter().any(|view| view.keyspace == *id);
            if !seen && keyspace.levels.deepest().is_some() {
                let what = format!("keyspace {:?} is not open for a census", keyspace.name);
                return Err(Error::new(ErrorKind::Busy, what));
            }
        }
        Ok(views)
    }

    /// The next victims, with what is live in them.
    fn group(&self, state: &mut State, facts: &SpaceFacts, plan: &Plan) -> Vec<Victim> {
        let room = self.room();
        let census = &mut state.knowledge.census;
        let budget = (facts.live_bytes / GROUP_PART).min(MAX_GROUP_BYTES).min(room);
        let (mut group, mut bytes) = (Vec::new(), 0);
        for victim in plan.victims.iter().filter(|victim| victim.gain.how == How::Relocate) {
            let Some(live) = census.segments.get_mut(&victim.id) else {
                continue;
            };
            // What does not fit may do so once others are freed.
            if relocated_bytes(live.bytes, live.records) > room {
                continue;
            }
            if !group.is_empty() && bytes + live.bytes > budget {
                break;
            }
            // A list that was given up, or used already, comes with the next census.
            if let Some(list) = live.list.take() {
                bytes += live.bytes;
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
        state.note_freed(freed, time);
    }

    fn relocate(&self, state: &mut State, group: Vec<Victim>) -> Result<MoveReport> {
        let clock = &self.parts.context.env.clock;
        let begun = clock.now();
        match relocate::run(&self.parts.context, &group) {
            Ok(report) => {
                let time = clock.now() - begun;
                self.count(state, &report, time);
                state.puncher.costs.note_move(report.bytes_moved, time);
                if let Some(target) = report.target {
                    state.knowledge.moved_since.insert(target, report.bytes_moved);
                }
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

impl State {
    /// Learns how fast space comes back. The past counts half as much each time.
    fn note_freed(&mut self, bytes: u64, time: Duration) {
        let (before, took) = self.freed;
        self.freed = (before / 2 + bytes, took / 2 + time);
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

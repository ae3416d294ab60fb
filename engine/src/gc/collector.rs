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
use crate::base::pointer::SegmentId;
use crate::commit::group::Committer;
use crate::compaction::output::JobContext;
use crate::env::sync::Mutex;
use crate::gc::census::{self, Census, Scope};
use crate::gc::copying::Failure;
use crate::gc::facts::{How, SpaceFacts};
use crate::gc::log_tail::Advice;
use crate::gc::picker::{Mode, Plan, Policy, pick};
use crate::gc::relocate::{self, MoveReport, Victim};
use crate::gc::settings::GcOptions;
use crate::gc::survey::{Written, survey};
use crate::gc::tidy::Tidy;
use crate::version::Version;
use crate::version::snapshots::Snapshots;
use crate::version::view::View;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One relocation moves about this part of what is live...
const GROUP_PART: u64 = 64;
/// ...but at most this many bytes, or one segment.
const MAX_GROUP_BYTES: u64 = 64 << 20;
/// A census is outdated once this part of what was live may have been written over.
const RENEW_PART: u64 = 10;
/// A census is worth it only if more was written than this part of a segment.
const LEAST_NEWS_PART: u64 = 16;

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
    /// The settings.
    pub options: GcOptions,
    /// About how many bytes a segment has.
    pub segment_bytes: u64,
}

/// Frees the space of dead values.
pub struct Collector {
    parts: Parts,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    census: Option<Census>,
    /// The bytes that were written to the log when the census was taken.
    census_at: u64,
    /// Live bytes of what was moved since the census.
    written_since: Written,
    /// Segments that can't be read, and why: they are left alone.
    damaged: BTreeMap<SegmentId, Error>,
    /// What keeps a census from telling what is live: nothing is freed by a guess.
    broken: Option<Error>,
    tidy: Tidy,
}

impl Collector {
    /// Nothing is known yet.
    pub fn new(parts: Parts) -> Self {
        Collector { parts, state: Mutex::new(State::default()) }
    }

    /// Does the next piece of work. `log_bytes` is what was written to the log since the opening.
    pub fn step(&self, mode: Mode, log_bytes: u64) -> Result<Step> {
        let mut state = self.state.lock();
        let context = &self.parts.context;
        let tidied = state.tidy.run(&context.set)?;
        if let Some(error) = &state.broken {
            return if mode == Mode::Manual { Err(error.clone()) } else { Ok(Step::Rested) };
        }
        let version = context.set.current();
        let (facts, plan) = self.plan(&state, &version, mode)?;
        if self.wants_census(&state, &facts, &plan, mode, log_bytes) {
            self.take_census(&mut state, &facts)?;
            state.census_at = log_bytes;
            return Ok(Step::Worked);
        }
        let group = self.group(&mut state, &facts, &plan);
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

    /// True if a step would do something.
    pub fn is_due(&self, mode: Mode, log_bytes: u64) -> Result<bool> {
        let state = self.state.lock();
        if state.broken.is_some() {
            return Ok(false);
        }
        let version = self.parts.context.set.current();
        let (facts, plan) = self.plan(&state, &version, mode)?;
        let listed = |victim: &crate::gc::picker::Victim| {
            let census = state.census.as_ref();
            let live = census.and_then(|census| census.segments.get(&victim.id));
            live.is_some_and(|live| live.list.is_some())
        };
        Ok(plan.victims.iter().any(listed)
            || self.wants_census(&state, &facts, &plan, mode, log_bytes))
    }

    /// Takes a census and frees everything that is worth it, on the caller's thread.
    pub fn collect(&self, log_bytes: u64) -> Result<MoveReport> {
        let mut state = self.state.lock();
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        let set = &self.parts.context.set;
        state.tidy.run(set)?;
        let (facts, _) = self.plan(&state, &set.current(), Mode::Manual)?;
        self.take_census(&mut state, &facts)?;
        state.census_at = log_bytes;
        let mut sum = MoveReport::default();
        loop {
            let (facts, plan) = self.plan(&state, &set.current(), Mode::Manual)?;
            let group = self.group(&mut state, &facts, &plan);
            if group.is_empty() {
                return Ok(sum);
            }
            sum.add(&self.relocate(&mut state, group)?);
        }
    }

    fn plan(&self, state: &State, version: &Version, mode: Mode) -> Result<(SpaceFacts, Plan)> {
        let none = Census::default();
        let census = state.census.as_ref().unwrap_or(&none);
        let live = census.live_bytes();
        let facts = survey(&self.parts.context, version, census, &state.written_since, live)?;
        let options = &self.parts.options;
        let policy = Policy {
            mode,
            max_space_amplification: options.max_space_amplification,
            discardable_ratio: options.discardable_ratio,
            punch: None,
            move_budget: u64::MAX,
        };
        let mut plan = pick(&facts, &policy);
        plan.victims.retain(|victim| !state.damaged.contains_key(&victim.id));
        Ok((facts, plan))
    }

    /// Whether what is known is too old, or too little, to decide by.
    fn wants_census(
        &self,
        state: &State,
        facts: &SpaceFacts,
        plan: &Plan,
        mode: Mode,
        log_bytes: u64,
    ) -> bool {
        let Some(census) = &state.census else {
            return mode != Mode::Off && !facts.segments.iter().all(|s| s.written <= 4096);
        };
        let news = log_bytes - state.census_at;
        let live = census.live_bytes();
        let least = self.parts.segment_bytes / LEAST_NEWS_PART;
        match mode {
            Mode::Off | Mode::Paused => false,
            Mode::Manual => news > 0,
            Mode::Idle => news > least.max(live / 100),
            Mode::Busy => {
                let over = facts.allocated() > self.target(facts).start();
                let outdated = news > least.max(live / RENEW_PART);
                over && (outdated || plan.victims.is_empty() && news > least)
            }
        }
    }

    fn target(&self, facts: &SpaceFacts) -> crate::gc::target::SpaceTarget {
        let ratio = self.parts.options.max_space_amplification;
        crate::gc::target::SpaceTarget::new(facts.live_bytes, ratio)
    }

    fn take_census(&self, state: &mut State, facts: &SpaceFacts) -> Result<()> {
        let context = &self.parts.context;
        let wanted = wanted(facts);
        let seqno = self.parts.snapshots.visible();
        let snapshots = self.parts.snapshots.list();
        // I4: what was written over counts as dead only once the newer version is durable.
        self.parts.committer.sync()?;
        let views = self.views()?;
        let max_listed = self.parts.options.memory_bytes as usize / size_of::<census::LiveRecord>();
        let scope =
            Scope { seqno, snapshots: &snapshots, views: &views, wanted: &wanted, max_listed };
        match census::take(&scope, || context.check_closing()) {
            Ok(census) => {
                state.written_since.clear();
                state.census = Some(census);
                Ok(())
            }
            Err(error) => {
                if error.kind() == ErrorKind::Corruption {
                    state.broken = Some(error.clone());
                }
                Err(error)
            }
        }
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
        let Some(census) = &mut state.census else {
            return Vec::new();
        };
        let budget = (facts.live_bytes / GROUP_PART).min(MAX_GROUP_BYTES);
        let (mut group, mut bytes) = (Vec::new(), 0);
        for victim in plan.victims.iter().filter(|victim| victim.gain.how == How::Relocate) {
            let Some(live) = census.segments.get_mut(&victim.id) else {
                continue;
            };
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

    fn relocate(&self, state: &mut State, group: Vec<Victim>) -> Result<MoveReport> {
        match relocate::run(&self.parts.context, group) {
            Ok(report) => {
                if let Some(target) = report.target {
                    state.written_since.insert(target, report.bytes_moved);
                }
                Ok(report)
            }
            Err(Failure { segment, error }) => {
                if let Some(segment) = segment {
                    state.damaged.insert(segment, error.clone());
                }
                Err(error)
            }
        }
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

//! The collector's counting: when and how it takes a liveness scan or a look at new segments.

use super::situation::Situation;
use super::{Collector, CollectorState};
use crate::base::error::Error;
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::events::Event;
use crate::gc::beside::Beside;
use crate::gc::discardable::DiscardableRule;
use crate::gc::facts::{SegmentFacts, SpaceFacts};
use crate::gc::first_scan::is_first_scan_due;
use crate::gc::live_estimate::{LiveCount, LivenessScanNeed, Written};
use crate::gc::liveness_scan::{self, LivenessScan, Scope};
use crate::gc::picker::{GcPlan, Mode};
use crate::version::entries::EntriesView;
use crate::version::job::{JobError, JobResult};
use crate::version::runtime::Runtime;
use crate::version::view::View;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two checks for the end of a liveness scan, while there is nothing to free.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The flag of a liveness scan that nobody gives up.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A liveness scan that another thread runs.
pub(super) struct BackgroundLivenessScan {
    pub(super) taking: Beside<LivenessScan>,
    pub(super) start: Start,
}

impl BackgroundLivenessScan {
    pub(super) fn is_over(&self) -> bool {
        self.taking.is_over_within(Duration::ZERO)
    }
}

/// The state of the database when a liveness scan began.
pub(super) struct Start {
    /// The bytes of each segment.
    segments: Vec<(SegmentId, u64)>,
    written: Written,
}

impl Collector {
    /// Returns true if the knowledge is too old, or too little, to decide by.
    pub(super) fn wants_liveness_scan(&self, state: &CollectorState, now: &Situation) -> bool {
        let Situation { facts, bounds, mode, plan, .. } = now;
        if mode.is_off() || !facts.segments.iter().any(|s| s.sealed) || !facts.has_references() {
            return false;
        }
        let (written, discardable) = (self.written(), DiscardableRule::of(&self.options));
        if !state.live.is_counted() {
            return is_first_scan_due(facts, bounds, written, (*mode, &discardable));
        }
        if plan.after_look > 0 {
            // A look has no room for its lists, so a new liveness scan is needed.
            return true;
        }
        // What a snapshot kept is no reason where only discardable segments are looked for: while
        // snapshots come and go, each that goes would make a scan due.
        let is_over = facts.allocated() > bounds.of(*mode, facts.live_bytes).start();
        if (is_over || *mode == Mode::Idle) && self.is_released(state) {
            return true;
        }
        let exhausted = !self.has_work(state, plan);
        exhausted && wants_lists(state, plan)
            || state.live.is_liveness_scan_due(&LivenessScanNeed {
                allocated: facts.allocated(),
                bounds: *bounds,
                mode: *mode,
                written,
                unreferenced_since: facts.unreferenced_since,
                exhausted,
            })
            || state.live.since_scan(written, facts.unreferenced_since).is_some_and(|since| {
                discardable.is_scan_due(facts, &since, self.can_punch(state), *mode)
            })
    }

    /// Returns true if snapshots are gone that kept enough live in the last liveness scan to be
    /// worth another one. Each iterator is a snapshot for as long as it lasts, so that some of them
    /// are always gone.
    fn is_released(&self, state: &CollectorState) -> bool {
        let now = self.runtime.snapshots.list();
        let gone = state.snapshots.iter().filter(|(seqno, _)| now.binary_search(seqno).is_err());
        let died = gone.fold(0_u64, |sum, (_, kept)| sum.saturating_add(*kept));
        state.live.is_worth_a_scan(died)
    }

    /// Begins a liveness scan. When idle, and for the first scan, it is done on return. Otherwise
    /// another thread runs it, so that the findings of the last one can be freed meanwhile.
    pub(super) fn begin_liveness_scan(
        &self,
        state: &mut CollectorState,
        now: &Situation,
    ) -> JobResult {
        let collectable = now.facts.segments.iter().filter(|segment| segment.is_collectable());
        let (scope, start) = self.start(state, &now.facts, wanted(collectable), now.mode)?;
        if now.mode == Mode::Idle || !state.live.is_counted() {
            return self.scan_unless_paused(state, &scope, start);
        }
        let scope = Arc::new(scope);
        let (theirs, context) = (scope.clone(), self.runtime.clone());
        let work = move |is_given_up: &AtomicBool| scan(&context, &theirs, is_given_up);
        let (threads, health) = (&self.runtime.env.threads, &self.runtime.health);
        let names = ("cleave-liveness", "a liveness scan");
        match Beside::begin(threads, health, names, work) {
            Ok(taking) => {
                state.counting = Some(BackgroundLivenessScan { taking, start });
                Ok(())
            }
            // The system has no thread left, so the scan runs on this one.
            Err(_) => self.scan_unless_paused(state, &scope, start),
        }
    }

    /// Runs a liveness scan on this thread to free the segments up to `newest`. Others are not
    /// listed: they would take the memory, and a look can list them later.
    pub(super) fn count_up_to(
        &self,
        newest: Option<SegmentId>,
        state: &mut CollectorState,
        facts: &SpaceFacts,
    ) -> JobResult {
        let is_asked_for = |it: &&SegmentFacts| it.is_collectable() && Some(it.id) <= newest;
        let asked_for = facts.segments.iter().filter(is_asked_for);
        let (scope, start) = self.start(state, facts, wanted(asked_for), Mode::Manual)?;
        self.take(state, scan(&self.runtime, &scope, &NEVER), start)
    }

    /// Prepares a liveness scan that begins now and lists the live records of the `wanted`
    /// segments.
    fn start(
        &self,
        state: &mut CollectorState,
        facts: &SpaceFacts,
        wanted: Vec<SegmentId>,
        mode: Mode,
    ) -> JobResult<(Scope, Start)> {
        assert!(state.counting.is_none(), "one liveness scan is under way at a time");
        let written = self.written();
        let scope = self.scope(state, wanted, (false, mode))?;
        let segments = facts.segments.iter().map(|it| (it.id, it.written)).collect();
        let start = Start { segments, written };
        state.has_freed = false;
        Ok((scope, start))
    }

    /// Runs the liveness scan on this thread, and gives it up if value GC is paused meanwhile.
    fn scan_unless_paused(
        &self,
        state: &mut CollectorState,
        scope: &Scope,
        start: Start,
    ) -> JobResult {
        let taken = scan(&self.runtime, scope, &self.paused);
        // Only a scan that was given up is passed over; a failure is returned.
        let is_given_up = matches!(taken, Err(JobError::Obsolete(_)));
        if is_given_up && self.paused.load(Ordering::Relaxed) {
            state.has_freed = true;
            return Ok(());
        }
        self.take(state, taken, start)
    }

    /// Waits a little for the liveness scan under way, as there is nothing to free.
    pub(super) fn await_liveness_scan(&self, state: &CollectorState) {
        if let Some(counting) = &state.counting {
            counting.taking.is_over_within(LOOK_AGAIN);
        }
    }

    /// Takes the result of a liveness scan that is over.
    pub(super) fn take(
        &self,
        state: &mut CollectorState,
        taken: JobResult<LivenessScan>,
        start: Start,
    ) -> JobResult {
        let liveness_scan = taken.inspect_err(|error| {
            self.note_walk(state, error);
            state.has_freed = true;
        })?;
        assert!(
            liveness_scan.seqno >= state.knowledge.liveness_scan.seqno,
            "I6: an older liveness scan takes nothing back"
        );
        self.quarantine.lock().note_liveness_scan();
        let context = &self.runtime;
        context.counters.gc.liveness_scans.add(1);
        let (entries, took) = (liveness_scan.walked, liveness_scan.took);
        context.emit(Event::LivenessScanEnded { entries, took });
        let (live_bytes, live_records) = (liveness_scan.live_bytes(), liveness_scan.live_entries());
        if !state.live.is_counted() {
            let (records, bytes) = liveness_scan.live_before;
            state.live.open(bytes, records);
        }
        state.live.count(LiveCount { live_bytes, live_records, written: start.written });
        let kept = liveness_scan.kept_by_snapshots.iter().filter(|(_, kept)| *kept > 0);
        state.snapshots = kept.copied().collect();
        state.knowledge.renew(liveness_scan, &start.segments, &context.set.current());
        self.measure_holes(state, true);
        Ok(())
    }

    /// Returns the number of the newest entry that may hide others if the log is not synced; `None`
    /// if it has to be. While users write, a flush mostly replaces the log before the device gets
    /// it. A sync would have it written after all, and that costs more than to move what its last
    /// entries hide.
    fn durable_without_sync(&self, state: &CollectorState, mode: Mode) -> Option<SeqNo> {
        let committer = &self.committer;
        if !committer.is_log_spared() {
            return None;
        }
        let seqno = committer.durable_between_commits();
        finds_more(mode, seqno, state.knowledge.liveness_scan.seqno).then_some(seqno)
    }

    /// Prepares a liveness scan that begins now, or, with `wanted_only`, a look at the `wanted`
    /// segments.
    fn scope(
        &self,
        state: &mut CollectorState,
        wanted: Vec<SegmentId>,
        (wanted_only, mode): (bool, Mode),
    ) -> JobResult<Scope> {
        // I6: the wanted segments were in a version before this, so all entries that lead to them
        // are at or below this number, those of an ingest that was just installed, too. A snapshot
        // that is not in the list is taken later, and sees all up to the number.
        let unsynced = self.durable_without_sync(state, mode);
        let visible = || self.committer.visible_between_commits();
        let seqno = unsynced.unwrap_or_else(visible);
        let visible = if unsynced.is_some() && !wanted_only { visible() } else { seqno };
        let snapshots = self.runtime.snapshots.list();
        // I4: an overwritten entry counts as dead only once the newer one is durable.
        if unsynced.is_none() {
            self.committer.sync()?;
        }
        let segments = wanted.iter().copied().collect();
        let entries = |view: &Arc<View>| match wanted_only {
            true => EntriesView::referencing(view, &segments),
            false => EntriesView::of(view),
        };
        let views = self.views()?.iter().map(entries).collect();
        let in_use = if wanted_only { state.knowledge.list_bytes() } else { 0 };
        let max_list_bytes = self.max_list_bytes().saturating_sub(in_use);
        state.walks += 1;
        let walk = state.walks;
        let before = if state.live.is_counted() { 0 } else { self.opened_at };
        Ok(Scope {
            seqno,
            visible,
            snapshots,
            views,
            wanted,
            wanted_only,
            max_list_bytes,
            walk,
            before,
        })
    }

    /// Returns true if log segments that were closed since the liveness scan are worth a look, and
    /// there is room for the lists. Where no bound asks for it, there has to be much room: each
    /// look walks tables, and lists no more than there is room for.
    pub(super) fn wants_look(&self, state: &CollectorState, plan: &GcPlan) -> bool {
        let (bytes, most) = (state.knowledge.list_bytes(), self.max_list_bytes());
        let is_asked = plan.after_look > 0 && bytes < most;
        state.live.is_counted() && (is_asked || plan.discardable_after_look > 0 && bytes < most / 2)
    }

    /// Lists the live records of log segments that were closed since the liveness scan. It reads
    /// only the tables that lead to them, where a liveness scan would read all. The segments are
    /// behind the head, so these are few tables, mostly the last flushes. Records that other tables
    /// hide are listed, too; they are not moved if they are known by then to be overwritten.
    pub(super) fn look_at_new(&self, state: &mut CollectorState, now: &Situation) -> JobResult {
        let new = now.facts.segments.iter().filter(|segment| segment.is_new());
        let scope = self.scope(state, wanted(new), (true, now.mode))?;
        let taken = scan(&self.runtime, &scope, &NEVER);
        let found = taken.inspect_err(|error| self.note_walk(state, error))?;
        state.knowledge.add(found, &now.facts);
        self.measure_holes(state, false);
        Ok(())
    }

    /// Records an error that keeps entries from being walked, and lets writers go on: it may last,
    /// and nothing is found meanwhile.
    pub(super) fn note_walk(&self, state: &mut CollectorState, error: &JobError) {
        if let Some(error) = error.failure() {
            self.quarantine.lock().note_walk(error);
            self.let_writers_go(state);
        }
    }

    /// Returns the most bytes that the lists of a liveness scan may take: half of the memory, as
    /// the lists of the last scan are in use until it ends.
    fn max_list_bytes(&self) -> usize {
        self.options.memory_bytes as usize / 2
    }

    /// Returns a view of each keyspace that has tables. One that is just being created has none.
    pub(super) fn views(&self) -> JobResult<Vec<Arc<View>>> {
        let set = &self.runtime.set;
        let views: Vec<Arc<View>> = set.keyspaces().iter().map(|state| state.view()).collect();
        // The version is read after the views, so that a keyspace that is dropped meanwhile is not
        // missed.
        let version = set.current();
        for (id, keyspace) in &version.keyspaces {
            let seen = views.iter().any(|view| view.keyspace == *id);
            if !seen && keyspace.levels.deepest().is_some() {
                let what = format!("keyspace {:?} is not open for a liveness scan", keyspace.name);
                return Err(JobError::Obsolete(Error::wrong_state(what)));
            }
        }
        Ok(views)
    }
}

/// Returns true if the last liveness scan had no memory for the list of a victim, and the next one
/// may have it, because segments that it listed were freed since. Otherwise it would list the same
/// ones again.
fn wants_lists(state: &CollectorState, plan: &GcPlan) -> bool {
    state.has_freed && state.given_up(plan).next().is_some()
}

/// Takes a liveness scan on this thread. It reads views that were taken before it began, and holds
/// tables, memtables and relocations, but no segment (I5), so value GC can go on meanwhile. It ends
/// early if the database closes or `is_given_up` becomes true.
fn scan(context: &Runtime, scope: &Scope, is_given_up: &AtomicBool) -> JobResult<LivenessScan> {
    let begun = context.env.clock.now();
    let mut found = liveness_scan::take(scope, || {
        if is_given_up.load(Ordering::Relaxed) {
            return Err(JobError::Obsolete(Error::wrong_state("the liveness scan was given up")));
        }
        context.check_closing()
    })?;
    found.took = context.env.clock.since(begun);
    context.counters.gc.liveness_scan_entries.add(found.walked);
    context.counters.gc.liveness_scan_nanos.add_time(found.took);
    Ok(found)
}

/// Returns the segments whose records a liveness scan is to list. Those with the largest known
/// share of garbage come first, those that can't be freed now last.
fn wanted<'a>(candidates: impl Iterator<Item = &'a SegmentFacts>) -> Vec<SegmentId> {
    let mut candidates: Vec<_> = candidates.collect();
    candidates.sort_by_key(|segment| {
        let live = segment.live.min(segment.referenced).min(segment.written);
        let is_faulty = segment.fault.is_some();
        (is_faulty, live * 1000 / segment.written.max(1), segment.id)
    });
    candidates.iter().map(|segment| segment.id).collect()
}

/// Returns true if a scan by what is `durable` without a sync can find more than the `last` one. If
/// no flush came since then, nothing more is found without a sync. What matters more than the bytes
/// of one is the space while it is short, and all that can be found while nobody writes.
fn finds_more(mode: Mode, durable: SeqNo, last: SeqNo) -> bool {
    matches!(mode, Mode::Spare | Mode::Busy) && durable > last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_synced_where_nothing_is_found_without() {
        for mode in [Mode::Spare, Mode::Busy] {
            assert_eq!([6, 5, 0].map(|durable| finds_more(mode, durable, 5)), [true, false, false]);
        }
        for mode in [Mode::Idle, Mode::Low, Mode::Manual] {
            assert!(!finds_more(mode, 6, 5));
        }
    }
}

//! The GC thread: when it works, when it rests, and the flushes that it requests.

use super::{Background, RECHECK_INTERVAL};
use crate::base::error::Result;
use crate::base::pointer::SegmentId;
use crate::compaction::{flush, stale};
use crate::gc::collector::{Collector, CollectorStep};
use crate::gc::dead;
use crate::gc::log_tail::LogTailAdvice;
use crate::gc::picker::Mode;
use crate::gc::relocate::MoveReport;
use crate::throttle::spare::SpareTime;
use crate::version::files::TableHandle;
use crate::version::health::JobKind;
use crate::version::job::{JobError, JobResult};
use crate::version::view::KeyspaceState;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval at which value GC looks for work while there are commits, or while space is low.
const SPACE_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The least time between two looks at how much was put.
const PUTS_CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// The bytes per second that users put at the most, as far as that is foreseen. Where GC looked ten
/// times a second, 40 MB could be put between the moment when it was due and its beginning, for
/// which writers were delayed then (`bench/record/2026-11-29-gc-in-time.md`).
const FASTEST_PUTS: u64 = 1 << 30;
/// The database is idle after this time without a commit.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// What the GC thread has noticed of the foreground.
#[derive(Default)]
pub(super) struct Foreground {
    /// The newest commit.
    seqno: u64,
    /// The time at which it was noticed.
    since: Duration,
    /// Whether users leave processor time; `None` before the first look, and where the system does
    /// not tell.
    spare: Option<SpareTime>,
}

/// Returns how long GC that rests waits before it looks how much was put, if it rests for `left`
/// more, and writers are delayed after so many bytes. If they are delayed now, it waits for
/// something else.
fn time_to_look(bytes: u64, left: Duration) -> Duration {
    if bytes == 0 {
        return left;
    }
    let put = Duration::from_secs_f64(bytes as f64 / FASTEST_PUTS as f64);
    put.max(PUTS_CHECK_INTERVAL).min(left)
}

impl Background {
    /// The loop of the GC thread.
    pub(super) fn collect(&self) {
        let mut foreground = Foreground::default();
        loop {
            let mode = self.gc_mode(&mut foreground);
            let number = {
                let mut state = self.state.lock();
                state.is_low = mode == Mode::Low;
                state.idle_at = (mode == Mode::Idle).then_some(foreground.seqno);
                if state.closing {
                    break;
                }
                state.jobs += 1;
                self.begin_collecting(&mut state)
            };
            let outcome = self.guarded(|| self.collect_once(mode));
            self.report_failure(&outcome);
            let worked = matches!(outcome, Ok(true));
            let mut state = self.state.lock();
            state.running.end(number);
            assert!(state.jobs > 0, "a job that ends was counted when it began");
            state.jobs -= 1;
            self.changed.notify_all();
            let failed = matches!(outcome, Err(JobError::Failed(_)));
            self.note(JobKind::ValueGc, outcome.map(|_| ()), &mut state);
            drop(state);
            self.committer.stall_controller().notify();
            if failed {
                self.rest_from_gc();
            } else if !worked {
                self.wait_for_news(mode);
            }
        }
        self.collector.give_up_liveness_scan();
    }

    /// Waits until a job ends, writers begin to be delayed, or it is time for another look.
    fn wait_for_news(&self, mode: Mode) {
        let controller = self.committer.stall_controller();
        // While the database is idle nobody puts anything, nor while puts are refused.
        let is_put = matches!(mode, Mode::Busy | Mode::Spare);
        let is_quick = controller.reserve.is_low() || is_put;
        let longest = if is_quick { SPACE_CHECK_INTERVAL } else { RECHECK_INTERVAL };
        let clock = &self.runtime.env.clock;
        let until = clock.now() + longest;
        let mut state = self.state.lock();
        while !state.closing {
            let before = if is_put { controller.bytes_until_delays() } else { 0 };
            let time = time_to_look(before, clock.left(until));
            let timed_out;
            (state, timed_out) = self.changed.wait_timeout(state, time);
            let begin_delays = before > 0 && controller.bytes_until_delays() == 0;
            // The end of a job in the moment of a look is noticed at the end of the rest.
            if !timed_out || begin_delays || clock.left(until).is_zero() {
                return;
            }
        }
    }

    /// Runs one step; returns true if there may be more to do at once.
    fn collect_once(&self, mode: Mode) -> JobResult<bool> {
        if self.runtime.health.check().is_err() {
            return Ok(false);
        }
        // The threads of compactions do this as well, but they may be busy for long, and while the
        // disk is nearly full (I9) they might come to it too late.
        let dropped = self.drop_dead();
        // A file that can't be unlinked keeps nothing else from being freed. The job that only
        // unlinks fails as well, and reports it.
        let _ = self.purge();
        if self.committer.stall_controller().reserve.is_low() {
            self.committer.check_disk_now();
        }
        let step = self.collector.step(mode);
        // I9: to unlink and to punch needs no room, but the edit that drops segments does.
        dropped?;
        let step = step?;
        if self.collector.merging_ratio(false).is_some() {
            self.wake();
        }
        match step {
            CollectorStep::Rested => {
                if mode == Mode::Idle {
                    self.flush_tombstones();
                }
                self.flush_scanned();
                Ok(false)
            }
            CollectorStep::Worked => Ok(true),
            // The thread looks again once a job ends, or soon.
            CollectorStep::AwaitsFlush => Ok(false),
            CollectorStep::Flush(advice) => Ok(self.follow(advice).map(|()| false)?),
        }
    }

    /// Removes the segments that no table or relocation refers to.
    pub fn drop_dead(&self) -> Result<()> {
        let (set, counters) = (&self.runtime.set, &self.runtime.counters);
        if !dead::pick(&set.current()).is_empty() {
            counters.segments_dropped.add(dead::run(set)? as u64);
        }
        Ok(())
    }

    /// Unlinks obsolete files that nobody reads any more.
    pub(super) fn purge(&self) -> Result<()> {
        let purged = self.runtime.set.purge();
        self.runtime.counters.files_removed.add(purged.files);
        purged.outcome
    }

    /// Returns the collector of value GC.
    pub fn collector(&self) -> &Collector {
        &self.collector
    }

    /// Runs value GC on the caller's thread until nothing is worth freeing. It drops dead segments
    /// and unlinks files too, because the caller may end the process right after.
    pub fn collect_now(&self) -> Result<MoveReport> {
        let mut state = self.state.lock();
        self.check_running(&state)?;
        let number = self.begin_collecting(&mut state);
        let running = self.begin_foreground(state);
        let outcome = self.guarded(|| {
            let collected = self.collector.collect();
            let dropped = self.drop_dead();
            self.purge().and(dropped)?;
            collected
        });
        self.state.lock().running.end(number);
        drop(running);
        self.committer.stall_controller().notify();
        Ok(outcome?)
    }

    fn gc_mode(&self, foreground: &mut Foreground) -> Mode {
        // A look that began before a time of idling says nothing about users who come back.
        let spare = foreground.spare.take();
        if !self.settings.gc_automatic {
            return Mode::Off;
        }
        if self.collector.paused().load(Ordering::Relaxed) {
            return Mode::Paused;
        }
        let (now, seqno) = (self.runtime.env.clock.now(), self.runtime.snapshots.visible());
        assert!(seqno >= foreground.seqno, "I6: what was visible stays visible");
        if seqno != foreground.seqno {
            (foreground.seqno, foreground.since) = (seqno, now);
        }
        if self.committer.stall_controller().reserve.is_low() {
            return Mode::Low;
        }
        // What scans have paid for does not wait for processor time that nobody wants.
        let is_asked = self.collector.room().asked() > 0;
        let (is_ordering, has_ordered) = self.order_of_values(now);
        if is_ordering || has_ordered && !is_asked {
            return Mode::Busy;
        }
        if has_ordered {
            return Mode::Spare;
        }
        if now.saturating_sub(foreground.since) >= IDLE_AFTER {
            return Mode::Idle;
        }
        if is_asked {
            return Mode::Spare;
        }
        let idle = self.runtime.env.threads.idle_processor_time();
        foreground.spare =
            idle.map(|idle| spare.map_or(SpareTime::new(now, idle), |it| it.at(now, idle)));
        match foreground.spare {
            Some(spare) if spare.is_left() => Mode::Spare,
            _ => Mode::Busy,
        }
    }

    /// Returns whether a piece of values is put in order, and whether one was lately, so that the
    /// next may follow. Segments then die by themselves: to settle meanwhile would move what is
    /// about to be moved anyway.
    fn order_of_values(&self, now: Duration) -> (bool, bool) {
        let state = self.state.lock();
        let has_ordered = state.ordered_at.is_some_and(|at| now.saturating_sub(at) < IDLE_AFTER);
        (state.ordering, has_ordered)
    }

    /// Moves the head of the log on, so that segments before it can be freed. Does nothing while a
    /// flush is under way, because that moves the head too.
    fn follow(&self, advice: LogTailAdvice) -> Result<()> {
        let keyspaces = self.runtime.set.keyspaces();
        if keyspaces.iter().any(|keyspace| !keyspace.peek().immutables.is_empty()) {
            return Ok(());
        }
        let committer = &self.committer;
        let seals = advice.seals_active;
        if seals {
            committer.log().request_spare();
            if committer.log().prepare_spare().is_err() {
                // I9: there may be no room. Then the next writer prepares the segment it needs.
            }
        }
        let mut log = committer.hold();
        if seals {
            committer.log().seal_active(&mut log)?;
        }
        for keyspace in &keyspaces {
            keyspace.rotate_memtable();
        }
        drop(log);
        if keyspaces.iter().all(|keyspace| keyspace.peek().immutables.is_empty()) {
            // Everything is in tables; since then the log was only sealed, or a keyspace dropped.
            flush::move_head(&self.runtime, committer)?;
            self.move_head();
        }
        if seals {
            committer.log().sync_sealed(SegmentId(u64::MAX))?;
            committer.log().record_sealed()?;
        }
        self.wake();
        Ok(())
    }

    /// Seals memtables for a flush whose tombstones delete much of what is in tables, or of which
    /// much has expired.
    fn flush_tombstones(&self) {
        let mut keyspaces = self.runtime.set.keyspaces();
        let seen = self.runtime.snapshots.seen();
        keyspaces.retain(|keyspace| {
            let view = keyspace.peek();
            let (levels, active) = (&view.levels, &view.active.table);
            if !view.immutables.is_empty() {
                return false;
            }
            // What has expired for the oldest snapshot has for all.
            let expired = active.expired(seen.time_of(0));
            if stale::wants_flush_of_expired(active.entries(), expired) {
                return true;
            }
            // The tables that a range tombstone is over can go without being read.
            let deletes = |table: &TableHandle| {
                let smallest = table.meta.summary.smallest_key();
                active.newest_range(smallest, |_| true).is_some()
            };
            if active.has_ranges() && levels.tables().any(|(_, table)| deletes(table)) {
                return true;
            }
            if active.tombstones() == 0 {
                return false;
            }
            stale::wants_flush(active.entries(), active.tombstones(), levels.entries())
        });
        self.seal(&keyspaces);
    }

    /// Seals the memtables of these keyspaces, so that they are flushed.
    pub(super) fn seal(&self, keyspaces: &[Arc<KeyspaceState>]) {
        if keyspaces.is_empty() {
            return;
        }
        let log = self.committer.hold();
        for keyspace in keyspaces {
            keyspace.rotate_memtable();
        }
        drop(log);
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gc_that_rests_looks_before_writers_are_delayed_for_long() {
        let ms = Duration::from_millis;
        let look = |bytes: u64| time_to_look(bytes, ms(100));
        assert_eq!(look(u64::MAX), ms(100), "nobody is going to be delayed");
        assert_eq!(look(1 << 30), ms(100));
        assert_eq!(look(1 << 25), Duration::from_micros(31_250));
        assert_eq!([look(1 << 20), look(1)], [ms(5); 2]);
        assert_eq!(look(0), ms(100), "to look at puts helps nobody then");
        assert_eq!(time_to_look(1 << 20, ms(2)), ms(2));
    }
}

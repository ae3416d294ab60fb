//! The thread that frees the space of dead values: when it works, when it rests, and the flushes
//! that it asks for.

use super::{Background, BackgroundState, Claimed, LOOK_AGAIN, Role};
use crate::base::error::Result;
use crate::base::pointer::SegmentId;
use crate::compaction::flush;
use crate::compaction::picker::Pick;
use crate::compaction::stale::{self, StaleFacts};
use crate::gc::collector::CollectorStep;
use crate::gc::dead;
use crate::gc::facts::SegmentFault;
use crate::gc::log_tail::LogTailAdvice;
use crate::gc::picker::Mode;
use crate::gc::relocate::MoveReport;
use crate::version::job::JobResult;
use crate::version::levels::Levels;
use crate::version::view::KeyspaceState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// While there are commits, space is looked at this often.
const LOOK_AT_SPACE: Duration = Duration::from_millis(100);
/// Without a commit for this long the database is idle.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// When the database was last written to, as far as the GC thread has noticed.
#[derive(Default)]
pub(super) struct Quiet {
    seqno: u64,
    since: Duration,
}

impl Background {
    /// The loop of the GC thread.
    pub(super) fn collect(&self) {
        let mut quiet = Quiet::default();
        loop {
            let mode = self.gc_mode(&mut quiet);
            {
                let mut state = self.state.lock();
                // Without room for more, tables are worth a rewrite that frees some.
                state.idle = matches!(mode, Mode::Idle | Mode::Low);
                if state.closing {
                    break;
                }
                state.jobs += 1;
            }
            let outcome = self.guarded(|| self.collect_once(mode));
            let worked = matches!(outcome, Ok(true));
            let mut state = self.state.lock();
            state.jobs -= 1;
            self.changed.notify_all();
            let failed = self.note(Role::Collect, outcome.map(|_| ()), &mut state);
            drop(state);
            self.place.stall_controller.notify();
            if failed {
                self.rest(Role::Collect);
            } else if !worked {
                self.wait_for_news(mode);
            }
        }
        self.place.collector.give_up_liveness_scan();
    }

    fn wait_for_news(&self, mode: Mode) {
        let state = self.state.lock();
        if !state.closing {
            let low = self.place.stall_controller.reserve.is_low();
            let time = if low || mode == Mode::Busy { LOOK_AT_SPACE } else { LOOK_AGAIN };
            drop(self.changed.wait_timeout(state, time));
        }
    }

    /// One step; true if there may be more to do at once.
    fn collect_once(&self, mode: Mode) -> JobResult<bool> {
        if self.place.context.health.check().is_err() {
            return Ok(false);
        }
        if self.place.stall_controller.reserve.is_low() {
            self.make_room()?;
        }
        match self.place.collector.step(mode)? {
            CollectorStep::Rested => Ok(false),
            CollectorStep::Worked => Ok(true),
            CollectorStep::Flush(advice) => Ok(self.follow(advice).map(|()| false)?),
        }
    }

    /// Almost without space (I9): frees what costs nothing, which others might come to too late,
    /// and looks whether puts may go on.
    fn make_room(&self) -> Result<()> {
        self.drop_dead()?;
        self.purge()?;
        self.place.committer.look_at_disk_now();
        Ok(())
    }

    /// Removes the segments that nothing leads to.
    pub fn drop_dead(&self) -> Result<()> {
        let (set, counters) = (&self.place.context.set, &self.place.counters);
        if !dead::pick(&set.current()).is_empty() {
            counters.segments_dropped.add(dead::run(set)? as u64);
        }
        Ok(())
    }

    /// Unlinks what nobody reads any more.
    pub(super) fn purge(&self) -> Result<()> {
        let removed = self.place.context.set.purge()?;
        self.place.counters.files_removed.add(removed as u64);
        Ok(())
    }

    /// True while the user wants GC to rest.
    pub fn gc_paused(&self) -> &AtomicBool {
        self.place.collector.paused()
    }

    /// What keeps GC from freeing something, as sentences.
    pub fn gc_warnings(&self) -> Vec<String> {
        self.place.collector.warnings()
    }

    /// What keeps GC from freeing this segment now.
    pub fn gc_fault(&self, segment: SegmentId) -> Option<SegmentFault> {
        self.place.collector.fault(segment)
    }

    /// Collects all that is worth it on the caller's thread, and what is dead as a whole: whoever
    /// asked for it may end the process right behind.
    pub fn collect_now(&self) -> Result<MoveReport> {
        let state = self.state.lock();
        self.check_running(&state)?;
        let by_hand = self.begin_by_hand(state);
        let outcome = self.guarded(|| {
            let collected = self.place.collector.collect();
            self.drop_dead()?;
            self.purge()?;
            collected
        });
        drop(by_hand);
        self.place.stall_controller.notify();
        Ok(outcome?)
    }

    fn gc_mode(&self, quiet: &mut Quiet) -> Mode {
        if !self.place.gc_automatic {
            return Mode::Off;
        }
        if self.place.collector.paused().load(Ordering::Relaxed) {
            return Mode::Paused;
        }
        let (now, seqno) = (self.place.context.env.clock.now(), self.place.snapshots.visible());
        if seqno != quiet.seqno {
            *quiet = Quiet { seqno, since: now };
        }
        if self.place.stall_controller.reserve.is_low() {
            return Mode::Low;
        }
        if now >= quiet.since + IDLE_AFTER { Mode::Idle } else { Mode::Busy }
    }

    /// Moves the head of the log on, so that what is behind it can be freed. Does nothing while a
    /// flush is under way, which does the same.
    fn follow(&self, advice: LogTailAdvice) -> Result<()> {
        let keyspaces = self.place.context.set.keyspaces();
        if keyspaces.iter().any(|keyspace| !keyspace.peek().immutables.is_empty()) {
            return Ok(());
        }
        let committer = &self.place.committer;
        let mut log = committer.hold();
        if matches!(advice, LogTailAdvice::SealActive { .. }) {
            committer.log().end_active(&mut log)?;
            committer.log().record_sealed()?;
        }
        for keyspace in &keyspaces {
            keyspace.rotate_memtable();
        }
        drop(log);
        if keyspaces.iter().all(|keyspace| keyspace.peek().immutables.is_empty()) {
            // All of it is in tables, and the log was only closed since, or a keyspace dropped.
            flush::move_head(&self.place.context, committer)?;
        }
        self.wake();
        Ok(())
    }

    /// A compaction for what a table holds rather than for how full its level is; marks it as
    /// taken.
    pub(super) fn pick_stale(&self, state: &mut BackgroundState) -> Option<Claimed> {
        let (keyspace, levels, pick) = self.find_stale(state)?;
        let claim = state.busy.claim(keyspace.id, &keyspace.order, &pick)?;
        Some(Claimed { keyspace, levels, pick, claim, reorganize: false })
    }

    /// The same, without taking it.
    pub(super) fn find_stale(
        &self,
        state: &BackgroundState,
    ) -> Option<(Arc<KeyspaceState>, Arc<Levels>, Pick)> {
        let (set, reserve) = (&self.place.context.set, &self.place.stall_controller.reserve);
        let version = set.current();
        let known = StaleFacts {
            oldest_snapshot: self.place.snapshots.list().first().copied(),
            is_relocated: &|segment| version.relocations.contains_key(&segment),
            idle: state.idle,
            // L0 holds puts up there, as merging it takes space; and much of it may be stale.
            level0_bytes: if reserve.is_low() { reserve.found().notable() } else { u64::MAX },
        };
        set.keyspaces().into_iter().find_map(|keyspace| {
            let levels = keyspace.view().levels.clone();
            let pick = stale::pick(keyspace.id, &levels, &state.busy, &known)?;
            Some((keyspace, levels, pick))
        })
    }
}

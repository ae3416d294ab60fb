//! Runs the jobs that were chosen, and counts and reports what they did.

use super::Background;
use super::choice::{BackgroundWork, ChosenCompaction, CompactionReason};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::pointer::KeyspaceId;
use crate::base::size::sized;
use crate::compaction::homing::HomingRoom;
use crate::compaction::job::CompactionReport;
use crate::compaction::picker::Pick;
use crate::compaction::{convert, deletions, flush, job, level0, reorganize, stale};
use crate::events::Event;
use crate::memtable::AbsorbedBytes;
use crate::throttle::reads::{Pressure, level0_presses};
use crate::version::health::JobKind;
use crate::version::job::JobResult;
use crate::version::runtime::Runtime;
use crate::version::separation::{SeparationEvidence, choose};
use crate::version::settings::Separation;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::KeyspaceState;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Background {
    pub(super) fn run_guarded(&self, work: &BackgroundWork) -> JobResult {
        self.guarded(|| self.run(work))
    }

    /// Runs a job. A panic in it ends writing but not the process.
    pub(super) fn guarded<T>(&self, job: impl FnOnce() -> JobResult<T>) -> JobResult<T> {
        self.runtime.health.guard("a background job", job)
    }

    fn run(&self, work: &BackgroundWork) -> JobResult {
        match work {
            BackgroundWork::Flush(keyspace) => self.flush(keyspace),
            BackgroundWork::Spare => Ok(self.committer.log().prepare_spare().map(|_| ())?),
            BackgroundWork::Compact(claimed) => {
                Ok(self.compact(&self.runtime, &claimed.chosen).map(|_| ())?)
            }
            BackgroundWork::DropDead => Ok(self.drop_dead()?),
            BackgroundWork::Purge => Ok(self.purge()?),
            BackgroundWork::Pin(table) => {
                self.pin(table);
                Ok(())
            }
        }
    }

    fn flush(&self, keyspace: &Arc<KeyspaceState>) -> JobResult {
        let runtime = &self.runtime;
        let seen = || runtime.snapshots.seen();
        let name = &keyspace.name;
        let _span = tracing::info_span!(target: "cleavedb", "flush", keyspace = name).entered();
        runtime.emit(Event::FlushBegun { keyspace: name.clone() });
        let begun = runtime.env.clock.now();
        let report = flush::run(runtime, &self.committer, keyspace, seen)?;
        let took = runtime.env.clock.since(begun);
        runtime.counters.latencies.flush.add(took);
        let bytes_written = report.bytes + report.values_written;
        runtime.emit(Event::FlushEnded { keyspace: name.clone(), bytes_written, took });
        runtime.counters.flushes.add(1);
        runtime.counters.flush_bytes_written.add(bytes_written);
        runtime.counters.entries_dropped.add(report.dropped);
        self.choose_separation(keyspace, &report);
        self.move_head();
        Ok(())
    }

    /// Chooses when the values of a keyspace are separated, after a flush.
    fn choose_separation(&self, keyspace: &KeyspaceState, flushed: &flush::FlushReport) {
        let options = keyspace.options();
        // Costs of before count for no setting that comes later.
        let (scanned, waste) = keyspace.walks.take_costs();
        let (choice, written) = (&keyspace.choice, flushed.chosen_bytes);
        let AbsorbedBytes { put, absorbed } = flushed.puts;
        let so_far = self.committer.stall_controller().delayed_and_logged();
        let delayed = choice.delayed_part(put, so_far);
        if options.separation != Separation::Auto {
            return;
        }
        // What was separated at write is in the log for good; what would have been, if it had not?
        let log = self.runtime.set.spared();
        let replaced = match choice.now() {
            Separation::AtFlush => flushed.spared_bytes,
            _ => {
                log.note_kept(written);
                if self.committer.may_spare_log(keyspace) { written } else { 0 }
            }
        };
        let spared = log.likely(replaced);
        let new = SeparationEvidence { written, spared, scanned, waste, put, delayed, absorbed };
        let Some(evidence) = choice.add(new, &options) else { return };
        let reason = choose(choice.reason(), &evidence);
        if choice.set(reason, evidence) {
            let SeparationEvidence { written, spared, scanned, waste, put, delayed, absorbed } =
                evidence;
            self.runtime.emit(Event::SeparationChosen {
                keyspace: keyspace.name.clone(),
                separation: reason.separation().name(),
                reason: reason.name(),
                written,
                spared,
                scanned,
                waste,
                put,
                delayed,
                absorbed,
            });
        }
    }

    /// Forgets the compaction cursors and failures of a dropped keyspace, and lets the head of the
    /// log pass its entries.
    pub fn forget(&self, keyspace: KeyspaceId) {
        let mut state = self.state.lock();
        state.compaction_cursors.remove(&keyspace);
        self.runtime.set.tables().tree.forget(keyspace);
        self.demands.iter().for_each(|demands| demands.forget(keyspace));
        let jobs = [
            JobKind::Flush(keyspace),
            JobKind::Compaction(keyspace),
            JobKind::OptionalCompaction(keyspace),
        ];
        self.forget_failures(&jobs, &mut state);
        drop(state);
        self.move_head();
        self.wake();
    }

    /// Recomputes how far back in the log the oldest entry is that is not in a table, for the write
    /// stall controller.
    pub fn move_head(&self) {
        let stall_controller = &self.committer.stall_controller();
        let mut oldest = stall_controller.log_bytes.load(Ordering::Relaxed);
        for keyspace in self.runtime.set.keyspaces() {
            let view = keyspace.view();
            oldest = view.memtables().filter_map(|m| m.first_bytes()).fold(oldest, u64::min);
        }
        // The value only grows, so a thread that looked earlier and stores later changes nothing.
        stall_controller.head_bytes.fetch_max(oldest, Ordering::Relaxed);
    }

    /// Lifts the limit on compaction while L0 of any keyspace fills up.
    pub(super) fn press_for_level0(&self) {
        let level0_slow = self.committer.stall_controller().level0_slow();
        let is_filling = |keyspace: &Arc<KeyspaceState>| {
            let levels = &keyspace.peek().levels;
            let delays_writers = levels.level0_runs().len() >= level0_slow;
            level0_presses(level0::score(levels, &self.options_in_force(keyspace)), delays_writers)
        };
        let filling = self.runtime.set.keyspaces().iter().any(is_filling);
        self.runtime.budget.press(Pressure::Level0, filling);
    }

    /// Merges tombstones with what they delete, as far as that frees most of what it reads. At most
    /// `most_bytes` are read; returns how many were. `runtime` is that of the closing session: the
    /// caller ensures that no other job runs and nobody writes.
    pub fn merge_deleted(
        &self,
        runtime: &Runtime,
        keyspace: &Arc<KeyspaceState>,
        most_bytes: u64,
    ) -> JobResult<u64> {
        let (options, mut read) = (keyspace.options(), 0);
        loop {
            let levels = keyspace.view().levels.clone();
            let left = most_bytes.saturating_sub(read);
            let Some(pick) = deletions::pick(keyspace.id, &levels, &options, left) else {
                return Ok(read);
            };
            let (keyspace, reason) = (keyspace.clone(), CompactionReason::Deletions);
            let chosen = ChosenCompaction { keyspace, levels, pick, reason };
            read += self.compact(runtime, &chosen)?.bytes_read;
        }
    }

    pub(super) fn compact(
        &self,
        runtime: &Runtime,
        chosen: &ChosenCompaction,
    ) -> JobResult<CompactionReport> {
        let ChosenCompaction { keyspace, levels, pick, reason } = chosen;
        let seen = runtime.snapshots.seen();
        self.check_fits(chosen, &seen)?;
        let (name, level) = (&keyspace.name, pick.level);
        let span = tracing::info_span!(target: "cleavedb", "compaction", keyspace = name, level);
        let _span = span.entered();
        let bytes = pick.bytes();
        runtime.emit(Event::CompactionBegun { keyspace: name.clone(), level, bytes });
        let begun = runtime.env.clock.now();
        let report = match reason {
            CompactionReason::Reorganization => {
                reorganize::run(runtime, keyspace, levels, pick, seen)?
            }
            CompactionReason::Conversion => {
                let most_bytes = self.committer.log().segment_bytes();
                convert::run(runtime, keyspace, levels, pick, seen, most_bytes)?
            }
            CompactionReason::ScanOrder(moves) => {
                self.put_in_order(runtime, chosen, *moves, seen)?
            }
            // A closing session does not take longer than it must, and value GC rests by then.
            CompactionReason::Deletions => job::run(runtime, keyspace, levels, pick, seen, None)?,
            _ => {
                let (account, out) = (self.collector.room().account(), self.room_to_move(pick));
                let segment_bytes = self.committer.log().segment_bytes();
                let take_in = || account.take(out.min(segment_bytes));
                let room = HomingRoom { out, take_in: &take_in, segment_bytes };
                job::run(runtime, keyspace, levels, pick, seen, Some(room))?
            }
        };
        let took = runtime.env.clock.since(begun);
        runtime.counters.latencies.compaction.add(took);
        runtime.emit(Event::CompactionEnded {
            keyspace: name.clone(),
            level,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written + report.values_written,
            moved: report.moved,
            took,
        });
        if report.moved {
            runtime.counters.trivial_moves.add(1);
            return Ok(report);
        }
        let counters = &runtime.counters;
        counters.compactions.add(1);
        counters.early_compactions.add(u64::from(*reason == CompactionReason::Early));
        counters.compaction_bytes_read.add(report.bytes_read);
        counters.compaction_bytes_written.add(report.bytes_written + report.values_written);
        counters.entries_dropped.add(report.dropped);
        counters.superseded_entries_dropped.add(report.superseded);
        counters.superseded_bytes_dropped.add(report.superseded_bytes);
        counters.entries_filtered.add(report.filter.asked);
        counters.filtered_entries_dropped.add(report.filter.dropped);
        counters.filtered_entries_changed.add(report.filter.changed);
        Ok(report)
    }

    /// Returns how many bytes of values a compaction may move beside the tables that it writes.
    fn room_to_move(&self, pick: &Pick) -> u64 {
        // I9: what is not urgent leaves the last space to others.
        let is_low = self.committer.stall_controller().reserve.is_low();
        if is_low { 0 } else { self.committer.room_for_job().saturating_sub(pick.bytes()) }
    }

    /// Refuses a compaction whose output, with the values that it rewrites, may not fit on the disk
    /// (I9): half a compaction would fill the disk for nothing.
    fn check_fits(&self, chosen: &ChosenCompaction, seen: &SeenSeqnos) -> Result<()> {
        let ChosenCompaction { keyspace, levels, pick, reason } = chosen;
        let moves = pick.tables().map(convert::all_value_bytes).fold(0, u64::saturating_add);
        let values = match reason {
            CompactionReason::Reorganization => pick.value_bytes(),
            CompactionReason::Conversion => moves.min(self.committer.log().segment_bytes()),
            CompactionReason::ScanOrder(moves) => *moves,
            _ => 0,
        };
        let is_rewritten = match reason {
            CompactionReason::Reorganization | CompactionReason::Conversion => true,
            CompactionReason::ScanOrder(moves) => *moves > 0,
            _ => false,
        };
        if !is_rewritten && stale::unread(levels, pick, seen).is_some() {
            // What goes without being read needs no room.
            return Ok(());
        }
        let bytes = pick.bytes().saturating_add(values);
        let room = self.committer.room_for_job();
        if bytes <= room || pick.is_move(&keyspace.order, &keyspace.options()) {
            return Ok(());
        }
        let (bytes, room) = (sized(bytes), sized(room));
        let what = format!("compacting {bytes} does not fit into the {room} that jobs may fill");
        Err(Error::new(ErrorKind::DiskFull, what)
            .in_file(&self.runtime.set.tables().dir)
            .advise("free space on this file system; compaction then resumes"))
    }
}

//! Holds writers up by the rules in [`throttle`](crate::throttle) (I10), and ends their waits.
//!
//! Writers are held up before they join a commit group, so nobody waits while holding the log.
//! While the disk is full, background work cannot make room, so writers get that error instead of
//! waiting (I9).

use crate::base::error::{Error, Result};
use crate::base::pointer::KeyspaceId;
use crate::commit::pace::PaceMaker;
use crate::commit::reserve::Reserve;
use crate::commit::stall_events::OpenStalls;
use crate::env::clock::Clock;
use crate::env::sync::{Condvar, Mutex};
use crate::stats::{Counters, StallReason};
use crate::throttle::admit;
use crate::throttle::tree::{self, StallFacts, StallLimits, Verdict};
use crate::version::LogPosition;
use crate::version::health::Health;
use crate::version::view::{KeyspaceState, View};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Asks the rules whether a write goes on, is delayed, waits or is refused, and has it wait.
pub struct WriteStallController {
    limits: StallLimits,
    counters: Arc<Counters>,
    health: Arc<Health>,
    clock: Arc<dyn Clock>,
    /// Bytes of log written since the opening.
    pub log_bytes: AtomicU64,
    /// Those of them that were written while writers felt the delays for space.
    delayed_bytes: AtomicU64,
    /// The value of `log_bytes` at the oldest entry that is not in a table.
    pub head_bytes: AtomicU64,
    /// The number of full segments of the log that wait for their sync.
    pub unsynced: Arc<AtomicUsize>,
    /// The rule of the ceiling of space, which value GC sets.
    pub space: PaceMaker,
    /// The last space of the disk, which puts leave to others.
    pub reserve: Reserve,
    /// The stalls that were reported as begun.
    open_stalls: OpenStalls,
    /// The keyspaces whose writers wait for an ingest, and their number.
    gates: (AtomicUsize, Mutex<Vec<KeyspaceId>>),
    closed: Mutex<bool>,
    changed: Condvar,
}

/// While one of these lives, nobody is admitted to write to its keyspace.
pub struct IngestGate<'a> {
    controller: &'a WriteStallController,
    keyspace: KeyspaceId,
}

impl Drop for IngestGate<'_> {
    fn drop(&mut self) {
        let (count, closed) = &self.controller.gates;
        let mut closed = closed.lock();
        if let Some(index) = closed.iter().position(|id| *id == self.keyspace) {
            closed.swap_remove(index);
        }
        count.store(closed.len(), Ordering::SeqCst);
        drop(closed);
        self.controller.notify();
    }
}

impl WriteStallController {
    /// Creates a controller with these limits.
    pub fn new(
        limits: StallLimits,
        counters: Arc<Counters>,
        health: Arc<Health>,
        clock: Arc<dyn Clock>,
        reserve: Reserve,
    ) -> Self {
        limits.check();
        WriteStallController {
            counters,
            health,
            clock,
            log_bytes: AtomicU64::new(0),
            delayed_bytes: AtomicU64::new(0),
            head_bytes: AtomicU64::new(0),
            unsynced: Arc::default(),
            space: PaceMaker::new(limits.memtable_bytes),
            reserve,
            limits,
            open_stalls: OpenStalls::default(),
            gates: (AtomicUsize::new(0), Mutex::new(Vec::new())),
            closed: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// Emits an event if puts are refused since the last call, or accepted again. Requires: the
    /// caller holds no lock, because a listener is the user's code.
    #[inline]
    pub fn report_space(&self) {
        self.reserve.report(&*self.clock, &self.health.events);
    }

    /// Returns the number of tables in L0 from which on each write is delayed.
    pub fn level0_slow(&self) -> usize {
        self.limits.level0_slow
    }

    /// Returns the most bytes that a memtable gets, whatever its keyspace allows.
    pub fn most_memtable_bytes(&self) -> u64 {
        self.limits.memtable_bytes
    }

    /// Returns the number of tables in L0 at which writes wait.
    pub fn level0_stop(&self) -> usize {
        self.limits.level0_full
    }

    /// Returns once a write of `bytes` bytes to `keyspaces` may go on, or an error if it never may.
    /// While nobody is held up, this costs a few loads for each keyspace.
    #[inline]
    pub fn admit<'a>(
        &self,
        keyspaces: impl Iterator<Item = &'a Arc<KeyspaceState>>,
        bytes: u64,
        only_deletes: impl FnOnce() -> bool,
    ) -> Result<()> {
        let through_tree = || {
            for keyspace in keyspaces {
                keyspace.check()?;
                self.admit_to(keyspace)?;
            }
            Ok(())
        };
        admit(|| self.leave_reserve(only_deletes), through_tree, || self.pace(bytes))
    }

    /// Refuses a write that has to leave the last space of the disk to others (I9). Costs one load
    /// while there is enough space.
    #[inline]
    fn leave_reserve(&self, only_deletes: impl FnOnce() -> bool) -> Result<()> {
        if !self.reserve.is_low() {
            return Ok(());
        }
        let admitted = self.reserve.admit(only_deletes());
        self.counters.writes_refused_for_space.add(u64::from(admitted.is_err()));
        admitted
    }

    /// Returns once the tree and the log let a writer to `keyspace` go on, or an error if they
    /// never will.
    #[inline]
    fn admit_to(&self, keyspace: &KeyspaceState) -> Result<()> {
        self.health.check()?;
        if self.gates.0.load(Ordering::SeqCst) > 0 {
            self.pass_gates(keyspace)?;
        }
        match self.judge(&keyspace.peek()) {
            Verdict::Go => self.end_stalls(&tree::REASONS),
            Verdict::Delay(time) => self.delay(time),
            Verdict::Wait(_) => self.wait(keyspace)?,
        }
        Ok(())
    }

    fn judge(&self, view: &View) -> Verdict {
        self.limits.judge(StallFacts {
            immutables: view.immutables.len(),
            level0: view.levels.level0_runs().len(),
            backlog: self.backlog(),
            unsynced: self.unsynced.load(Ordering::Relaxed),
        })
    }

    /// Returns the bytes of log that recovery would have to replay now.
    pub fn backlog(&self) -> u64 {
        let head = self.head_bytes.load(Ordering::Relaxed);
        self.log_bytes.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// Returns true if recovery would have to replay half of what it may, so that the head of the
    /// log has to move on.
    pub fn is_replay_long(&self) -> bool {
        self.backlog() >= self.limits.replay_bytes / 2
    }

    /// Returns true if the log between two places is so much that its head has to move on: a whole
    /// segment, which goes then if nothing in it is live, or half of what recovery may replay. The
    /// backlog does not tell that of the head in the manifest, which a drop of a keyspace leaves
    /// where it is.
    pub fn is_far(&self, from: LogPosition, to: LogPosition) -> bool {
        let within = to.offset.saturating_sub(from.offset);
        to.segment > from.segment
            || to.segment == from.segment && within >= self.limits.replay_bytes / 2
    }

    /// Returns the bytes of log that are written before writers are delayed for space; 0 if they
    /// are delayed now.
    pub fn bytes_until_delays(&self) -> u64 {
        self.space.bytes_until_delays(self.log_bytes.load(Ordering::Relaxed))
    }

    /// Returns the bytes of log that were written while writers felt the delays for space, and all
    /// that were written, since the opening.
    pub fn delayed_and_logged(&self) -> (u64, u64) {
        (self.delayed_bytes.load(Ordering::Relaxed), self.log_bytes.load(Ordering::Relaxed))
    }

    /// Counts what a commit has written to the log.
    #[inline]
    pub fn note_logged(&self, bytes: u64) {
        let before = self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
        // The first check alone costs one load while nobody is delayed.
        if self.space.is_on(before) && self.space.get().is_felt(before) {
            self.delayed_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn begin_stall(&self, reason: StallReason) {
        self.open_stalls.begin(reason, &*self.clock, &self.health.events);
    }

    #[inline]
    fn end_stalls(&self, reasons: &[StallReason]) {
        self.open_stalls.end(reasons, &*self.clock, &self.health.events);
    }

    fn delay(&self, time: Duration) {
        self.begin_stall(StallReason::Level0Slow);
        let begun = self.clock.now();
        let guard = self.closed.lock();
        drop(self.changed.wait_timeout(guard, time));
        self.counters.stall(StallReason::Level0Slow, self.clock.since(begun));
    }

    /// Admits nobody to write to `keyspace` until the result is dropped. Writers that were admitted
    /// before may still be on the way to their commit.
    pub fn close_gate(&self, keyspace: KeyspaceId) -> IngestGate<'_> {
        let (count, closed) = &self.gates;
        let mut closed = closed.lock();
        closed.push(keyspace);
        count.store(closed.len(), Ordering::SeqCst);
        IngestGate { controller: self, keyspace }
    }

    /// Waits until no ingest keeps writers from `keyspace`, or an error ends the wait.
    #[cold]
    fn pass_gates(&self, keyspace: &KeyspaceState) -> Result<()> {
        let passed = self.wait_at_gates(keyspace);
        self.end_stalls(&[StallReason::Ingest]);
        passed
    }

    fn wait_at_gates(&self, keyspace: &KeyspaceState) -> Result<()> {
        let is_gated = || self.gates.1.lock().contains(&keyspace.id);
        while is_gated() {
            let begun = self.clock.now();
            self.health.check()?;
            keyspace.check()?;
            self.begin_stall(StallReason::Ingest);
            let closed = self.closed.lock();
            if *closed {
                return Err(Error::closed("the database was closed"));
            }
            drop(self.changed.wait_timeout(closed, tree::LOOK_AGAIN));
            self.counters.stall(StallReason::Ingest, self.clock.since(begun));
        }
        Ok(())
    }

    fn wait(&self, keyspace: &KeyspaceState) -> Result<()> {
        loop {
            let begun = self.clock.now();
            let Verdict::Wait(reason) = self.judge(&keyspace.peek()) else {
                self.end_stalls(&tree::REASONS);
                return Ok(());
            };
            // I9: waiting would not make room.
            if let Some(cause) = self.health.hindrance(keyspace.id, reason) {
                return Err(cause);
            }
            self.health.check()?;
            keyspace.check()?;
            let is_closed = || Err(Error::closed("the database was closed"));
            if *self.closed.lock() {
                return is_closed();
            }
            // The listener is called without the lock.
            self.begin_stall(reason);
            let closed = self.closed.lock();
            if *closed {
                return is_closed();
            }
            if matches!(self.judge(&keyspace.peek()), Verdict::Wait(_)) {
                drop(self.changed.wait_timeout(closed, tree::LOOK_AGAIN));
            }
            self.counters.stall(reason, self.clock.since(begun));
        }
    }

    /// Delays a commit of `bytes` bytes if space nears its ceiling; else costs a few loads.
    #[inline]
    fn pace(&self, bytes: u64) {
        let log_bytes = self.log_bytes.load(Ordering::Relaxed);
        if self.space.is_on(log_bytes) {
            self.keep_pace(bytes, log_bytes);
        } else {
            self.end_stalls(&[StallReason::Space]);
        }
    }

    #[cold]
    fn keep_pace(&self, bytes: u64, log_bytes: u64) {
        let Some(until) = self.space.place(bytes, log_bytes, &*self.clock) else {
            return;
        };
        self.begin_stall(StallReason::Space);
        let begun = self.clock.now();
        let mut closed = self.closed.lock();
        // Wake-ups are for other rules, unless this rule was switched off meanwhile.
        while !*closed && self.space.is_on(self.log_bytes.load(Ordering::Relaxed)) {
            let left = self.clock.left(until);
            let timed_out;
            (closed, timed_out) = self.changed.wait_timeout(closed, left);
            if timed_out || self.clock.now() >= until {
                break;
            }
        }
        drop(closed);
        self.counters.stall(StallReason::Space, self.clock.since(begun));
    }

    /// Wakes waiting writers, because a fact that a rule depends on may have changed.
    pub fn notify(&self) {
        let _closed = self.closed.lock();
        self.changed.notify_all();
    }

    /// Ends all waits because the database closes; waiting writers get an error.
    pub fn close(&self) {
        *self.closed.lock() = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;
    use crate::env::Env;
    use crate::events::{Event, EventListener, Events};
    use crate::throttle::ceiling::SpacePace;
    use crate::throttle::disk::DiskSpace;

    fn stall_controller(env: &Env) -> WriteStallController {
        let limits = StallLimits {
            immutables: 1,
            level0_slow: 1,
            level0_full: 1,
            replay_bytes: 1,
            unsynced: 1,
            memtable_bytes: u64::MAX,
        };
        WriteStallController::new(
            limits,
            Arc::default(),
            Arc::default(),
            env.clock.clone(),
            Reserve::new("db".into()),
        )
    }

    /// Returns a controller and what its listener is told.
    fn with_listener(env: &Env) -> (WriteStallController, Arc<ToldStalls>) {
        let told = Arc::new(ToldStalls::default());
        let mut stall_controller = stall_controller(env);
        let events = Arc::new(Events::new(Some(told.clone())));
        stall_controller.health = Arc::new(Health::new(events));
        (stall_controller, told)
    }

    /// Returns a pace that costs each byte this much from the beginning.
    fn steep(nanos_per_byte: f64) -> SpacePace {
        SpacePace { soft_bytes: -1, width_bytes: 1, nanos_per_byte, ..SpacePace::NONE }
    }

    /// Returns a disk of which 64 bytes are kept.
    fn disk(free: u64) -> DiskSpace {
        DiskSpace { free, base: 64, unflushed: 0, unmerged: 0 }
    }

    fn space_stalls(stall_controller: &WriteStallController) -> (u64, Duration) {
        let stall =
            stall_controller.counters.stalls().find(|(reason, ..)| *reason == StallReason::Space);
        stall.map(|(_, count, time)| (count, time)).unwrap()
    }

    #[test]
    fn i10_the_ceiling_of_space_delays_each_byte_and_counts_it() {
        let (env, simulation) = Env::simulated(1);
        simulation.run(|| {
            let stall_controller = stall_controller(&env);
            stall_controller.log_bytes.store(1500, Ordering::Relaxed);
            stall_controller.pace(1 << 20);
            assert_eq!(space_stalls(&stall_controller), (0, Duration::ZERO));
            let pace = SpacePace {
                soft_bytes: 1000,
                width_bytes: 1000,
                nanos_per_byte: 100.0,
                ..SpacePace::NONE
            };
            stall_controller.space.set(pace);
            let begun = env.clock.now();
            (0..1000).for_each(|_| stall_controller.pace(1000));
            let took = env.clock.since(begun);
            assert!(took >= Duration::from_millis(90) && took < Duration::from_millis(120));
            let (count, time) = space_stalls(&stall_controller);
            assert!(count >= 100 && time <= took && time >= took / 2, "{count} {time:?}");
            stall_controller.space.set(SpacePace::NONE);
            stall_controller.pace(1 << 20);
            assert_eq!(space_stalls(&stall_controller), (count, time));
        });
    }

    #[test]
    fn what_is_written_while_delays_are_felt_counts_as_delayed() {
        let (env, _simulation) = Env::simulated(1);
        let controller = stall_controller(&env);
        controller.note_logged(1 << 40);
        assert_eq!(controller.delayed_and_logged(), (0, 1 << 40), "nobody is delayed");
        controller.log_bytes.store(1000, Ordering::Relaxed);
        controller.space.set(SpacePace { soft_bytes: 1000, width_bytes: 1000, ..steep(100.0) });
        [1, 249, 10].into_iter().for_each(|bytes| controller.note_logged(bytes));
        let text = "the first 250 wait for a quarter of it at most";
        assert_eq!(controller.delayed_and_logged(), (10, 1260), "{text}");
        controller.note_logged(1000);
        assert_eq!(controller.delayed_and_logged(), (1010, 2260));
    }

    /// Guards that a put which is refused does not wait, or take a place in the queue, before.
    #[test]
    fn i09_a_write_that_is_refused_is_not_delayed_first() {
        let (env, simulation) = Env::simulated(4);
        simulation.run(|| {
            let stall_controller = stall_controller(&env);
            stall_controller.space.set(steep(1e6));
            stall_controller.reserve.note(disk(7));
            let admit = |only_deletes: bool| {
                stall_controller.admit(std::iter::empty(), 1 << 20, || only_deletes)
            };
            assert_eq!(admit(false).unwrap_err().kind(), ErrorKind::DiskFull);
            assert_eq!(space_stalls(&stall_controller).0, 0);
            assert_eq!(stall_controller.counters.writes_refused_for_space.get(), 1);
            stall_controller.reserve.note(disk(8));
            admit(true).unwrap();
            assert_eq!(space_stalls(&stall_controller).0, 1);
        });
    }

    /// What a listener was told of stalls and of low space.
    #[derive(Default)]
    struct ToldStalls(std::sync::Mutex<Vec<String>>);

    impl EventListener for ToldStalls {
        fn on_event(&self, event: &Event) {
            let text = match event {
                Event::StallBegun { reason } => format!("{} begun", reason.name()),
                Event::StallEnded { reason, took } => {
                    assert!(*took > Duration::ZERO);
                    format!("{} ended", reason.name())
                }
                Event::LowSpaceBegun { free_bytes, reserve_bytes } => {
                    format!("{free_bytes} free, {reserve_bytes} kept")
                }
                Event::LowSpaceEnded { free_bytes, took } => {
                    assert!(*took > Duration::ZERO);
                    format!("{free_bytes} free")
                }
                other => format!("{other:?}"),
            };
            self.0.lock().unwrap().push(text);
        }
    }

    /// Guards that a thousand delayed writes are reported as one stall, which ends with a write
    /// that is not delayed.
    #[test]
    fn i10_a_stall_is_told_of_once_when_it_begins_and_once_when_it_ends() {
        let (env, simulation) = Env::simulated(3);
        simulation.run(|| {
            let (stall_controller, told) = with_listener(&env);
            stall_controller.pace(1 << 20);
            for _ in 0..2 {
                stall_controller.space.set(steep(100.0));
                (0..1000).for_each(|_| stall_controller.pace(1000));
                stall_controller.space.set(SpacePace::NONE);
                (0..10).for_each(|_| stall_controller.pace(1000));
            }
            let once = ["space_ceiling begun", "space_ceiling ended"];
            assert_eq!(*told.0.lock().unwrap(), [once, once].concat());
        });
    }

    /// Guards that the refusal of puts is told of once, however often the disk is checked, and so
    /// is that they resume.
    #[test]
    fn i09_low_space_is_told_of_once_when_it_begins_and_once_when_it_ends() {
        let (env, simulation) = Env::simulated(5);
        simulation.run(|| {
            let (stall_controller, told) = with_listener(&env);
            for free in [64, 63, 60, 79, 80, 70, 64, 10] {
                stall_controller.reserve.note(disk(free));
                (0..10).for_each(|_| stall_controller.report_space());
            }
            let expected = ["63 free, 64 kept", "80 free", "10 free, 64 kept"];
            assert_eq!(*told.0.lock().unwrap(), expected);
        });
    }

    #[test]
    fn closing_ends_a_delay() {
        let (env, simulation) = Env::simulated(2);
        simulation.run(|| {
            let stall_controller = stall_controller(&env);
            stall_controller.close();
            stall_controller.space.set(steep(1e6));
            stall_controller.pace(1 << 20);
            // There is no wait; the simulated clock only advances with each reading.
            assert!(space_stalls(&stall_controller).1 < Duration::from_millis(2));
        });
    }
}

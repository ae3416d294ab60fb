//! A simulated world from a seed: a disk that loses power, threads that take turns, virtual time.
//!
//! ```
//! use cleavedb::env::Env;
//! use cleavedb::env::sim::Survivors;
//! use std::path::Path;
//!
//! let (env, simulation) = Env::simulated(42);
//! let file = env.fs.create(Path::new("a")).unwrap();
//! file.write_at(b"kept", 0).unwrap();
//! file.sync().unwrap();
//! env.fs.sync_dir(Path::new("")).unwrap();
//! file.write_at(b"lost", 4).unwrap();
//! let env = simulation.restart(Survivors::LoseAll);
//! assert_eq!(env.fs.open(Path::new("a")).unwrap().len().unwrap(), 4);
//! ```
//!
//! The disk also serves threads of the operating system, as in the example; the order of their
//! calls is then up to the system. In [`Simulation::run`] it depends on the seed alone. Locks:
//! those of the disk's state and of the scheduler are leaves, never held while a thread waits for
//! its turn.

mod content;
mod dice;
mod disk;
mod faults;
mod fs;
#[cfg(target_os = "linux")]
mod one_core;
pub(super) mod scheduler;
mod survivors;
#[cfg(test)]
mod tests;
mod threads;

pub use faults::{Call, FaultPlan};
pub use survivors::Survivors;

use super::Env;
use super::batch_read::OneByOne;
use super::fs::Hold;
use content::Content;
use dice::Dice;
use disk::{Disk, FileId, Name};
use faults::Faults;
#[cfg(target_os = "linux")]
use one_core::OneCore;
use scheduler::Scheduler;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The controls of the world behind an [`Env::simulated`]: it injects faults and shows the state.
#[derive(Clone)]
pub struct Simulation {
    seed: u64,
    scheduler: Arc<Scheduler>,
    state: Arc<Mutex<SimulationState>>,
}

/// The state that file system calls use.
struct SimulationState {
    disk: Disk,
    faults: Faults,
    capacity: Option<u64>,
    crashed: bool,
    /// The number of the current process; files of earlier processes only return errors.
    boot: u64,
    locks: BTreeMap<FileId, SimTaken>,
    dice: Dice,
}

/// A lock that is held.
struct SimTaken {
    hold: Hold,
    count: usize,
    /// The text of the latest holder.
    holder: String,
}

impl SimulationState {
    fn new(disk: Disk, seed: u64) -> SimulationState {
        SimulationState {
            disk,
            faults: Faults::default(),
            capacity: None,
            crashed: false,
            boot: 0,
            locks: BTreeMap::new(),
            dice: Dice::new(seed, 2),
        }
    }

    /// Returns the free space in bytes, if the capacity is limited.
    fn room(&self) -> Option<u64> {
        Some(self.capacity?.saturating_sub(self.disk.used()))
    }
}

impl Env {
    /// Creates a world that depends on the seed alone, with an empty disk.
    pub fn simulated(seed: u64) -> (Env, Simulation) {
        let simulation = Simulation::new(seed, Disk::default());
        (simulation.env(), simulation)
    }
}

impl Simulation {
    fn new(seed: u64, disk: Disk) -> Simulation {
        let state = Arc::new(Mutex::new(SimulationState::new(disk, seed)));
        Simulation { seed, scheduler: Scheduler::new(seed), state }
    }

    fn state(&self) -> MutexGuard<'_, SimulationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an Env for the current process.
    fn env(&self) -> Env {
        let (state, scheduler) = (Arc::clone(&self.state), Arc::clone(&self.scheduler));
        let boot = self.state().boot;
        Env {
            fs: Arc::new(fs::SimFs { state, scheduler, boot }),
            clock: Arc::new(threads::SimClock(Arc::clone(&self.scheduler))),
            threads: Arc::new(threads::SimThreads(Arc::clone(&self.scheduler))),
            random: Arc::new(threads::SimRandom(Mutex::new(Dice::new(self.seed, 3 + boot)))),
            reader: Arc::new(OneByOne::default()),
            sockets: None,
            memory_limit: None,
            planted: Default::default(),
        }
    }

    /// Runs `work` as the first thread of a simulation, and then until all threads that it started
    /// have ended. A panic of a thread that nobody joined makes this call panic.
    pub fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        #[cfg(target_os = "linux")]
        let _core = OneCore::take();
        let seat = self.scheduler.enter();
        let result = catch_unwind(AssertUnwindSafe(|| {
            let result = work();
            let panics = seat.wait_for_all();
            assert!(panics.is_empty(), "threads panicked: {}", panics.join("; "));
            result
        }));
        seat.leave();
        result.unwrap_or_else(|panic| {
            eprintln!("failed in the simulation with seed {}: {}", self.seed, self.trace());
            resume_unwind(panic)
        })
    }

    /// Returns the seed, which repeats the whole run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns a summary of the steps of the threads of [`Simulation::run`]: number and fingerprint
    /// of all steps, and the last ones. It is equal for equal seeds.
    pub fn trace(&self) -> String {
        self.scheduler.trace()
    }

    /// Sets the number of steps after which a run fails, as it seems to have no end.
    pub fn limit_steps(&self, limit: u64) {
        self.scheduler.limit_steps(limit);
    }

    /// Moves the clock forward by `time`.
    pub fn advance(&self, time: Duration) {
        self.scheduler.advance(time);
    }

    /// Steps the wall clock by this many milliseconds, forward or back; the other clock goes on as
    /// before. It stays so over restarts.
    pub fn step_wall(&self, millis: i64) {
        self.scheduler.step_wall(millis);
    }

    /// Returns the number of calls since the start or the last restart that changed the disk or
    /// synced it.
    pub fn mutations(&self) -> u64 {
        self.state().faults.mutations()
    }

    /// Plans a power failure during the changing or syncing call with this number, as counted by
    /// [`Simulation::mutations`]. The call's change has happened, but like all unsynced changes it
    /// may survive or not. It and all later calls fail until [`Simulation::restart`].
    pub fn crash_at(&self, mutation: u64) {
        self.state().faults.crash_at(mutation);
    }

    /// Makes the power fail now.
    pub fn crash(&self) {
        self.state().crashed = true;
    }

    /// Returns true from a power failure until the restart.
    pub fn crashed(&self) -> bool {
        self.state().crashed
    }

    /// Returns the number of operations that a power failure could lose now.
    pub fn unsynced(&self) -> usize {
        survivors::unsynced(&self.state().disk)
    }

    /// Ends the process, with or without a power failure before, and starts another on what
    /// survived. Files and locks of the old process only return errors, counts start again, planned
    /// faults are dropped, and the capacity stays.
    pub fn restart(&self, survivors: Survivors) -> Env {
        let mut state = self.state();
        let SimulationState { disk, dice, .. } = &mut *state;
        survivors::survive(disk, survivors, dice);
        state.faults = Faults::default();
        state.locks.clear();
        state.crashed = false;
        state.boot += 1;
        drop(state);
        self.env()
    }

    /// Returns what [`Simulation::restart`] would give, as a separate world with its own seed; this
    /// one stays as it is. Used to try many survivors of one crash. Not for use in a run.
    pub fn surviving(&self, survivors: Survivors, seed: u64) -> (Env, Simulation) {
        let state = self.state();
        let other = Simulation::new(seed, state.disk.clone());
        other.state().capacity = state.capacity;
        drop(state);
        (other.restart(survivors), other)
    }

    /// Adds a plan by which calls fail from now on.
    pub fn fail(&self, plan: FaultPlan) {
        self.state().faults.plan(plan);
    }

    /// Drops all planned faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Returns the number of calls of this kind since the start or the last restart.
    pub fn calls(&self, call: Call) -> u64 {
        self.state().faults.calls(call)
    }

    /// Returns the number of calls of all kinds since the start or the last restart.
    pub fn all_calls(&self) -> u64 {
        self.state().faults.all_calls()
    }

    /// Sets the size of the disk in bytes; with `None` it never fills up. Used space is counted in
    /// pages of 4 KiB of all files that have a name or are open.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Returns the used bytes of the disk.
    pub fn used(&self) -> u64 {
        self.state().disk.used()
    }

    /// Returns the number of files that were removed while still open. Each is a leak once nobody
    /// reads any more.
    pub fn open_but_removed(&self) -> usize {
        self.state().disk.open_but_removed()
    }

    /// Returns the paths of all files, sorted.
    pub fn files(&self) -> Vec<PathBuf> {
        let state = self.state();
        let names = state.disk.live_names.iter();
        names.filter(|(_, name)| **name != Name::Directory).map(|(path, _)| path.clone()).collect()
    }

    /// Returns a file's bytes, ignoring all faults. Panics if there is no such file.
    pub fn read_file(&self, path: impl AsRef<Path>) -> Vec<u8> {
        let mut state = self.state();
        let file = find(&state.disk, path.as_ref());
        state.disk.file(file).live.to_bytes()
    }

    /// Changes a file's bytes on disk and in the page cache, without a call of the file system.
    /// Panics if there is no such file.
    pub fn corrupt(&self, path: impl AsRef<Path>, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let file = find(&state.disk, path.as_ref());
        let file = state.disk.file(file);
        let mut bytes = file.live.to_bytes();
        change(&mut bytes);
        file.live = Content::from_bytes(&bytes);
        file.durable = file.live.clone();
        file.unsynced.clear();
    }
}

fn find(disk: &Disk, path: &Path) -> FileId {
    let found = disk.find(&disk::tidy(path));
    found.unwrap_or_else(|error| panic!("no file {} to look into: {error}", path.display()))
}

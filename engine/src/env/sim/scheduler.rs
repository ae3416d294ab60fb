//! The scheduler of a simulation: it draws from a seed which thread runs when.
//!
//! The threads of a simulation are real ones, but only the one that has the turn runs. It passes
//! the turn on at each point where the order of threads can matter: a call of the file system, a
//! lock (always if it is held, sometimes if it is free), a wait, a thread's start and end. The next
//! thread is drawn among those that can run, so a run depends on the seed alone.
//!
//! Time is virtual: a step takes a microsecond, and when all threads wait, the clock jumps to the
//! first deadline. If there is none, the threads wait for each other: the simulation fails and
//! reports what each one waits for and where. Each reading of the clock moves it by a random time,
//! because a real clock also moves between two readings, now and then by much, when a thread loses
//! its processor in between. One lock guards everything here; it is a leaf.

use super::dice::Dice;
use crate::env::turn::Awaited;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write;
use std::panic::Location;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The duration of a step.
const STEP: Duration = Duration::from_micros(1);
/// A usual reading of the clock takes less than this many nanoseconds.
const READING: usize = 100;
/// One reading of the clock in this many is a long one.
const LONG_READING_ONE_IN: usize = 64;
/// A long reading of the clock takes less than this many nanoseconds.
const LONG_READING: usize = 1_000_000;
/// The number of steps after which a simulation fails, as it seems to have no end.
const DEFAULT_STEP_LIMIT: u64 = 20_000_000;
/// The number of last steps that a report shows.
const RECENT_STEPS: usize = 40;
/// The turn is passed on at one in this many free locks.
const PASS_AT_FREE_LOCK: usize = 8;
/// The strides of runs: in each run threads pass the turn on at one in this many points.
const STRIDES: [usize; 3] = [1, 3, 16];
/// The id of the thread that called `Simulation::run`.
const FIRST: usize = 0;
/// The purpose number of the clock's dice. 1 and 2 are the scheduler's and the disk's; 3 and above
/// are for the random numbers of processes.
const CLOCK_DICE: u64 = 0;

pub(in crate::env) struct Scheduler {
    seed: u64,
    state: Mutex<SchedulerState>,
}

struct SchedulerState {
    dice: Dice,
    /// Dice for readings of the clock. They are separate, so that one more reading in some code
    /// does not change which thread comes next.
    clock_dice: Dice,
    /// The turn is passed on at one in this many points.
    stride: usize,
    now: Duration,
    /// The milliseconds by which the wall clock was stepped in all.
    wall_step: i64,
    steps: u64,
    step_limit: u64,
    threads: Vec<Thread>,
    running: usize,
    /// The reason why the simulation failed, if it did.
    failure: Option<String>,
    /// A hash of all steps.
    fingerprint: u64,
    recent: VecDeque<(usize, &'static str)>,
}

struct Thread {
    name: String,
    phase: Phase,
    timed_out: bool,
    turn: Arc<Condvar>,
    system: Option<JoinHandle<()>>,
    /// The text of the thread's panic, until `join` takes it.
    panic: Option<String>,
}

#[derive(Clone, Copy)]
enum Phase {
    Ready,
    Waiting { on: Awaited, until: Option<Duration>, place: &'static Location<'static> },
    Ended,
}

thread_local! {
    static SEAT: RefCell<Option<Seat>> = const { RefCell::new(None) };
}

/// Returns the calling thread's place in a simulation, if it has one.
pub(in crate::env) fn seat() -> Option<Seat> {
    SEAT.try_with(|seat| seat.borrow().clone()).ok().flatten()
}

/// A thread's place in a simulation.
#[derive(Clone)]
pub(in crate::env) struct Seat {
    scheduler: Arc<Scheduler>,
    id: usize,
}

impl Scheduler {
    pub(super) fn new(seed: u64) -> Arc<Scheduler> {
        let mut dice = Dice::new(seed, 1);
        let state = SchedulerState {
            stride: STRIDES[dice.below(STRIDES.len())],
            dice,
            clock_dice: Dice::new(seed, CLOCK_DICE),
            now: Duration::ZERO,
            wall_step: 0,
            steps: 0,
            step_limit: DEFAULT_STEP_LIMIT,
            threads: Vec::new(),
            running: FIRST,
            failure: None,
            fingerprint: 0,
            recent: VecDeque::new(),
        };
        Arc::new(Scheduler { seed, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the clock, which moves it.
    pub(super) fn now(&self) -> Duration {
        let mut state = self.lock();
        let is_long = state.clock_dice.one_in(LONG_READING_ONE_IN);
        let nanos = state.clock_dice.below(if is_long { LONG_READING } else { READING });
        state.now += Duration::from_nanos(nanos as u64);
        state.now
    }

    /// Reads the wall clock, which began at `beginning`; it shows 1970 for all times before.
    pub(super) fn wall(&self, beginning: Duration) -> Duration {
        let now = beginning + self.now();
        let step = self.lock().wall_step;
        let size = Duration::from_millis(step.unsigned_abs());
        if step < 0 { now.saturating_sub(size) } else { now + size }
    }

    /// Steps the wall clock, forward or back.
    pub(super) fn step_wall(&self, millis: i64) {
        self.lock().wall_step += millis;
    }

    pub(super) fn advance(&self, time: Duration) {
        self.lock().now += time;
    }

    pub(super) fn limit_steps(&self, limit: u64) {
        self.lock().step_limit = limit;
    }

    /// Returns a summary of all steps, which is equal for equal runs.
    pub(super) fn trace(&self) -> String {
        let state = self.lock();
        format!("{} steps, fingerprint {:016x}:{}", state.steps, state.fingerprint, state.history())
    }

    /// Advances the clock by one step, for a thread that takes no turns.
    pub(super) fn tick(&self) {
        self.advance(STEP);
    }

    /// Makes the calling thread the first of a run.
    pub(super) fn enter(self: &Arc<Self>) -> Seat {
        assert!(seat().is_none(), "this thread takes part in a simulation already");
        let mut state = self.lock();
        assert!(state.threads.is_empty(), "this simulation is running already");
        state.threads.push(Thread::new("first"));
        state.running = FIRST;
        drop(state);
        let seat = Seat { scheduler: Arc::clone(self), id: FIRST };
        SEAT.set(Some(seat.clone()));
        seat
    }
}

impl Thread {
    fn new(name: &str) -> Thread {
        Thread {
            name: name.to_owned(),
            phase: Phase::Ready,
            timed_out: false,
            turn: Arc::default(),
            system: None,
            panic: None,
        }
    }
}

impl Seat {
    /// Marks a point where other threads may run.
    pub(in crate::env) fn pass(&self, point: &'static str) {
        let mut state = self.scheduler.lock();
        let stride = state.stride;
        if state.failure.is_some() || !state.dice.one_in(stride) {
            return state.step(self.id, point);
        }
        drop(self.hand_on(state, point));
    }

    /// Marks a free lock, which is sometimes a point where other threads may run.
    pub(in crate::env) fn pass_at_lock(&self) {
        let mut state = self.scheduler.lock();
        if state.failure.is_none() && state.dice.one_in(PASS_AT_FREE_LOCK) {
            drop(self.hand_on(state, "lock"));
        }
    }

    /// Waits until woken or until `time` is over; returns true if it was over.
    #[track_caller]
    pub(in crate::env) fn wait(&self, on: Awaited, time: Option<Duration>) -> bool {
        let mut state = self.scheduler.lock();
        let until = time.map(|time| state.now.saturating_add(time));
        let thread = &mut state.threads[self.id];
        thread.phase = Phase::Waiting { on, until, place: Location::caller() };
        thread.timed_out = false;
        let state = self.hand_on(state, on.point());
        state.threads[self.id].timed_out
    }

    /// Wakes one thread that waits for `on`; it is drawn, as real systems may wake any.
    pub(in crate::env) fn wake_one(&self, on: Awaited) {
        let mut state = self.scheduler.lock();
        let waiting: Vec<usize> = state.waiting_for(on).collect();
        if !waiting.is_empty() {
            let chosen = waiting[state.dice.below(waiting.len())];
            state.threads[chosen].phase = Phase::Ready;
        }
    }

    /// Wakes all threads that wait for `on`.
    pub(in crate::env) fn wake_all(&self, on: Awaited) {
        let mut state = self.scheduler.lock();
        let waiting: Vec<usize> = state.waiting_for(on).collect();
        waiting.into_iter().for_each(|id| state.threads[id].phase = Phase::Ready);
    }

    /// Starts a thread; it runs when its turn comes.
    pub(super) fn spawn(
        &self,
        name: &str,
        work: Box<dyn FnOnce() + Send>,
    ) -> std::io::Result<Seat> {
        let mut state = self.scheduler.lock();
        let id = state.threads.len();
        state.threads.push(Thread::new(name));
        let seat = Seat { scheduler: Arc::clone(&self.scheduler), id };
        let theirs = seat.clone();
        let builder = std::thread::Builder::new().name(name.to_owned());
        match builder.spawn(move || theirs.live(work)) {
            Ok(system) => state.threads[id].system = Some(system),
            Err(error) => {
                state.threads[id].phase = Phase::Ended;
                return Err(error);
            }
        }
        drop(state);
        self.pass("spawn");
        Ok(seat)
    }

    /// Runs a spawned thread from its first turn to its end.
    fn live(self, work: Box<dyn FnOnce() + Send>) {
        drop(self.await_turn(self.scheduler.lock()));
        SEAT.set(Some(self.clone()));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        SEAT.set(None);
        let mut state = self.scheduler.lock();
        let thread = &mut state.threads[self.id];
        thread.phase = Phase::Ended;
        thread.panic = result.err().map(|panic| crate::env::threads::panic_text(&*panic));
        let waiting: Vec<usize> = state.waiting_for(Awaited::Thread(self.id)).collect();
        waiting.into_iter().for_each(|id| state.threads[id].phase = Phase::Ready);
        state.step(self.id, "end");
        state.choose(self.scheduler.seed);
    }

    /// Waits on behalf of the thread of `waiting` until the thread of this seat ends.
    pub(super) fn join(&self, waiting: &Seat) -> Result<(), String> {
        assert_ne!(self.id, waiting.id, "no thread waits for its own end");
        loop {
            let mut state = self.scheduler.lock();
            let thread = &mut state.threads[self.id];
            if matches!(thread.phase, Phase::Ended) {
                let (system, panic) = (thread.system.take(), thread.panic.take());
                drop(state);
                // The system's own work at a thread's end must be over before any thread goes on.
                if let Some(system) = system {
                    let _ = system.join();
                }
                return panic.map_or(Ok(()), Err);
            }
            if state.failure.is_some() {
                return Err("the simulation failed before the thread ended".to_owned());
            }
            drop(state);
            waiting.wait(Awaited::Thread(self.id), None);
        }
    }

    /// Ends a run: waits for all threads that were started in it. Returns the texts of panics that
    /// nobody has joined.
    pub(super) fn wait_for_all(&self) -> Vec<String> {
        let mut panics = Vec::new();
        let mut id = FIRST + 1;
        while id < self.scheduler.lock().threads.len() {
            let seat = Seat { scheduler: Arc::clone(&self.scheduler), id };
            panics.extend(seat.join(self).err());
            id += 1;
        }
        panics
    }

    /// Leaves the run. After a failure other threads may be left over; they never run again.
    pub(super) fn leave(self) {
        assert_eq!(self.id, FIRST, "a run is left by the thread that began it");
        SEAT.set(None);
        let mut state = self.scheduler.lock();
        if state.threads.iter().skip(1).all(|thread| matches!(thread.phase, Phase::Ended)) {
            state.threads.clear();
        }
    }

    /// Lets the scheduler choose which thread runs, and waits until it is this one again.
    fn hand_on<'a>(
        &'a self,
        mut state: MutexGuard<'a, SchedulerState>,
        point: &'static str,
    ) -> MutexGuard<'a, SchedulerState> {
        state.step(self.id, point);
        state.choose(self.scheduler.seed);
        let state = self.await_turn(state);
        if let Some(failure) = state.failure.clone() {
            drop(state);
            fail(&failure);
        }
        state
    }

    fn await_turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, SchedulerState>,
    ) -> MutexGuard<'a, SchedulerState> {
        let turn = Arc::clone(&state.threads[self.id].turn);
        while state.running != self.id {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

/// Fails the first thread, and with it the test.
fn fail(failure: &str) -> ! {
    if std::thread::panicking() {
        // The thread is already panicking, and a destructor waits for what can never come.
        eprintln!("{failure}");
        std::process::abort();
    }
    panic!("{failure}");
}

impl SchedulerState {
    fn waiting_for(&self, wanted: Awaited) -> impl Iterator<Item = usize> + '_ {
        let waits =
            move |phase: &Phase| matches!(phase, Phase::Waiting { on, .. } if *on == wanted);
        (0..self.threads.len()).filter(move |&id| waits(&self.threads[id].phase))
    }

    fn step(&mut self, id: usize, point: &'static str) {
        assert_eq!(self.running, id, "only the thread that has the turn runs");
        self.steps += 1;
        self.now += STEP;
        let text = point.bytes().fold(self.fingerprint ^ id as u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.fingerprint = text.rotate_left(5);
        if self.recent.len() == RECENT_STEPS {
            self.recent.pop_front();
        }
        self.recent.push_back((id, point));
    }

    /// Gives the turn to a thread that can run. If there is none, or the step limit is exceeded,
    /// the simulation fails in its first thread.
    fn choose(&mut self, seed: u64) {
        if self.failure.is_none() && self.steps > self.step_limit {
            self.failure = Some(self.report(seed, "does not end"));
        }
        let next = match self.next() {
            Some(next) if self.failure.is_none() => next,
            _ => {
                if self.failure.is_none() {
                    self.failure = Some(self.report(seed, "is stuck"));
                }
                FIRST
            }
        };
        assert!(
            self.failure.is_some() || matches!(self.threads[next].phase, Phase::Ready),
            "the turn goes to a thread that can run"
        );
        self.running = next;
        self.threads[next].turn.notify_one();
    }

    fn next(&mut self) -> Option<usize> {
        self.wake_due();
        let mut ready = self.ready();
        if ready.is_empty() {
            let first = self.threads.iter().filter_map(Thread::deadline).min()?;
            assert!(first > self.now, "the clock never goes back");
            self.now = first;
            self.wake_due();
            ready = self.ready();
        }
        Some(ready[self.dice.below(ready.len())])
    }

    fn ready(&self) -> Vec<usize> {
        let ready = |id: &usize| matches!(self.threads[*id].phase, Phase::Ready);
        (0..self.threads.len()).filter(ready).collect()
    }

    fn wake_due(&mut self) {
        let now = self.now;
        for thread in &mut self.threads {
            if thread.deadline().is_some_and(|deadline| deadline <= now) {
                thread.phase = Phase::Ready;
                thread.timed_out = true;
            }
        }
    }

    fn report(&self, seed: u64, what: &str) -> String {
        let (steps, now) = (self.steps, self.now);
        let mut text = format!("the simulation with seed {seed} {what}, {steps} steps, {now:?}");
        for (id, thread) in self.threads.iter().enumerate() {
            let name = &thread.name;
            let _ = match thread.phase {
                Phase::Ready => write!(text, "\n  thread {id} ({name}) can run"),
                Phase::Ended => match &thread.panic {
                    Some(panic) => write!(text, "\n  thread {id} ({name}) panicked: {panic}"),
                    None => Ok(()),
                },
                Phase::Waiting { on, place, .. } => {
                    write!(text, "\n  thread {id} ({name}) waits for {on} at {place}")
                }
            };
        }
        let _ = write!(text, "\n  last steps:{}", self.history());
        text
    }

    fn history(&self) -> String {
        self.recent.iter().fold(String::new(), |text, (id, point)| format!("{text} {id}:{point}"))
    }
}

impl Thread {
    fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Waiting { until, .. } => until,
            Phase::Ready | Phase::Ended => None,
        }
    }
}

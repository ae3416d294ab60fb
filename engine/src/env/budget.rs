//! The I/O budget that background work shares, so that it gives way to the foreground.
//!
//! Background work reports the bytes it has written, about every MiB, and waits here if that was
//! too fast by the rule in `throttle/reads.rs`, which says what limits there are. The budget keeps
//! what the rule needs to know: how long reads took, and who has spent how much.
//!
//! Locks: `state` is never held while waiting, during I/O, or while an event is emitted.

use super::begin_and_end::BeginAndEnd;
use super::clock::Clock;
use super::sync::{Condvar, Mutex};
use crate::events::{Event, Events};
use crate::throttle::reads::{
    BackgroundRate, BudgetLanes, IoPriority, LEAST_SAMPLES, Pressure, ReadLimit, ReadWindow,
    held_up_until, is_quiet,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// The budget of background writes.
pub struct Budget {
    clock: Arc<dyn Clock>,
    events: Arc<Events>,
    cap: Option<u64>,
    /// Times of reads in quiet, without background work.
    quiet: ReadTimes,
    busy: ReadTimes,
    /// The longest time, in nanoseconds, that one read counts as.
    outlier_nanos: AtomicU64,
    /// The time of the last spending, in nanoseconds.
    last_spent: AtomicU64,
    pressures: AtomicU8,
    /// Whether listeners know that background work is held up for reads.
    reported: BeginAndEnd,
    state: Mutex<BudgetState>,
    changed: Condvar,
}

/// The sum and the number of read times.
#[derive(Default)]
struct ReadTimes {
    nanos: AtomicU64,
    count: AtomicU64,
}

impl ReadTimes {
    fn add(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the mean of the samples and resets them, or `None` if there are fewer than
    /// `LEAST_SAMPLES`.
    fn take(&self) -> Option<f64> {
        let count = self.count.load(Ordering::Relaxed);
        if count < LEAST_SAMPLES {
            return None;
        }
        // A read that is added between the two stores is counted in one of them only: harmless.
        self.count.store(0, Ordering::Relaxed);
        Some(self.nanos.swap(0, Ordering::Relaxed) as f64 / count as f64)
    }
}

#[derive(Default)]
struct BudgetState {
    limit: ReadLimit,
    lanes: BudgetLanes,
    window_begun: Duration,
    window_spent: u64,
    closed: bool,
}

/// The outcome of a spending.
struct Charged {
    now: Duration,
    /// The moment until which the spender has to wait, if any.
    wait_until: Option<Duration>,
    /// The rate at which the spending was charged.
    rate: BackgroundRate,
    /// The time until which background work was held up, if it was before and is no longer.
    held_up_until: Duration,
}

impl Budget {
    /// Creates a budget whose only limit is `cap`, in bytes per second, if there is one.
    pub fn new(clock: Arc<dyn Clock>, events: Arc<Events>, cap: Option<u64>) -> Self {
        Budget {
            clock,
            events,
            cap,
            quiet: ReadTimes::default(),
            busy: ReadTimes::default(),
            outlier_nanos: AtomicU64::new(ReadLimit::default().outlier_nanos()),
            last_spent: AtomicU64::new(0),
            pressures: AtomicU8::new(0),
            reported: BeginAndEnd::default(),
            state: Mutex::new(BudgetState::default()),
            changed: Condvar::new(),
        }
    }

    /// Adds the time of a foreground read.
    pub fn note_read(&self, time: Duration) {
        let spent = Duration::from_nanos(self.last_spent.load(Ordering::Relaxed));
        let reads = if is_quiet(self.clock.since(spent)) { &self.quiet } else { &self.busy };
        reads.add(nanos(time).min(self.outlier_nanos.load(Ordering::Relaxed)));
    }

    /// Sets or clears a reason not to hold background work up.
    pub fn press(&self, by: Pressure, on: bool) {
        let before = match on {
            true => self.pressures.fetch_or(by as u8, Ordering::Relaxed),
            false => self.pressures.fetch_and(!(by as u8), Ordering::Relaxed),
        };
        if on && before == 0 {
            let _state = self.state.lock();
            self.changed.notify_all();
        }
    }

    /// Ends all waiting, for good.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Returns the limit in force, in bytes per second, if there is one.
    pub fn limit(&self) -> Option<u64> {
        self.rate(&self.state.lock()).bytes_per_second().map(|rate| rate as u64)
    }

    /// Reports that `bytes` were written; waits if that was too fast.
    pub fn spend(&self, priority: IoPriority, bytes: u64) {
        let charged = self.charge(priority, bytes);
        self.report(&charged);
        if let Some(until) = charged.wait_until {
            self.wait(until);
        }
    }

    /// Charges the bytes to the spender.
    fn charge(&self, priority: IoPriority, bytes: u64) -> Charged {
        let mut state = self.state.lock();
        let now = self.clock.now();
        self.look_at_reads(&mut state, now);
        let spent = Duration::from_nanos(self.last_spent.swap(nanos(now), Ordering::Relaxed));
        state.window_spent += bytes;
        let rate = self.rate(&state);
        let wait_until = state.lanes.charge(priority, bytes, rate, now);
        Charged { now, wait_until, rate, held_up_until: held_up_until(spent, now) }
    }

    /// Emits an event if background work is held up for reads since the last call, or no longer;
    /// otherwise costs one load.
    fn report(&self, charged: &Charged) {
        let mut rate = charged.rate;
        // Another thread may have changed the limit, or seen it changed, while an event was
        // emitted.
        while matches!(rate, BackgroundRate::ForReads(_)) != self.reported.is_open() {
            match rate {
                BackgroundRate::ForReads(limit) => {
                    let begun = || Event::IoLimitBegun { bytes_per_second: limit as u64 };
                    self.reported.begin(|| charged.now, &self.events, begun);
                }
                BackgroundRate::Unlimited | BackgroundRate::Capped(_) => {
                    let ended = |took| Event::IoLimitEnded { took };
                    self.reported.end(|| charged.held_up_until, &self.events, ended);
                }
            }
            rate = self.rate(&self.state.lock());
        }
    }

    fn wait(&self, until: Duration) {
        let mut state = self.state.lock();
        while !state.closed && self.rate(&state) != BackgroundRate::Unlimited {
            let left = self.clock.left(until);
            if left.is_zero() {
                return;
            }
            let timed_out;
            (state, timed_out) = self.changed.wait_timeout(state, left);
            if timed_out {
                return;
            }
        }
    }

    /// Returns how fast background work may write now.
    fn rate(&self, state: &BudgetState) -> BackgroundRate {
        state.limit.in_force(self.cap, self.pressures.load(Ordering::Relaxed) != 0)
    }

    /// Compares busy reads with quiet ones, once per window, and adapts the limit.
    fn look_at_reads(&self, state: &mut BudgetState, now: Duration) {
        let elapsed = now.saturating_sub(state.window_begun);
        if !ReadLimit::is_due(elapsed) {
            return;
        }
        if let Some(mean) = self.quiet.take() {
            state.limit.learn(mean);
        }
        self.outlier_nanos.store(state.limit.outlier_nanos(), Ordering::Relaxed);
        let (busy_nanos, spent) = (self.busy.take(), state.window_spent);
        if state.limit.judge(ReadWindow { elapsed, busy_nanos, spent }) {
            (state.window_begun, state.window_spent) = (now, 0);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;
    use crate::env::threads::Join;
    use crate::events::EventListener;
    use crate::throttle::reads::{LEAST_LIMIT, NOBODY};

    const MIB: u64 = 1 << 20;

    fn spender(env: &Env, budget: &Arc<Budget>, priority: IoPriority, mib: u64) -> Box<dyn Join> {
        let budget = budget.clone();
        let work = move || (0..mib).for_each(|_| budget.spend(priority, MIB));
        env.threads.spawn("spender", Box::new(work)).unwrap()
    }

    /// Runs `work` in virtual time and returns how long it took.
    fn timed(cap: Option<u64>, work: impl FnOnce(&Env, &Arc<Budget>)) -> Duration {
        let (env, simulation) = Env::simulated(7);
        simulation.run(|| {
            let budget = Arc::new(Budget::new(env.clock.clone(), Arc::default(), cap));
            let begun = env.clock.now();
            work(&env, &budget);
            env.clock.since(begun)
        })
    }

    fn spend(budget: &Budget, priority: IoPriority, mib: u64) {
        (0..mib).for_each(|_| budget.spend(priority, MIB));
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let took = timed(None, |_, budget| spend(budget, IoPriority::Compaction, 10_000));
        assert!(took < Duration::from_secs(1), "{took:?}");
    }

    #[test]
    fn a_cap_holds_for_all_but_flushes() {
        let took = timed(Some(10 * MIB), |_, budget| spend(budget, IoPriority::Compaction, 100));
        assert!(took.abs_diff(Duration::from_secs(10)) < Duration::from_secs(1), "{took:?}");
        let took = timed(Some(10 * MIB), |_, budget| spend(budget, IoPriority::Gc, 100));
        assert!(took.abs_diff(Duration::from_secs(10)) < Duration::from_secs(1), "{took:?}");
        let took = timed(Some(10 * MIB), |_, budget| spend(budget, IoPriority::Flush, 100));
        assert!(took < Duration::from_secs(1), "{took:?}");
    }

    #[test]
    fn gc_owns_a_quarter_and_gets_the_rest_when_compaction_rests() {
        let took = timed(Some(10 * MIB), |env, budget| {
            // GC gets a quarter and compaction three quarters: compaction ends first, after 40 s.
            let compaction = spender(env, budget, IoPriority::Compaction, 300);
            let gc = spender(env, budget, IoPriority::Gc, 200);
            compaction.join().unwrap();
            let now = env.clock.now();
            assert!(now.abs_diff(Duration::from_secs(40)) < Duration::from_secs(3), "{now:?}");
            gc.join().unwrap();
        });
        // GC has written 100 MiB by then and needs 10 s for the other 100 MiB.
        assert!(took.abs_diff(Duration::from_secs(50)) < Duration::from_secs(4), "{took:?}");
    }

    /// Runs a load for some seconds: reads that each take `read_micros`, and background work that
    /// tries to write `mib_per_second`.
    fn load(env: &Env, budget: &Arc<Budget>, read_micros: u64, mib_per_second: u64, seconds: u64) {
        let until = env.clock.now() + Duration::from_secs(seconds);
        let (reader, reads) = (env.clone(), budget.clone());
        let read = move || {
            while reader.clock.now() < until {
                reads.note_read(Duration::from_micros(read_micros));
                reader.threads.sleep(Duration::from_millis(4));
            }
        };
        let reader = env.threads.spawn("reader", Box::new(read)).unwrap();
        while env.clock.now() < until && mib_per_second > 0 {
            budget.spend(IoPriority::Compaction, MIB);
            env.threads.sleep(Duration::from_secs(1) / u32::try_from(mib_per_second).unwrap());
        }
        reader.join().unwrap();
    }

    #[test]
    fn slow_reads_hold_background_work_up_until_they_recover() {
        timed(None, |env, budget| {
            load(env, budget, 300, 1000, 2);
            assert_eq!(budget.limit(), None, "nothing to compare with");
            load(env, budget, 100, 0, 2);
            load(env, budget, 120, 1000, 2);
            assert_eq!(budget.limit(), None, "a little slower is fine");
            load(env, budget, 200, 1000, 1);
            let limit = budget.limit().unwrap();
            assert!(limit < 800 * MIB && limit >= LEAST_LIMIT as u64, "{limit}");
            load(env, budget, 110, 1000, 10);
            assert_eq!(budget.limit(), None, "recovered");
        });
    }

    #[test]
    fn reads_from_memory_are_no_measure_of_the_device() {
        timed(None, |env, budget| {
            load(env, budget, 5, 0, 2);
            load(env, budget, 24, 1000, 2);
            assert_eq!(budget.limit(), None);
        });
    }

    #[test]
    fn one_outlier_outweighs_nobody() {
        timed(None, |env, budget| {
            load(env, budget, 100, 0, 2);
            for _ in 0..20 {
                load(env, budget, 100, 1000, 1);
                budget.note_read(Duration::from_secs(1));
            }
            assert_eq!(budget.limit(), None);
        });
    }

    #[test]
    fn the_limit_has_a_floor_and_a_new_load_becomes_the_quiet() {
        timed(None, |env, budget| {
            load(env, budget, 100, 0, 1);
            load(env, budget, 200, 1000, 3);
            assert_eq!(budget.limit(), Some(LEAST_LIMIT as u64));
            load(env, budget, 200, 1000, 20);
            assert_eq!(budget.limit(), None, "200 µs is what reads take now");
        });
    }

    #[test]
    fn without_readers_there_is_nobody_to_give_way_to() {
        timed(None, |env, budget| {
            load(env, budget, 100, 0, 1);
            load(env, budget, 200, 1000, 1);
            assert!(budget.limit().is_some());
            env.threads.sleep(NOBODY);
            budget.spend(IoPriority::Compaction, MIB);
            assert_eq!(budget.limit(), None);
        });
    }

    #[test]
    fn pressure_lifts_the_limit_for_reads_and_not_the_cap() {
        let slowed = |env: &Env, budget: &Arc<Budget>| {
            load(env, budget, 100, 0, 1);
            load(env, budget, 200, 1000, 2);
        };
        timed(None, |env, budget| {
            slowed(env, budget);
            budget.press(Pressure::Space, true);
            budget.press(Pressure::Level0, true);
            assert_eq!(budget.limit(), None);
            budget.press(Pressure::Space, false);
            assert_eq!(budget.limit(), None);
            budget.press(Pressure::Level0, false);
            assert!(budget.limit().is_some());
        });
        timed(Some(20 * MIB), |env, budget| {
            slowed(env, budget);
            budget.press(Pressure::Space, true);
            assert_eq!(budget.limit(), Some(20 * MIB));
        });
    }

    /// What a listener was told of the limit for reads.
    #[derive(Default)]
    struct ToldLimits(std::sync::Mutex<Vec<&'static str>>);

    impl EventListener for ToldLimits {
        fn on_event(&self, event: &Event) {
            let text = match event {
                Event::IoLimitBegun { bytes_per_second } => {
                    assert!(*bytes_per_second >= LEAST_LIMIT as u64);
                    "begun"
                }
                Event::IoLimitEnded { took } => {
                    assert!(*took > Duration::from_millis(500), "{took:?}");
                    "ended"
                }
                _ => "other",
            };
            self.0.lock().unwrap().push(text);
        }
    }

    /// Guards that a limit which is adapted and waited for a thousand times is reported as one,
    /// and that it ends when reads recover and when writers need the device.
    #[test]
    fn a_limit_for_reads_is_told_of_once_when_it_begins_and_once_when_it_ends() {
        let (env, simulation) = Env::simulated(8);
        simulation.run(|| {
            let told = Arc::new(ToldLimits::default());
            let events = Arc::new(Events::new(Some(told.clone())));
            let budget = Arc::new(Budget::new(env.clock.clone(), events, None));
            load(&env, &budget, 100, 0, 2);
            load(&env, &budget, 120, 1000, 2);
            assert!(told.0.lock().unwrap().is_empty());
            load(&env, &budget, 200, 1000, 2);
            assert_eq!(*told.0.lock().unwrap(), ["begun"]);
            load(&env, &budget, 110, 1000, 10);
            assert_eq!(*told.0.lock().unwrap(), ["begun", "ended"]);
            load(&env, &budget, 300, 1000, 2);
            budget.press(Pressure::Space, true);
            spend(&budget, IoPriority::Flush, 1);
            spend(&budget, IoPriority::Gc, 1);
            assert_eq!(*told.0.lock().unwrap(), ["begun", "ended", "begun", "ended"]);
        });
    }

    /// A listener that takes its time.
    struct Slow(Env);

    impl EventListener for Slow {
        fn on_event(&self, _: &Event) {
            self.0.threads.sleep(Duration::from_secs(10));
        }
    }

    #[test]
    fn a_slow_listener_holds_up_only_the_thread_that_calls_it() {
        let (env, simulation) = Env::simulated(9);
        simulation.run(|| {
            let events = Arc::new(Events::new(Some(Arc::new(Slow(env.clone())))));
            let budget = Arc::new(Budget::new(env.clock.clone(), events, None));
            load(&env, &budget, 100, 0, 2);
            spend(&budget, IoPriority::Flush, 1);
            (0..20).for_each(|_| budget.note_read(Duration::from_micros(300)));
            env.threads.sleep(Duration::from_millis(150));
            let begun = env.clock.now();
            let calls_it = spender(&env, &budget, IoPriority::Gc, 1);
            env.threads.sleep(Duration::from_secs(1));
            spend(&budget, IoPriority::Flush, 1);
            assert!(env.clock.since(begun) < Duration::from_secs(2));
            calls_it.join().unwrap();
            assert!(env.clock.since(begun) >= Duration::from_secs(10), "it was called");
        });
    }

    #[test]
    fn closing_and_pressure_end_the_waiting() {
        for close in [true, false] {
            timed(None, |env, budget| {
                load(env, budget, 100, 0, 1);
                load(env, budget, 200, 1000, 2);
                let waiting = spender(env, budget, IoPriority::Gc, 1000);
                env.threads.sleep(Duration::from_millis(100));
                let begun = env.clock.now();
                if close {
                    budget.close()
                } else {
                    budget.press(Pressure::Space, true)
                }
                waiting.join().unwrap();
                let waited = env.clock.since(begun);
                assert!(waited < Duration::from_millis(10), "{waited:?}");
            });
        }
    }
}

//! Threads in a simulation: their order comes from the seed, time jumps, and endless waiting is
//! detected.

use super::durable;
use crate::env::Env;
use crate::env::sim::Simulation;
use crate::env::sync::{Condvar, Mutex};
use crate::env::threads::Join;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn spawn(env: &Env, name: &str, work: impl FnOnce() + Send + 'static) -> Box<dyn Join> {
    env.threads.spawn(name, Box::new(work)).unwrap()
}

/// Runs three threads that write, lock and wait; returns their order, the content and the trace.
fn contention(seed: u64) -> (Vec<u64>, Vec<u8>, String) {
    let (env, simulation) = Env::simulated(seed);
    let order = simulation.run(|| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let file = durable(&env, "a", b"");
        let threads: Vec<_> = (0..3)
            .map(|id| {
                let (file, order, worker) = (file.clone(), order.clone(), env.clone());
                spawn(&env, &format!("worker {id}"), move || {
                    for round in 0..10 {
                        file.write_at(&[id as u8], round * 3 + worker.random.next_u64() % 3)
                            .unwrap();
                        let mut order = order.lock();
                        worker.threads.yield_now();
                        order.push(id);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        std::mem::take(&mut *order.lock())
    });
    (order, simulation.read_file("a"), simulation.trace())
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let mut orders: Vec<Vec<u64>> = (0..20)
        .map(|seed| {
            let run = contention(seed);
            assert_eq!(run, contention(seed), "seed {seed}");
            assert_eq!(run.0.len(), 30);
            run.0
        })
        .collect();
    orders.sort_unstable();
    orders.dedup();
    assert!(orders.len() > 15, "other seeds give other orders: {}", orders.len());
}

#[test]
fn a_race_is_found() {
    let lost_update = |seed| {
        let (env, simulation) = Env::simulated(seed);
        simulation.run(|| {
            let count = Arc::new(Mutex::new(0));
            let threads: Vec<_> = (0..2)
                .map(|id| {
                    let count = count.clone();
                    spawn(&env, &id.to_string(), move || {
                        let read = *count.lock();
                        *count.lock() = read + 1;
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            *count.lock() == 1
        })
    };
    let found = (0..200).filter(|&seed| lost_update(seed)).count();
    assert!((1..200).contains(&found), "found by some seeds only: {found}");
}

#[test]
fn timeouts_pass_in_virtual_time() {
    let (env, simulation) = Env::simulated(5);
    simulation.run(|| {
        let start = env.clock.now();
        let (mutex, changed) = (Mutex::new(()), Condvar::new());
        let hour = Duration::from_secs(3600);
        let (guard, timed_out) = changed.wait_timeout(mutex.lock(), hour);
        drop(guard);
        assert!(timed_out);
        let passed = env.clock.now() - start;
        assert!(passed >= hour && passed < hour + Duration::from_secs(1), "{passed:?}");
        env.threads.sleep(hour);
        assert!(env.clock.now() - start >= 2 * hour);
        assert!(env.clock.wall() > env.clock.now());
    });
}

#[test]
fn whoever_is_notified_does_not_time_out() {
    for seed in 0..50 {
        let (env, simulation) = Env::simulated(seed);
        let start = env.clock.now();
        simulation.run(|| {
            let shared = Arc::new((Mutex::new(false), Condvar::new()));
            let other = shared.clone();
            spawn(&env, "notifier", move || {
                *other.0.lock() = true;
                other.1.notify_one();
            });
            let mut ready = shared.0.lock();
            while !*ready {
                let (again, timed_out) = shared.1.wait_timeout(ready, Duration::from_secs(60));
                assert!(!timed_out);
                ready = again;
            }
        });
        assert!(env.clock.now() - start < Duration::from_secs(1));
    }
}

#[test]
fn notify_one_wakes_one_and_notify_all_wakes_all() {
    for seed in 0..20 {
        let (env, simulation) = Env::simulated(seed);
        simulation.run(|| {
            let shared = Arc::new((Mutex::new((0, 0)), Condvar::new()));
            let wait = |name: &str| {
                let shared = shared.clone();
                spawn(&env, name, move || {
                    let mut guard = shared.0.lock();
                    guard.0 += 1;
                    guard = shared.1.wait(guard);
                    guard.1 += 1;
                })
            };
            let threads = ["a", "b", "c"].map(wait);
            while shared.0.lock().0 < 3 {
                env.threads.yield_now();
            }
            shared.1.notify_one();
            env.threads.sleep(Duration::from_secs(1));
            assert_eq!(shared.0.lock().1, 1);
            shared.1.notify_all();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(shared.0.lock().1, 3);
        });
    }
}

#[test]
fn a_lock_is_held_by_one_thread_at_a_time() {
    for seed in 0..20 {
        let (env, simulation) = Env::simulated(seed);
        simulation.run(|| {
            let lock = Arc::new(Mutex::new(0));
            let threads: Vec<_> = (0..3)
                .map(|id| {
                    let (lock, env2) = (lock.clone(), env.clone());
                    spawn(&env, &id.to_string(), move || {
                        for _ in 0..5 {
                            let mut value = lock.lock();
                            let before = *value;
                            env2.threads.yield_now();
                            *value = before + 1;
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(*lock.lock(), 15);
        });
    }
}

/// Returns the text with which a run fails.
fn failure<R>(simulation: &Simulation, work: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| simulation.run(work))).err();
    crate::env::threads::panic_text(&*panic.expect("the run fails"))
}

/// Runs two threads that take two locks in opposite order.
fn opposite_locks(seed: u64) -> Result<(), String> {
    let (env, simulation) = Env::simulated(seed);
    let work = || {
        let locks = Arc::new((Mutex::new(()), Mutex::new(())));
        let theirs = locks.clone();
        let thread = spawn(&env, "other", move || {
            let _second = theirs.1.lock();
            let _first = theirs.0.lock();
        });
        let first = locks.0.lock();
        env.threads.yield_now();
        drop((locks.1.lock(), first));
        thread.join().unwrap();
    };
    let result = catch_unwind(AssertUnwindSafe(|| simulation.run(work)));
    result.map_err(|panic| crate::env::threads::panic_text(&*panic))
}

#[test]
fn a_deadlock_is_found_and_explained() {
    let results: Vec<_> = (0..50).map(opposite_locks).collect();
    assert!(results.iter().any(Result::is_ok));
    let (seed, text) = results
        .into_iter()
        .enumerate()
        .find_map(|(seed, result)| Some((seed, result.err()?)))
        .unwrap();
    assert!(text.contains(&format!("seed {seed} is stuck")), "{text}");
    assert!(text.contains("thread 0 (first) waits for a lock at "), "{text}");
    assert!(text.contains("thread 1 (other) waits for a lock at "), "{text}");
    assert!(text.contains("sim/tests/scheduler.rs:"), "it says where: {text}");
}

#[test]
fn a_forgotten_wake_up_is_found() {
    let (env, simulation) = Env::simulated(3);
    let text = failure(&simulation, || {
        spawn(&env, "sleeper", || {
            let (mutex, changed) = (Mutex::new(()), Condvar::new());
            drop(changed.wait(mutex.lock()));
        });
    });
    assert!(text.contains("(sleeper) waits for a condition"), "{text}");
}

#[test]
fn a_run_without_end_is_found() {
    let (env, simulation) = Env::simulated(3);
    simulation.limit_steps(1000);
    let text = failure(&simulation, || {
        loop {
            env.threads.yield_now();
        }
    });
    assert!(text.contains("does not end"), "{text}");
}

#[test]
fn a_panic_of_a_thread_reaches_whoever_joins_or_the_run() {
    let (env, simulation) = Env::simulated(3);
    simulation.run(|| {
        let thread = spawn(&env, "failing", || panic!("on purpose"));
        assert_eq!(thread.join(), Err("on purpose".to_owned()));
    });
    let text = failure(&simulation, || {
        spawn(&env, "failing", || panic!("unseen"));
    });
    assert!(text.contains("unseen"), "{text}");
}

#[test]
fn a_world_can_be_run_again_after_a_restart() {
    let (env, simulation) = Env::simulated(3);
    simulation.run(|| durable(&env, "a", b"first"));
    let env = simulation.restart(crate::env::sim::Survivors::LoseAll);
    let length = simulation.run(|| {
        let file = env.fs.open(Path::new("a")).unwrap();
        let thread = spawn(&env, "reader", move || assert_eq!(file.len().unwrap(), 5));
        thread.join()
    });
    assert_eq!(length, Ok(()));
}

/// Returns the times that a thread reads from the clock with nothing else in between.
fn readings(seed: u64) -> Vec<Duration> {
    let (env, simulation) = Env::simulated(seed);
    simulation.run(|| (0..1000).map(|_| env.clock.now()).collect())
}

#[test]
fn each_reading_of_the_clock_may_move_it() {
    let times = readings(5);
    assert!(times.is_sorted(), "it never goes back");
    let steps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let moved = steps.iter().filter(|step| !step.is_zero()).count();
    assert!(moved > 900, "{moved} of 999 readings");
    let most = steps.iter().max().unwrap();
    assert!(*most > Duration::from_micros(500), "some take long, as on a busy machine: {most:?}");
    assert_eq!(times, readings(5), "by seed");
    assert_ne!(times, readings(6));
}

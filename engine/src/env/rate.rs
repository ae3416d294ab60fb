//! A bound on the bytes per second of one long pass, for work that a user asked for. The budget of
//! background work is `budget.rs`.

use super::clock::Clock;
use super::threads::Threads;
use std::sync::Arc;
use std::time::Duration;

/// A pause shorter than this is put off until more is due: a system call for each piece would cost
/// more than it holds up.
const LEAST_PAUSE: Duration = Duration::from_millis(5);
/// The longest part of a pause before it is asked whether the pass goes on.
const STEP: Duration = Duration::from_millis(100);
/// The time that a pass which was slower than its bound may make up for.
const MOST_CREDIT: Duration = Duration::from_millis(200);

/// A bound on the bytes per second of one pass, in one thread.
pub struct RateLimit {
    clock: Arc<dyn Clock>,
    threads: Arc<dyn Threads>,
    bytes_per_second: u64,
    /// The moment up to which what was spent so far lasts.
    paid_until: Duration,
}

impl RateLimit {
    /// Begins a pass of at most so many bytes per second, at least one.
    pub fn new(clock: Arc<dyn Clock>, threads: Arc<dyn Threads>, bytes_per_second: u64) -> Self {
        let paid_until = clock.now();
        RateLimit { clock, threads, bytes_per_second: bytes_per_second.max(1), paid_until }
    }

    /// Reports that `bytes` were read or written; waits if that was too fast, as long as `goes_on`
    /// says that the pass does.
    pub fn spend(&mut self, bytes: u64, goes_on: impl Fn() -> bool) {
        let lasts = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let earliest = self.clock.now().saturating_sub(MOST_CREDIT);
        self.paid_until = self.paid_until.max(earliest).saturating_add(lasts);
        let mut left = self.clock.left(self.paid_until);
        if left < LEAST_PAUSE {
            return;
        }
        while !left.is_zero() && goes_on() {
            self.threads.sleep(left.min(STEP));
            left = self.clock.left(self.paid_until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;

    fn timed(bytes_per_second: u64, pieces: &[u64]) -> Duration {
        let (env, simulation) = Env::simulated(3);
        simulation.run(|| {
            let (clock, threads) = (env.clock.clone(), env.threads.clone());
            let begun = clock.now();
            let mut limit = RateLimit::new(clock, threads, bytes_per_second);
            pieces.iter().for_each(|&bytes| limit.spend(bytes, || true));
            env.clock.since(begun)
        })
    }

    #[test]
    fn the_bound_holds_for_small_and_for_large_pieces() {
        for pieces in [vec![1000; 1000], vec![1_000_000], vec![10; 100_000]] {
            let took = timed(100_000, &pieces);
            assert!(took.abs_diff(Duration::from_secs(10)) < Duration::from_secs(1), "{took:?}");
        }
        assert!(timed(u64::MAX, &[1 << 40; 9]) < Duration::from_millis(1));
    }

    #[test]
    fn a_pause_of_the_caller_is_made_up_for_in_small_part() {
        let (env, simulation) = Env::simulated(3);
        simulation.run(|| {
            let mut limit = RateLimit::new(env.clock.clone(), env.threads.clone(), 1000);
            env.threads.sleep(Duration::from_secs(100));
            let begun = env.clock.now();
            limit.spend(5000, || true);
            let took = env.clock.since(begun);
            assert!(
                took > Duration::from_millis(4700) && took < Duration::from_secs(5),
                "{took:?}"
            );
        });
    }

    #[test]
    fn a_pass_that_ends_waits_no_longer_than_a_step() {
        let (env, simulation) = Env::simulated(3);
        simulation.run(|| {
            let mut limit = RateLimit::new(env.clock.clone(), env.threads.clone(), 1);
            let begun = env.clock.now();
            limit.spend(1 << 40, || env.clock.since(begun) < Duration::from_secs(1));
            assert!(env.clock.since(begun) <= Duration::from_secs(1) + STEP);
        });
    }
}

//! Threads, time and randomness of a simulation. Outside of `Simulation::run` threads are the
//! system's, and sleeping only moves the clock.

use super::dice::Dice;
use super::scheduler::{Scheduler, Seat, seat};
use crate::env::clock::Clock;
use crate::env::random::Random;
use crate::env::threads::{Join, OsThreads, ThreadBody, Threads};
use crate::env::turn::Awaited;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(super) struct SimThreads(pub(super) Arc<Scheduler>);

impl Threads for SimThreads {
    fn spawn(&self, name: &str, work: ThreadBody) -> io::Result<Box<dyn Join>> {
        match seat() {
            Some(seat) => Ok(Box::new(SimJoin(seat.spawn(name, work)?))),
            None => OsThreads.spawn(name, work),
        }
    }

    fn yield_now(&self) {
        match seat() {
            Some(seat) => seat.pass("yield"),
            None => OsThreads.yield_now(),
        }
    }

    /// A thread yields once, so that simulations often meet those that sleep.
    fn yields_before_sleep(&self) -> usize {
        1
    }

    /// In every second stretch of four seconds one processor is idle, so that both cases occur.
    fn idle_processor_time(&self) -> Option<Duration> {
        let now = self.0.now();
        let (stretches, rest) = (now.as_secs() / STRETCH_SECS, now.as_secs() % STRETCH_SECS);
        let into = Duration::from_secs(rest) + Duration::from_nanos(now.subsec_nanos().into());
        let idle = STRETCH_SECS / 2;
        Some(Duration::from_secs(stretches * idle) + into.min(Duration::from_secs(idle)))
    }

    fn sleep(&self, time: Duration) {
        match seat() {
            Some(seat) => drop(seat.wait(Awaited::Time, Some(time))),
            None => self.0.advance(time),
        }
    }
}

struct SimJoin(Seat);

impl Join for SimJoin {
    fn join(self: Box<Self>) -> Result<(), String> {
        let waiting = seat().expect("a simulated thread is joined by a simulated thread");
        self.0.join(&waiting)
    }
}

/// Length of a busy and an idle stretch together.
const STRETCH_SECS: u64 = 8;

pub(super) struct SimClock(pub(super) Arc<Scheduler>);

/// The wall-clock time at which simulations begin: 2026-01-01.
const BEGINNING: Duration = Duration::from_secs(1_767_225_600);

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn wall(&self) -> Duration {
        self.0.wall(BEGINNING)
    }
}

pub(super) struct SimRandom(pub(super) Mutex<Dice>);

impl Random for SimRandom {
    fn next_u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    fn fill_secret(&self, room: &mut [u8]) -> io::Result<()> {
        for part in room.chunks_mut(8) {
            part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}

//! Events for the begin and end of what lasts: write stalls, and the refusal of puts. A rule delays
//! many writers, and each of them many times, but this is reported as one write stall.

use crate::env::clock::Clock;
use crate::env::sync::Mutex;
use crate::events::{Event, Events};
use crate::stats::StallReason;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Reports the begin and the end of something that lasts, each once and in this order, whichever
/// threads notice them.
#[derive(Default)]
pub struct BeginAndEnd {
    /// 0 if no begin was reported whose end was not, else one plus the time of the begin in
    /// nanoseconds since the clock's start.
    begun: AtomicU64,
    /// Held while an event is emitted: otherwise an end could overtake its begin.
    emitting: Mutex<()>,
}

impl BeginAndEnd {
    /// Returns true if the begin was reported, and the end not yet.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.begun.load(Ordering::Relaxed) != 0
    }

    /// Reports the begin, unless that was done.
    pub fn begin(&self, clock: &dyn Clock, events: &Events, event: impl FnOnce() -> Event) {
        if self.is_open() {
            return;
        }
        let _emitting = self.emitting.lock();
        if !self.is_open() {
            let now = u64::try_from(clock.now().as_nanos()).unwrap_or(u64::MAX - 1) + 1;
            self.begun.store(now, Ordering::Relaxed);
            events.emit(event());
        }
    }

    /// Reports the end with the time since the begin, if that was reported. Costs one load if not.
    #[inline]
    pub fn end(&self, clock: &dyn Clock, events: &Events, event: impl FnOnce(Duration) -> Event) {
        if self.is_open() {
            self.end_now(clock, events, event);
        }
    }

    #[cold]
    fn end_now(&self, clock: &dyn Clock, events: &Events, event: impl FnOnce(Duration) -> Event) {
        let _emitting = self.emitting.lock();
        let begun = self.begun.swap(0, Ordering::Relaxed);
        if begun != 0 {
            events.emit(event(clock.since(Duration::from_nanos(begun - 1))));
        }
    }
}

/// The write stalls that were reported as begun.
#[derive(Default)]
pub struct OpenStalls {
    begun: [BeginAndEnd; StallReason::ALL.len()],
}

impl OpenStalls {
    /// Records that a writer is held up for this reason; reports a stall unless one has begun.
    pub fn begin(&self, reason: StallReason, clock: &dyn Clock, events: &Events) {
        self.begun[reason as usize].begin(clock, events, || Event::StallBegun { reason });
    }

    /// Records that a writer was not held up for these reasons; reports the end of their stalls.
    /// Costs one load for each reason.
    #[inline]
    pub fn end(&self, reasons: &[StallReason], clock: &dyn Clock, events: &Events) {
        for &reason in reasons {
            let ended = |took| Event::StallEnded { reason, took };
            self.begun[reason as usize].end(clock, events, ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;
    use crate::events::EventListener;
    use std::sync::Arc;

    /// A listener that takes its time for a begin, and records what it is told when it is done.
    struct Slow(Env, Mutex<Vec<&'static str>>);

    impl EventListener for Slow {
        fn on_event(&self, event: &Event) {
            let is_begin = matches!(event, Event::StallBegun { .. });
            self.0.threads.sleep(Duration::from_millis(if is_begin { 5 } else { 0 }));
            self.1.lock().push(if is_begin { "begun" } else { "ended" });
        }
    }

    #[test]
    fn i10_an_end_does_not_overtake_its_begin() {
        for seed in 0..20 {
            let (env, simulation) = Env::simulated(seed);
            simulation.run(|| {
                let told = Arc::new(Slow(env.clone(), Mutex::default()));
                let events = Arc::new(Events::new(Some(told.clone())));
                let stalls = Arc::new(OpenStalls::default());
                let (other, clock, its_events) = (stalls.clone(), env.clone(), events.clone());
                let begin = move || other.begin(StallReason::Space, &*clock.clock, &its_events);
                let thread = env.threads.spawn("begins", Box::new(begin)).unwrap();
                for _ in 0..20 {
                    stalls.end(&[StallReason::Space], &*env.clock, &events);
                    env.threads.sleep(Duration::from_millis(1));
                }
                thread.join().unwrap();
                assert_eq!(*told.1.lock(), ["begun", "ended"]);
            });
        }
    }
}

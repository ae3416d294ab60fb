//! Events for the begin and the end of what lasts: a write stall, the refusal of puts, the limit
//! for background work. Many threads notice it, and each of them many times, but it is reported as
//! one.
//!
//! Locks: `emitting` is held while a listener runs, which is the user's code and must not call the
//! database. No other lock is taken meanwhile.

use super::sync::Mutex;
use crate::events::{Event, Events};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Reports the begin and the end of something that lasts, each once and in this order, whichever
/// threads notice them. All times are readings of one clock.
#[derive(Default)]
pub struct BeginAndEnd {
    /// 0 if no begin was reported whose end was not, else one plus the time of the begin in
    /// nanoseconds.
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

    /// Reports the begin at the time `now`, unless that was done. Costs one load then.
    pub fn begin(
        &self,
        now: impl FnOnce() -> Duration,
        events: &Events,
        event: impl FnOnce() -> Event,
    ) {
        if self.is_open() {
            return;
        }
        let _emitting = self.emitting.lock();
        if !self.is_open() {
            let now = u64::try_from(now().as_nanos()).unwrap_or(u64::MAX - 1) + 1;
            self.begun.store(now, Ordering::Relaxed);
            events.emit(event());
        }
    }

    /// Reports the end at the time `now`, with the time since the begin, if the begin was reported.
    /// Costs one load if not.
    #[inline]
    pub fn end(
        &self,
        now: impl FnOnce() -> Duration,
        events: &Events,
        event: impl FnOnce(Duration) -> Event,
    ) {
        if self.is_open() {
            self.end_now(now, events, event);
        }
    }

    #[cold]
    fn end_now(
        &self,
        now: impl FnOnce() -> Duration,
        events: &Events,
        event: impl FnOnce(Duration) -> Event,
    ) {
        let _emitting = self.emitting.lock();
        let begun = self.begun.swap(0, Ordering::Relaxed);
        if begun != 0 {
            events.emit(event(now().saturating_sub(Duration::from_nanos(begun - 1))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;
    use crate::events::EventListener;
    use crate::stats::StallReason;
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
                let stall = Arc::new(BeginAndEnd::default());
                let reason = StallReason::Space;
                let (other, clock, its_events) = (stall.clone(), env.clone(), events.clone());
                let begin = move || {
                    let begun = || Event::StallBegun { reason };
                    other.begin(|| clock.clock.now(), &its_events, begun);
                };
                let thread = env.threads.spawn("begins", Box::new(begin)).unwrap();
                for _ in 0..20 {
                    let ended = |took| Event::StallEnded { reason, took };
                    stall.end(|| env.clock.now(), &events, ended);
                    env.threads.sleep(Duration::from_millis(1));
                }
                thread.join().unwrap();
                assert_eq!(*told.1.lock(), ["begun", "ended"]);
            });
        }
    }
}

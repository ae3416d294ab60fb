//! Keeps the latest events, for those who ask at the control socket what happened.

use crate::base::json::{joined, quoted};
use crate::env::clock::Clock;
use crate::env::sync::Mutex;
use crate::events::{Event, EventListener};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The number of events that are kept.
const MAX_EVENTS: usize = 200;

/// The latest events, each with the time of day at which it happened.
pub(crate) struct RecentEvents {
    clock: Arc<dyn Clock>,
    events: Mutex<VecDeque<(Duration, Event)>>,
}

impl RecentEvents {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        RecentEvents { clock, events: Mutex::default() }
    }

    /// Returns the events as a JSON array, the oldest first.
    pub(super) fn to_json(&self) -> String {
        let events: Vec<_> = self.events.lock().iter().cloned().collect();
        let event = |(time, event): &(Duration, Event)| {
            format!(
                "{{\"unix_seconds\":{:.3},\"event\":\"{}\",\"text\":{}}}",
                time.as_secs_f64(),
                event.name(),
                quoted(&event.to_string())
            )
        };
        format!("[{}]", joined(events.iter().map(event)))
    }
}

impl EventListener for RecentEvents {
    fn on_event(&self, event: &Event) {
        let time = self.clock.wall();
        let mut events = self.events.lock();
        if events.len() == MAX_EVENTS {
            events.pop_front();
        }
        events.push_back((time, event.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Env, OsSettings};

    #[test]
    fn the_latest_events_are_kept() {
        let recent = RecentEvents::new(Env::os(&OsSettings::default()).clock);
        assert_eq!(recent.to_json(), "[]");
        for number in 0..MAX_EVENTS + 3 {
            recent.on_event(&Event::FlushBegun { keyspace: number.to_string() });
        }
        let json = recent.to_json();
        assert_eq!(json.matches("flush_begun").count(), MAX_EVENTS);
        assert!(json.contains("\"flush of 3 begun\"") && !json.contains("\"flush of 2 begun\""));
    }
}

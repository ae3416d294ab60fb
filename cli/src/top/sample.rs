//! What the process of a database says at one moment, and what it did between two.

use crate::live::LiveStore;
use cleavedb::Result;
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Instant;

/// The answers of one moment.
pub(crate) struct Sample {
    pub(crate) stats: Value,
    pub(crate) jobs: Value,
    pub(crate) events: Value,
    taken: Instant,
}

impl Sample {
    /// Asks the process.
    pub(crate) fn take(live: &LiveStore) -> Result<Sample> {
        let (stats, jobs) = (live.tell("stats")?, live.tell("jobs")?);
        Ok(Sample::of(stats, jobs, live.tell("events")?))
    }

    /// Returns the sample of these answers, taken now.
    pub(super) fn of(stats: Value, jobs: Value, events: Value) -> Sample {
        Sample { stats, jobs, events, taken: Instant::now() }
    }

    /// Returns a number of the statistics; 0 if there is none of that name.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.stats[name].as_f64().unwrap_or_default()
    }

    /// Returns the time since the database was opened, in seconds.
    pub(crate) fn uptime(&self) -> f64 {
        self.jobs["uptime_seconds"].as_f64().unwrap_or_default()
    }
}

/// How many intervals are remembered for the small charts.
const REMEMBERED: usize = 60;

/// Two samples of one process, and the rates of those before.
pub(crate) struct Course {
    before: Option<Sample>,
    pub(crate) now: Sample,
    pub(crate) writes: VecDeque<f64>,
    pub(crate) reads: VecDeque<f64>,
}

impl Course {
    /// Begins with a first sample: until there is a second, rates are those since the opening.
    pub(crate) fn begin(now: Sample) -> Course {
        Course { before: None, now, writes: VecDeque::new(), reads: VecDeque::new() }
    }

    /// Goes on with the next sample.
    pub(crate) fn go_on(&mut self, now: Sample) {
        let before = std::mem::replace(&mut self.now, now);
        // Another opening begins its counters anew.
        let is_same = self.now.uptime() >= before.uptime();
        self.before = is_same.then_some(before);
        let (writes, reads) = (self.rate("entries_written"), self.rate("gets"));
        for (course, rate) in [(&mut self.writes, writes), (&mut self.reads, reads)] {
            if course.len() == REMEMBERED {
                course.pop_front();
            }
            course.push_back(rate);
        }
    }

    /// Returns true if rates are those since the opening.
    pub(crate) fn is_first(&self) -> bool {
        self.before.is_none()
    }

    /// Returns the seconds that rates are over.
    pub(crate) fn seconds(&self) -> f64 {
        let seconds = match &self.before {
            Some(before) => (self.now.taken - before.taken).as_secs_f64(),
            None => self.now.uptime(),
        };
        seconds.max(1e-3)
    }

    /// Returns how much a value grew, which `of` finds in a sample's statistics.
    pub(crate) fn growth(&self, of: impl Fn(&Value) -> f64) -> f64 {
        let before = self.before.as_ref().map_or(0.0, |before| of(&before.stats));
        (of(&self.now.stats) - before).max(0.0)
    }

    /// Returns how much a number of the statistics grew per second.
    pub(crate) fn rate(&self, name: &str) -> f64 {
        self.growth(|stats| stats[name].as_f64().unwrap_or_default()) / self.seconds()
    }
}

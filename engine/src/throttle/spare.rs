//! Whether the foreground leaves processor time, so that value GC may bring space below its ceiling
//! while users write. Pure.
//!
//! GC rests for a moment and looks how long processors were idle meanwhile. If there was enough, it
//! works for some time and rests again. A processor that waits for the device does not count as
//! idle, so GC also stays away from a device that is busy with writers; reads are protected by the
//! I/O budget.

use std::time::Duration;

/// Least time for which GC rests before it looks: shorter ones show chance.
const REST: Duration = Duration::from_millis(100);
/// The time for which GC works before it rests again: so it has four fifths of what is left.
const WORK: Duration = Duration::from_millis(400);
/// Least idle time of all processors together, in percent of the time that passed. GC itself uses
/// one processor; with half of one left, foreground threads would lose some of theirs.
const LEAST_IDLE_PERCENT: u32 = 75;

/// The alternation of rest and work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpareTime {
    /// GC rests, and looks how much time is left.
    Resting {
        /// The time at which the rest began.
        since: Duration,
        /// The idle time of all processors at that moment.
        idle: Duration,
    },
    /// GC works.
    Working {
        /// The time at which the next rest begins.
        until: Duration,
    },
}

impl SpareTime {
    /// Begins with a rest.
    pub fn new(now: Duration, idle: Duration) -> Self {
        SpareTime::Resting { since: now, idle }
    }

    /// Returns the next state at `now`, when processors have been idle for `idle` altogether.
    #[must_use]
    pub fn at(self, now: Duration, idle: Duration) -> Self {
        match self {
            SpareTime::Working { until } if now < until => self,
            SpareTime::Working { .. } => SpareTime::new(now, idle),
            SpareTime::Resting { since, .. } if now.saturating_sub(since) < REST => self,
            SpareTime::Resting { since, idle: before } => {
                let passed = now.saturating_sub(since);
                match idle.saturating_sub(before) >= passed * LEAST_IDLE_PERCENT / 100 {
                    true => SpareTime::Working { until: now + WORK },
                    false => SpareTime::new(now, idle),
                }
            }
        }
    }

    /// Returns true if GC may work.
    pub fn is_left(self) -> bool {
        matches!(self, SpareTime::Working { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::golden::{golden, number, pair};

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns for each step of 50 ms whether GC may work after it. Lines say how many steps there
    /// are, and for how many milliseconds processors were idle in each: `steps=12 idle=37`.
    fn run(lines: &[&str]) -> String {
        let (mut spare, mut now, mut sum) = (SpareTime::new(ms(0), ms(7)), ms(0), ms(7));
        let mut steps = String::new();
        for line in lines {
            let (count, idle) = line.split_once(' ').expect(line);
            for _ in 0..number(pair(count).1) {
                (now, sum) = (now + ms(50), sum + ms(number(pair(idle).1)));
                spare = spare.at(now, sum);
                steps.push(if spare.is_left() { 'W' } else { '.' });
            }
        }
        steps
    }

    #[test]
    fn golden_value_gc_rests_and_works() {
        golden("throttle/testdata/spare.txt", run);
    }

    #[test]
    fn a_long_step_is_followed_by_a_rest() {
        let working = SpareTime::new(ms(0), ms(0)).at(ms(100), ms(200));
        assert!(working.is_left());
        assert_eq!(working.at(ms(9000), ms(300)), SpareTime::new(ms(9000), ms(300)));
    }
}

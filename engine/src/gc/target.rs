//! The space target in bytes: the marks at which value GC begins, ends, and holds writers up.
//!
//! The marks are as close to the target as possible, because slack makes collecting cheap: with a
//! spare share p of garbage, freeing a byte costs about (1 - p) / p bytes moved. Measured with
//! random overwrites at a target of 1.3, two hundredths of space are a seventh of the bytes moved.

/// GC goes on until space is this share of the target below the target.
const LOW_BELOW: f64 = 0.01;
/// For a narrow target, that margin is at most this share of the target's slack.
const MARGIN_OF_SLACK: f64 = 0.0625;
/// Writers are held up most once space is this share above the target.
const HARD_ABOVE: f64 = 0.02;

/// The space target for a number of live bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpaceTarget {
    live: u64,
    ratio: f64,
}

impl SpaceTarget {
    /// Creates the target of at most `ratio` times `live` bytes.
    pub fn new(live: u64, ratio: f64) -> Self {
        SpaceTarget { live, ratio }
    }

    /// Returns the bytes that may be garbage at the target.
    pub fn slack(&self) -> u64 {
        ((self.ratio - 1.0) * self.live as f64) as u64
    }

    /// Returns the bytes above which GC begins and soft delays of writers are allowed.
    pub fn start(&self) -> u64 {
        self.times(self.ratio)
    }

    /// Returns the bytes at which half of the target's slack is used.
    pub fn half_way(&self) -> u64 {
        self.live + self.slack() / 2
    }

    /// Returns the bytes down to which GC goes on once it has begun.
    pub fn low(&self) -> u64 {
        let margin = (self.ratio * LOW_BELOW).min((self.ratio - 1.0) * MARGIN_OF_SLACK);
        self.times(self.ratio - margin)
    }

    /// Returns the bytes from which on delays of writers are at their longest.
    pub fn hard(&self) -> u64 {
        self.times(self.ratio * (1.0 + HARD_ABOVE))
    }

    fn times(&self, ratio: f64) -> u64 {
        (ratio * self.live as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_in_order() {
        for ratio in [1.05, 1.1, 1.3, 2.0, 10.0] {
            let target = SpaceTarget::new(1 << 30, ratio);
            let marks = [1 << 30, target.low(), target.start(), target.hard()];
            assert!(marks.is_sorted_by(|a, b| a < b), "{ratio}: {marks:?}");
        }
    }

    #[test]
    fn the_margins_of_the_default() {
        let target = SpaceTarget::new(1_000_000, 1.3);
        assert_eq!((target.low(), target.start()), (1_287_000, 1_300_000));
        assert_eq!((target.slack(), target.hard()), (300_000, 1_326_000));
        assert_eq!(target.half_way(), 1_150_000);
    }

    #[test]
    fn nothing_live_leaves_nothing() {
        let target = SpaceTarget::new(0, 1.3);
        assert_eq!((target.low(), target.start(), target.hard()), (0, 0, 0));
    }
}

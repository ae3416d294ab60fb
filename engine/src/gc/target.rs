//! The space target in bytes: the marks at which value GC begins, ends, and holds writers up.
//!
//! The marks lie as close to the target as they can, because slack is what makes collecting cheap:
//! with a spare share p of garbage, freeing a byte costs about (1 - p) / p bytes moved. Measured
//! with random overwrites at 1.3, two hundredths of space are a seventh of what is moved.

/// GC begins at the target and goes on until space is this share of the target below...
const LOW_BELOW: f64 = 0.01;
/// ...but a narrow target gives up at most this share of its slack to the margin.
const MARGIN_OF_SLACK: f64 = 0.0625;
/// Writers are held up most once space is this share above the target.
const HARD_ABOVE: f64 = 0.02;

/// A target for a number of live bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpaceTarget {
    live: u64,
    ratio: f64,
}

impl SpaceTarget {
    /// At most `ratio` times `live` bytes.
    pub fn new(live: u64, ratio: f64) -> Self {
        SpaceTarget { live, ratio }
    }

    /// Bytes that may be garbage at the target.
    pub fn slack(&self) -> u64 {
        ((self.ratio - 1.0) * self.live as f64) as u64
    }

    /// Above this GC begins, and soft delays of writers are allowed.
    pub fn start(&self) -> u64 {
        self.times(self.ratio)
    }

    /// Here half of what may be garbage at the target may be there.
    pub fn half_way(&self) -> u64 {
        self.live + self.slack() / 2
    }

    /// Once it has begun GC goes on down to here.
    pub fn low(&self) -> u64 {
        let margin = (self.ratio * LOW_BELOW).min((self.ratio - 1.0) * MARGIN_OF_SLACK);
        self.times(self.ratio - margin)
    }

    /// From here on delays of writers are at their longest.
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

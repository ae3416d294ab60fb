//! The space target in bytes: the marks at which value GC begins, ends, and holds writers up.
//!
//! The marks lie close below the target, because slack is what makes collecting cheap: with a
//! spare share p of garbage, freeing a byte costs about (1 - p) / p bytes moved.

/// GC begins this share of the target below it, if the target leaves that much...
const START_BELOW: f64 = 0.02;
/// ...and goes on until space is this share below.
const LOW_BELOW: f64 = 0.03;
/// A narrow target gives up at most this share of its slack to the margin.
const MARGIN_OF_SLACK: f64 = 0.125;
/// Writers are held up most once space is this share above the target.
const HARD_ABOVE: f64 = 0.04;

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
        self.below(START_BELOW, MARGIN_OF_SLACK)
    }

    /// Once it has begun GC goes on down to here.
    pub fn low(&self) -> u64 {
        self.below(LOW_BELOW, MARGIN_OF_SLACK * LOW_BELOW / START_BELOW)
    }

    /// From here on delays of writers are at their longest.
    pub fn hard(&self) -> u64 {
        self.times(self.ratio * (1.0 + HARD_ABOVE))
    }

    fn below(&self, share: f64, of_slack: f64) -> u64 {
        let margin = (self.ratio * share).min((self.ratio - 1.0) * of_slack);
        self.times(self.ratio - margin)
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
            let at = (ratio * (1u64 << 30) as f64) as u64;
            let marks = [1 << 30, target.low(), target.start(), at, target.hard()];
            assert!(marks.is_sorted_by(|a, b| a < b), "{ratio}: {marks:?}");
        }
    }

    #[test]
    fn the_margins_of_the_default() {
        let target = SpaceTarget::new(1_000_000, 1.3);
        assert_eq!((target.low(), target.start()), (1_261_000, 1_274_000));
        assert_eq!((target.slack(), target.hard()), (300_000, 1_352_000));
    }

    #[test]
    fn nothing_live_leaves_nothing() {
        let target = SpaceTarget::new(0, 1.3);
        assert_eq!((target.low(), target.start(), target.hard()), (0, 0, 0));
    }
}

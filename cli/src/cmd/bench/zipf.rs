//! Random numbers by Zipf's law: rank k of n is drawn in proportion to 1 / k^0.99, as YCSB's
//! `zipfian` does. Ranks are assigned to numbers in a scrambled order, so that numbers that are
//! often drawn lie far apart.
//!
//! Ranks are drawn by rejection-inversion (Hörmann and Derflinger 1996), which is exact and needs
//! neither a table nor a sum over all ranks: a rank is drawn from the continuous density x^-0.99 by
//! inversion, rounded, and accepted with the probability that gives the discrete law. Fewer than
//! one in ten are drawn again.

use crate::random::{Permutation, SplitMix64};

/// YCSB's exponent, so little below 1 that a few keys get a good part of all draws.
const EXPONENT: f64 = 0.99;
/// Seed of the order of ranks. It is fixed, so that the same keys are drawn often whatever the seed
/// of the draws, and differs from the order in which stores are filled.
const SCRAMBLE: u64 = 0x7a69_7066; // "zipf"

/// A generator of numbers below a count.
pub(super) struct Zipf {
    ranks: f64,
    order: Permutation,
    /// The integrals of the density between which a rank is drawn evenly.
    areas: (f64, f64),
    /// The largest distance of a rank above its continuous draw at which it is always accepted.
    sure: f64,
}

impl Zipf {
    /// Creates a generator of numbers below `count`, which is at least 1.
    pub(super) fn new(count: u64) -> Self {
        let ranks = count as f64;
        Zipf {
            ranks,
            order: Permutation::new(count, SCRAMBLE),
            areas: (area(1.5) - 1.0, area(ranks + 0.5)),
            sure: 2.0 - area_inverse(area(2.5) - density(2.0)),
        }
    }

    /// Returns the next number.
    pub(super) fn next(&self, random: &mut SplitMix64) -> u64 {
        self.order.at(self.rank(random) - 1)
    }

    /// Returns the next rank, from 1, which is drawn most often, to the count.
    pub(super) fn rank(&self, random: &mut SplitMix64) -> u64 {
        loop {
            let drawn = self.areas.0 + random.share() * (self.areas.1 - self.areas.0);
            let x = area_inverse(drawn);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.sure || drawn >= area(rank + 0.5) - density(rank) {
                return rank as u64;
            }
        }
    }
}

fn density(x: f64) -> f64 {
    x.powf(-EXPONENT)
}

/// Returns the integral of the density from 1 to `x`.
fn area(x: f64) -> f64 {
    (x.powf(1.0 - EXPONENT) - 1.0) / (1.0 - EXPONENT)
}

fn area_inverse(area: f64) -> f64 {
    (1.0 + area * (1.0 - EXPONENT)).powf(1.0 / (1.0 - EXPONENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const DRAWS: u64 = 1_000_000;

    /// Returns how often each rank of `count` was drawn.
    fn drawn(count: u64) -> Vec<u64> {
        let (zipf, mut random) = (Zipf::new(count), SplitMix64::new(5, count));
        let mut counts = vec![0; count as usize];
        for _ in 0..DRAWS {
            counts[zipf.rank(&mut random) as usize - 1] += 1;
        }
        counts
    }

    #[test]
    fn every_rank_is_drawn_as_often_as_the_law_has_it() {
        for count in [1, 2, 3, 10, 1000] {
            let sum: f64 = (1..=count).map(|rank| density(rank as f64)).sum();
            for (at, &seen) in drawn(count).iter().enumerate() {
                let share = density(at as f64 + 1.0) / sum;
                let expected = share * DRAWS as f64;
                // The bound is five standard deviations of a binomial law. One of a thousand ranks
                // exceeds it in ten thousand seeds, and the seed is fixed.
                let off = 5.0 * (expected * (1.0 - share)).sqrt();
                assert!((seen as f64 - expected).abs() <= off, "{count}: {at} {seen} {expected}");
            }
        }
    }

    #[test]
    fn the_tail_of_many_ranks_has_its_share() {
        const COUNT: u64 = 1 << 20;
        let sum: f64 = (1..=COUNT).map(|rank| density(rank as f64)).sum();
        let counts = drawn(COUNT);
        for start in [1, 1 << 10, 1 << 15, 1 << 19] {
            let tail: f64 = (start..=COUNT).map(|rank| density(rank as f64)).sum();
            let seen: u64 = counts[start as usize - 1..].iter().sum();
            let share = seen as f64 / DRAWS as f64;
            assert!((share - tail / sum).abs() < 0.0025, "{start}: {share} {}", tail / sum);
        }
    }

    #[test]
    fn ranks_are_scrambled_over_all_numbers() {
        let (zipf, mut random) = (Zipf::new(100), SplitMix64::new(5, 0));
        let seen: BTreeSet<u64> = (0..10_000).map(|_| zipf.next(&mut random)).collect();
        assert_eq!(seen, (0..100).collect());
        let often = Zipf::new(1 << 40).order.at(0);
        assert_ne!(often, Permutation::new(1 << 40, 1).at(0), "not the order of a fill");
    }
}

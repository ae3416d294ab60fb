//! The source of randomness of a simulation: every choice is drawn here, so that the seed repeats
//! it.

/// A sequence of random numbers (SplitMix64: it passes the usual tests with one word of state).
#[derive(Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// Returns the sequence of `seed` for one `purpose`. Sequences are independent of each other:
    /// drawing from one does not change the others.
    pub(super) fn new(seed: u64, purpose: u64) -> Dice {
        Dice(Dice(seed).next_u64() ^ Dice(!purpose).next_u64())
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is a number below the bound");
        let wide = u128::from(self.next_u64()) * bound as u128;
        (wide >> 64) as usize
    }

    /// Returns true once in `times` calls on average.
    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_by_seed_and_differ_by_purpose() {
        let draw = |seed, purpose| {
            let mut dice = Dice::new(seed, purpose);
            [(); 4].map(|()| dice.next_u64())
        };
        assert_eq!(draw(1, 1), draw(1, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
        assert_ne!(draw(1, 1), draw(2, 1));
    }

    #[test]
    fn every_face_comes_up() {
        let mut dice = Dice::new(7, 0);
        let mut faces = [0; 6];
        (0..6000).for_each(|_| faces[dice.below(6)] += 1);
        assert!(faces.iter().all(|&times| (850..1150).contains(&times)), "{faces:?}");
    }
}

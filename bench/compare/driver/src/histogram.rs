//! Latencies: counts in classes of at most 1.6 % width, and the longest as it was.

const STEPS_BITS: u32 = 6;
const STEPS: usize = 1 << STEPS_BITS;

/// Nanoseconds, counted.
pub struct Histogram {
    classes: Vec<u64>,
    count: u64,
    sum: u64,
    longest: u64,
}

impl Histogram {
    /// Counts nothing yet.
    pub fn new() -> Histogram {
        Histogram { classes: vec![0; STEPS * 59], count: 0, sum: 0, longest: 0 }
    }

    /// Counts one.
    pub fn add(&mut self, nanoseconds: u64) {
        self.classes[class(nanoseconds)] += 1;
        self.count += 1;
        self.sum += nanoseconds;
        self.longest = self.longest.max(nanoseconds);
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }

    /// The least class bound that `share` of all do not exceed, in nanoseconds.
    fn quantile(&self, share: f64) -> u64 {
        let mut left = (share * self.count as f64).ceil() as u64;
        for (at, count) in self.classes.iter().enumerate() {
            if left <= *count {
                return bound(at).min(self.longest);
            }
            left -= count;
        }
        self.longest
    }

    /// A JSON object, in microseconds.
    pub fn json(&self) -> String {
        let micro = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        format!(
            "{{\"count\": {}, \"mean_us\": {:.2}, \"p50_us\": {:.2}, \"p99_us\": {:.2}, \
             \"p999_us\": {:.2}, \"max_us\": {:.2}}}",
            self.count,
            micro(self.sum) / self.count.max(1) as f64,
            micro(self.quantile(0.5)),
            micro(self.quantile(0.99)),
            micro(self.quantile(0.999)),
            micro(self.longest)
        )
    }
}

fn class(nanoseconds: u64) -> usize {
    let bits = u64::BITS - nanoseconds.leading_zeros();
    match bits.checked_sub(STEPS_BITS + 1) {
        None => nanoseconds as usize,
        Some(shift) => (shift as usize + 1) * STEPS + (nanoseconds >> shift) as usize - STEPS,
    }
}

/// The largest number of a class.
fn bound(class: usize) -> u64 {
    match (class / STEPS).checked_sub(1) {
        None => class as u64,
        Some(shift) => (((class % STEPS + STEPS) as u64 + 1) << shift) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_narrow_and_in_order() {
        for nanoseconds in [0, 1, 63, 64, 65, 127, 128, 1000, 123_456_789, u64::MAX >> 1] {
            let top = bound(class(nanoseconds));
            assert!(top >= nanoseconds && top - nanoseconds <= nanoseconds / STEPS as u64);
            assert!(class(top + 1) == class(top) + 1);
        }
    }

    #[test]
    fn quantiles_and_the_longest() {
        let (mut one, mut other) = (Histogram::new(), Histogram::new());
        (1..=50).for_each(|nanoseconds| one.add(nanoseconds));
        (51..=100).for_each(|nanoseconds| other.add(nanoseconds * 1000));
        one.merge(&other);
        assert_eq!((one.quantile(0.5), one.quantile(1.0)), (50, 100_000));
        assert!(one.json().contains("\"count\": 100") && one.json().contains("100.00}"));
    }
}

//! Latency histograms that any thread can add to without a lock. A histogram of a library would
//! need locks, which floor 0 does not have.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The binary logarithm of the number of buckets per power of two. With 16 buckets, a quantile is
/// at most one sixteenth too large.
const PRECISION_BITS: u32 = 4;
const PER_OCTAVE: usize = 1 << PRECISION_BITS;
/// The bound of the buckets: latencies from 2^40 ns (18 minutes) on count in the last bucket.
const MAX_BITS: u32 = 40;
const BUCKETS: usize = (MAX_BITS - PRECISION_BITS + 1) as usize * PER_OCTAVE;

/// A latency histogram that any thread can add to. Adding costs two relaxed atomic additions, and a
/// third operation if the latency is a new maximum.
pub struct LatencyHistogram {
    buckets: Box<[AtomicU64]>,
    nanos: AtomicU64,
    max: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        LatencyHistogram { buckets, nanos: AtomicU64::new(0), max: AtomicU64::new(0) }
    }
}

impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}

/// Returns the bucket of a latency in nanoseconds.
fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.min((1 << MAX_BITS) - 1);
    if nanos < PER_OCTAVE as u64 {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - PRECISION_BITS;
    let bucket = shift as usize * PER_OCTAVE + (nanos >> shift) as usize;
    debug_assert!(bucket < BUCKETS, "the longest latency has a bucket");
    debug_assert!(nanos <= upper_bound(bucket), "a quantile is never too small");
    bucket
}

/// Returns the largest latency of a bucket, in nanoseconds.
fn upper_bound(bucket: usize) -> u64 {
    if bucket < 2 * PER_OCTAVE {
        return bucket as u64;
    }
    let shift = bucket / PER_OCTAVE - 1;
    let first = (bucket % PER_OCTAVE + PER_OCTAVE) as u64;
    ((first + 1) << shift) - 1
}

impl LatencyHistogram {
    /// Adds one latency.
    pub fn add(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(nanos)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        // Most latencies are below the maximum, so a load first is cheaper than always calling
        // `fetch_max`.
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// Returns the latencies so far. While other threads add, the numbers may differ by their
    /// samples.
    pub fn read(&self) -> LatencyStats {
        let buckets: Vec<u64> = self.buckets.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        LatencyStats {
            count: buckets.iter().sum(),
            total: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
            max: Duration::from_nanos(self.max.load(Ordering::Relaxed)),
            buckets,
        }
    }
}

/// The latencies of one kind of work since the database was opened.
///
/// Point reads, writes and scan steps are sampled: one of [`LatencyStats::SAMPLED`] is timed, or
/// every one if [`Options::slow_operation`](crate::Options::slow_operation) is set.
///
/// ```
/// # let dir = cleavedb::doc_dir("latency-stats");
/// let db = cleavedb::open(&dir)?;
/// let keyspace = db.default_keyspace();
/// (0..1000u32).try_for_each(|n| keyspace.put(n.to_be_bytes(), "value"))?;
/// let writes = &db.stats().latencies.write;
/// assert!(writes.count() > 0 && writes.quantile(0.5) <= writes.quantile(0.99));
/// println!("{:?} at most, {:?} in the mean", writes.max(), writes.mean());
/// // Mean and quantiles on one line.
/// println!("{writes}");
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LatencyStats {
    count: u64,
    total: Duration,
    max: Duration,
    buckets: Vec<u64>,
}

impl LatencyStats {
    /// The sampling interval: one of this many point reads, writes and scan steps is timed.
    pub const SAMPLED: u64 = 16;

    /// Returns the number of latencies measured.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the latencies.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// Returns the longest latency.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns the mean latency, or zero if none was measured.
    pub fn mean(&self) -> Duration {
        let nanos = self.total.as_nanos() / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the latency that a share `part` of the latencies does not exceed; `part` is between
    /// 0 and 1, such as 0.99. The result is at most one sixteenth too large, and zero if no latency
    /// was measured.
    pub fn quantile(&self, part: f64) -> Duration {
        debug_assert_eq!(self.buckets.iter().sum::<u64>(), self.count, "each is in one bucket");
        let wanted = (part.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut passed = 0;
        let reaches = |count: &u64| {
            passed += count;
            passed >= wanted
        };
        let bucket = self.buckets.iter().position(reaches);
        bucket.map_or(Duration::ZERO, |it| Duration::from_nanos(upper_bound(it)).min(self.max))
    }
}

impl fmt::Display for LatencyStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "mean {:.1?}, p50 {:.1?}, p99 {:.1?}, p99.9 {:.1?}, max {:.1?} ({} timed)",
            self.mean(),
            self.quantile(0.5),
            self.quantile(0.99),
            self.quantile(0.999),
            self.max,
            self.count
        )
    }
}

/// Shows quantiles instead of the buckets, which are many.
impl fmt::Debug for LatencyStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatencyStats({self})")
    }
}

macro_rules! latencies {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The latency histograms of one open database.
        #[derive(Debug, Default)]
        pub struct LatencyHistograms {
            $($(#[$doc])* pub $name: LatencyHistogram,)*
        }

        /// The latencies of a database since it was opened, by kind of work.
        ///
        /// ```
        /// # let db = cleavedb::open(cleavedb::doc_dir("latencies"))?;
        /// for (name, latency) in db.stats().latencies.all() {
        ///     println!("{name}: {:?} at the 99th percentile", latency.quantile(0.99));
        /// }
        /// # Ok::<(), cleavedb::Error>(())
        /// ```
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Latencies {
            $($(#[$doc])* pub $name: LatencyStats,)*
        }

        impl LatencyHistograms {
            /// Returns all latencies as they are now.
            pub fn read(&self) -> Latencies {
                Latencies { $($name: self.$name.read(),)* }
            }
        }

        impl Latencies {
            /// Returns all latencies by name.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, &LatencyStats)> {
                [$((stringify!($name), &self.$name),)*].into_iter()
            }
        }
    };
}

latencies! {
    /// The latencies of single point reads that found a value.
    get,
    /// The latencies of puts, deletions and batches, write stalls included.
    write,
    /// The latencies of steps of cursors and iterators, without values.
    scan_step,
    /// The latencies of flushes.
    flush,
    /// The latencies of compactions, trivial moves included.
    compaction,
    /// The latencies of relocations by value GC.
    relocation,
    /// The latencies of write stalls.
    stall,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_within_a_sixteenth() {
        let mut last = None;
        for nanos in (0..5000).chain((13..40).flat_map(|bits| [(1 << bits) - 1, 1 << bits])) {
            let bucket = bucket_of(nanos);
            assert!(last.is_none_or(|last| bucket >= last), "{nanos}");
            last = Some(bucket);
            let bound = upper_bound(bucket);
            assert!(bound >= nanos && bound <= nanos + nanos / 16, "{nanos} {bound}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_samples() {
        let histogram = LatencyHistogram::default();
        assert_eq!(histogram.read().quantile(0.99), Duration::ZERO);
        (1..=1000).for_each(|micros| histogram.add(Duration::from_micros(micros)));
        let stats = histogram.read();
        assert_eq!((stats.count(), stats.max()), (1000, Duration::from_millis(1)));
        assert_eq!(stats.mean(), Duration::from_nanos(500_500));
        for (part, micros) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let found = stats.quantile(part).as_micros();
            assert!((micros..=micros + micros / 16).contains(&found), "{part}: {found}");
        }
        assert_eq!(stats.quantile(0.0), Duration::from_nanos(upper_bound(bucket_of(1000))));
    }
}

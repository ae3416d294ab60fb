//! The rule of the ceiling of space (I10): as space nears the ceiling, each write is delayed in
//! proportion to its bytes, more and more, so that value GC keeps up. It never stops a writer.
//!
//! Value GC computes the [`SpacePace`] from what it knows, a few times a second: where delays begin
//! and how steeply they grow. Between two such settings the delay follows the bytes of log written,
//! so a burst of writes slows itself down.
//!
//! The delay is a rate: all writers share one queue in time. Each takes a place in it whose length
//! is proportional to its bytes, and waits until its place ends. Waits too short to be timed are
//! added to later ones.

use std::time::Duration;

/// The facts that decide from where on, and how much, writers are delayed.
#[derive(Debug, Clone, Copy)]
pub struct PaceFacts {
    /// Allocated bytes of all files but those that GC is writing just now; what was freed counts as
    /// allocated if it comes back soon.
    pub allocated: u64,
    /// The likely estimate of live bytes.
    pub live: u64,
    /// The allocated bytes above which GC begins and delays of writers are allowed.
    pub start: u64,
    /// The allocated bytes that are allowed at most: the ceiling for that many live bytes, less
    /// what flushes are going to write.
    pub limit: u64,
    /// The bytes that may be garbage at the ceiling.
    pub slack: u64,
    /// The size in bytes of a full segment.
    pub segment_bytes: u64,
    /// The ceiling as allocated bytes per live byte.
    pub ceiling: f64,
    /// The share of the bytes put that count as inserts.
    pub insert_share: f64,
    /// The share of the bytes put that a flush writes once more before the log goes.
    pub flushed_share: f64,
    /// The number of memtables that share the room for flushes.
    pub memtables: u64,
    /// Bytes of log written since the opening.
    pub log_bytes: u64,
    /// Bytes that GC can win, at once or after a flush. While there are none, or GC is off or
    /// paused, delays of writers would be useless.
    pub winnable: u64,
    /// Bytes per second that GC frees while it works; 0 if that was not measured yet.
    pub freed_per_second: u64,
}

/// Databases may exceed their live bytes by this many segments before writers are held up, within
/// the bounds of `SMALL_BYTES`: that is a few flushes and segments, and below it no ratio means
/// much. Where it was 16 MiB, a store of 24 MB with segments of 1 MiB was delayed nowhere below a
/// ceiling of 1.7.
const SMALL_SEGMENTS: u64 = 4;
/// The least and the most of these bytes. Space makes no memtable smaller than the least, so
/// however small segments are, flushes give back as much at once.
const SMALL_BYTES: (u64, u64) = (LEAST_MEMTABLE_BYTES, SMALL_STORE_BYTES);
/// They are at most this part (one in this many) of the slack, where that is more than the least:
/// without, a store of 40 MB stood at 1.6 at a ceiling of 1.3.
const SMALL_PART: u64 = 2;
/// A store of fewer bytes is small whatever its segments are: no flush is made for its space, nor
/// for so short a tail of the log.
pub const SMALL_STORE_BYTES: u64 = 16 << 20;
/// The ramp ends where it has used this part, in thirds, of what is left up to the limit. Writers
/// that get as much as GC frees stay in its middle, and the rest is for the files of the relocation
/// that makes room for them: over all of it, a simulated store passed 1.3 by 0.01 more.
const WIDTH_THIRDS: u64 = 2;
/// The rate of freeing, in bytes per second, that is assumed until it was measured. At a ceiling of
/// 1.3, writers of 1 KiB values that waited for nothing but value GC got 46 to 80 MB/s, so it freed
/// about as much (`bench/record/2026-11-21-gc-cost.md`).
const USUAL_RATE: u64 = 64 << 20;
/// The rate of freeing, in bytes per second, during the first liveness scan, which frees nothing
/// and may find that nothing died, as in a load. It is such that writers whose delay is greatest
/// get the usual rate. With it, a store of 1 GB passes a ceiling of 1.3 in the first seconds by
/// 0.003, and loads are 1 % slower (`bench/record/2026-11-28-small-ceilings.md`).
pub const RATE_BEFORE_COUNTING: u64 = USUAL_RATE * LARGEST as u64;
/// The least and the highest rate, in bytes per second; values outside come from bad measurements.
/// No device is faster than the highest, and with the least writers still get half a MiB per second
/// where the delay of a byte is greatest (`LARGEST`).
const RATES: (u64, u64) = (4 << 20, 2 << 30);
/// Near the ceiling a memtable is full once it has this part (one in this many) of the slack, which
/// those of all keyspaces that are written share: until its flush is installed, its values take
/// space in the log and in the flush's files. At a ceiling of 1.3 of 1 GB, with memtables of
/// 64 MiB, that was two fifths of the slack. With an eighth 3.41 bytes were written for each byte
/// instead of 4.10, and 1.57 instead of 1.67 if writes are skewed
/// (`bench/record/2026-11-27-room-for-flushes.md`).
const MEMTABLE_PART: u64 = 8;
/// Further from it, this part: the flush of a memtable with more would pass the ceiling by itself.
/// A store that its first memtable held stood at 2.5 at a ceiling of 1.3.
const FAR_MEMTABLE_PART: u64 = 2;
/// Space makes no memtable full with fewer bytes than this, and no flush is made under load for
/// less garbage.
pub const LEAST_MEMTABLE_BYTES: u64 = 4 << 20;
/// Least growth of space per byte written; it replaces a smaller computed one. If nearly all bytes
/// are inserts, the computed growth is about zero or negative, and the marks would be infinitely
/// far away; with this one they are at most 20 times as far as if all bytes were overwrites, which
/// a load that turns from inserts to overwrites between two settings still reaches.
const LEAST_GROWTH: f64 = 0.05;
/// The factor of the delay at `soft_bytes + width_bytes`: the delay grows with the square of the
/// distance from `soft_bytes`, so that it begins without a step, and at half the width the factor
/// is 1: writers then get as much as GC frees.
const AT_FULL_WIDTH: f64 = 4.0;
/// The greatest factor: however space grows, a byte is delayed by at most this times the time that
/// GC needs to free one.
const LARGEST: f64 = 8.0;
/// A writer feels a delay of this part (one in so many) of the time that value GC needs to free a
/// byte. It was not measured: over the first quarter of the ramp delays are less.
const FELT_PART: f64 = 4.0;
/// The longest delay of a commit: writers slow down and never seem to hang. What exceeds it is not
/// added to later commits.
pub const LONGEST: Duration = Duration::from_millis(20);
/// A shorter wait is skipped and added to later ones, because timers are not more precise.
pub const SHORTEST: Duration = Duration::from_micros(250);

/// The position from which writers are delayed, and the growth of the delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpacePace {
    /// The position where delays begin, in bytes of log written since the opening; negative if it
    /// was passed before the opening.
    pub soft_bytes: i64,
    /// Width of the ramp in bytes: at `soft_bytes + width_bytes` the delay is four times the delay
    /// at half the width.
    pub width_bytes: u64,
    /// The delay at half the width in nanoseconds per byte: the time that value GC needs to free a
    /// byte.
    pub nanos_per_byte: f64,
    /// The bytes at which a memtable is full if its keyspace allows more.
    pub memtable_bytes: u64,
    /// The same where memtables hold all values.
    pub inline_memtable_bytes: u64,
}

/// Returns from where on writers are held up, and how much. The marks are positions of the log's
/// length, which writers can read: each byte that is put adds one byte to the space, and its share
/// of inserts, times the ceiling, to the space that is allowed. What a flush writes once more takes
/// another one.
pub fn pace(facts: &PaceFacts) -> SpacePace {
    if facts.winnable == 0 {
        let inline_memtable_bytes = inline_memtable_bytes(facts, u64::MAX);
        let memtable_bytes = memtable_bytes(facts, inline_memtable_bytes);
        return SpacePace { memtable_bytes, inline_memtable_bytes, ..SpacePace::NONE };
    }
    let small = small_bytes(facts);
    let soft = facts.start.max(facts.live.saturating_add(small));
    // A steeper ramp would be a step.
    let least_width = small / SMALL_SEGMENTS;
    let width = (facts.limit.saturating_sub(soft) / 3 * WIDTH_THIRDS).max(least_width);
    let growth = 1.0 + facts.flushed_share - facts.insert_share * facts.ceiling;
    let growth = growth.max(LEAST_GROWTH);
    let over = (facts.allocated as f64 - soft as f64) / growth;
    let rate = match facts.freed_per_second {
        0 => USUAL_RATE,
        measured => measured.clamp(RATES.0, RATES.1),
    };
    let inline_memtable_bytes = inline_memtable_bytes(facts, soft);
    SpacePace {
        soft_bytes: (facts.log_bytes as f64 - over) as i64,
        width_bytes: (width as f64 / growth) as u64,
        nanos_per_byte: 1e9 / rate as f64,
        memtable_bytes: memtable_bytes(facts, inline_memtable_bytes),
        inline_memtable_bytes,
    }
}

/// Returns the bytes by which a database may exceed its live ones before writers are held up.
fn small_bytes(facts: &PaceFacts) -> u64 {
    let segments = facts.segment_bytes.saturating_mul(SMALL_SEGMENTS);
    let small = segments.clamp(SMALL_BYTES.0, SMALL_BYTES.1);
    // Of a database of fewer bytes than the most, flushes give nothing back for the sake of space.
    let tiny = SMALL_BYTES.1.saturating_sub(facts.live);
    small.min((facts.slack / SMALL_PART).max(SMALL_BYTES.0).max(tiny))
}

/// Returns the bytes at which a memtable is full. One of pointers alone takes little of the slack.
fn memtable_bytes(facts: &PaceFacts, inline: u64) -> u64 {
    if facts.flushed_share < 0.5 { u64::MAX } else { inline }
}

/// Returns the bytes at which a memtable with all values is full.
fn inline_memtable_bytes(facts: &PaceFacts, soft: u64) -> u64 {
    let part = if facts.allocated > soft { MEMTABLE_PART } else { FAR_MEMTABLE_PART };
    (facts.slack / part / facts.memtables).max(LEAST_MEMTABLE_BYTES)
}

impl SpacePace {
    /// The pace without any delay.
    pub const NONE: SpacePace = SpacePace {
        soft_bytes: i64::MAX,
        width_bytes: 1,
        nanos_per_byte: 0.0,
        memtable_bytes: u64::MAX,
        inline_memtable_bytes: u64::MAX,
    };

    /// Returns the delay in nanoseconds per byte when `log_bytes` of log were written.
    pub fn at(&self, log_bytes: u64) -> f64 {
        let over = log_position(log_bytes).saturating_sub(self.soft_bytes).max(0) as f64;
        let part = over / self.width_bytes.max(1) as f64;
        self.nanos_per_byte * (AT_FULL_WIDTH * part * part).min(LARGEST)
    }

    /// Returns true if the delay when `log_bytes` of log were written is one that a writer feels.
    /// GC that rests goes on at the very beginning of the delays, so those alone are no sign that
    /// it does not keep up.
    pub fn is_felt(&self, log_bytes: u64) -> bool {
        let is_on = log_position(log_bytes) > self.soft_bytes;
        is_on && self.at(log_bytes) * FELT_PART >= self.nanos_per_byte
    }

    /// Returns the length of the place in the queue, in nanoseconds, that a commit of `bytes` bytes
    /// takes when `log_bytes` of log were written.
    pub fn cost(&self, bytes: u64, log_bytes: u64) -> u64 {
        (self.at(log_bytes) * bytes as f64).min(LONGEST.as_nanos() as f64) as u64
    }
}

/// Returns `bytes` of log as a position on the scale of [`SpacePace::soft_bytes`].
#[inline]
pub fn log_position(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Returns until when places in the queue are taken once a commit has taken one of length `cost`
/// at the time `now`, if they were taken until `taken` before. All times are in nanoseconds.
pub fn take_place(taken: u64, now: u64, cost: u64) -> u64 {
    (taken.max(now) + cost).min(now + LONGEST.as_nanos() as u64)
}

/// Returns true if a commit whose place ends at `until` waits for that, and false if the wait is
/// left to later commits. Both times are in nanoseconds.
pub fn is_worth_waiting(now: u64, until: u64) -> bool {
    until - now >= SHORTEST.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: SpacePace =
        SpacePace { soft_bytes: 1000, width_bytes: 1000, nanos_per_byte: 10.0, ..SpacePace::NONE };

    #[test]
    fn delays_rise_smoothly_from_nothing_to_a_bound() {
        assert_eq!([0, 999, 1000].map(|bytes| PACE.at(bytes)), [0.0; 3]);
        assert_eq!((PACE.at(1500), PACE.at(2000)), (10.0, 40.0));
        assert!(PACE.at(1001) < 0.001, "no step");
        assert_eq!(PACE.at(u64::MAX), 80.0);
        let long_ago = SpacePace { soft_bytes: -500, ..PACE };
        assert_eq!(long_ago.at(0), 10.0);
        assert_eq!(SpacePace::NONE.at(u64::MAX), 0.0);
    }

    #[test]
    fn before_counting_writers_get_the_usual_rate_at_the_least() {
        let pace = SpacePace { nanos_per_byte: 1e9 / RATE_BEFORE_COUNTING as f64, ..PACE };
        let nanos = pace.at(u64::MAX) * USUAL_RATE as f64;
        assert!((nanos / 1e9 - 1.0).abs() < 1e-9, "{nanos}");
        assert!(RATE_BEFORE_COUNTING < RATES.1, "it is taken as it is");
    }
}

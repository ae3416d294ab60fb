//! Estimates how much is live between two liveness scans, when the next one is due, and how much
//! writers are held up meanwhile. Pure.
//!
//! Only a liveness scan determines how much is live. From then on puts may be inserts, which add
//! live bytes, or overwrites, which replace others. There are two estimates. One uses the share of
//! inserts before the last liveness scan; it is the likely one, and the bounds of space apply to
//! it. The other assumes no inserts, so it can't be too high; it decides when to count again.

use crate::commit::pace::SpacePace;
use crate::gc::bounds::SpaceBounds;
use crate::gc::picker::Mode;

/// The result of a liveness scan, with what was written until then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveCount {
    /// Bytes of live keys and values as they are stored.
    pub live_bytes: u64,
    /// Number of live keys.
    pub live_records: u64,
    /// The counters of writes when the scan began.
    pub written: Written,
}

/// The counters of user writes since the opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of keys and values put, as stored.
    pub put_bytes: u64,
    /// Number of deletions.
    pub deletes: u64,
}

/// The estimate of what is live.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveEstimate {
    last: Option<LiveCount>,
    /// The share of the bytes put that were inserts; `None` until two liveness scans have shown it.
    insert_share: Option<f64>,
}

/// Least part (one in this many) of the live bytes that has to be put between two liveness scans to
/// measure the share of inserts. With fewer puts, deletions of keys that do not exist would decide.
const LEAST_SAMPLE_PART: u64 = 100;

impl LiveEstimate {
    /// Learns from a liveness scan.
    pub fn count(&mut self, counted: LiveCount) {
        if let Some(before) = self.last.replace(counted) {
            let Since { puts, deleted } = before.since(counted.written);
            if puts > before.live_bytes / LEAST_SAMPLE_PART {
                let inserted = (counted.live_bytes + deleted).saturating_sub(before.live_bytes);
                self.insert_share = Some((inserted as f64 / puts as f64).min(1.0));
            }
        }
    }

    /// Returns the share of the bytes put that count as inserts: all, until it was measured.
    pub fn insert_share(&self) -> f64 {
        self.insert_share.unwrap_or(1.0)
    }

    /// Returns the live bytes if puts are inserts as often as before the last liveness scan.
    pub fn likely(&self, written: Written) -> u64 {
        self.with_share(self.insert_share(), written)
    }

    /// Returns the live bytes if every put was an overwrite.
    pub fn at_least(&self, written: Written) -> u64 {
        self.with_share(0.0, written)
    }

    fn with_share(&self, share: f64, written: Written) -> u64 {
        // Without a liveness scan only what was written since the opening is counted.
        let last = self.last.unwrap_or_default();
        let Since { puts, deleted } = last.since(written);
        (last.live_bytes + (share * puts as f64) as u64).saturating_sub(deleted)
    }
}

/// The writes since a liveness scan.
struct Since {
    puts: u64,
    /// Bytes deleted, if every deletion removed a record of mean length.
    deleted: u64,
}

impl LiveCount {
    fn since(&self, written: Written) -> Since {
        let deletes = written.deletes.saturating_sub(self.written.deletes);
        let mean = self.live_bytes / self.live_records.max(1);
        Since {
            puts: written.put_bytes.saturating_sub(self.written.put_bytes),
            deleted: deletes.saturating_mul(mean),
        }
    }
}

/// The facts that decide when the next liveness scan is due.
#[derive(Debug, Clone, Copy)]
pub struct LivenessScanNeed {
    /// Allocated bytes of all files.
    pub allocated: u64,
    /// The bounds of space.
    pub bounds: SpaceBounds,
    /// The task of value GC, which is neither off nor paused.
    pub mode: Mode,
    /// The counters of user writes.
    pub written: Written,
    /// True if nothing is left to free of what the last liveness scan found.
    pub exhausted: bool,
}

/// While its findings last, a liveness scan serves until this part (one in this many) of the live
/// bytes was rewritten.
const RENEW_PART: u64 = 8;
/// Once its findings are used up, or while the database is idle, a liveness scan serves until this
/// part (one in this many) of the live bytes was rewritten.
const HURRY_PART: u64 = 64;

impl LiveEstimate {
    /// Returns true if a liveness scan is due: space may be over its bound, and enough was written
    /// since the last one to find more. The time that counting takes stays in proportion to what is
    /// written.
    pub fn is_liveness_scan_due(&self, need: &LivenessScanNeed) -> bool {
        let Some(last) = self.last else {
            return true;
        };
        let Since { puts, deleted } = last.since(need.written);
        let changed = puts + deleted;
        let is_idle = matches!(need.mode, Mode::Idle | Mode::Low);
        // Time that users leave is enough for what was found, not for looking more often.
        let hurries = is_idle || need.exhausted && need.mode != Mode::Spare;
        let part = if hurries { HURRY_PART } else { RENEW_PART };
        if changed == 0 || changed < last.live_bytes / part {
            return false;
        }
        let at_least = self.at_least(need.written);
        let marks = need.bounds.of(need.mode, at_least);
        // Until a share of inserts was measured, space may exceed the bound unnoticed. If a scan
        // began only at the bound, overwriting writers would be far above it by the end of the
        // scan.
        let mark = match self.insert_share {
            Some(_) => marks.start(),
            None => marks.half_way(),
        };
        is_idle || need.allocated > mark
    }
}

/// The facts that decide how much writers are held up.
#[derive(Debug, Clone, Copy)]
pub struct PaceFacts {
    /// Allocated bytes of all files but those that GC is writing just now; recorded holes that are
    /// due to be punched count as allocated.
    pub allocated: u64,
    /// The bounds of space.
    pub bounds: SpaceBounds,
    /// The likely estimate of live bytes.
    pub live: u64,
    /// The share of the bytes put that count as inserts.
    pub insert_share: f64,
    /// Bytes of log written since the opening.
    pub log_bytes: u64,
    /// Bytes that GC can win, at once or after a flush. While there are none, or GC is off or
    /// paused, delays of writers would be useless.
    pub winnable: u64,
    /// Bytes per second that GC frees while it works; 0 if that was not measured yet.
    pub freed_per_second: u64,
}

/// Databases may exceed their live bytes by this many bytes before writers are held up: that is a
/// few flushes and segments, and below it no ratio means much.
const SMALL_BYTES: u64 = 16 << 20;
/// Least width in bytes of the ramp from no delay to the longest.
const LEAST_WIDTH: u64 = 4 << 20;
/// The rate of freeing, in bytes per second, that is assumed until it was measured.
const USUAL_RATE: u64 = 64 << 20;
/// The least and the highest rate, in bytes per second; values outside come from bad measurements.
const RATES: (u64, u64) = (4 << 20, 2 << 30);
/// Least growth of space per byte written; it replaces a smaller computed one.
const LEAST_GROWTH: f64 = 0.05;

/// Returns from where on writers are held up, and how much. The marks are positions of the log's
/// length, which writers can read: each byte that is put adds one byte to the space, and its share
/// of inserts, times the ceiling, to the space that is allowed.
pub fn pace(facts: &PaceFacts) -> SpacePace {
    if facts.winnable == 0 {
        return SpacePace::NONE;
    }
    let ceiling = facts.bounds.ceiling(facts.live);
    let soft = ceiling.start().max(facts.live + SMALL_BYTES);
    let width = ceiling.limit().saturating_sub(soft).max(LEAST_WIDTH);
    let growth = 1.0 - facts.insert_share * facts.bounds.ceiling;
    let growth = growth.max(LEAST_GROWTH);
    let over = (facts.allocated as f64 - soft as f64) / growth;
    let rate = match facts.freed_per_second {
        0 => USUAL_RATE,
        measured => measured.clamp(RATES.0, RATES.1),
    };
    SpacePace {
        soft_bytes: (facts.log_bytes as f64 - over) as i64,
        width_bytes: (width as f64 / growth) as u64,
        nanos_per_byte: 1e9 / rate as f64,
    }
}

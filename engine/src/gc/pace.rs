//! How much is live between two liveness scans, when the next one is due, and how much writers are
//! held up meanwhile. Pure.
//!
//! Only a liveness scan knows how much is live. From then on puts may be inserts, which are live
//! besides all else, or overwrites, which are live instead of something else. Two estimates follow:
//! by the share of inserts before the last liveness scan, to judge by; and by none at all, which
//! can't be too high, to see when it is time to count again.

use crate::commit::pace::SpacePace;
use crate::gc::target::SpaceTarget;

/// What a liveness scan found, and the counters when it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveCount {
    /// Live keys and values as they are stored, in bytes.
    pub live_bytes: u64,
    /// How many keys.
    pub live_records: u64,
    /// What was written until then.
    pub written: Written,
}

/// What users wrote since the opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Keys and values put, as stored, in bytes.
    pub put_bytes: u64,
    /// Deletions.
    pub deletes: u64,
}

/// An estimate of what is live.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveEstimate {
    last: Option<LiveCount>,
    /// The share of the bytes put that were inserts, once two liveness scans have told.
    insert_share: Option<f64>,
}

/// Between two liveness scans at least this part of the live bytes has to be put, or the share of
/// inserts is left as it was: deletions of keys that do not exist would say more than the puts.
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

    /// The share of the bytes put that are taken for inserts: all, as long as nothing is known.
    pub fn insert_share(&self) -> f64 {
        self.insert_share.unwrap_or(1.0)
    }

    /// Live bytes, if puts are inserts as often as before the last liveness scan.
    pub fn likely(&self, written: Written) -> u64 {
        self.with_share(self.insert_share(), written)
    }

    /// Live bytes, if every put was an overwrite.
    pub fn at_least(&self, written: Written) -> u64 {
        self.with_share(0.0, written)
    }

    fn with_share(&self, share: f64, written: Written) -> u64 {
        // Without a liveness scan only what was written since the opening is known of.
        let last = self.last.unwrap_or_default();
        let Since { puts, deleted } = last.since(written);
        (last.live_bytes + (share * puts as f64) as u64).saturating_sub(deleted)
    }
}

/// What was written since a liveness scan.
struct Since {
    puts: u64,
    /// Bytes deleted, if every deletion hit a mean record.
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

/// What decides when to count again.
#[derive(Debug, Clone, Copy)]
pub struct LivenessScanNeed {
    /// Allocated bytes of all files.
    pub allocated: u64,
    /// The space target.
    pub max_space_amplification: f64,
    /// What was written until now.
    pub written: Written,
    /// True if nobody writes or reads: a liveness scan is in nobody's way.
    pub idle: bool,
    /// True if nothing is left to take that the last liveness scan found.
    pub exhausted: bool,
}

/// While its findings last, a liveness scan serves until this part of the live bytes was
/// rewritten...
const RENEW_PART: u64 = 8;
/// ...and until this part once they are used up, or while nobody is in the way.
const HURRY_PART: u64 = 64;

impl LiveEstimate {
    /// True if it is time for a liveness scan: space may be over the target, and enough was written
    /// since the last one to find more than that one did. The time counting takes stays in
    /// proportion to what is written.
    pub fn is_liveness_scan_due(&self, need: &LivenessScanNeed) -> bool {
        let Some(last) = self.last else {
            return true;
        };
        let Since { puts, deleted } = last.since(need.written);
        let changed = puts + deleted;
        let part = if need.exhausted || need.idle { HURRY_PART } else { RENEW_PART };
        if changed == 0 || changed < last.live_bytes / part {
            return false;
        }
        let at_least = self.at_least(need.written);
        let target = SpaceTarget::new(at_least, need.max_space_amplification);
        // While no share of inserts was learned, space may be over the target unseen; writers that
        // overwrite would be far over it by the time a liveness scan is done that begins there.
        let mark = match self.insert_share {
            Some(_) => target.start(),
            None => target.half_way(),
        };
        need.idle || need.allocated > mark
    }
}

/// What decides how much writers are held up.
#[derive(Debug, Clone, Copy)]
pub struct PaceFacts {
    /// Allocated bytes of all files, less what GC is writing just now.
    pub allocated: u64,
    /// The space target.
    pub max_space_amplification: f64,
    /// Live bytes, as is likely.
    pub live: u64,
    /// The share of the bytes put that are taken for inserts.
    pub insert_share: f64,
    /// Bytes of log written since the opening.
    pub log_bytes: u64,
    /// Bytes that GC can win, after a flush or at once. While that is nothing, or while GC is
    /// off or paused, holding writers up would help nobody.
    pub winnable: u64,
    /// Bytes a second that GC frees while it works; 0 if it has not yet.
    pub freed_per_second: u64,
}

/// Databases may exceed their live bytes by this much before writers are held up: that is a
/// few flushes and segments, and no ratio means much below.
const SMALL_BYTES: u64 = 16 << 20;
/// The least way from no delay to the longest.
const LEAST_WIDTH: u64 = 4 << 20;
/// What GC is taken to free before it was measured.
const USUAL_RATE: u64 = 64 << 20;
/// Rates out of this range are of bad measurements.
const RATES: (u64, u64) = (4 << 20, 2 << 30);
/// Space that hardly grows by writing is taken to grow by this part of it.
const LEAST_GROWTH: f64 = 0.05;

/// From where on writers are to be held up, and how much. In the language of the log's length,
/// which writers know: each byte that is put adds itself to the space, and its share of inserts,
/// times the target, to what may be taken.
pub fn pace(facts: &PaceFacts) -> SpacePace {
    if facts.winnable == 0 {
        return SpacePace::NONE;
    }
    let target = SpaceTarget::new(facts.live, facts.max_space_amplification);
    let soft = target.start().max(facts.live + SMALL_BYTES);
    let width = target.hard().saturating_sub(soft).max(LEAST_WIDTH);
    let growth = 1.0 - facts.insert_share * facts.max_space_amplification;
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

//! Estimates how much is live between two liveness scans, and when the next one is due. Pure.
//!
//! Only a liveness scan determines how much is live. From then on puts may be inserts, which add
//! live bytes, or overwrites, which replace others. There are two estimates. One uses the share of
//! inserts before the last liveness scan; it is the likely one, and the bounds of space apply to
//! it. The other assumes no inserts, so it can't be too high; it decides when to count again.

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
    /// Bytes of live keys and values that were inserted since the opening, if the scan told.
    pub inserted_bytes: Option<u64>,
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
    /// The share of the bytes put that were inserts; `None` until liveness scans have shown it.
    insert_share: Option<f64>,
}

/// Least part (one in this many) of the live bytes that has to be put between two liveness scans to
/// measure the share of inserts. With fewer puts, deletions of keys that do not exist would decide.
const LEAST_SAMPLE_PART: u64 = 100;

impl LiveEstimate {
    /// Learns from a liveness scan. The first one after an opening tells by the ages of entries
    /// what was inserted; from then on more or less is live than before.
    pub fn count(&mut self, counted: LiveCount) {
        let (puts, inserted, live_bytes) = match self.last.replace(counted) {
            Some(before) => {
                let Since { puts, deleted } = before.since(counted.written);
                let more = (counted.live_bytes + deleted).saturating_sub(before.live_bytes);
                (puts, Some(more), before.live_bytes)
            }
            None => (counted.written.put_bytes, counted.inserted_bytes, counted.live_bytes),
        };
        let Some(inserted) = inserted else { return };
        if puts > live_bytes / LEAST_SAMPLE_PART {
            self.insert_share = Some((inserted as f64 / puts as f64).min(1.0));
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
    /// Bytes that the last liveness scan found live, and that no table references any more.
    pub unreferenced_since: u64,
    /// True if nothing is left to free of what the last liveness scan found.
    pub exhausted: bool,
}

/// While its findings last, a liveness scan serves until this part (one in this many) of the
/// ceiling's slack was rewritten. What died since is moved in vain. With ten million keys of 1 KiB,
/// a half instead of a quarter costs 0.12 bytes written more for each byte put, and an eighth is
/// 5 % slower (`bench/record/2026-11-26-many-keys.md`).
const RENEW_PART: u64 = 4;
/// The same part of the settled bound's slack: there is no hurry.
const SPARE_RENEW_PART: u64 = 2;
/// Once its findings are used up, or while the database is idle, a liveness scan serves until this
/// part (one in this many) of the live bytes was rewritten.
const HURRY_PART: u64 = 64;

/// While at least this share of the bytes put were inserts...
const MOSTLY_INSERTED: f64 = 0.9;
/// ...and at most this part (one in this many) of what came since is dead or hides something, a
/// sample of keys stands for a liveness scan. A load of 4 million values of 1 KiB spends a twelfth
/// of its processor time on liveness scans otherwise, which find nothing to free.
const HIDDEN_PART: u64 = 16;
/// Of what came since, at most this part (one in this many) may be in memtables, where a sample
/// does not look.
const UNFLUSHED_PART: u64 = 4;

impl LiveEstimate {
    /// Returns true if a sample of keys may show that the liveness scan that is due would find
    /// hardly anything: users insert, space is below its bound if they go on with that, and few of
    /// the bytes put since the last scan are known to be dead.
    pub fn may_do_without(&self, need: &LivenessScanNeed, dead_since: u64) -> bool {
        let puts = self.last.unwrap_or_default().since(need.written).puts;
        let likely = self.likely(need.written);
        matches!(need.mode, Mode::Busy | Mode::Spare)
            && self.insert_share.is_some_and(|share| share >= MOSTLY_INSERTED)
            && dead_since <= puts / HIDDEN_PART
            && need.allocated <= need.bounds.of(need.mode, likely).start()
    }

    /// Takes the likely estimate for a count, if a sample of keys confirms it: `hidden_entries`
    /// hide older ones in all tables, which have all that was written but for `unflushed` bytes.
    /// Returns false if users may have begun to overwrite.
    pub fn grow(&mut self, written: Written, unflushed: u64, hidden_entries: u64) -> bool {
        let last = self.last.unwrap_or_default();
        let mean = (last.live_bytes / last.live_records.max(1)).max(1);
        let puts = last.since(written).puts;
        let is_confirmed = unflushed <= puts / UNFLUSHED_PART
            && hidden_entries.saturating_mul(mean) <= puts / HIDDEN_PART;
        if is_confirmed {
            let written = Written { put_bytes: written.put_bytes - unflushed, ..written };
            let live_bytes = self.likely(written);
            let live_records = live_bytes / mean;
            let grown = LiveCount { live_bytes, live_records, written, inserted_bytes: None };
            self.last = Some(grown);
        }
        is_confirmed
    }

    /// Returns true if a liveness scan is due: space may be over its bound, and enough was written
    /// since the last one to find more. The time that counting takes stays in proportion to what is
    /// written.
    pub fn is_liveness_scan_due(&self, need: &LivenessScanNeed) -> bool {
        let Some(last) = self.last else {
            return true;
        };
        let Since { puts, deleted } = last.since(need.written);
        // What no table references any more was mostly overwritten or deleted. Otherwise it went
        // with its keyspace or its range, or has expired.
        let gone = need.unreferenced_since.saturating_sub(puts + deleted);
        let changed = puts + deleted + gone;
        let is_idle = matches!(need.mode, Mode::Idle | Mode::Low);
        // Time that users leave is enough for what was found, not for looking more often.
        let hurries = is_idle || need.exhausted && need.mode != Mode::Spare;
        let at_least = self.at_least(need.written).saturating_sub(gone);
        let marks = need.bounds.of(need.mode, at_least);
        let enough = match need.mode {
            _ if hurries => last.live_bytes / HURRY_PART,
            Mode::Spare => marks.slack() / SPARE_RENEW_PART,
            _ => marks.slack() / RENEW_PART,
        };
        if changed == 0 || changed < enough {
            return false;
        }
        // Where most of what is put counts as inserted, space may exceed the bound unnoticed once
        // users overwrite. If a scan began only at the bound, they would be far above it by the end
        // of the scan.
        let mark = match self.insert_share() < MOSTLY_INSERTED {
            true => marks.start(),
            false => marks.half_way().min(marks.start()),
        };
        is_idle || need.allocated > mark
    }
}

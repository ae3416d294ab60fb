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
    /// The number of liveness scans.
    scans: u64,
}

/// Least part (one in this many) of the live bytes that has to be put between two liveness scans to
/// measure the share of inserts. With fewer puts, deletions of keys that do not exist would decide.
const LEAST_SAMPLE_PART: u64 = 100;

impl LiveEstimate {
    /// Returns true once a liveness scan has told something.
    pub fn is_counted(&self) -> bool {
        self.scans > 0
    }

    /// Learns what was live at the opening, as far as the first liveness scan still found it.
    pub fn open(&mut self, live_bytes: u64, live_records: u64) {
        self.last = Some(LiveCount { live_bytes, live_records, written: Written::default() });
    }

    /// Learns from a liveness scan.
    pub fn count(&mut self, counted: LiveCount) {
        self.scans += 1;
        if let Some(before) = self.last.replace(counted) {
            // Where nothing was live before, what was deleted is as long as what is live now.
            let sized = if before.live_records > 0 { before } else { counted };
            let deletes = before.deletes_since(counted.written);
            let deleted = deletes.saturating_mul(sized.mean_bytes());
            let puts = before.since(counted.written).puts;
            if puts > before.live_bytes / LEAST_SAMPLE_PART {
                let now = counted.live_bytes.saturating_add(deleted);
                let inserted = now.saturating_sub(before.live_bytes);
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

impl Since {
    /// Returns the bytes that went with their keyspace or their range, or have expired. What no
    /// table references any more was mostly overwritten or deleted.
    fn gone(&self, unreferenced_since: u64) -> u64 {
        unreferenced_since.saturating_sub(self.puts.saturating_add(self.deleted))
    }

    /// Returns the bytes that died, if all that was put overwrote something.
    fn changed(&self, unreferenced_since: u64) -> u64 {
        let written = self.puts.saturating_add(self.deleted);
        written.saturating_add(self.gone(unreferenced_since))
    }
}

/// The last liveness scan, and what may have died since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinceScan {
    /// Live bytes that it found.
    pub live_bytes: u64,
    /// Mean bytes of a record.
    pub record_bytes: u64,
    /// Bytes that died since, at most: if all that was put overwrote something.
    pub died: u64,
}

impl LiveCount {
    fn since(&self, written: Written) -> Since {
        Since {
            puts: written.put_bytes.saturating_sub(self.written.put_bytes),
            deleted: self.deletes_since(written).saturating_mul(self.mean_bytes()),
        }
    }

    fn deletes_since(&self, written: Written) -> u64 {
        written.deletes.saturating_sub(self.written.deletes)
    }

    fn mean_bytes(&self) -> u64 {
        self.live_bytes / self.live_records.max(1)
    }

    /// Returns how many bytes may be rewritten below a ceiling with so much `slack` before another
    /// scan is worth its time, while there are findings left.
    fn renewed_after(&self, slack: u64) -> u64 {
        let walked = self.live_records.saturating_mul(BYTES_PER_ENTRY);
        walked.clamp(slack / RENEW_PART, slack / LATEST_RENEW_PART)
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
/// It serves longer where it takes long, as a tight ceiling has many small values below it: until
/// so many bytes for each live entry were rewritten. With 128, overwrites of 1 KiB at a ceiling of
/// 1.3 take a twelfth less processor time, for a hundredth more bytes
/// (`bench/record/2026-11-29-fewer-scans.md`).
const BYTES_PER_ENTRY: u64 = 128;
/// But at most until this part (one in this many) of the slack was. Of the settled bound's slack it
/// is always this part: there is no hurry.
pub const LATEST_RENEW_PART: u64 = 2;
/// Once its findings are used up, or while the database is idle, a liveness scan serves until this
/// part (one in this many) of the live bytes was rewritten.
pub const HURRY_PART: u64 = 64;
/// Where a job waits for room, a liveness scan serves until it may find that, and until this part
/// (one in this many) of the live bytes has died at least.
const ASKED_PART: u64 = 16;

impl LiveEstimate {
    /// Returns what may have died since the last liveness scan, where users wrote so much by now,
    /// and so many of the bytes it found live are no longer referenced; `None` without a scan.
    pub fn since_scan(&self, written: Written, unreferenced_since: u64) -> Option<SinceScan> {
        let last = self.last?;
        Some(SinceScan {
            live_bytes: last.live_bytes,
            record_bytes: last.mean_bytes(),
            died: last.since(written).changed(unreferenced_since),
        })
    }

    /// Returns true if so many bytes, of what the last liveness scan found live, have died that
    /// another one is worth its time wherever garbage is looked for.
    pub fn is_worth_a_scan(&self, died: u64) -> bool {
        let live_bytes = self.last.map_or(0, |last| last.live_bytes);
        died > 0 && died >= live_bytes / HURRY_PART
    }

    /// Returns true if a liveness scan is due: space may be over its bound, and enough was written
    /// since the last one to find more. The time that counting takes stays in proportion to what is
    /// written.
    pub fn is_liveness_scan_due(&self, need: &LivenessScanNeed) -> bool {
        let Some(last) = self.last else {
            return true;
        };
        let since = last.since(need.written);
        let gone = since.gone(need.unreferenced_since);
        let changed = since.changed(need.unreferenced_since);
        let is_idle = matches!(need.mode, Mode::Idle | Mode::Low);
        let hurries = match need.mode {
            _ if is_idle => true,
            // Time that users leave is enough for what was found, not for looking more often.
            Mode::Spare => self.may_find_room(need, last),
            _ => need.exhausted,
        };
        let at_least = self.at_least(need.written).saturating_sub(gone);
        let marks = need.bounds.of(need.mode, at_least);
        let enough = match need.mode {
            _ if hurries => last.live_bytes / HURRY_PART,
            Mode::Spare => marks.slack() / LATEST_RENEW_PART,
            _ => last.renewed_after(marks.slack()),
        };
        if changed == 0 || changed < enough {
            return false;
        }
        // As long as the share of inserts is unknown, or that since the opening, space may exceed
        // the bound unnoticed. If a scan began only at the bound, overwriting writers would be far
        // above it by the end of the scan.
        let mark = match self.insert_share {
            Some(_) if self.scans > 1 => marks.start(),
            _ => marks.half_way().min(marks.start()),
        };
        is_idle || need.allocated > mark
    }

    /// Returns true if a job waits for room, and as much as it lacks has died, as values were put
    /// in order for scans.
    fn may_find_room(&self, need: &LivenessScanNeed, last: LiveCount) -> bool {
        let (asked, live) = (need.bounds.asked_room, self.at_least(need.written));
        let lacks = need.allocated.saturating_add(asked);
        let lacks = lacks.saturating_sub(need.bounds.start_of_jobs(live));
        asked > 0 && need.unreferenced_since >= lacks.max(last.live_bytes / ASKED_PART)
    }
}

//! Chooses when the medium values of a keyspace are separated that leaves it to the engine
//! ([`Separation::Auto`]): as they are written, so that they stay in the log (WiscKey), or by the
//! flush, in the order of keys (Titan).
//!
//! A flush leaves values in runs in which a scan reads neighbours at once, and what is overwritten
//! before dies in the memtable. What that costs depends on the log. The device mostly never takes
//! it (`commit/wal_only.rs`): then the flush writes a value for the first time, and nothing speaks
//! for another time. If commits are synced, or the log is kept for another reason, the flush writes
//! all values once more, and only scans pay for that.
//!
//! Overwrites speak for neither time by themselves. What is overwritten soon dies in the memtable
//! if it is separated at flush; but where the log is not spared, the device has had all of it, and
//! writing what survives once more only adds to that. So the update table has nothing to say here.
//! Nor is the choice made for ranges of keys: values of ranges that are scanned are brought into
//! order by compactions (`compaction/scan_order.rs`), each for what its own scans have paid.
//!
//! What is known is in memory only. An opening begins at flush, as most programs don't sync each
//! commit, and a memtable or two tell otherwise.

use crate::base::size::sized;
use crate::env::sync::Mutex;
use crate::version::settings::{KeyspaceOptions, Separation};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A choice needs so many bytes of values that were written since the last one, or as many as a
/// memtable has, if that is less.
const LEAST_EVIDENCE: u64 = 16 << 20;
/// Percent of the bytes written of whose log the device must be spared for a flush to separate
/// them.
const SPARED_PERCENT: u64 = 70;
/// Percent below which that has ended. Between the two the choice stays as it is: where every other
/// flush spares the log, as what was known counts half after each choice, there are two thirds and
/// one third by turns.
const KEPT_PERCENT: u64 = 30;
/// Scans have ended once they would waste less than this part, one in so many, of what is written,
/// if all values were strewn.
const SCANNED_PART: u64 = 2;
/// Scans count up to so many times what is written, so that those of long ago are forgotten.
const MOST_SCANNED: u64 = 4;

/// What was learned of the medium values of a keyspace, in bytes. After each choice it counts half.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeparationEvidence {
    /// The bytes that were written.
    pub written: u64,
    /// Those of them whose log the device is spared, if they are separated at flush.
    pub spared: u64,
    /// What reads would have cost cursors if all values had been strewn, in bytes that could have
    /// been moved in that time.
    pub scanned: u64,
    /// What it cost them that some were.
    pub waste: u64,
}

impl SeparationEvidence {
    fn with(self, new: SeparationEvidence) -> SeparationEvidence {
        SeparationEvidence {
            written: self.written.saturating_add(new.written),
            spared: self.spared.saturating_add(new.spared),
            scanned: self.scanned.saturating_add(new.scanned),
            waste: self.waste.saturating_add(new.waste),
        }
    }

    /// Says in words what speaks for `reason` and against it.
    pub fn describe(&self, reason: SeparationReason) -> String {
        let SeparationEvidence { written, spared, scanned, waste } = *self;
        if written == 0 {
            return "as each opening begins".to_owned();
        }
        let (verb, scans) = match reason {
            // Values that were written in order cost scans nothing; what if they had not been?
            SeparationReason::Scanned => ("would cost", scanned),
            _ => ("cost", waste),
        };
        let [written, spared, scans] = [written, spared, scans].map(sized);
        format!(
            "the log of {spared} of {written} flushed is spared; strewn values {verb} scans \
             {scans}, their order costs {written}"
        )
    }

    fn halved(self) -> SeparationEvidence {
        let most = self.written.saturating_mul(MOST_SCANNED);
        SeparationEvidence {
            written: self.written / 2,
            spared: self.spared / 2,
            scanned: self.scanned.min(most) / 2,
            waste: self.waste.min(most) / 2,
        }
    }
}

/// When the medium values of a keyspace are separated, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SeparationReason {
    /// At flush, because the log does not get to the device.
    #[default]
    LogSpared,
    /// At write, because the log gets to the device in any case.
    LogKept,
    /// At flush, because scans would find those in the log strewn.
    Scanned,
}

impl SeparationReason {
    const ALL: [SeparationReason; 3] =
        [SeparationReason::LogSpared, SeparationReason::LogKept, SeparationReason::Scanned];

    /// Returns the name of the reason, as in statistics and events.
    pub fn name(self) -> &'static str {
        match self {
            SeparationReason::LogSpared => "log_spared",
            SeparationReason::LogKept => "log_kept",
            SeparationReason::Scanned => "scanned",
        }
    }

    /// Returns the reason with this name, if there is one.
    pub fn from_name(name: &str) -> Option<SeparationReason> {
        SeparationReason::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// Returns when values are separated.
    pub fn separation(self) -> Separation {
        match self {
            SeparationReason::LogKept => Separation::AtWrite,
            SeparationReason::LogSpared | SeparationReason::Scanned => Separation::AtFlush,
        }
    }
}

/// Returns of how many of `bytes` bytes of values the device is spared the log, if it is spared
/// `spared_log_bytes` of `all_bytes`: of the memtables that had them, or of the log of before.
pub fn spared_part(bytes: u64, spared_log_bytes: u64, all_bytes: u64) -> u64 {
    let share = spared_log_bytes as f64 / all_bytes.max(1) as f64;
    (bytes as f64 * share.min(1.0)) as u64
}

/// Chooses anew; `now` is the choice in force.
pub fn choose(now: SeparationReason, evidence: &SeparationEvidence) -> SeparationReason {
    let SeparationEvidence { written, spared, scanned, waste } = *evidence;
    let percent = if now == SeparationReason::LogSpared { KEPT_PERCENT } else { SPARED_PERCENT };
    let is_log_spared = spared.saturating_mul(100) >= written.saturating_mul(percent);
    let are_scanned = match now {
        // Values in order cost scans nothing too much, so the waste says nothing any more.
        SeparationReason::Scanned => scanned >= written / SCANNED_PART,
        _ => waste >= written,
    };
    match (is_log_spared, are_scanned) {
        (true, _) => SeparationReason::LogSpared,
        (false, true) => SeparationReason::Scanned,
        (false, false) => SeparationReason::LogKept,
    }
}

/// The choice of one keyspace, and what is known for the next one.
///
/// Locks: `known` is a leaf.
#[derive(Default)]
pub struct SeparationChoice {
    reason: AtomicU8,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    evidence: SeparationEvidence,
    /// Bytes that were written since the last choice.
    new_bytes: u64,
    /// What the last choice was made from; all 0 before the first.
    chosen_from: SeparationEvidence,
}

impl SeparationChoice {
    /// Returns the choice in force.
    #[inline]
    pub fn reason(&self) -> SeparationReason {
        SeparationReason::ALL[usize::from(self.reason.load(Relaxed))]
    }

    /// Returns what [`Separation::Auto`] stands for at the moment.
    #[inline]
    pub fn now(&self) -> Separation {
        self.reason().separation()
    }

    /// Returns the choice in force, and what was known when it was made or confirmed last.
    pub fn told(&self) -> (SeparationReason, SeparationEvidence) {
        let known = self.known.lock();
        (self.reason(), known.chosen_from)
    }

    /// Adds what a flush of the keyspace has found, with what scans have cost since the last one.
    /// Returns what is known once so much is new that a choice can be made.
    pub fn add(
        &self,
        new: SeparationEvidence,
        options: &KeyspaceOptions,
    ) -> Option<SeparationEvidence> {
        let mut known = self.known.lock();
        let all = known.evidence.with(new);
        known.evidence = all;
        known.new_bytes += new.written;
        if known.new_bytes < LEAST_EVIDENCE.min(options.memtable_bytes) {
            return None;
        }
        (known.evidence, known.new_bytes) = (all.halved(), 0);
        Some(all)
    }

    /// Makes a choice from this evidence; returns true if the reason is another one than before,
    /// even if values are separated at the same time. What is in memtables stays as it is, and
    /// writes that have begun may still go by the old one: readers and flushes take both.
    pub fn set(&self, reason: SeparationReason, evidence: SeparationEvidence) -> bool {
        let mut known = self.known.lock();
        known.chosen_from = evidence;
        self.reason.swap(reason as u8, Relaxed) != reason as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::golden::{golden, number, pair};

    /// Runs a case: each line `written=64M spared=40M scanned=0 waste=0` is what is known then.
    /// Writes the choice after each, and why it was made.
    fn run(lines: &[&str]) -> String {
        let (mut now, mut text) = (SeparationReason::default(), String::new());
        for line in lines {
            let mut evidence = SeparationEvidence::default();
            for (name, value) in line.split_whitespace().map(pair) {
                match name {
                    "written" => evidence.written = number(value),
                    "spared" => evidence.spared = number(value),
                    "scanned" => evidence.scanned = number(value),
                    "waste" => evidence.waste = number(value),
                    _ => panic!("{name}"),
                }
            }
            now = choose(now, &evidence);
            let (separation, reason) = (now.separation().name(), now.name());
            text += &format!("{separation} {reason}: {}\n", evidence.describe(now));
        }
        text
    }

    #[test]
    fn golden_when_values_are_separated() {
        golden("version/testdata/separation.txt", run);
    }

    #[test]
    fn values_are_spared_in_proportion() {
        for (bytes, spared, memtable, expected) in
            [(800, 1000, 1000, 800), (800, 250, 1000, 200), (800, 1200, 1000, 800), (0, 0, 0, 0)]
        {
            assert_eq!(spared_part(bytes, spared, memtable), expected, "{spared} of {memtable}");
        }
    }

    #[test]
    fn a_choice_is_made_once_enough_was_written() {
        let choice = SeparationChoice::default();
        let options = KeyspaceOptions::default();
        let found = |written, spared, scanned, waste| SeparationEvidence {
            written,
            spared,
            scanned,
            waste,
        };
        assert_eq!(choice.add(found(10 << 20, 7 << 20, 100, 0), &options), None);
        let known = choice.add(found(10 << 20, 1 << 20, 1000, 16 << 10), &options).unwrap();
        assert_eq!((known.written, known.spared), (20 << 20, 8 << 20));
        assert_eq!((known.scanned, known.waste), (1100, 16 << 10));
        let small = KeyspaceOptions { memtable_bytes: 4 << 10, ..options };
        let known = choice.add(found(4 << 10, 0, 0, 0), &small).unwrap();
        assert_eq!((known.written, known.spared), ((10 << 20) + (4 << 10), 4 << 20), "half counts");
        assert_eq!((known.scanned, known.waste), (550, 8 << 10));
        let all = choice.add(found(4 << 20, 0, u64::MAX, u64::MAX), &small).unwrap();
        assert_eq!(all.waste, u64::MAX);
        let known = choice.add(found(4 << 20, 0, 0, 0), &small).unwrap();
        assert_eq!(known.waste, 2 * all.written, "scans of long ago are forgotten");
        assert_eq!(choice.now(), Separation::AtFlush);
        assert_eq!(choice.told().0.name(), "log_spared");
        let begun = choice.told().1.describe(SeparationReason::LogSpared);
        assert_eq!(begun, "as each opening begins");
        assert!(choice.set(SeparationReason::LogKept, known));
        assert_eq!(choice.now(), Separation::AtWrite);
        assert_eq!(choice.told(), (SeparationReason::LogKept, known));
        assert!(choice.set(SeparationReason::Scanned, known));
        assert!(choice.set(SeparationReason::LogSpared, known), "only the reason is another one");
        assert!(!choice.set(SeparationReason::LogSpared, all));
        assert_eq!(choice.told(), (SeparationReason::LogSpared, all), "what confirmed it");
    }
}

//! Chooses when the medium values of a keyspace are separated that leaves it to the engine
//! ([`Separation::Auto`]): as they are written, so that they stay in the log (WiscKey), or by the
//! flush, in the order of keys (Titan).
//!
//! A flush leaves values in runs in which a scan reads neighbours at once, and what is overwritten
//! before dies in the memtable. What that costs depends on the log. The device mostly never takes
//! it (`commit/wal_only.rs`): then the flush writes a value for the first time. If commits are
//! synced, or the log is kept for another reason, the flush writes all values once more, and only
//! scans pay for that.
//!
//! That the flush writes values costs processor time, too: it copies each of them twice, and as a
//! memtable with values has a tenth of the entries of one with pointers, compactions rewrite some
//! five times as many for each put. While writers wait for value GC (I10), they wait for that time.
//! So values are separated at write then, if neither scans nor the device lose by it: the device
//! does where memtables absorb much of what is written, as with skewed updates. Uniform overwrites
//! of 1 and 4 KiB in 512 MiB are some 1.2 times as fast for it, and cost the device less
//! (`bench/record/2026-11-29-delayed-writers.md`).
//!
//! Overwrites speak for neither time by themselves. Where the log is not spared, the device has had
//! all of what dies in the memtable, and writing what survives once more only adds to that. So the
//! update table has nothing to say here. Nor is the choice made for ranges of keys: values of
//! ranges that are scanned are brought into order by compactions (`compaction/scan_order.rs`), each
//! for what its own scans have paid.
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
/// Writers wait for value GC once at least this percentage of the bytes was put while they were
/// delayed for space: uniform overwrites at full speed come to 70 percent and more.
const DELAYED_PERCENT: u64 = 30;
/// Percent below which that has ended. Separation at write is what keeps them from being delayed
/// more.
const UNDELAYED_PERCENT: u64 = 5;
/// The device loses by separation at write once memtables with values would absorb this percentage
/// of what is put, which is what compactions cost it more where values are in memtables.
const ABSORBED_PERCENT: u64 = 15;
/// The same while values are separated at write.
const STILL_ABSORBED_PERCENT: u64 = 25;
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
    /// The bytes of values that were put. They were written, unless newer ones hid them before.
    pub put: u64,
    /// Those of them that were put while writers were delayed for space.
    pub delayed: u64,
    /// Those of them that memtables absorb if they have all values.
    pub absorbed: u64,
}

impl SeparationEvidence {
    fn with(self, new: SeparationEvidence) -> SeparationEvidence {
        SeparationEvidence {
            written: self.written.saturating_add(new.written),
            spared: self.spared.saturating_add(new.spared),
            scanned: self.scanned.saturating_add(new.scanned),
            waste: self.waste.saturating_add(new.waste),
            put: self.put.saturating_add(new.put),
            delayed: self.delayed.saturating_add(new.delayed),
            absorbed: self.absorbed.saturating_add(new.absorbed),
        }
    }

    /// Says in words what speaks for `reason` and against it.
    pub fn describe(&self, reason: SeparationReason) -> String {
        let SeparationEvidence { written, spared, scanned, waste, put, delayed, absorbed } = *self;
        if (written, put) == (0, 0) {
            return "as each opening begins".to_owned();
        }
        let (verb, scans) = match reason {
            // Values that were written in order cost scans nothing; what if they had not been?
            SeparationReason::Scanned | SeparationReason::LogSpared => ("would cost", scanned),
            _ => ("cost", waste),
        };
        let [written, spared, scans] = [written, spared, scans].map(sized);
        let [put, delayed, absorbed] = [put, delayed, absorbed].map(sized);
        format!(
            "the log of {spared} of {written} flushed is spared; strewn values {verb} scans \
             {scans}, their order costs {written}; of {put} put, {delayed} were delayed for \
             space, and memtables absorb {absorbed}"
        )
    }

    fn halved(self) -> SeparationEvidence {
        let order = self.written.max(self.put.saturating_sub(self.absorbed));
        let most = order.saturating_mul(MOST_SCANNED);
        SeparationEvidence {
            written: self.written / 2,
            spared: self.spared / 2,
            scanned: self.scanned.min(most) / 2,
            waste: self.waste.min(most) / 2,
            put: self.put / 2,
            delayed: self.delayed / 2,
            absorbed: self.absorbed / 2,
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
    /// At write, because writers wait for value GC, and neither scans nor the device lose by it.
    Delayed,
}

impl SeparationReason {
    const ALL: [SeparationReason; 4] = [
        SeparationReason::LogSpared,
        SeparationReason::LogKept,
        SeparationReason::Scanned,
        SeparationReason::Delayed,
    ];

    /// Returns the name of the reason, as in statistics and events.
    pub fn name(self) -> &'static str {
        match self {
            SeparationReason::LogSpared => "log_spared",
            SeparationReason::LogKept => "log_kept",
            SeparationReason::Scanned => "scanned",
            SeparationReason::Delayed => "delayed",
        }
    }

    /// Returns the reason with this name, if there is one.
    pub fn from_name(name: &str) -> Option<SeparationReason> {
        SeparationReason::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// Returns when values are separated.
    pub fn separation(self) -> Separation {
        match self {
            SeparationReason::LogKept | SeparationReason::Delayed => Separation::AtWrite,
            SeparationReason::LogSpared | SeparationReason::Scanned => Separation::AtFlush,
        }
    }
}

/// Returns as large a part of `bytes` as `part` is of `all`.
pub fn part_of(bytes: u64, part: u64, all: u64) -> u64 {
    let share = part as f64 / all.max(1) as f64;
    (bytes as f64 * share.min(1.0)) as u64
}

/// Chooses anew; `now` is the choice in force.
pub fn choose(now: SeparationReason, evidence: &SeparationEvidence) -> SeparationReason {
    use SeparationReason::{Delayed, LogKept, LogSpared, Scanned};
    let SeparationEvidence { written, spared, scanned, waste, put, delayed, absorbed } = *evidence;
    let spared_percent = match now {
        LogSpared | Delayed => KEPT_PERCENT,
        LogKept | Scanned => SPARED_PERCENT,
    };
    let is_log_spared = has_percent(spared, written, spared_percent);
    let would_pay_scans = scanned >= written / SCANNED_PART;
    let are_scanned = match now {
        // Values in order cost scans nothing too much, so the waste says nothing any more.
        Scanned => would_pay_scans,
        // What a flush would have to write, which is more than one of pointers keeps.
        Delayed => waste >= written.max(put.saturating_sub(absorbed)),
        _ => waste >= written,
    };
    // Where nothing was put, all of it counts as absorbed, and nobody as delayed.
    let loses_at_write = match now {
        Delayed => are_scanned || has_percent(absorbed, put, STILL_ABSORBED_PERCENT),
        _ => would_pay_scans || has_percent(absorbed, put, ABSORBED_PERCENT),
    };
    let delayed_percent = if now == Delayed { UNDELAYED_PERCENT } else { DELAYED_PERCENT };
    match (is_log_spared, are_scanned) {
        (true, _) if has_percent(delayed, put, delayed_percent) && !loses_at_write => Delayed,
        (true, _) => LogSpared,
        (false, true) => Scanned,
        (false, false) => LogKept,
    }
}

/// Returns true if `part` is at least this percentage of `all`.
fn has_percent(part: u64, all: u64, percent: u64) -> bool {
    part.saturating_mul(100) >= all.saturating_mul(percent)
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
    /// Bytes that were written since the last choice, or put, if they are separated at write.
    new_bytes: u64,
    /// What the last choice was made from; all 0 before the first.
    chosen_from: SeparationEvidence,
    /// The bytes of the database that had been delayed, and logged, at the last flush.
    paced: Option<(u64, u64)>,
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

    /// Returns how many of `bytes`, which were put since the last call, were delayed: as large a
    /// part as of what the database logged since, if `so_far` are all bytes that were delayed and
    /// all that were logged. The first call returns 0.
    pub fn delayed_part(&self, bytes: u64, so_far: (u64, u64)) -> u64 {
        let before = self.known.lock().paced.replace(so_far).unwrap_or(so_far);
        part_of(bytes, so_far.0 - before.0, so_far.1 - before.1)
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
        known.new_bytes += match self.now() {
            // Of what is put again and again only a little is written, but the log gets all of it.
            Separation::AtWrite => new.put.max(new.written),
            _ => new.written,
        };
        let least = LEAST_EVIDENCE.min(options.memtable_bytes);
        if all.written == 0 && !self.is_absorbed(&all) {
            // It tells nothing of values to separate, but must not count for ever.
            known.evidence = if all.put >= least { all.halved() } else { all };
            return None;
        }
        if known.new_bytes < least {
            return None;
        }
        (known.evidence, known.new_bytes) = (all.halved(), 0);
        Some(all)
    }

    /// Returns true if values are separated at write for the delays of writers, although memtables
    /// absorb too many, or all of them.
    fn is_absorbed(&self, evidence: &SeparationEvidence) -> bool {
        let SeparationEvidence { put, absorbed, .. } = *evidence;
        let is_delayed = self.reason() == SeparationReason::Delayed;
        is_delayed && put > 0 && has_percent(absorbed, put, STILL_ABSORBED_PERCENT)
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
            let mut evidence = SeparationEvidence { put: 64 << 20, ..Default::default() };
            for (name, value) in line.split_whitespace().map(pair) {
                match name {
                    "written" => evidence.written = number(value),
                    "spared" => evidence.spared = number(value),
                    "scanned" => evidence.scanned = number(value),
                    "waste" => evidence.waste = number(value),
                    "put" => evidence.put = number(value),
                    "delayed" => evidence.delayed = number(value),
                    "absorbed" => evidence.absorbed = number(value),
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
    fn parts_are_in_proportion() {
        for (bytes, spared, memtable, expected) in
            [(800, 1000, 1000, 800), (800, 250, 1000, 200), (800, 1200, 1000, 800), (0, 0, 0, 0)]
        {
            assert_eq!(part_of(bytes, spared, memtable), expected, "{spared} of {memtable}");
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
            put: written,
            ..SeparationEvidence::default()
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

    /// What is put again and again leaves little that is written, and yet the log gets all of it.
    #[test]
    fn at_write_what_is_put_is_enough_for_a_choice() {
        let options = KeyspaceOptions::default();
        let put = SeparationEvidence { put: LEAST_EVIDENCE, ..Default::default() };
        let [little, none] = [1000, 0].map(|written| SeparationEvidence { written, ..put });
        let choice = SeparationChoice::default();
        assert_eq!(choice.add(little, &options), None, "at flush it is what was written");
        let choice = SeparationChoice::default();
        choice.set(SeparationReason::Delayed, put);
        assert_eq!(choice.add(none, &options), None, "nothing says anything");
        let known = choice.add(little, &options).unwrap();
        assert_eq!((known.put, known.written), (3 * LEAST_EVIDENCE / 2, 1000), "half counts");
    }

    /// What is put and deleted within one memtable leaves nothing that is written.
    #[test]
    fn where_all_is_absorbed_values_are_separated_at_flush_again() {
        let options = KeyspaceOptions::default();
        let put = LEAST_EVIDENCE;
        let all = SeparationEvidence { put, absorbed: put, delayed: put, ..Default::default() };
        let choice = SeparationChoice::default();
        assert_eq!(choice.add(all, &options), None, "at flush there is nothing to choose");
        for _ in 0..9 {
            choice.add(all, &options);
        }
        assert!(choice.known.lock().evidence.put <= 2 * put, "it does not count for ever");
        choice.set(SeparationReason::Delayed, all);
        let known = choice.add(all, &options).unwrap();
        assert_eq!(choose(SeparationReason::Delayed, &known), SeparationReason::LogSpared);
        assert_ne!(known.describe(SeparationReason::LogSpared), "as each opening begins");
    }

    #[test]
    fn what_was_delayed_is_told_from_one_flush_to_the_next() {
        let choice = SeparationChoice::default();
        assert_eq!(choice.delayed_part(800, (500, 1000)), 0, "what was before its time");
        assert_eq!(choice.delayed_part(800, (600, 1400)), 200);
        assert_eq!(choice.delayed_part(800, (600, 1500)), 0);
        assert_eq!(choice.delayed_part(800, (700, 1600)), 800);
    }
}

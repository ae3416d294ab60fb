//! Discardable segments: those that value GC frees for their share of garbage alone, as Titan does,
//! whatever the bounds of space say. Two ratios say which: one for segments whose live records are
//! moved, and a lower one for those that get holes, as holes move nothing. Pure.
//!
//! While nobody writes they are always freed. With [`CollectDiscardable::Always`] they are freed
//! beside users that write, too. No bound calls for a liveness scan then, so this file says when
//! enough may have died since the last one.

use crate::base::error::{Error, Result};
use crate::gc::facts::{Gain, How, PunchCost, SegmentFacts, SpaceFacts};
use crate::gc::live_estimate::{HURRY_PART, LATEST_RENEW_PART, SinceScan};
use crate::gc::picker::Mode;
use crate::gc::punch::runs::LEAST_PUNCHED_RECORD;
use crate::gc::settings::GcOptions;
use std::fmt;
use std::str::FromStr;

/// When value GC frees *discardable* segments: those of which at least
/// [`GcOptions::discardable_ratio`] is garbage, or [`GcOptions::punch_ratio`] can be punched.
///
/// ```
/// use cleavedb::{CollectDiscardable, GcOptions};
/// // Titan's rule: no segment keeps half of its bytes dead for long, whatever the ceiling.
/// let gc = GcOptions {
///     collect_discardable: CollectDiscardable::Always,
///     max_space_amplification: 10.0,
///     ..GcOptions::default()
/// };
/// assert_eq!("always".parse::<CollectDiscardable>()?, gc.collect_discardable);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectDiscardable {
    /// While nobody writes. While somebody does, the bounds of space alone say what is freed.
    #[default]
    Idle,
    /// While users write as well, even where the bounds of space hold. Writers are not slowed down
    /// for it: only the ceiling does that.
    Always,
}

impl fmt::Display for CollectDiscardable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CollectDiscardable::Idle => "idle",
            CollectDiscardable::Always => "always",
        })
    }
}

impl FromStr for CollectDiscardable {
    type Err = Error;

    /// Parses `idle` or `always`.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "idle" => Ok(CollectDiscardable::Idle),
            "always" => Ok(CollectDiscardable::Always),
            _ => Err(Error::invalid_option(format!(
                "collect_discardable is {text:?}, it must be idle or always"
            ))),
        }
    }
}

/// To move a segment has to win this part of the share of garbage that makes it discardable.
const LEAST_WON_PART: f64 = 2.0;

/// The rule by which segments are discardable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiscardableRule {
    /// Least share of garbage of a segment whose live records are moved.
    pub ratio: f64,
    /// Least share of the bytes of a segment that holes free.
    pub punch_ratio: f64,
    /// When they are freed.
    pub when: CollectDiscardable,
}

impl DiscardableRule {
    /// Returns the rule that the options set.
    pub fn of(options: &GcOptions) -> Self {
        DiscardableRule {
            ratio: options.discardable_ratio,
            punch_ratio: options.punch_ratio,
            when: options.collect_discardable,
        }
    }

    /// Returns true if discardable segments are freed in `mode`, whatever the bounds say.
    pub fn acts(&self, mode: Mode) -> bool {
        mode == Mode::Idle || self.acts_always(mode)
    }

    /// Returns true if GC also counts for them in `mode`, because they are always freed. Whoever
    /// waits for idleness asks what is due while users write, so nothing may be due then that is
    /// not due once nobody writes, or when the disk is almost full.
    pub fn acts_always(&self, mode: Mode) -> bool {
        matches!(mode, Mode::Busy | Mode::Spare | Mode::Idle | Mode::Low)
            && self.when == CollectDiscardable::Always
    }

    /// Returns the way in which a segment is discardable; `None` if it is not. One that would get
    /// holes for too little is moved, if so much of it is garbage and holes would leave so much.
    pub fn way(&self, segment: &SegmentFacts, punch: Option<&PunchCost>) -> Option<Gain> {
        let share = |bytes: u64| bytes as f64 / segment.allocated.max(1) as f64;
        let better = segment.gain(punch);
        if better.how == How::Punch && share(better.won) >= self.punch_ratio {
            return Some(better);
        }
        let is_left = share(segment.garbage().saturating_sub(better.won)) >= self.ratio;
        let gain = if better.how == How::Punch && is_left { segment.gain(None) } else { better };
        // Small records take some of what moving wins for the file of the relocation.
        let wins = share(gain.won) >= self.ratio / LEAST_WON_PART || gain.how == How::Punch;
        let is_much = share(segment.garbage()) >= self.ratio;
        (gain.won > 0 && is_much && wins).then_some(gain)
    }

    /// Returns true if the first liveness scan of a process is due in `mode`, because a segment is
    /// discardable by what tables reference, or newer entries may hide enough.
    pub fn is_first_scan_due(&self, facts: &SpaceFacts, mode: Mode) -> bool {
        let live = facts.referenced_bytes().saturating_sub(facts.hideable_bytes);
        let is_enough = || facts.hideable_bytes >= enough(self.ratio, live, facts.allocated());
        let mut freeable = facts.segments.iter().filter(|segment| is_freeable(segment));
        self.acts_always(mode)
            && (freeable.any(|segment| self.way(segment, None).is_some()) || is_enough())
    }

    /// Returns true if a liveness scan is due in `mode`: enough may have died since the last one
    /// that some segment is discardable now. So counting stays in proportion to what is written,
    /// and never begins anew where nothing was. Only with `can_punch` the ratio for holes counts.
    pub fn is_scan_due(
        &self,
        facts: &SpaceFacts,
        since: &SinceScan,
        can_punch: bool,
        mode: Mode,
    ) -> bool {
        if !self.acts_always(mode) || since.died == 0 {
            return false;
        }
        // Of smaller records only those are punched that died with all their neighbours. A store of
        // many of them is not to be counted so much more often for that.
        let is_punched = can_punch && since.record_bytes >= LEAST_PUNCHED_RECORD;
        let ratio = if is_punched { self.ratio.min(self.punch_ratio) } else { self.ratio };
        let may_be_discardable = |segment: &SegmentFacts| {
            let dead = segment.garbage().saturating_add(since.died);
            is_freeable(segment) && dead as f64 >= ratio * segment.allocated as f64
        };
        // What is put while a memtable fills up dies there if it is overwritten, and no segment has
        // more garbage for it.
        let least = enough(ratio, since.live_bytes, facts.allocated()).max(facts.unflushed_bytes);
        since.died >= least && facts.segments.iter().any(may_be_discardable)
    }
}

fn is_freeable(segment: &SegmentFacts) -> bool {
    segment.is_collectable() && segment.referenced > 0 && segment.fault.is_none()
}

/// Returns the bytes that have to die before a liveness scan makes a difference, where segments are
/// freed at `ratio`: if all of `live` bytes lie in segments with just less garbage than that, the
/// garbage is `ratio / (1 - ratio)` of them. As for the settled bound, there is no hurry, so half
/// of that; and never less than a 64th of what all files take, however little is live.
fn enough(ratio: f64, live: u64, allocated: u64) -> u64 {
    let slack = (live as f64 * (ratio / (1.0 - ratio)).min(1.0)) as u64;
    (slack / LATEST_RENEW_PART).max(allocated / HURRY_PART)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gc::facts::SegmentFault;

    const MIB: u64 = 1 << 20;
    const ALWAYS: DiscardableRule =
        DiscardableRule { ratio: 0.5, punch_ratio: 0.2, when: CollectDiscardable::Always };
    const MODES: [Mode; 7] =
        [Mode::Off, Mode::Paused, Mode::Busy, Mode::Spare, Mode::Idle, Mode::Low, Mode::Manual];

    fn store(live_mib: &[u64]) -> SpaceFacts {
        let segment = |&live_mib: &u64| SegmentFacts {
            allocated: 64 * MIB,
            written: 64 * MIB,
            live: live_mib * MIB,
            referenced: live_mib * MIB,
            sealed: true,
            behind_head: true,
            ..SegmentFacts::default()
        };
        let segments: Vec<_> = live_mib.iter().map(segment).collect();
        SpaceFacts {
            segment_bytes: segments.len() as u64 * 64 * MIB,
            segments,
            ..Default::default()
        }
    }

    /// A store of 640 MiB without garbage, of which `died` were overwritten since.
    fn is_due(rule: DiscardableRule, died_mib: u64, record_bytes: u64, mode: Mode) -> bool {
        let since = SinceScan { live_bytes: 640 * MIB, record_bytes, died: died_mib * MIB };
        rule.is_scan_due(&store(&[64; 10]), &since, true, mode)
    }

    #[test]
    fn settings_read_what_they_print() {
        for when in [CollectDiscardable::Idle, CollectDiscardable::Always] {
            assert_eq!(when.to_string().parse::<CollectDiscardable>().unwrap(), when);
        }
        let error = "Always".parse::<CollectDiscardable>().unwrap_err().to_string();
        assert!(
            error.starts_with("collect_discardable is \"Always\", it must be idle or"),
            "{error}"
        );
    }

    #[test]
    fn it_always_acts_where_it_is_told_to() {
        let idle = DiscardableRule { when: CollectDiscardable::Idle, ..ALWAYS };
        let [idle, always] = [idle, ALWAYS].map(|rule| MODES.map(|mode| rule.acts(mode)));
        assert_eq!(idle, [false, false, false, false, true, false, false]);
        assert_eq!(always, [false, false, true, true, true, true, false]);
        assert_eq!(MODES.map(|mode| ALWAYS.acts_always(mode)), always);
        assert!(!MODES.into_iter().any(|mode| {
            DiscardableRule { when: CollectDiscardable::Idle, ..ALWAYS }.acts_always(mode)
        }));
    }

    #[test]
    fn a_scan_is_due_once_enough_died_to_make_a_difference() {
        for mode in [Mode::Busy, Mode::Spare] {
            let dues = [0, 319, 320, 6400].map(|died| is_due(ALWAYS, died, 1000, mode));
            assert_eq!(dues, [false, false, true, true], "half of what the ratio allows");
        }
        let quarter = DiscardableRule { ratio: 0.2, ..ALWAYS };
        assert_eq!([79, 80].map(|it| is_due(quarter, it, 1000, Mode::Busy)), [false, true]);
        let most = DiscardableRule { ratio: 1.0, ..ALWAYS };
        assert_eq!([319, 320].map(|it| is_due(most, it, 1000, Mode::Busy)), [false, true]);
        let least = DiscardableRule { ratio: 0.05, ..ALWAYS };
        assert_eq!([16, 17].map(|it| is_due(least, it, 1000, Mode::Busy)), [false, true]);
    }

    #[test]
    fn what_dies_in_a_memtable_makes_no_scan_due() {
        let is_due = |died| {
            let since = SinceScan { live_bytes: 640 * MIB, record_bytes: 1000, died: died * MIB };
            let facts = SpaceFacts { unflushed_bytes: 400 * MIB, ..store(&[64; 10]) };
            ALWAYS.is_scan_due(&facts, &since, false, Mode::Busy)
        };
        assert_eq!([399, 400].map(is_due), [false, true]);
    }

    #[test]
    fn nothing_is_moved_for_next_to_nothing() {
        let low = DiscardableRule { ratio: 0.05, ..ALWAYS };
        let segment = |records| SegmentFacts {
            live_records: records,
            live: 60 * MIB,
            ..store(&[60]).segments[0].clone()
        };
        assert!(low.way(&segment(60 << 10), None).is_some(), "1 KiB each");
        assert_eq!(low.way(&segment(240 << 10), None), None, "the relocation has as much");
    }

    #[test]
    fn the_ratio_for_holes_counts_where_values_are_large_and_can_be_punched() {
        assert_eq!([79, 80].map(|it| is_due(ALWAYS, it, 16 << 10, Mode::Busy)), [false, true]);
        let since = SinceScan { live_bytes: 640 * MIB, record_bytes: 16 << 10, died: 80 * MIB };
        assert!(!ALWAYS.is_scan_due(&store(&[64; 10]), &since, false, Mode::Busy));
    }

    /// Without this, a store that was mostly deleted was counted at each look for work.
    #[test]
    fn no_scan_is_due_for_next_to_nothing() {
        let facts = store(&[1; 10]);
        let is_due = |died| {
            let since = SinceScan { live_bytes: 10, record_bytes: 1000, died };
            ALWAYS.is_scan_due(&facts, &since, false, Mode::Busy)
        };
        assert_eq!([0, 1, 10 * MIB - 1, 10 * MIB].map(is_due), [false, false, false, true]);
    }

    #[test]
    fn no_scan_is_due_where_no_segment_may_be_discardable() {
        let is_due = |change: fn(&mut SegmentFacts)| {
            let mut facts = store(&[64; 4]);
            facts.segments.iter_mut().for_each(change);
            let since = SinceScan { live_bytes: 20 * MIB, record_bytes: 1000, died: 20 * MIB };
            ALWAYS.is_scan_due(&facts, &since, false, Mode::Busy)
        };
        assert!(!is_due(|_| {}), "20 of 64 MiB are not half of them");
        assert!(is_due(|segment| segment.live = 52 * MIB));
        assert!(!is_due(|segment| (segment.live, segment.behind_head) = (0, false)));
        assert!(!is_due(|segment| (segment.live, segment.referenced) = (0, 0)));
        assert!(!is_due(|it| (it.live, it.fault) = (0, Some(SegmentFault::Damaged))));
    }

    #[test]
    fn nothing_is_due_in_other_modes_or_by_default() {
        let idle = DiscardableRule { when: CollectDiscardable::Idle, ..ALWAYS };
        let facts = SpaceFacts { hideable_bytes: 640 * MIB, ..store(&[0; 10]) };
        for mode in MODES {
            assert!(!is_due(idle, 6400, 1000, mode) && !idle.is_first_scan_due(&facts, mode));
            let is_due = [is_due(ALWAYS, 6400, 1000, mode), ALWAYS.is_first_scan_due(&facts, mode)];
            assert_eq!(is_due, [ALWAYS.acts_always(mode); 2], "{mode:?}");
        }
    }

    #[test]
    fn the_first_scan_is_due_by_what_tables_reference_or_newer_entries_may_hide() {
        let is_due = |facts: &SpaceFacts| ALWAYS.is_first_scan_due(facts, Mode::Busy);
        assert!(!is_due(&store(&[64, 33, 64])));
        assert!(is_due(&store(&[64, 32, 64])), "half of a segment is not referenced");
        let hidden = |mib: u64| SpaceFacts { hideable_bytes: mib * MIB, ..store(&[64; 10]) };
        assert_eq!([213, 214].map(|mib| is_due(&hidden(mib))), [false, true], "a half of the rest");
    }
}

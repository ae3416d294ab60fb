//! The quarantine: the reasons that keep value GC from freeing segments. It lets GC go on with the
//! others, and shows the reasons for as long as they last.
//!
//! If the tree can't be walked, nothing is freed by a guess (I4): GC rests until the database is
//! opened anew, or until a collection that the user requests takes a successful liveness scan.
//!
//! Damage of a segment does not pass: it is left alone until the database is opened anew, restored
//! or repaired. Other failures may pass: the segment rests for a while and is tried again.

use crate::base::error::{Error, ErrorKind};
use crate::base::pointer::SegmentId;
use crate::gc::facts::SegmentFault;
use crate::throttle::retry;
use std::collections::BTreeMap;
use std::error::Error as _;
use std::io;
use std::time::Duration;

/// The number of segments that get a warning of their own; the others are only counted.
const MAX_TOLD: usize = 8;

/// The errors that keep value GC from freeing something.
#[derive(Default)]
pub struct Quarantine {
    /// The error that keeps liveness scans from finding what is live.
    liveness_scan: Option<Error>,
    segments: BTreeMap<SegmentId, QuarantinedSegment>,
    /// The error that keeps holes from being punched.
    holes: Option<Error>,
}

/// The error of one segment.
struct QuarantinedSegment {
    error: Error,
    /// The length of its rest after the last failure; `None` if it is damaged.
    rest: Option<Duration>,
    until: Duration,
}

impl Quarantine {
    /// Records the error of a liveness scan, or of a look at new segments, if it is damage.
    pub fn note_walk(&mut self, error: &Error) {
        if is_damage(error) {
            self.liveness_scan = Some(error.clone());
        }
    }

    /// Records that a liveness scan succeeded, which reads every entry of the tree.
    pub fn note_liveness_scan(&mut self) {
        self.liveness_scan = None;
    }

    /// Returns the error that keeps liveness scans from finding what is live.
    pub fn blinding(&self) -> Option<&Error> {
        self.liveness_scan.as_ref()
    }

    /// Records the error that keeps holes from being punched, or that there is none.
    pub fn note_holes(&mut self, error: Option<&Error>) {
        self.holes = error.cloned();
    }

    /// Records that a segment could not be freed, at the time `now`.
    pub fn note(&mut self, segment: SegmentId, error: &Error, now: Duration) {
        let before = self.segments.get(&segment).and_then(|trouble| trouble.rest);
        let rest = (!is_damage(error)).then(|| retry::segment_rest(before));
        let until = now + rest.unwrap_or_default();
        self.segments.insert(segment, QuarantinedSegment { error: error.clone(), rest, until });
    }

    /// Removes segments that no longer exist. It also removes those that nobody has tried again for
    /// as long as they had rested, because their space was not needed.
    pub fn forget(&mut self, is_there: impl Fn(SegmentId) -> bool, now: Duration) {
        self.segments.retain(|id, trouble| {
            let lasts = trouble.rest.is_none_or(|rest| now < trouble.until + rest);
            lasts && is_there(*id)
        });
    }

    /// Ends all rests, so that those segments are tried again at once; the user requested that.
    pub fn end_rests(&mut self, now: Duration) {
        for trouble in self.segments.values_mut() {
            trouble.until = trouble.until.min(now);
        }
    }

    /// Returns the reason why `segment` can't be freed at the time `now`, if there is one.
    pub fn fault(&self, segment: SegmentId, now: Duration) -> Option<SegmentFault> {
        let blind = self.liveness_scan.as_ref().map(|_| SegmentFault::Uncountable);
        let Some(trouble) = self.segments.get(&segment) else {
            return blind;
        };
        match trouble.rest {
            None => Some(SegmentFault::Damaged),
            Some(_) => blind.or_else(|| (now < trouble.until).then_some(SegmentFault::Failing)),
        }
    }

    /// Returns one error that keeps GC from working or from freeing a segment; damage comes first.
    pub fn error(&self) -> Option<&Error> {
        let all = || self.segments.values();
        let first = || all().find(|trouble| trouble.rest.is_none()).or_else(|| all().next());
        let segment = || first().map(|trouble| &trouble.error);
        self.blinding().or_else(segment).or(self.holes.as_ref())
    }

    /// Returns all errors as sentences.
    pub fn warnings(&self) -> Vec<String> {
        let what = "value GC rests, as it can't know what is live";
        let blinding = self.blinding().map(|error| format!("{what}: {error}"));
        let told = self.segments.iter().take(MAX_TOLD).map(|(id, trouble)| {
            let QuarantinedSegment { error, rest, .. } = trouble;
            match rest {
                None => format!("value GC leaves segment {:08} alone: {error}", id.0),
                Some(_) => format!("value GC will try segment {:08} again: {error}", id.0),
            }
        });
        let more = self.segments.len().saturating_sub(MAX_TOLD);
        let others = (more > 0).then(|| format!("value GC could not free {more} more segments"));
        let what = "holes wait, and their blocks are taken still";
        let holes = self.holes.as_ref().map(|error| format!("{what}: {error}"));
        blinding.into_iter().chain(told).chain(others).chain(holes).collect()
    }
}

/// Returns true if bytes are no longer as they were written, so that trying again won't help. A
/// file that is missing or ends early is damaged, too.
pub fn is_damage(error: &Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let is_cut = |cause: &io::Error| {
        matches!(cause.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound)
    };
    error.kind() == ErrorKind::Corruption || cause.is_some_and(is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const SEGMENT: SegmentId = SegmentId(7);

    fn io_error(kind: io::ErrorKind) -> Error {
        Error::io("read live records", Path::new("00000007.seg"), kind.into())
    }

    fn minutes(count: u64) -> Duration {
        Duration::from_secs(60 * count)
    }

    #[test]
    fn damage_stays_and_failures_pass() {
        let mut quarantine = Quarantine::default();
        assert_eq!(quarantine.fault(SEGMENT, minutes(0)), None);
        let damages = [
            Error::corruption("bad"),
            io_error(io::ErrorKind::UnexpectedEof),
            io_error(io::ErrorKind::NotFound),
        ];
        for error in damages {
            quarantine.note(SEGMENT, &error, minutes(5));
            quarantine.end_rests(minutes(6));
            quarantine.forget(|_| true, minutes(99_999));
            assert_eq!(
                quarantine.fault(SEGMENT, minutes(99_999)),
                Some(SegmentFault::Damaged),
                "{error}"
            );
        }
        for kind in [io::ErrorKind::OutOfMemory, io::ErrorKind::Other] {
            let mut quarantine = Quarantine::default();
            quarantine.note(SEGMENT, &io_error(kind), minutes(5));
            assert_eq!(quarantine.fault(SEGMENT, minutes(5)), Some(SegmentFault::Failing));
            assert_eq!(quarantine.fault(SegmentId(8), minutes(5)), None, "others go on");
            assert_eq!(quarantine.fault(SEGMENT, minutes(6)), None);
        }
    }

    #[test]
    fn i04_damage_of_the_tree_lasts_until_a_liveness_scan_succeeds() {
        let mut quarantine = Quarantine::default();
        quarantine.note_walk(&io_error(io::ErrorKind::Other));
        assert!(quarantine.error().is_none(), "the next try may succeed");
        quarantine.note(SEGMENT, &Error::corruption("bad record"), minutes(0));
        quarantine.note_walk(&Error::corruption("bad block"));
        assert_eq!(quarantine.error().unwrap().message(), "bad block");
        assert_eq!(quarantine.fault(SEGMENT, minutes(0)), Some(SegmentFault::Damaged));
        assert_eq!(quarantine.fault(SegmentId(8), minutes(0)), Some(SegmentFault::Uncountable));
        let warnings = quarantine.warnings();
        assert!(warnings[0].ends_with("can't know what is live: bad block"), "{warnings:?}");
        assert_eq!(warnings[1], "value GC leaves segment 00000007 alone: bad record");
        quarantine.note_liveness_scan();
        assert_eq!(quarantine.error().unwrap().message(), "bad record");
        assert_eq!(quarantine.fault(SegmentId(8), minutes(0)), None);
    }

    #[test]
    fn many_segments_are_counted() {
        let mut quarantine = Quarantine::default();
        for id in (1..=10).map(SegmentId) {
            quarantine.note(id, &io_error(io::ErrorKind::Other), minutes(0));
        }
        let warnings = quarantine.warnings();
        assert_eq!(warnings.len(), 9);
        assert!(warnings[7].starts_with("value GC will try segment 00000008 again: "));
        assert_eq!(warnings[8], "value GC could not free 2 more segments");
    }

    #[test]
    fn rests_grow_longer_until_somebody_asks() {
        let mut quarantine = Quarantine::default();
        for (failed, again) in [(0, 1), (1, 3), (3, 7), (7, 15), (15, 31), (31, 63), (63, 123)] {
            quarantine.note(SEGMENT, &io_error(io::ErrorKind::Other), minutes(failed));
            let just_before = minutes(again) - Duration::from_nanos(1);
            assert_eq!(quarantine.fault(SEGMENT, just_before), Some(SegmentFault::Failing));
            assert_eq!(quarantine.fault(SEGMENT, minutes(again)), None);
        }
        quarantine.end_rests(minutes(63));
        assert_eq!(quarantine.fault(SEGMENT, minutes(63)), None);
        quarantine.note(SEGMENT, &io_error(io::ErrorKind::Other), minutes(63));
        quarantine.forget(|_| false, minutes(63));
        assert_eq!(quarantine.fault(SEGMENT, minutes(63)), None, "it was freed");
    }

    /// Guards against a warning that stays for ever: a segment that could not be read once was
    /// reported until the next opening, if its space was never needed again.
    #[test]
    fn what_nobody_tries_again_is_forgotten() {
        let mut quarantine = Quarantine::default();
        quarantine.note(SEGMENT, &io_error(io::ErrorKind::Other), minutes(1));
        quarantine.forget(|_| true, minutes(3) - Duration::from_nanos(1));
        assert!(quarantine.error().is_some());
        quarantine.forget(|_| true, minutes(3));
        assert!(quarantine.error().is_none());
    }
}

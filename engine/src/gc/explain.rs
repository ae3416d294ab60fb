//! The reasons why value GC takes a segment or leaves it, as text for people.

use crate::base::size::sized;
use crate::gc::facts::{Gain, How, SegmentFault};
use std::fmt;

/// The reason for taking or leaving one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Taken.
    Taken(Gain),
    /// Left: the log is being written to it.
    Active,
    /// Left: recovery may have to replay it, and memtables may point into it.
    Replay,
    /// Left to be dropped as a whole: nothing leads into it any more.
    Dead,
    /// Left: something keeps it from being freed.
    SegmentFault(SegmentFault),
    /// Left: it was sealed after the last liveness scan, which could not count it.
    NotCounted,
    /// Left: too little would be won.
    TooLive {
        /// Live share of the segment, in percent.
        live_percent: u32,
        /// What would come back, and for what.
        gain: Gain,
    },
    /// Left: freeing it would pay, but space is within its bound.
    WithinBound(Gain),
    /// Left: automatic GC is switched off.
    Off,
    /// Left: GC is paused.
    Paused,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Taken(Gain { how: How::Relocate, won, moved, .. }) => {
                write!(f, "taken: moving {} wins {}", sized(moved), sized(won))
            }
            Reason::Taken(Gain { how: How::Punch, won, .. }) => {
                write!(f, "taken: punching holes wins {}", sized(won))
            }
            Reason::Active => f.write_str("still written to"),
            Reason::Replay => f.write_str("still part of replay, until a flush"),
            Reason::Dead => f.write_str("nothing leads into it: it goes as a whole"),
            Reason::SegmentFault(SegmentFault::Damaged) => f.write_str("damaged: can't be moved"),
            Reason::SegmentFault(SegmentFault::Failing) => {
                f.write_str("failed lately: will be tried again")
            }
            Reason::SegmentFault(SegmentFault::Uncountable) => {
                f.write_str("what is live in it is unknown: keys are damaged")
            }
            Reason::SegmentFault(SegmentFault::Followed) => {
                f.write_str("kept for a consumer of the change feed")
            }
            Reason::NotCounted => f.write_str("not counted yet: the next liveness scan will"),
            Reason::TooLive { live_percent, gain: Gain { won, moved, .. } } => {
                write!(f, "live {live_percent} %: moving {} would win {}", sized(moved), sized(won))
            }
            Reason::WithinBound(Gain { won, moved, .. }) => {
                write!(f, "the bound holds: moving {} would win {}", sized(moved), sized(won))
            }
            Reason::Off => f.write_str("automatic GC is off"),
            Reason::Paused => f.write_str("GC is paused"),
        }
    }
}

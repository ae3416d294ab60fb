//! Why value GC takes a segment or leaves it, for people.

use crate::base::size::sized;
use crate::gc::facts::SegmentFault;
use std::fmt;

/// The reason for one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Taken: what is live is moved, the file goes.
    Relocated {
        /// Bytes that come back.
        won: u64,
        /// Bytes moved for that.
        moved: u64,
    },
    /// Taken: what is dead becomes holes.
    Punched {
        /// Bytes that come back.
        won: u64,
    },
    /// The log is written to it.
    Active,
    /// Recovery may have to replay it, and memtables may point into it.
    Replay,
    /// Nothing leads into it any more.
    Dead,
    /// Something keeps it from being freed.
    SegmentFault(SegmentFault),
    /// It was closed after the last liveness scan.
    NotCounted,
    /// Too little would be won.
    TooLive {
        /// How much of it is live.
        live_percent: u32,
        /// Bytes that would come back.
        won: u64,
        /// Bytes that would have to be moved.
        moved: u64,
    },
    /// Punching would pay, but a checkpoint shares the file.
    Shared,
    /// It would be worth it, but there is no need.
    TargetHolds {
        /// Bytes that would come back.
        won: u64,
        /// Bytes that would have to be moved.
        moved: u64,
    },
    /// Others win more per byte moved, and fill this round.
    LaterRound {
        /// Bytes that will come back.
        won: u64,
        /// Bytes that will have to be moved.
        moved: u64,
    },
    /// Automatic GC is switched off.
    Off,
    /// GC is paused.
    Paused,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Relocated { won, moved } => {
                write!(f, "taken: moving {} wins {}", sized(moved), sized(won))
            }
            Reason::Punched { won } => write!(f, "taken: punching holes wins {}", sized(won)),
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
            Reason::NotCounted => f.write_str("not counted yet: the next liveness scan will"),
            Reason::TooLive { live_percent, won, moved } => {
                write!(f, "live {live_percent} %: moving {} would win {}", sized(moved), sized(won))
            }
            Reason::Shared => f.write_str("shared with a checkpoint: can't be punched"),
            Reason::TargetHolds { won, moved } => {
                write!(f, "target holds: moving {} would win {}", sized(moved), sized(won))
            }
            Reason::LaterRound { won, moved } => {
                write!(f, "a later round: moving {} will win {}", sized(moved), sized(won))
            }
            Reason::Off => f.write_str("automatic GC is off"),
            Reason::Paused => f.write_str("GC is paused"),
        }
    }
}

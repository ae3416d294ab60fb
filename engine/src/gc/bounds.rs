//! The two bounds of space, in bytes, and the marks at which value GC begins, ends, and holds
//! writers up.
//!
//! Near the *ceiling*, and only there, writers are held up. At the *settled bound* the database
//! comes to rest; between the two GC takes only the processor time that the foreground leaves.
//! Slack makes collecting cheap: with a spare share p of garbage, freeing a byte costs about
//! (1 - p) / p bytes moved. Measured with random overwrites of 1 KiB, a ceiling of 1.3 costs 3.6
//! bytes written per byte put, 2.0 costs 1.45.

use crate::gc::facts::SpaceFacts;
use crate::gc::picker::Mode;
use crate::gc::settings::GcOptions;

/// GC begins, and writers are delayed, once this part (one in this many) of the ceiling's slack is
/// left beside what flushes are going to write. It is kept for what is under way: a segment being
/// filled, and the output of a relocation and of a compaction. With 1 GB of 1 KiB, overwritten at
/// random at a ceiling of 1.3, space passed it by a hundredth, and by three if a tenth was kept
/// (`bench/record/2026-11-27-room-for-flushes.md`).
const CEILING_PART: u64 = 5;
/// Of a large slack at least this part (one in this many) is kept. What is under way does not grow
/// with the database.
const LEAST_CEILING_PART: u64 = 32;
/// At most this part (one in this many) of the ceiling's slack is kept for flushes: near it the
/// memtables that are written are full with half of that, and as much may wait for its flush. Where
/// more than that is unflushed, a flush is worth it for the log's tail.
const FLUSH_PART: u64 = 4;
/// A plan aims at this part (one in this many) of a bound's slack below the mark at which GC
/// begins, so that new segments are looked at in time. (GC rests as soon as space is below the
/// mark.) Without it, a simulated store of 24 MB passed its ceiling
/// (`bench/record/2026-11-27-constants.md`).
const LOW_PART: u64 = 16;

/// The bounds as settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpaceBounds {
    /// Allocated bytes per live byte near which writers are delayed, so that value GC keeps up.
    /// What snapshots and iterators keep may exceed it, and so may space while GC is off or paused.
    pub ceiling: f64,
    /// Allocated bytes per live byte to which the database settles.
    pub settled: f64,
    /// Garbage in bytes that is allowed below the ceiling however little is live.
    pub allowance: u64,
    /// The bytes by which a job waits for space to be able to grow before GC becomes urgent; 0 if
    /// none does.
    pub asked_room: u64,
    /// The bytes that a relocation and a compaction may write before they free any.
    pub under_way: u64,
    /// The bytes that flushes are going to write before the log that has them, too, can go. They
    /// are known, so there is room for them below the ceiling before a flush begins.
    pub to_flush: u64,
}

impl SpaceBounds {
    /// Returns the bounds that the options set, while nothing is to be flushed and it is unknown
    /// what may be under way. The settled bound is never above the ceiling.
    pub fn new(options: &GcOptions) -> Self {
        let ceiling = options.max_space_amplification;
        let settled = options.settled_space_amplification.min(ceiling);
        debug_assert!(settled >= 1.0, "options were validated: live bytes are never garbage");
        SpaceBounds::plain(ceiling, settled, options.space_allowance_bytes)
    }

    /// Returns these bounds, while no job asks for room, nothing is to be flushed, and it is
    /// unknown what may be under way.
    pub const fn plain(ceiling: f64, settled: f64, allowance: u64) -> Self {
        SpaceBounds { ceiling, settled, allowance, asked_room: 0, under_way: u64::MAX, to_flush: 0 }
    }

    /// Returns the ceiling for `live` bytes.
    pub fn ceiling(&self, live: u64) -> SpaceMarks {
        let slack = slack(live, self.ceiling).max(self.allowance);
        let for_flushes = self.to_flush.min(slack / FLUSH_PART);
        let reserved = self.under_way.max(slack / LEAST_CEILING_PART).min(slack / CEILING_PART);
        SpaceMarks { live, slack, reserved, for_flushes }
    }

    /// Returns the settled bound for `live` bytes while nobody writes. A small database settles
    /// like a large one.
    pub fn settled(&self, live: u64) -> SpaceMarks {
        SpaceMarks { live, slack: slack(live, self.settled), reserved: 0, for_flushes: 0 }
    }

    /// Returns the settled bound for `live` bytes while users write: a small database is left in
    /// peace then, unless a job asked for room. Of what is allowed, GC then frees as much as the
    /// job needs. If not even the settled bound leaves so much, to free anything would be in vain.
    fn settled_while_written(&self, live: u64) -> SpaceMarks {
        let settled = slack(live, self.settled);
        let allowed = settled.max(self.allowance);
        let start = self.start_of_jobs(live).saturating_sub(self.asked_room);
        let asked = start.saturating_sub(live);
        let is_asked = self.asked_room > 0 && asked >= settled;
        let slack = if is_asked { asked.min(allowed) } else { allowed };
        SpaceMarks { live, slack, reserved: 0, for_flushes: 0 }
    }

    /// Returns the bytes up to which a job that asks for room may bring space. What memtables have
    /// to flush is not held against it.
    pub fn start_of_jobs(&self, live: u64) -> u64 {
        SpaceBounds { to_flush: 0, ..*self }.ceiling(live).start()
    }

    /// Returns the most room that GC makes for a job: what the settled bound leaves of that.
    pub fn most_room(&self, live: u64) -> u64 {
        self.start_of_jobs(live).saturating_sub(self.settled(live).limit())
    }

    /// Returns true if no flush is due, or a relocation that moves `moved` bytes has room beside it
    /// below the ceiling: both write before they free anything.
    pub fn has_room_for_both(&self, facts: &SpaceFacts, occupied: u64, moved: u64) -> bool {
        let unflushed = facts.sealed_bytes.saturating_sub(facts.flushed_bytes);
        let with_both = occupied.saturating_add(unflushed).saturating_add(moved);
        let is_due = facts.sealed_bytes > 0 && !facts.is_all_inline();
        !is_due || with_both <= self.ceiling(facts.live_bytes).limit()
    }

    /// Returns the mode in which GC works where files take `allocated` bytes and `live` ones are
    /// live. Near the ceiling it may not wait for time that users leave, nor choose only what wins
    /// much.
    pub fn mode_at(&self, mode: Mode, allocated: u64, live: u64) -> Mode {
        let is_urgent = allocated > self.ceiling(live).start();
        if is_urgent && mode == Mode::Spare { Mode::Busy } else { mode }
    }

    /// Returns the bound that GC keeps to in `mode`.
    pub fn of(&self, mode: Mode, live: u64) -> SpaceMarks {
        match mode {
            Mode::Busy | Mode::Off | Mode::Paused => self.ceiling(live),
            Mode::Spare => self.settled_while_written(live),
            Mode::Idle | Mode::Low | Mode::Manual => self.settled(live),
        }
    }

    /// Returns the bound that GC keeps to in `mode`, as a ratio.
    pub fn ratio(&self, mode: Mode) -> f64 {
        match mode {
            Mode::Busy | Mode::Off | Mode::Paused => self.ceiling,
            Mode::Spare | Mode::Idle | Mode::Low | Mode::Manual => self.settled,
        }
    }
}

fn slack(live: u64, ratio: f64) -> u64 {
    ((ratio - 1.0) * live as f64) as u64
}

/// A bound for a number of live bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceMarks {
    live: u64,
    slack: u64,
    /// The part of the slack that is kept for what is under way.
    reserved: u64,
    /// The part of the slack that is kept for what flushes are going to write.
    for_flushes: u64,
}

impl SpaceMarks {
    /// Returns the bound itself.
    pub fn limit(&self) -> u64 {
        self.live.saturating_add(self.slack)
    }

    /// Returns the bytes that may be garbage at the bound.
    pub fn slack(&self) -> u64 {
        self.slack
    }

    /// Returns the bytes above which GC begins and delays of writers are allowed.
    pub fn start(&self) -> u64 {
        self.before_flushes().saturating_sub(self.reserved)
    }

    /// Returns the most bytes from which flushes do not bring space over the bound.
    pub fn before_flushes(&self) -> u64 {
        self.limit().saturating_sub(self.for_flushes)
    }

    /// Returns the bytes at which half of the slack is used.
    pub fn half_way(&self) -> u64 {
        self.live.saturating_add(self.slack / 2)
    }

    /// Returns the bytes that a plan is to reach.
    pub fn low(&self) -> u64 {
        self.start().saturating_sub(self.slack / LOW_PART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gc::facts::SegmentFacts;
    use crate::gc::hidden_share::TreeSpread;

    const MIB: u64 = 1 << 20;
    const DEFAULT: SpaceBounds = SpaceBounds::plain(2.0, 1.2, 256 * MIB);

    const NOTHING: SpaceBounds = SpaceBounds { allowance: 0, ..DEFAULT };

    #[test]
    fn marks_are_in_order() {
        for ratio in [1.05, 1.1, 1.3, 2.0, 10.0] {
            let bounds = SpaceBounds { ceiling: ratio, settled: 1.05, ..NOTHING };
            for marks in [bounds.ceiling(1 << 30), bounds.settled(1 << 30)] {
                let sorted = [1 << 30, marks.half_way(), marks.low(), marks.start()];
                assert!(sorted.is_sorted_by(|a, b| a < b), "{ratio}: {marks:?}");
                assert!(marks.start() <= marks.limit());
            }
            assert!(bounds.ceiling(1 << 30).start() < bounds.ceiling(1 << 30).limit());
        }
    }

    #[test]
    fn the_marks_of_the_default() {
        let ceiling = DEFAULT.ceiling(1024 * MIB);
        assert_eq!(
            [ceiling.low(), ceiling.start(), ceiling.limit()].map(|it| it / MIB),
            [1779, 1843, 2048]
        );
        let settled = DEFAULT.settled(1000 * MIB);
        assert_eq!([settled.start(), settled.limit()].map(|it| it.div_ceil(MIB)), [1200, 1200]);
    }

    /// What is under way does not grow with the database, so of a large slack little is kept.
    #[test]
    fn a_fifth_of_a_small_slack_is_kept_and_less_of_a_large_one() {
        let kept = |live: u64| {
            let bounds = SpaceBounds { under_way: 96 * MIB, ..NOTHING };
            let marks = bounds.ceiling(live * MIB);
            (marks.limit() - marks.start()) / MIB
        };
        assert_eq!([100, 480, 1000, 3072, 8000].map(kept), [20, 96, 96, 96, 250]);
    }

    #[test]
    fn room_for_flushes_is_kept_up_to_a_quarter_of_the_slack() {
        let marks = |to_flush: u64| {
            let marks = SpaceBounds { to_flush: to_flush * MIB, ..NOTHING }.ceiling(1000 * MIB);
            [marks.start(), marks.before_flushes(), marks.limit()].map(|it| it / MIB)
        };
        assert_eq!(marks(0), [1800, 2000, 2000]);
        assert_eq!(marks(100), [1700, 1900, 2000]);
        assert_eq!(marks(900), [1550, 1750, 2000]);
    }

    #[test]
    fn a_flush_goes_first_where_there_is_no_room_for_a_relocation_beside_it() {
        let tree = TreeSpread { entries: 1, ..TreeSpread::default() };
        let referenced = SegmentFacts { referenced: 1, ..SegmentFacts::default() };
        let facts = SpaceFacts {
            live_bytes: 1000 * MIB,
            sealed_bytes: 60 * MIB,
            flushed_bytes: 20 * MIB,
            tree,
            segments: vec![referenced],
            ..SpaceFacts::default()
        };
        let has_room = |facts: &SpaceFacts, moved: u64| {
            NOTHING.has_room_for_both(facts, 1910 * MIB, moved * MIB)
        };
        assert!(has_room(&facts, 50) && !has_room(&facts, 51));
        assert!(has_room(&SpaceFacts { sealed_bytes: 0, ..facts.clone() }, 99), "none is due");
        let inline = SpaceFacts { segments: Vec::new(), ..facts };
        assert!(has_room(&inline, 99), "it gives no room back where all values are in tables");
    }

    #[test]
    fn a_small_database_is_left_in_peace_and_settles_all_the_same() {
        assert_eq!(DEFAULT.ceiling(10 * MIB).limit(), 266 * MIB);
        assert_eq!(DEFAULT.ceiling(1000 * MIB).limit(), 2000 * MIB);
        assert_eq!(DEFAULT.of(Mode::Spare, 10 * MIB).limit(), 266 * MIB);
        assert_eq!(DEFAULT.of(Mode::Idle, 10 * MIB).limit().div_ceil(MIB), 12);
        assert_eq!((NOTHING.ceiling(0).start(), NOTHING.settled(0).start()), (0, 0));
        let most = DEFAULT.ceiling(u64::MAX);
        assert!(most.low() <= most.start() && most.start() <= most.limit(), "{most:?}");
    }

    /// A database of 126 MiB with 173 MiB of garbage had no room for a piece of 126 MiB below the
    /// mark at which GC gets urgent, and GC freed nothing, because it was small.
    #[test]
    fn a_small_database_has_room_made_for_a_job_that_asks() {
        let marks = |asked: u64, live: u64| {
            let bounds = SpaceBounds { asked_room: asked * MIB, ..DEFAULT };
            let marks = bounds.of(Mode::Spare, live * MIB);
            [marks.low(), marks.start(), marks.limit()].map(|it| it.div_ceil(MIB))
        };
        assert_eq!(marks(0, 126), [366, 382, 382]);
        // What is free below the urgent mark of 330 MiB is what the job asked for.
        assert_eq!(marks(126, 126), [200, 205, 205]);
        // The settled bound of 152 MiB leaves 179.
        assert_eq!(marks(179, 126), [151, 152, 152]);
        assert_eq!(marks(180, 126), [366, 382, 382]);
        assert_eq!(DEFAULT.most_room(126 * MIB) / MIB, 179);
        // A large database settles where it settles.
        assert_eq!(marks(100, 2000), [2375, 2400, 2400]);
        // Nobody who is in no hurry frees more for it.
        let bounds = SpaceBounds { asked_room: 126 * MIB, ..DEFAULT };
        for mode in [Mode::Busy, Mode::Idle, Mode::Low] {
            assert_eq!(bounds.of(mode, 126 * MIB), DEFAULT.of(mode, 126 * MIB));
        }
    }

    #[test]
    fn time_that_users_leave_is_no_measure_near_the_ceiling() {
        let at = |mode, mib| DEFAULT.mode_at(mode, mib * MIB, 1200 * MIB);
        assert_eq!([2160, 2161].map(|mib| at(Mode::Spare, mib)), [Mode::Spare, Mode::Busy]);
        for mode in [Mode::Off, Mode::Paused, Mode::Busy, Mode::Idle, Mode::Low, Mode::Manual] {
            assert_eq!(at(mode, 2161), mode);
        }
    }

    #[test]
    fn a_ceiling_below_the_settled_bound_bounds_both() {
        let options = GcOptions { max_space_amplification: 1.1, ..GcOptions::default() };
        let bounds = SpaceBounds::new(&options);
        assert_eq!((bounds.ceiling, bounds.settled), (1.1, 1.1));
    }
}

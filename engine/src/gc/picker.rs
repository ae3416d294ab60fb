//! The picker: decides which segments to free next, and how. It is a pure function of where the
//! space is.
//!
//! It takes the segments with most bytes won per byte moved first, until space is below the bound
//! again. A segment that would not shrink is never taken, whatever the bound says: then the space
//! is elsewhere (in tables, under snapshots, in the tail of the log), and moving live bytes would
//! only wear the device. For the tail of the log the picker returns advice to the caller: flush, so
//! that the head moves on.

use crate::base::pointer::SegmentId;
use crate::gc::bounds::SpaceBounds;
use crate::gc::discardable::DiscardableRule;
use crate::gc::explain::Reason;
use crate::gc::facts::{Gain, PunchCost, SegmentFacts, SpaceFacts};
use crate::gc::log_tail::{LogTail, LogTailAdvice, advise};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The task of value GC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Do nothing, because automatic GC is switched off.
    Off,
    /// Do nothing for now.
    Paused,
    /// Keep space below its ceiling.
    Busy,
    /// Bring space to its settled bound with the processor time that users leave.
    Spare,
    /// Bring space to its settled bound, and free discardable segments, as nobody writes.
    Idle,
    /// Free everything that is worth it, because the disk is almost full.
    Low,
    /// Free everything that is worth it, because the user requested it.
    Manual,
}

impl Mode {
    /// Returns true if GC does nothing.
    pub fn is_off(self) -> bool {
        matches!(self, Mode::Off | Mode::Paused)
    }
}

/// The rules of a pick.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The task of value GC.
    pub mode: Mode,
    /// The bounds of space.
    pub bounds: SpaceBounds,
    /// The rule by which segments are freed for their share of garbage alone.
    pub discardable: DiscardableRule,
    /// The cost of punching; `None` if it is unknown or the file system can't punch.
    pub punch: Option<PunchCost>,
}

impl Policy {
    /// Returns the least share that the bytes won must have of the bytes won and moved: a quarter
    /// of the share of garbage that an average segment has at the bound. Less is not worth a write.
    /// While users write, what is not urgent has to win the whole share: more garbage comes by
    /// itself, and makes the same move win more.
    fn least_share(&self) -> f64 {
        let average = 1.0 - 1.0 / self.bounds.ratio(self.mode);
        if self.mode == Mode::Spare { average } else { average / 4.0 }
    }

    fn is_worth(&self, gain: &Gain) -> bool {
        let touched = (gain.won + gain.cost) as f64;
        gain.won > 0 && gain.won as f64 >= self.least_share() * touched
    }

    /// Returns the way in which a segment is freed if that is worth it, and whether it is freed
    /// where the bounds hold, too.
    fn way(&self, segment: &SegmentFacts) -> Option<(Gain, bool)> {
        let punch = self.punch.as_ref();
        let gain = segment.gain(punch);
        let discardable = self.discardable.way(segment, punch);
        if matches!(self.mode, Mode::Manual | Mode::Low) {
            // The cheaper way, which takes no room on a full disk if it is holes.
            let is_taken = gain.won > 0 && discardable.is_some() || self.is_worth(&gain);
            return is_taken.then_some((gain, true));
        }
        match discardable.filter(|_| self.discardable.acts(self.mode)) {
            Some(gain) => Some((gain, true)),
            None => self.is_worth(&gain).then_some((gain, false)),
        }
    }

    /// Returns the promise of a new segment that a look would list, if that would be worth it.
    fn promise(&self, segment: &SegmentFacts) -> Option<Promise> {
        let gain = segment.gain(None);
        let is_discardable = self.discardable.acts_always(self.mode)
            && self.discardable.way(segment, None).is_some();
        let is_worth = is_discardable || self.is_worth(&gain);
        is_worth.then_some(Promise { gain, after_look: true, is_discardable })
    }
}

/// A segment to free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    /// The segment's id.
    pub id: SegmentId,
    /// The way it is freed, and the gain.
    pub gain: Gain,
}

/// The result of a pick.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcPlan {
    /// Segments to free, in this order.
    pub victims: Vec<Victim>,
    /// Advice about the tail of the log, if a flush is worth it.
    pub advice: Option<LogTailAdvice>,
    /// Bytes that are to be won after a look at new segments, as the bound asks for them.
    pub after_look: u64,
    /// Bytes that new segments would win that are discardable by what tables reference.
    pub discardable_after_look: u64,
    /// Bytes that all segments that are worth it would win, taken or not.
    pub winnable: u64,
    /// The reason for each segment why it is taken or not.
    pub reasons: BTreeMap<SegmentId, Reason>,
}

#[cfg(test)]
impl GcPlan {
    /// Returns the bytes that the victims win.
    pub fn won(&self) -> u64 {
        self.victims.iter().map(|victim| victim.gain.won).sum()
    }

    /// Returns the bytes that have to be moved for that.
    pub fn moved(&self) -> u64 {
        self.victims.iter().map(|victim| victim.gain.moved).sum()
    }
}

/// Decides which segments to free.
pub fn pick(facts: &SpaceFacts, policy: &Policy) -> GcPlan {
    let marks = policy.bounds.of(policy.mode, facts.live_bytes);
    debug_assert!(
        facts.segments.iter().map(|segment| segment.allocated).sum::<u64>() <= facts.segment_bytes,
        "the bytes of each segment are in the sum"
    );
    let mut plan = GcPlan::default();
    let mut candidates = Vec::new();
    let mut promises = Vec::new();
    for segment in &facts.segments {
        match judge(segment, policy) {
            Ok(candidate) => candidates.push(candidate),
            Err(reason) => {
                if reason == Reason::NotCounted && segment.is_new() {
                    promises.extend(policy.promise(segment));
                }
                plan.reasons.insert(segment.id, reason);
            }
        }
    }
    candidates.sort_by(|(a, _), (b, _)| by_gain(&a.gain, &b.gain).then(a.id.cmp(&b.id)));
    plan.winnable = candidates.iter().map(|(victim, _)| victim.gain.won).sum();
    if policy.mode.is_off() {
        let reason = if policy.mode == Mode::Off { Reason::Off } else { Reason::Paused };
        plan.reasons.extend(candidates.iter().map(|(victim, _)| (victim.id, reason)));
        return plan;
    }
    let tail = LogTail::of(facts);
    plan.advice = advise(facts, policy, &marks, &tail);
    promises.extend(plan.advice.map(|it| Promise {
        gain: tail.gain(it),
        after_look: false,
        is_discardable: false,
    }));
    promises.sort_by(|a, b| by_gain(&a.gain, &b.gain));
    let mut need = Need {
        allocated: facts.allocated(),
        goal: if facts.allocated() > marks.low() { marks.low() } else { u64::MAX },
        is_due: facts.allocated() > marks.start(),
    };
    // Candidates that a promise beats wait for the promise.
    let mut promises = promises.iter().peekable();
    for (victim, is_discardable) in &candidates {
        while let Some(promise) = promises.next_if(|promise| promise.gain.beats(&victim.gain)) {
            plan.rely_on(promise, &mut need);
        }
        let reason = plan.consider(victim, *is_discardable, &mut need);
        plan.reasons.insert(victim.id, reason);
    }
    promises.for_each(|promise| plan.rely_on(promise, &mut need));
    debug_assert_eq!(plan.reasons.len(), facts.segments.len(), "each segment has one reason");
    debug_assert!(
        plan.victims.iter().map(|victim| victim.gain.won).sum::<u64>() <= plan.winnable,
        "what is taken was worth it"
    );
    plan
}

/// Returns the segment as a victim if freeing it is worth it, with whether that is so where the
/// bounds hold, too, and otherwise the reason why it stays.
fn judge(segment: &SegmentFacts, policy: &Policy) -> Result<(Victim, bool), Reason> {
    if !segment.sealed {
        return Err(Reason::Active);
    }
    if !segment.is_collectable() {
        return Err(Reason::Replay);
    }
    if segment.referenced == 0 {
        return Err(Reason::Dead);
    }
    if let Some(fault) = segment.fault {
        return Err(Reason::SegmentFault(fault));
    }
    if !segment.counted {
        return Err(Reason::NotCounted);
    }
    if let Some((gain, is_discardable)) = policy.way(segment) {
        return Ok((Victim { id: segment.id, gain }, is_discardable));
    }
    let share = segment.live as f64 / segment.allocated.max(1) as f64;
    let live_percent = (share * 100.0).min(100.0) as u32;
    Err(Reason::TooLive { live_percent, gain: segment.gain(None) })
}

fn by_gain(a: &Gain, b: &Gain) -> Ordering {
    match (a.beats(b), b.beats(a)) {
        (true, _) => Ordering::Less,
        (_, true) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// Space that can be won later, for less than what can be won now.
struct Promise {
    gain: Gain,
    /// True if a look at new segments has to come before it is kept; else a flush has to.
    after_look: bool,
    /// True if it is counted on where the bounds hold, too.
    is_discardable: bool,
}

/// How much a pick is to win.
struct Need {
    /// Allocated bytes, less those that are won already.
    allocated: u64,
    /// Allocated bytes to reach.
    goal: u64,
    /// True if space is over the mark at which GC begins. Below it nothing is moved yet, but new
    /// segments are looked at.
    is_due: bool,
}

impl Need {
    fn is_left(&self) -> bool {
        self.allocated > self.goal
    }

    fn win(&mut self, gain: &Gain) {
        self.allocated = self.allocated.saturating_sub(gain.won);
    }
}

impl GcPlan {
    /// Counts on a promise, if it is needed to reach the goal, or discardable.
    fn rely_on(&mut self, promise: &Promise, need: &mut Need) {
        let is_needed = need.is_left();
        if is_needed || promise.is_discardable {
            need.win(&promise.gain);
        }
        if is_needed && promise.after_look {
            self.after_look += promise.gain.won;
        }
        if promise.is_discardable {
            self.discardable_after_look += promise.gain.won;
        }
    }

    /// Takes a candidate, or returns the reason why not.
    fn consider(&mut self, victim: &Victim, is_discardable: bool, need: &mut Need) -> Reason {
        let gain = victim.gain;
        let is_wanted = need.is_left() && need.is_due || is_discardable || gain.cost == 0;
        if !is_wanted {
            if need.is_left() {
                need.win(&gain);
            }
            return Reason::WithinBound(gain);
        }
        assert!(gain.won > 0, "segment {} would not shrink", victim.id);
        need.win(&gain);
        self.victims.push(*victim);
        Reason::Taken(gain)
    }
}

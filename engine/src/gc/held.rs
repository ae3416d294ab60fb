//! What was freed and is held by somebody who began before: relocated segments, which whoever has a
//! version from before keeps, and recorded holes, for which jobs that work by such a version count
//! as well. Their blocks come back with its end; until then they take space beside what value GC
//! and flushes write next.

use crate::base::pointer::SegmentId;
use crate::version::alive::AliveVersion;
use crate::version::files::names;
use crate::version::runtime::Runtime;
use std::time::Duration;

/// While the oldest holder has had a superseded version for longer than this, nothing that was
/// freed since counts: it is beyond the bounds of space, as all that iterators, backups and long
/// jobs hold. What others hold counts. In a simulated store space passed a ceiling of 1.3 by 0.05
/// where holes that waited for a job counted as free
/// (`bench/record/2026-11-28-small-ceilings.md`).
const JOB_TIME: Duration = Duration::from_secs(2);

/// The oldest holder of what was freed.
#[derive(Debug, Clone, Copy)]
pub struct OldestHolder {
    version: u64,
    is_long: bool,
}

impl OldestHolder {
    /// Returns the present one, be it a reader or a job.
    pub fn of(context: &Runtime) -> OldestHolder {
        OldestHolder::new(context.set.oldest(), context.env.clock.now())
    }

    /// Returns the present one of those that keep files.
    fn of_files(context: &Runtime) -> OldestHolder {
        OldestHolder::new(context.set.oldest_with_files(), context.env.clock.now())
    }

    fn new(oldest: AliveVersion, now: Duration) -> OldestHolder {
        let held = oldest.superseded_at.map(|at| now.saturating_sub(at));
        OldestHolder { version: oldest.number, is_long: held.is_some_and(|it| it >= JOB_TIME) }
    }

    /// Returns true if nobody holds a version from before `since`.
    pub fn has_passed(&self, since: u64) -> bool {
        since <= self.version
    }

    /// Returns true if what no version from `since` on has comes back soon, or can already.
    pub fn gives_back(&self, since: u64) -> bool {
        self.has_passed(since) || !self.is_long
    }
}

/// The segments that relocations have freed and that are not unlinked yet.
#[derive(Default)]
pub struct HeldSegments {
    list: Vec<HeldSegment>,
}

/// A segment that no version from `since` on has.
#[derive(Debug, Clone, Copy)]
struct HeldSegment {
    id: SegmentId,
    allocated: u64,
    since: u64,
    freed_at: Duration,
}

impl HeldSegments {
    /// Adds segments that the current version does not have any more, with the bytes that each
    /// takes on disk.
    pub fn add(&mut self, context: &Runtime, freed: &[(SegmentId, u64)]) {
        let (since, freed_at) = (context.set.current().number, context.env.clock.now());
        let held = |&(id, allocated)| HeldSegment { id, allocated, since, freed_at };
        self.list.extend(freed.iter().map(held));
    }

    /// Forgets those that were unlinked.
    pub fn forget_unlinked(&mut self, context: &Runtime) {
        self.list.retain(|segment| segment.is_there(context));
    }

    /// Returns the bytes on disk of those that are still there and are about to go.
    pub fn bytes(&self, context: &Runtime) -> u64 {
        if self.list.is_empty() {
            return 0;
        }
        let (oldest, now) = (OldestHolder::of_files(context), context.env.clock.now());
        let is_going = |it: &&HeldSegment| it.is_going(&oldest, now) && it.is_there(context);
        self.list.iter().filter(is_going).map(|segment| segment.allocated).sum()
    }
}

impl HeldSegment {
    /// Returns true if it is unlinked soon. Once nobody has a version with it, that takes long only
    /// if it fails, or if a consumer of the change feed took it over.
    fn is_going(&self, oldest: &OldestHolder, now: Duration) -> bool {
        match oldest.has_passed(self.since) {
            true => now.saturating_sub(self.freed_at) < JOB_TIME,
            false => oldest.gives_back(self.since),
        }
    }

    fn is_there(&self, context: &Runtime) -> bool {
        let tables = context.set.tables();
        tables.purge.has(&names::segment(&tables.dir, self.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_has_held_for_long_does_not_count() {
        let secs = Duration::from_secs;
        let segment =
            HeldSegment { id: SegmentId(1), allocated: 10, since: 7, freed_at: secs(100) };
        let is_going = |number: u64, superseded_at: Option<u64>, now: u64| {
            let oldest = AliveVersion { number, superseded_at: superseded_at.map(secs) };
            segment.is_going(&OldestHolder::new(oldest, secs(now)), secs(now))
        };
        assert!(is_going(6, Some(99), 100), "a job that began just before");
        assert!(!is_going(6, Some(99), 101), "a long job, though it was freed a second ago");
        assert!(!is_going(3, Some(10), 100), "an iterator");
        assert!(is_going(7, Some(50), 101) && is_going(7, None, 101), "it waits to be unlinked");
        assert!(!is_going(7, None, 102), "that fails");
    }
}

//! The segments that relocations have freed, and that a job which began before still holds. Their
//! blocks come back with its end, and until then they take space beside the next relocation.

use crate::base::pointer::SegmentId;
use crate::version::files::{PurgeQueue, names};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// What was freed less than this time ago may wait for a job. What somebody holds for longer is
/// beyond the bounds of space, as all that readers hold. In a simulated store space passed a
/// ceiling of 1.3 by 0.05 where recorded holes that waited so counted as free, and by 0.03 where
/// segments did.
pub const JOB_TIME: Duration = Duration::from_secs(2);

/// The segments that were freed lately.
#[derive(Default)]
pub struct LeavingSegments {
    list: Vec<LeavingSegment>,
}

struct LeavingSegment {
    id: SegmentId,
    allocated: u64,
    freed_at: Duration,
}

impl LeavingSegments {
    /// Notes that these segments were freed now, with the bytes that each takes on disk.
    pub fn note(&mut self, segments: &[(SegmentId, u64)], now: Duration) {
        self.list.retain(|segment| segment.is_recent(now));
        let leaving = |&(id, allocated)| LeavingSegment { id, allocated, freed_at: now };
        self.list.extend(segments.iter().map(leaving));
    }

    /// Returns the bytes on disk of those that are still there, in the database in `dir`.
    pub fn bytes(&self, dir: &Path, purge: &PurgeQueue, now: Duration) -> u64 {
        let recent: Vec<_> = self.list.iter().filter(|segment| segment.is_recent(now)).collect();
        if recent.is_empty() {
            return 0;
        }
        let there: BTreeSet<_> = purge.still_read().into_iter().chain(purge.unread()).collect();
        let is_there = |it: &&LeavingSegment| there.contains(&names::segment(dir, it.id));
        recent.into_iter().filter(is_there).map(|segment| segment.allocated).sum()
    }
}

impl LeavingSegment {
    fn is_recent(&self, now: Duration) -> bool {
        now.saturating_sub(self.freed_at) < JOB_TIME
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::files::FileLifetime;
    use std::sync::Arc;

    #[test]
    fn a_segment_counts_while_a_job_reads_it_and_for_some_seconds() {
        let (dir, purge) = (Path::new("db"), Arc::<PurgeQueue>::default());
        let seconds = Duration::from_secs;
        let mut leaving = LeavingSegments::default();
        let handles: Vec<_> = [1, 2, 3]
            .map(|id| FileLifetime::new(names::segment(dir, SegmentId(id)), purge.clone()))
            .into();
        handles.iter().for_each(FileLifetime::mark);
        leaving.note(&[(SegmentId(1), 100), (SegmentId(2), 20)], seconds(1));
        leaving.note(&[(SegmentId(3), 3)], seconds(2));
        assert_eq!(leaving.bytes(dir, &purge, seconds(2)), 123);
        drop(handles);
        assert_eq!(leaving.bytes(dir, &purge, seconds(2)), 123, "they are still to be unlinked");
        assert_eq!(leaving.bytes(dir, &purge, seconds(3)), 3);
        assert_eq!(purge.take().len(), 3);
        assert_eq!(leaving.bytes(dir, &purge, seconds(2)), 0);
    }
}

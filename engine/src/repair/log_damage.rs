//! Finds the segments of the log of which damage has taken commits. What a crash kept from being
//! written whole is no damage: nothing promised that it is there.

use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::repair::segments::{FoundSegment, synced_below};
use crate::segment::SegmentKind;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a log, besides its segments that were found.
pub struct LogRemains<'a> {
    /// Segments whose files are there and whose heads are not.
    pub lost: &'a BTreeSet<SegmentId>,
    /// Those of them whose heads are other bytes, unless they are known to be none of the log.
    pub unreadable: &'a BTreeSet<SegmentId>,
    /// Segments that the manifest leaves in use and whose files are missing.
    pub missing: BTreeSet<SegmentId>,
    /// The lengths in bytes that the manifest records; these segments were synced.
    pub sealed: BTreeMap<SegmentId, u64>,
    /// The head of the log, as far as the manifest records it: tables have all before it.
    pub head: SegmentId,
    /// The sequence number up to which tables have everything.
    pub flushed: SeqNo,
}

impl LogRemains<'_> {
    /// Returns the damaged segments of the log of which tables may lack commits.
    pub fn damaged(&self, found: &BTreeMap<SegmentId, FoundSegment>) -> BTreeSet<SegmentId> {
        let logs = || found.values().filter(|found| found.head.kind == SegmentKind::Log);
        let behind_sealed = self.sealed.keys().next_back().map_or(0, |id| id.0.saturating_add(1));
        // I2: what was synced is there whole, up to where the next one says that it ends.
        let synced_below = synced_below(found).max(SegmentId(behind_sealed));
        let mut ends = self.sealed.clone();
        ends.extend(logs().filter_map(|next| {
            let previous = next.head.previous.filter(|id| *id < synced_below)?;
            Some((previous, next.head.previous_bytes))
        }));
        let with_head = |id: &SegmentId| found.get(id).filter(|found| found.has_head);
        let short = ends.into_iter().filter(|(id, bytes)| match with_head(id) {
            Some(found) => found.is_whole && found.length < *bytes,
            None => self.lost.contains(id),
        });
        // A scan of frames ends at the first hole, which is no damage.
        let broken = logs().filter(|found| !found.is_whole && found.holes.is_empty());
        let unreadable = self.unreadable.iter().copied().filter(|id| *id < synced_below);
        let damaged = broken.map(|found| found.head.id).chain(short.map(|(id, _)| id));
        let damaged = damaged.chain(unreadable).chain(self.missing.iter().copied());
        damaged.filter(|id| !self.is_flushed(*id, logs())).collect()
    }

    /// Returns true if tables have all commits up to a segment of the log that follows this one.
    fn is_flushed<'f>(
        &self,
        id: SegmentId,
        mut logs: impl Iterator<Item = &'f FoundSegment>,
    ) -> bool {
        // I7: the number is from a file.
        let next = self.flushed.saturating_add(1);
        id < self.head || logs.any(|found| found.head.id > id && found.head.first_seqno <= next)
    }
}

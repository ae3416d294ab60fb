//! How far the log reaches that a follower has read: what its change feed may hand out.

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::env::Env;
use crate::recovery::follow::log::{LogEnd, head_of};
use crate::recovery::follow::seen::SeenManifest;
use crate::segment::SegmentKind;
use std::collections::BTreeMap;

/// The ends of the log's segments, as a follower knows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FollowedEnds {
    /// The offset at which the frames of each segment end.
    pub ends: BTreeMap<SegmentId, u64>,
    /// Every commit up to this number was durable when the heads were read: each head says up to
    /// where the log was synced before it was written.
    pub settled_seqno: SeqNo,
}

impl FollowedEnds {
    /// Reads the heads of those segments whose length the manifest lacks. The length of each but
    /// the last is in the head of the next (I2); the last was read up to `end`.
    pub(super) fn read(env: &Env, seen: &SeenManifest, end: LogEnd) -> Result<FollowedEnds> {
        let mut found = FollowedEnds::default();
        let logs = seen.version.segments.iter();
        let logs = logs.filter(|(_, live)| live.handle.segment.kind() == SegmentKind::Log);
        // What was begun behind the place that was read up to was not read.
        let logs = logs.filter(|(id, _)| end.segment.is_none_or(|last| **id <= last));
        let mut open: Option<SegmentId> = None;
        let (mut firsts, mut synced_below) = (Vec::new(), SegmentId(0));
        for (&id, live) in logs {
            if open.is_some() || live.sealed.is_none() {
                let Some(head) = head_of(env, live)? else { continue };
                if let Some(before) = open.take() {
                    found.ends.insert(before, head.previous_bytes);
                }
                synced_below = synced_below.max(head.synced_below());
                firsts.push((id, head.first_seqno));
            }
            match live.sealed {
                Some(length) => {
                    found.ends.insert(id, length);
                    synced_below = synced_below.max(SegmentId(id.0 + 1));
                }
                None => open = Some(id),
            }
        }
        let unsynced = firsts.iter().find(|(id, _)| *id >= synced_below);
        found.settled_seqno = unsynced.map_or(SeqNo::MAX, |(_, first)| first.saturating_sub(1));
        if let Some(last) = end.segment {
            found.ends.insert(last, end.offset());
        }
        Ok(found)
    }
}

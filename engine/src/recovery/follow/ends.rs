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
    /// Every commit up to this number was durable when the heads were read: a segment is synced
    /// before the next one is begun.
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
        for (&id, live) in logs {
            if open.is_some() || live.sealed.is_none() {
                let Some(head) = head_of(env, live)? else { continue };
                if let Some(before) = open.take() {
                    found.ends.insert(before, head.previous_bytes);
                }
                found.settled_seqno = head.first_seqno.saturating_sub(1);
            }
            match live.sealed {
                Some(length) => drop(found.ends.insert(id, length)),
                None => open = Some(id),
            }
        }
        if open.is_none() {
            found.settled_seqno = SeqNo::MAX;
        }
        if let Some(last) = end.segment {
            found.ends.insert(last, end.offset());
        }
        Ok(found)
    }
}

//! Removal of needless relocations: those of segments that no table references any more.
//!
//! A compaction that began earlier may still install pointers into such a segment, which it
//! resolved through a relocation that was composed since. So a relocation is removed only when no
//! version from before it became needless is alive. Jobs hold their versions until they are
//! installed (I3).

use crate::base::error::Result;
use crate::base::pointer::SegmentId;
use crate::version::Version;
use crate::version::edit::{Change, Edit};
use crate::version::set::VersionSet;
use std::collections::BTreeMap;

/// The relocations that no table needs, each with the version since which that is so.
#[derive(Default)]
pub struct Tidy {
    needless_since: BTreeMap<SegmentId, u64>,
}

impl Tidy {
    /// Removes the relocations that nobody can need; returns true if there were any.
    pub fn run(&mut self, set: &VersionSet) -> Result<bool> {
        let over = self.over(set);
        if over.is_empty() {
            return Ok(false);
        }
        // Checked again in the serial step, because a job may have referenced one meanwhile.
        let plan = |version: &Version| {
            let still = over.iter().filter(|id| is_needless(version, **id));
            Ok(Edit::new(still.map(|&segment| Change::RemoveRelocation { segment }).collect()))
        };
        set.apply(plan, &[], None)?;
        self.needless_since.retain(|id, _| !over.contains(id));
        Ok(true)
    }

    /// Returns true if there are relocations to remove.
    pub fn is_due(&mut self, set: &VersionSet) -> bool {
        !self.over(set).is_empty()
    }

    /// Returns the segments whose relocations nobody can need.
    fn over(&mut self, set: &VersionSet) -> Vec<SegmentId> {
        self.look(&set.current());
        let oldest = set.oldest_alive();
        debug_assert!(
            self.needless_since.values().all(|&since| since <= set.current().number),
            "a version number only grows"
        );
        let is_over = |(_, since): &(&SegmentId, &u64)| **since <= oldest;
        self.needless_since.iter().filter(is_over).map(|(&id, _)| id).collect()
    }

    fn look(&mut self, version: &Version) {
        self.needless_since.retain(|id, _| is_needless(version, *id));
        for &id in version.relocations.keys() {
            if is_needless(version, id) {
                self.needless_since.entry(id).or_insert(version.number);
            }
        }
    }
}

fn is_needless(version: &Version, segment: SegmentId) -> bool {
    version.relocations.contains_key(&segment) && version.uses.of(segment).count == 0
}

//! Relocations that are needed no more: no table names their segment.
//!
//! A compaction that began earlier may still install pointers into that segment: it resolved
//! others through a relocation that was composed since. So a relocation goes once no version is
//! alive from before it became needless; jobs hold theirs until they are installed (I3).

use crate::base::error::Result;
use crate::base::pointer::SegmentId;
use crate::version::Version;
use crate::version::edit::{Change, Edit};
use crate::version::set::VersionSet;
use std::collections::BTreeMap;

/// Which relocations no table names, and since which version.
#[derive(Default)]
pub struct Tidy {
    needless_since: BTreeMap<SegmentId, u64>,
}

impl Tidy {
    /// Drops what nobody can need; true if something was.
    pub fn run(&mut self, set: &VersionSet) -> Result<bool> {
        let over = self.over(set);
        if over.is_empty() {
            return Ok(false);
        }
        // Asked again in the serial step: a job may have named one meanwhile.
        let plan = |version: &Version| {
            let still = over.iter().filter(|id| is_needless(version, **id));
            Ok(Edit::new(still.map(|&segment| Change::RemoveRelocation { segment }).collect()))
        };
        set.apply(plan, &[], None)?;
        self.needless_since.retain(|id, _| !over.contains(id));
        Ok(true)
    }

    /// True if there is something to drop.
    pub fn is_due(&mut self, set: &VersionSet) -> bool {
        !self.over(set).is_empty()
    }

    /// The segments whose relocations nobody can need.
    fn over(&mut self, set: &VersionSet) -> Vec<SegmentId> {
        self.look(&set.current());
        let oldest = set.oldest_alive();
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

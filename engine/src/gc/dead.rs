//! Drops segments in which nothing is live any more, as a whole.
//!
//! A segment is dead if all of this holds: it is sealed; it is behind the head, so that no replay
//! needs it and no memtable points into it (always so for a sorted one); no table of the version
//! references a record in it; and no relocation leads to it, through which a table could. The sums
//! of references say where to look, and the tables themselves decide (I4), as tables keep what live
//! snapshots can see. Older versions that a reader still holds keep the file: it is unlinked only
//! when the last of them is dropped (I5).

use crate::base::error::Result;
use crate::base::pointer::SegmentId;
use crate::segment::SegmentKind;
use crate::version::Version;
use crate::version::edit::{Change, Edit};
use crate::version::set::VersionSet;

/// Returns the segments of a version that are dead. Pure.
pub fn pick(version: &Version) -> Vec<SegmentId> {
    let seems_dead = |id: &SegmentId| {
        let closed = version.segments.get(id).is_some_and(|live| {
            let sorted = live.handle.segment.kind() == SegmentKind::Sorted;
            live.sealed.is_some() && (sorted || *id < version.head.segment)
        });
        closed && version.uses.of(*id).count == 0
    };
    // I4: a wrong sum costs this look at the tables, or space, but never data. Few segments come
    // this far, and each only once.
    let candidates = version.segments.keys().copied().filter(seems_dead);
    candidates.filter(|id| !is_target(version, *id) && !is_referenced(version, *id)).collect()
}

/// Returns true if a relocation leads to a record in `segment`.
fn is_target(version: &Version, segment: SegmentId) -> bool {
    version.relocations.values().any(|relocation| relocation.meta.targets.contains_key(&segment))
}

/// Returns true if a table references a record in `segment`; here the tree decides.
fn is_referenced(version: &Version, segment: SegmentId) -> bool {
    let mut tables = version.keyspaces.values().flat_map(|keyspace| keyspace.levels.tables());
    tables.any(|(_, table)| table.meta.summary.segments.contains_key(&segment))
}

/// Drops the dead segments; returns how many there were.
pub fn run(set: &VersionSet) -> Result<usize> {
    let mut count = 0;
    // Picked again inside the serial step: what was dead stays dead, and nothing is removed twice.
    let plan = |version: &Version| {
        let dead = pick(version);
        count = dead.len();
        let changes = dead.into_iter().map(|id| Change::RemoveSegment { id }).collect();
        Ok(Edit::new(changes))
    };
    set.apply(plan, &[], None)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::KeyOrder;
    use crate::base::pointer::{KeyspaceId, RelocationId, TableId};
    use crate::cache::memory_fs::MemoryFs;
    use crate::relocation::{RelocationMeta, TargetUse};
    use crate::table::{SegmentUse, Summary, TableMeta};
    use crate::version::LogPosition;
    use crate::version::build::VersionBuilder;
    use crate::version::files::{TableContext, TableLimits};
    use crate::version::garbage::SegmentUses;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const KEYSPACE: KeyspaceId = KeyspaceId(1);

    fn after(version: &Version, changes: Vec<Change>) -> Version {
        let tables =
            TableContext::new(Arc::new(MemoryFs::default()), "db".into(), 7, TableLimits::TESTS);
        let comparator_of = |_: &str| Ok(KeyOrder::Bytewise);
        let builder = VersionBuilder { tables: &Arc::new(tables), comparator_of: &comparator_of };
        let mut after = version.clone();
        builder.apply_to(&mut after, &Edit::new(changes)).unwrap();
        after
    }

    fn uses(segments: &[u64]) -> BTreeMap<SegmentId, SegmentUse> {
        let used = SegmentUse { count: 1, bytes: 100 };
        segments.iter().map(|&id| (SegmentId(id), used)).collect()
    }

    fn add_table(id: u64, segments: &[u64]) -> Change {
        let summary = Summary { max_seqno: id, segments: uses(segments), ..Summary::default() };
        let meta = TableMeta {
            id: TableId(id),
            bytes: 1000,
            summary: Arc::new(summary),
            applied_ranges: 0,
            ingested_at: 0,
        };
        Change::AddTable { keyspace: KEYSPACE, level: 0, meta: Arc::new(meta) }
    }

    /// Segments 1 to 5, of which 1 to 3 are sealed and behind the head; table 11 references a
    /// record in segment 1 and table 12 one in segment 2.
    fn version() -> Version {
        let (order, settings) = (String::new(), String::new());
        let name = "default".to_owned();
        let mut changes =
            vec![Change::AddKeyspace { id: KEYSPACE, name, order, settings, flushed: 0 }];
        for id in (1..=5).map(SegmentId) {
            changes.push(Change::AddSegment { id, kind: SegmentKind::Log, epoch: id.0 });
            if id.0 <= 4 {
                changes.push(Change::SealSegment { id, length: 1000 });
            }
        }
        changes.extend([add_table(11, &[1]), add_table(12, &[2])]);
        changes.push(Change::Head(LogPosition { segment: SegmentId(4), offset: 500 }));
        after(&Version::default(), changes)
    }

    #[test]
    fn a_segment_dies_with_its_last_reference() {
        let mut version = version();
        assert_eq!(pick(&version), [SegmentId(3)]);
        let remove = |id| Change::RemoveTable { keyspace: KEYSPACE, level: 0, id: TableId(id) };
        version = after(&version, vec![remove(11), add_table(13, &[2])]);
        assert_eq!(pick(&version), [SegmentId(1), SegmentId(3)]);
        version = after(&version, vec![remove(12)]);
        assert_eq!(pick(&version), [SegmentId(1), SegmentId(3)], "table 13 is left");
        version = after(&version, vec![Change::DropKeyspace { id: KEYSPACE }]);
        assert_eq!(pick(&version), [1, 2, 3].map(SegmentId));
    }

    #[test]
    fn what_replay_may_need_is_never_dead() {
        let mut version = version();
        version = after(&version, vec![Change::Head(LogPosition::default())]);
        assert_eq!(pick(&version), []);
        let head = LogPosition { segment: SegmentId(9), offset: 0 };
        version = after(&version, vec![Change::Head(head)]);
        assert_eq!(pick(&version), [3, 4].map(SegmentId), "5 is still written to");
    }

    #[test]
    fn i03_what_a_relocation_leads_to_is_not_dead() {
        let sorted = SegmentId(20);
        let used = TargetUse { count: 1, bytes: 100 };
        let meta = RelocationMeta {
            id: RelocationId(21),
            bytes: 100,
            entries: 1,
            targets: BTreeMap::from([(sorted, used), (SegmentId(3), used)]),
            ..RelocationMeta::empty(SegmentId(1))
        };
        let mut version = after(
            &version(),
            vec![
                Change::AddSegment { id: sorted, kind: SegmentKind::Sorted, epoch: 1 },
                Change::SealSegment { id: sorted, length: 1000 },
                Change::RemoveSegment { id: SegmentId(1) },
                Change::AddRelocation { meta: Arc::new(meta) },
            ],
        );
        assert_eq!(pick(&version), []);
        version = after(&version, vec![Change::RemoveRelocation { segment: SegmentId(1) }]);
        assert_eq!(pick(&version), [SegmentId(3), sorted], "a sorted one is never replayed");
        version = after(&version, vec![add_table(14, &[20])]);
        assert_eq!(pick(&version), [SegmentId(3)]);
    }

    #[test]
    fn i04_wrong_sums_cost_space_and_never_data() {
        let mut version = version();
        version.uses = Arc::new(SegmentUses::default());
        assert_eq!(pick(&version), [SegmentId(3)], "the tables still name 1 and 2");
        let mut too_many = SegmentUses::default();
        too_many.add(&uses(&[3]));
        version.uses = Arc::new(too_many);
        assert_eq!(pick(&version), []);
    }
}

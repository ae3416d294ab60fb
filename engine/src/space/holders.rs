//! Attributes space to its holders: obsolete files to the versions of the tree that readers hold,
//! old versions of keys to the snapshots that see them. Space with several holders is attributed to
//! the oldest, so that the bytes add up; it is freed when the last of them goes.

use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::space::files::FileFacts;
use crate::space::report::HolderSpace;
use crate::version::files::names::FileName;
use crate::version::pins::{Holder, PinKind};
use std::collections::BTreeMap;
use std::time::Duration;

fn word(kind: PinKind) -> &'static str {
    match kind {
        PinKind::Snapshot => "snapshot",
        PinKind::Transaction => "transaction",
        PinKind::Cursor => "cursor",
        PinKind::Iterator => "iterator",
        PinKind::Changes => "changes",
    }
}

/// Count and bytes of the versions of keys that only snapshots see, by the oldest that sees them.
pub(super) type OldVersions = BTreeMap<SeqNo, (u64, u64)>;

/// Returns every holder with the space attributed to it; the last entry is what reads and jobs hold
/// that are no cursors. `files` are obsolete files that are still read.
pub(super) fn account(
    holders: &[Holder],
    files: &[&FileFacts],
    is_kept_by: &dyn Fn(u64, SegmentId) -> bool,
    versions: &OldVersions,
    name_of: &dyn Fn(KeyspaceId) -> String,
    now: Duration,
) -> Vec<HolderSpace> {
    let mut versions = versions.clone();
    let new = |holder: &Holder| HolderSpace {
        kind: word(holder.owner.kind),
        keyspace: holder.owner.keyspace.map(name_of),
        age: now.saturating_sub(holder.owner.since),
        seqno: holder.owner.seqno,
        versions: 0,
        version_bytes: 0,
        files: 0,
        file_bytes: 0,
    };
    let mut all: Vec<HolderSpace> = holders.iter().map(new).collect();
    for (holder, space) in holders.iter().zip(&mut all) {
        // A cursor's sequence number is its snapshot's, or pins nothing; a consumer of changes
        // keeps segments and no versions.
        if !matches!(holder.owner.kind, PinKind::Cursor | PinKind::Changes)
            && let Some((count, bytes)) = versions.remove(&space.seqno)
        {
            (space.versions, space.version_bytes) = (count, bytes);
        }
    }
    let mut others = HolderSpace {
        kind: "reader",
        keyspace: None,
        age: Duration::ZERO,
        seqno: 0,
        versions: 0,
        version_bytes: 0,
        files: 0,
        file_bytes: 0,
    };
    for file in files {
        let keeps = |holder: &Holder| match (holder.owner.kind, file.named) {
            (PinKind::Changes, FileName::Segment(id)) => is_kept_by(holder.id, id),
            _ => holder.versions.iter().any(|v| v.names(file.named)),
        };
        let space = match holders.iter().position(keeps) {
            Some(index) => &mut all[index],
            None => &mut others,
        };
        space.files += 1;
        space.file_bytes += file.measure.allocated;
    }
    // These are versions of snapshots that came or went while the tree was walked.
    others.versions = versions.values().map(|(count, _)| count).sum();
    others.version_bytes = versions.values().map(|(_, bytes)| bytes).sum();
    if others.bytes() > 0 {
        all.push(others);
    }
    debug_assert_eq!(
        all.iter().map(|space| space.file_bytes).sum::<u64>(),
        files.iter().map(|file| file.measure.allocated).sum::<u64>(),
        "each file is attributed to one holder"
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::fs::Measure;
    use crate::space::files::Standing;
    use crate::version::pins::{PinOwner, Pins};
    use crate::version::{LiveSegment, Version, files};
    use std::path::PathBuf;
    use std::sync::Arc;

    fn file(id: u64) -> FileFacts {
        FileFacts {
            path: PathBuf::from(format!("db/{id:08}.seg")),
            named: FileName::Segment(SegmentId(id)),
            standing: Standing::Obsolete,
            measure: Measure { len: 100, allocated: 4096, links: 1, modified: None },
        }
    }

    fn version(segments: &[u64]) -> Arc<Version> {
        use crate::cache::memory_fs::MemoryFs;
        let context = files::TableContext::new(
            Arc::new(MemoryFs::default()),
            "db".into(),
            7,
            files::TableLimits::TESTS,
        );
        let kind = crate::segment::SegmentKind::Log;
        let live = |&id: &u64| {
            let handle = Arc::new(files::SegmentHandle::open(SegmentId(id), kind, 1, &context));
            (SegmentId(id), LiveSegment { handle, sealed: Some(100), holes: Arc::default() })
        };
        let segments = Arc::new(segments.iter().map(live).collect());
        Arc::new(Version { segments, ..Version::default() })
    }

    #[test]
    fn the_oldest_holder_is_named() {
        let pins = Arc::new(Pins::default());
        let owner = |kind, keyspace: Option<u64>, seqno, since| PinOwner {
            kind,
            keyspace: keyspace.map(KeyspaceId),
            seqno,
            since: Duration::from_secs(since),
        };
        let (old, new) = (version(&[1, 2]), version(&[2, 3]));
        let _kept = [
            pins.register(owner(PinKind::Cursor, Some(5), 80, 30), Some(&new)),
            pins.register(owner(PinKind::Snapshot, None, 70, 20), None),
            pins.register(owner(PinKind::Iterator, Some(6), 60, 10), Some(&old)),
            pins.register(owner(PinKind::Changes, None, 75, 5), None),
        ];
        let is_kept_by = |pin, segment| pin == 3 && segment == SegmentId(5);
        let files = [file(1), file(2), file(3), file(4), file(5)];
        let files: Vec<&FileFacts> = files.iter().collect();
        let versions = OldVersions::from([(60, (2, 200)), (70, (1, 10)), (75, (1, 1))]);
        let name_of = |id: KeyspaceId| format!("keyspace-{id}");
        let now = Duration::from_secs(40);
        let all = account(&pins.holders(), &files, &is_kept_by, &versions, &name_of, now);
        let told: Vec<_> = all
            .iter()
            .map(|h| (h.kind, h.age.as_secs(), h.versions, h.version_bytes, h.files, h.file_bytes))
            .collect();
        assert_eq!(
            told,
            [
                ("changes", 35, 0, 0, 1, 4096),
                ("iterator", 30, 2, 200, 2, 8192),
                ("snapshot", 20, 1, 10, 0, 0),
                ("cursor", 10, 0, 0, 1, 4096),
                ("reader", 0, 1, 1, 1, 4096),
            ]
        );
        assert_eq!(all[1].keyspace.as_deref(), Some("keyspace-6"));
    }
}

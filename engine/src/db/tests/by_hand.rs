//! Relocates segments without value GC: with the same results, but in the simplest way.

use crate::base::checksum::{checksum32, seed};
use crate::base::entry::Slot;
use crate::base::iter::EntryIter;
use crate::base::key::SeqNo;
use crate::base::pointer::{RelocationId, SegmentId, ValuePointer};
use crate::db::Db;
use crate::read::get::{Lookup, get};
use crate::relocation::{RelocationMeta, RelocationWriter};
use crate::segment::{HEAD_BYTES, Segment, SegmentHead, SegmentKind};
use crate::version::edit::{Change, Edit};
use crate::version::expiry::ReadPoint;
use crate::version::files::names;
use crate::version::resolve::Resolved;
use crate::version::view::View;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A pointer in a table that some read can still see.
pub(crate) struct LivePointer {
    pub(crate) key: Vec<u8>,
    pub(crate) stored: ValuePointer,
    /// The segment that the record is in, and its place there.
    segment: Arc<Segment>,
    pub(crate) place: ValuePointer,
}

/// Returns the live pointers of the default keyspace in key order, and the others.
pub(crate) fn pointers(db: &Db) -> (Vec<LivePointer>, Vec<ValuePointer>) {
    let view = view(db);
    let mut readers: Vec<SeqNo> = db.core.snapshots.list();
    readers.push(db.core.snapshots.visible());
    let (mut live, mut hidden) = (Vec::new(), Vec::new());
    for (_, handle) in view.levels.tables() {
        let mut entries = handle.table().unwrap().iter(false);
        entries.seek_to_first().unwrap();
        while entries.valid() {
            let (key, trailer) = (entries.user_key().to_vec(), entries.trailer());
            let slot = Slot::decode(trailer.kind().unwrap(), entries.payload()).unwrap();
            if let Slot::Pointer(stored) = slot {
                let sees = |reader: &SeqNo| {
                    let found =
                        get(&view, &key, ReadPoint::timeless(*reader), false, None).unwrap();
                    found == Lookup::Pointer(stored, trailer.seqno())
                };
                match view.resolve(stored).unwrap() {
                    Resolved::At(handle, place) if readers.iter().any(sees) => {
                        let segment = handle.segment.clone();
                        live.push(LivePointer { key, stored, segment, place });
                    }
                    _ => hidden.push(stored),
                }
            }
            entries.next().unwrap();
        }
    }
    live.sort_by(|a, b| (&a.key, a.stored).cmp(&(&b.key, b.stored)));
    (live, hidden)
}

pub(crate) fn view(db: &Db) -> Arc<View> {
    let view = db.core.states()[0].view();
    assert!(view.memtables().all(|memtable| memtable.table.is_empty()), "everything is in tables");
    view
}

/// Returns the sealed segments that tables name or relocations lead to.
pub(crate) fn homes(db: &Db) -> BTreeSet<SegmentId> {
    pointers(db).0.iter().map(|pointer| pointer.place.segment).collect()
}

/// Writes a sorted segment with a frame for each record; returns the new places and the length.
fn write_sorted(
    db: &Db,
    id: SegmentId,
    epoch: u64,
    records: &[&LivePointer],
) -> (Vec<ValuePointer>, u64) {
    let path = names::segment(&db.core.dir, id);
    let database = db.core.set.tables().identity.id;
    let (kind, previous) = (SegmentKind::Sorted, None);
    let head = SegmentHead {
        database,
        id,
        kind,
        is_encrypted: false,
        epoch,
        first_seqno: 0,
        previous,
        previous_bytes: 0,
        first_unsynced: None,
    };
    let mut bytes = head.encode().to_vec();
    assert_eq!(bytes.len(), HEAD_BYTES);
    let mut places = Vec::new();
    for live in records {
        let whole = std::fs::read(live.segment.path()).unwrap();
        let record = &whole[live.place.offset as usize..][..live.place.length as usize];
        let frame = bytes.len() as u64;
        let mut header = Vec::new();
        for number in [record.len() as u32, 1, 0] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        header.extend_from_slice(&0u64.to_le_bytes());
        bytes.extend_from_slice(&checksum32(seed(epoch, frame), &header).to_le_bytes());
        bytes.extend_from_slice(&header);
        let offset = bytes.len() as u64;
        bytes.extend_from_slice(&checksum32(seed(epoch, offset), &record[4..]).to_le_bytes());
        bytes.extend_from_slice(&record[4..]);
        places.push(ValuePointer { segment: id, offset, length: live.place.length });
    }
    std::fs::write(&path, &bytes).unwrap();
    (places, bytes.len() as u64)
}

fn write_relocation(
    db: &Db,
    freed: SegmentId,
    moves: &BTreeMap<u64, ValuePointer>,
) -> RelocationMeta {
    if moves.is_empty() {
        return RelocationMeta::empty(freed);
    }
    let id = RelocationId(db.core.set.allocate().unwrap());
    let (path, fs) = (names::relocation(&db.core.dir, id), &db.core.env.fs);
    let file = fs.create(&path).unwrap();
    let database = db.core.set.tables().identity.id;
    let mut writer = RelocationWriter::create(file, path, database, id, freed);
    for (&old, at) in moves {
        writer.add(old, at.segment, at.offset, at.length).unwrap();
    }
    writer.finish().unwrap()
}

/// Moves the live records of `victims` to a new sorted segment, except those of the keys in
/// `forgotten`: leaving out a live record is what value GC must never do.
pub(crate) fn relocate(db: &Db, victims: &BTreeSet<SegmentId>, forgotten: &[&[u8]]) -> SegmentId {
    let target = SegmentId(db.core.set.allocate().unwrap());
    let epoch = 0x5eed ^ target.0;
    let (live, hidden) = pointers(db);
    let is_victim = |pointer: &&LivePointer| victims.contains(&pointer.place.segment);
    let forgets = |pointer: &LivePointer| forgotten.contains(&pointer.key.as_slice());
    let moved: Vec<&LivePointer> = live.iter().filter(is_victim).collect();
    let (places, length) = write_sorted(db, target, epoch, &moved);
    // Relocations are keyed by the pointers that tables store, so one that led to a victim is
    // rewritten to lead straight to the new place.
    let mut relocations: BTreeMap<SegmentId, BTreeMap<u64, ValuePointer>> =
        victims.iter().map(|&victim| (victim, BTreeMap::new())).collect();
    let version = db.core.set.current();
    for (&freed, relocation) in version.relocations.iter() {
        if relocation.meta.targets.keys().any(|target| victims.contains(target)) {
            relocations.insert(freed, BTreeMap::new());
        }
    }
    for pointer in &live {
        let new = moved.iter().position(|moved| std::ptr::eq(*moved, pointer));
        let place = new.map_or(pointer.place, |index| places[index]);
        if let Some(moves) = relocations.get_mut(&pointer.stored.segment)
            && !forgets(pointer)
        {
            moves.insert(pointer.stored.offset, place);
        }
    }
    assert!(hidden.iter().all(|pointer| pointer.length > 0));
    let mut changes = vec![
        Change::AddSegment { id: target, kind: SegmentKind::Sorted, epoch },
        Change::SealSegment { id: target, length },
    ];
    changes.extend(victims.iter().map(|&id| Change::RemoveSegment { id }));
    for (freed, moves) in relocations {
        let meta = Arc::new(write_relocation(db, freed, &moves));
        changes.push(Change::AddRelocation { meta });
    }
    db.core.set.apply(|_| Ok(Edit::new(changes)), &[], None).unwrap();
    target
}

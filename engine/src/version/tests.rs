//! Versions with relocated segments: the effect of edits, and the resolution of pointers.

use super::batch_places::BatchPlaces;
use super::build::{VersionBuilder, state_of};
use super::edit::{Change, Edit};
use super::entries::EntriesView;
use super::files::{TableContext, TableLimits, names};
use super::placing::Placing;
use super::references::{check_all, check_edit};
use super::resolve::{Places, Resolved, unknown};
use super::view::{LoggedMemtable, View};
use super::{Holes, Version};
use crate::base::error::{ErrorKind, Result};
use crate::base::key::{EntryKind, KeyOrder, Trailer, internal_key};
use crate::base::pointer::{KeyspaceId, RelocationId, SegmentId, TableId, ValuePointer};
use crate::cache::memory_fs::MemoryFs;
use crate::env::fs::Fs;
use crate::relocation::{RelocationMeta, RelocationWriter};
use crate::segment::SegmentKind;
use crate::table::{SegmentUse, Summary, TableMeta};
use std::collections::BTreeMap;
use std::sync::Arc;

const DATABASE: u64 = 7;
const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// A database directory in memory.
struct VersionDir {
    fs: Arc<MemoryFs>,
    tables: Arc<TableContext>,
}

impl VersionDir {
    fn new() -> Self {
        let fs = Arc::new(MemoryFs::default());
        let tables = TableContext::new(
            fs.clone(),
            "db".into(),
            DATABASE,
            TableLimits { cache_bytes: 1 << 20, ..TableLimits::TESTS },
        );
        VersionDir { fs, tables: Arc::new(tables) }
    }

    fn builder(&self) -> VersionBuilder<'_> {
        VersionBuilder { tables: &self.tables, comparator_of: &|_| Ok(KeyOrder::Bytewise) }
    }

    /// Returns the version after `changes`, and the result of the check of references.
    fn after(&self, version: &Version, changes: Vec<Change>) -> (Version, Result<()>) {
        let edit = Edit::new(changes);
        let (after, removed) = self.builder().apply_tracking(version, &edit, &[]).unwrap();
        let checked = check_edit(&after, &edit);
        assert_eq!(checked.is_ok(), check_all(&after).is_ok());
        if checked.is_ok() {
            removed.mark_obsolete();
        }
        (after, checked)
    }

    fn good(&self, version: &Version, changes: Vec<Change>) -> Version {
        let (after, checked) = self.after(version, changes);
        checked.unwrap();
        after
    }

    fn refused(&self, version: &Version, changes: Vec<Change>, why: &str) {
        let error = self.after(version, changes).1.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }

    /// Returns the addition of a relocation of segment `freed` with a file of these moves: (old
    /// offset, target, new offset, length).
    fn relocation(&self, id: u64, freed: u64, moves: &[(u64, u64, u64, u32)]) -> Change {
        let id = RelocationId(id);
        let path = names::relocation(&self.tables.dir, id);
        let file = self.fs.create(&path).unwrap();
        let mut writer = RelocationWriter::create(file, path, DATABASE, id, SegmentId(freed));
        for &(old, target, new, length) in moves {
            writer.add(old, SegmentId(target), new, length).unwrap();
        }
        Change::AddRelocation { meta: Arc::new(writer.finish().unwrap()) }
    }

    fn purged(&self) -> Vec<String> {
        let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().into();
        let mut purged: Vec<String> = self.tables.purge.take().iter().map(name).collect();
        purged.sort();
        purged
    }
}

fn add_segment(id: u64) -> [Change; 2] {
    let id = SegmentId(id);
    let add = Change::AddSegment { id, kind: SegmentKind::Log, epoch: id.0 };
    [add, Change::SealSegment { id, length: 1 << 20 }]
}

fn remove_segment(id: u64) -> Change {
    Change::RemoveSegment { id: SegmentId(id) }
}

fn no_entries(id: u64) -> Change {
    Change::AddRelocation { meta: Arc::new(RelocationMeta::empty(SegmentId(id))) }
}

fn add_table(id: u64, segments: &[u64]) -> Change {
    let used = SegmentUse { count: 1, bytes: 100 };
    let segments: BTreeMap<_, _> = segments.iter().map(|&id| (SegmentId(id), used)).collect();
    let key = internal_key(b"key", Trailer::new(id, EntryKind::PutPointer));
    let entries = segments.len() as u64;
    let (smallest, largest) = (key.clone(), key);
    let (min_seqno, max_seqno) = (id, id);
    let summary = Summary {
        entries,
        smallest,
        largest,
        min_seqno,
        max_seqno,
        segments,
        ..Summary::default()
    };
    let meta = TableMeta {
        id: TableId(id),
        bytes: 1000,
        summary: Arc::new(summary),
        applied_ranges: 0,
        ingested_at: 0,
    };
    Change::AddTable { keyspace: KEYSPACE, level: 0, meta: Arc::new(meta) }
}

fn remove_table(id: u64) -> Change {
    Change::RemoveTable { keyspace: KEYSPACE, level: 0, id: TableId(id) }
}

/// Returns a version with segments 1 to 3, whose table 11 references segments 1 and 2.
fn start(place: &VersionDir) -> Version {
    let (order, settings, name) = (String::new(), String::new(), "default".to_owned());
    let mut changes = vec![Change::AddKeyspace { id: KEYSPACE, name, order, settings, flushed: 0 }];
    changes.extend([1, 2, 3].into_iter().flat_map(add_segment));
    changes.push(add_table(11, &[1, 2]));
    place.good(&Version::default(), changes)
}

fn pointer(segment: u64, offset: u64) -> ValuePointer {
    ValuePointer { segment: SegmentId(segment), offset, length: 100 }
}

/// Resolves a pointer to segment and offset; `None` if its record is gone.
fn lead(version: &Version, pointer: ValuePointer) -> Result<Option<(u64, u64)>> {
    let found = match resolve(version, pointer)? {
        Resolved::At(handle, at) => {
            assert_eq!((handle.id(), at.length), (at.segment, pointer.length));
            Some((at.segment.0, at.offset))
        }
        Resolved::Gone(_) => None,
    };
    let place = Places::of(version).place(pointer)?;
    assert_eq!(place.map(|place| (place.segment.0, place.offset)), found);
    assert_eq!(place_all(version, &[(pointer, true)]).unwrap(), [place]);
    let strict = place_all(version, &[(pointer, false)]);
    assert_eq!(strict.ok(), place.map(|place| vec![Some(place)]), "what is gone is corruption");
    Ok(found)
}

fn view_of(version: &Version) -> View {
    View {
        keyspace: KEYSPACE,
        version: Arc::new(version.clone()),
        levels: version.keyspace(KEYSPACE).unwrap().levels.clone(),
        active: Arc::new(LoggedMemtable::new(KeyOrder::Bytewise)),
        immutables: Vec::new(),
        installation: 0,
        shown: 0,
        merging: None,
    }
}

/// Resolves pointers together; each comes with whether its record may be gone.
fn place_all(
    version: &Version,
    pointers: &[(ValuePointer, bool)],
) -> Result<Vec<Option<ValuePointer>>> {
    let view = view_of(version);
    let entries = EntriesView::of(&view);
    let mut placing = Placing::new(&entries);
    pointers.iter().try_for_each(|&(pointer, may_be_gone)| placing.add(pointer, may_be_gone))?;
    assert_eq!(placing.len(), pointers.len());
    let places: Vec<_> = placing.finish(&mut || Ok(()))?.collect();
    // The cached state of the segments serves a second batch.
    pointers.iter().try_for_each(|&(pointer, may_be_gone)| placing.add(pointer, may_be_gone))?;
    assert!(placing.finish(&mut || Ok(()))?.eq(places.iter().copied()));
    Ok(places)
}

fn resolve(version: &Version, pointer: ValuePointer) -> Result<Resolved> {
    version.resolve(pointer)?.ok_or_else(|| unknown(pointer))
}

#[test]
fn pointers_lead_through_relocations() {
    let place = VersionDir::new();
    let version = start(&place);
    assert_eq!(lead(&version, pointer(1, 88)).unwrap(), Some((1, 88)));
    let moves = [(88, 4, 500, 100), (300, 3, 88, 100), (400, 4, 88, 70)];
    let mut changes = vec![remove_segment(1), place.relocation(20, 1, &moves)];
    changes.extend(add_segment(4));
    let version = place.good(&version, changes);
    assert_eq!(lead(&version, pointer(1, 88)).unwrap(), Some((4, 500)));
    assert_eq!(lead(&version, pointer(1, 300)).unwrap(), Some((3, 88)));
    assert_eq!(lead(&version, pointer(1, 89)).unwrap(), None);
    assert_eq!(lead(&version, pointer(2, 89)).unwrap(), Some((2, 89)), "it is still live");
    let other_length = lead(&version, pointer(1, 400)).unwrap_err();
    assert_eq!(other_length.kind(), ErrorKind::Corruption);
    let unknown = lead(&version, pointer(9, 77)).unwrap_err();
    assert_eq!((unknown.kind(), unknown.offset()), (ErrorKind::Corruption, Some(77)));
    assert!(unknown.to_string().contains("segment 9"), "{unknown}");
    let gone = resolve(&version, pointer(1, 89)).unwrap().place(pointer(1, 89)).err().unwrap();
    assert_eq!((gone.kind(), gone.offset()), (ErrorKind::Corruption, Some(89)));
    assert!(gone.to_string().contains("segment 1"), "{gone}");
}

#[test]
fn i03_pointers_are_placed_together_as_one_by_one() {
    let place = VersionDir::new();
    let version = start(&place);
    let to_three: Vec<_> = (0..3000)
        .map(|number| (88 + number * 200, 3, 88 + (number * 7 % 3000) * 100, 100))
        .collect();
    let to_both = [(88, 3, 900_000, 100), (300, 2, 88, 100), (500, 2, 5000, 100)];
    let mut changes = vec![remove_segment(1), place.relocation(20, 1, &to_three)];
    changes.extend(add_segment(4));
    let version = place.good(&version, changes);
    let mut changes = vec![remove_segment(4), place.relocation(21, 4, &to_both)];
    changes.push(add_table(12, &[4]));
    changes.push(Change::Holes { segment: SegmentId(2), holes: [(4096, 4096)].into() });
    let version = place.good(&version, changes);
    // The pointers lead into three segments by turns, some to gone records, and not by ascending
    // offset.
    let pointers: Vec<_> = (0..9000u64)
        .map(|number| {
            let offset = 88 + (number * 2477 % 3100) * 200;
            (pointer([1, 4, 2][number as usize % 3], offset), true)
        })
        .collect();
    let places = place_all(&version, &pointers).unwrap();
    let one_by_one = Places::of(&version);
    for ((pointer, _), found) in pointers.iter().zip(&places) {
        assert_eq!(*found, one_by_one.place(*pointer).unwrap(), "{pointer:?}");
    }
    let gone = places.iter().filter(|place| place.is_none()).count();
    assert!((1000..6000).contains(&gone), "{gone}");
    let strict: Vec<_> = pointers.iter().map(|&(pointer, _)| (pointer, false)).collect();
    assert_eq!(place_all(&version, &strict).unwrap_err().kind(), ErrorKind::Corruption);
    // So do those of a batch of reads, for which what is gone is an error of its own. A segment
    // that is whole is among them, and one that there is not.
    let more =
        (0..3000u64).map(|number| (pointer([3, 9][number as usize % 2], number * 100), true));
    let pointers: Vec<_> = pointers.into_iter().chain(more).collect();
    let view = view_of(&version);
    let place_of = |pointer| view.place(pointer).ok().map(|(_, place)| place);
    let places: Vec<_> = pointers.iter().map(|&(pointer, _)| place_of(pointer)).collect();
    let gone = places.iter().filter(|place| place.is_none()).count();
    let (batch, order, lost) = BatchPlaces::find(&view, pointers.len(), |index| pointers[index].0);
    assert!(order.is_sorted_by_key(|&index| batch.of(index).1));
    for &index in &order {
        let (segment, place) = batch.of(index);
        assert_eq!((segment.id(), Some(place)), (place.segment, places[index]), "{index}");
    }
    assert_eq!((order.len() + lost.len(), lost.len()), (pointers.len(), gone));
    for (index, error) in lost {
        assert_eq!((places[index], error.kind()), (None, ErrorKind::Corruption), "{index}");
    }
}

#[test]
fn a_relocation_without_entries_has_no_file() {
    let place = VersionDir::new();
    let version = place.good(&start(&place), vec![no_entries(2), remove_segment(2)]);
    assert_eq!(lead(&version, pointer(2, 88)).unwrap(), None);
    assert_eq!(version.relocations[&SegmentId(2)].path(), None);
    let version = place
        .good(&version, vec![remove_table(11), Change::RemoveRelocation { segment: SegmentId(2) }]);
    assert!(lead(&version, pointer(2, 88)).is_err());
    assert_eq!(place.purged(), ["00000002.seg"]);
}

#[test]
fn i05_a_replaced_relocation_goes_with_its_last_reader() {
    let place = VersionDir::new();
    let mut changes = vec![remove_segment(1), place.relocation(20, 1, &[(88, 2, 500, 100)])];
    let first = place.good(&start(&place), changes);
    changes = vec![remove_segment(2), place.relocation(21, 2, &[(500, 3, 88, 100)])];
    // The relocation is composed: one hop suffices.
    changes.push(place.relocation(22, 1, &[(88, 3, 88, 100)]));
    let second = place.good(&first, changes);
    assert_eq!(place.purged(), ["00000001.seg"], "nobody holds the version with it any more");
    assert_eq!(lead(&first, pointer(1, 88)).unwrap(), Some((2, 500)));
    assert_eq!(lead(&second, pointer(1, 88)).unwrap(), Some((3, 88)));
    drop(first);
    assert_eq!(place.purged(), ["00000002.seg", "00000020.rel"]);
    let gone = vec![remove_table(11), Change::RemoveRelocation { segment: SegmentId(1) }];
    let third = place.good(&second, gone);
    assert_eq!(place.purged(), [""; 0]);
    drop(second);
    assert_eq!(place.purged(), ["00000011.tbl", "00000022.rel"]);
    assert_eq!(lead(&third, pointer(2, 500)).unwrap(), Some((3, 88)));
}

#[test]
fn i05_a_job_that_copies_pointers_keeps_no_segment() {
    let place = VersionDir::new();
    let first = place.good(&start(&place), vec![]);
    let (places, mark) = (Places::of(&first), Arc::downgrade(&first.mark));
    assert!(places.are_plain());
    let mut changes = vec![remove_segment(1), place.relocation(20, 1, &[(88, 2, 500, 100)])];
    let second = Version { mark: Arc::default(), ..place.good(&first, changes) };
    drop(first);
    assert_eq!(place.purged(), ["00000001.seg"]);
    assert!(mark.upgrade().is_some(), "what it writes must be resolved, so its version is alive");
    assert_eq!(places.place(pointer(1, 88)).unwrap(), Some(pointer(1, 88)));
    drop(places);
    assert!(mark.upgrade().is_none());
    changes = vec![Change::Holes { segment: SegmentId(2), holes: [(4096, 4096)].into() }];
    let third = Places::of(&place.good(&second, changes));
    assert!(!third.are_plain());
    assert_eq!(third.place(pointer(1, 88)).unwrap(), Some(pointer(2, 500)));
    assert_eq!(third.place(pointer(2, 4000)).unwrap(), None, "its end is in the hole");
}

#[test]
fn i07_a_table_that_an_edit_moves_is_the_same() {
    let place = VersionDir::new();
    let version = start(&place);
    let builder = place.builder();
    let moved = |segments: &[u64]| {
        let edit = Edit::new(vec![remove_table(11), add_table(11, segments)]);
        builder.apply_tracking(&version, &edit, &[]).map(|(after, _)| after)
    };
    let before = version.keyspace(KEYSPACE).unwrap().levels.level(0)[0].clone();
    let after = moved(&[1, 2]).unwrap().keyspace(KEYSPACE).unwrap().levels.level(0)[0].clone();
    assert!(Arc::ptr_eq(&before, &after), "its file stays open");
    let error = moved(&[1, 2, 3]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("table 11 is added as another"), "{error}");
}

#[test]
fn i03_edits_that_leave_something_dangling_are_refused() {
    let place = VersionDir::new();
    let version = start(&place);
    place.refused(&version, vec![add_table(12, &[1, 9])], "table 12 references segment 9");
    place.refused(&version, vec![remove_segment(1)], "segment 1 is still referenced");
    place.good(&version, vec![remove_segment(3)]);
    let to_nowhere = place.relocation(20, 1, &[(88, 9, 88, 100)]);
    place.refused(&version, vec![remove_segment(1), to_nowhere], "leads to segment 9");
    let of_live = place.relocation(21, 1, &[(88, 3, 88, 100)]);
    place.refused(&version, vec![of_live.clone()], "live at the same time");
    let relocated = place.good(&version, vec![remove_segment(1), of_live]);
    place.refused(&relocated, vec![remove_segment(3)], "leads to segment 3");
    let forget = Change::RemoveRelocation { segment: SegmentId(1) };
    place.refused(&relocated, vec![forget.clone()], "segment 1 is still referenced");
    place.good(&relocated, vec![add_table(12, &[1])]);
    let forgotten = place.good(&relocated, vec![remove_table(11), forget]);
    place.refused(&forgotten, vec![add_table(12, &[1])], "table 12 references segment 1");
}

#[test]
fn the_state_of_a_version_makes_the_same_version() {
    let place = VersionDir::new();
    let holes: Holes = [(4096, 8192), (40_960, 4096)].into();
    let mut changes = vec![remove_segment(1), place.relocation(20, 1, &[(88, 3, 88, 100)])];
    changes.push(Change::Holes { segment: SegmentId(2), holes: holes.clone() });
    let version = place.good(&start(&place), changes);
    let state = state_of(&version, 30, 11);
    let again = place.good(&Version::default(), Edit::decode(&state.encode()).unwrap().changes);
    assert_eq!(state_of(&again, 30, 11), state);
    assert_eq!(lead(&again, pointer(1, 88)).unwrap(), Some((3, 88)));
    assert_eq!(again.segments[&SegmentId(2)].holes, holes);
    assert!(again.segments[&SegmentId(3)].holes.is_empty());
}

#[test]
fn holes_lie_within_a_sealed_segment() {
    let place = VersionDir::new();
    let version = start(&place);
    let builder = place.builder();
    let add = Change::AddSegment { id: SegmentId(5), kind: SegmentKind::Log, epoch: 5 };
    for (segment, holes) in [(2, [(1 << 20, 4096)]), (5, [(0, 4096)]), (9, [(0, 4096)])] {
        let punch = Change::Holes { segment: SegmentId(segment), holes: holes.into() };
        let edit = Edit::new(vec![add.clone(), punch]);
        let mut after = version.clone();
        assert!(builder.apply_to(&mut after, &edit).is_err(), "segment {segment}");
    }
}

#[test]
fn replay_copies_no_map_however_many_edits_there_are() {
    let place = VersionDir::new();
    let mut version = start(&place);
    let builder = place.builder();
    // The addresses of the version's maps: a map that was copied has another address.
    let places = |version: &Version| {
        let keyspace = &version.keyspaces[&KEYSPACE];
        (
            Arc::as_ptr(&version.segments),
            Arc::as_ptr(&version.relocations),
            Arc::as_ptr(&version.uses),
            Arc::as_ptr(keyspace),
            Arc::as_ptr(&keyspace.levels),
        )
    };
    let mut copies = 0;
    for number in 100..20_100u64 {
        let add = |id| Change::AddSegment { id, kind: SegmentKind::Log, epoch: number };
        let (first, second) = (SegmentId(2 * number), SegmentId(2 * number + 1));
        let relocated = Arc::new(RelocationMeta::empty(second));
        let mut changes = vec![add(first), add(second)];
        changes.push(Change::SealSegment { id: first, length: number });
        changes.push(Change::RemoveSegment { id: second });
        changes.push(Change::AddRelocation { meta: relocated });
        changes.push(Change::Flushed { keyspace: KEYSPACE, seqno: number });
        let before = places(&version);
        builder.apply_to(&mut version, &Edit::new(changes)).unwrap();
        copies += usize::from(number > 100 && places(&version) != before);
    }
    assert_eq!(copies, 0);
    assert_eq!(version.relocations.len(), 20_000 + start(&place).relocations.len());
    assert_eq!(version.keyspaces[&KEYSPACE].flushed, 20_099);
}

#[test]
fn i07_a_reversed_range_of_keys_overlaps_no_table() {
    let add = |id: u64, low: &[u8], high: &[u8]| {
        let key = |user_key: &[u8]| internal_key(user_key, Trailer::new(id, EntryKind::Delete));
        let (smallest, largest) = (key(low), key(high));
        let summary = Summary { entries: 2, smallest, largest, ..Summary::default() };
        let meta = TableMeta {
            id: TableId(id),
            bytes: 1000,
            summary: Arc::new(summary),
            applied_ranges: 0,
            ingested_at: 0,
        };
        Change::AddTable { keyspace: KEYSPACE, level: 1, meta: Arc::new(meta) }
    };
    let place = VersionDir::new();
    let version = place.good(&start(&place), vec![add(12, b"b", b"c"), add(13, b"d", b"e")]);
    let levels = &version.keyspace(KEYSPACE).unwrap().levels;
    let overlapping = |low: &[u8], high: &[u8]| -> Vec<u64> {
        levels.overlapping(1, low, high).iter().map(|table| table.meta.id.0).collect()
    };
    assert_eq!(overlapping(b"a", b"z"), [12, 13]);
    assert_eq!(overlapping(b"c", b"c"), [12]);
    assert_eq!(overlapping(b"z", b"a"), [0; 0]);
}

//! Checks what a liveness scan counts that goes by an older number than what is visible: as much as
//! one that goes by that.

use super::relocated::open;
use super::snapshots::{put, scope, settle, taken_up_to, views};
use crate::base::key::SeqNo;
use crate::db::Db;
use crate::doc_dir;
use crate::gc::collector::CollectorStep;
use crate::gc::liveness_scan::{self, Scope};
use crate::gc::picker::Mode;
use crate::version::entries::EntriesView;
use crate::{Keyspace, KeyspaceOptions, Separation, Snapshot, merge_operators};

/// Numbers that repeat.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % most
    }
}

/// Does one write of any kind.
fn write(keyspace: &Keyspace, dice: &mut Dice) {
    let key = format!("{:02}", dice.below(20));
    let value = vec![b'v'; [30, 150, 500][dice.below(3) as usize]];
    match dice.below(8) {
        0 => keyspace.delete(key),
        1 => keyspace.delete_range(key.clone()..format!("{key}~")),
        2 | 3 => keyspace.merge(key, value),
        _ => keyspace.put(key, value),
    }
    .unwrap();
}

/// The live entries and bytes that a scan by `seqno` finds.
fn counted(db: &Db, seqno: SeqNo, visible: SeqNo) -> (u64, u64) {
    let snapshots = db.core.snapshots.list();
    let views: Vec<_> = views(db).iter().map(|view| EntriesView::of(view)).collect();
    let scan = taken_up_to((seqno, visible), &snapshots, views, (&[], false));
    (scan.live_entries(), scan.live_bytes())
}

#[test]
fn a_scan_by_an_older_number_counts_what_is_live_now() {
    for seed in 0..30 {
        let dir = doc_dir("newer");
        let db = open(&dir);
        db.core.background.stop();
        let options = KeyspaceOptions {
            merge_operator: Some(merge_operators::APPEND.to_owned()),
            separation: Separation::AtWrite,
            separation_threshold: 200,
            ..KeyspaceOptions::default()
        };
        let lists = db.create_keyspace_with("lists", options).unwrap();
        let (mut dice, mut snapshots) = (Dice(seed), Vec::<Snapshot>::new());
        for _ in 0..150 {
            write(&lists, &mut dice);
            match dice.below(25) {
                0 if seed % 3 > 0 => snapshots.push(db.snapshot()),
                1 => drop(snapshots.pop()),
                _ => {}
            }
        }
        let visible = db.core.snapshots.visible();
        let expected = counted(&db, visible, visible);
        assert!(expected.0 > 3);
        for seqno in (0..visible).step_by(7) {
            assert_eq!(counted(&db, seqno, visible), expected, "seed {seed}, up to {seqno}");
        }
        // What is written meanwhile counts for neither.
        put(&db, "later", 1);
        write(&lists, &mut dice);
        let before = visible / 2;
        assert_eq!(counted(&db, before, visible), counted(&db, visible, visible));
    }
}

/// It is in tables and memtables, also above the number that the scan goes by.
#[test]
fn a_scan_tells_what_was_live_at_an_older_number() {
    let dir = doc_dir("live-before");
    let db = open(&dir);
    db.core.background.stop();
    let keyspace = db.default_keyspace();
    let write = |keys: std::ops::Range<u64>, byte| {
        keys.for_each(|number| put(&db, &format!("{number:02}"), byte));
    };
    write(0..24, 1);
    keyspace.delete("00").unwrap();
    keyspace.delete_range("01".."03").unwrap();
    let before = db.core.snapshots.visible();
    let expected = counted(&db, before, before);
    assert_eq!(expected.0, 21);
    write(10..28, 2);
    keyspace.delete("05").unwrap();
    let durable = db.core.snapshots.visible();
    write(20..30, 3);
    keyspace.delete_range("06".."08").unwrap();
    let visible = db.core.snapshots.visible();
    write(0..40, 4);
    let views = views(&db).iter().map(|view| EntriesView::of(view)).collect();
    let plain = scope((durable, visible), &[], views, (&[], false));
    let scan = liveness_scan::take(&Scope { before, ..plain }, || Ok(())).unwrap();
    assert_eq!(scan.live_before, expected);
}

/// Until a second scan all that was put since an opening counted as inserted, so that space could
/// pass a tight ceiling meanwhile.
#[test]
fn overwrites_count_as_such_from_the_first_scan_on() {
    let dir = doc_dir("first-scan");
    let write = |db: &Db, keys: std::ops::Range<u32>, byte| {
        keys.for_each(|number| put(db, &format!("{number:03}"), byte));
        settle(db);
    };
    let db = open(&dir);
    write(&db, 0..300, 1);
    db.close().unwrap();
    for (keys, are_inserts) in [(0..100, false), (300..400, true)] {
        let db = open(&dir);
        db.core.background.wait_idle().unwrap();
        let collector = db.core.background.collector();
        let room = || {
            while collector.step(Mode::Busy).unwrap() == CollectorStep::Worked {}
            collector.room().left()
        };
        write(&db, keys.clone(), 2);
        let (before, bytes) = (room(), 100 * 500);
        write(&db, keys, 3);
        let taken = before.saturating_sub(room());
        assert_eq!(taken < bytes, are_inserts, "{taken} bytes of room are gone");
        db.close().unwrap();
    }
}

//! Tests of cursors in both directions, over inline values, separated values, and a mix of both.

use crate::common::{self, TempDir};
use cleavedb::{
    Codec, Cursor, Db, ErrorKind, GcOptions, Keyspace, KeyspaceOptions, Options, ParallelReads,
    ReadOptions, Separation,
};
use std::fs;

/// Creates a keyspace in which every third value is separated, and whose keys are spread over the
/// memtable, L0 and deeper levels.
fn mixed(count: usize) -> (TempDir, Db, Keyspace) {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    for part in 0..3 {
        for number in (part..count).step_by(3) {
            let key = common::key(number);
            keyspace.put(&key, "old").unwrap();
            keyspace.put(&key, value(number)).unwrap();
            keyspace.put(format!("{key} deleted"), value(number)).unwrap();
            keyspace.delete(format!("{key} deleted")).unwrap();
        }
        if part < 2 {
            keyspace.flush().unwrap();
        }
    }
    (dir, db, keyspace)
}

fn value(number: usize) -> Vec<u8> {
    let bytes = if number.is_multiple_of(3) { 150 } else { 20 };
    common::value(&common::key(number), 1, bytes)
}

fn number_of(db: &Db, name: &str) -> u64 {
    db.stats().numbers().find(|(known, _)| *known == name).expect(name).1
}

/// A value that is compressed can't be lent from where it was read to.
#[test]
fn lent_pairs_of_compressed_and_other_values() {
    let dir = common::dir();
    let keyspace = KeyspaceOptions { value_codec: Codec::Lz4, ..common::tiny_keyspace() };
    let db = common::open_with(dir.path(), Options { keyspace, ..common::tiny() });
    let keyspace = db.default_keyspace();
    let value = |number: usize| match number % 2 {
        0 => vec![number as u8; 3000],
        _ => value(number * 3),
    };
    (0..200).for_each(|number| keyspace.put(common::key(number), value(number)).unwrap());
    db.flush().unwrap();
    let stored = db.space().unwrap().live_bytes;
    assert!(stored < 100 * 3000, "{stored} bytes: every other value is compressed");
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    for number in 0..200 {
        for _ in 0..2 {
            let (key, lent) = cursor.pair().unwrap();
            assert_eq!((key, lent), (common::key(number).as_bytes(), &value(number)[..]));
        }
        assert_eq!(cursor.value().unwrap(), value(number));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
}

/// Pairs that are lent are those that are copied, and stay where they are until the cursor moves.
#[test]
fn lent_pairs_in_both_directions() {
    for prefetch in [true, false] {
        let (_dir, _db, keyspace) = mixed(400);
        let mut cursor = keyspace.cursor_with(&ReadOptions::new().read_ahead(prefetch)).unwrap();
        assert_eq!(cursor.pair().unwrap_err().kind(), ErrorKind::WrongState);
        // The second round knows how far the first one went.
        for forward in [true, false, true, false] {
            match forward {
                true => cursor.seek_to_first().unwrap(),
                false => cursor.seek_to_last().unwrap(),
            }
            for step in 0..400 {
                let number = if forward { step } else { 399 - step };
                let (key, lent) = cursor.pair().unwrap();
                assert_eq!((key, lent), (common::key(number).as_bytes(), &value(number)[..]));
                let place = lent.as_ptr();
                if step % 5 == 0 {
                    assert_eq!(cursor.value().unwrap(), value(number));
                }
                let (key, lent) = cursor.pair().unwrap();
                assert_eq!((key, lent), (common::key(number).as_bytes(), &value(number)[..]));
                assert_eq!(lent.as_ptr(), place, "pair {number} has moved");
                if forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
            }
            assert!(!cursor.valid() && cursor.pair().is_err());
        }
    }
}

#[test]
fn every_pair_in_both_directions() {
    for prefetch in [true, false] {
        let (_dir, _db, keyspace) = mixed(400);
        let options = ReadOptions::new().read_ahead(prefetch);
        let mut cursor = keyspace.cursor_with(&options).unwrap();
        cursor.seek_to_first().unwrap();
        for number in 0..400 {
            assert_eq!(cursor.key(), common::key(number).as_bytes());
            assert_eq!(cursor.value().unwrap(), value(number));
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        cursor.seek_to_last().unwrap();
        for number in (0..400).rev() {
            assert_eq!(cursor.key(), common::key(number).as_bytes());
            assert_eq!(cursor.value().unwrap(), value(number));
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
    }
}

#[test]
fn a_new_cursor_stands_nowhere() {
    let (_dir, _db, keyspace) = mixed(3);
    let mut cursor = keyspace.cursor().unwrap();
    assert!(!cursor.valid());
    cursor.next().unwrap();
    cursor.prev().unwrap();
    assert!(!cursor.valid());
    assert_eq!(cursor.value().unwrap_err().kind(), ErrorKind::WrongState);
}

#[test]
fn over_nothing() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let mut cursor = db.default_keyspace().cursor().unwrap();
    cursor.seek_to_first().unwrap();
    assert!(!cursor.valid());
    cursor.seek_to_last().unwrap();
    assert!(!cursor.valid());
    cursor.seek("").unwrap();
    assert!(!cursor.valid());
    cursor.seek_for_prev("z").unwrap();
    assert!(!cursor.valid());
    assert!(db.default_keyspace().iter().next().is_none());
}

#[test]
fn seeks_on_a_live_cursor() {
    let (_dir, _db, keyspace) = mixed(300);
    let mut cursor = keyspace.cursor().unwrap();
    for number in [5, 250, 0, 299, 100, 101, 99] {
        // These steps open the window, so that the next seek comes in the middle of reading ahead.
        for _ in 0..20 {
            if cursor.valid() {
                cursor.value().unwrap();
                cursor.next().unwrap();
            }
        }
        let key = common::key(number);
        cursor.seek(&key).unwrap();
        assert_eq!(cursor.key(), key.as_bytes());
        assert_eq!(cursor.value().unwrap(), value(number));
        // Seek to just after a deleted key, and just before one.
        cursor.seek_for_prev(format!("{key} deleted")).unwrap();
        assert_eq!(cursor.key(), key.as_bytes());
        assert_eq!(cursor.value().unwrap(), value(number));
        cursor.seek(format!("{key} deleted")).unwrap();
        match number {
            299 => assert!(!cursor.valid()),
            _ => assert_eq!(cursor.key(), common::key(number + 1).as_bytes()),
        }
    }
}

#[test]
fn turns_anywhere() {
    let (_dir, _db, keyspace) = mixed(120);
    let mut cursor = keyspace.cursor().unwrap();
    for ask in [true, false] {
        for steps in 1..100 {
            cursor.seek(common::key(10)).unwrap();
            for _ in 0..steps {
                if ask {
                    cursor.value().unwrap();
                }
                cursor.next().unwrap();
            }
            for number in (10 + steps - 5..10 + steps).rev() {
                cursor.prev().unwrap();
                assert_eq!(cursor.key(), common::key(number).as_bytes());
                assert_eq!(cursor.value().unwrap(), value(number));
            }
            cursor.next().unwrap();
            assert_eq!(cursor.key(), common::key(10 + steps - 4).as_bytes());
            assert_eq!(cursor.value().unwrap(), value(10 + steps - 4));
        }
    }
}

#[test]
fn turns_at_the_ends() {
    let (_dir, _db, keyspace) = mixed(30);
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_last().unwrap();
    cursor.next().unwrap();
    assert!(!cursor.valid());
    // A cursor that moved past an end is invalid until it is positioned again.
    cursor.prev().unwrap();
    assert!(!cursor.valid());
    cursor.seek_to_first().unwrap();
    cursor.prev().unwrap();
    cursor.next().unwrap();
    assert!(!cursor.valid());
}

#[test]
fn within_bounds() {
    let (_dir, _db, keyspace) = mixed(200);
    let bound = |number| Some(common::key(number).into_bytes());
    let numbers = |lower, upper| {
        let mut cursor = keyspace.range(common::range(lower, upper)).into_cursor().unwrap();
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            forward.push(cursor.key().to_vec());
            cursor.value().unwrap();
            cursor.next().unwrap();
        }
        cursor.seek_to_last().unwrap();
        while cursor.valid() {
            backward.push(cursor.key().to_vec());
            cursor.value().unwrap();
            cursor.prev().unwrap();
        }
        assert!(forward.iter().eq(backward.iter().rev()));
        forward
    };
    let keys = |range: std::ops::Range<usize>| {
        range.map(|number| common::key(number).into_bytes()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(bound(50), bound(150)), keys(50..150));
    assert_eq!(numbers(None, bound(40)), keys(0..40));
    assert_eq!(numbers(bound(190), None), keys(190..200));
    assert_eq!(numbers(bound(60), bound(60)), keys(0..0));
    assert_eq!(numbers(bound(70), bound(60)), keys(0..0));
    assert_eq!(numbers(Some(b"a".to_vec()), Some(b"b".to_vec())), keys(0..0));
    assert_eq!(numbers(Some(b"key000010 ".to_vec()), bound(12)), keys(11..12));
}

#[test]
fn seeks_stay_within_bounds() {
    let (_dir, _db, keyspace) = mixed(100);
    let mut cursor = keyspace.range(common::key(20)..common::key(40)).into_cursor().unwrap();
    cursor.seek("").unwrap();
    assert_eq!(cursor.key(), common::key(20).as_bytes());
    cursor.prev().unwrap();
    assert!(!cursor.valid());
    cursor.seek(common::key(40)).unwrap();
    assert!(!cursor.valid());
    cursor.seek_for_prev("z").unwrap();
    assert_eq!(cursor.key(), common::key(39).as_bytes());
    cursor.next().unwrap();
    assert!(!cursor.valid());
    cursor.seek_for_prev(common::key(19)).unwrap();
    assert!(!cursor.valid());
}

#[test]
fn prefixes() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let keys: [&[u8]; 9] =
        [b"", b"a", b"ab", b"ab\xff", b"ab\xff\xff", b"ac", b"b", b"\xff", b"\xff\xff"];
    for key in keys {
        keyspace.put(key, key).unwrap();
    }
    let prefixes: [&[u8]; 8] =
        [b"", b"a", b"ab", b"ab\xff", b"abc", b"b", b"\xff", b"\xff\xff\xff"];
    for prefix in prefixes {
        let expected: Vec<_> = keys.iter().filter(|key| key.starts_with(prefix)).collect();
        let found: Vec<_> = keyspace.prefix(prefix).map(|item| item.unwrap().0).collect();
        assert!(found.iter().eq(expected.iter().copied()), "{prefix:?}");
        let found: Vec<_> = keyspace.prefix(prefix).rev().map(|item| item.unwrap().0).collect();
        assert!(found.iter().rev().eq(expected.iter().copied()), "{prefix:?}");
        let range = keyspace.prefix(prefix).within(&b"a"[..]..&b"\xff\xff"[..]);
        let mut cursor = range.into_cursor().unwrap();
        cursor.seek_to_first().unwrap();
        let within = |key: &[u8]| key >= &b"a"[..] && key < &b"\xff\xff"[..];
        for key in expected.into_iter().filter(|key| within(key)) {
            assert_eq!(cursor.key(), *key);
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
    }
}

#[test]
fn ranges_from_both_ends_meet() {
    let (_dir, _db, keyspace) = mixed(100);
    let mut range = keyspace.range(common::key(10)..=common::key(60));
    for number in 0..25 {
        assert_eq!(range.next().unwrap().unwrap().0, common::key(10 + number).as_bytes());
        assert_eq!(range.next_back().unwrap().unwrap().0, common::key(60 - number).as_bytes());
    }
    let (key, found) = range.next().unwrap().unwrap();
    assert_eq!((key, found.into_vec()), (common::key(35).into_bytes(), value(35)));
    assert!(range.next().is_none() && range.next_back().is_none());
    assert_eq!(keyspace.range(common::key(10)..common::key(20)).keys().count(), 10);
    assert_eq!(keyspace.keys().rev().count(), 100);
}

#[test]
fn what_is_written_later_does_not_show() {
    let (_dir, db, keyspace) = mixed(200);
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    for number in 0..200 {
        keyspace.put(common::key(number), "new").unwrap();
        keyspace.put(format!("{} new", common::key(number)), "new").unwrap();
        if number % 50 == 0 {
            db.compact().unwrap();
        }
    }
    db.compact().unwrap();
    for number in 0..200 {
        assert_eq!(cursor.key(), common::key(number).as_bytes());
        assert_eq!(cursor.value().unwrap(), value(number));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
}

#[test]
fn a_walk_over_keys_reads_no_value() {
    let (_dir, db, keyspace) = mixed(200);
    let before = number_of(&db, "value_reads");
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    for number in 0..200 {
        assert_eq!(cursor.key(), common::key(number).as_bytes());
        cursor.next().unwrap();
    }
    assert_eq!(keyspace.keys().count(), 200);
    assert_eq!(number_of(&db, "value_reads"), before);
}

#[test]
fn values_are_read_ahead_once_a_walk_is_steady() {
    let (_dir, db, keyspace) = mixed(600);
    let walk = |steps: usize, ask: bool, prefetch: bool| {
        let before = number_of(&db, "prefetched_values");
        let options = ReadOptions::new().read_ahead(prefetch);
        let mut cursor = keyspace.cursor_with(&options).unwrap();
        cursor.seek_to_first().unwrap();
        for _ in 0..steps {
            if ask {
                cursor.value().unwrap();
            }
            cursor.next().unwrap();
        }
        number_of(&db, "prefetched_values") - before
    };
    assert_eq!(walk(1, true, true), 0, "a point read pays for nothing else");
    assert_eq!(walk(100, false, true), 0, "nobody asked for values");
    assert_eq!(walk(100, true, false), 0, "it was switched off");
    assert!(walk(600, true, true) > 150, "of two hundred separated values");
}

#[test]
fn a_cursor_that_stops_early_wants_no_more() {
    let (_dir, db, keyspace) = mixed(900);
    for stop in [5, 20, 60] {
        let before = number_of(&db, "value_reads");
        let mut range = keyspace.iter();
        for _ in 0..stop {
            range.next().unwrap().unwrap();
        }
        drop(range);
        // The window starts small and doubles, so the number of unused reads is bounded by the
        // number of values that were used.
        let read = number_of(&db, "value_reads") - before;
        assert!(read <= 4 * stop, "{read} for {stop}");
    }
    db.close().unwrap();
}

#[test]
fn the_error_of_a_value_is_its_own() {
    if common::is_encrypted() {
        return; // The value is not found on the disk.
    }
    for parallel_reads in [ParallelReads::Threads, ParallelReads::Off] {
        let dir = common::dir();
        let options = cleavedb::Options { parallel_reads, ..common::tiny() };
        let db = common::open_with(dir.path(), options);
        let keyspace = db.default_keyspace();
        for number in 0..200 {
            keyspace.put(common::key(number), common::value("", number as u64, 300)).unwrap();
        }
        db.compact().unwrap();
        // Damage one byte of the value of key 100 on disk.
        let lost = common::value("", 100, 300);
        let find = |bytes: &[u8]| bytes.windows(300).position(|window| window == lost);
        let (path, mut bytes, offset) = common::files(dir.path(), ".seg")
            .into_iter()
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .find_map(|(path, bytes)| find(&bytes).map(|offset| (path, bytes, offset)))
            .unwrap();
        bytes[offset + 7] ^= 1;
        fs::write(&path, bytes).unwrap();
        let mut errors = Vec::new();
        let mut cursor = keyspace.cursor().unwrap();
        cursor.seek_to_first().unwrap();
        for number in 0..200 {
            assert_eq!(cursor.key(), common::key(number).as_bytes());
            match cursor.value() {
                Ok(found) => assert_eq!(found, common::value("", number as u64, 300)),
                Err(error) => errors.push((number, error)),
            }
            cursor.next().unwrap();
        }
        assert_eq!(errors.len(), 1);
        let (number, error) = errors.pop().unwrap();
        assert_eq!((number, error.kind()), (100, ErrorKind::Corruption));
        assert_eq!(error.file(), Some(&*path));
        assert!(error.offset().is_some_and(|at| at < offset as u64 && at + 64 > offset as u64));
        assert_eq!(keyspace.iter().filter(Result::is_err).count(), 1);
        assert_eq!(keyspace.iter().count(), 200);
        let keys: Vec<_> = (90..110).map(common::key).collect();
        let failed = keyspace.multi_get(&keys).iter().position(Result::is_err);
        assert_eq!(failed, Some(10));
    }
}

#[test]
fn a_cut_segment_loses_only_what_was_cut() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    for number in 0..20 {
        keyspace.put(common::key(number), common::value("", number as u64, 300)).unwrap();
    }
    db.compact().unwrap();
    // A closed segment contains nothing but frames.
    db.close().unwrap();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let path = &common::files(dir.path(), ".seg")[0];
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    // The cut lies within the last record. All records may be read by one call.
    file.set_len(file.metadata().unwrap().len() - 50).unwrap();
    let keys: Vec<_> = (0..20).map(common::key).collect();
    let failed: Vec<_> = keyspace.multi_get(&keys).iter().map(Result::is_err).collect();
    assert_eq!(failed.iter().position(|failed| *failed), Some(19), "{failed:?}");
    assert_eq!(keyspace.iter().filter(Result::is_err).count(), 1);
}

#[test]
fn what_is_left_of_a_walk_goes_on_as_keys_within_bounds_or_as_a_cursor() {
    let (_dir, _db, keyspace) = mixed(100);
    let walked = || {
        let mut range = keyspace.iter();
        assert_eq!(range.next().unwrap().unwrap().0, common::key(0).as_bytes());
        assert_eq!(range.next_back().unwrap().unwrap().0, common::key(99).as_bytes());
        range
    };
    let keys: Vec<_> = walked().keys().collect::<Result<_, _>>().unwrap();
    assert!(keys.into_iter().eq((1..99).map(|number| common::key(number).into_bytes())));
    assert_eq!(walked().within(..common::key(50)).count(), 49);
    assert_eq!(walked().within(common::key(50)..).rev().count(), 49);
    assert_eq!(walked().within(..).within(common::key(10)..=common::key(10)).count(), 1);
    let mut cursor = walked().into_cursor().unwrap();
    assert!(!cursor.valid());
    cursor.seek_to_first().unwrap();
    assert_eq!(cursor.key(), common::key(1).as_bytes());
    cursor.seek_to_last().unwrap();
    assert_eq!(cursor.key(), common::key(98).as_bytes());
    let mut ended = keyspace.range(common::key(5)..common::key(6));
    assert!(ended.by_ref().count() == 1 && ended.next().is_none());
    let mut cursor = ended.into_cursor().unwrap();
    cursor.seek_to_first().unwrap();
    assert!(!cursor.valid());
}

#[test]
fn a_cursor_made_of_a_range_keeps_its_moment() {
    let (_dir, db, keyspace) = mixed(100);
    let range = keyspace.iter();
    keyspace.put(common::key(3), "later").unwrap();
    db.compact().unwrap();
    let mut cursor = range.into_cursor().unwrap();
    for _ in 0..2 {
        cursor.seek(common::key(3)).unwrap();
        assert_eq!(cursor.value().unwrap(), value(3));
        keyspace.delete(common::key(3)).unwrap();
        db.compact().unwrap();
    }
}

/// I5: a long scan has files for itself as long as it reads them. A cursor that has read all, or
/// has jumped elsewhere, has none.
#[test]
#[cfg(target_os = "linux")]
fn i05_a_long_scan_opens_files_once_more_until_its_end() {
    for separation in [Separation::AtFlush, Separation::Off] {
        let dir = common::dir();
        let (memtable_bytes, table_bytes) = (1 << 20, 4 << 20);
        let tiny = common::tiny_keyspace();
        let keyspace = KeyspaceOptions { separation, memtable_bytes, table_bytes, ..tiny };
        let gc = GcOptions { automatic: false, ..GcOptions::default() };
        // No other thread reads, or it could hold a file a moment longer.
        let options = Options {
            keyspace,
            gc,
            max_replay_bytes: 8 << 20,
            segment_bytes: 256 << 10,
            scan_order: false,
            parallel_reads: ParallelReads::Off,
            ..common::tiny()
        };
        let db = common::open_with(dir.path(), options);
        let words = db.default_keyspace();
        (0..6000).for_each(|number| common::put_value(&words, number, 1, 300));
        db.compact().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(words.iter().count(), 6000, "all files are open");
        let before = common::descriptors(dir.path()).len();
        let mut cursor = words.cursor().unwrap();
        let walk = |cursor: &mut Cursor, values: usize| {
            let mut most = 0;
            for number in 0..values {
                assert_eq!(cursor.value().unwrap().len(), 300);
                if number % 200 == 0 {
                    most = most.max(common::descriptors(dir.path()).len().saturating_sub(before));
                }
                cursor.next().unwrap();
            }
            (most, common::descriptors(dir.path()).len().saturating_sub(before))
        };
        cursor.seek_to_first().unwrap();
        let (most, at_end) = walk(&mut cursor, 6000);
        assert!(most > 0, "{separation:?}: no file was opened once more");
        assert_eq!(at_end, 0, "{separation:?}, at the end");
        cursor.seek_to_first().unwrap();
        assert_eq!(walk(&mut cursor, 100), (0, 0), "{separation:?}, a short walk");
        cursor.seek_to_first().unwrap();
        assert!(walk(&mut cursor, 2500).1 > 0, "{separation:?}, in the middle");
        cursor.seek(common::key(10)).unwrap();
        cursor.value().unwrap();
        assert_eq!(common::descriptors(dir.path()).len(), before, "{separation:?}, after a jump");
    }
}

//! Tests of compression: values are compressed one by one, and only when that saves enough.

use crate::common;
use cleavedb::{Codec, Db, KeyspaceOptions};

fn settings(value_codec: Codec) -> KeyspaceOptions {
    KeyspaceOptions {
        value_codec,
        value_compression_min_bytes: 200,
        block_codec: Codec::None,
        ..common::tiny_keyspace()
    }
}

/// Returns the bytes of log that a value takes with this codec, and checks that it is read back.
fn cost(codec: Codec, value: &[u8]) -> u64 {
    let dir = common::dir();
    let options = cleavedb::Options { keyspace: settings(codec), ..common::tiny() };
    let db = common::open_with(dir.path(), options.clone());
    db.default_keyspace().put("key", value).unwrap();
    let cost = db.stats().log_bytes_written;
    let check = |db: &Db| {
        assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), value);
        assert_eq!(common::pairs(&db.default_keyspace()), [(b"key".to_vec(), value.to_vec())]);
    };
    check(&db);
    db.compact().unwrap();
    check(&db);
    assert!(db.check().unwrap().is_clean());
    drop(db);
    check(&common::open_with(dir.path(), options));
    cost
}

#[test]
fn what_repeats_gets_small() {
    let value = b"the same again and again ".repeat(80);
    let (plain, lz4) = (cost(Codec::None, &value), cost(Codec::Lz4, &value));
    assert!(plain > 2000 && lz4 < 300, "{plain} and {lz4}");
}

#[test]
fn chance_stays_as_it_is() {
    let value = common::value("", 1, 2000);
    assert_eq!(cost(Codec::Lz4, &value), cost(Codec::None, &value));
}

#[test]
fn a_little_gain_is_not_worth_it() {
    // A twentieth of the value repeats, so compression saves too little.
    let mut value = common::value("", 1, 1900);
    value.resize(2000, b' ');
    assert_eq!(cost(Codec::Lz4, &value), cost(Codec::None, &value));
}

#[test]
fn small_and_inline_values_are_not_tried() {
    for bytes in [10, 99, 100, 199] {
        let value = vec![b'z'; bytes];
        assert_eq!(cost(Codec::Lz4, &value), cost(Codec::None, &value), "{bytes}");
    }
    let value = vec![b'z'; 200];
    assert!(cost(Codec::Lz4, &value) < cost(Codec::None, &value));
}

#[test]
fn blocks_hold_inline_values_compressed() {
    let table_bytes = |block_codec| {
        let dir = common::dir();
        let keyspace = KeyspaceOptions { block_codec, ..common::tiny_keyspace() };
        let options = cleavedb::Options { keyspace, ..common::tiny() };
        let db = common::open_with(dir.path(), options);
        for number in 0..200 {
            db.default_keyspace().put(common::key(number), [b'z'; 90]).unwrap();
        }
        db.compact().unwrap();
        assert!(db.default_keyspace().iter().all(|item| item.unwrap().1 == [b'z'; 90]));
        db.stats().table_bytes()
    };
    let (plain, lz4) = (table_bytes(Codec::None), table_bytes(Codec::Lz4));
    assert!(lz4 * 2 < plain, "{plain} and {lz4}");
}

#[test]
fn changing_the_codec_leaves_old_values_readable() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let value = |number: usize| vec![b'a' + (number % 26) as u8; 300];
    for number in 0..90 {
        let codec = [Codec::None, Codec::Lz4, Codec::None][number / 30];
        let keyspace = db.open_or_create_keyspace("changing").unwrap();
        keyspace.set_options(settings(codec)).unwrap();
        keyspace.put(common::key(number), value(number)).unwrap();
    }
    db.compact().unwrap();
    drop(db);
    let db = common::open(dir.path());
    for (number, item) in db.open_or_create_keyspace("changing").unwrap().iter().enumerate() {
        assert_eq!(item.unwrap().1, value(number));
    }
}

#[test]
#[cfg(not(feature = "zstd"))]
fn a_codec_that_is_not_built_in_is_named() {
    let dir = common::dir();
    let options = cleavedb::Options { keyspace: settings(Codec::Zstd), ..common::tiny() };
    let error = Db::builder(dir.path()).options(options).open().err().unwrap();
    assert!(error.to_string().contains("zstd is not part of this build"), "{error}");
}

#[test]
#[cfg(feature = "zstd")]
fn zstd_gets_smaller_still() {
    let value: Vec<u8> = (0..500).flat_map(|n: u32| format!("{}, ", n * n).into_bytes()).collect();
    assert!(cost(Codec::Zstd, &value) < cost(Codec::Lz4, &value));
}

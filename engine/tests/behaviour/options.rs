//! Tests of settings and their ranges, and of the limits of keys and values.

use crate::common;
use cleavedb::{
    Db, Durability, ErrorKind, KeyspaceOptions, MAX_KEY_BYTES, MAX_VALUE_BYTES, Options,
    WriteOptions,
};
use std::time::Duration;

/// The name of a setting, and a function that sets it to a value out of its range.
type Wrong<T> = (&'static str, fn(&mut T));

const WRONG: [Wrong<Options>; 29] = [
    ("durability", |options| options.durability = Durability::SyncEvery(Duration::MAX)),
    ("cache_bytes", |options| options.cache_bytes = u64::MAX),
    ("max_index_and_filter_bytes", |options| {
        options.max_index_and_filter_bytes = Some(u64::MAX);
    }),
    ("pin_tree", |options| options.pin_tree = u64::MAX),
    ("max_replay_bytes", |options| options.max_replay_bytes = u64::MAX),
    ("segment_bytes", |options| options.segment_bytes = u64::MAX),
    ("write_buffer_bytes", |options| options.write_buffer_bytes = 0),
    ("write_buffer_bytes", |options| options.write_buffer_bytes = usize::MAX),
    ("max_open_files", |options| options.max_open_files = usize::MAX),
    ("compaction_threads", |options| options.compaction_threads = 129),
    ("max_immutable_memtables", |options| options.max_immutable_memtables = 1001),
    ("level0_stop", |options| options.level0_stop = usize::MAX),
    ("level0_trigger", |options| options.keyspace.level0_trigger = options.level0_stop + 1),
    ("read_threads", |options| options.read_threads = usize::MAX),
    ("memory_bytes", |options| options.gc.memory_bytes = u64::MAX),
    ("max_replay_bytes", |options| options.max_replay_bytes = 1000),
    ("segment_bytes", |options| options.segment_bytes = 4095),
    ("max_open_files", |options| options.max_open_files = 0),
    ("compaction_threads", |options| options.compaction_threads = 0),
    ("max_immutable_memtables", |options| options.max_immutable_memtables = 0),
    ("level0_slowdown", |options| options.level0_slowdown = 0),
    ("level0_stop", |options| options.level0_stop = options.level0_slowdown - 1),
    ("read_threads", |options| options.read_threads = 0),
    ("background_bytes_per_second", |options| options.background_bytes_per_second = Some(1000)),
    ("max_space_amplification", |options| options.gc.max_space_amplification = 1.04),
    ("discardable_ratio", |options| options.gc.discardable_ratio = 1.5),
    ("punch_ratio", |options| options.gc.punch_ratio = 0.0),
    ("punch_ratio", |options| options.gc.punch_ratio = f64::NAN),
    ("memory_bytes", |options| options.gc.memory_bytes = 0),
];

const WRONG_OF_KEYSPACE: [Wrong<KeyspaceOptions>; 8] = [
    ("block_bytes", |options| options.block_bytes = 255),
    ("block_bytes", |options| options.block_bytes = 1 << 30),
    ("filter_bits_per_key", |options| options.filter_bits_per_key = 65),
    ("table_bytes", |options| options.table_bytes = 0),
    ("memtable_bytes", |options| options.memtable_bytes = 0),
    ("memtable_bytes", |options| options.memtable_bytes = u64::MAX),
    ("level0_trigger", |options| options.level0_trigger = 0),
    ("level_base_bytes", |options| options.level_base_bytes = 0),
];

#[test]
fn each_wrong_one_is_named() {
    let dir = common::dir();
    let path = dir.path().join("never made");
    let mut cases = Vec::new();
    for (name, change) in WRONG {
        let mut options = common::tiny();
        change(&mut options);
        cases.push((name, options));
    }
    for (name, change) in WRONG_OF_KEYSPACE {
        let mut options = common::tiny();
        change(&mut options.keyspace);
        cases.push((name, options));
    }
    for (name, options) in cases {
        let error = Db::builder(&path).options(options).open().expect_err(name);
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().starts_with(&format!("{name} is ")), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn each_wrong_one_of_a_keyspace_is_named() {
    let dir = common::dir();
    let db = common::open(dir.path());
    for (name, change) in WRONG_OF_KEYSPACE {
        let mut options = common::tiny_keyspace();
        change(&mut options);
        let error = db.create_keyspace_with("new", options).expect_err(name);
        assert!(error.to_string().starts_with(&format!("{name} is ")), "{error}");
    }
    assert_eq!(db.keyspaces(), ["default"]);
}

#[test]
fn thresholds_decide_where_values_go() {
    // For each threshold: how many of the values of 0, 1, 99, 100 and 5000 bytes are separated.
    for (threshold, separated) in [(Some(0), 5), (Some(1), 4), (Some(100), 2), (None, 0)] {
        let dir = common::dir();
        let keyspace = common::separating(threshold);
        let db = common::open_with(dir.path(), Options { keyspace, ..common::tiny() });
        for bytes in [0, 1, 99, 100, 5000] {
            db.default_keyspace().put(bytes.to_string(), vec![1; bytes]).unwrap();
        }
        db.compact().unwrap();
        for bytes in [0, 1, 99, 100, 5000] {
            let found = db.default_keyspace().get(bytes.to_string()).unwrap().unwrap();
            assert_eq!(found, vec![1; bytes]);
        }
        let stats = db.stats();
        let referenced: u64 = stats.segments.iter().map(|s| s.referenced_records).sum();
        assert_eq!(referenced, separated, "{threshold:?}");
    }
}

#[test]
fn a_changed_threshold_leaves_old_values_readable() {
    let dir = common::dir();
    for (round, threshold) in [Some(0), None, Some(100), None, Some(0)].into_iter().enumerate() {
        let db = common::open(dir.path());
        // Replayed records are read correctly too; they were written under the previous settings.
        let keyspace = db.open_or_create_keyspace("changing").unwrap();
        keyspace.set_options(common::separating(threshold)).unwrap();
        for old in 0..round {
            for number in 0..20 {
                let key = format!("{old} {number}");
                assert_eq!(keyspace.get(&key).unwrap().unwrap(), vec![old as u8; number * 10]);
            }
        }
        for number in 0..20 {
            keyspace.put(format!("{round} {number}"), vec![round as u8; number * 10]).unwrap();
        }
        if round % 2 == 1 {
            db.compact().unwrap();
            assert!(db.check().unwrap().is_clean());
        }
    }
}

#[test]
fn keys_up_to_64_kib() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let longest = vec![b'k'; MAX_KEY_BYTES];
    for value in [&b"inline"[..], &[1; 1000]] {
        keyspace.put(&longest, value).unwrap();
        db.compact().unwrap();
        assert_eq!(keyspace.get(&longest).unwrap().unwrap(), value);
        assert_eq!(keyspace.keys().next().unwrap().unwrap(), longest);
    }
    let too_long = vec![b'k'; MAX_KEY_BYTES + 1];
    for error in [keyspace.put(&too_long, "").unwrap_err(), keyspace.delete(&too_long).unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("65537 bytes is over the limit of 64 KiB"), "{error}");
    }
    // Reading a key that is too long is no error: it does not exist.
    assert!(keyspace.get(&too_long).unwrap().is_none());
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek(&too_long).unwrap();
    assert!(!cursor.valid());
    cursor.seek_for_prev(&too_long).unwrap();
    assert_eq!(cursor.key(), longest);
}

#[test]
fn a_value_over_1_gib_is_refused() {
    let dir = common::dir();
    let db = common::open(dir.path());
    // The zeroes are never touched, so they take no memory. The refusal must not copy them.
    let too_large = vec![0; MAX_VALUE_BYTES + 1];
    let error = db.default_keyspace().put("key", &too_large).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("over the limit of 1 GiB"), "{error}");
    let mut batch = cleavedb::WriteBatch::new();
    batch.put(&db.default_keyspace(), "key", &too_large);
    assert!(db.write(batch).is_err());
    assert!(db.default_keyspace().get("key").unwrap().is_none());
    assert_eq!(db.stats().log_bytes_written, 0);
}

#[test]
fn a_value_of_200_mb() {
    let dir = common::dir_on_disk();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let large: Vec<u8> = (0..200_000_000u32).map(|n| (n >> 8) as u8 ^ n as u8).collect();
    keyspace.put("large", &large).unwrap();
    keyspace.put("small", "beside it").unwrap();
    assert!(keyspace.get("large").unwrap().unwrap() == large);
    drop((db, keyspace));
    let db = common::open(dir.path());
    let mut pairs = db.default_keyspace().iter();
    assert!(pairs.next().unwrap().unwrap().1 == large);
    assert_eq!(pairs.next().unwrap().unwrap().1, "beside it");
    drop(pairs);
    db.default_keyspace().delete("large").unwrap();
    db.compact().unwrap();
    let left = common::bytes_of(dir.path(), "");
    assert!(left < 1_000_000, "{left}");
}

#[test]
fn the_settings_in_force_can_be_read_beside_the_data() {
    let dir = common::dir();
    let db = common::open(dir.path());
    assert_eq!(db.options(), &common::tiny());
    let text = std::fs::read_to_string(dir.path().join("OPTIONS")).unwrap();
    assert!(text.contains("segment_bytes = 16384\n"), "{text}");
    assert!(text.contains("gc.max_space_amplification = 1.3\n"), "{text}");
    assert!(text.contains("background_bytes_per_second = none\n"), "{text}");
    assert!(text.contains("separation_threshold = 100\n"), "{text}");
}

#[test]
fn a_time_between_syncs_that_never_ends_is_refused() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let forever = WriteOptions::new().durability(Durability::SyncEvery(Duration::MAX));
    let mut batch = cleavedb::WriteBatch::new();
    batch.put(&keyspace, "key", "value");
    for error in [
        keyspace.put_with("key", "value", &forever).unwrap_err(),
        keyspace.delete_with("key", &forever).unwrap_err(),
        db.write_with(batch, &forever).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().starts_with("durability is every:"), "{error}");
    }
    // The refused writes did not block later ones.
    let day = Duration::from_secs(24 * 60 * 60);
    let options = WriteOptions::new().durability(Durability::SyncEvery(day));
    keyspace.put_with("key", "value", &options).unwrap();
    keyspace.put("key", "value").unwrap();
}

#[test]
fn writers_never_wait_for_a_compaction_that_nothing_starts() {
    let dir = common::dir();
    let keyspace = KeyspaceOptions { level0_trigger: 9, ..common::tiny_keyspace() };
    let many = Options { level0_stop: 36, keyspace: keyspace.clone(), ..common::tiny() };
    common::open_with(dir.path(), many).close().unwrap();
    // The keyspace keeps its settings when the database is opened with others.
    let few = Options { level0_slowdown: 2, level0_stop: 3, ..common::tiny() };
    let few = Options {
        keyspace: KeyspaceOptions { level0_trigger: 2, ..common::tiny_keyspace() },
        ..few
    };
    let db = common::open_with(dir.path(), few);
    assert_eq!(db.default_keyspace().options().level0_trigger, 9);
    for number in 0..30 {
        db.default_keyspace().put(common::key(number), "value").unwrap();
        db.flush().unwrap();
    }
    // New and changed settings are checked against the database's stall thresholds.
    let above = KeyspaceOptions { level0_trigger: 10, ..common::tiny_keyspace() };
    let refused = [
        db.default_keyspace().set_options(above.clone()).unwrap_err(),
        db.create_keyspace_with("new", above).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(
            error.to_string().contains("level0_trigger is 10, it must be from 1 to 9"),
            "{error}"
        );
    }
}

/// Without mappings nothing is prepared for appends: a device that fails under a mapping ends the
/// process, and a program that can't have that must be able to do without.
#[test]
fn mapped_appends_can_be_switched_off() {
    for mapped_appends in [true, false] {
        let dir = common::dir();
        let options = Options { mapped_appends, ..Options::default() };
        let open = || Db::builder(dir.path()).options(options.clone()).open().unwrap();
        let db = open();
        db.default_keyspace().put("key", "value").unwrap();
        let is_log = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "seg");
        let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let lengths: Vec<u64> =
            files.filter(is_log).map(|path| path.metadata().unwrap().len()).collect();
        assert_eq!(lengths.len(), 1);
        assert_eq!(lengths[0] > 64 << 10, mapped_appends, "{lengths:?}");
        drop(db);
        assert_eq!(open().default_keyspace().get("key").unwrap().unwrap(), "value");
    }
}

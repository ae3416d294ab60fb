//! The order of values that scans ask for, on real files. How it is decided, and crashes, are
//! tested in the simulation and beside the decider.

use crate::common;
use cleavedb::{Db, ErrorKind, Event, EventListener, GcOptions, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: usize = 1500;
const VALUE_BYTES: usize = 1500;

fn options() -> Options {
    let gc = GcOptions { max_space_amplification: 2.0, ..GcOptions::default() };
    Options { segment_bytes: 256 << 10, max_replay_bytes: 1 << 20, gc, ..common::tiny() }
}

/// Puts every key once, in an order that is not that of the keys.
fn load(db: &Db) {
    let keyspace = db.default_keyspace();
    (0..KEYS).for_each(|it| common::put_value(&keyspace, it * 677 % KEYS, 1, VALUE_BYTES));
    db.flush().unwrap();
}

/// Scans everything; returns the values that could be read, and the reads per hundred values.
fn scan(db: &Db) -> (usize, u64) {
    let before = db.stats();
    let mut cursor = db.default_keyspace().cursor().unwrap();
    let mut read = 0;
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        match cursor.value() {
            Ok(_) => read += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
        }
        cursor.next().unwrap();
    }
    let after = db.stats();
    let values = after.prefetched_values - before.prefetched_values;
    (read, (after.prefetch_reads - before.prefetch_reads) * 100 / values)
}

/// Scans until values are in order; `db.gc` has value GC count the room for it.
fn scan_until_in_order(db: &Db) -> (usize, u64) {
    let mut found = (0, 100);
    for _ in 0..100 {
        found = scan(db);
        if found.1 < 20 {
            break;
        }
        db.gc().unwrap();
        db.wait_idle().unwrap();
    }
    found
}

/// Counts the bytes that a listener was told of.
#[derive(Default)]
struct Ordered(AtomicU64);

impl EventListener for Ordered {
    fn on_event(&self, event: &Event) {
        if let Event::ValuesOrdered { bytes_written, .. } = event {
            self.0.fetch_add(*bytes_written, Ordering::Relaxed);
        }
    }
}

#[test]
fn what_is_scanned_is_put_in_order_and_told_of() {
    let (dir, told) = (common::dir(), Arc::new(Ordered::default()));
    let builder = Db::builder(dir.path()).options(options()).event_listener(told.clone());
    let db = builder.open().unwrap();
    load(&db);
    assert!(scan(&db).1 > 70, "they are strewn");
    let costs = db.default_keyspace().scan_costs();
    assert!(costs.iter().map(|it| it.cost_bytes).sum::<u64>() > KEYS as u64 * (8 << 10));
    // A job may begin at any time, which pays, and divides ranges.
    let look = || db.stats().scan_cost_ranges;
    let cost = || db.default_keyspace().scan_costs().iter().filter(|it| it.cost_bytes > 0).count();
    let mut looks = (0..100).map(|_| (look(), cost() as u64, look()));
    let quiet = looks.find(|(before, _, after)| before == after).expect("a quiet look");
    assert_eq!(quiet.0, quiet.1);
    let (read, reads) = scan_until_in_order(&db);
    assert!(read == KEYS && reads < 20, "{reads} reads for 100 values");
    db.wait_idle().unwrap();
    let stats = db.stats();
    assert_eq!(told.0.load(Ordering::Relaxed), stats.scan_order_bytes_written);
    let text = stats.to_string();
    assert!(text.contains(" put in order by "), "{text}");
    let ordered: u64 = db.default_keyspace().scan_costs().iter().map(|it| it.ordered_bytes).sum();
    // What value GC or a compaction has written since counts no more.
    assert_ne!(ordered, 0);
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn i03_a_damaged_value_stays_and_the_others_are_put_in_order() {
    let dir = common::dir();
    let db = common::open_with(dir.path(), Options { scan_order: false, ..options() });
    load(&db);
    db.close().unwrap();
    let segment = &common::files(dir.path(), ".seg")[0];
    let mut bytes = std::fs::read(segment).unwrap();
    bytes[3000] ^= 1;
    std::fs::write(segment, bytes).unwrap();
    let gc = GcOptions { max_space_amplification: 100.0, ..options().gc };
    let db = common::open_with(dir.path(), Options { gc, ..options() });
    let mut last = 100;
    for _ in 0..100 {
        let (read, reads) = scan(&db);
        assert_eq!(read, KEYS - 1);
        last = reads;
        if last < 20 {
            break;
        }
        // Value GC says that it can't move the damaged record.
        let _ = db.gc();
        db.wait_idle().unwrap();
    }
    assert!(last < 20, "{last} reads for 100 values");
    // Idle value GC would try to move the damaged record after two seconds.
    db.pause_gc();
    let default = db.default_keyspace();
    let damaged: Vec<_> = (0..KEYS).filter(|it| default.get(common::key(*it)).is_err()).collect();
    assert_eq!(damaged.len(), 1);
    assert_eq!(db.stats().background_errors, 0);
}

//! Range deletes on a disk that is full.

use crate::client::{open, simulate, tiny_options};
use crate::script::value;
use cleavedb::{Codec, KeyspaceOptions, Options, Separation};
use std::time::Duration;

/// On a full disk, tables that a range tombstone covers go, because that needs no space. The
/// tables here are larger than what is left of the disk.
#[test]
fn i09_tables_that_are_deleted_as_a_whole_go_while_the_disk_is_full() {
    simulate(11, 5_000_000, |env, simulation| {
        let tables = KeyspaceOptions {
            separation: Separation::Off,
            block_codec: Codec::None,
            table_bytes: 256 << 10,
            memtable_bytes: 64 << 10,
            level_base_bytes: 1 << 20,
            ..tiny_options().keyspace
        };
        let db = open(env, Options { keyspace: tables, ..tiny_options() });
        let keys = db.default_keyspace();
        for number in 0..1500 {
            keys.put(format!("k{number:04}"), value(number, 600)).unwrap();
        }
        db.compact().unwrap();
        db.wait_idle().unwrap();
        let largest = keys.tables().iter().map(|table| table.bytes).max();
        assert!(largest > Some(60_000), "{largest:?}");
        simulation.set_capacity(Some(simulation.used() + 30_000));
        keys.delete_range(.."k1499").unwrap();
        // Nobody calls: an idle database flushes a range tombstone that is over tables.
        env.threads.sleep(Duration::from_secs(60));
        assert_eq!(keys.iter().count(), 1);
        let left: u64 = keys.tables().iter().map(|table| table.bytes).sum();
        assert!(left <= largest.unwrap(), "{left} bytes of tables are left: {:?}", keys.tables());
        assert_eq!(db.stats().background_errors, 0);
        db.wait_idle().unwrap();
        simulation.set_capacity(None);
        assert!(db.check().unwrap().is_clean());
    });
}

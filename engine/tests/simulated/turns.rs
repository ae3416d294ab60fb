//! Tests that keyspaces take turns: one that is always written keeps no other waiting.

use crate::client::{open, simulate, tiny_options};
use cleavedb::{KeyspaceOptions, Options, Separation, WriteBatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 4_000_000;
/// More puts than there are while the calm keyspace is written, by far.
const MOST_PUTS: u64 = 20_000;

/// The only thread for compactions always found a full level in the keyspace that is written most.
/// Writers of another waited at the stop of its L0 for as long as that went on.
#[test]
fn a_keyspace_that_is_always_written_keeps_no_other_from_being_compacted() {
    simulate(5, STEPS, |env, _| {
        let keyspace = KeyspaceOptions { separation: Separation::Off, ..tiny_options().keyspace };
        let options = Options { compaction_threads: 1, keyspace, ..tiny_options() };
        let db = open(env, options.clone());
        let (busy, calm) = (db.default_keyspace(), db.create_keyspace("calm").unwrap());
        let (ends, puts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let write = |number: u64| {
            let (db, busy, ends, puts) = (db.clone(), busy.clone(), ends.clone(), puts.clone());
            let write = move || {
                // The number is bounded, so that the test fails where others wait for the end.
                while !ends.load(Ordering::Relaxed) && puts.load(Ordering::Relaxed) < MOST_PUTS {
                    let mut batch = WriteBatch::new();
                    for _ in 0..20 {
                        let key = puts.fetch_add(1, Ordering::Relaxed) * 4 + number;
                        let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                        batch.put(&busy, key, [7; 150]);
                    }
                    db.write(batch).unwrap();
                }
            };
            env.threads.spawn("writer", Box::new(write)).unwrap()
        };
        let writers: Vec<_> = (0..4).map(write).collect();
        for number in 0..3 * options.level0_stop as u32 {
            calm.put(number.to_be_bytes(), "calm").unwrap();
            calm.flush().unwrap();
        }
        ends.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let puts = puts.load(Ordering::Relaxed);
        assert!(puts < MOST_PUTS, "calm writers waited until nobody wrote elsewhere");
    });
}

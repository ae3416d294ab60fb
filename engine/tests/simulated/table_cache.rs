//! Tests of reads with so little memory for indexes and filters that tables are opened again and
//! again: an error at reopening is reported by the read that needs the table, and by no other.

use crate::client::{inline_options, open, simulate, tiny_options};
use crate::script::value;
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Simulation};
use cleavedb::{Db, Error, ErrorKind, Options};
use std::path::PathBuf;

/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 4_000_000;
const KEYS: usize = 600;
const LEN: usize = 300;

fn key(number: usize) -> String {
    format!("k{number:04}")
}

/// Returns options with which no table stays in memory without a reader.
fn options() -> Options {
    Options {
        max_index_and_filter_bytes: Some(0),
        cache_bytes: 0,
        keyspace: inline_options(),
        ..tiny_options()
    }
}

/// Fills a database whose keys are in more tables than files may be open.
fn filled(env: &Env) -> Db {
    let db = open(env, options());
    let keyspace = db.default_keyspace();
    (0..KEYS).for_each(|number| keyspace.put(key(number), value(number, LEN)).unwrap());
    db.compact().unwrap();
    db
}

fn tables(simulation: &Simulation) -> Vec<PathBuf> {
    let is_table = |path: &PathBuf| path.extension().is_some_and(|it| it == "tbl");
    simulation.files().into_iter().filter(is_table).collect()
}

/// Reads every key by point reads, and all of them in one scan; returns the errors. A key that is
/// read has its value, and none is missing without an error.
fn read_all(db: &Db) -> Vec<Error> {
    let keyspace = db.default_keyspace();
    let mut errors = Vec::new();
    for number in 0..KEYS {
        match keyspace.get(key(number)) {
            Ok(found) => assert_eq!(found.unwrap(), value(number, LEN), "{}", key(number)),
            Err(error) => errors.push(error),
        }
    }
    let mut scanned = 0;
    for pair in keyspace.iter() {
        match pair {
            Ok((found, _)) => assert_eq!(found, key(scanned).as_bytes()),
            Err(error) => {
                errors.push(error);
                return errors;
            }
        }
        scanned += 1;
    }
    assert_eq!(scanned, KEYS);
    errors
}

#[test]
fn i03_a_table_that_cannot_be_opened_again_is_an_error_and_not_an_absent_key() {
    simulate(7, STEPS, |env, simulation| {
        let db = filled(env);
        assert!(tables(simulation).len() > 20, "{:?}", tables(simulation));
        assert!(read_all(&db).is_empty());
        assert_eq!(db.stats().index_and_filter_bytes, 0, "no reader is left");
        for call in [Call::Open, Call::Read, Call::Inspect] {
            simulation.fail(FaultPlan::new(call).on(".tbl").for_good());
            let errors = read_all(&db);
            assert!(!errors.is_empty(), "{call:?}");
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.file().unwrap().extension().unwrap() == "tbl", "{error}");
            }
            simulation.clear_faults();
            assert!(read_all(&db).is_empty(), "{call:?}");
        }
        assert!(db.check().unwrap().is_clean());
        db.close().unwrap();
    });
}

/// Every fault hits one opening only: the next read of the same key opens the table anew.
#[test]
fn a_fault_at_any_opening_of_a_table_costs_one_read() {
    simulate(8, STEPS, |env, simulation| {
        let db = filled(env);
        let keyspace = db.default_keyspace();
        for nth in 1..40 {
            simulation.fail(FaultPlan::new(Call::Read).on(".tbl").nth(nth));
            let mut errors = 0;
            for number in (0..KEYS).step_by(15) {
                let found = keyspace.get(key(number)).or_else(|_| {
                    errors += 1;
                    keyspace.get(key(number))
                });
                assert_eq!(found.unwrap().unwrap(), value(number, LEN), "{nth}");
            }
            simulation.clear_faults();
            assert_eq!(errors, 1, "{nth}");
        }
        db.close().unwrap();
    });
}

#[test]
fn i03_a_table_that_vanished_or_was_damaged_under_a_running_database_is_named() {
    simulate(9, STEPS, |env, simulation| {
        let db = filled(env);
        assert!(read_all(&db).is_empty());
        let path = tables(simulation).swap_remove(3);
        let whole = simulation.read_file(&path);
        simulation.corrupt(&path, |bytes| {
            let end = bytes.len();
            bytes[end - 10] ^= 1;
        });
        let errors = read_all(&db);
        assert!(errors.len() > 2, "{errors:?}");
        for error in &errors {
            assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&*path)));
        }
        simulation.corrupt(&path, |bytes| *bytes = whole);
        assert!(read_all(&db).is_empty(), "the file is whole again");
        let aside = path.with_extension("aside");
        env.fs.rename(&path, &aside).unwrap();
        // The file is closed by now, because others were opened since.
        let errors = read_all(&db);
        assert!(errors.len() > 2, "{errors:?}");
        for error in &errors {
            assert_eq!((error.kind(), error.file()), (ErrorKind::Io, Some(&*path)));
        }
        env.fs.rename(&aside, &path).unwrap();
        assert!(read_all(&db).is_empty());
        db.close().unwrap();
    });
}

//! The contents of a store, and their listing as text.

use cleavedb::Db;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The pairs of all keyspaces, by name.
pub type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Returns the contents of a database. Each value is read by a scan and by its key.
pub fn contents_of(db: &Db) -> Contents {
    let mut contents = Contents::new();
    for name in db.keyspaces() {
        let keyspace = db.open_or_create_keyspace(&name).unwrap();
        let pairs: BTreeMap<_, _> = keyspace
            .iter()
            .map(|item| item.unwrap_or_else(|error| panic!("{name}: {error}")))
            .map(|(key, value)| (key, value.into_vec()))
            .collect();
        for (key, value) in &pairs {
            let found = keyspace.get(key).unwrap().map(cleavedb::Value::into_vec);
            assert_eq!(found.as_ref(), Some(value), "{name}: {}", key.escape_ascii());
        }
        contents.insert(name, pairs);
    }
    contents
}

/// Returns a line for each keyspace and each key, with the length and the FNV-1a of the value. This
/// hash is computed without the engine.
pub fn listing(contents: &Contents) -> String {
    let mut out = String::new();
    for (name, pairs) in contents {
        writeln!(out, "keyspace {name}: {} keys", pairs.len()).unwrap();
        for (key, value) in pairs {
            let hash = value.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            writeln!(out, "{} {} {hash:016x}", key.escape_ascii(), value.len()).unwrap();
        }
    }
    out
}

//! Calls on whole databases (compact, destroy, repair), and the version of LevelDB's interface.

use crate::border::{Bytes, ErrPtr, Text, key_range};
use crate::db::Database;
use crate::guard::{quiet, telling};
use crate::handle::Handle;
use crate::options::DbOptions;
use engine::Db;
use std::ffi::c_int;

/// The major version of the LevelDB release whose interface this is.
const MAJOR: c_int = 1;
const MINOR: c_int = 23;

#[unsafe(no_mangle)]
extern "C" fn leveldb_compact_range(
    db: Handle<Database>,
    start_key: Bytes,
    start_key_len: usize,
    limit_key: Bytes,
    limit_key_len: usize,
) {
    quiet((), || {
        let range = key_range((&start_key, start_key_len), (&limit_key, limit_key_len))?;
        db.pin()?.keyspace()?.compact_range(range)
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_destroy_db(options: Handle<DbOptions>, name: Text, errptr: ErrPtr) {
    telling(errptr, (), || {
        options.pin()?;
        Db::destroy(name.path()?)
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_repair_db(options: Handle<DbOptions>, name: Text, errptr: ErrPtr) {
    telling(errptr, (), || options.pin()?.builder(name.path()?)?.repair().map(|_| ()));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_major_version() -> c_int {
    MAJOR
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_minor_version() -> c_int {
    MINOR
}

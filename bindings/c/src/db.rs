//! Databases: open, close, and the calls on the keyspace `default`, which stands for LevelDB's
//! only key space.

use crate::batch::BatchHandle;
use crate::border::{Bytes, ErrPtr, Out, Text, copy_bytes};
use crate::guard::{quiet, telling};
use crate::handle::Handle;
use crate::options::{DbOptions, ReadSettings, WriteSettings, read_options, write_options};
use engine::{Db, Keyspace, OfProcess, ReadOptions, Result};
use std::ffi::c_char;
use std::ptr;

/// A database as C holds it.
pub struct Database {
    opened: OfProcess<(Db, Keyspace)>,
}

impl Database {
    /// Wraps an open database for a handle.
    pub fn new(db: Db) -> Self {
        let keyspace = db.default_keyspace();
        Database { opened: OfProcess::new((db, keyspace)) }
    }

    /// Returns the engine's database, or an error in a child process.
    #[inline]
    pub fn engine(&self) -> Result<&Db> {
        self.opened.get().map(|(db, _)| db)
    }

    /// Returns the keyspace `default`, or an error in a child process.
    #[inline]
    pub fn keyspace(&self) -> Result<&Keyspace> {
        self.opened.get().map(|(_, keyspace)| keyspace)
    }
}

/// Returns a copy of the value for C, and its length in bytes at `len`; null if there is no value.
pub fn get(
    keyspace: &Keyspace,
    options: &ReadOptions,
    key: &[u8],
    len: Out<usize>,
) -> Result<*mut c_char> {
    let found = keyspace.get_pinned_with(key, options, |value| (copy_bytes(value), value.len()))?;
    let Some((copy, bytes)) = found else { return Ok(ptr::null_mut()) };
    let copy = copy?;
    len.set(bytes);
    Ok(copy)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_open(
    options: Handle<DbOptions>,
    name: Text,
    errptr: ErrPtr,
) -> Handle<Database> {
    telling(errptr, Handle::NULL, || {
        let options = options.pin()?;
        Handle::new(Database::new(options.open(name.path()?)?))
    })
}

/// Closes the database at once. Calls of other threads that are under way succeed or fail with an
/// error. Iterators and snapshots may be destroyed later.
#[unsafe(no_mangle)]
extern "C" fn leveldb_close(db: Handle<Database>) {
    quiet((), || {
        let engine = db.pin()?.engine().cloned();
        db.close();
        engine?.close()
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_put(
    db: Handle<Database>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    val: Bytes,
    vallen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let options = write_options(options)?;
        db.pin()?.keyspace()?.put_with(key.key(keylen)?, val.value(vallen)?, &options)
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_delete(
    db: Handle<Database>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let options = write_options(options)?;
        db.pin()?.keyspace()?.delete_with(key.key(keylen)?, &options)
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_write(
    db: Handle<Database>,
    options: Handle<WriteSettings>,
    batch: Handle<BatchHandle>,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let options = write_options(options)?;
        let db = db.pin()?;
        let operations = batch.pin()?.operations();
        db.engine()?.write_with(operations.for_engine(db.keyspace()?)?, &options)
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_get(
    db: Handle<Database>,
    options: Handle<ReadSettings>,
    key: Bytes,
    keylen: usize,
    vallen: Out<usize>,
    errptr: ErrPtr,
) -> *mut c_char {
    vallen.set(0);
    telling(errptr, ptr::null_mut(), || {
        let options = read_options(options)?;
        get(db.pin()?.keyspace()?, &options, key.key(keylen)?, vallen)
    })
}

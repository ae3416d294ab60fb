//! CleaveDB's own calls, see `include/cleavedb/c.h`: keyspaces, reads of many keys at once, and
//! maintenance and statistics that LevelDB does not have.

use crate::batch::BatchHandle;
use crate::border::{Array, Bytes, ErrPtr, Out, Text, copy_bytes, copy_text};
use crate::db::{Database, get};
use crate::error;
use crate::guard::{quiet, telling};
use crate::handle::{Handle, open_handles};
use crate::iter::{self, Iter};
use crate::options::{DbOptions, ReadSettings, WriteSettings, read_options, write_options};
use engine::{Error, Expiry, Keyspace, OfProcess, Result, Value};
use std::ffi::{c_char, c_int};
use std::ptr;

/// A keyspace as C holds it.
pub struct KeyspaceHandle {
    keyspace: OfProcess<Keyspace>,
}

impl KeyspaceHandle {
    /// Returns the engine's keyspace, or an error in a child process.
    pub fn get(&self) -> Result<&Keyspace> {
        self.keyspace.get()
    }
}

/// Opens a keyspace, or creates it if it does not exist. The settings that were set in `options`,
/// which may be null, are stored for the keyspace.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_keyspace_open(
    db: Handle<Database>,
    options: Handle<DbOptions>,
    name: Text,
    errptr: ErrPtr,
) -> Handle<KeyspaceHandle> {
    telling(errptr, Handle::NULL, || {
        let name = name.utf8("the name of the keyspace")?;
        let db = db.pin()?;
        let db = db.engine()?;
        let keyspace = if options.is_null() {
            db.open_or_create_keyspace(name)?
        } else {
            let changes = options.pin()?.keyspace_changes()?;
            let mut settings = db.options().keyspace.clone();
            changes.apply(&mut settings);
            let keyspace = db.open_or_create_keyspace_with(name, settings)?;
            changes.store(db, &keyspace)?;
            keyspace
        };
        Handle::new(KeyspaceHandle { keyspace: OfProcess::new(keyspace) })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_keyspace_close(keyspace: Handle<KeyspaceHandle>) {
    quiet((), || {
        keyspace.close();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_keyspace_drop(db: Handle<Database>, name: Text, errptr: ErrPtr) {
    telling(errptr, (), || db.pin()?.engine()?.drop_keyspace(name.utf8("the name")?));
}

/// Returns the names of all keyspaces, each followed by a zero byte, and their number at `count`.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_keyspace_names(db: Handle<Database>, count: Out<usize>) -> *mut c_char {
    count.set(0);
    quiet(ptr::null_mut(), || {
        let names = db.pin()?.engine()?.keyspaces();
        let bytes: Vec<u8> =
            names.iter().flat_map(|name| [name.as_bytes(), &[0]].concat()).collect();
        let copy = copy_bytes(&bytes)?;
        count.set(names.len());
        Ok(copy)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_put(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    val: Bytes,
    vallen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let options = write_options(options)?;
        keyspace.pin()?.get()?.put_with(key.key(keylen)?, val.value(vallen)?, &options)
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_delete(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let options = write_options(options)?;
        keyspace.pin()?.get()?.delete_with(key.key(keylen)?, &options)
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_get(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<ReadSettings>,
    key: Bytes,
    keylen: usize,
    vallen: Out<usize>,
    errptr: ErrPtr,
) -> *mut c_char {
    vallen.set(0);
    telling(errptr, ptr::null_mut(), || {
        let options = read_options(options)?;
        get(keyspace.pin()?.get()?, &options, key.key(keylen)?, vallen)
    })
}

/// Reads many keys at one moment. Each key has its own value, length in bytes and error.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_multi_get(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<ReadSettings>,
    num_keys: usize,
    keys: Array<Bytes>,
    key_lens: Array<usize>,
    values: Out<*mut c_char>,
    value_lens: Out<usize>,
    errs: Out<*mut c_char>,
) {
    // No array has this many items, so there is no array for the errors either.
    if num_keys > isize::MAX as usize / size_of::<usize>() {
        return;
    }
    let tell = |index: usize, answer: Result<Option<Value>>| {
        let copied = answer.and_then(|found| match found {
            Some(value) => Ok((copy_bytes(&value)?, value.len())),
            None => Ok((ptr::null_mut(), 0)),
        });
        let (value, len) = copied.as_ref().copied().unwrap_or((ptr::null_mut(), 0));
        values.set_at(index, value);
        value_lens.set_at(index, len);
        let error = copied.err();
        errs.set_at(index, error.map_or(ptr::null_mut(), |e| copy_text(&error::message(&e))));
    };
    let body = || {
        let starts = keys.items(num_keys, "the keys")?;
        let lengths = key_lens.items(num_keys, "the lengths of the keys")?;
        let keys = starts.iter().zip(lengths).map(|(key, &len)| key.key(len));
        let keys: Vec<Result<&[u8]>> = keys.collect();
        let good: Vec<&[u8]> = keys.iter().filter_map(|key| key.as_ref().ok().copied()).collect();
        let options = read_options(options)?;
        let mut answers = keyspace.pin()?.get()?.multi_get_with(&good, &options).into_iter();
        for (index, key) in keys.into_iter().enumerate() {
            tell(index, key.and_then(|_| answers.next().expect("each good key has an answer")));
        }
        Ok(())
    };
    let outcome = quiet(Err(Error::internal("the call panicked")), || Ok(body()));
    if let Err(error) = outcome {
        (0..num_keys).for_each(|index| tell(index, Err(error.clone())));
    }
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_create_iterator(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<ReadSettings>,
) -> Handle<Iter> {
    quiet(Handle::NULL, || {
        let keyspace = keyspace.pin();
        let keyspace = match &keyspace {
            Ok(keyspace) => keyspace.get(),
            Err(error) => Err(error.clone()),
        };
        iter::create(keyspace, read_options(options), options)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_iter_seek_for_prev(iter: Handle<Iter>, key: Bytes, klen: usize) {
    iter::seek_for_prev(iter, key, klen);
}

/// Calls `add` with a batch and a keyspace. An invalid handle of the keyspace is kept for the
/// write.
pub fn add_to(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    add: impl FnOnce(&BatchHandle, Keyspace),
) {
    quiet((), || {
        let batch = batch.pin()?;
        match keyspace.pin().and_then(|keyspace| keyspace.get().cloned()) {
            Ok(keyspace) => add(&batch, keyspace),
            Err(error) => batch.refuse(error),
        }
        Ok(())
    });
}

/// Adds an operation to a batch. An error is kept for the write.
pub fn add(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Result<&[u8]>,
    value: Result<Option<&[u8]>>,
    expiry: Option<Expiry>,
) {
    add_to(batch, keyspace, |batch, keyspace| batch.add(Some(keyspace), key, value, expiry));
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_writebatch_put(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    klen: usize,
    val: Bytes,
    vlen: usize,
) {
    add(batch, keyspace, key.key(klen), val.value(vlen).map(Some), None);
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_writebatch_delete(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    klen: usize,
) {
    add(batch, keyspace, key.key(klen), Ok(None), None);
}

/// Syncs the log, so that all that was committed survives a power cut.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_sync(db: Handle<Database>, errptr: ErrPtr) {
    telling(errptr, (), || db.pin()?.engine()?.sync());
}

/// Reads what the process that writes the database has done since. Returns the newest commit that
/// is visible, or 0 after an error.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_catch_up(db: Handle<Database>, errptr: ErrPtr) -> u64 {
    telling(errptr, 0, || Ok(db.pin()?.engine()?.catch_up()?.seqno))
}

/// Flushes the memtables of all keyspaces.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_flush(db: Handle<Database>, errptr: ErrPtr) {
    telling(errptr, (), || db.pin()?.engine()?.flush());
}

/// Compacts the whole key range of all keyspaces.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_compact(db: Handle<Database>, errptr: ErrPtr) {
    telling(errptr, (), || db.pin()?.engine()?.compact());
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_checkpoint(db: Handle<Database>, directory: Text, errptr: ErrPtr) {
    telling(errptr, (), || db.pin()?.engine()?.checkpoint(directory.path()?));
}

/// Verifies all files. Returns the number of problems plus the number of things that this build
/// can't verify; `errptr` gets the first problem or, if there is none, the first of the latter.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_check(db: Handle<Database>, errptr: ErrPtr) -> u64 {
    telling(errptr, 0, || {
        let report = db.pin()?.engine()?.check()?;
        if let Some(found) = report.problems.first().or(report.unverified.first()) {
            errptr.set(&found.error);
        }
        Ok(report.problem_count + report.unverified_count)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_stats_json(db: Handle<Database>) -> *mut c_char {
    quiet(ptr::null_mut(), || Ok(copy_text(&db.pin()?.engine()?.stats().to_json())))
}

/// Returns how many handles of any kind are open in this process.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_open_handles() -> usize {
    open_handles()
}

/// Returns the version of this library: major × 1 000 000 + minor × 1000 + patch.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_version_number() -> c_int {
    let number = |text: &str| text.parse::<c_int>().unwrap_or(0);
    number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 1000
        + number(env!("CARGO_PKG_VERSION_PATCH"))
}

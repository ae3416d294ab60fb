//! Values with versions, and writes that depend on what is there, see `include/cleavedb/c.h`.

use crate::batch::BatchHandle;
use crate::border::{Bytes, CallbackState, ErrPtr, Out, copy_bytes};
use crate::extra::{KeyspaceHandle, add_to};
use crate::guard::telling;
use crate::handle::Handle;
use crate::options::{ReadSettings, WriteSettings, read_options, write_options};
use engine::{
    Error, Exchange, Expected, Keyspace, MAX_VALUE_BYTES, ReadOptions, Result, Versioned,
};
use std::ffi::c_char;
use std::ptr;

/// The places of what a call found under a key. Each may be null.
pub struct FoundPlaces {
    version: Out<u64>,
    value: Out<*mut c_char>,
    len: Out<usize>,
}

impl FoundPlaces {
    /// Says that nothing was found, until something is.
    fn new(version: Out<u64>, value: Out<*mut c_char>, len: Out<usize>) -> Self {
        version.set(0);
        value.set(ptr::null_mut());
        len.set(0);
        FoundPlaces { version, value, len }
    }

    fn set(&self, found: &Versioned) -> Result<()> {
        if self.value.is_wanted() {
            self.value.set(copy_bytes(&found.value)?);
        }
        self.version.set(found.version);
        self.len.set(found.value.len());
        Ok(())
    }

    /// Returns 1 and sets the version if the write happened; else sets what was found instead.
    fn tell(&self, outcome: Exchange) -> Result<u8> {
        match outcome {
            Exchange::Done(version) => {
                self.version.set(version);
                return Ok(1);
            }
            Exchange::Mismatch(Some(found)) => self.set(&found)?,
            Exchange::Mismatch(None) => {}
        }
        Ok(0)
    }
}

/// Returns a copy of the value for C, with its length and version; null if there is no value.
pub fn get_versioned(
    keyspace: &Keyspace,
    options: &ReadOptions,
    key: &[u8],
    len: Out<usize>,
    version: Out<u64>,
) -> Result<*mut c_char> {
    let Some(found) = keyspace.get_versioned_with(key, options)? else {
        return Ok(ptr::null_mut());
    };
    let copy = copy_bytes(&found.value)?;
    len.set(found.value.len());
    version.set(found.version);
    Ok(copy)
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_get_versioned(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<ReadSettings>,
    key: Bytes,
    keylen: usize,
    vallen: Out<usize>,
    version: Out<u64>,
    errptr: ErrPtr,
) -> *mut c_char {
    vallen.set(0);
    version.set(0);
    telling(errptr, ptr::null_mut(), || {
        let options = read_options(options)?;
        get_versioned(keyspace.pin()?.get()?, &options, key.key(keylen)?, vallen, version)
    })
}

/// Puts a value, or deletes the key if it is `None`, if what is there is as expected.
fn exchange(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: &[u8],
    expected: Expected<'_>,
    value: Option<&[u8]>,
) -> Result<Exchange> {
    let options = write_options(options)?;
    let keyspace = keyspace.pin()?;
    match value {
        Some(value) => keyspace.get()?.compare_and_set_with(key, expected, value, &options),
        None => keyspace.get()?.compare_and_delete_with(key, expected, &options),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_put_if_absent(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    val: Bytes,
    vallen: usize,
    version: Out<u64>,
    found: Out<*mut c_char>,
    foundlen: Out<usize>,
    errptr: ErrPtr,
) -> u8 {
    let places = FoundPlaces::new(version, found, foundlen);
    telling(errptr, 0, || {
        let (key, value) = (key.key(keylen)?, val.value(vallen)?);
        places.tell(exchange(keyspace, options, key, Expected::Absent, Some(value))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_compare_and_set(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    expected: Bytes,
    expectedlen: usize,
    val: Bytes,
    vallen: usize,
    version: Out<u64>,
    found: Out<*mut c_char>,
    foundlen: Out<usize>,
    errptr: ErrPtr,
) -> u8 {
    let places = FoundPlaces::new(version, found, foundlen);
    telling(errptr, 0, || {
        let expected = Expected::Value(expected.value(expectedlen)?);
        let (key, value) = (key.key(keylen)?, val.value(vallen)?);
        places.tell(exchange(keyspace, options, key, expected, Some(value))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_compare_and_set_version(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    expected: u64,
    val: Bytes,
    vallen: usize,
    version: Out<u64>,
    found: Out<*mut c_char>,
    foundlen: Out<usize>,
    errptr: ErrPtr,
) -> u8 {
    let places = FoundPlaces::new(version, found, foundlen);
    telling(errptr, 0, || {
        let (key, value) = (key.key(keylen)?, val.value(vallen)?);
        places.tell(exchange(keyspace, options, key, Expected::Version(expected), Some(value))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_compare_and_delete(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    expected: Bytes,
    expectedlen: usize,
    version: Out<u64>,
    found: Out<*mut c_char>,
    foundlen: Out<usize>,
    errptr: ErrPtr,
) -> u8 {
    let places = FoundPlaces::new(version, found, foundlen);
    telling(errptr, 0, || {
        let expected = Expected::Value(expected.value(expectedlen)?);
        places.tell(exchange(keyspace, options, key.key(keylen)?, expected, None)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_compare_and_delete_version(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    expected: u64,
    version: Out<u64>,
    found: Out<*mut c_char>,
    foundlen: Out<usize>,
    errptr: ErrPtr,
) -> u8 {
    let places = FoundPlaces::new(version, found, foundlen);
    telling(errptr, 0, || {
        places.tell(exchange(
            keyspace,
            options,
            key.key(keylen)?,
            Expected::Version(expected),
            None,
        )?)
    })
}

/// The function of C that makes a value of what is there, if anything is.
type ChangeFunction =
    extern "C-unwind" fn(CallbackState, *const c_char, usize, *mut usize) -> *mut c_char;

/// Calls `change`; returns a copy of what it made, whose memory is given back.
fn changed(
    (change, state): (ChangeFunction, CallbackState),
    old: Option<&[u8]>,
) -> Result<Option<Vec<u8>>> {
    let (bytes, old_len) = (old.map_or(ptr::null(), <[u8]>::as_ptr), old.map_or(0, <[u8]>::len));
    let mut len = 0;
    let new = change(state, bytes.cast(), old_len, &raw mut len);
    if new.is_null() {
        return Ok(None);
    }
    let fits = len <= MAX_VALUE_BYTES;
    // SAFETY: `c.h` demands memory from malloc, with its length at `len`.
    let value = fits.then(|| unsafe { std::slice::from_raw_parts(new.cast(), len) }.to_vec());
    // SAFETY: as above, and nothing refers to it any more.
    unsafe { libc::free(new.cast()) };
    let too_long = || {
        let what = format!("a value of {len} bytes is over the limit of {MAX_VALUE_BYTES}");
        Error::invalid_argument(what)
    };
    value.ok_or_else(too_long).map(Some)
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_update(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    state: CallbackState,
    change: Option<ChangeFunction>,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let change =
            change.ok_or_else(|| Error::invalid_argument("there is no function that changes"))?;
        let (options, keyspace, key) = (write_options(options)?, keyspace.pin()?, key.key(keylen)?);
        let change = |old: Option<&[u8]>| changed((change, state), old);
        keyspace.get()?.try_update_with(key, &options, change).map(|_| ())
    });
}

/// Adds a requirement to a batch. An error is kept for the write.
fn require(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Result<&[u8]>,
    expected: Result<Expected<'_>>,
) {
    add_to(batch, keyspace, |batch, keyspace| batch.require(keyspace, key, expected));
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_writebatch_require_absent(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    klen: usize,
) {
    require(batch, keyspace, key.key(klen), Ok(Expected::Absent));
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_writebatch_require_value(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    klen: usize,
    expected: Bytes,
    expectedlen: usize,
) {
    require(batch, keyspace, key.key(klen), expected.value(expectedlen).map(Expected::Value));
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_writebatch_require_version(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    klen: usize,
    expected: u64,
) {
    require(batch, keyspace, key.key(klen), Ok(Expected::Version(expected)));
}

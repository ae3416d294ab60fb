//! Iterators: a cursor of the engine, and the key and value that C may still read. Calls from
//! several threads on one iterator wait for each other.
//!
//! The results of `leveldb_iter_key` and `leveldb_iter_value` belong to the iterator and stay until
//! it moves or is destroyed. An error makes the iterator invalid until the next seek, so that a
//! loop over it ends; `leveldb_iter_get_error` returns the error.

use crate::border::{Bytes, ErrPtr, Out};
use crate::db::Database;
use crate::guard::quiet;
use crate::handle::Handle;
use crate::options::{ReadSettings, read_options};
use engine::{Cursor, Error, Keyspace, OfProcess, ReadOptions, Result};
use std::ffi::c_char;
use std::ops::Bound;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// An iterator as C holds it.
pub struct Iter {
    state: OfProcess<Mutex<IterState>>,
}

/// The state of an iterator, behind its lock.
struct IterState {
    /// `None` if it could not be created; `error` holds the reason.
    cursor: Option<Cursor>,
    error: Option<Error>,
    /// The key that C was given since the last move.
    key: Option<Vec<u8>>,
    /// A buffer that is reused for the next key.
    spare: Vec<u8>,
}

impl IterState {
    fn valid(&self) -> bool {
        self.error.is_none() && self.cursor.as_ref().is_some_and(Cursor::valid)
    }

    fn forget(&mut self) {
        if let Some(key) = self.key.take() {
            self.spare = key;
        }
    }

    fn run(&mut self, step: impl FnOnce(&mut Cursor) -> Result<()>) {
        self.forget();
        if let Some(cursor) = &mut self.cursor {
            self.error = step(cursor).err();
        }
    }

    fn step(&mut self, step: impl FnOnce(&mut Cursor) -> Result<()>) {
        if self.valid() {
            self.run(step);
        }
    }

    fn key(&mut self) -> Option<&[u8]> {
        if !self.valid() {
            return None;
        }
        if self.key.is_none() {
            let mut key = std::mem::take(&mut self.spare);
            key.clear();
            key.extend_from_slice(self.cursor.as_ref()?.key());
            self.key = Some(key);
        }
        self.key.as_deref()
    }

    fn value(&mut self) -> Option<&[u8]> {
        if !self.valid() {
            return None;
        }
        if let Err(error) = self.cursor.as_mut()?.pair() {
            self.forget();
            self.error = Some(error);
            return None;
        }
        // It is the same memory each time until the cursor moves.
        self.cursor.as_mut()?.pair().ok().map(|(_, value)| value)
    }
}

/// Creates an iterator over a keyspace, which reads with `read` and the settings that only
/// iterators have. If that fails the iterator is invalid and holds the error. Fails itself if no
/// handle is free.
pub fn create(
    keyspace: Result<&Keyspace>,
    read: Result<ReadOptions>,
    settings: Handle<ReadSettings>,
) -> Result<Handle<Iter>> {
    let cursor = keyspace.and_then(|keyspace| {
        let mut read = read?;
        let settings = settings.pin()?;
        let own = settings.cursor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        read.read_ahead = !own.no_read_ahead;
        let lower = own.lower.map_or(Bound::Unbounded, Bound::Included);
        let upper = own.upper.map_or(Bound::Unbounded, Bound::Excluded);
        match (own.prefix, lower, upper) {
            (None, Bound::Unbounded, Bound::Unbounded) => keyspace.cursor_with(&read),
            (None, lower, upper) => keyspace.range_with((lower, upper), &read).into_cursor(),
            (Some(prefix), lower, upper) => {
                keyspace.prefix_with(prefix, &read).within((lower, upper)).into_cursor()
            }
        }
    });
    let (cursor, error) = match cursor {
        Ok(cursor) => (Some(cursor), None),
        Err(error) => (None, Some(error)),
    };
    let state = IterState { cursor, error, key: None, spare: Vec::new() };
    Handle::new(Iter { state: OfProcess::new(Mutex::new(state)) })
}

/// Runs `body` on the locked state of an iterator; returns `nothing` if the handle is refused.
fn with<T>(iter: Handle<Iter>, nothing: T, body: impl FnOnce(&mut IterState) -> T) -> T {
    quiet(nothing, || {
        let iter = iter.pin()?;
        let mut state = iter.state.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(body(&mut state))
    })
}

/// Moves the iterator to the last key that is at or before `key`.
pub fn seek_for_prev(iter: Handle<Iter>, key: Bytes, len: usize) {
    seek(iter, key, len, Cursor::seek_for_prev);
}

/// Seeks to `key`. Its bytes may be those that the iterator has lent, which are gone once it moves,
/// so they are copied first, as LevelDB does.
fn seek(
    iter: Handle<Iter>,
    key: Bytes,
    len: usize,
    to: impl FnOnce(&mut Cursor, Vec<u8>) -> Result<()>,
) {
    with(iter, (), |state| {
        state.run(|cursor| {
            let key = key.key(len)?.to_vec();
            to(cursor, key)
        });
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_iterator(
    db: Handle<Database>,
    options: Handle<ReadSettings>,
) -> Handle<Iter> {
    quiet(Handle::NULL, || {
        let db = db.pin();
        let keyspace = match &db {
            Ok(db) => db.keyspace(),
            Err(error) => Err(error.clone()),
        };
        create(keyspace, read_options(options), options)
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_destroy(iter: Handle<Iter>) {
    quiet((), || {
        iter.close();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_valid(iter: Handle<Iter>) -> u8 {
    with(iter, 0, |state| u8::from(state.valid()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_first(iter: Handle<Iter>) {
    with(iter, (), |state| state.run(Cursor::seek_to_first));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_last(iter: Handle<Iter>) {
    with(iter, (), |state| state.run(Cursor::seek_to_last));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek(iter: Handle<Iter>, key: Bytes, klen: usize) {
    seek(iter, key, klen, Cursor::seek);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_next(iter: Handle<Iter>) {
    with(iter, (), |state| state.step(Cursor::next));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_prev(iter: Handle<Iter>) {
    with(iter, (), |state| state.step(Cursor::prev));
}

/// Returns a pointer to `bytes` and their length at `len`; null and zero if there are none.
fn lend(bytes: Option<&[u8]>, len: Out<usize>) -> *const c_char {
    len.set(bytes.map_or(0, <[u8]>::len));
    bytes.map_or(ptr::null(), |bytes| bytes.as_ptr().cast())
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_key(iter: Handle<Iter>, klen: Out<usize>) -> *const c_char {
    klen.set(0);
    with(iter, ptr::null(), |state| lend(state.key(), klen))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_value(iter: Handle<Iter>, vlen: Out<usize>) -> *const c_char {
    vlen.set(0);
    with(iter, ptr::null(), |state| lend(state.value(), vlen))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_get_error(iter: Handle<Iter>, errptr: ErrPtr) {
    crate::guard::telling(errptr, (), || {
        let iter = iter.pin()?;
        let state = iter.state.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        state.error.clone().map_or(Ok(()), Err)
    });
}

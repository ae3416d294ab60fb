//! The types that cross the border to C: pointers, lengths, strings and error messages.
//!
//! These types are laid out like the pointers they hold. Only C creates them: they occur as
//! arguments of calls from C and nowhere else. The code therefore relies on what `c.h` demands of
//! callers: a pointer that is not null points to what its type says for as long as the call lasts,
//! and an array has the length that is passed with it. What can be checked is checked: null
//! pointers, and lengths over the limit of a key or value, are refused before anything is read.

use crate::error;
use engine::{Error, ErrorKind, MAX_KEY_BYTES, MAX_VALUE_BYTES, Result};
use std::alloc::{Layout, handle_alloc_error};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// An array of bytes from C; its length is another argument of the call. May be null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Bytes(*const c_char);

impl Bytes {
    /// Returns the bytes as a key. Fails if `len` is over `MAX_KEY_BYTES`, or if it is not zero
    /// and the pointer is null.
    pub fn key(&self, len: usize) -> Result<&[u8]> {
        self.at_most(len, MAX_KEY_BYTES, "a key")
    }

    /// Returns the bytes as a value. Fails if `len` is over `MAX_VALUE_BYTES`, or if it is not
    /// zero and the pointer is null.
    pub fn value(&self, len: usize) -> Result<&[u8]> {
        self.at_most(len, MAX_VALUE_BYTES, "a value")
    }

    /// Returns the bytes as a key, or `None` if the pointer is null.
    pub fn optional_key(&self, len: usize) -> Result<Option<&[u8]>> {
        if self.0.is_null() { Ok(None) } else { self.key(len).map(Some) }
    }

    fn at_most(&self, len: usize, limit: usize, what: &str) -> Result<&[u8]> {
        if len > limit {
            return Err(Error::invalid_argument(format!(
                "{what} of {len} bytes is over the limit of {limit}"
            )));
        }
        if len == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(Error::invalid_argument(format!(
                "{what} of {len} bytes is a null pointer"
            )));
        }
        // SAFETY: C guarantees the array and its length, see the module's header.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), len) })
    }
}

/// The bounds of a range of keys.
pub type KeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Returns the range of keys from `start` to `limit`, each an array and its length. Both ends
/// belong to the range; a null pointer stands for the first or the last key.
pub fn key_range<'a>(
    (start, start_len): (&'a Bytes, usize),
    (limit, limit_len): (&'a Bytes, usize),
) -> Result<KeyBounds<'a>> {
    let start = start.optional_key(start_len)?.map_or(Bound::Unbounded, Bound::Included);
    let limit = limit.optional_key(limit_len)?.map_or(Bound::Unbounded, Bound::Included);
    Ok((start, limit))
}

/// Returns the keys from `begin` on that are before `end`; a null pointer leaves that end open.
pub fn half_open_range<'a>(
    begin: (&'a Bytes, usize),
    end: (&'a Bytes, usize),
) -> Result<KeyBounds<'a>> {
    let begin = begin.0.optional_key(begin.1)?.map_or(Bound::Unbounded, Bound::Included);
    let end = end.0.optional_key(end.1)?.map_or(Bound::Unbounded, Bound::Excluded);
    Ok((begin, end))
}

/// A string from C that ends with a zero byte. May be null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// Returns the bytes before the zero byte. `what` names the string in the error for a null
    /// pointer.
    pub fn bytes(&self, what: &str) -> Result<&[u8]> {
        if self.0.is_null() {
            return Err(Error::invalid_argument(format!("{what} is a null pointer")));
        }
        // SAFETY: C guarantees the zero byte at the end, see the module's header.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// Returns the string as UTF-8. `what` names it in errors.
    pub fn utf8(&self, what: &str) -> Result<&str> {
        let bytes = self.bytes(what)?;
        std::str::from_utf8(bytes)
            .map_err(|_| Error::invalid_argument(format!("{what} is not UTF-8")))
    }

    /// Returns the string as a path. Fails if it is empty.
    pub fn path(&self) -> Result<&Path> {
        let bytes = self.bytes("the path")?;
        if bytes.is_empty() {
            return Err(Error::invalid_argument("the path is empty"));
        }
        Ok(Path::new(OsStr::from_bytes(bytes)))
    }
}

/// An array of pointers or numbers from C; its length is another argument of the call. May be null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Array<T>(*const T);

impl<T> Array<T> {
    /// Returns the `len` items of the array. `what` names the array in errors.
    pub fn items(&self, len: usize, what: &str) -> Result<&[T]> {
        if len == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() || len > isize::MAX as usize / size_of::<T>().max(1) {
            return Err(Error::invalid_argument(format!("{what} can't be an array of {len}")));
        }
        // SAFETY: C guarantees the array and its length, see the module's header.
        Ok(unsafe { std::slice::from_raw_parts(self.0, len) })
    }
}

/// The place of one result or of an array of results. Nothing is stored if it is null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Returns false if nothing is stored here, so that a result need not be made.
    pub fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }

    /// Stores the only or first result.
    pub fn set(self, value: T) {
        self.set_at(0, value);
    }

    /// Stores result number `index` of an array. `index` must be below the array's length.
    pub fn set_at(self, index: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: C guarantees the place, see the module's header; `index` is below its length.
            unsafe { self.0.add(index).write(value) };
        }
    }
}

/// The place of an error message, `char** errptr` in C. May be null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ErrPtr(*mut *mut c_char);

impl ErrPtr {
    /// Stores the message of `error` and frees the previous one. Does nothing if `errptr` is null.
    pub fn set(self, error: &Error) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: C guarantees that `errptr` points to null or to a message from malloc.
        unsafe {
            libc::free((*self.0).cast());
            *self.0 = copy_text(&error::message(error));
        }
    }
}

/// Returns a copy that C frees with `leveldb_free` or `free`, or an error if there is no memory.
/// The copy is not null even if `bytes` is empty, because null means "not found".
pub fn copy_bytes(bytes: &[u8]) -> Result<*mut c_char> {
    // SAFETY: malloc takes any size.
    copy_to(bytes, unsafe { libc::malloc(bytes.len().max(1)) })
}

/// Copies `bytes` to `place`, which malloc returned for at least that length. Fails if it is null.
fn copy_to(bytes: &[u8], place: *mut c_void) -> Result<*mut c_char> {
    let copy = place.cast::<c_char>();
    if copy.is_null() {
        let message = format!("there is no memory for a result of {} bytes", bytes.len());
        return Err(Error::new(ErrorKind::Io, message));
    }
    // SAFETY: `place` is at least as long as `bytes`, see above.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), copy, bytes.len()) };
    Ok(copy)
}

/// Returns a copy of `text` that ends with a zero byte. Zero bytes inside would end it early, so
/// they become spaces. The process ends if there is no memory, as with any small allocation in
/// Rust: texts are short, and a null would mean that there was no error.
pub fn copy_text(text: &str) -> *mut c_char {
    let mut bytes: Vec<u8> = text.bytes().map(|b| if b == 0 { b' ' } else { b }).collect();
    bytes.push(0);
    copy_bytes(&bytes).unwrap_or_else(|_| handle_alloc_error(Layout::for_value(bytes.as_slice())))
}

/// Frees a copy that `copy_bytes` or `copy_text` returned. Does nothing for null.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_free(memory: Memory) {
    // SAFETY: C guarantees that the pointer is null or comes from malloc.
    unsafe { libc::free(memory.0) };
}

/// Memory that this library returned to C and that C gives back. May be null.
#[repr(transparent)]
pub struct Memory(*mut c_void);

/// The state that is passed to C's callbacks, on whichever thread calls them.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct CallbackState(pub *mut c_void);

// SAFETY: the pointer is never followed here, and `c.h` demands callbacks that any thread may call.
unsafe impl Send for CallbackState {}
// SAFETY: as above.
unsafe impl Sync for CallbackState {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_allocation_is_an_error() {
        let error = copy_to(b"value", ptr::null_mut()).unwrap_err();
        assert!(error.to_string().contains("no memory for a result of 5 bytes"), "{error}");
        let empty = copy_bytes(b"").unwrap();
        assert!(!empty.is_null());
        leveldb_free(Memory(empty.cast()));
    }
}

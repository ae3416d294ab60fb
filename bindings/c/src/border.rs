//! What crosses the border: pointers, lengths, strings and error messages of C.
//!
//! The types here are laid out like the pointers they hold, and only C makes them: a Rust function
//! finds one among the arguments of a call from C and nowhere else. So it can rely on what `c.h`
//! demands of callers: a pointer that is not null leads to what its type says, for as long as the
//! call lasts, and an array has the length that is passed along. What can be checked is checked:
//! null, and lengths that no key or value can have, which are refused before anything is read.

use crate::error;
use engine::{Error, ErrorKind, MAX_KEY_BYTES, MAX_VALUE_BYTES, Result};
use std::alloc::{Layout, handle_alloc_error};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// An array of bytes; its length is another argument.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Bytes(*const c_char);

impl Bytes {
    /// As a key.
    pub fn key(&self, len: usize) -> Result<&[u8]> {
        self.at_most(len, MAX_KEY_BYTES, "a key")
    }

    /// As a value.
    pub fn value(&self, len: usize) -> Result<&[u8]> {
        self.at_most(len, MAX_VALUE_BYTES, "a value")
    }

    /// As a key; `None` for a null pointer.
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
        // SAFETY: C vouches for the array and its length, see above.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), len) })
    }
}

/// A string that ends with a zero byte.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// Its bytes; `what` names it in the error for a null pointer.
    pub fn bytes(&self, what: &str) -> Result<&[u8]> {
        if self.0.is_null() {
            return Err(Error::invalid_argument(format!("{what} is a null pointer")));
        }
        // SAFETY: C vouches for the zero byte at the end, see above.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// As UTF-8.
    pub fn utf8(&self, what: &str) -> Result<&str> {
        let bytes = self.bytes(what)?;
        std::str::from_utf8(bytes)
            .map_err(|_| Error::invalid_argument(format!("{what} is not UTF-8")))
    }

    /// As the path of a file.
    pub fn path(&self) -> Result<&Path> {
        let bytes = self.bytes("the path")?;
        if bytes.is_empty() {
            return Err(Error::invalid_argument("the path is empty"));
        }
        Ok(Path::new(OsStr::from_bytes(bytes)))
    }
}

/// An array of pointers or numbers; its length is another argument.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Array<T>(*const T);

impl<T> Array<T> {
    /// Its items.
    pub fn items(&self, len: usize, what: &str) -> Result<&[T]> {
        if len == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() || len > isize::MAX as usize / size_of::<T>().max(1) {
            return Err(Error::invalid_argument(format!("{what} can't be an array of {len}")));
        }
        // SAFETY: C vouches for the array and its length, see above.
        Ok(unsafe { std::slice::from_raw_parts(self.0, len) })
    }
}

/// Where a result goes; may be null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Stores the first result.
    pub fn set(self, value: T) {
        self.set_at(0, value);
    }

    /// Stores the result of this number in an array of results.
    pub fn set_at(self, index: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: C vouches for the place, see above; `index` is below the array's length.
            unsafe { self.0.add(index).write(value) };
        }
    }
}

/// Where an error message goes: `char** errptr`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ErrPtr(*mut *mut c_char);

impl ErrPtr {
    /// Puts the message there; frees the one before. Does nothing for a null `errptr`.
    pub fn set(self, error: &Error) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: C vouches that it is null or leads to null or to a message from malloc.
        unsafe {
            libc::free((*self.0).cast());
            *self.0 = copy_text(&error::message(error));
        }
    }
}

/// A copy that C frees with `leveldb_free` or `free`; an error if there is no memory. It is never
/// null, also for no bytes at all: that would mean "not found".
pub fn copy_bytes(bytes: &[u8]) -> Result<*mut c_char> {
    // SAFETY: malloc takes any size.
    copy_to(bytes, unsafe { libc::malloc(bytes.len().max(1)) })
}

/// A copy at `place`, which is null or what malloc gave for so many bytes.
fn copy_to(bytes: &[u8], place: *mut c_void) -> Result<*mut c_char> {
    let copy = place.cast::<c_char>();
    if copy.is_null() {
        let message = format!("there is no memory for a result of {} bytes", bytes.len());
        return Err(Error::new(ErrorKind::Io, message));
    }
    // SAFETY: the place is as long as what is copied there, see above.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), copy, bytes.len()) };
    Ok(copy)
}

/// A copy with a zero byte behind it; zero bytes inside would end it early and are spaces there.
/// Texts are short: without memory for one the process ends, as for any small piece in Rust. A
/// null would say that there was no error.
pub fn copy_text(text: &str) -> *mut c_char {
    let mut bytes: Vec<u8> = text.bytes().map(|b| if b == 0 { b' ' } else { b }).collect();
    bytes.push(0);
    copy_bytes(&bytes).unwrap_or_else(|_| handle_alloc_error(Layout::for_value(bytes.as_slice())))
}

/// Gives back what `copy_bytes` made.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_free(memory: Memory) {
    // SAFETY: C vouches that it is null or comes from malloc.
    unsafe { libc::free(memory.0) };
}

/// Memory that C got from us and gives back.
#[repr(transparent)]
pub struct Memory(*mut c_void);

/// The state that C wants back in its callbacks. It goes to whichever thread calls.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct CallbackState(pub *mut c_void);

// SAFETY: it is not looked into here; `c.h` demands callbacks that any thread may call.
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

//! Comparators that are functions of C. A comparator's destructor runs when its handle is destroyed
//! and no database or iterator uses it any more.
//!
//! Functions of C that the engine calls are `C-unwind`: if one throws, the guard at the border or
//! that of the thread ends the program with a message. The exception can't be let through, because
//! the engine's state would be half changed.

use crate::border::CallbackState;
use crate::guard::quiet;
use crate::handle::Handle;
use engine::{Comparator, Error, Result};
use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

/// LevelDB's name for the bytewise order, which needs no comparator in the engine.
pub const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// A comparator as C holds it.
pub struct ComparatorHandle {
    /// The comparator. Databases share it.
    pub order: Arc<CComparator>,
}

/// C's function that frees the state of a comparator or filter policy.
pub type Destructor = extern "C-unwind" fn(CallbackState);
type Compare =
    extern "C-unwind" fn(CallbackState, *const c_char, usize, *const c_char, usize) -> c_int;
pub type NameFunction = extern "C-unwind" fn(CallbackState) -> *const c_char;

/// A comparator that consists of C functions.
pub struct CComparator {
    state: CallbackState,
    destructor: Option<Destructor>,
    compare: Compare,
    name: String,
}

impl Comparator for CComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (left, right) = (a.as_ptr().cast(), b.as_ptr().cast());
        (self.compare)(self.state, left, a.len(), right, b.len()).cmp(&0)
    }
}

impl Drop for CComparator {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            destructor(self.state);
        }
    }
}

/// Calls C's function `name` and copies the result. Fails if the function or the result is null.
pub fn name_of(state: CallbackState, name: Option<NameFunction>) -> Result<String> {
    let name =
        name.ok_or_else(|| Error::invalid_argument("there is no function for the name"))?(state);
    if name.is_null() {
        return Err(Error::invalid_argument("the name is a null pointer"));
    }
    // SAFETY: `c.h` demands a string that ends with a zero byte.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_create(
    state: CallbackState,
    destructor: Option<Destructor>,
    compare: Option<Compare>,
    name: Option<NameFunction>,
) -> Handle<ComparatorHandle> {
    quiet(Handle::NULL, || {
        let compare =
            compare.ok_or_else(|| Error::invalid_argument("there is no function that compares"))?;
        let name = name_of(state, name)?;
        let order = Arc::new(CComparator { state, destructor, compare, name });
        Handle::new(ComparatorHandle { order })
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_destroy(comparator: Handle<ComparatorHandle>) {
    quiet((), || {
        comparator.close();
        Ok(())
    });
}

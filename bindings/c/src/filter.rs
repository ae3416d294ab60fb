//! Filter policies: LevelDB's Bloom filter, for which the engine's own filter is used, and policies
//! that are functions of C.

use crate::border::CallbackState;
use crate::comparator::{Destructor, NameFunction, name_of};
use crate::guard::quiet;
use crate::handle::Handle;
use engine::{Error, FilterPolicy};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// A filter policy as C holds it.
pub enum FilterHandle {
    /// The engine's own filter with this many bits per key.
    Own(u32),
    /// A policy of C functions. Databases share it.
    Custom(Arc<CFilter>),
}

type Create = extern "C-unwind" fn(
    CallbackState,
    *const *const c_char,
    *const usize,
    c_int,
    *mut usize,
) -> *mut c_char;
type MayMatch =
    extern "C-unwind" fn(CallbackState, *const c_char, usize, *const c_char, usize) -> u8;

/// A filter policy that consists of C functions.
pub struct CFilter {
    state: CallbackState,
    destructor: Option<Destructor>,
    create: Create,
    may_match: MayMatch,
    name: String,
}

impl FilterPolicy for CFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, keys: &[&[u8]]) -> Vec<u8> {
        // There are more keys than fit into C's `int`, so the policy can't be called: the table
        // has no filter then, as if C returned null below.
        let Ok(count) = c_int::try_from(keys.len()) else { return Vec::new() };
        let starts: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lengths: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let mut len = 0;
        let filter =
            (self.create)(self.state, starts.as_ptr(), lengths.as_ptr(), count, &raw mut len);
        if filter.is_null() {
            return Vec::new();
        }
        // SAFETY: `c.h` demands an array from malloc, with its length at `len`.
        unsafe {
            let bytes = std::slice::from_raw_parts(filter.cast(), len).to_vec();
            libc::free(filter.cast());
            bytes
        }
    }

    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool {
        // An empty filter is one that C did not make. It rules no key out: a Bloom policy that was
        // asked would deny them all, and keys that are present would not be found.
        if filter.is_empty() {
            return true;
        }
        let (start, bytes) = (key.as_ptr().cast(), filter.as_ptr().cast());
        (self.may_match)(self.state, start, key.len(), bytes, filter.len()) != 0
    }
}

impl Drop for CFilter {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            destructor(self.state);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create(
    state: CallbackState,
    destructor: Option<Destructor>,
    create_filter: Option<Create>,
    key_may_match: Option<MayMatch>,
    name: Option<NameFunction>,
) -> Handle<FilterHandle> {
    quiet(Handle::NULL, || {
        let (Some(create), Some(may_match)) = (create_filter, key_may_match) else {
            return Err(Error::invalid_argument("a filter policy needs all its functions"));
        };
        let name = name_of(state, name)?;
        let policy = Arc::new(CFilter { state, destructor, create, may_match, name });
        Handle::new(FilterHandle::Custom(policy))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Handle<FilterHandle> {
    quiet(Handle::NULL, || {
        // LevelDB limits its probes to 30 per key, which corresponds to about 43 bits.
        Handle::new(FilterHandle::Own(bits_per_key.clamp(1, 64).unsigned_abs()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_destroy(policy: Handle<FilterHandle>) {
    quiet((), || {
        policy.close();
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C-unwind" fn makes_none(
        _: CallbackState,
        _: *const *const c_char,
        _: *const usize,
        _: c_int,
        _: *mut usize,
    ) -> *mut c_char {
        std::ptr::null_mut()
    }

    extern "C-unwind" fn denies(
        _: CallbackState,
        _: *const c_char,
        _: usize,
        _: *const c_char,
        _: usize,
    ) -> u8 {
        0
    }

    /// A policy that could not make a filter denied keys that were there: what it was asked about
    /// was an empty filter, which no key is in.
    #[test]
    fn a_filter_that_was_not_made_denies_no_key() {
        let policy = CFilter {
            state: CallbackState(std::ptr::null_mut()),
            destructor: None,
            create: makes_none,
            may_match: denies,
            name: "none".into(),
        };
        let filter = policy.create(&[b"key"]);
        assert!(policy.may_contain(b"key", &filter));
        assert!(!policy.may_contain(b"key", b"made"));
    }
}

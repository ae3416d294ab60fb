//! Filter policies: LevelDB's Bloom filter, which stands for the engine's own, and policies given
//! from C.

use crate::border::CallbackState;
use crate::comparator::{Destructor, Name, name_of};
use crate::guard::quiet;
use crate::handle::Handle;
use engine::{Error, FilterPolicy};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// A filter policy as C holds it.
pub enum FilterHandle {
    /// The engine's own filter with this many bits per key.
    Own(u32),
    /// One by functions of C, which databases share.
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

/// A filter policy by functions of C.
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
        // More keys than an `int` counts: a filter that no policy could be asked for.
        let Ok(count) = c_int::try_from(keys.len()) else { return Vec::new() };
        let starts: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lengths: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let mut len = 0;
        let filter =
            (self.create)(self.state, starts.as_ptr(), lengths.as_ptr(), count, &raw mut len);
        if filter.is_null() {
            return Vec::new();
        }
        // SAFETY: `c.h` demands an array from malloc, and its length at `len`.
        unsafe {
            let bytes = std::slice::from_raw_parts(filter.cast(), len).to_vec();
            libc::free(filter.cast());
            bytes
        }
    }

    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool {
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
    name: Option<Name>,
) -> Handle<FilterHandle> {
    quiet(Handle::NULL, || {
        let (Some(create), Some(may_match)) = (create_filter, key_may_match) else {
            return Err(Error::invalid_argument("a filter policy needs all its functions"));
        };
        let name = name_of(state, name)?;
        let policy = Arc::new(CFilter { state, destructor, create, may_match, name });
        Ok(Handle::new(FilterHandle::Custom(policy)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Handle<FilterHandle> {
    quiet(Handle::NULL, || {
        // LevelDB's own bounds on the number of its probes end at about 43 bits as well.
        Ok(Handle::new(FilterHandle::Own(bits_per_key.clamp(1, 64).unsigned_abs())))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_destroy(policy: Handle<FilterHandle>) {
    quiet((), || {
        policy.close();
        Ok(())
    });
}

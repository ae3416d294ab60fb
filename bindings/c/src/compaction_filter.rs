//! Compaction filters that are functions of C. A filter's destructor runs when its options are
//! destroyed, or have another filter for the keyspace, and no database uses it any more.

use crate::border::{CallbackState, Text};
use crate::comparator::{Destructor, NameFunction, name_of};
use crate::guard::quiet;
use crate::handle::Handle;
use crate::options::DbOptions;
use engine::{CompactionFilter, Error, FilterDecision, FilteredEntry, Result};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

const KEEP: c_int = 0;
const DROP: c_int = 1;
const CHANGE: c_int = 2;

/// An entry as C's function gets it: it lives for as long as the call.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct EntryPointer(*const c_void);

type Callback =
    extern "C-unwind" fn(CallbackState, EntryPointer, *mut *mut c_char, *mut usize) -> c_int;

/// A compaction filter that consists of a C function.
pub struct CCompactionFilter {
    state: CallbackState,
    destructor: Option<Destructor>,
    callback: Callback,
    name: String,
}

impl CompactionFilter for CCompactionFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, entry: &FilteredEntry<'_>) -> Result<FilterDecision> {
        let (mut new, mut len) = (null_mut(), 0);
        let pointer = EntryPointer(std::ptr::from_ref(entry).cast());
        let decision = (self.callback)(self.state, pointer, &raw mut new, &raw mut len);
        let value = match new.is_null() {
            true => None,
            // SAFETY: `c.h` demands memory from malloc, with its length at `len`.
            false => unsafe {
                let bytes = std::slice::from_raw_parts(new.cast(), len).to_vec();
                libc::free(new.cast());
                Some(bytes)
            },
        };
        match (decision, value) {
            (KEEP, _) => Ok(FilterDecision::Keep),
            (DROP, _) => Ok(FilterDecision::Drop),
            (CHANGE, Some(value)) => Ok(FilterDecision::Change(value)),
            (CHANGE, None) if len == 0 => Ok(FilterDecision::Change(Vec::new())),
            (decision, _) => Err(Error::invalid_argument(format!(
                "compaction filter {:?} returned {decision}, or no value to change to",
                self.name
            ))),
        }
    }
}

impl Drop for CCompactionFilter {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            destructor(self.state);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_compaction_filter(
    options: Handle<DbOptions>,
    keyspace: Text,
    state: CallbackState,
    destructor: Option<Destructor>,
    filter: Option<Callback>,
    name: Option<NameFunction>,
) {
    quiet((), || {
        options.pin()?.change(|settings| {
            let keyspace = keyspace.utf8("the keyspace's name")?.to_owned();
            let callback = filter
                .ok_or_else(|| Error::invalid_argument("there is no function that filters"))?;
            let name = name_of(state, name)?;
            let filter = Arc::new(CCompactionFilter { state, destructor, callback, name });
            settings.compaction_filters.insert(keyspace, filter);
            Ok(())
        });
        Ok(())
    });
}

/// Calls `read` with the entry that C's function was given.
fn with_entry<T>(entry: EntryPointer, read: impl FnOnce(&FilteredEntry<'_>) -> T) -> T {
    // SAFETY: `c.h` demands the pointer that the filter got, during its call.
    read(unsafe { &*entry.0.cast::<FilteredEntry<'_>>() })
}

fn lend(bytes: &[u8], len: *mut usize) -> *const c_char {
    // SAFETY: `c.h` demands a place for the length.
    unsafe { len.write(bytes.len()) };
    bytes.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_filtered_entry_key(entry: EntryPointer, len: *mut usize) -> *const c_char {
    quiet(std::ptr::null(), || Ok(with_entry(entry, |entry| lend(entry.key(), len))))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_filtered_entry_value(entry: EntryPointer, len: *mut usize) -> *const c_char {
    quiet(std::ptr::null(), || with_entry(entry, |entry| Ok(lend(entry.value()?, len))))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_filtered_entry_version(entry: EntryPointer) -> u64 {
    quiet(0, || Ok(with_entry(entry, |entry| entry.seqno())))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_filtered_entry_expires_at(entry: EntryPointer) -> u64 {
    quiet(u64::MAX, || {
        let expires = with_entry(entry, |entry| entry.expires_at());
        let since_1970 = expires.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let millis = since_1970.map_or(u128::from(u64::MAX), |time| time.as_millis());
        Ok(u64::try_from(millis).unwrap_or(u64::MAX))
    })
}

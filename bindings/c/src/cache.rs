//! Caches as C creates them. A cache is only a capacity: each database that is opened with one gets
//! a cache of its own of that size.

use crate::guard::quiet;
use crate::handle::Handle;

/// A cache as C holds it.
pub struct Cache {
    /// The capacity in bytes.
    pub bytes: u64,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_create_lru(capacity: usize) -> Handle<Cache> {
    quiet(Handle::NULL, || Handle::new(Cache { bytes: capacity as u64 }))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_destroy(cache: Handle<Cache>) {
    quiet((), || {
        cache.close();
        Ok(())
    });
}

//! Caches given from C: a capacity. Each database that is opened with one has a cache of its own
//! of that size.

use crate::guard::quiet;
use crate::handle::Handle;

/// A cache as C holds it.
pub struct Cache {
    /// What it may hold.
    pub bytes: u64,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_create_lru(capacity: usize) -> Handle<Cache> {
    quiet(Handle::NULL, || Ok(Handle::new(Cache { bytes: capacity as u64 })))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_destroy(cache: Handle<Cache>) {
    quiet((), || {
        cache.close();
        Ok(())
    });
}

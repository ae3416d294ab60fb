//! RocksDB through its C library: values in its tables, or in the blob files of its integrated
//! BlobDB.

use std::ffi::{CStr, c_char, c_double, c_int, c_uchar, c_void};
use std::ptr::null_mut;

use crate::engines::{Engine, Settings, Visit, c_path};

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> *mut c_void;
    fn rocksdb_options_set_create_if_missing(options: *mut c_void, on: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: *mut c_void, bytes: usize);
    fn rocksdb_options_set_target_file_size_base(options: *mut c_void, bytes: u64);
    fn rocksdb_options_set_max_bytes_for_level_base(options: *mut c_void, bytes: u64);
    fn rocksdb_options_set_level_compaction_dynamic_level_bytes(o: *mut c_void, on: c_uchar);
    fn rocksdb_options_set_max_background_jobs(options: *mut c_void, jobs: c_int);
    fn rocksdb_options_set_compression(options: *mut c_void, kind: c_int);
    fn rocksdb_options_set_block_based_table_factory(options: *mut c_void, table: *mut c_void);
    fn rocksdb_options_set_enable_blob_files(options: *mut c_void, on: c_uchar);
    fn rocksdb_options_set_min_blob_size(options: *mut c_void, bytes: u64);
    fn rocksdb_options_set_blob_file_size(options: *mut c_void, bytes: u64);
    fn rocksdb_options_set_enable_blob_gc(options: *mut c_void, on: c_uchar);
    fn rocksdb_options_set_blob_gc_age_cutoff(options: *mut c_void, share: c_double);
    fn rocksdb_options_set_blob_gc_force_threshold(options: *mut c_void, share: c_double);
    fn rocksdb_block_based_options_create() -> *mut c_void;
    fn rocksdb_block_based_options_set_filter_policy(table: *mut c_void, policy: *mut c_void);
    fn rocksdb_block_based_options_set_block_cache(table: *mut c_void, cache: *mut c_void);
    fn rocksdb_cache_create_lru(bytes: usize) -> *mut c_void;
    fn rocksdb_filterpolicy_create_bloom_full(bits: c_double) -> *mut c_void;
    fn rocksdb_readoptions_create() -> *mut c_void;
    fn rocksdb_writeoptions_create() -> *mut c_void;
    fn rocksdb_writeoptions_set_sync(options: *mut c_void, on: c_uchar);
    fn rocksdb_open(o: *const c_void, name: *const c_char, error: *mut *mut c_char) -> *mut c_void;
    fn rocksdb_close(db: *mut c_void);
    fn rocksdb_put(
        db: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_delete(
        db: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_len: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_get_pinned(
        db: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_len: usize,
        error: *mut *mut c_char,
    ) -> *mut c_void;
    fn rocksdb_pinnableslice_value(slice: *const c_void, len: *mut usize) -> *const u8;
    fn rocksdb_pinnableslice_destroy(slice: *mut c_void);
    fn rocksdb_create_iterator(db: *mut c_void, options: *const c_void) -> *mut c_void;
    fn rocksdb_iter_destroy(it: *mut c_void);
    fn rocksdb_iter_valid(it: *const c_void) -> c_uchar;
    fn rocksdb_iter_seek(it: *mut c_void, key: *const u8, len: usize);
    fn rocksdb_iter_next(it: *mut c_void);
    fn rocksdb_iter_key(it: *const c_void, len: *mut usize) -> *const u8;
    fn rocksdb_iter_value(it: *const c_void, len: *mut usize) -> *const u8;
    fn rocksdb_iter_get_error(it: *const c_void, error: *mut *mut c_char);
    fn rocksdb_free(bytes: *mut c_void);
}

const NO_COMPRESSION: c_int = 0;
/// A level of L1's size to a memtable, and a blob file to a memtable, as both are by default.
const BUFFERS: u64 = 4;
/// What RocksDB's documents use where space matters; by default blob GC is off.
const BLOB_GC_AGE_CUTOFF: f64 = 0.25;
const BLOB_GC_FORCE_THRESHOLD: f64 = 0.5;

struct RocksDb {
    db: *mut c_void,
    read: *mut c_void,
    write: *mut c_void,
    synced: *mut c_void,
}

// SAFETY: RocksDB's handle and options may be used by any number of threads at once, by its header.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}

pub fn open(settings: &Settings, blobs: bool) -> Result<Box<dyn Engine>, String> {
    let path = c_path(&settings.path)?;
    let mut error = null_mut();
    // SAFETY: every pointer comes from the function that makes such objects, they live as long as
    // the process, and `path` ends with a zero byte.
    let opened = unsafe {
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_write_buffer_size(options, settings.buffer_bytes as usize);
        rocksdb_options_set_target_file_size_base(options, settings.buffer_bytes);
        rocksdb_options_set_max_bytes_for_level_base(options, BUFFERS * settings.buffer_bytes);
        // The default of newer versions.
        rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
        rocksdb_options_set_max_background_jobs(options, settings.background_threads as c_int);
        rocksdb_options_set_compression(options, NO_COMPRESSION);
        let table = rocksdb_block_based_options_create();
        let cache = rocksdb_cache_create_lru(settings.cache_bytes as usize);
        rocksdb_block_based_options_set_block_cache(table, cache);
        let filter = rocksdb_filterpolicy_create_bloom_full(settings.filter_bits.into());
        rocksdb_block_based_options_set_filter_policy(table, filter);
        rocksdb_options_set_block_based_table_factory(options, table);
        if blobs {
            rocksdb_options_set_enable_blob_files(options, 1);
            rocksdb_options_set_min_blob_size(options, settings.threshold);
            rocksdb_options_set_blob_file_size(options, BUFFERS * settings.buffer_bytes);
            rocksdb_options_set_enable_blob_gc(options, 1);
            rocksdb_options_set_blob_gc_age_cutoff(options, BLOB_GC_AGE_CUTOFF);
            rocksdb_options_set_blob_gc_force_threshold(options, BLOB_GC_FORCE_THRESHOLD);
        }
        let (read, write, synced) = (
            rocksdb_readoptions_create(),
            rocksdb_writeoptions_create(),
            rocksdb_writeoptions_create(),
        );
        rocksdb_writeoptions_set_sync(synced, 1);
        RocksDb { db: rocksdb_open(options, path.as_ptr(), &mut error), read, write, synced }
    };
    check(error)?;
    Ok(Box::new(opened))
}

/// Turns the text that a call left, if it failed, into an error.
fn check(error: *mut c_char) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a call that fails leaves a text that ends with a zero byte, allocated by the library,
    // and the caller frees it.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        Err(text)
    }
}

impl Engine for RocksDb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<(), String> {
        let options = if sync { self.synced } else { self.write };
        let (mut error, (k, v)) = (null_mut(), (key.as_ptr(), value.as_ptr()));
        // SAFETY: the handle is open, and pointers and lengths are those of slices.
        unsafe { rocksdb_put(self.db, options, k, key.len(), v, value.len(), &mut error) };
        check(error)
    }

    fn delete(&self, key: &[u8]) -> Result<(), String> {
        let mut error = null_mut();
        // SAFETY: the handle is open, and pointer and length are those of a slice.
        unsafe { rocksdb_delete(self.db, self.write, key.as_ptr(), key.len(), &mut error) };
        check(error)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let (mut error, mut len) = (null_mut(), 0);
        // SAFETY: the handle is open, and the value has `len` bytes until its holder is destroyed.
        unsafe {
            let (k, k_len) = (key.as_ptr(), key.len());
            let held = rocksdb_get_pinned(self.db, self.read, k, k_len, &mut error);
            check(error)?;
            if held.is_null() {
                return Ok(false);
            }
            let found = rocksdb_pinnableslice_value(held, &mut len);
            read(std::slice::from_raw_parts(found, len));
            rocksdb_pinnableslice_destroy(held);
        }
        Ok(true)
    }

    fn scan(
        &self,
        from: &[u8],
        pairs: u64,
        keys_only: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), String> {
        let (mut error, mut outcome) = (null_mut(), Ok(true));
        // SAFETY: the iterator is used by this thread only and destroyed at the end; key and value
        // stay until it moves.
        unsafe {
            let it = rocksdb_create_iterator(self.db, self.read);
            rocksdb_iter_seek(it, from.as_ptr(), from.len());
            for at in 0..pairs {
                if at > 0 {
                    rocksdb_iter_next(it);
                }
                if rocksdb_iter_valid(it) == 0 {
                    break;
                }
                let (mut key_len, mut value_len) = (0, 0);
                let key = rocksdb_iter_key(it, &mut key_len);
                let key = std::slice::from_raw_parts(key, key_len);
                outcome = if keys_only {
                    visit(key, None)
                } else {
                    let value = rocksdb_iter_value(it, &mut value_len);
                    visit(key, Some(std::slice::from_raw_parts(value, value_len)))
                };
                if outcome != Ok(true) {
                    break;
                }
            }
            rocksdb_iter_get_error(it, &mut error);
            rocksdb_iter_destroy(it);
        }
        check(error).and(outcome.map(|_| ()))
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        // SAFETY: nobody uses the handle any more.
        unsafe { rocksdb_close(self.db) };
        Ok(())
    }
}

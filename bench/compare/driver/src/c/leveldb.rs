//! LevelDB through its C library.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use crate::engines::{Engine, Settings, Visit, c_path};

#[link(name = "leveldb")]
unsafe extern "C" {
    fn leveldb_options_create() -> *mut c_void;
    fn leveldb_options_set_create_if_missing(options: *mut c_void, on: u8);
    fn leveldb_options_set_write_buffer_size(options: *mut c_void, bytes: usize);
    fn leveldb_options_set_cache(options: *mut c_void, cache: *mut c_void);
    fn leveldb_options_set_filter_policy(options: *mut c_void, policy: *mut c_void);
    fn leveldb_options_set_compression(options: *mut c_void, kind: c_int);
    fn leveldb_cache_create_lru(bytes: usize) -> *mut c_void;
    fn leveldb_filterpolicy_create_bloom(bits: c_int) -> *mut c_void;
    fn leveldb_readoptions_create() -> *mut c_void;
    fn leveldb_readoptions_set_verify_checksums(options: *mut c_void, on: u8);
    fn leveldb_writeoptions_create() -> *mut c_void;
    fn leveldb_writeoptions_set_sync(options: *mut c_void, on: u8);
    fn leveldb_open(o: *const c_void, name: *const c_char, error: *mut *mut c_char) -> *mut c_void;
    fn leveldb_close(db: *mut c_void);
    fn leveldb_put(
        db: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_delete(
        db: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_len: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_get(
        db: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_len: usize,
        value_len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut u8;
    fn leveldb_create_iterator(db: *mut c_void, options: *const c_void) -> *mut c_void;
    fn leveldb_iter_destroy(it: *mut c_void);
    fn leveldb_iter_valid(it: *const c_void) -> u8;
    fn leveldb_iter_seek(it: *mut c_void, key: *const u8, len: usize);
    fn leveldb_iter_next(it: *mut c_void);
    fn leveldb_iter_key(it: *const c_void, len: *mut usize) -> *const u8;
    fn leveldb_iter_value(it: *const c_void, len: *mut usize) -> *const u8;
    fn leveldb_iter_get_error(it: *const c_void, error: *mut *mut c_char);
    fn leveldb_free(bytes: *mut c_void);
}

const NO_COMPRESSION: c_int = 0;

struct LevelDb {
    db: *mut c_void,
    read: *mut c_void,
    write: *mut c_void,
    synced: *mut c_void,
}

// SAFETY: LevelDB's handle and options may be used by any number of threads at once, by its header.
unsafe impl Send for LevelDb {}
// SAFETY: as above.
unsafe impl Sync for LevelDb {}

pub fn open(settings: &Settings) -> Result<Box<dyn Engine>, String> {
    let path = c_path(&settings.path)?;
    let mut error = null_mut();
    // SAFETY: every pointer comes from the function that makes such objects, they live as long as
    // the process, and `path` ends with a zero byte.
    let opened = unsafe {
        let options = leveldb_options_create();
        leveldb_options_set_create_if_missing(options, 1);
        leveldb_options_set_write_buffer_size(options, settings.buffer_bytes as usize);
        leveldb_options_set_cache(options, leveldb_cache_create_lru(settings.cache_bytes as usize));
        let filter = leveldb_filterpolicy_create_bloom(settings.filter_bits as c_int);
        leveldb_options_set_filter_policy(options, filter);
        leveldb_options_set_compression(options, NO_COMPRESSION);
        let (read, write, synced) = (
            leveldb_readoptions_create(),
            leveldb_writeoptions_create(),
            leveldb_writeoptions_create(),
        );
        // The others verify what they read, too.
        leveldb_readoptions_set_verify_checksums(read, 1);
        leveldb_writeoptions_set_sync(synced, 1);
        LevelDb { db: leveldb_open(options, path.as_ptr(), &mut error), read, write, synced }
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
        leveldb_free(error.cast());
        Err(text)
    }
}

impl Engine for LevelDb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<(), String> {
        let options = if sync { self.synced } else { self.write };
        let (mut error, (k, v)) = (null_mut(), (key.as_ptr(), value.as_ptr()));
        // SAFETY: the handle is open, and pointers and lengths are those of slices.
        unsafe { leveldb_put(self.db, options, k, key.len(), v, value.len(), &mut error) };
        check(error)
    }

    fn delete(&self, key: &[u8]) -> Result<(), String> {
        let mut error = null_mut();
        // SAFETY: the handle is open, and pointer and length are those of a slice.
        unsafe { leveldb_delete(self.db, self.write, key.as_ptr(), key.len(), &mut error) };
        check(error)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let (mut error, mut len) = (null_mut(), 0);
        // SAFETY: the handle is open, and what is returned has `len` bytes until it is freed.
        unsafe {
            let (k, k_len) = (key.as_ptr(), key.len());
            let found = leveldb_get(self.db, self.read, k, k_len, &mut len, &mut error);
            check(error)?;
            if found.is_null() {
                return Ok(false);
            }
            read(std::slice::from_raw_parts(found, len));
            leveldb_free(found.cast());
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
            let it = leveldb_create_iterator(self.db, self.read);
            leveldb_iter_seek(it, from.as_ptr(), from.len());
            for at in 0..pairs {
                if at > 0 {
                    leveldb_iter_next(it);
                }
                if leveldb_iter_valid(it) == 0 {
                    break;
                }
                let (mut key_len, mut value_len) = (0, 0);
                let key = leveldb_iter_key(it, &mut key_len);
                let key = std::slice::from_raw_parts(key, key_len);
                outcome = if keys_only {
                    visit(key, None)
                } else {
                    let value = leveldb_iter_value(it, &mut value_len);
                    visit(key, Some(std::slice::from_raw_parts(value, value_len)))
                };
                if outcome != Ok(true) {
                    break;
                }
            }
            leveldb_iter_get_error(it, &mut error);
            leveldb_iter_destroy(it);
        }
        check(error).and(outcome.map(|_| ()))
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        // SAFETY: nobody uses the handle any more.
        unsafe { leveldb_close(self.db) };
        Ok(())
    }
}

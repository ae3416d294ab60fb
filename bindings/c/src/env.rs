//! The environment. There is only one: that of the operating system.

use crate::border::copy_bytes;
use crate::guard::quiet;
use crate::handle::Handle;
use engine::Error;
use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

/// The environment as C holds it.
pub struct Environment;

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_default_env() -> Handle<Environment> {
    quiet(Handle::NULL, || Handle::new(Environment))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_env_destroy(env: Handle<Environment>) {
    quiet((), || {
        env.close();
        Ok(())
    });
}

/// Creates and returns a directory for tests: `TEST_TMPDIR`, or if that is not set, a directory of
/// this user below the temporary directory.
#[unsafe(no_mangle)]
extern "C" fn leveldb_env_get_test_directory(env: Handle<Environment>) -> *mut c_char {
    quiet(ptr::null_mut(), || {
        env.pin()?;
        let named = std::env::var_os("TEST_TMPDIR").filter(|name| !name.is_empty());
        let dir = named.map(PathBuf::from).unwrap_or_else(|| {
            // SAFETY: `geteuid` has no preconditions.
            let user = unsafe { libc::geteuid() };
            std::env::temp_dir().join(format!("leveldbtest-{user}"))
        });
        std::fs::create_dir_all(&dir).map_err(|e| Error::io("create the directory", &dir, e))?;
        let mut path = dir.as_os_str().as_bytes().to_vec();
        path.push(0);
        copy_bytes(&path)
    })
}

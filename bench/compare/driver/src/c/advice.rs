//! The kernel's advice about a file.

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::AsRawFd;

unsafe extern "C" {
    fn posix_fadvise(file: c_int, offset: i64, len: i64, advice: c_int) -> c_int;
}

/// `POSIX_FADV_RANDOM` of Linux.
const RANDOM: c_int = 1;

/// Has the kernel read of a file what is asked for, and no more.
pub fn expect_random(file: &File) -> Result<(), String> {
    // SAFETY: it takes numbers alone, and the descriptor is open.
    match unsafe { posix_fadvise(file.as_raw_fd(), 0, 0, RANDOM) } {
        0 => Ok(()),
        error => Err(format!("posix_fadvise: error {error}")),
    }
}

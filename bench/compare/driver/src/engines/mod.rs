//! The engines behind one trait. Each is given the same bounds; what else it has, it keeps as its
//! makers ship it, unless a comment says why not.

use std::path::{Path, PathBuf};

#[cfg(feature = "leveldb")]
use crate::c::leveldb;
#[cfg(feature = "rocksdb")]
use crate::c::rocksdb;
use crate::generator;

mod cleave;
mod device;
#[cfg(feature = "fjall")]
mod fjall;

/// What all engines are given.
pub struct Settings {
    pub path: PathBuf,
    pub cache_bytes: u64,
    /// Of one memtable.
    pub buffer_bytes: u64,
    /// From how many bytes on a value is kept apart, in engines that do that.
    pub threshold: u64,
    pub filter_bits: u32,
    pub background_threads: u32,
}

/// Called with a key, and with its value unless only keys are asked for; says whether to go on.
pub type Visit<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<bool, String> + 'a;

/// An open store.
pub trait Engine: Sync {
    /// Writes a pair; `sync` returns when it is on the device.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<(), String>;

    /// Hands the value to `read`; false if there is none.
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, String>;

    /// Hands the values of many keys to `read`, each with the index of its key; false if one is
    /// missing. An engine that can reads them at once.
    fn get_many(
        &self,
        keys: &[[u8; generator::KEY_BYTES]],
        read: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<bool, String> {
        for (index, key) in keys.iter().enumerate() {
            if !self.get(key, &mut |value| read(index, value))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Visits pairs in order, the first at or behind `from`.
    fn scan(
        &self,
        from: &[u8],
        pairs: u64,
        keys_only: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), String>;

    /// Closes it.
    fn close(self: Box<Self>) -> Result<(), String>;
}

/// Opens or creates a store.
pub fn open(name: &str, settings: &Settings) -> Result<Box<dyn Engine>, String> {
    match name {
        "cleave-write" => cleave::open(settings, cleavedb::Separation::AtWrite),
        "cleave-flush" => cleave::open(settings, cleavedb::Separation::AtFlush),
        "cleave-off" => cleave::open(settings, cleavedb::Separation::Off),
        "cleave-auto" => cleave::open(settings, cleavedb::Separation::Auto),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => rocksdb::open(settings, false),
        #[cfg(feature = "rocksdb")]
        "rocksdb-blob" => rocksdb::open(settings, true),
        #[cfg(feature = "leveldb")]
        "leveldb" => leveldb::open(settings),
        #[cfg(feature = "fjall")]
        "fjall" => fjall::open(settings, false),
        #[cfg(feature = "fjall")]
        "fjall-kv" => fjall::open(settings, true),
        "device" => device::open(settings),
        _ => Err(format!("there is no engine {name} in this build")),
    }
}

/// The error of a failed call.
fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The path as the text that C libraries take.
#[cfg_attr(not(any(feature = "rocksdb", feature = "leveldb")), expect(dead_code))]
pub fn c_path(path: &Path) -> Result<std::ffi::CString, String> {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(said)
}

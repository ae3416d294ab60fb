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
    pub space: SpaceSettings,
}

/// How CleaveDB frees space; what is not given is as its makers ship it.
#[derive(Default, PartialEq)]
pub struct SpaceSettings {
    pub ceiling: Option<f64>,
    pub settled: Option<f64>,
    /// Of garbage, whatever the ceiling says.
    pub allowance_bytes: Option<u64>,
    /// Whether holes are punched.
    pub punch: Option<bool>,
}

/// Called with a key, and with its value unless only keys are asked for; says whether to go on.
pub type Visit<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<bool, String> + 'a;

/// An open store.
pub trait Engine: Sync {
    /// Writes a pair; `sync` returns when it is on the device.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<(), String>;

    /// Deletes a key, whether it is there or not.
    fn delete(&self, key: &[u8]) -> Result<(), String>;

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
    if !name.starts_with("cleave-") && settings.space != SpaceSettings::default() {
        return Err(format!("ceiling=, settled=, allowance-mb= and punch= mean nothing to {name}"));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(path: PathBuf, space: SpaceSettings) -> Settings {
        Settings {
            path,
            cache_bytes: 1 << 20,
            buffer_bytes: 1 << 20,
            threshold: 512,
            filter_bits: 10,
            background_threads: 1,
            space,
        }
    }

    fn refusal(name: &str, space: SpaceSettings) -> String {
        let settings = settings(std::env::temp_dir().join("cleavedb-compare-refused"), space);
        match open(name, &settings) {
            Ok(_) => panic!("{name} opened"),
            Err(error) => error,
        }
    }

    #[test]
    fn words_about_space_are_for_ours_alone_and_reach_it() {
        for name in ["rocksdb", "fjall-kv", "device"] {
            for space in [
                SpaceSettings { ceiling: Some(1.5), ..Default::default() },
                SpaceSettings { punch: Some(true), ..Default::default() },
            ] {
                let told = refusal(name, space);
                assert!(told.ends_with(&format!("mean nothing to {name}")), "{told}");
            }
        }
        for (space, named) in [
            (SpaceSettings { ceiling: Some(1.0), ..Default::default() }, "max_space_ampl"),
            (SpaceSettings { settled: Some(0.5), ..Default::default() }, "settled_space_ampl"),
            (SpaceSettings { allowance_bytes: Some(1 << 50), ..Default::default() }, "allowance"),
        ] {
            let told = refusal("cleave-write", space);
            assert!(told.contains(named), "{told}");
        }
    }

    #[test]
    fn what_is_deleted_is_gone_and_the_rest_is_compared() {
        let path = std::env::temp_dir().join(format!("cleavedb-compare-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let space = SpaceSettings { punch: Some(false), ..Default::default() };
        let engine = open("cleave-flush", &settings(path.clone(), space)).unwrap();
        let shape = generator::Shape { keys: 100, seed: 1, stage: 0, threads: 1 };
        let mut value = Vec::new();
        for (stage, workload) in [(0, "load"), (1, "delete-uniform")] {
            let shape = generator::Shape { stage, ..shape };
            let mut stream = generator::Stream::new(workload, shape, 0);
            for op in (0..100).map(|_| stream.next_op()) {
                let key = generator::key(op.number);
                match op.kind {
                    generator::Kind::Delete => engine.delete(&key).unwrap(),
                    _ => {
                        generator::value(op.number, op.version, 600, &mut value);
                        engine.put(&key, &value, false).unwrap();
                    }
                }
            }
        }
        let verify = |history| crate::verify::run(&*engine, shape, 600, history);
        let told = verify("load:0:100,delete-uniform:1:100").unwrap();
        let seen: u64 = told.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        assert!((20..60).contains(&seen), "{told}");
        assert!(verify("load:0:100").unwrap_err().contains("is not what was written last"));
        engine.close().unwrap();
        std::fs::remove_dir_all(path).unwrap();
    }
}

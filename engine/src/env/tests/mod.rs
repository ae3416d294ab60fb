//! Tests of the room as a whole: the real file system and parallel reads.

mod os;
mod reads;

use super::{Env, OsSettings};
use std::path::{Path, PathBuf};

/// A separate directory for a test; removed when dropped.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn new() -> ScratchDir {
        let unique = Env::os(&OsSettings::default()).random.next_u64();
        let path = std::env::temp_dir().join(format!("cleavedb-env-{unique:016x}"));
        std::fs::create_dir(&path).unwrap();
        ScratchDir(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

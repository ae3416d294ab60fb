//! Makes the names of files durable.

use cleavedb::{Error, Result};
use std::fs::File;
use std::path::Path;

/// Makes sure that what the directory names now survives a crash.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| Error::io("sync the directory", dir, error))
}

/// Does so with the directory of the file at this path.
pub(crate) fn sync_dir_of(file: &Path) -> Result<()> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_dir(parent.unwrap_or(Path::new(".")))
}

//! Measures every file in the directory as the file system reports it.

use crate::base::error::{Error, IoContext, Result};
use crate::env::Env;
use crate::env::fs::Measure;
use crate::version::Version;
use crate::version::files::names::{self, FileName};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The role of a file in the version that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The version names it, or it is of a kind that no version names.
    Live,
    /// It was replaced; a reader still holds it, or it is about to be unlinked.
    Obsolete,
    /// It is ours and no edit names it: a running job writes it, or a crash left it.
    Unnamed,
    /// It holds bytes cut off a log, kept for people.
    Aside,
    /// It is not ours.
    Foreign,
}

/// The facts about one file.
#[derive(Debug, Clone)]
pub(super) struct FileFacts {
    /// Path of the file.
    pub(super) path: PathBuf,
    /// The kind and id that its name gives.
    pub(super) named: FileName,
    /// Its role in the version.
    pub(super) standing: Standing,
    /// Its measures from the file system.
    pub(super) measure: Measure,
}

impl FileFacts {
    /// Returns the name without the directory.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Measures every file in `dir`. The caller holds `version`, so its files stay; others may come and
/// go meanwhile.
pub(super) fn measure(
    env: &Env,
    dir: &Path,
    version: &Version,
    obsolete: &BTreeSet<PathBuf>,
) -> Result<Vec<FileFacts>> {
    let tables = version.keyspaces.values().flat_map(|keyspace| keyspace.levels.tables());
    let tables: BTreeSet<_> = tables.map(|(_, table)| table.meta.id).collect();
    let relocations: BTreeSet<_> =
        version.relocations.values().map(|relocation| relocation.meta.id).collect();
    let mut files = Vec::new();
    // A file that is renamed meanwhile may be listed twice; each is to be counted once.
    let mut names = env.fs.list(dir).doing("list", dir)?;
    names.dedup();
    for name in names {
        let path = dir.join(name.file_name().unwrap_or_default());
        let measure = match env.fs.measure(&path) {
            Ok(measure) => measure,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("measure", &path, error)),
        };
        let named = names::parse(&path);
        let live = match named {
            FileName::Table(id) => tables.contains(&id),
            FileName::Segment(id) => version.segments.contains_key(&id),
            FileName::Relocation(id) => relocations.contains(&id),
            FileName::Manifest(_) | FileName::Fixed | FileName::Note => true,
            FileName::Aside(_) | FileName::Foreign => false,
        };
        let standing = match named {
            FileName::Aside(_) => Standing::Aside,
            FileName::Foreign => Standing::Foreign,
            _ if live => Standing::Live,
            _ if obsolete.contains(&path) => Standing::Obsolete,
            _ => Standing::Unnamed,
        };
        files.push(FileFacts { path, named, standing, measure });
    }
    Ok(files)
}

/// Returns the files by path.
pub(super) fn by_path(files: &[FileFacts]) -> BTreeMap<&Path, &FileFacts> {
    files.iter().map(|file| (file.path.as_path(), file)).collect()
}

//! Makes a database of a point.

use crate::base::error::{Error, IoContext, Result};
use crate::db::backup::catalog::Catalog;
use crate::db::backup::copying;
use crate::db::backup::point::PointDescription;
use crate::db::long_pass::{LongPass, PassOptions};
use crate::env::Env;
use crate::env::fs::Hold;
use crate::recovery::{create, place};
use crate::version::files::names;
use crate::version::manifest::{Current, put_in_force};
use std::path::Path;

/// What a restore has done. [`Backups::restore`](crate::Backups::restore) has an example.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The point that was restored.
    pub point: u64,
    /// The files written.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
}

/// Makes a database of a point, or of the newest, in the directory `target`.
pub(super) fn restore(
    env: &Env,
    options: &PassOptions,
    catalog: &Catalog,
    point: Option<u64>,
    target: &Path,
) -> Result<RestoreReport> {
    let point = catalog.point(point)?;
    if env.fs.exists(target).doing("look for", target)? {
        check_empty(env, target, false)?;
    }
    let mut pass = LongPass::new(env, options, point.bytes().saturating_mul(2));
    for file in &point.files {
        let verified =
            copying::verify(env, point.database, file, &catalog.path_of(file), &mut pass);
        verified.map_err(|error| {
            error.advise("nothing was restored; choose another point that does not need this file")
        })?;
    }
    create::create_dir(env, target)?;
    create::sync_name(env, target)?;
    // Nobody else creates or restores a database there meanwhile.
    let _lock = place::lock(env, target, Hold::Alone, &env.threads.describe_process())?;
    check_empty(env, target, true)?;
    copy_files(env, catalog, point, target, &mut pass)?;
    // This makes the names of the files durable before CURRENT names the manifest. A crash before
    // leaves files without CURRENT, which no opening takes for a database.
    let PointDescription { database, manifest, is_encrypted, .. } = *point;
    put_in_force(env, target, Current { database, manifest, is_encrypted })?;
    Ok(RestoreReport { point: point.number, files: point.files.len() as u64, bytes: point.bytes() })
}

/// Copies all files. Each is verified a second time on the way: what the first pass has read may
/// have come from memory.
fn copy_files(
    env: &Env,
    catalog: &Catalog,
    point: &PointDescription,
    target: &Path,
    pass: &mut LongPass,
) -> Result<()> {
    for file in &point.files {
        let (from, to) = (catalog.path_of(file), target.join(file.name()));
        let checksum = copying::copy(env, point.database, file, (&from, &to), pass)?;
        if checksum != file.checksum {
            return Err(Error::corruption("a file of the backup changed while it was restored")
                .in_file(&from)
                .advise("remove the directory that was restored to, and verify the backup"));
        }
    }
    Ok(())
}

/// Refuses a directory that holds anything, but for the lock file if that is ours.
fn check_empty(env: &Env, dir: &Path, is_locked: bool) -> Result<()> {
    let names = env.fs.list(dir).doing("list", dir)?;
    let ours = |path: &&std::path::PathBuf| is_locked && path.ends_with(names::LOCK);
    match names.iter().find(|path| !ours(path)) {
        None => Ok(()),
        Some(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Err(Error::already_exists(format!("the target holds {name:?} already"))
                .in_file(dir)
                .advise("choose a new or an empty directory"))
        }
    }
}

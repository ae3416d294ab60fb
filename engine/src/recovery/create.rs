//! Creates a database: checks what is in the directory, then writes the first manifest. Until
//! CURRENT names the manifest, there is no database.

use crate::base::error::{Error, IoContext, Result};
use crate::base::pointer::KeyspaceId;
use crate::env::Env;
use crate::env::fs::parent_of;
use crate::env::key_provider::KeyProvider;
use crate::recovery::comparators::Comparators;
use crate::recovery::place;
use crate::version::edit::{Change, Edit};
use crate::version::files::names;
use crate::version::keys;
use crate::version::manifest::ManifestWriter;
use crate::version::owner;
use crate::version::settings::{DEFAULT_KEYSPACE, KeyspaceOptions};
use std::path::Path;

/// Creates the directory and its missing parents, and makes their names durable, so that a power
/// cut does not take the database away with a directory around it.
pub fn create_dir(env: &Env, dir: &Path) -> Result<()> {
    let fs = &env.fs;
    let mut parents = Vec::new();
    for part in dir.ancestors().filter(|part| !part.as_os_str().is_empty()) {
        if fs.exists(part).doing("look for", part)? {
            break;
        }
        parents.push(parent_of(part));
    }
    fs.create_dir_all(dir).doing("create the directory", dir)?;
    parents
        .into_iter()
        .try_for_each(|parent| fs.sync_dir(parent).doing("sync the directory", parent))
}

/// Makes the name of a directory durable that was there before, perhaps because its creation ended
/// before its name was durable. Where the parent may not be read, its owner has seen to it; where
/// its file system can't sync directories, or is another that is read only, no name of ours waits.
pub fn sync_name(env: &Env, dir: &Path) -> Result<()> {
    let parent = parent_of(dir);
    use std::io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    let is_passed =
        |kind| matches!(kind, PermissionDenied | InvalidInput | Unsupported | ReadOnlyFilesystem);
    match env.fs.sync_dir(parent) {
        Err(error) if is_passed(error.kind()) => Ok(()),
        synced => synced.doing("sync the directory", parent),
    }
}

/// Creates the directory as [`create_dir`] does, but refuses one that exists, or a link: somebody
/// else may put something there first.
pub fn create_new_dir(env: &Env, dir: &Path) -> Result<()> {
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_dir(env, parent)?;
    }
    match env.fs.create_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(exists_already(dir));
        }
        created => created.doing("create the directory", dir)?,
    }
    let parent = parent_of(dir);
    env.fs.sync_dir(parent).doing("sync the directory", parent)
}

/// Returns the error for a checkpoint into `dir`, which exists.
pub fn exists_already(dir: &Path) -> Error {
    Error::already_exists("the target exists already").in_file(dir).advise("choose a new directory")
}

/// Creates an empty database in `dir`, which is locked. A crash at any moment leaves either no
/// database, so that creating it can be repeated, or a whole one.
///
/// `beside_others`: files that belong to no store may be there.
pub fn create(
    env: &Env,
    dir: &Path,
    comparators: &Comparators,
    keyspace: &KeyspaceOptions,
    keys: Option<&dyn KeyProvider>,
    beside_others: bool,
) -> Result<()> {
    let fs = &env.fs;
    for path in place::check_empty(env, dir, beside_others)? {
        // A crash during an earlier creation left this manifest, which no CURRENT names, or KEYS.
        owner::check_ours(env, &path)?;
        fs.remove(&path).doing("remove", &path)?;
    }
    // I2: what is committed is lost with the directory around it.
    sync_name(env, dir)?;
    // Without CURRENT there is no database, so the keys may come first.
    let database = keys::create(env, dir, env.random.next_u64(), keys)?;
    let add = Change::AddKeyspace {
        id: KeyspaceId(1),
        name: DEFAULT_KEYSPACE.to_owned(),
        order: comparators.order_for_new(DEFAULT_KEYSPACE).name().to_owned(),
        settings: keyspace.to_text(),
        flushed: 0,
    };
    let state = Edit::new(vec![Change::NextFile(2), add]);
    ManifestWriter::create(env, dir, &database, 1, &state).map(|_| ())
}

/// Writes the settings in force to a file beside the manifest, for people and for the command
/// `cleave`. The engine never reads them, so an opening goes on if this fails; the file then has
/// the settings of an earlier one. A file with the same text stays as it is, and so does one of
/// that name that is not CleaveDB's.
pub fn write_options(env: &Env, dir: &Path, text: &str) -> Result<()> {
    let (new, path) = (dir.join(names::OPTIONS_NEW), dir.join(names::OPTIONS));
    if !owner::is_ours(env, &path, None)? || !owner::is_ours(env, &new, None)? {
        return Ok(());
    }
    if has_text(env, &path, text)? {
        return Ok(());
    }
    replace_options(env, &new, &path, text).inspect_err(|_| {
        // It may take the last space of the disk. A crash before this leaves it to the next
        // opening, and so does a failure, of which the reason is told already.
        let _ = env.fs.remove(&new);
    })
}

/// Writes the new file and puts it in place of the one before.
fn replace_options(env: &Env, new: &Path, path: &Path, text: &str) -> Result<()> {
    owner::begin_anew(env, new, text.as_bytes())?;
    // A crash before the rename is durable leaves the settings of the opening before, and
    // perhaps the new file, which the next opening removes; one after it leaves the new ones,
    // whole, as they are synced.
    env.fs.rename(new, path).doing("rename", new)
}

/// Returns true if the file at `path` has this text.
fn has_text(env: &Env, path: &Path, text: &str) -> Result<bool> {
    if !env.fs.exists(path).doing("look for", path)? {
        return Ok(false);
    }
    let file = env.fs.open(path).doing("open", path)?;
    // Reads one byte more than expected, so that a longer file does not compare equal.
    let mut written = vec![0; text.len() + 1];
    let length = file.read_at(&mut written, 0).doing("read", path)?;
    Ok(&written[..length] == text.as_bytes())
}

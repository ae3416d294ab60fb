//! What a file of sorted keys consists of: a table, and beside it a sorted segment if large values
//! are apart. Both are in the formats of a database, with fixed ids, and an id of a database that
//! is drawn for each file at random: so the two are known to belong together, and neither is ever
//! taken for a file of a database. All entries and records have the number 0 and the keyspace 0.
//!
//! An encrypted one is sealed as files of databases are (`base/seal.rs`), by a data key that is
//! derived from a key of the user's: HKDF-SHA-256 (input: that key; no salt; info: "cleavedb sorted
//! files"). Its table's salt is the id of that key, 8 bytes, and 8 random ones. I12: with the
//! random id of a database, 128 random bits make the key of each such file its own; for the segment
//! its epoch takes the place of the latter.

use crate::base::error::{Error, Result};
use crate::base::header::{FileKind, Header};
use crate::base::pointer::{KeyspaceId, SegmentId, TableId};
use crate::base::seal::{DatabaseIdentity, KEY_ID_BYTES, SALT_BYTES, Salt, id_text};
use crate::env::Env;
use crate::env::fs::File;
use crate::env::key_provider::KeyProvider;
use crate::table::salt_of;
use crate::version::keys::{current_key, draw, named};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The id of the table.
pub(super) const TABLE: TableId = TableId(1);
/// The id of the segment.
pub(super) const VALUES: SegmentId = SegmentId(2);
/// The keyspace that tables and records of no database name.
pub(super) const NO_KEYSPACE: KeyspaceId = KeyspaceId(0);

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the path of the segment beside the table at `path`.
pub(super) fn values_path(path: &Path) -> PathBuf {
    with_suffix(path, ".values")
}

/// Returns the path that a file has until it is complete.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    with_suffix(path, ".unfinished")
}

/// Returns the path of the table of a sorted file of which `path` is a part with this header;
/// `None` if it is no such part.
pub(crate) fn table_path(path: &Path, header: &Header) -> Option<PathBuf> {
    match (header.kind, header.file) {
        (FileKind::Table, id) if id == TABLE.0 => Some(path.to_path_buf()),
        (FileKind::Segment, id) if id == VALUES.0 => Some(path.with_extension("")),
        _ => None,
    }
}

/// Draws the identity of a new file, which is encrypted by the current key of `provider` if there
/// is one.
pub(super) fn new_identity(
    env: &Env,
    provider: Option<&dyn KeyProvider>,
) -> Result<DatabaseIdentity> {
    let id = env.random.next_u64();
    let Some(provider) = provider else { return Ok(id.into()) };
    let given = provider.keys()?;
    let key = current_key(&given)?;
    let mut salt: Salt = [0; SALT_BYTES];
    salt[..KEY_ID_BYTES].copy_from_slice(&key.id_bytes());
    draw(env, &mut salt[KEY_ID_BYTES..])?;
    Ok(key.sorted_file(id, salt))
}

/// Returns the identity of the file whose table is at `path` and has the number `id`, with its key
/// if it is encrypted. Nothing of it is verified yet.
pub(crate) fn identity(
    file: &dyn File,
    path: &Path,
    id: u64,
    provider: Option<&dyn KeyProvider>,
) -> Result<DatabaseIdentity> {
    let Some(salt) = salt_of(file, path)? else { return Ok(id.into()) };
    let given = provider.map_or(Ok(Vec::new()), KeyProvider::keys)?;
    let wanted = salt.first_chunk::<KEY_ID_BYTES>().expect("a salt is longer");
    match given.iter().find(|key| key.id_bytes() == *wanted) {
        Some(key) => Ok(key.sorted_file(id, salt)),
        None => Err(Error::invalid_option(format!(
            "the file is encrypted with key {}; given was {}",
            id_text(wanted),
            named(&given)
        ))
        .in_file(path)
        .advise("ingest it into a database that is opened with that key; or write it anew")),
    }
}

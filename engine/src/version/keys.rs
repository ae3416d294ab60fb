//! `KEYS`, the file with the data keys of an encrypted database, wrapped by a key of the user's.
//!
//! ```text
//! KEYS  = header (40 bytes, kind "KEYS"; its file id is 0) | body | checksum64 of all before,
//!         seeded by the database
//! body  = id of the wrapping key (string) | count of data keys (varint), and for each, by
//!         ascending first id: first id of a file that it seals (varint) | nonce (12 bytes) | the
//!         data key, encrypted (32 bytes) | tag (16 bytes)
//! ```
//!
//! A data key is encrypted by AES-256-GCM-SIV under the wrapping key and a random nonce; database,
//! first id and the id of the wrapping key are authenticated with it. The file is replaced as a
//! whole: when the database is created, and when it is opened for writing with another current key.
//! Then all data keys are wrapped anew, and one more is drawn, for the files to come; no other file
//! changes.

use crate::base::checksum::checksum64;
use crate::base::coding::{Reader, put_varint};
use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::seal::{
    DataKey, DataKeys, DatabaseIdentity, EncryptionKey, FileCipher, KEY_BYTES, Salt, TAG_BYTES,
};
use crate::env::Env;
use crate::env::key_provider::KeyProvider;
use crate::version::files::names;
use crate::version::manifest::Current;
use crate::version::owner;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The most bytes that a KEYS file has: some ten thousand rotations.
const MAX_FILE_BYTES: u64 = 1 << 20;
const NONCE_BYTES: usize = 12;
const MAX_ID_BYTES: usize = 64;

/// The contents of KEYS.
struct KeysFile {
    /// The id of the key that wraps the others.
    wrapping: String,
    keys: Vec<DataKey>,
}

/// Returns the identity of the database in `dir`, whose CURRENT was read, with the keys of its
/// files if it is encrypted. Changes nothing. Fails with [`ErrorKind::InvalidOption`] if `provider`
/// does not fit: it is missing, lacks the key, or the database is not encrypted.
///
/// [`ErrorKind::InvalidOption`]: crate::ErrorKind::InvalidOption
pub fn identity(
    env: &Env,
    dir: &Path,
    current: Current,
    provider: Option<&dyn KeyProvider>,
) -> Result<DatabaseIdentity> {
    match (current.is_encrypted, provider) {
        (false, None) => Ok(current.database.into()),
        (false, Some(_)) => {
            Err(Error::invalid_option("a key was given, and the database is not encrypted")
                .in_file(dir)
                .advise("open it without a key, or load its contents into a new database"))
        }
        (true, None) => Err(needs_key(dir)),
        (true, Some(provider)) => read_identity(env, dir, current.database, provider),
    }
}

/// Reads the data keys again, for who follows a database: an opening for writing may have drawn one
/// more since.
pub fn renew(
    env: &Env,
    dir: &Path,
    database: &DatabaseIdentity,
    provider: Option<&dyn KeyProvider>,
) -> Result<()> {
    if let (Some(known), Some(provider)) = (&database.keys, provider) {
        known.renew(read(env, dir, database.id, &provider.keys()?)?.keys);
    }
    Ok(())
}

/// Does as [`identity`] for a repair, when CURRENT may be lost: KEYS tells whether the database is
/// encrypted.
pub fn identity_for_repair(
    env: &Env,
    dir: &Path,
    database: u64,
    is_encrypted: bool,
    provider: Option<&dyn KeyProvider>,
) -> Result<DatabaseIdentity> {
    let path = dir.join(names::KEYS);
    let is_encrypted = is_encrypted || env.fs.exists(&path).doing("look for", &path)?;
    let current = Current { database, manifest: 0, is_encrypted };
    identity(env, dir, current, provider)
}

fn needs_key(dir: &Path) -> Error {
    Error::invalid_option("the database is encrypted, and no key was given")
        .in_file(dir)
        .advise("open it with its key: `Builder::encryption`, or `--key-file` of the command")
}

fn read_identity(
    env: &Env,
    dir: &Path,
    database: u64,
    provider: &dyn KeyProvider,
) -> Result<DatabaseIdentity> {
    let file = read(env, dir, database, &provider.keys()?)?;
    with_keys(env, database, file.keys)
}

fn with_keys(env: &Env, database: u64, keys: Vec<DataKey>) -> Result<DatabaseIdentity> {
    // I12: the salt is this opening's own, so that not even two copies of a database that are both
    // written to give a file of one id the same key.
    let mut salt = Salt::default();
    draw(env, &mut salt)?;
    Ok(DatabaseIdentity { id: database, keys: Some(Arc::new(DataKeys::new(keys, salt))) })
}

/// Draws the first data key of a new database and puts it, wrapped, into `dir`, if there is a
/// provider. Returns the identity of the new database.
pub fn create(
    env: &Env,
    dir: &Path,
    database: u64,
    provider: Option<&dyn KeyProvider>,
) -> Result<DatabaseIdentity> {
    let Some(provider) = provider else { return Ok(database.into()) };
    owner::check_ours(env, &dir.join(names::KEYS))?;
    let keys = vec![DataKey { first_file: 0, key: new_key(env)? }];
    write(env, dir, database, current_key(&provider.keys()?)?, &keys)?;
    with_keys(env, database, keys)
}

/// Wraps the data keys with the provider's current key if they are wrapped with a former one, and
/// draws one more for files from id `next_file` on. Returns false if nothing had to be done. If
/// true, the database must be opened anew.
pub fn rotate(
    env: &Env,
    dir: &Path,
    database: u64,
    next_file: u64,
    provider: &dyn KeyProvider,
) -> Result<bool> {
    let given = provider.keys()?;
    let mut file = read(env, dir, database, &given)?;
    let current = current_key(&given)?;
    if current.id() == file.wrapping {
        return Ok(false);
    }
    // A rotation that wrote no file afterwards left a key for the same ids.
    file.keys.retain(|key| key.first_file < next_file);
    file.keys.push(DataKey { first_file: next_file, key: new_key(env)? });
    write(env, dir, database, current, &file.keys)?;
    Ok(true)
}

/// Copies the file of keys to another directory, for a checkpoint. The copy is durable with the
/// directory.
pub fn copy(env: &Env, from: &Path, to: &Path) -> Result<()> {
    let bytes = read_wrapped(env, from)?;
    let target = to.join(names::KEYS);
    let file = env.fs.create(&target).doing("create", &target)?;
    file.write_at(&bytes, 0).doing("write", &target)?;
    // A crash before CURRENT is there leaves a checkpoint that does not open, as without this file.
    file.sync().doing("sync", &target)
}

/// Returns the current one of the keys that a provider has.
pub fn current_key(given: &[EncryptionKey]) -> Result<&EncryptionKey> {
    given.first().ok_or_else(|| Error::invalid_option("the key provider has no key"))
}

fn new_key(env: &Env) -> Result<Zeroizing<[u8; KEY_BYTES]>> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    draw(env, &mut *key)?;
    Ok(key)
}

/// Fills `room` with random bytes that nobody can guess.
pub fn draw(env: &Env, room: &mut [u8]) -> Result<()> {
    let drawn = env.random.fill_secret(room);
    drawn.map_err(|error| Error::new(ErrorKind::Io, format!("no random bytes: {error}")))
}

/// Replaces KEYS by one with `keys`, wrapped by `wrapping`.
fn write(
    env: &Env,
    dir: &Path,
    database: u64,
    wrapping: &EncryptionKey,
    keys: &[DataKey],
) -> Result<()> {
    let mut out = Header::new(FileKind::Keys, database, 0).encode().to_vec();
    put_varint(&mut out, wrapping.id().len() as u64);
    out.extend_from_slice(wrapping.id().as_bytes());
    put_varint(&mut out, keys.len() as u64);
    let cipher = wrapping.cipher();
    for DataKey { first_file, key } in keys {
        put_varint(&mut out, *first_file);
        let mut nonce = [0; NONCE_BYTES];
        draw(env, &mut nonce)?;
        let mut wrapped = **key;
        let beside = beside(database, wrapping.id(), *first_file);
        let tag = cipher.seal_with(&nonce, &beside, &mut wrapped);
        for part in [nonce.as_slice(), &wrapped, &tag] {
            out.extend_from_slice(part);
        }
    }
    let sum = checksum64(database, &out);
    out.extend_from_slice(&sum.to_le_bytes());
    if out.len() as u64 > MAX_FILE_BYTES {
        let what = format!("{} keys do not fit in a file of keys", keys.len());
        return Err(Error::new(ErrorKind::LimitReached, what)
            .in_file(&dir.join(names::KEYS))
            .advise("copy the data to a new database to go on with new keys"));
    }
    let (new, path) = (dir.join(names::KEYS_NEW), dir.join(names::KEYS));
    owner::begin_anew(env, &new, &out)?;
    // A crash before the rename is durable leaves the old file, which opens all files that there
    // are; after it, the new one does too. What is left of the new one is removed at opening.
    env.fs.rename(&new, &path).doing("replace", &path)?;
    env.fs.sync_dir(dir).doing("sync the directory", dir)
}

fn beside(database: u64, wrapping: &str, first_file: u64) -> Vec<u8> {
    let mut beside = b"cleavedb data key".to_vec();
    beside.extend_from_slice(&database.to_le_bytes());
    beside.extend_from_slice(&first_file.to_le_bytes());
    beside.extend_from_slice(wrapping.as_bytes());
    beside
}

/// Returns the bytes of the file of keys, in which they are wrapped.
pub fn read_wrapped(env: &Env, dir: &Path) -> Result<Vec<u8>> {
    let path = &dir.join(names::KEYS);
    let lost = |what: &str| {
        Error::corruption(what).in_file(path).advise(
            "restore this file from a checkpoint or a backup: without it nothing can be read",
        )
    };
    if !env.fs.exists(path).doing("look for", path)? {
        return Err(lost("the keys of the encrypted database are missing"));
    }
    let file = env.fs.open(path).doing("open", path)?;
    let len = file.len().doing("measure", path)?;
    if len > MAX_FILE_BYTES {
        return Err(lost("no file of keys is so long"));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    file.read_exact_at(&mut bytes, 0).doing("read", path)?;
    Ok(bytes)
}

/// Reads KEYS and unwraps the data keys with one of the keys that were `given`.
fn read(env: &Env, dir: &Path, database: u64, given: &[EncryptionKey]) -> Result<KeysFile> {
    let path = dir.join(names::KEYS);
    let bytes = read_wrapped(env, dir)?;
    let wrapped = WrappedKeys::decode(&bytes, database).map_err(|error| {
        error.in_file(&path).advise("restore this file from a checkpoint or a backup")
    })?;
    let wrapping = wrapped.wrapping;
    let Some(key) = given.iter().find(|key| key.id() == wrapping) else {
        return Err(Error::invalid_option(format!(
            "the database is encrypted with key {wrapping}; given was {}",
            named(given)
        ))
        .in_file(dir)
        .advise("give that key too, as a former one if another is current"));
    };
    let keys = wrapped.unwrap(database, &key.cipher()).map_err(|error| error.in_file(&path))?;
    Ok(KeysFile { wrapping: wrapping.to_owned(), keys })
}

/// Returns the names of keys, for a message.
pub fn named(given: &[EncryptionKey]) -> String {
    let ids: Vec<&str> = given.iter().map(EncryptionKey::id).collect();
    if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
}

/// A data key as it is in the file.
struct WrappedKey {
    first_file: u64,
    nonce: [u8; NONCE_BYTES],
    key: [u8; KEY_BYTES],
    tag: [u8; TAG_BYTES],
}

/// The decoded contents of KEYS, with the data keys still wrapped.
pub(crate) struct WrappedKeys<'a> {
    wrapping: &'a str,
    keys: Vec<WrappedKey>,
}

impl<'a> WrappedKeys<'a> {
    /// Decodes the file of `database`. I7: the checksum is verified before a field is used.
    pub(crate) fn decode(bytes: &'a [u8], database: u64) -> Result<WrappedKeys<'a>> {
        Header::decode_expected(bytes, FileKind::Keys, database, 0)?;
        let short = || Error::corruption("the file of keys ends too early");
        let (covered, sum) = bytes.split_last_chunk::<8>().ok_or_else(short)?;
        if checksum64(database, covered) != u64::from_le_bytes(*sum) {
            return Err(Error::corruption("the checksum of the file of keys does not match"));
        }
        let mut reader = Reader::new(covered.get(HEADER_BYTES..).ok_or_else(short)?);
        let id_bytes = reader.length(MAX_ID_BYTES)?;
        let wrapping = std::str::from_utf8(reader.take(id_bytes)?)
            .map_err(|_| Error::corruption("the id of the wrapping key is not text"))?;
        let count = reader.length(covered.len())?;
        let mut keys: Vec<WrappedKey> = Vec::new();
        for _ in 0..count {
            let first_file = reader.varint()?;
            if keys.last().is_some_and(|last| last.first_file >= first_file) {
                return Err(Error::corruption("the data keys are not in order"));
            }
            keys.push(WrappedKey {
                first_file,
                nonce: *reader.take(NONCE_BYTES)?.first_chunk().ok_or_else(short)?,
                key: *reader.take(KEY_BYTES)?.first_chunk().ok_or_else(short)?,
                tag: *reader.take(TAG_BYTES)?.first_chunk().ok_or_else(short)?,
            });
        }
        reader.finish("the file of keys")?;
        if keys.is_empty() {
            return Err(Error::corruption("the file of keys has no key"));
        }
        Ok(WrappedKeys { wrapping, keys })
    }

    /// Returns the id of the key that wraps the data keys.
    pub(crate) fn wrapping(&self) -> &str {
        self.wrapping
    }

    /// Returns the first ids of the files that the data keys seal, ascending.
    pub(crate) fn first_files(&self) -> impl Iterator<Item = u64> + '_ {
        self.keys.iter().map(|key| key.first_file)
    }

    fn unwrap(&self, database: u64, cipher: &FileCipher) -> Result<Vec<DataKey>> {
        let unwrap = |wrapped: &WrappedKey| {
            let (first_file, mut key) = (wrapped.first_file, Zeroizing::new(wrapped.key));
            let beside = beside(database, self.wrapping, first_file);
            cipher.open_with(&wrapped.nonce, &beside, &mut *key, &wrapped.tag)?;
            Ok(DataKey { first_file, key })
        };
        self.keys.iter().map(unwrap).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice;

    /// A file that is too long to be read took the place of the one that opens the database.
    #[test]
    fn keys_that_do_not_fit_replace_none() {
        let (env, _simulation) = Env::simulated(1);
        let (dir, key) = (Path::new("/keys"), EncryptionKey::new([7; 32]));
        env.fs.create_dir_all(dir).unwrap();
        let keys = |count: u64| -> Vec<DataKey> {
            let key = |first_file| DataKey { first_file, key: Zeroizing::new([1; KEY_BYTES]) };
            (0..count).map(key).collect()
        };
        write(&env, dir, 7, &key, &keys(2)).unwrap();
        let error = write(&env, dir, 7, &key, &keys(20_000)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitReached, "{error}");
        assert_eq!(read(&env, dir, 7, slice::from_ref(&key)).unwrap().keys.len(), 2);
    }
}

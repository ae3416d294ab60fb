//! Where the keys come from that wrap the data keys of an encrypted database.

use crate::base::error::{Error, IoContext, Result};
use crate::base::seal::EncryptionKey;
use std::fmt;
use std::path::{Path, PathBuf};

/// The most bytes that are read of a file of keys.
const MAX_KEY_FILE_BYTES: u64 = 64 << 10;

/// A source of encryption keys: a file, an environment variable, or a key service that a program
/// asks. Called once at each opening of a database, at the beginning of an encrypted sorted file,
/// and once for each such file that is ingested; never during reads or other writes.
///
/// ```
/// # let dir = cleavedb::doc_dir("key-provider");
/// use cleavedb::{Db, EncryptionKey, KeyProvider, Result};
/// use std::sync::Arc;
///
/// struct KeyService;
///
/// impl KeyProvider for KeyService {
///     fn keys(&self) -> Result<Vec<EncryptionKey>> {
///         Ok(vec![EncryptionKey::new([7; 32])]) // ask the service here
///     }
/// }
///
/// let db = Db::builder(&dir).encryption(Arc::new(KeyService)).open()?;
/// db.default_keyspace().put("name", "unreadable on the disk")?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub trait KeyProvider: Send + Sync {
    /// Returns the current key, and behind it those that were current before, as far as databases
    /// may still be wrapped with them. A database that is opened for writing and is wrapped with a
    /// former key is wrapped with the current one from then on.
    ///
    /// An error is passed on to whoever opens the database.
    fn keys(&self) -> Result<Vec<EncryptionKey>>;
}

impl KeyProvider for EncryptionKey {
    fn keys(&self) -> Result<Vec<EncryptionKey>> {
        Ok(vec![self.clone()])
    }
}

/// The current key first, then former ones.
impl KeyProvider for Vec<EncryptionKey> {
    fn keys(&self) -> Result<Vec<EncryptionKey>> {
        Ok(self.clone())
    }
}

/// Keys in a text file, one per line with 64 hexadecimal digits each: the current one first, then
/// former ones. Empty lines and those that begin with `#` are passed over.
///
/// ```
/// # let dir = cleavedb::doc_dir("key-file");
/// use cleavedb::{Db, KeyFile};
/// use std::sync::Arc;
/// std::fs::create_dir_all(&dir).unwrap();
/// std::fs::write(dir.join("key"), "8f".repeat(32)).unwrap();
/// let keys = Arc::new(KeyFile::new(dir.join("key")));
/// let db = Db::builder(dir.join("store")).encryption(keys).open()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// Names the file, which is read at each opening of a database.
    pub fn new(path: impl AsRef<Path>) -> KeyFile {
        KeyFile { path: path.as_ref().to_path_buf() }
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFile({:?})", self.path)
    }
}

impl KeyProvider for KeyFile {
    fn keys(&self) -> Result<Vec<EncryptionKey>> {
        let path = &self.path;
        let len = std::fs::metadata(path).doing("read the keys in", path)?.len();
        if len > MAX_KEY_FILE_BYTES {
            return Err(
                Error::invalid_option(format!("no file of keys has {len} bytes")).in_file(path)
            );
        }
        let text =
            zeroize::Zeroizing::new(std::fs::read_to_string(path).doing("read the keys in", path)?);
        parse_keys(&text).map_err(|error| error.in_file(path))
    }
}

/// Keys in an environment variable, separated by white space: the current one first, then former
/// ones, of 64 hexadecimal digits each.
///
/// ```no_run
/// use cleavedb::{Db, KeyVariable};
/// use std::sync::Arc;
/// let db = Db::builder("store").encryption(Arc::new(KeyVariable::new("STORE_KEY"))).open()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyVariable {
    name: String,
}

impl KeyVariable {
    /// Names the variable, which is read at each opening of a database.
    pub fn new(name: impl Into<String>) -> KeyVariable {
        KeyVariable { name: name.into() }
    }
}

impl KeyProvider for KeyVariable {
    fn keys(&self) -> Result<Vec<EncryptionKey>> {
        let name = &self.name;
        let text = std::env::var(name).map_err(|_| {
            Error::invalid_option(format!("the environment variable {name} has no key"))
        })?;
        let text = zeroize::Zeroizing::new(text);
        let lines = zeroize::Zeroizing::new(text.split_whitespace().collect::<Vec<_>>().join("\n"));
        parse_keys(&lines)
            .map_err(|error| error.advise(format!("set the environment variable {name}")))
    }
}

/// Returns the key in the variable `CLEAVEDB_TEST_KEY`, with which whole suites of tests run
/// encrypted.
#[cfg(feature = "sim")]
pub fn test_key() -> Option<std::sync::Arc<dyn KeyProvider>> {
    let digits = std::env::var("CLEAVEDB_TEST_KEY").ok()?;
    let key = EncryptionKey::from_hex(&digits).expect("CLEAVEDB_TEST_KEY is a key");
    Some(std::sync::Arc::new(key))
}

/// Parses one key for each line.
fn parse_keys(text: &str) -> Result<Vec<EncryptionKey>> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys = lines.map(EncryptionKey::from_hex).collect::<Result<Vec<_>>>()?;
    match keys.is_empty() {
        true => Err(Error::invalid_option("there is no key")),
        false => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_lines_of_digits() {
        let (one, two) = ("ab".repeat(32), "CD".repeat(32));
        let keys = parse_keys(&format!("# new\n {one} \n\n# before\n{two}\n")).unwrap();
        let ids: Vec<&str> = keys.iter().map(EncryptionKey::id).collect();
        let expected = [EncryptionKey::new([0xab; 32]), EncryptionKey::new([0xcd; 32])];
        assert_eq!(ids, expected.each_ref().map(EncryptionKey::id));
        for bad in ["", "# none", "ab", &one[1..], &"x".repeat(64), &format!("{one}0")] {
            let error = parse_keys(bad).unwrap_err().to_string();
            assert!(!bad.is_empty() || error.contains("no key"), "{error}");
            assert!(bad.len() < 60 || !error.contains(bad), "a key is not shown: {error}");
        }
    }
}

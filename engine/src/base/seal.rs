//! Authenticated encryption of the parts of files: what seals a block, a record or an edit.
//!
//! ```text
//! data key      32 random bytes; there is one for all files with ids from its first one on, up to
//!               the first id of the next data key
//! key of a file HKDF-SHA-256 (input: data key; salt: the file's salt; info: "cleavedb file",
//!               database, kind of file, id of file)
//! sealed part   AES-256-GCM-SIV (RFC 8452) under the key of the file; the nonce is the offset of
//!               the part in the file, in 12 bytes (an edit in a manifest that took the place of
//!               others, which were cut off, adds their number times 2^64); the tag of 16 bytes is
//!               kept beside the ciphertext, which is as long as the plaintext
//! ```
//!
//! A part that was moved, or that came from another file or database, does not open. I12: no two
//! parts are sealed with one key and nonce. An id is given out once while a database is open, each
//! opening draws a salt of its own, and a file is written from front to back, so that no offset in
//! it is sealed twice, except by edits, which count. `docs/formats.md` has the whole argument.

use crate::base::error::{Error, Result};
use crate::base::header::FileKind;
use aes_gcm_siv::aead::generic_array::GenericArray;
use aes_gcm_siv::{AeadInPlace, Aes256GcmSiv, KeyInit};
use arc_swap::ArcSwap;
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The length of a key in bytes.
pub const KEY_BYTES: usize = 32;

/// The length in bytes of the tag that proves that a sealed part is unchanged.
pub const TAG_BYTES: usize = 16;

/// The length in bytes of a file's salt.
pub const SALT_BYTES: usize = 16;

/// The length in bytes of what names a key.
pub const KEY_ID_BYTES: usize = 8;

/// The random bytes that, with the id, make the key of a file its own.
pub type Salt = [u8; SALT_BYTES];

/// A key that seals the files with ids from `first_file` on.
#[derive(Clone)]
pub struct DataKey {
    /// The lowest id of a file that this key seals.
    pub first_file: u64,
    /// The key.
    pub key: Zeroizing<[u8; KEY_BYTES]>,
}

/// A key that wraps the data keys of databases, and its name.
///
/// ```
/// use cleavedb::EncryptionKey;
/// let key = EncryptionKey::from_hex(&"8f".repeat(32))?;
/// assert_eq!(key.id(), EncryptionKey::new([0x8f; 32]).id());
/// assert!(!format!("{key:?}").contains("8f8f"));
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct EncryptionKey {
    id: String,
    key: Zeroizing<[u8; KEY_BYTES]>,
}

impl EncryptionKey {
    /// Makes a key of 32 bytes, which must be random: not a password.
    pub fn new(key: [u8; KEY_BYTES]) -> EncryptionKey {
        let key = Zeroizing::new(key);
        let id = id_text(&id_bytes(&key));
        EncryptionKey { id, key }
    }

    /// Makes a key of 64 hexadecimal digits.
    pub fn from_hex(digits: &str) -> Result<EncryptionKey> {
        let wrong = || {
            Error::invalid_option("a key is not written as 64 hexadecimal digits")
                .advise("make one with: openssl rand -hex 32")
        };
        if digits.len() != 2 * KEY_BYTES || !digits.is_ascii() {
            return Err(wrong());
        }
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        for (index, byte) in key.iter_mut().enumerate() {
            let pair = digits.get(2 * index..2 * index + 2).ok_or_else(wrong)?;
            let is_hex = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(pair, 16).ok().filter(|_| is_hex).ok_or_else(wrong)?;
        }
        Ok(EncryptionKey::new(*key))
    }

    /// Returns the name of the key: the beginning of a hash of it, which does not give it away. A
    /// database says with it which key it needs.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the bytes that [`EncryptionKey::id`] shows as digits.
    pub(crate) fn id_bytes(&self) -> [u8; KEY_ID_BYTES] {
        id_bytes(&self.key)
    }

    /// Returns the identity of a sorted file outside of any database, whose number `file` was drawn
    /// for it, as `salt` was. I12: its key is derived anew, so that a key which wraps others seals
    /// no files.
    pub(crate) fn sorted_file(&self, file: u64, salt: Salt) -> DatabaseIdentity {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        Hkdf::<Sha256>::new(None, &*self.key)
            .expand(b"cleavedb sorted files", &mut *key)
            .expect("one block of the hash is as long as a key");
        let keys = DataKeys::new(vec![DataKey { first_file: 0, key }], salt);
        DatabaseIdentity { id: file, keys: Some(Arc::new(keys)) }
    }

    /// Returns what wraps data keys.
    pub(crate) fn cipher(&self) -> FileCipher {
        FileCipher::new(&self.key)
    }
}

fn id_bytes(key: &[u8; KEY_BYTES]) -> [u8; KEY_ID_BYTES] {
    let hash = Sha256::new().chain_update(b"cleavedb key id").chain_update(key).finalize();
    std::array::from_fn(|index| hash[index])
}

/// Returns the digits of a key's id.
pub(crate) fn id_text(id: &[u8; KEY_ID_BYTES]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptionKey({})", self.id)
    }
}

/// The data keys of an open database.
pub struct DataKeys {
    /// By ascending first id. There is at least one.
    keys: ArcSwap<Vec<DataKey>>,
    /// The salt of the files that are written while the database is open.
    salt: Salt,
}

impl DataKeys {
    /// Makes the keys of a database that is being opened. `salt` was drawn for this opening.
    ///
    /// # Panics
    /// Panics if there is no key, or if their first ids do not ascend.
    pub fn new(keys: Vec<DataKey>, salt: Salt) -> DataKeys {
        check(&keys);
        DataKeys { keys: ArcSwap::from_pointee(keys), salt }
    }

    /// Puts the keys in place that another process, which writes the database, has by now: those of
    /// all files that there are, and one for files to come.
    ///
    /// # Panics
    /// Panics as [`DataKeys::new`] does.
    pub fn renew(&self, keys: Vec<DataKey>) {
        check(&keys);
        self.keys.store(Arc::new(keys));
    }

    fn cipher(&self, database: u64, kind: FileKind, file: u64, salt: &[u8]) -> FileCipher {
        // A file of a lower id than any key can only be forged, and then no key opens it.
        let keys = self.keys.load();
        let after = keys.partition_point(|key| key.first_file <= file);
        let key = &keys[after.saturating_sub(1)];
        let mut info = b"cleavedb file".to_vec();
        info.extend_from_slice(&database.to_le_bytes());
        info.extend_from_slice(kind.letters());
        info.extend_from_slice(&file.to_le_bytes());
        let mut derived = Zeroizing::new([0; KEY_BYTES]);
        Hkdf::<Sha256>::new(Some(salt), &*key.key)
            .expand(&info, &mut *derived)
            .expect("one block of the hash is as long as a key");
        FileCipher::new(&derived)
    }
}

fn check(keys: &[DataKey]) {
    assert!(!keys.is_empty(), "an encrypted database has a data key");
    assert!(keys.is_sorted_by(|a, b| a.first_file < b.first_file), "one key for each file");
}

impl fmt::Debug for DataKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKeys({})", self.keys.load().len())
    }
}

/// What the files of a database have in common: its id, which is in each header, and the keys that
/// seal them if it is encrypted.
#[derive(Clone, Debug, Default)]
pub struct DatabaseIdentity {
    /// The id.
    pub id: u64,
    /// The keys; `None` if the database is not encrypted.
    pub keys: Option<Arc<DataKeys>>,
}

impl From<u64> for DatabaseIdentity {
    /// Returns the identity of a database that is not encrypted.
    fn from(id: u64) -> Self {
        DatabaseIdentity { id, keys: None }
    }
}

#[cfg(test)]
impl DatabaseIdentity {
    /// Returns the identity of an encrypted database, for tests.
    pub fn encrypted(id: u64) -> Self {
        let key = DataKey { first_file: 0, key: Zeroizing::new([7; KEY_BYTES]) };
        let keys = DataKeys::new(vec![key], [9; SALT_BYTES]);
        DatabaseIdentity { id, keys: Some(Arc::new(keys)) }
    }
}

impl From<&DatabaseIdentity> for DatabaseIdentity {
    fn from(identity: &DatabaseIdentity) -> Self {
        identity.clone()
    }
}

impl DatabaseIdentity {
    /// Returns true if the database is encrypted: then all its tables, segments and manifests are
    /// sealed.
    pub fn is_encrypted(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns the salt of the files that are written while the database is open, if it is
    /// encrypted.
    pub fn salt(&self) -> Option<Salt> {
        self.keys.as_ref().map(|keys| keys.salt)
    }

    /// Returns what seals and opens the parts of a file with this salt, if the database is
    /// encrypted.
    pub fn cipher(&self, kind: FileKind, file: u64, salt: &[u8]) -> Option<FileCipher> {
        self.keys.as_ref().map(|keys| keys.cipher(self.id, kind, file, salt))
    }
}

/// Returns the error for a file that is encrypted in a database that is not, or the other way
/// round. `what` is its subject.
pub fn wrong_encryption(database: &DatabaseIdentity, what: &str) -> Error {
    let is = match database.is_encrypted() {
        true => "is not encrypted, and its database is",
        false => "is encrypted, and its database is not, or its keys were not given",
    };
    Error::corruption(format!("{what} {is}"))
}

/// What seals and opens the parts of one file, or wraps data keys.
#[derive(Clone)]
pub struct FileCipher(Arc<Aes256GcmSiv>);

impl fmt::Debug for FileCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileCipher")
    }
}

impl FileCipher {
    /// Makes a cipher of a key.
    pub fn new(key: &[u8; KEY_BYTES]) -> FileCipher {
        FileCipher(Arc::new(Aes256GcmSiv::new(GenericArray::from_slice(key))))
    }

    /// Encrypts `bytes`, a part of the file at `offset`, in place, and returns their tag. Whoever
    /// opens them must name the same `beside`, bytes that are authenticated and stay readable.
    pub fn seal(&self, offset: u64, beside: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        self.seal_with(&nonce(offset, 0), beside, bytes)
    }

    /// Decrypts in place what [`FileCipher::seal`] encrypted. On an error nobody may use `bytes`.
    pub fn open(
        &self,
        offset: u64,
        beside: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<()> {
        self.open_with(&nonce(offset, 0), beside, bytes, tag)
    }

    /// Does as [`FileCipher::seal`] under any nonce.
    pub fn seal_with(&self, nonce: &[u8; 12], beside: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let nonce = GenericArray::from_slice(nonce);
        let tag = self.0.encrypt_in_place_detached(nonce, beside, bytes);
        tag.expect("parts of files are far below the cipher's limit of 64 GiB").into()
    }

    /// Does as [`FileCipher::open`] under any nonce.
    pub fn open_with(
        &self,
        nonce: &[u8; 12],
        beside: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<()> {
        let (nonce, tag) = (GenericArray::from_slice(nonce), GenericArray::from_slice(tag));
        self.0.decrypt_in_place_detached(nonce, beside, bytes, tag).map_err(|_| {
            Error::corruption("sealed bytes do not open: they were changed, moved or replaced")
        })
    }
}

/// Returns the nonce of a part at `offset` that was sealed after `before` others at the same place,
/// none of which is in the file.
pub fn nonce(offset: u64, before: u32) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&offset.to_le_bytes());
    nonce[8..].copy_from_slice(&before.to_le_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(database: u64, keys: &[(u64, u8)], salt: u8) -> DatabaseIdentity {
        let key = |&(first_file, byte): &(u64, u8)| DataKey {
            first_file,
            key: Zeroizing::new([byte; KEY_BYTES]),
        };
        let keys = DataKeys::new(keys.iter().map(key).collect(), [salt; SALT_BYTES]);
        DatabaseIdentity { id: database, keys: Some(Arc::new(keys)) }
    }

    #[test]
    fn a_part_opens_only_in_its_place() {
        let of = |identity: &DatabaseIdentity, kind, file| {
            identity.cipher(kind, file, &identity.salt().unwrap()).unwrap()
        };
        let one = identity(7, &[(1, 1), (10, 2)], 3);
        let mut bytes = *b"a part of a file";
        let tag = of(&one, FileKind::Table, 5).seal(40, b"beside", &mut bytes);
        assert_ne!(&bytes, b"a part of a file");
        let opens = |cipher: FileCipher, offset, beside: &[u8], tag: [u8; TAG_BYTES]| {
            let mut copy = bytes;
            let opened = cipher.open(offset, beside, &mut copy, &tag).is_ok();
            assert_eq!(opened, &copy == b"a part of a file" && opened);
            opened
        };
        let table = |identity: &DatabaseIdentity| of(identity, FileKind::Table, 5);
        assert!(opens(table(&one), 40, b"beside", tag));
        assert!(!opens(table(&one), 41, b"beside", tag), "another place");
        assert!(!opens(table(&one), 40, b"Beside", tag), "other bytes beside it");
        assert!(!opens(of(&one, FileKind::Segment, 5), 40, b"beside", tag), "another kind");
        assert!(!opens(of(&one, FileKind::Table, 6), 40, b"beside", tag), "another file");
        assert!(!opens(table(&identity(8, &[(1, 1)], 3)), 40, b"beside", tag), "another database");
        assert!(!opens(table(&identity(7, &[(1, 1)], 4)), 40, b"beside", tag), "another salt");
        assert!(!opens(table(&identity(7, &[(1, 9)], 3)), 40, b"beside", tag), "another key");
        assert!(
            opens(table(&identity(7, &[(1, 1), (6, 9)], 3)), 40, b"beside", tag),
            "a later key"
        );
        for bit in 0..TAG_BYTES * 8 {
            let mut bad = tag;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!opens(table(&one), 40, b"beside", bad), "bit {bit}");
        }
    }

    #[test]
    fn keys_are_for_files_from_their_first_id_on() {
        let one = identity(7, &[(1, 1), (10, 2)], 3);
        let sealed = |identity: &DatabaseIdentity, file| {
            let mut bytes = [0; 8];
            identity.cipher(FileKind::Table, file, b"salt").unwrap().seal(0, b"", &mut bytes);
            bytes
        };
        let (first, second) = (identity(7, &[(1, 1)], 3), identity(7, &[(1, 2)], 3));
        assert_eq!(sealed(&one, 9), sealed(&first, 9));
        assert_eq!(sealed(&one, 10), sealed(&second, 10));
        assert_ne!(sealed(&one, 10), sealed(&first, 10));
        assert_eq!(sealed(&one, 0), sealed(&first, 0), "no key is for it, and nothing panics");
    }

    #[test]
    fn the_key_of_a_file_is_part_of_the_format() {
        let mut bytes = [0; 16];
        let one = identity(7, &[(1, 1)], 3);
        let cipher = one.cipher(FileKind::Table, 5, &one.salt().unwrap()).unwrap();
        let tag = cipher.seal(40, b"", &mut bytes);
        assert_eq!(u128::from_le_bytes(bytes), 151575607730055922158249097869030861252);
        assert_eq!(u128::from_le_bytes(tag), 178216023917197106441734296059057287333);
    }
}

//! The header of every file (I11): the kind of file, the version of its format, and the ids of the
//! database and the file.
//!
//! ```text
//! offset  bytes  what
//!      0      8  magic, "CLEAVEDB"
//!      8      4  kind of file, four letters: "MANI" "TABL" "SEGM" "RELO" "CURR" "ASID"
//!                "PROB" "KEYS" "BKPT"
//!     12      2  format version of that kind
//!     14      2  zero
//!     16      8  database id, drawn at creation
//!     24      8  file id
//!     32      8  checksum of the 32 bytes before
//! ```
//!
//! The magic, kind and version are checked before the checksum. A newer format may lay out the rest
//! of the header differently, and must be reported as unsupported, not as corruption.

use super::checksum::checksum64;
use super::coding::Reader;
use super::error::{Error, Result};
use super::pointer::MAX_ID;

/// The size of a header in bytes.
pub const HEADER_BYTES: usize = 40;

const SEED: u64 = 0x6865_6164; // "head"

/// The kind of a file. The four letters of each kind are persistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// The manifest: the durable log of version edits.
    Manifest,
    /// A sorted table.
    Table,
    /// A segment of records.
    Segment,
    /// A relocation: the new places of the records of a freed segment.
    Relocation,
    /// The CURRENT file, which names the manifest in force.
    Current,
    /// The torn tail that recovery cut off the log and kept aside.
    Aside,
    /// A scratch file, which exists only while something is measured.
    Probe,
    /// The KEYS file: the wrapped data keys of an encrypted database.
    Keys,
    /// The description of a point in a backup directory.
    BackupPoint,
}

impl FileKind {
    const ALL: [FileKind; 9] = [
        FileKind::Manifest,
        FileKind::Table,
        FileKind::Segment,
        FileKind::Relocation,
        FileKind::Current,
        FileKind::Aside,
        FileKind::Probe,
        FileKind::Keys,
        FileKind::BackupPoint,
    ];

    pub(super) fn letters(self) -> &'static [u8; 4] {
        match self {
            FileKind::Manifest => b"MANI",
            FileKind::Table => b"TABL",
            FileKind::Segment => b"SEGM",
            FileKind::Relocation => b"RELO",
            FileKind::Current => b"CURR",
            FileKind::Aside => b"ASID",
            FileKind::Probe => b"PROB",
            FileKind::Keys => b"KEYS",
            FileKind::BackupPoint => b"BKPT",
        }
    }

    /// Returns the word for this kind in messages.
    pub fn word(self) -> &'static str {
        match self {
            FileKind::Manifest => "manifest",
            FileKind::Table => "table",
            FileKind::Segment => "segment",
            FileKind::Relocation => "relocation",
            FileKind::Current => "CURRENT file",
            FileKind::Aside => "file of cut bytes",
            FileKind::Probe => "scratch file",
            FileKind::Keys => "KEYS file",
            FileKind::BackupPoint => "backup point",
        }
    }

    /// Returns the format version that this build writes, which is also the newest that it reads.
    pub fn version(self) -> u16 {
        1
    }
}

/// A decoded file header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of the file.
    pub kind: FileKind,
    /// The version of the file's format.
    pub version: u16,
    /// True in CURRENT and manifests of an encrypted database.
    pub is_encrypted: bool,
    /// The id of the database that the file belongs to.
    pub database: u64,
    /// The id of the file, the same as in its name.
    pub file: u64,
}

impl Header {
    /// The bytes that every header begins with.
    pub const MAGIC: &[u8; 8] = b"CLEAVEDB";

    /// Makes the header of a new file in the current format version.
    pub fn new(kind: FileKind, database: u64, file: u64) -> Self {
        Header { kind, version: kind.version(), is_encrypted: false, database, file }
    }

    /// Sets whether the database is encrypted.
    #[must_use]
    pub fn encrypted(self, is_encrypted: bool) -> Self {
        Header { is_encrypted, ..self }
    }

    /// Returns the encoded header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(Self::MAGIC);
        out[8..12].copy_from_slice(self.kind.letters());
        out[12..14].copy_from_slice(&self.version.to_le_bytes());
        out[14..16].copy_from_slice(&u16::from(self.is_encrypted).to_le_bytes());
        out[16..24].copy_from_slice(&self.database.to_le_bytes());
        out[24..32].copy_from_slice(&self.file.to_le_bytes());
        let sum = checksum64(SEED, &out[..32]);
        out[32..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes the header of any file. Returns an error that names the reason if `bytes` are no
    /// valid header or are of a newer format.
    pub fn decode(bytes: &[u8]) -> Result<Header> {
        let mut reader = Reader::new(bytes);
        let foreign = || Error::corruption("this is not a file of CleaveDB: its magic is missing");
        if reader.take(8).map_err(|_| foreign())? != Self::MAGIC {
            return Err(foreign());
        }
        let letters = reader.take(4)?;
        let kind = FileKind::ALL.into_iter().find(|kind| kind.letters() == letters);
        let kind = kind.ok_or_else(|| {
            let name = String::from_utf8_lossy(letters).into_owned();
            Error::unsupported(format!("file kind {name:?} is unknown"))
                .advise("open this database with a newer build")
        })?;
        let version = reader.u16()?;
        // I11: an unknown version is refused with an error that names both versions, before any
        // later field is used.
        if version == 0 || version > kind.version() {
            return Err(Error::unsupported(format!(
                "the {} has format version {version}, this build reads up to {}",
                kind.word(),
                kind.version()
            ))
            .advise("open this database with a newer build"));
        }
        let flags = reader.u16()?;
        let (database, file) = (reader.u64()?, reader.u64()?);
        let header = Header { kind, version, is_encrypted: flags == 1, database, file };
        let stored = reader.u64()?;
        let covered = bytes.get(..32).unwrap_or_default();
        if checksum64(SEED, covered) != stored {
            return Err(Error::corruption("the file header's checksum does not match"));
        }
        if flags > 1 {
            let what = format!("the {} has flags that this build does not know", kind.word());
            return Err(Error::unsupported(what).advise("open this database with a newer build"));
        }
        // I7: whoever forges a header forges its checksum too.
        if header.file > MAX_ID {
            let (kind, id) = (kind.word(), header.file);
            return Err(Error::corruption(format!(
                "the header says {kind} {id}, over the bound of {MAX_ID} for ids"
            )));
        }
        Ok(header)
    }

    /// Decodes a header and checks that kind, database and file id are the expected ones. A file
    /// that was swapped with another one or copied from another database is refused.
    pub fn decode_expected(bytes: &[u8], kind: FileKind, database: u64, file: u64) -> Result<()> {
        Self::decode(bytes)?.check(kind, database, file)
    }

    /// Checks that kind, database and file id are the expected ones.
    pub fn check(&self, kind: FileKind, database: u64, file: u64) -> Result<()> {
        let header = self;
        if header.kind != kind {
            return Err(Error::corruption(format!(
                "this is a {}, where a {} was expected",
                header.kind.word(),
                kind.word()
            )));
        }
        if header.database != database {
            return Err(Error::corruption(format!(
                "the {} belongs to database {:016x}, not to {database:016x}",
                kind.word(),
                header.database
            )));
        }
        if header.file != file {
            return Err(Error::corruption(format!(
                "the file says that it is {} {}, its name says {file}",
                kind.word(),
                header.file
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    #[test]
    fn heads_round_trip_and_every_flip_is_noticed() {
        let header = Header::new(FileKind::Table, 0xfeed, 7);
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        for bit in 0..HEADER_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad).is_err(), "bit {bit}");
        }
        for len in 0..HEADER_BYTES {
            assert!(Header::decode(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn i11_a_newer_format_is_named() {
        let mut header = Header::new(FileKind::Segment, 1, 1);
        header.version = 9;
        let error = Header::decode(&header.encode()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("format version 9"), "{error}");
        assert!(error.to_string().contains("up to 1"), "{error}");
    }

    #[test]
    fn i7_an_id_above_its_bound_is_refused() {
        for kind in FileKind::ALL {
            Header::decode(&Header::new(kind, 1, MAX_ID).encode()).unwrap();
            let error = Header::decode(&Header::new(kind, 1, MAX_ID + 1).encode()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.to_string().contains("over the bound"), "{error}");
        }
    }

    #[test]
    fn a_swapped_file_is_refused() {
        let bytes = Header::new(FileKind::Table, 1, 7).encode();
        Header::decode_expected(&bytes, FileKind::Table, 1, 7).unwrap();
        assert!(Header::decode_expected(&bytes, FileKind::Table, 1, 8).is_err());
        assert!(Header::decode_expected(&bytes, FileKind::Table, 2, 7).is_err());
        assert!(Header::decode_expected(&bytes, FileKind::Segment, 1, 7).is_err());
    }
}

//! The description of a point: which files of the backup make up one whole state of the database.
//!
//! ```text
//! point  = header (40 bytes, kind "BKPT"; its file id is the number of the point; the flag says
//!          whether the database is encrypted) | body
//!        | checksum64 of all before, seeded by seed(database, number of the point) (u64)
//! body   = time, in milliseconds since 1970 | last seqno | id of the manifest (varints)
//!          count of files (varint), and for each, ascending by kind and id: kind (one byte: 1
//!            table, 2 segment, 3 relocation, 4 manifest, 5 KEYS) | id (varint; 0 for KEYS) |
//!            number of the point that copied it | length (varints) | identity (u64) |
//!            checksum (u64) | holes, as in the manifest (count 0 but for segments)
//! ```
//!
//! The *identity* tells files of one name and length apart: the fingerprint of a table or of a
//! relocation, the epoch of a segment, the checksum64 (seeded by the database) of KEYS; 0 for a
//! manifest, which belongs to one point alone. The *checksum* is checksum64 of all bytes of the
//! file in the backup, seeded by seed(database, id). The *holes* are ranges that were not copied
//! and are zeroes in the backup.

use crate::base::checksum::{RunningHash, checksum64, seed};
use crate::base::coding::{Reader, put_varint};
use crate::base::error::{Error, InFile, IoContext, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::key::{MAX_SEQNO, SeqNo};
use crate::base::memory::zeroed;
use crate::base::pointer::{RelocationId, SegmentId, TableId, read_id};
use crate::env::Env;
use crate::version::Holes;
use crate::version::edit::{put_holes, read_holes};
use crate::version::files::names;
use std::path::{Path, PathBuf};

/// The size of one read in bytes.
const PIECE_BYTES: u64 = 256 << 10;
/// The most bytes of a description: more than ten million files.
const MAX_BYTES: u64 = 1 << 30;
const SUM_BYTES: u64 = 8;

/// What a file is in its database. The numbers are persistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredKind {
    /// A sorted table.
    Table = 1,
    /// A segment.
    Segment = 2,
    /// A relocation.
    Relocation = 3,
    /// The manifest of one point.
    Manifest = 4,
    /// The wrapped data keys of an encrypted database.
    Keys = 5,
}

impl StoredKind {
    fn decode(byte: u8) -> Result<StoredKind> {
        Ok(match byte {
            1 => StoredKind::Table,
            2 => StoredKind::Segment,
            3 => StoredKind::Relocation,
            4 => StoredKind::Manifest,
            5 => StoredKind::Keys,
            _ => return Err(Error::corruption(format!("there is no kind {byte} of stored files"))),
        })
    }
}

/// A file of the backup, as a point describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// What the file is.
    pub kind: StoredKind,
    /// The id in its name; 0 for KEYS.
    pub id: u64,
    /// The number of the point that copied it.
    pub copied_by: u64,
    /// The length in bytes.
    pub length: u64,
    /// What tells it apart from others of that name and length.
    pub identity: u64,
    /// The checksum of all its bytes in the backup.
    pub checksum: u64,
    /// The ranges that were not copied.
    pub holes: Holes,
}

impl StoredFile {
    /// Returns the name of the file in its database.
    pub fn name(&self) -> PathBuf {
        let here = Path::new("");
        match self.kind {
            StoredKind::Table => names::table(here, TableId(self.id)),
            StoredKind::Segment => names::segment(here, SegmentId(self.id)),
            StoredKind::Relocation => names::relocation(here, RelocationId(self.id)),
            StoredKind::Manifest => names::manifest(here, self.id),
            StoredKind::Keys => names::KEYS.into(),
        }
    }

    /// Returns the name of the file in the backup directory.
    pub fn stored_name(&self) -> String {
        format!("{:08}-{}", self.copied_by, self.name().display())
    }

    /// Returns true if this file of the backup can stand for the file `wanted` of the database. I5:
    /// what was not copied of it is a hole there too, so no record that lives there is missing.
    pub fn stands_for(&self, wanted: &StoredFile) -> bool {
        let known = |it: &StoredFile| (it.kind, it.id, it.length, it.identity);
        self.kind != StoredKind::Manifest
            && known(self) == known(wanted)
            && self.holes.iter().all(|hole| is_within(*hole, &wanted.holes))
    }

    /// Returns the bytes of the file that are not in holes.
    pub fn copied_bytes(&self) -> u64 {
        self.length.saturating_sub(sum(self.holes.iter().map(|(_, length)| *length)))
    }

    /// Returns the hash that makes [`StoredFile::checksum`] of the file's bytes.
    pub fn hash(&self, database: u64) -> RunningHash {
        RunningHash::with_seed(seed(database, self.id))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        for number in [self.id, self.copied_by, self.length] {
            put_varint(out, number);
        }
        out.extend_from_slice(&self.identity.to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
        put_holes(out, &self.holes);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<StoredFile> {
        let file = StoredFile {
            kind: StoredKind::decode(reader.u8()?)?,
            id: read_id(reader)?,
            copied_by: read_id(reader)?,
            length: reader.varint()?,
            identity: reader.u64()?,
            checksum: reader.u64()?,
            holes: read_holes(reader)?,
        };
        let ends_late = file.holes.last().is_some_and(|(at, len)| at + len > file.length);
        if ends_late || !file.holes.is_empty() && file.kind != StoredKind::Segment {
            return Err(Error::corruption("a stored file has a hole where none can be"));
        }
        Ok(file)
    }
}

/// Adds up numbers that come from a disk and may be anything.
pub fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Returns true if the hole lies in the holes `all`, whose neighbours may touch.
fn is_within((mut at, length): (u64, u64), all: &Holes) -> bool {
    let end = at + length;
    for &(start, len) in &all[all.partition_point(|(start, len)| start + len <= at)..] {
        if start > at {
            return false;
        }
        at = start + len;
        if at >= end {
            return true;
        }
    }
    false
}

/// The description of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointDescription {
    /// The id of the database.
    pub database: u64,
    /// The number of the point.
    pub number: u64,
    /// True if the database is encrypted.
    pub is_encrypted: bool,
    /// The time when it was made, in milliseconds since 1970.
    pub time_millis: u64,
    /// The sequence number of the last commit in it.
    pub seqno: SeqNo,
    /// The id of the manifest that a restore puts in force.
    pub manifest: u64,
    /// The files, ascending by kind and id.
    pub files: Vec<StoredFile>,
}

impl PointDescription {
    /// Returns the bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let header = Header::new(FileKind::BackupPoint, self.database, self.number);
        let mut out = header.encrypted(self.is_encrypted).encode().to_vec();
        for number in [self.time_millis, self.seqno, self.manifest, self.files.len() as u64] {
            put_varint(&mut out, number);
        }
        self.files.iter().for_each(|file| file.encode(&mut out));
        let sum = checksum64(seed(self.database, self.number), &out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the description of point `number` from `path`. I7: no length in the file is used, and
    /// no memory taken for it, before the checksum was found to hold.
    pub fn read(env: &Env, path: &Path, number: u64) -> Result<PointDescription> {
        let file = env.fs.open(path).doing("open", path)?;
        let length = file.len().doing("measure", path)?;
        let covered = length.saturating_sub(SUM_BYTES);
        if length > MAX_BYTES {
            let what = format!("no description of a point has {length} bytes");
            return Err(Error::corruption(what).in_file(path));
        }
        let mut head = vec![0; HEADER_BYTES.min(usize::try_from(length).unwrap_or(HEADER_BYTES))];
        file.read_exact_at(&mut head, 0).doing("read", path)?;
        let header = Header::decode(&head).in_file(path)?;
        header.check(FileKind::BackupPoint, header.database, number).in_file(path)?;
        let mut hash = RunningHash::with_seed(seed(header.database, number));
        let mut piece = vec![0; usize::try_from(PIECE_BYTES.min(covered)).unwrap_or_default()];
        let mut offset = 0;
        while offset < covered {
            let part = usize::try_from(PIECE_BYTES.min(covered - offset)).unwrap_or_default();
            file.read_exact_at(&mut piece[..part], offset).doing("read", path)?;
            hash.update(&piece[..part]);
            offset += part as u64;
        }
        let mut sum = [0; SUM_BYTES as usize];
        file.read_exact_at(&mut sum, covered).doing("read", path)?;
        if hash.checksum64() != u64::from_le_bytes(sum) {
            let what = "the checksum of the description of a point does not match";
            return Err(Error::corruption(what).in_file(path));
        }
        let mut bytes = zeroed(covered)?;
        file.read_exact_at(&mut bytes, 0).doing("read", path)?;
        Self::decode_body(&header, bytes.get(HEADER_BYTES..).unwrap_or_default()).in_file(path)
    }

    /// Decodes what lies between header and checksum, which were verified before (I7).
    pub(crate) fn decode_body(header: &Header, body: &[u8]) -> Result<PointDescription> {
        let mut reader = Reader::new(body);
        let (time_millis, seqno) = (reader.varint()?, reader.varint()?);
        let manifest = read_id(&mut reader)?;
        // A file takes more than one byte, which bounds the count.
        let count = reader.length(reader.rest().len())?;
        let mut files: Vec<StoredFile> = Vec::new();
        for _ in 0..count {
            let file = StoredFile::decode(&mut reader)?;
            let order = |it: &StoredFile| (it.kind, it.id);
            if files.last().is_some_and(|last| order(last) >= order(&file)) {
                return Err(Error::corruption("the files of a point are not in order"));
            }
            files.push(file);
        }
        reader.finish("the description of a point")?;
        let Header { database, file: number, is_encrypted, .. } = *header;
        let point = PointDescription {
            database,
            number,
            is_encrypted,
            time_millis,
            seqno,
            manifest,
            files,
        };
        point.check()?;
        Ok(point)
    }

    /// Checks what a restore relies on.
    fn check(&self) -> Result<()> {
        let ids = |kind| {
            let files = self.files.iter().filter(move |file| file.kind == kind);
            files.map(|file| file.id).collect::<Vec<_>>()
        };
        let has_keys = ids(StoredKind::Keys) == [0];
        let is_later = self.files.iter().any(|file| file.copied_by > self.number);
        let is_sound = ids(StoredKind::Manifest) == [self.manifest]
            && (has_keys || ids(StoredKind::Keys).is_empty())
            && has_keys == self.is_encrypted
            && self.seqno <= MAX_SEQNO;
        if is_sound && !is_later {
            return Ok(());
        }
        Err(Error::corruption("the description of a point contradicts itself"))
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        sum(self.files.iter().map(|file| file.length))
    }

    /// Returns the files that were copied for this point.
    pub fn added(&self) -> impl Iterator<Item = &StoredFile> {
        self.files.iter().filter(|file| file.copied_by == self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    fn stored(kind: StoredKind, id: u64) -> StoredFile {
        let holes = Holes::default();
        StoredFile { kind, id, copied_by: 2, length: 65536, identity: 7, checksum: 9, holes }
    }

    fn punched(holes: &[(u64, u64)]) -> StoredFile {
        StoredFile { holes: holes.into(), ..stored(StoredKind::Segment, 3) }
    }

    fn description() -> PointDescription {
        let files = vec![
            stored(StoredKind::Table, 5),
            punched(&[(4096, 8192), (20480, 4096)]),
            stored(StoredKind::Manifest, 8),
            stored(StoredKind::Keys, 0),
        ];
        PointDescription {
            database: 77,
            number: 4,
            is_encrypted: true,
            time_millis: 1_700_000_000_000,
            seqno: 1234,
            manifest: 8,
            files,
        }
    }

    fn read_back(bytes: &[u8]) -> Result<PointDescription> {
        let (env, simulation) = Env::simulated(1);
        simulation.run(|| {
            let path = Path::new("00000004.point");
            env.fs.create(path).unwrap().write_at(bytes, 0).unwrap();
            PointDescription::read(&env, path, 4)
        })
    }

    #[test]
    fn a_description_round_trips_and_every_flip_is_noticed() {
        let bytes = description().encode();
        assert_eq!(read_back(&bytes).unwrap(), description());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read_back(&bad).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(read_back(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn i11_a_newer_description_is_named() {
        let mut bytes = description().encode();
        bytes[12] = 9;
        assert_eq!(read_back(&bytes).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn i07_a_description_that_contradicts_itself_is_refused() {
        let broken: [fn(&mut PointDescription); 8] = [
            |it| it.manifest = 9,
            |it| it.is_encrypted = false,
            |it| drop(it.files.pop()),
            |it| it.files.swap(0, 1),
            |it| it.files[0].copied_by = 5,
            |it| it.seqno = MAX_SEQNO + 1,
            |it| it.files[0].holes = [(4096, 4096)].as_slice().into(),
            |it| it.files[1].holes = [(61440, 8192)].as_slice().into(),
        ];
        for (number, spoil) in broken.into_iter().enumerate() {
            let mut point = description();
            spoil(&mut point);
            let error = read_back(&point.encode()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{number}: {error}");
        }
    }

    #[test]
    fn i05_a_file_stands_for_those_with_at_least_its_holes() {
        let whole = punched(&[]);
        let few = punched(&[(4096, 8192)]);
        let split = punched(&[(4096, 4096), (8192, 4096), (20480, 4096)]);
        assert!(whole.stands_for(&whole) && whole.stands_for(&few) && whole.stands_for(&split));
        assert!(few.stands_for(&few) && few.stands_for(&split));
        assert!(!few.stands_for(&whole), "the bytes of the hole are missing");
        assert!(!split.stands_for(&few) && !punched(&[(8192, 8192)]).stands_for(&few));
        for other in [
            StoredFile { id: 4, ..few.clone() },
            StoredFile { length: 65537, ..few.clone() },
            StoredFile { identity: 8, ..few.clone() },
            StoredFile { kind: StoredKind::Table, ..few.clone() },
        ] {
            assert!(!few.stands_for(&other), "{other:?}");
        }
        let manifest = stored(StoredKind::Manifest, 8);
        assert!(!manifest.stands_for(&manifest), "each point has one of its own");
    }
}

//! Reads one record by its pointer: from the file with one read, or from the write buffer while the
//! record is still there.
//!
//! I3: a pointer yields exactly the record it was made for, or an error that names the file and the
//! offset. The checksum detects corruption and holes; the keyspace, key and sequence number inside
//! the record detect a pointer that leads to another record.
//!
//! Locks: none for bytes in the file, else the leaf lock of `tail.rs`.

use super::format::{HEAD_BYTES, SegmentHead, SegmentIdentity, SegmentKind};
use super::record::{MAX_RECORD_BYTES, MIN_RECORD_BYTES, RecordSeal, RecordView};
use super::scan::read_head;
use super::tail::{BytesLocation, LiveTail};
use crate::base::compression::{Codec, decompress};
use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::memory::zeroed;
use crate::base::pointer::{KeyspaceId, SegmentId, ValuePointer};
use crate::base::seal::DatabaseIdentity;
use crate::base::value::Value;
use crate::cache::WalkFile;
use crate::env::fs::File;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The source of a segment's open file; in production a cache of open files.
pub trait FileSource: Send + Sync {
    /// Returns the open file.
    fn file(&self) -> Result<Arc<dyn File>>;
    /// Opens the file once more, for one walk that reads it in sequence; `None` if the walk has to
    /// do with the shared file.
    fn open_for_walk(&self) -> Option<WalkFile>;
}

impl FileSource for Arc<dyn File> {
    fn file(&self) -> Result<Arc<dyn File>> {
        Ok(Arc::clone(self))
    }

    fn open_for_walk(&self) -> Option<WalkFile> {
        None
    }
}

/// A value whose record was verified.
pub enum VerifiedValue {
    /// The value is stored as it is: the last bytes of the record, so many.
    Plain {
        /// The length of the value.
        len: usize,
    },
    /// The value was compressed or encrypted.
    Owned(Value),
}

/// A readable segment; it is live while a [`super::SegmentWriter`] appends to it.
pub struct Segment {
    identity: SegmentIdentity,
    path: PathBuf,
    source: Arc<dyn FileSource>,
    seal: RecordSeal,
    tail: Option<LiveTail>,
}

impl Segment {
    /// Creates a handle of a segment that is no longer written.
    pub fn open(identity: SegmentIdentity, path: PathBuf, source: Arc<dyn FileSource>) -> Segment {
        Segment { identity, path, source, seal: identity.epoch.into(), tail: None }
    }

    /// Creates a handle of a segment that is about to be written; its writer's buffer is read
    /// through it.
    pub fn for_writing(
        identity: SegmentIdentity,
        path: PathBuf,
        source: Arc<dyn FileSource>,
    ) -> Segment {
        let tail = Some(LiveTail::new(HEAD_BYTES as u64));
        Segment { identity, path, source, seal: identity.epoch.into(), tail }
    }

    /// Sets what seals the records, if the database is encrypted.
    #[must_use]
    pub fn sealed_by(self, database: &DatabaseIdentity) -> Segment {
        debug_assert_eq!(database.id, self.identity.database, "the keys of another database");
        let seal = RecordSeal::of(database, self.identity.id, self.identity.epoch);
        Segment { seal, ..self }
    }

    /// Returns the seal of the records.
    pub fn seal(&self) -> &RecordSeal {
        &self.seal
    }

    pub(super) fn tail(&self) -> Option<&LiveTail> {
        self.tail.as_ref()
    }

    /// Returns the identity that the head must match.
    pub fn identity(&self) -> SegmentIdentity {
        self.identity
    }

    /// Returns the segment's id.
    pub fn id(&self) -> SegmentId {
        self.identity.id
    }

    /// Returns the id of the database that the segment belongs to.
    pub fn database(&self) -> u64 {
        self.identity.database
    }

    /// Returns the length in bytes with what is buffered, if the segment is being written; else 0.
    pub fn appended(&self) -> u64 {
        self.tail.as_ref().map_or(0, LiveTail::appended)
    }

    /// Returns the order of the segment's records.
    pub fn kind(&self) -> SegmentKind {
        self.identity.kind
    }

    /// Returns the seed of the segment's checksums.
    pub fn epoch(&self) -> u64 {
        self.identity.epoch
    }

    /// Returns how many bytes are in the file if the segment is being written; else `None`.
    pub fn written(&self) -> Option<u64> {
        self.tail.as_ref().map(LiveTail::written)
    }

    /// Returns the offset where the commits that readers see end, if this process wrote the
    /// segment; else `None`.
    pub fn committed(&self) -> Option<u64> {
        self.tail.as_ref().map(LiveTail::committed)
    }

    /// Reads the head; returns `None` if the segment was never begun.
    pub fn read_head(&self) -> Result<Option<SegmentHead>> {
        let SegmentIdentity { database, id, .. } = self.identity;
        read_head(&*self.source.file()?, &self.path, database, id)
    }

    /// Fills `room` with the bytes at `offset`, buffered or not.
    pub(super) fn read_exact(&self, room: &mut [u8], offset: u64) -> Result<()> {
        let len = room.len();
        let place = self.tail.as_ref().map_or(BytesLocation::File, |tail| tail.find(offset, len));
        let missing = match place {
            BytesLocation::File => len,
            BytesLocation::Memory { bytes, missing } => {
                room[missing..].copy_from_slice(&bytes[missing..]);
                missing
            }
            BytesLocation::Nowhere => {
                let error = Error::corruption("the end of the log was cut off");
                return Err(error.in_file(&self.path).at(offset));
            }
        };
        if missing == 0 {
            return Ok(());
        }
        let file = self.source.file()?;
        file.read_exact_at(&mut room[..missing], offset).doing("read the segment", &self.path)
    }

    /// Returns the path of the segment's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the keyspace of the record that `pointer` leads to; salvage uses it when the
    /// keyspace is unknown.
    pub fn keyspace_of(&self, pointer: ValuePointer) -> Result<KeyspaceId> {
        let record = self.open_record(Cow::Owned(self.fetch(pointer)?), pointer)?;
        self.decode(&record, pointer).map(|record| record.keyspace)
    }

    /// Reads the value that `pointer` leads to, for an entry of this keyspace, key and sequence
    /// number; any other record there is corruption (I3).
    pub fn read_value(
        &self,
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
    ) -> Result<Value> {
        let buffer = self.fetch(pointer)?;
        self.verify_value(buffer, pointer, keyspace, key, seqno)
    }

    /// Does as [`Segment::read_value`], but passes the value's bytes to `take` instead of returning
    /// an owned value.
    pub fn read_value_pinned<R>(
        &self,
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        let buffer = self.open_record(Cow::Owned(self.fetch(pointer)?), pointer)?;
        let stored = self.check_record(&buffer, pointer, keyspace, key, seqno)?;
        if stored.codec == Codec::None {
            return Ok(take(&buffer[buffer.len() - stored.stored_len..]));
        }
        let value = stored.copy_value(&buffer).map_err(|error| self.place(error, pointer))?;
        Ok(take(&value))
    }

    /// Returns the value in `buffer`, the bytes that a batch read fetched for `pointer`; verified
    /// as in [`Segment::read_value`].
    pub fn verify_value(
        &self,
        buffer: Vec<u8>,
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
    ) -> Result<Value> {
        let record = self.open_record(Cow::Owned(buffer), pointer)?;
        let stored = self.check_record(&record, pointer, keyspace, key, seqno)?;
        stored.into_value(record).map_err(|error| self.place(error, pointer))
    }

    /// Does as [`Segment::verify_value`] for a borrowed record; copies the value only if it is not
    /// stored as it is.
    pub fn verify_slice(
        &self,
        record: &[u8],
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
    ) -> Result<VerifiedValue> {
        let record = self.open_record(Cow::Borrowed(record), pointer)?;
        let stored = self.check_record(&record, pointer, keyspace, key, seqno)?;
        if stored.codec == Codec::None && matches!(record, Cow::Borrowed(_)) {
            return Ok(VerifiedValue::Plain { len: stored.stored_len });
        }
        let value = stored.into_value(record).map_err(|error| self.place(error, pointer))?;
        Ok(VerifiedValue::Owned(value))
    }

    /// Reads the stored bytes of the record that `pointer` leads to; verified as in
    /// [`Segment::read_value`].
    pub fn read_record(
        &self,
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
    ) -> Result<Vec<u8>> {
        let buffer = self.fetch(pointer)?;
        self.check_slice(&buffer, pointer, keyspace, key, seqno)?;
        Ok(buffer)
    }

    /// Verifies a record that the caller has read, as [`Segment::read_value`] does.
    pub fn check_slice(
        &self,
        record: &[u8],
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
    ) -> Result<()> {
        let record = self.open_record(Cow::Borrowed(record), pointer)?;
        self.check_record(&record, pointer, keyspace, key, seqno).map(|_| ())
    }

    /// Verifies a record that was read as it is stored, and decrypts it if it is encrypted.
    fn open_record<'b>(
        &self,
        mut record: Cow<'b, [u8]>,
        pointer: ValuePointer,
    ) -> Result<Cow<'b, [u8]>> {
        if record.len() != pointer.length as usize {
            let error = Error::corruption("the bytes read are not as many as the pointer says");
            return Err(self.place(error, pointer));
        }
        // I7: the pointer gives the extent, so the checksum is verified before any field is read.
        let verified = self.seal.verify(&record, pointer.offset);
        let opened = verified.and_then(|()| match self.seal.is_encrypted() {
            true => self.seal.decrypt(record.to_mut(), pointer.offset),
            false => Ok(()),
        });
        opened.map_err(|error| self.place(error, pointer))?;
        Ok(record)
    }

    /// I3: a record of another entry is an error and is never handed out as this entry's value.
    /// Requires: `bytes` come from [`Segment::open_record`].
    fn check_record(
        &self,
        bytes: &[u8],
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
    ) -> Result<ValueLayout> {
        let record = self.decode(bytes, pointer)?;
        let found = (record.kind.has_value(), record.keyspace, record.key);
        // A record that was ingested was written before its number was known. It has the number 0,
        // which no commit has.
        let is_of = record.seqno == seqno || record.seqno == 0;
        if found == (true, keyspace, key) && is_of {
            return Ok(ValueLayout::of(&record));
        }
        let what = format!(
            "a pointer of keyspace {keyspace}, sequence number {seqno}, leads to a record of \
             another entry (keyspace {}, sequence number {})",
            record.keyspace, record.seqno
        );
        Err(self.place(Error::corruption(what), pointer))
    }

    /// Returns true if the record can be read from the file, for a batch read. While part of it is
    /// still buffered it can't, but then [`Segment::read_value`] hardly waits for the device.
    pub fn is_in_file(&self, pointer: ValuePointer) -> Result<bool> {
        let end = self.check(pointer)?;
        Ok(self.tail.as_ref().is_none_or(|tail| end <= tail.written()))
    }

    /// Returns the open file.
    pub fn file(&self) -> Result<Arc<dyn File>> {
        self.source.file()
    }

    /// Opens the file once more, for one walk that reads it in sequence; `None` if the walk has to
    /// do with [`Segment::file`].
    pub fn open_for_walk(&self) -> Option<WalkFile> {
        self.source.open_for_walk()
    }

    /// Bounds a pointer before memory is allocated for it (I7); returns the offset where its record
    /// ends.
    fn check(&self, pointer: ValuePointer) -> Result<u64> {
        let wrong = |why: &str| Err(self.place(Error::corruption(why), pointer));
        if pointer.segment != self.identity.id {
            return wrong("a pointer into another segment was followed here");
        }
        if !(MIN_RECORD_BYTES..=MAX_RECORD_BYTES).contains(&(pointer.length as usize)) {
            return wrong("a pointer has the length of no record");
        }
        match pointer.offset.checked_add(pointer.length.into()) {
            Some(end) if pointer.offset >= HEAD_BYTES as u64 => Ok(end),
            _ => wrong("a pointer has the offset of no record"),
        }
    }

    /// Fetches the bytes of the record: with one read, or with none if the write buffer has them.
    fn fetch(&self, pointer: ValuePointer) -> Result<Vec<u8>> {
        self.check(pointer)?;
        let len = pointer.length as usize;
        let place =
            self.tail.as_ref().map_or(BytesLocation::File, |tail| tail.find(pointer.offset, len));
        let (mut buffer, missing) = match place {
            BytesLocation::File => {
                (zeroed(len as u64).map_err(|error| self.place(error, pointer))?, len)
            }
            BytesLocation::Memory { bytes, missing } => (bytes, missing),
            BytesLocation::Nowhere => {
                let error = Error::corruption("a pointer leads behind the end of the segment");
                return Err(self.place(error, pointer));
            }
        };
        if let Some(wanted) = buffer.get_mut(..missing).filter(|wanted| !wanted.is_empty()) {
            let file = self.source.file()?;
            let read = file.read_at(wanted, pointer.offset).doing("read a record", &self.path)?;
            if read < missing {
                let short = missing - read;
                let error = Error::corruption(format!("the file ends {short} bytes too early"));
                return Err(self.place(error, pointer));
            }
        }
        Ok(buffer)
    }

    fn decode<'b>(&self, buffer: &'b [u8], pointer: ValuePointer) -> Result<RecordView<'b>> {
        RecordView::opened(buffer, &self.seal, pointer.offset)
            .map_err(|error| self.place(error, pointer))
    }

    fn place(&self, error: Error, pointer: ValuePointer) -> Error {
        let error = error.in_file(&self.path).at(pointer.offset);
        match error.kind() {
            ErrorKind::Corruption => error.advise(RESTORE),
            _ => error,
        }
    }
}

/// The advice in errors about a segment whose content is not valid.
pub(super) const RESTORE: &str = "restore this file from a checkpoint, or repair the database";

/// The extent and encoding of the value at the end of a record.
struct ValueLayout {
    codec: Codec,
    raw_len: usize,
    stored_len: usize,
}

impl ValueLayout {
    fn of(record: &RecordView<'_>) -> ValueLayout {
        let (raw_len, stored_len) = (record.raw_len as usize, record.value.len());
        ValueLayout { codec: record.codec, raw_len, stored_len }
    }

    /// Returns the value in `record`, without a copy if that is owned and not compressed.
    fn into_value(self, record: Cow<'_, [u8]>) -> Result<Value> {
        match record {
            Cow::Owned(record) if self.codec == Codec::None => {
                let range = record.len() - self.stored_len..record.len();
                Ok(Value::from_buffer(record, range))
            }
            record => self.copy_value(&record),
        }
    }

    fn copy_value(self, record: &[u8]) -> Result<Value> {
        let stored = &record[record.len() - self.stored_len..];
        Ok(decompress(self.codec, stored, self.raw_len)?.into())
    }
}

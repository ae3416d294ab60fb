//! Tests of segments: exactly what was written is read back.

mod appending;
mod damage;
mod encryption;
mod scanning;
mod sorting;

use super::frame::{FRAME_HEADER_BYTES, FrameHeader};
use super::scan::ScanEnd;
use super::writer::DIRECT_VALUE_BYTES;
use super::*;
use crate::base::error::Result;
use crate::base::pointer::{KeyspaceId, SegmentId, ValuePointer};
use crate::env::fs::{AccessPattern, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// An in-memory file that counts calls and fails the writes and syncs that a test selects.
#[derive(Default)]
pub(super) struct FaultyFile {
    bytes: Mutex<Vec<u8>>,
    writes: AtomicU64,
    reads: AtomicU64,
    syncs: AtomicU64,
    /// Offset and length of each writeback.
    writebacks: Mutex<Vec<(u64, u64)>>,
    /// The number of syncs before the last writeback.
    synced_before: AtomicU64,
    /// Writes from this number on fail after half of their bytes; 0 = none.
    fail_writes_from: AtomicU64,
    fail_syncs: AtomicU64,
    fail_write_out: AtomicBool,
}

impl FaultyFile {
    fn of(bytes: Vec<u8>) -> Arc<FaultyFile> {
        Arc::new(FaultyFile { bytes: Mutex::new(bytes), ..FaultyFile::default() })
    }

    fn content(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl File for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.fetch_add(1, SeqCst);
        let bytes = self.bytes.lock().unwrap();
        let from = bytes.len().min(offset as usize);
        let len = buf.len().min(bytes.len() - from);
        buf[..len].copy_from_slice(&bytes[from..from + len]);
        Ok(len)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let number = self.writes.fetch_add(1, SeqCst) + 1;
        let fail_from = self.fail_writes_from.load(SeqCst);
        let fails = fail_from != 0 && number >= fail_from;
        let buf = if fails { &buf[..buf.len() / 2] } else { buf };
        let mut bytes = self.bytes.lock().unwrap();
        let end = offset as usize + buf.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(buf);
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
    fn write_out(&self) -> io::Result<()> {
        match self.fail_write_out.load(SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, SeqCst);
        if self.fail_syncs.load(SeqCst) > 0 { Err(io::Error::other("sync")) } else { Ok(()) }
    }
    fn start_writeback(&self, offset: u64, len: u64) {
        self.synced_before.store(self.syncs.load(SeqCst), SeqCst);
        self.writebacks.lock().unwrap().push((offset, len));
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }
    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }
    fn links(&self) -> io::Result<u64> {
        Ok(1)
    }
    fn advise(&self, _: AccessPattern) {}
    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

fn head(kind: SegmentKind) -> SegmentHead {
    SegmentHead {
        database: 0xdb,
        id: SegmentId(5),
        kind,
        is_encrypted: false,
        epoch: 0x1234_5678_9abc_def0,
        first_seqno: if kind == SegmentKind::Log { 1 } else { 0 },
        previous: None,
        previous_bytes: 0,
        first_unsynced: None,
    }
}

const KS: KeyspaceId = KeyspaceId(3);

fn path() -> PathBuf {
    PathBuf::from("000005.seg")
}

/// Tiny buffers, so that even small tests overflow them.
const SMALL: WriterSettings = WriterSettings {
    buffer_bytes: 256,
    writeback_bytes: 1024,
    prepare_bytes: 700,
    most_prepared_bytes: 1 << 20,
};

fn start_with(settings: WriterSettings, head: &SegmentHead) -> (Arc<FaultyFile>, SegmentWriter) {
    let file = Arc::new(FaultyFile::default());
    let held: Arc<dyn File> = file.clone();
    let source = Arc::new(held.clone());
    let segment = Arc::new(Segment::for_writing(head.identity(), path(), source));
    let writer = SegmentWriter::activate(held, segment, head, settings).unwrap();
    (file, writer)
}

fn start() -> (Arc<FaultyFile>, SegmentWriter) {
    start_with(WriterSettings::default(), &head(SegmentKind::Log))
}

/// Appends a frame of one put; returns the pointer to its record.
fn put(writer: &mut SegmentWriter, seqno: u64, key: &[u8], value: &[u8]) -> Result<ValuePointer> {
    let mut pointers = Vec::new();
    writer.append(seqno, &[RecordInput::put(KS, key, value)], &mut pointers)?;
    Ok(pointers[0])
}

/// Hands everything to the system and syncs it, as a commit with `Durability::Sync` does.
fn sync(writer: &mut SegmentWriter) -> Result<()> {
    writer.write_out()?;
    writer.syncer().sync()
}

fn reopen(bytes: Vec<u8>) -> (Arc<FaultyFile>, Segment) {
    let file = FaultyFile::of(bytes);
    let held: Arc<dyn File> = file.clone();
    let head = read_head(&*file, &path(), 0xdb, SegmentId(5)).unwrap().unwrap();
    (file, Segment::open(head.identity(), path(), Arc::new(held)))
}

/// A scanned record: sequence number, key, value.
type Found = (u64, Vec<u8>, Vec<u8>);

fn scan_bytes(bytes: &[u8], mode: ScanMode) -> (Result<ScanEnd>, Vec<Found>) {
    let file = FaultyFile::of(bytes.to_vec());
    let mut found = Vec::new();
    let head = match read_head(&*file, &path(), 0xdb, SegmentId(5)) {
        Ok(head) => head.unwrap(),
        Err(error) => return (Err(error), found),
    };
    let mut each = |frame: &Frame<'_>| {
        for record in &frame.records {
            found.push((record.seqno, record.key.to_vec(), record.value.to_vec()));
        }
        Ok(())
    };
    let path = Path::new("000005.seg");
    let end =
        scan(&*file, path, &head, &head.epoch.into(), mode, ScanStart::first(&head), &mut each);
    (end, found)
}

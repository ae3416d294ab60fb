//! Encrypted segments: they read like others, show nothing, and cannot be forged.

use super::*;
use crate::base::checksum::{checksum32, seed};
use crate::base::error::ErrorKind;
use crate::base::seal::DatabaseIdentity;
use crate::segment::VerifiedValue;
use std::collections::BTreeSet;

const DATABASE: u64 = 0xdb;

fn seal(is_encrypted: bool, epoch: u64) -> RecordSeal {
    let identity =
        if is_encrypted { DatabaseIdentity::encrypted(DATABASE) } else { DATABASE.into() };
    RecordSeal::of(&identity, SegmentId(5), epoch)
}

fn encrypted_head() -> SegmentHead {
    SegmentHead { is_encrypted: true, ..head(SegmentKind::Log) }
}

fn sealed_segment(head: &SegmentHead, file: &Arc<FaultyFile>) -> Segment {
    let held: Arc<dyn File> = file.clone();
    let segment = Segment::open(head.identity(), path(), Arc::new(held));
    segment.sealed_by(&DatabaseIdentity::encrypted(DATABASE))
}

/// Returns an encrypted log with a frame for each value, and the pointers to its records.
fn log_of(values: &[&[u8]]) -> (Arc<FaultyFile>, Vec<ValuePointer>) {
    let (file, head) = (Arc::new(FaultyFile::default()), encrypted_head());
    let held: Arc<dyn File> = file.clone();
    let segment = Segment::for_writing(head.identity(), path(), Arc::new(held.clone()));
    let segment = Arc::new(segment.sealed_by(&DatabaseIdentity::encrypted(DATABASE)));
    let mut writer = SegmentWriter::activate(held, segment, &head, SMALL).unwrap();
    let mut pointers = Vec::new();
    for (seqno, value) in (1..).zip(values) {
        let pointer = put(&mut writer, seqno, b"a secret key", value).unwrap();
        let buffered = writer.segment().read_value(pointer, KS, b"a secret key", seqno).unwrap();
        assert_eq!(&buffered[..], *value, "read while it is written");
        pointers.push(pointer);
    }
    writer.write_out().unwrap();
    (file, pointers)
}

/// Scans a segment as the tail of the log; returns the result and the values.
fn scan_tail(bytes: &[u8], seal: &RecordSeal) -> (Result<ScanEnd>, Vec<Vec<u8>>) {
    let file = FaultyFile::of(bytes.to_vec());
    let head = read_head(&*file, &path(), DATABASE, SegmentId(5)).unwrap().unwrap();
    let mut found = Vec::new();
    let mut each = |frame: &Frame<'_>| {
        found.extend(frame.records.iter().map(|record| record.value.to_vec()));
        Ok(())
    };
    let first = ScanStart::first(&head);
    let end = scan(&*file, &path(), &head, seal, ScanMode::Tail, first, &mut each);
    (end, found)
}

#[test]
fn records_read_as_they_were_written_and_show_nothing() {
    let large = vec![7; DIRECT_VALUE_BYTES + 1];
    let values: [&[u8]; 4] = [b"a secret value", b"", &[9; 3000], &large];
    let (file, pointers) = log_of(&values);
    let bytes = file.content();
    assert!(!bytes.windows(6).any(|window| window == b"secret"));
    assert!(!bytes.windows(30).any(|window| window == [7; 30] || window == [9; 30]));
    let segment = sealed_segment(&encrypted_head(), &file);
    for ((seqno, value), &pointer) in (1..).zip(values).zip(&pointers) {
        let key = b"a secret key";
        let stored = &bytes[pointer.offset as usize..][..pointer.length as usize];
        let read = segment.read_value(pointer, KS, key, seqno).unwrap();
        assert_eq!(&read[..], value);
        let verified = segment.verify_slice(stored, pointer, KS, key, seqno).unwrap();
        // What is encrypted can't be lent.
        assert!(matches!(verified, VerifiedValue::Owned(found) if found[..] == value[..]));
        let stored = stored.to_vec();
        assert_eq!(&segment.verify_value(stored, pointer, KS, key, seqno).unwrap()[..], value);
        assert!(segment.read_value(pointer, KS, b"another", seqno).is_err(), "I3");
        let pinned = segment.read_value_pinned(pointer, KS, key, seqno, <[u8]>::to_vec);
        assert_eq!(pinned.unwrap(), value);
        assert_eq!(segment.keyspace_of(pointer).unwrap(), KS);
    }
    let (end, found) = scan_tail(&bytes, segment.seal());
    assert_eq!(end.unwrap().tail, ScanTail::Clean);
    assert_eq!(found, values);
}

/// A record whose checksum holds and whose tag does not was forged. It must never be taken for the
/// torn end of a log: whoever can write to the directory could make commits vanish without a word.
#[test]
fn what_is_forged_is_no_torn_tail() {
    let (file, pointers) = log_of(&[b"first", b"second", b"third"]);
    let good = file.content();
    let seal = seal(true, encrypted_head().epoch);
    let segment_end = pointers[2].offset as usize + pointers[2].length as usize;
    for pointer in &pointers[1..] {
        let (from, len) = (pointer.offset as usize, pointer.length as usize);
        for at in from + 4..from + len {
            let mut torn = good.clone();
            torn[at] ^= 1;
            let (end, found) = scan_tail(&torn[..segment_end], &seal);
            let end = end.unwrap();
            assert!(matches!(end.tail, ScanTail::Torn { .. }), "byte {at} with a bad checksum");
            assert!(found.len() < 3);
            let sum = checksum32(seed(seal.epoch(), pointer.offset), &torn[from + 4..from + len]);
            torn[from..from + 4].copy_from_slice(&sum.to_le_bytes());
            let (end, found) = scan_tail(&torn[..segment_end], &seal);
            // A forged length or kind makes another record of it, which ends elsewhere.
            match end {
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported),
                    "{error}"
                ),
                Ok(_) => assert!(found.len() < 3 && at < from + 26, "byte {at} goes unnoticed"),
            }
            let file = FaultyFile::of(torn);
            let segment = sealed_segment(&encrypted_head(), &file);
            let seqno = if pointer == &pointers[1] { 2 } else { 3 };
            assert!(segment.read_value(*pointer, KS, b"a secret key", seqno).is_err(), "{at}");
        }
    }
}

#[test]
fn a_record_opens_in_its_place_only() {
    let (file, pointers) = log_of(&[b"same", b"same"]);
    let mut bytes = file.content();
    let [first, second] = [pointers[0], pointers[1]];
    assert_eq!(first.length, second.length);
    let len = first.length as usize;
    let moved = bytes[first.offset as usize..][..len].to_vec();
    bytes[second.offset as usize..][..len].copy_from_slice(&moved);
    let covered = &bytes[second.offset as usize + 4..][..len - 4];
    let epoch = encrypted_head().epoch;
    let sum = checksum32(seed(epoch, second.offset), covered).to_le_bytes();
    bytes[second.offset as usize..][..4].copy_from_slice(&sum);
    let segment = sealed_segment(&encrypted_head(), &FaultyFile::of(bytes));
    assert!(segment.read_value(first, KS, b"a secret key", 1).is_ok());
    let error = segment.read_value(second, KS, b"a secret key", 1).unwrap_err();
    assert!(error.message().contains("do not open"), "{error}");
}

#[test]
fn a_segment_that_is_not_as_its_database_says_is_refused() {
    let (file, _) = log_of(&[b"value"]);
    let plain = seal(false, encrypted_head().epoch);
    let error = scan_tail(&file.content(), &plain).0.unwrap_err();
    assert!(error.message().contains("is encrypted"), "{error}");
    let (file, mut writer) = start();
    put(&mut writer, 1, b"key", b"value").unwrap();
    writer.write_out().unwrap();
    let sealed = seal(true, encrypted_head().epoch);
    let error = scan_tail(&file.content(), &sealed).0.unwrap_err();
    assert!(error.message().contains("not encrypted"), "{error}");
}

/// Copies go between encrypted and other segments: an ingest takes files that are not encrypted.
#[test]
fn copies_are_sealed_as_their_segment_is() {
    let value = [5; 500];
    for (from, to) in [(true, true), (false, true), (true, false), (false, false)] {
        let (bytes, pointer) = match from {
            true => {
                let (file, pointers) = log_of(&[&value]);
                (file.content(), pointers[0])
            }
            false => {
                let (file, mut writer) = start();
                let pointer = put(&mut writer, 1, b"a secret key", &value).unwrap();
                writer.write_out().unwrap();
                (file.content(), pointer)
            }
        };
        let file = Arc::new(FaultyFile::default());
        let sorted = SegmentHead { epoch: 77, ..head(SegmentKind::Sorted) };
        let identity = sorted.identity();
        let mut writer =
            SortedWriter::create(file.clone(), &path(), identity, seal(to, 77)).unwrap();
        let record = &bytes[pointer.offset as usize..][..pointer.length as usize];
        let from_seal = seal(from, encrypted_head().epoch);
        let unwanted = writer.copy_if(record, &from_seal, pointer.offset, |_| false).unwrap();
        assert_eq!(unwanted, None);
        let wanted: BTreeSet<ValuePointer> =
            (0..3).map(|_| writer.copy(record, &from_seal, pointer.offset).unwrap()).collect();
        writer.finish().unwrap();
        let content = file.content();
        let shows = content.windows(6).any(|window| window == b"secret");
        assert_eq!(shows, !to, "{from} to {to}");
        let held: Arc<dyn File> = file.clone();
        let segment = Segment::open(identity, path(), Arc::new(held));
        let segment = match to {
            true => segment.sealed_by(&DatabaseIdentity::encrypted(DATABASE)),
            false => segment,
        };
        for copy in wanted {
            let read = segment.read_value(copy, KS, b"a secret key", 1).unwrap();
            assert_eq!(&read[..], value, "{from} to {to}");
        }
        let (end, found) = scan_tail(&content, segment.seal());
        assert_eq!((end.unwrap().tail, found.len()), (ScanTail::Clean, 3), "{from} to {to}");
    }
}

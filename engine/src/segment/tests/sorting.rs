//! Sorted segments: a copy reads like the original, and a damaged record is not copied.

use super::*;

/// Returns a log segment of `count` puts, and the pointers to them.
fn log_segment(count: u64, value: &[u8]) -> (Vec<u8>, Vec<ValuePointer>) {
    let (file, mut writer) = start();
    let keys = (1..=count).map(|seqno| (seqno, format!("key{seqno:06}")));
    let pointers =
        keys.map(|(seqno, key)| put(&mut writer, seqno, key.as_bytes(), value).unwrap()).collect();
    writer.write_out().unwrap();
    (file.content(), pointers)
}

fn sorted() -> (Arc<FaultyFile>, SortedWriter) {
    let file = Arc::new(FaultyFile::default());
    let identity = SegmentHead { epoch: 77, ..head(SegmentKind::Sorted) }.identity();
    let writer =
        SortedWriter::create(file.clone(), &path(), identity, identity.epoch.into()).unwrap();
    (file, writer)
}

fn bytes_of(segment: &[u8], pointer: ValuePointer) -> &[u8] {
    &segment[pointer.offset as usize..][..pointer.length as usize]
}

#[test]
fn copies_read_as_the_originals_did() {
    // The records fill several frames and are written in reverse order of their commits.
    let (bytes, pointers) = log_segment(1000, &[7; 1000]);
    let epoch = head(SegmentKind::Log).epoch;
    let (file, mut writer) = sorted();
    let mut copies = Vec::new();
    for &pointer in pointers.iter().rev() {
        let copy = writer.copy(bytes_of(&bytes, pointer), &epoch.into(), pointer.offset).unwrap();
        assert_eq!(copy.length, pointer.length);
        copies.push(copy);
    }
    let expected = writer.finish().unwrap();
    assert_eq!(file.content().len() as u64, expected);
    let (_, segment) = reopen(file.content());
    for (seqno, copy) in (1..=1000).rev().zip(&copies) {
        let key = format!("key{seqno:06}");
        let value = segment.read_value(*copy, KS, key.as_bytes(), seqno).unwrap();
        assert_eq!(&value[..], [7; 1000]);
    }
    let (end, found) = scan_bytes(&file.content(), ScanMode::Sealed(expected));
    assert_eq!(end.unwrap().end_offset, expected);
    assert!(found.iter().map(|found| found.0).eq((1..=1000).rev()));
}

/// Whoever syncs the file takes a failure of that for final.
#[test]
fn i09_a_full_disk_is_found_before_the_sync() {
    let (bytes, pointers) = log_segment(1, &[7; 1000]);
    let (file, mut writer) = sorted();
    let (record, epoch) = (bytes_of(&bytes, pointers[0]), head(SegmentKind::Log).epoch);
    writer.copy(record, &epoch.into(), pointers[0].offset).unwrap();
    file.fail_write_out.store(true, SeqCst);
    assert_eq!(writer.finish().unwrap_err().kind(), crate::ErrorKind::DiskFull);
}

#[test]
fn writing_back_begins_behind_each_frame_and_takes_no_page_twice() {
    let (bytes, pointers) = log_segment(1000, &[7; 1000]);
    let epoch = head(SegmentKind::Log).epoch;
    let (file, mut writer) = sorted();
    for &pointer in &pointers {
        writer.copy(bytes_of(&bytes, pointer), &epoch.into(), pointer.offset).unwrap();
    }
    let length = writer.finish().unwrap();
    let pieces = file.writebacks.lock().unwrap();
    let mut end = 0;
    for &(offset, len) in pieces.iter() {
        assert!(offset == end && len > 0 && len % 4096 == 0, "{pieces:?}");
        end += len;
    }
    assert!(pieces.len() >= 4 && length - end < 4096, "{pieces:?} of {length} bytes");
}

#[test]
fn a_damaged_record_is_not_copied() {
    let (mut bytes, pointers) = log_segment(3, b"value");
    let epoch = head(SegmentKind::Log).epoch;
    let (file, mut writer) = sorted();
    writer.copy(bytes_of(&bytes, pointers[0]), &epoch.into(), pointers[0].offset).unwrap();
    let last = (pointers[1].offset + u64::from(pointers[1].length)) as usize - 1;
    bytes[last] ^= 1;
    let damaged = bytes_of(&bytes, pointers[1]);
    writer.copy(damaged, &epoch.into(), pointers[1].offset).unwrap_err();
    writer.copy(bytes_of(&bytes, pointers[2]), &epoch.into(), pointers[1].offset).unwrap_err();
    writer.copy(bytes_of(&bytes, pointers[2]), &epoch.into(), pointers[2].offset).unwrap();
    let length = writer.finish().unwrap();
    let (end, found) = scan_bytes(&file.content(), ScanMode::Sealed(length));
    end.unwrap();
    assert!(found.iter().map(|found| found.0).eq([1, 3]));
}

#[test]
fn an_empty_sorted_segment_is_a_head() {
    let (file, writer) = sorted();
    assert_eq!(writer.finish().unwrap(), HEAD_BYTES as u64);
    let (end, found) = scan_bytes(&file.content(), ScanMode::Sealed(HEAD_BYTES as u64));
    end.unwrap();
    assert!(found.is_empty());
}

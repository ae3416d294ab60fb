//! Damage: every flipped byte, hole and cut is reported as corruption and never yields another
//! value (I2, I3).

use super::*;
use crate::base::error::ErrorKind;

/// Returns a small segment of synced frames, and its pointers with their sequence numbers.
fn small() -> (Vec<u8>, Vec<(ValuePointer, u64)>) {
    let (file, mut writer) = start();
    let (mut pointers, mut seqno) = (Vec::new(), 1);
    for frame in 1..=4u64 {
        let records: Vec<_> =
            (0..frame).map(|_| RecordInput::put(KS, b"key", b"some value")).collect();
        writer.append(seqno, &records, &mut pointers).unwrap();
        seqno += frame;
        sync(&mut writer).unwrap();
    }
    writer.seal().unwrap();
    (file.content(), pointers.into_iter().zip(1..).collect())
}

#[test]
fn i2_every_flip_in_a_sealed_segment_is_corruption() {
    let (bytes, _) = small();
    let sealed = ScanMode::Sealed(bytes.len() as u64);
    scan_bytes(&bytes, sealed).0.unwrap();
    for at in 0..bytes.len() {
        for flip in [1, 0x10, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            let error = scan_bytes(&bad, sealed).0.expect_err("a flipped byte was believed");
            let known = [ErrorKind::Corruption, ErrorKind::Unsupported];
            assert!(known.contains(&error.kind()), "byte {at}: {error}");
            assert!(at < 40 || error.kind() == ErrorKind::Corruption, "byte {at}: {error}");
            assert_eq!(error.file(), Some(&*path()));
            let offset = error.offset().unwrap() as usize;
            assert!(offset <= at, "byte {at} is blamed on {offset}");
        }
    }
}

#[test]
fn i3_every_flip_under_a_pointer_is_an_error_and_never_a_wrong_value() {
    let (bytes, pointers) = small();
    for at in 88..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x41;
        let (_, segment) = reopen(bad);
        for &(pointer, seqno) in &pointers {
            let end = pointer.offset + u64::from(pointer.length);
            let hit = (pointer.offset..end).contains(&(at as u64));
            match segment.read_value(pointer, KS, b"key", seqno) {
                Ok(value) => assert!(!hit && value == b"some value"),
                Err(error) => {
                    assert!(hit, "byte {at}");
                    assert_eq!(error.kind(), ErrorKind::Corruption);
                    assert_eq!(error.offset(), Some(pointer.offset));
                }
            }
        }
    }
}

#[test]
fn i3_a_hole_is_corruption() {
    let (mut bytes, pointers) = small();
    bytes[88..].fill(0);
    let (_, segment) = reopen(bytes.clone());
    for (pointer, seqno) in pointers {
        let error = segment.read_value(pointer, KS, b"key", seqno).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
    assert!(scan_bytes(&bytes, ScanMode::Sealed(bytes.len() as u64)).0.is_err());
}

#[test]
fn i2_a_sealed_segment_ends_exactly_where_it_should() {
    let (bytes, _) = small();
    let len = bytes.len() as u64;
    let (end, found) = scan_bytes(&[&bytes[..], b"leftovers"].concat(), ScanMode::Sealed(len));
    assert_eq!((end.unwrap().end_offset, found.len()), (len, 10));
    for wrong in (89..len + 50).filter(|&wrong| wrong != len) {
        // A wrong length at which a frame happens to end is the only one that cannot be detected.
        match scan_bytes(&bytes, ScanMode::Sealed(wrong)) {
            (Ok(end), found) => assert!([1, 3, 6].contains(&found.len()), "{end:?}"),
            (Err(error), _) => assert_eq!(error.kind(), ErrorKind::Corruption),
        }
    }
}

#[test]
fn frames_of_another_epoch_or_place_never_validate() {
    let (bytes, _) = small();
    let mut other = head(SegmentKind::Log);
    other.epoch += 1;
    let mut stale = bytes.clone();
    stale[..88].copy_from_slice(&other.encode());
    let (end, found) = scan_bytes(&stale, ScanMode::Tail);
    let bytes_left = bytes.len() as u64 - 88;
    assert_eq!(end.unwrap().tail, ScanTail::Torn { offset: 88, bytes: bytes_left });
    assert!(found.is_empty());
    // The first frame is repeated right behind itself.
    let first = u32::from_le_bytes(bytes[92..96].try_into().unwrap()) as usize + 24;
    let moved = [&bytes[..88 + first], &bytes[88..88 + first]].concat();
    let (end, found) = scan_bytes(&moved, ScanMode::Tail);
    let torn = ScanTail::Torn { offset: 88 + first as u64, bytes: first as u64 };
    assert_eq!((end.unwrap().tail, found.len()), (torn, 1));
}

#[test]
fn heads_that_were_never_written_are_told_from_bad_ones() {
    let read =
        |bytes: &[u8]| read_head(&*FaultyFile::of(bytes.to_vec()), &path(), 0xdb, SegmentId(5));
    assert_eq!(read(b"").unwrap(), None);
    assert_eq!(read(&[0; 500]).unwrap(), None);
    let bytes = head(SegmentKind::Log).encode();
    assert_eq!(read(&bytes).unwrap(), Some(head(SegmentKind::Log)));
    assert_eq!(read(&bytes[..87]).unwrap_err().kind(), ErrorKind::Corruption);
}

//! Scans from front to back: only whole frames are read, and a torn tail is distinguished from
//! corruption (I1, I2).

use super::*;
use crate::base::error::{Error, ErrorKind};

/// The bytes of a segment, the offset of each frame, and the offset where the last one ends.
struct Frames {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

/// Writes `count` frames of one put each and syncs after the frames with the numbers in `synced`.
fn frames(count: u64, synced: &[u64]) -> Frames {
    let (file, mut writer) = start();
    let mut starts = vec![writer.len() as usize];
    for seqno in 1..=count {
        put(&mut writer, seqno, format!("key{seqno}").as_bytes(), b"a value").unwrap();
        starts.push(writer.len() as usize);
        if synced.contains(&seqno) {
            sync(&mut writer).unwrap();
        }
    }
    writer.write_out().unwrap();
    Frames { bytes: file.content(), starts }
}

fn keys_of(found: &[Found]) -> Vec<u64> {
    found.iter().map(|found| found.0).collect()
}

#[test]
fn i2_a_tail_cut_at_any_byte_yields_the_exact_prefix() {
    for synced in [&[][..], &[1, 2, 3, 4, 5, 6]] {
        let all = frames(6, synced);
        for len in 88..=all.bytes.len() {
            let whole = all.starts.iter().filter(|&&start| start <= len).count() - 1;
            for zeroes in [0, 1, 23, 24, 100, 5000] {
                let mut cut = all.bytes[..len].to_vec();
                cut.resize(len + zeroes, 0);
                let (end, found) = scan_bytes(&cut, ScanMode::Tail);
                let end = end.unwrap();
                let offset = all.starts[whole] as u64;
                assert_eq!(keys_of(&found), (1..=whole as u64).collect::<Vec<_>>());
                assert_eq!(end.end_offset, offset);
                assert_eq!(end.next_seqno, Some(whole as u64 + 1));
                // Zeroes at the end were prepared for appends; they do not count as torn bytes.
                let written = cut.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                let bytes = (written as u64).saturating_sub(offset);
                let torn = ScanTail::Torn { offset, bytes };
                assert_eq!(end.tail, if bytes == 0 { ScanTail::Clean } else { torn });
            }
        }
    }
}

#[test]
fn i2_a_bad_frame_is_rot_exactly_if_a_later_one_vouches_for_it() {
    // Frame 3 is synced before frame 4 is made, so frames 4 to 6 prove that frames 1 to 3 were
    // synced.
    let all = frames(6, &[3]);
    for bad in 1..=6u64 {
        let (from, to) = (all.starts[bad as usize - 1], all.starts[bad as usize]);
        for at in from..to {
            let mut bytes = all.bytes.clone();
            bytes[at] ^= 0x20;
            let (end, found) = scan_bytes(&bytes, ScanMode::Tail);
            assert_eq!(keys_of(&found), (1..bad).collect::<Vec<_>>());
            if bad <= 3 {
                let error = end.unwrap_err();
                assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&*path())));
                assert!(error.offset().unwrap() as usize >= from, "{error}");
                assert!((error.offset().unwrap() as usize) < to, "{error}");
            } else {
                let bytes = (all.bytes.len() - from) as u64;
                assert_eq!(end.unwrap().tail, ScanTail::Torn { offset: from as u64, bytes });
            }
        }
    }
}

#[test]
fn i2_the_witness_itself_must_be_whole() {
    let all = frames(4, &[3]);
    let mut bytes = all.bytes.clone();
    bytes[all.starts[1] + 30] ^= 1;
    assert!(scan_bytes(&bytes, ScanMode::Tail).0.is_err(), "frame 4 vouches for frame 2");
    bytes[all.starts[3] + 30] ^= 1;
    let (end, found) = scan_bytes(&bytes, ScanMode::Tail);
    assert!(
        matches!(end.unwrap().tail, ScanTail::Torn { .. }),
        "a torn frame 4 vouches for nothing"
    );
    assert_eq!(keys_of(&found), [1]);
}

#[test]
fn i2_a_witness_is_found_wherever_it_lies_in_a_piece() {
    for len in ((1 << 20) - 150..(1 << 20) + 30).step_by(3) {
        let (file, mut writer) = start();
        put(&mut writer, 1, b"first", b"value").unwrap();
        let bad = writer.len() as usize;
        put(&mut writer, 2, b"big", &vec![0x5a; len]).unwrap();
        sync(&mut writer).unwrap();
        let witness = writer.len() as usize;
        put(&mut writer, 3, b"behind", b"value").unwrap();
        writer.write_out().unwrap();
        let mut bytes = file.content();
        bytes[bad + 100] ^= 1;
        let (end, found) = scan_bytes(&bytes, ScanMode::Tail);
        assert_eq!(end.unwrap_err().kind(), ErrorKind::Corruption, "{len}");
        assert_eq!(found.len(), 1);
        let (end, _) = scan_bytes(&bytes[..witness], ScanMode::Tail);
        assert!(matches!(end.unwrap().tail, ScanTail::Torn { .. }), "nobody knows better");
    }
}

#[test]
fn i2_a_hostile_tail_ends_the_search() {
    let header = FrameHeader { body_bytes: 0, count: 1, durable: 200, first_seqno: 1 };
    let epoch = head(SegmentKind::Log).epoch;
    let mut bytes = head(SegmentKind::Log).encode().to_vec();
    bytes.resize(8 << 20, 0x11);
    for at in (240..4 << 20).step_by(24) {
        let body_bytes = (bytes.len() - at - 24) as u32;
        let header = FrameHeader { body_bytes, ..header };
        bytes[at..at + 24].copy_from_slice(&header.encode(epoch, at as u64));
    }
    let error = scan_bytes(&bytes, ScanMode::Tail).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains("too strange"), "{error}");
}

#[test]
fn i1_a_frame_is_handed_out_whole_or_not_at_all() {
    let (file, mut writer) = start();
    let mut pointers = Vec::new();
    writer.append(1, &[RecordInput::put(KS, b"k", b"v"); 50], &mut pointers).unwrap();
    writer.write_out().unwrap();
    let bytes = file.content();
    for len in 88..bytes.len() {
        assert!(scan_bytes(&bytes[..len], ScanMode::Tail).1.is_empty());
    }
    for at in 88..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 4;
        assert!(scan_bytes(&bad, ScanMode::Tail).1.is_empty());
    }
    assert_eq!(scan_bytes(&bytes, ScanMode::Tail).1.len(), 50);
}

/// Returns a segment of one frame whose checksums all hold, with records of these sequence numbers
/// and then `extra` bytes in the body; and where the records are.
fn forged_of(
    head: &SegmentHead,
    (first_seqno, count): (u64, u32),
    seqnos: &[u64],
    extra: &[u8],
) -> (Vec<u8>, Vec<ValuePointer>) {
    let (mut body, mut pointers) = (Vec::new(), Vec::new());
    for &seqno in seqnos {
        let (start, segment) = (body.len(), head.id);
        let offset = (HEAD_BYTES + FRAME_HEADER_BYTES + start) as u64;
        RecordInput::put(KS, b"key", b"value").encode(&mut body, &head.epoch.into(), offset, seqno);
        let length = (body.len() - start) as u32;
        pointers.push(ValuePointer { segment, offset, length });
    }
    body.extend_from_slice(extra);
    let body_bytes = body.len() as u32;
    let header = FrameHeader { body_bytes, count, durable: 0, first_seqno };
    let header = header.encode(head.epoch, HEAD_BYTES as u64);
    ([&head.encode()[..], &header, &body].concat(), pointers)
}

fn forged(first_seqno: u64, count: u32, seqnos: &[u64], extra: &[u8]) -> Vec<u8> {
    forged_of(&head(SegmentKind::Log), (first_seqno, count), seqnos, extra).0
}

#[test]
fn sorted_segments_hold_any_sequence_numbers() {
    let seqnos: Vec<u64> = (0..100).map(|i| i * 7919 % 101).collect();
    let (bytes, pointers) = forged_of(&head(SegmentKind::Sorted), (0, 100), &seqnos, b"");
    let (_, segment) = reopen(bytes.clone());
    for (pointer, &seqno) in pointers.iter().zip(&seqnos) {
        assert_eq!(segment.read_value(*pointer, KS, b"key", seqno).unwrap(), b"value");
        // A record with the number 0 was ingested, and belongs to the entry of any number.
        let of_another = segment.read_value(*pointer, KS, b"key", seqno + 1);
        assert_eq!(of_another.is_err(), seqno > 0);
    }
    let (end, found) = scan_bytes(&bytes, ScanMode::Sealed(bytes.len() as u64));
    assert_eq!(end.unwrap().next_seqno, None);
    assert_eq!(keys_of(&found), seqnos);
}

#[test]
fn i1_a_frame_must_be_exactly_what_its_header_says() {
    let is_whole = |bytes: &[u8]| {
        let sealed = scan_bytes(bytes, ScanMode::Sealed(bytes.len() as u64)).0.is_ok();
        let end = scan_bytes(bytes, ScanMode::Tail).0;
        assert_eq!(sealed, end.is_ok_and(|end| end.tail == ScanTail::Clean));
        sealed
    };
    assert!(is_whole(&forged(1, 3, &[1, 2, 3], b"")));
    assert!(!is_whole(&forged(1, 2, &[1, 2, 3], b"")), "a record too many");
    assert!(!is_whole(&forged(1, 3, &[1, 2], b"")), "a record too few");
    assert!(!is_whole(&forged(1, 3, &[1, 2, 3], b"\0")), "a byte too many");
    assert!(!is_whole(&forged(1, 3, &[1, 2, 4], b"")), "a gap");
    assert!(!is_whole(&forged(2, 2, &[2, 3], b"")), "another beginning than the head says");
    assert!(!is_whole(&forged(1, 2, &[2, 3], b"")), "another beginning than the header says");
}

#[test]
fn a_gap_in_the_sequence_numbers_is_corruption() {
    let (file, mut writer) = start();
    put(&mut writer, 1, b"a", b"").unwrap();
    put(&mut writer, 3, b"b", b"").unwrap();
    let len = writer.seal().unwrap();
    for mode in [ScanMode::Tail, ScanMode::Sealed(len)] {
        let error = scan_bytes(&file.content(), mode).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_scan_starts_in_the_middle_and_stops_when_told() {
    let all = frames(6, &[]);
    let file = FaultyFile::of(all.bytes.clone());
    let head = head(SegmentKind::Log);
    let scan_from = |offset: usize, seqno, each: &mut dyn FnMut(&Frame<'_>) -> Result<()>| {
        let start = ScanStart { offset: offset as u64, seqno };
        scan(&*file, &path(), &head, &head.epoch.into(), ScanMode::Tail, start, each)
    };
    for from in 0..=6 {
        let mut seen = Vec::new();
        let mut each = |frame: &Frame<'_>| {
            seen.push(frame.header.first_seqno);
            Ok(())
        };
        let known = (from % 2 == 0).then_some(from as u64 + 1);
        let end = scan_from(all.starts[from], known, &mut each).unwrap();
        assert_eq!(end.end_offset as usize, all.bytes.len());
        assert_eq!(seen, (from as u64 + 1..=6).collect::<Vec<_>>());
        assert_eq!(end.next_seqno, Some(7), "known from the start or from the frames");
    }
    let wrong = scan_from(all.starts[2], Some(9), &mut |_| Ok(()));
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Corruption);
    let behind = scan_from(all.bytes.len() + 1, Some(7), &mut |_| Ok(()));
    assert_eq!(behind.unwrap_err().kind(), ErrorKind::Corruption, "the log was cut");
    let stopped = scan_from(88, None, &mut |_| Err(Error::invalid_argument("enough")));
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

//! Appended records are read back by their pointers, from buffer and file, and a failed commit
//! leaves nothing behind (I2, I3, I8, I9).

use super::*;
use crate::base::compression::{Codec, compress};
use crate::base::error::ErrorKind;
use crate::base::key::MAX_KEY_BYTES;
use std::sync::atomic::AtomicBool;

/// Returns pseudo-random bytes.
fn noise(len: usize, salt: u64) -> Vec<u8> {
    let mut state = salt | 1;
    let step = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..len).map(step).collect()
}

#[test]
fn everything_comes_back_buffered_written_and_reopened() {
    for settings in [SMALL, WriterSettings::default()] {
        let (file, mut writer) = start_with(settings, &head(SegmentKind::Log));
        let values = [0, 1, 200, 300, 5000, DIRECT_VALUE_BYTES - 1, DIRECT_VALUE_BYTES, 3 << 20];
        let key = noise(MAX_KEY_BYTES, 1);
        let mut expected = Vec::new();
        let mut seqno = 1;
        for round in 0..3 {
            let values: Vec<_> = values.iter().map(|&len| noise(len, seqno + len as u64)).collect();
            let mut records: Vec<_> =
                values.iter().map(|value| RecordInput::put(KS, b"key", value)).collect();
            records.push(RecordInput::delete(KS, &key));
            records.push(RecordInput::put(KeyspaceId(crate::base::pointer::MAX_ID), b"", b"x"));
            let mut pointers = Vec::new();
            writer.append(seqno, &records, &mut pointers).unwrap();
            assert_eq!(pointers.len(), records.len());
            for (record, pointer) in records.iter().zip(&pointers) {
                let (key, value) = (record.key.to_vec(), record.value.to_vec());
                expected.push((record.kind, *pointer, record.keyspace, key, value, seqno));
                seqno += 1;
            }
            if round == 1 {
                writer.write_out().unwrap();
            }
        }
        let check = |segment: &Segment| {
            for (kind, pointer, keyspace, key, value, seqno) in &expected {
                let read = segment.read_value(*pointer, *keyspace, key, *seqno);
                match kind {
                    RecordKind::Put | RecordKind::Merge => assert_eq!(read.unwrap(), *value),
                    RecordKind::Delete | RecordKind::DeleteRange | RecordKind::Ingest => {
                        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corruption)
                    }
                }
            }
        };
        check(writer.segment());
        let len = writer.seal().unwrap();
        writer.syncer().sync().unwrap();
        assert_eq!((len, writer.durable()), (writer.len(), len));
        assert_eq!(file.len().unwrap(), len, "what was prepared is cut off");
        check(writer.segment());
        let (_, reopened) = reopen(file.content());
        check(&reopened);
        let (end, found) = scan_bytes(&file.content(), ScanMode::Sealed(len));
        let end = end.unwrap();
        assert_eq!((end.end_offset, end.next_seqno), (len, Some(seqno)));
        let wanted: Vec<Found> = expected
            .iter()
            .map(|(_, _, _, key, value, seqno)| (*seqno, key.clone(), value.clone()))
            .collect();
        assert!(found == wanted, "the scan found other records");
    }
}

#[test]
fn compressed_values_are_restored() {
    let (file, mut writer) = start();
    let raw = b"to cleave is to split ".repeat(50_000);
    let (codec, small) = compress(Codec::Lz4, &raw).unwrap();
    let input =
        RecordInput { codec, raw_len: raw.len() as u32, ..RecordInput::put(KS, b"k", &small) };
    let mut pointers = Vec::new();
    writer.append(1, &[input], &mut pointers).unwrap();
    assert_eq!(writer.segment().read_value(pointers[0], KS, b"k", 1).unwrap(), raw);
    writer.seal().unwrap();
    let (_, reopened) = reopen(file.content());
    assert_eq!(reopened.read_value(pointers[0], KS, b"k", 1).unwrap(), raw);
}

#[test]
fn i3_a_pointer_to_another_record_is_corruption() {
    let (_, mut writer) = start();
    let first = put(&mut writer, 1, b"a", b"value").unwrap();
    let second = put(&mut writer, 2, b"b", b"value").unwrap();
    writer.write_out().unwrap();
    let segment = writer.segment();
    assert_eq!(segment.read_value(first, KS, b"a", 1).unwrap(), b"value");
    let refused = |pointer, keyspace, key: &[u8], seqno| {
        let error = segment.read_value(pointer, keyspace, key, seqno).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!((error.file(), error.offset()), (Some(&*path()), Some(pointer.offset)));
    };
    refused(second, KS, b"a", 1);
    refused(first, KS, b"a", 2);
    refused(first, KS, b"b", 1);
    refused(first, KeyspaceId(4), b"a", 1);
    refused(ValuePointer { segment: SegmentId(6), ..first }, KS, b"a", 1);
    for length in [0, 1, first.length - 1, first.length + 1, 1 << 20, u32::MAX] {
        refused(ValuePointer { length, ..first }, KS, b"a", 1);
    }
    for offset in [0, 87, first.offset - 1, first.offset + 1, 1 << 40, u64::MAX] {
        refused(ValuePointer { offset, ..first }, KS, b"a", 1);
    }
    assert!(segment.is_in_file(first).unwrap());
    let mut bytes = vec![0; first.length as usize];
    segment.file().unwrap().read_exact_at(&mut bytes, first.offset).unwrap();
    let value = segment.verify_value(bytes.clone(), first, KS, b"a", 1).unwrap();
    assert_eq!(value, b"value");
    assert!(segment.verify_value(bytes.clone(), second, KS, b"b", 2).is_err());
    bytes.pop();
    assert!(segment.verify_value(bytes, first, KS, b"a", 1).is_err());
}

#[test]
fn one_read_from_the_file_and_none_from_the_buffer() {
    let (file, mut writer) = start();
    let pointer = put(&mut writer, 1, b"key", b"value").unwrap();
    let read = || writer.segment().read_value(pointer, KS, b"key", 1).unwrap();
    assert_eq!(read(), b"value");
    assert_eq!(file.reads.load(SeqCst), 0);
    assert!(!writer.segment().is_in_file(pointer).unwrap());
    writer.write_out().unwrap();
    assert!(writer.segment().is_in_file(pointer).unwrap());
    assert_eq!(writer.segment().read_value(pointer, KS, b"key", 1).unwrap(), b"value");
    assert_eq!(file.reads.load(SeqCst), 1);
}

#[test]
fn a_group_is_one_write_and_big_values_are_not_copied() {
    let (file, mut writer) = start();
    for seqno in 1..=100 {
        put(&mut writer, seqno, b"key", b"value").unwrap();
    }
    assert_eq!(file.writes.load(SeqCst), 1, "the head");
    writer.write_out().unwrap();
    assert_eq!(file.writes.load(SeqCst), 2);
    writer.write_out().unwrap();
    assert_eq!(file.writes.load(SeqCst), 2, "nothing to write");
    put(&mut writer, 101, b"key", &noise(9 << 20, 1)).unwrap();
    assert_eq!(file.writes.load(SeqCst), 4, "what was buffered, then the value itself");
    assert!(file.writebacks.lock().unwrap().is_empty(), "the writer leaves it to others");
    assert!(writer.take_writeback_due() && !writer.take_writeback_due());
    writer.syncer().write_back();
    writer.syncer().write_back();
    assert_eq!(*file.writebacks.lock().unwrap(), [(0, writer.len())], "once");
    sync(&mut writer).unwrap();
    sync(&mut writer).unwrap();
    assert_eq!(file.syncs.load(SeqCst), 1, "nothing new to sync");
    assert_eq!(writer.durable(), writer.len());
}

/// Guards against syncing megabytes page by page: what is mapped for appends is unmapped when its
/// writeback begins, and pages that are still mapped cost each sync an interrupt of all processors.
#[test]
fn a_large_sync_begins_with_writeback_and_a_small_one_does_not() {
    let (file, mut writer) = start();
    put(&mut writer, 1, b"key", &noise(100 << 10, 1)).unwrap();
    sync(&mut writer).unwrap();
    assert_eq!(*file.writebacks.lock().unwrap(), [], "a small one");
    let synced = writer.len();
    put(&mut writer, 2, b"key", &noise(200 << 10, 1)).unwrap();
    put(&mut writer, 3, b"key", &noise(100 << 10, 1)).unwrap();
    sync(&mut writer).unwrap();
    let unsynced = (synced, writer.len() - synced);
    assert_eq!(*file.writebacks.lock().unwrap(), [unsynced], "a large one");
    let counts = (file.synced_before.load(SeqCst), file.syncs.load(SeqCst));
    assert_eq!(counts, (1, 2), "the writeback comes first");
}

#[test]
fn i2_a_sync_promises_whole_frames_only() {
    let (file, mut writer) = start_with(SMALL, &head(SegmentKind::Log));
    put(&mut writer, 1, b"a", b"value").unwrap();
    sync(&mut writer).unwrap();
    let synced = writer.len();
    let (long, mut pointers) = (vec![7; 200], Vec::new());
    writer.append(2, &[RecordInput::put(KS, b"b", &long); 4], &mut pointers).unwrap();
    assert!(file.len().unwrap() > synced, "a part of the frame was handed over early");
    writer.syncer().sync().unwrap();
    assert_eq!(writer.durable(), synced);
    writer.write_out().unwrap();
    writer.syncer().sync().unwrap();
    assert_eq!(writer.durable(), writer.len());
}

#[test]
fn i8_a_failed_sync_is_final() {
    let (file, mut writer) = start();
    put(&mut writer, 1, b"a", b"value").unwrap();
    let syncer = writer.syncer();
    file.fail_syncs.store(1, SeqCst);
    assert_eq!(sync(&mut writer).unwrap_err().kind(), ErrorKind::Io);
    file.fail_syncs.store(0, SeqCst);
    assert!(sync(&mut writer).is_err());
    assert!(syncer.sync().is_err());
    assert!(put(&mut writer, 2, b"a", b"value").is_err());
    assert!(writer.write_out().is_err());
    assert!(put(&mut writer, 2, b"a", b"value").is_err());
    assert!(writer.seal().is_err());
    assert_eq!((file.syncs.load(SeqCst), writer.durable()), (1, 0));
}

#[test]
fn i8_a_sync_that_failed_elsewhere_stops_the_writer() {
    let (file, mut writer) = start();
    file.fail_syncs.store(1, SeqCst);
    assert!(writer.syncer().sync().is_err());
    file.fail_syncs.store(0, SeqCst);
    assert!(put(&mut writer, 1, b"a", b"value").is_err());
    assert!(writer.write_out().is_err());
    assert!(writer.is_failed());
}

/// Commits groups until one fails, then continues as `commit` would. Returns the file, the writer
/// and the keys of the groups that succeeded.
fn groups_until_failure(fail_from: u64) -> (Arc<FaultyFile>, SegmentWriter, Vec<Vec<u8>>) {
    let (file, mut writer) = start_with(SMALL, &head(SegmentKind::Log));
    file.fail_writes_from.store(fail_from, SeqCst);
    let (mut acknowledged, mut seqno) = (Vec::new(), 1);
    let big = noise(DIRECT_VALUE_BYTES, 3);
    for group in 0..6 {
        let keys: Vec<Vec<u8>> = (0..4).map(|i| format!("{group}-{i}").into_bytes()).collect();
        let mut written = Ok(());
        for (i, key) in keys.iter().enumerate() {
            let value = if i == 2 && group % 2 == 1 { &big[..] } else { &big[..70] };
            written = written.and(put(&mut writer, seqno, key, value).map(|_| ()));
            seqno += 1;
        }
        if written.and_then(|()| writer.write_out()).is_err() {
            break;
        }
        acknowledged.extend(keys);
    }
    (file, writer, acknowledged)
}

#[test]
fn i9_a_failed_write_takes_back_its_group_and_nothing_else() {
    let (file, ..) = groups_until_failure(0);
    let calls = file.writes.load(SeqCst);
    assert!(calls > 12);
    for fail_from in 2..=calls {
        let (file, mut writer, acknowledged) = groups_until_failure(fail_from);
        assert!(writer.is_failed(), "call {fail_from}");
        assert_eq!(put(&mut writer, 99, b"k", b"v").unwrap_err().kind(), ErrorKind::DiskFull);
        let good = writer.good_len();
        assert_eq!(writer.seal().unwrap(), good);
        let (end, found) = scan_bytes(&file.content(), ScanMode::Sealed(good));
        assert_eq!(end.unwrap().tail, ScanTail::Clean);
        let found: Vec<_> = found.into_iter().map(|(_, key, _)| key).collect();
        assert_eq!(found, acknowledged, "call {fail_from}");
    }
}

#[test]
fn i9_what_was_acknowledged_from_the_buffer_is_saved_once_there_is_room() {
    let (file, mut writer) = start();
    let kept = put(&mut writer, 1, b"kept", b"value").unwrap();
    let end_of_kept = writer.len();
    put(&mut writer, 2, b"failed", b"value").unwrap();
    file.fail_writes_from.store(1, SeqCst);
    assert_eq!(writer.write_out().unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(writer.good_len(), 88);
    writer.cut(end_of_kept);
    assert!(writer.write_out().is_err());
    assert_eq!(writer.segment().read_value(kept, KS, b"kept", 1).unwrap(), b"value");
    file.fail_writes_from.store(0, SeqCst);
    writer.write_out().unwrap();
    assert_eq!(writer.good_len(), end_of_kept);
    assert!(put(&mut writer, 3, b"more", b"value").is_err(), "it goes on in another segment");
    assert_eq!(writer.seal().unwrap(), end_of_kept);
    let (end, found) = scan_bytes(&file.content(), ScanMode::Sealed(end_of_kept));
    assert_eq!((end.unwrap().tail, found.len()), (ScanTail::Clean, 1));
    assert_eq!(writer.segment().read_value(kept, KS, b"kept", 1).unwrap(), b"value");
}

#[test]
fn i9_a_frame_that_failed_half_way_leaves_nothing_to_write() {
    let (file, mut writer) = start_with(SMALL, &head(SegmentKind::Log));
    put(&mut writer, 1, b"a", b"value").unwrap();
    writer.write_out().unwrap();
    let good = writer.len();
    file.fail_writes_from.store(4, SeqCst);
    let long = vec![7; 200];
    let mut pointers = Vec::new();
    assert!(writer.append(2, &[RecordInput::put(KS, b"b", &long); 9], &mut pointers).is_err());
    assert!(file.len().unwrap() > good + 256, "a part of it was written");
    assert!(pointers.is_empty());
    writer.write_out().unwrap();
    assert_eq!((writer.good_len(), writer.len()), (good, good));
    assert_eq!(writer.seal().unwrap(), good);
}

#[test]
fn readers_never_see_anything_but_the_record() {
    let (_, mut writer) = start_with(SMALL, &head(SegmentKind::Log));
    let segment = writer.segment().clone();
    let known: Mutex<Vec<(u64, ValuePointer)>> = Mutex::default();
    let done = AtomicBool::new(false);
    let value_of = |seqno: u64| noise((seqno * 37 % 900) as usize, seqno);
    std::thread::scope(|scope| {
        for reader in 0..3u64 {
            let (segment, known, done) = (&segment, &known, &done);
            scope.spawn(move || {
                let mut checked = 0;
                while !done.load(SeqCst) || checked == 0 {
                    let recent: Vec<_> = {
                        let known = known.lock().unwrap();
                        let skipped = known.len().saturating_sub(8 + 40 * reader as usize);
                        known[skipped..].to_vec()
                    };
                    for (seqno, pointer) in recent {
                        let value = segment.read_value(pointer, KS, b"key", seqno).unwrap();
                        assert_eq!(value, value_of(seqno));
                        checked += 1;
                    }
                }
            });
        }
        for seqno in 1..=20_000 {
            let pointer = put(&mut writer, seqno, b"key", &value_of(seqno)).unwrap();
            known.lock().unwrap().push((seqno, pointer));
            if seqno % 7 == 0 {
                writer.write_out().unwrap();
            }
        }
        writer.seal().unwrap();
        done.store(true, SeqCst);
    });
}

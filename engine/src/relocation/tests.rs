//! Tests of whole relocations: both ways of reading return what was written and nothing else.

use super::{RelocationMeta, RelocationTable, RelocationWriter, TargetUse};
use crate::base::coding::Reader;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::pointer::{MAX_ID, RelocationId, SegmentId, ValuePointer};
use crate::cache::memory_fs::MemoryFs;
use crate::cache::{BlockCache, OpenFiles};
use crate::env::fs::Fs;
use std::path::PathBuf;
use std::sync::Arc;

const DATABASE: u64 = 0xfeed;
const FREED: SegmentId = SegmentId(3);

/// A move: old offset, target, new offset, length.
type Move = (u64, SegmentId, u64, u32);

struct RelocationDir {
    fs: Arc<MemoryFs>,
    files: Arc<OpenFiles>,
    cache: Arc<BlockCache>,
}

impl RelocationDir {
    fn new() -> Self {
        let fs = Arc::new(MemoryFs::default());
        let files = Arc::new(OpenFiles::new(fs.clone(), 10));
        RelocationDir { fs, files, cache: Arc::new(BlockCache::new(32 << 20)) }
    }

    fn path(id: u64) -> PathBuf {
        PathBuf::from(format!("db/{id:08}.rel"))
    }

    fn writer(&self, id: u64) -> RelocationWriter {
        self.files.remove(&Self::path(id)).unwrap();
        let file = self.fs.create(&Self::path(id)).unwrap();
        RelocationWriter::create(file, Self::path(id), DATABASE, RelocationId(id), FREED)
    }

    fn write(&self, id: u64, moves: &[Move]) -> Arc<RelocationMeta> {
        let mut writer = self.writer(id);
        for &(old, target, new, length) in moves {
            writer.add(old, target, new, length).unwrap();
        }
        Arc::new(writer.finish().unwrap())
    }

    fn open_of(&self, database: u64, meta: &Arc<RelocationMeta>) -> Result<RelocationTable> {
        let (files, cache) = (self.files.clone(), self.cache.clone());
        RelocationTable::open(files, Self::path(meta.id.0), meta.clone(), database, cache)
    }

    fn open(&self, meta: &Arc<RelocationMeta>) -> Result<RelocationTable> {
        self.open_of(DATABASE, meta)
    }

    fn bytes(&self, id: u64) -> Vec<u8> {
        self.fs.file(&Self::path(id)).bytes()
    }

    /// Replaces the bytes of a file, and drops its cached blocks.
    fn replace(&mut self, id: u64, bytes: Vec<u8>) {
        self.files.remove(&Self::path(id)).unwrap();
        self.fs.put(&Self::path(id), bytes);
        self.cache = Arc::new(BlockCache::new(32 << 20));
    }

    /// Reads a whole file in both ways and expects `moves`.
    fn read_all(&self, meta: &Arc<RelocationMeta>, moves: &[Move]) -> Result<()> {
        let table = self.open(meta)?;
        let mut walked = Vec::new();
        table.for_each(|old, target, new, length| {
            walked.push((old, target, new, length));
            Ok(())
        })?;
        assert_eq!(walked, moves);
        for &(old, segment, offset, length) in moves {
            assert_eq!(table.find(old)?, Some(ValuePointer { segment, offset, length }));
        }
        for every in [1, 7, 1000] {
            expect_ascending(&table, moves.iter().step_by(every))?;
        }
        Ok(())
    }
}

/// Looks up these moves in one call, together with offsets near them that belong to no move.
fn expect_ascending<'a>(
    table: &RelocationTable,
    moves: impl Iterator<Item = &'a Move>,
) -> Result<()> {
    let (mut asked, mut wanted, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for &(old, segment, offset, length) in moves {
        if asked.is_empty() && old > 0 {
            asked.push(old - 1);
            wanted.push(None);
        }
        asked.extend([old, old + 1]);
        wanted.extend([Some(ValuePointer { segment, offset, length }), None]);
    }
    asked.push(u64::MAX);
    wanted.push(None);
    table.find_ascending(asked.into_iter(), |moved| {
        found.push(moved);
        Ok::<_, Error>(())
    })?;
    assert_eq!(found, wanted);
    Ok(())
}

/// Returns `count` moves with gaps, to three targets.
fn moves(count: u64) -> Vec<Move> {
    let mut old = 88;
    (0..count)
        .map(|number| {
            let length = 9 + (number * 37 % 3000) as u32;
            let (target, new) = (SegmentId(40 + number % 3), (number * 7919 % count) << 12);
            let offset = old;
            old += u64::from(length) + number % 5 * 24;
            (offset, target, new, length)
        })
        .collect()
}

#[test]
fn what_was_moved_is_found_and_nothing_else() {
    let place = RelocationDir::new();
    for (id, count) in [(7, 1), (8, 2), (9, 400), (10, 100_000)] {
        let moves = moves(count);
        let meta = place.write(id, &moves);
        assert_eq!((meta.id, meta.segment), (RelocationId(id), FREED));
        assert_eq!((meta.bytes, meta.entries), (place.bytes(id).len() as u64, count));
        place.read_all(&meta, &moves).unwrap();
        let table = place.open(&meta).unwrap();
        let last = moves.last().unwrap().0;
        for absent in [0, 87, 89, last + 1, last + 5000, u64::MAX] {
            assert_eq!(table.find(absent).unwrap(), None, "{absent} of {count}");
        }
        for pair in moves.windows(2).step_by(97) {
            assert_eq!(table.find(pair[1].0 - 1).unwrap(), None, "between two moves");
        }
        let read = RelocationMeta::read(
            &*place.fs.open(&RelocationDir::path(id)).unwrap(),
            &RelocationDir::path(id),
            DATABASE,
            RelocationId(id),
        );
        assert_eq!(read.unwrap(), *meta);
    }
    let per_entry = place.bytes(10).len() / 100_000;
    assert!(per_entry <= 10, "{per_entry} bytes per entry");
}

#[test]
fn blocks_are_read_once_and_walks_leave_no_trace() {
    let place = RelocationDir::new();
    let moves = moves(2000);
    let table = place.open(&place.write(7, &moves)).unwrap();
    table.for_each(|_, _, _, _| Ok(())).unwrap();
    assert_eq!(place.cache.stats().blocks, 0);
    for _ in 0..2 {
        for &(old, ..) in &moves {
            assert!(table.find(old).unwrap().is_some());
        }
    }
    let stats = place.cache.stats();
    assert_eq!((stats.misses, stats.hits), (stats.blocks, 4000 - stats.blocks));
    assert!((2..=20).contains(&stats.blocks), "{stats:?}");
}

#[test]
fn the_largest_numbers_fit() {
    let place = RelocationDir::new();
    let last = u64::MAX - u64::from(u32::MAX);
    let last_new = i64::MAX as u64 - u64::from(u32::MAX);
    let extreme = |old| (old, SegmentId(MAX_ID), last_new, u32::MAX);
    let moves = [extreme(0), extreme(1 << 40), extreme(last)];
    place.read_all(&place.write(MAX_ID, &moves), &moves).unwrap();
    let many: Vec<Move> = (0..400).map(|number| extreme(1 << 63 | number << 40)).collect();
    place.read_all(&place.write(8, &many), &many).unwrap();
}

#[test]
#[should_panic(expected = "in order")]
fn moves_out_of_order_are_refused() {
    let place = RelocationDir::new();
    let mut writer = place.writer(7);
    writer.add(100, SegmentId(9), 88, 50).unwrap();
    writer.add(149, SegmentId(9), 138, 50).unwrap();
}

#[test]
fn i07_every_bit_flip_and_every_cut_is_noticed() {
    let mut place = RelocationDir::new();
    let moves = moves(600);
    let meta = place.write(7, &moves);
    let good = place.bytes(7);
    place.read_all(&meta, &moves).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        place.replace(7, bad);
        let error = place.read_all(&meta, &moves).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported),
            "bit {bit}: {error}"
        );
        assert_eq!(error.file(), Some(&*RelocationDir::path(7)), "{error}");
    }
    for len in 0..good.len() {
        place.replace(7, good[..len].to_vec());
        assert!(place.read_all(&meta, &moves).is_err(), "{len} bytes");
    }
    let mut longer = good.clone();
    longer.push(0);
    place.replace(7, longer);
    assert!(place.open(&meta).is_err());
}

#[test]
fn i07_a_flip_in_one_block_costs_the_others_nothing() {
    let mut place = RelocationDir::new();
    let moves = moves(2000);
    let meta = place.write(7, &moves);
    let mut bad = place.bytes(7);
    bad[60] ^= 1;
    place.replace(7, bad);
    let table = place.open(&meta).unwrap();
    let error = table.find(moves[0].0).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(40)));
    assert!(table.find(moves[1999].0).unwrap().is_some());
    let offsets = || moves.iter().map(|&(old, ..)| old);
    let error = table.find_ascending(offsets(), |_| Ok::<_, Error>(())).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(40)));
    let mut found = 0;
    let count = |moved: Option<ValuePointer>| {
        found += usize::from(moved.is_some());
        Ok::<_, Error>(())
    };
    table.find_ascending(offsets().skip(1000), count).unwrap();
    assert_eq!(found, 1000);
    assert!(table.for_each(|_, _, _, _| Ok(())).is_err());
}

#[test]
fn a_file_in_the_place_of_another_is_refused() {
    let mut place = RelocationDir::new();
    let (here, there) = (moves(50), moves(51));
    let meta = place.write(7, &here);
    assert!(place.open_of(DATABASE + 1, &meta).is_err());
    let other = place.write(8, &here);
    let (of_seven, of_eight) = (place.bytes(7), place.bytes(8));
    place.replace(7, of_eight);
    assert!(place.open(&meta).unwrap_err().to_string().contains("says"), "another id");
    place.write(7, &there);
    assert!(place.open(&meta).unwrap_err().to_string().contains("not the one"));
    // The forged relocation has the same id and numbers, but other entries.
    let turned: Vec<Move> = here.iter().map(|it| (it.0, it.1, it.2 + 1, it.3)).collect();
    let forged = place.write(7, &turned);
    let same_numbers = RelocationMeta { fingerprint: meta.fingerprint, ..(*forged).clone() };
    assert_eq!(same_numbers, *meta);
    assert!(place.open(&meta).unwrap_err().to_string().contains("not the one"));
    assert_ne!(forged.fingerprint, meta.fingerprint);
    place.replace(7, of_seven);
    place.read_all(&meta, &here).unwrap();
    place.read_all(&other, &here).unwrap();
}

#[test]
fn metas_round_trip_and_contradictions_are_corruption() {
    let place = RelocationDir::new();
    let meta = place.write(300, &moves(700));
    for meta in [(*meta).clone(), RelocationMeta::empty(SegmentId(1 << 40))] {
        let mut out = Vec::new();
        meta.encode(&mut out);
        out.push(77);
        let mut reader = Reader::new(&out);
        assert_eq!(RelocationMeta::decode(&mut reader).unwrap(), meta);
        assert_eq!(reader.rest(), [77]);
        for len in 0..out.len() - 1 {
            assert!(RelocationMeta::decode(&mut Reader::new(&out[..len])).is_err(), "{len}");
        }
    }
    let spoil = |spoil: fn(&mut RelocationMeta)| {
        let mut bad = (*meta).clone();
        spoil(&mut bad);
        let mut out = Vec::new();
        bad.encode(&mut out);
        RelocationMeta::decode(&mut Reader::new(&out))
    };
    spoil(|_| {}).unwrap();
    assert!(spoil(|meta| meta.id = RelocationId(0)).is_err());
    assert!(spoil(|meta| meta.bytes = 0).is_err());
    assert!(spoil(|meta| meta.entries += 1).is_err());
    assert!(spoil(|meta| meta.entries = 0).is_err());
    assert!(spoil(|meta| meta.segment = SegmentId(40)).is_err());
    let add = |meta: &mut RelocationMeta, count| {
        meta.targets.insert(SegmentId(99), TargetUse { count, bytes: 0 });
    };
    for count in [0, 1, u64::MAX] {
        let mut bad = (*meta).clone();
        add(&mut bad, count);
        let mut out = Vec::new();
        bad.encode(&mut out);
        assert!(RelocationMeta::decode(&mut Reader::new(&out)).is_err(), "{count}");
    }
}

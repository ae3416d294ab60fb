//! Tests of whole tables: every way of reading returns what was written and nothing else.

use super::block::{BlockBuilder, RESTART_INTERVAL};
use super::filter::FilterBuilder;
use super::format::{BlockSeal, DATA_START, Footer, PAGE_BYTES};
use super::properties::{Properties, Summary, TableMeta, TableOwner};
use super::stats::{TableCounts, TableStats};
use super::{StartedGet, Table, TableIter, TableSettings, TableSource, TableWriter, start_walk};
use crate::base::blocks::BlockFingerprint;
use crate::base::bounds::Bounds;
use crate::base::checksum::key_hash;
use crate::base::compression::Codec;
use crate::base::entry::{Payload, Slot};
use crate::base::error::{ErrorKind, Result};
use crate::base::header::{FileKind, Header};
use crate::base::iter::EntryIter;
use crate::base::key::{
    Comparator, EntryKind, KeyOrder, MAX_KEY_BYTES, MAX_SEQNO, SeqNo, Trailer, internal_key,
};
use crate::base::pointer::{KeyspaceId, SegmentId, TableId, ValuePointer};
use crate::base::range_tombstone::RangeTombstone;
use crate::cache::memory_fs::MemoryFs;
use crate::cache::{BlockCache, CachedTable, OpenFiles};
use crate::env::fs::{AccessPattern, Fs};
use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

const DATABASE: u64 = 0xfeed;

/// A random generator (xorshift) whose numbers are the same in every run.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }

    /// Returns up to `max` letters of `alphabet`.
    pub(super) fn bytes_of(&mut self, alphabet: &[u8], max: u64) -> Vec<u8> {
        let len = self.below(max + 1);
        (0..len).map(|_| alphabet[self.below(alphabet.len() as u64) as usize]).collect()
    }

    fn noise(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

type Entry = (Vec<u8>, Trailer, Vec<u8>);

fn put(key: &[u8], seqno: SeqNo, value: &[u8]) -> Entry {
    (key.to_vec(), Trailer::new(seqno, EntryKind::Put), value.to_vec())
}

fn pointer(key: &[u8], seqno: SeqNo, segment: u64) -> Entry {
    let pointer = ValuePointer { segment: SegmentId(segment), offset: seqno * 100, length: 100 };
    let slot = Slot::Pointer(pointer);
    let mut payload = Vec::new();
    Payload::from(slot).encode(&mut payload);
    (key.to_vec(), Trailer::new(seqno, Payload::from(slot).kind()), payload)
}

fn delete(key: &[u8], seqno: SeqNo) -> Entry {
    (key.to_vec(), Trailer::new(seqno, EntryKind::Delete), Vec::new())
}

/// A directory for tables, with what the tables share.
struct TableDir {
    fs: Arc<MemoryFs>,
    files: Arc<OpenFiles>,
    cache: Arc<BlockCache>,
    stats: Arc<TableStats>,
    order: KeyOrder,
}

impl TableDir {
    fn new(order: KeyOrder) -> Self {
        let fs = Arc::new(MemoryFs::default());
        TableDir {
            files: Arc::new(OpenFiles::new(fs.clone(), 10)),
            fs,
            cache: Arc::new(BlockCache::new(32 << 20)),
            stats: Arc::default(),
            order,
        }
    }

    fn path(id: u64) -> PathBuf {
        PathBuf::from(format!("db/{id:06}.sst"))
    }

    fn writer(&self, id: u64, settings: TableSettings) -> TableWriter {
        let (path, order) = (Self::path(id), self.order.clone());
        let file = self.fs.create(&path).unwrap();
        TableWriter::create(file, path, TableId(id), DATABASE, owner(), order, settings).unwrap()
    }

    fn write(&self, id: u64, settings: TableSettings, entries: &[Entry]) -> Arc<TableMeta> {
        let mut writer = self.writer(id, settings);
        for (key, trailer, payload) in entries {
            writer.add(key, *trailer, payload).unwrap();
        }
        Arc::new(writer.finish().unwrap())
    }

    fn open(&self, meta: &Arc<TableMeta>) -> Result<Arc<Table>> {
        self.open_of(DATABASE, meta)
    }

    fn open_of(&self, database: u64, meta: &Arc<TableMeta>) -> Result<Arc<Table>> {
        let table = Table::open(TableSource {
            files: self.files.clone(),
            path: Self::path(meta.id.0),
            meta: meta.clone(),
            database: database.into(),
            order: self.order.clone(),
            cache: self.cache.clone(),
            stats: self.stats.clone(),
        })?;
        Ok(Arc::new(table))
    }

    fn table(&self, id: u64, settings: TableSettings, entries: &[Entry]) -> Arc<Table> {
        self.open(&self.write(id, settings, entries)).unwrap()
    }

    /// Replaces the bytes of a table's file.
    fn replace(&self, id: u64, bytes: Vec<u8>) {
        self.files.remove(&Self::path(id)).unwrap();
        self.fs.put(&Self::path(id), bytes);
    }

    fn bytes(&self, id: u64) -> Vec<u8> {
        self.fs.file(&Self::path(id)).bytes()
    }
}

fn current(iter: &TableIter) -> Option<Entry> {
    let entry = || (iter.user_key().to_vec(), iter.trailer(), iter.payload().to_vec());
    iter.valid().then(entry)
}

fn walk(mut iter: TableIter, backward: bool) -> Vec<Entry> {
    let mut found = Vec::new();
    if backward { iter.seek_to_last() } else { iter.seek_to_first() }.unwrap();
    while let Some(entry) = current(&iter) {
        found.push(entry);
        if backward { iter.prev() } else { iter.next() }.unwrap();
    }
    if backward {
        found.reverse();
    }
    found
}

fn get(table: &Table, key: &[u8], seqno: SeqNo) -> Result<Option<(Trailer, Vec<u8>)>> {
    table.get(key, seqno, true, |trailer, payload| (trailer, payload.to_vec()))
}

fn check_all(table: &Arc<Table>, entries: &[Entry]) {
    assert!(walk(table.iter(true), false) == entries);
    assert!(walk(table.iter(false), true) == entries);
    assert!(walk(table.full_scan(), false) == entries);
    assert!(walk(table.full_scan(), true) == entries);
    for (key, trailer, payload) in entries {
        let found = get(table, key, trailer.seqno()).unwrap();
        assert!(found == Some((*trailer, payload.clone())));
    }
    let mut seen = 0;
    table
        .verify(|key, trailer, payload| {
            assert!(
                (key, trailer, payload)
                    == (&entries[seen].0[..], entries[seen].1, &entries[seen].2[..])
            );
            seen += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, entries.len());
}

fn owner() -> TableOwner {
    let (id, name) = (KeyspaceId(1), "default".into());
    TableOwner { id, name, merge_operator: None, flushed: 0 }
}

fn settings(block_bytes: usize, codec: Codec) -> TableSettings {
    TableSettings { block_bytes, codec, ..TableSettings::default() }
}

#[test]
fn what_is_written_comes_back() {
    let mut rng = Rng::new(1);
    let mut entries = vec![put(b"", 1, b""), delete(b"a", 9), put(b"a", 3, b"old")];
    entries.push(put(&vec![b'b'; MAX_KEY_BYTES], 2, b"long key"));
    let twin = [vec![b'b'; MAX_KEY_BYTES - 1], vec![b'c']].concat();
    entries.push(put(&twin, MAX_SEQNO, b"nearly the same"));
    entries.push(put(b"large", 4, &b"pattern ".repeat(400_000)));
    entries.push(put(b"noise", 4, &rng.noise(2_000_000)));
    entries.extend((0..500).map(|n| pointer(format!("p{n:05}").as_bytes(), n + 1, n % 3)));
    entries.extend((0..500).map(|n| put(format!("q{n:05}").as_bytes(), 7, &rng.noise(n % 60))));
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        for block_bytes in [1, 100, 4096, 1 << 20] {
            let place = TableDir::new(KeyOrder::Bytewise);
            let table = place.table(1, settings(block_bytes, codec), &entries);
            check_all(&table, &entries);
            let summary = &table.meta.summary;
            assert_eq!(summary.entries, entries.len() as u64);
            assert_eq!((summary.tombstones, summary.max_seqno), (1, MAX_SEQNO));
            assert_eq!(summary.segments.values().map(|used| used.count).sum::<u64>(), 500);
            assert_eq!((summary.smallest_key(), summary.largest_key()), (&b""[..], &b"q00499"[..]));
            assert_eq!(table.blocks() == entries.len(), block_bytes == 1);
            let file = place.files.get(&TableDir::path(1)).unwrap();
            let properties = Properties::read(&*file, &TableDir::path(1), DATABASE, TableId(1));
            assert_eq!(properties.unwrap().codec, codec);
        }
    }
}

/// The table of such a memtable could not be written, however often the flush was tried.
#[test]
fn an_index_of_long_keys_that_are_nearly_the_same_has_an_end() {
    let key = |n: u64| [vec![b'k'; 8 << 10], n.to_be_bytes().to_vec()].concat();
    let entries: Vec<_> = (0..1000).map(|n| put(&key(n), n + 1, b"value")).collect();
    for block_bytes in [1, 4096] {
        let place = TableDir::new(KeyOrder::Bytewise);
        let table = place.table(1, settings(block_bytes, Codec::None), &entries);
        check_all(&table, &entries);
        assert!(table.blocks() < 300, "{} blocks, each with a key in the index", table.blocks());
    }
}

/// The settings of random keys: few letters, each repeated. The more each letter is repeated, the
/// longer the common prefixes are.
#[derive(Clone, Copy)]
struct KeyShape {
    letters: &'static [u8],
    repeat: usize,
}

impl KeyShape {
    fn draw(self, rng: &mut Rng, max: u64) -> Vec<u8> {
        let letters = rng.bytes_of(self.letters, max);
        letters.into_iter().flat_map(|letter| vec![letter; self.repeat]).collect()
    }
}

fn versions(rng: &mut Rng, count: usize, keys: KeyShape) -> Vec<Entry> {
    let mut all = std::collections::BTreeMap::new();
    for _ in 0..count {
        let key = keys.draw(rng, 7);
        for _ in 0..1 + rng.below(3) * rng.below(12) {
            let seqno = 1 + rng.below(40);
            let (key, trailer, payload) = match rng.below(3) {
                0 => delete(&key, seqno),
                1 => pointer(&key, seqno, rng.below(4)),
                _ => put(&key, seqno, &rng.bytes_of(b"v", 50)),
            };
            // A commit has at most one entry of a key.
            all.insert((key, std::cmp::Reverse(seqno)), (trailer, payload));
        }
    }
    all.into_iter().map(|((key, _), (trailer, payload))| (key, trailer, payload)).collect()
}

/// Returns the index of the entry on which an iterator over sorted `entries` must stand after a
/// seek.
fn behind(order: &KeyOrder, entries: &[Entry], key: &[u8], trailer: Trailer) -> usize {
    entries.partition_point(|e| order.compare_entries((&e.0, e.1), (key, trailer)).is_lt())
}

fn wander(rng: &mut Rng, order: &KeyOrder, keys: KeyShape, iter: &mut TableIter, all: &[Entry]) {
    let mut at = None;
    for _ in 0..300 {
        let key = keys.draw(rng, 8);
        let trailer = [Trailer::seek(MAX_SEQNO), Trailer::seek(rng.below(42)), Trailer::LAST]
            [rng.below(3) as usize];
        match rng.below(8) {
            0 => {
                iter.seek_to_first().unwrap();
                at = Some(0);
            }
            1 => {
                iter.seek_to_last().unwrap();
                at = all.len().checked_sub(1);
            }
            2 => {
                iter.seek(&key, trailer).unwrap();
                at = Some(behind(order, all, &key, trailer));
            }
            3 => {
                iter.seek_before(&key, trailer).unwrap();
                at = behind(order, all, &key, trailer).checked_sub(1);
            }
            direction => {
                for _ in 0..rng.below(12) {
                    if iter.valid() && direction < 6 {
                        iter.next().unwrap();
                        at = at.map(|at| at + 1);
                    } else if iter.valid() {
                        iter.prev().unwrap();
                        at = at.and_then(|at| at.checked_sub(1));
                    }
                }
            }
        }
        assert_eq!(current(iter), at.and_then(|at| all.get(at)).cloned());
        at = at.filter(|_| iter.valid());
    }
}

fn check_gets(rng: &mut Rng, table: &Table, keys: KeyShape, all: &[Entry]) {
    let order = &table.order;
    for n in 0..500 {
        let key = match n % 2 {
            0 => keys.draw(rng, 8),
            _ => all[rng.below(all.len() as u64) as usize].0.clone(),
        };
        let seqno = [MAX_SEQNO, rng.below(42)][rng.below(2) as usize];
        let entry = all.get(behind(order, all, &key, Trailer::seek(seqno)));
        let expected = entry.filter(|entry| order.compare(&entry.0, &key).is_eq());
        let before = table.stats.counts().block_reads;
        let found = get(table, &key, seqno).unwrap();
        assert_eq!(found, expected.map(|entry| (entry.1, entry.2.clone())));
        assert!(table.stats.counts().block_reads <= before + 1);
    }
}

#[test]
fn reads_like_a_sorted_map() {
    let mut rng = Rng::new(2);
    for round in 0..60 {
        let order = KeyOrder::Bytewise;
        let place = TableDir::new(order.clone());
        let keys = KeyShape { letters: b"ab\xff", repeat: [1, 5, 12][round % 3] };
        let entries = versions(&mut rng, 1 + round * 3, keys);
        let block_bytes = [1, 30, 200, 4096][round % 4];
        let codec = [Codec::Lz4, Codec::None][round % 2];
        let table = place.table(1, settings(block_bytes, codec), &entries);
        check_all(&table, &entries);
        for mut iter in [table.iter(true), table.iter(false), table.full_scan()] {
            wander(&mut rng, &order, keys, &mut iter, &entries);
        }
        check_gets(&mut rng, &table, keys, &entries);
    }
}

/// Orders keys backward and ignores case.
struct Backward;

impl Comparator for Backward {
    fn name(&self) -> &str {
        "test.Backward"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.to_ascii_lowercase().cmp(&a.to_ascii_lowercase())
    }
}

#[test]
fn a_comparator_orders_keys_and_says_which_are_equal() {
    let mut rng = Rng::new(3);
    let order = KeyOrder::Custom(Arc::new(Backward));
    for round in 0..40 {
        let keys = KeyShape { letters: b"aAb", repeat: 1 };
        let mut entries = versions(&mut rng, 1 + round * 3, keys);
        entries.sort_by(|a, b| order.compare_entries((&a.0, a.1), (&b.0, b.1)));
        entries.dedup_by(|a, b| order.compare(&a.0, &b.0).is_eq() && a.1.seqno() == b.1.seqno());
        let place = TableDir::new(order.clone());
        let table = place.table(1, settings([1, 60, 4096][round % 3], Codec::Lz4), &entries);
        check_all(&table, &entries);
        wander(&mut rng, &order, keys, &mut table.iter(true), &entries);
        check_gets(&mut rng, &table, keys, &entries);
        assert_eq!(place.stats.counts().filter_checks, 0, "no filter can know which are equal");
        let bytewise = TableDir { order: KeyOrder::Bytewise, ..place };
        let error = bytewise.open(&table.meta).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("test.Backward"), "{error}");
    }
}

/// Returns a small table of several blocks, in a place without a block cache.
fn small() -> (TableDir, Arc<TableMeta>, Vec<Entry>) {
    let mut place = TableDir::new(KeyOrder::Bytewise);
    place.cache = Arc::new(BlockCache::new(0));
    let mut entries: Vec<_> = (0..12).map(|n| pointer(&[b'k', n], 5, u64::from(n % 2))).collect();
    entries.push(delete(b"m", 7));
    entries.push(put(b"m", 6, &[b'v'; 80]));
    let meta = place.write(1, settings(90, Codec::Lz4), &entries);
    (place, meta, entries)
}

#[test]
fn i07_every_flipped_bit_is_noticed() {
    let (place, meta, entries) = small();
    let good = place.bytes(1);
    assert!(place.open(&meta).unwrap().blocks() > 3);
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            place.replace(1, bad);
            let opened = TableDir {
                cache: Arc::new(BlockCache::new(0)),
                ..TableDir::new(KeyOrder::Bytewise)
            };
            let opened = TableDir { fs: place.fs.clone(), files: place.files.clone(), ..opened };
            let error = match opened.open(&meta) {
                Err(error) => error,
                Ok(table) => {
                    for (key, trailer, payload) in &entries {
                        let found = get(&table, key, trailer.seqno());
                        assert!(
                            found.is_err() || found.unwrap() == Some((*trailer, payload.clone()))
                        );
                    }
                    let error = table.verify(|_, _, _| Ok(())).unwrap_err();
                    assert!(error.offset().is_some(), "{error}");
                    error
                }
            };
            assert_eq!(error.file(), Some(&*TableDir::path(1)), "byte {at}: {error}");
            let expected = [ErrorKind::Corruption, ErrorKind::Unsupported];
            assert!(expected.contains(&error.kind()), "byte {at}: {error}");
        }
    }
}

#[test]
fn i07_every_truncation_is_noticed() {
    let (place, meta, _) = small();
    let good = place.bytes(1);
    for len in 0..good.len() {
        // The length in the manifest, and the length that an equally wrong manifest would have.
        for bytes in [meta.bytes, len as u64] {
            let meta = Arc::new(TableMeta { bytes, ..(*meta).clone() });
            place.replace(1, good[..len].to_vec());
            let error = place.open(&meta).unwrap_err();
            assert_eq!(error.file(), Some(&*TableDir::path(1)), "{len} bytes: {error}");
            assert_eq!(
                error.message().contains("the manifest says"),
                bytes != len as u64 || len < 104
            );
        }
    }
    place.replace(1, [good, vec![0]].concat());
    assert!(place.open(&meta).unwrap_err().message().contains("the manifest says"));
}

#[test]
fn i07_a_table_in_the_place_of_another_is_noticed() {
    let (place, one, entries) = small();
    let two = place.write(2, settings(90, Codec::Lz4), &entries);
    let (one_bytes, two_bytes) = (place.bytes(1), place.bytes(2));
    assert_eq!(one_bytes.len(), two_bytes.len());
    place.replace(1, two_bytes.clone());
    place.replace(2, one_bytes.clone());
    for meta in [&one, &two] {
        assert!(place.open(meta).unwrap_err().to_string().contains("its name says"));
    }
    // Single blocks of the other table are put at their right offsets.
    let mut mixed = one_bytes.clone();
    mixed[40..200].copy_from_slice(&two_bytes[40..200]);
    place.replace(1, mixed);
    assert!(place.open(&one).unwrap().verify(|_, _, _| Ok(())).is_err());
    place.replace(1, one_bytes);
    place.open(&one).unwrap().verify(|_, _, _| Ok(())).unwrap();
    assert!(place.open_of(DATABASE + 1, &one).is_err());
}

#[test]
fn i07_another_content_than_the_manifest_means_is_noticed() {
    let (place, _, mut entries) = small();
    let meant = place.write(1, settings(90, Codec::None), &entries);
    entries[3] = pointer(&entries[3].0, 5, 0);
    let found = place.write(1, settings(90, Codec::None), &entries);
    assert_eq!((meant.bytes, &meant.summary.largest), (found.bytes, &found.summary.largest));
    place.open(&found).unwrap();
    let error = place.open(&meant).unwrap_err();
    assert!(error.to_string().contains("their contents differ"), "{error}");
}

#[test]
fn i07_a_stale_table_of_the_same_numbers_is_noticed() {
    let (place, _, mut entries) = small();
    let meant = place.write(1, settings(90, Codec::None), &entries);
    let meant_bytes = place.bytes(1);
    entries[13].2[40] ^= 1;
    let stale = place.write(1, settings(90, Codec::None), &entries);
    let alike = Summary { fingerprint: stale.summary.fingerprint, ..(*meant.summary).clone() };
    assert_eq!((meant.bytes, &alike), (stale.bytes, &*stale.summary));
    let table = place.open(&stale).unwrap();
    table.verify(|_, _, _| Ok(())).unwrap();
    let error = place.open(&meant).unwrap_err();
    assert!(error.to_string().contains("their contents differ"), "{error}");
    // Old data blocks are put in front of the right tail: only a pass over all blocks can notice
    // that.
    let data = table.data_end as usize;
    let mixed = [&place.bytes(1)[..data], &meant_bytes[data..]].concat();
    place.replace(1, mixed);
    let error = place.open(&meant).unwrap().verify(|_, _, _| Ok(())).unwrap_err();
    assert!(error.message().contains("fingerprint"), "{error}");
}

/// The parts of a table that a test assembles by hand, valid or not.
struct TableParts {
    blocks: Vec<Vec<Entry>>,
    bounds: Vec<Vec<u8>>,
    /// The summary to write. Its fingerprint is added to the right one, so zero leaves that right.
    summary: Summary,
    filtered: Vec<Vec<u8>>,
}

impl TableParts {
    fn new() -> Self {
        let blocks = vec![
            vec![put(b"a", 1, b"1"), put(b"b", 2, b"2")],
            vec![put(b"c", 4, b"4"), put(b"c", 3, b"3")],
        ];
        let mut summary = Summary::default();
        for (key, trailer, payload) in blocks.iter().flatten() {
            summary.count(key, *trailer, payload).unwrap();
        }
        summary.largest = internal_key(b"c", Trailer::new(3, EntryKind::Put));
        let bounds =
            vec![internal_key(b"b", Trailer::new(2, EntryKind::Put)), summary.largest.clone()];
        TableParts { blocks, bounds, summary, filtered: ["a", "b", "c"].map(|k| k.into()).to_vec() }
    }

    fn verify(&self) -> Result<()> {
        self.open()?.verify(|_, _, _| Ok(()))
    }

    fn open(&self) -> Result<Arc<Table>> {
        let (id, order) = (TableId(1), KeyOrder::Bytewise);
        let mut out = Header::new(FileKind::Table, DATABASE, 1).encode().to_vec();
        let seal = BlockSeal::for_writing(&DATABASE.into(), id);
        let add = |out: &mut Vec<u8>, raw: &[u8]| {
            let offset = out.len() as u64;
            seal.seal(out, offset, (Codec::None, false), raw).unwrap().0
        };
        let build = |interval, entries: &[Entry]| {
            let mut builder = BlockBuilder::new(interval);
            for (key, trailer, payload) in entries {
                builder.add(key, *trailer, payload);
            }
            builder.finish(<[u8]>::to_vec)
        };
        let (mut blocks, mut fingerprint) = (Vec::new(), BlockFingerprint::default());
        for entries in &self.blocks {
            blocks.push(add(&mut out, &build(RESTART_INTERVAL, entries)));
            fingerprint.add(&out);
        }
        let mut filter = FilterBuilder::new(10);
        self.filtered.iter().for_each(|key| filter.add(key_hash(key)));
        let filter = Some(add(&mut out, &filter.finish()));
        let indexed = self.bounds.iter().zip(blocks).map(|(bound, handle)| {
            let (key, trailer) = crate::base::key::split_internal(bound);
            let mut payload = Vec::new();
            handle.encode(&mut payload);
            (key.to_vec(), trailer, payload)
        });
        let index = add(&mut out, &build(1, &indexed.collect::<Vec<_>>()));
        let mut summary = self.summary.clone();
        summary.fingerprint = summary.fingerprint.wrapping_add(fingerprint.value());
        let summary = Arc::new(summary);
        let comparator = order.name().to_string();
        let properties = Properties {
            id,
            owner: owner(),
            comparator,
            codec: Codec::None,
            summary: summary.clone(),
            filter_policy: None,
        };
        let properties = add(&mut out, &properties.encode());
        let end = out.len() as u64;
        Footer { filter, index, properties }.encode(&mut out, &seal, end);
        let place = TableDir::new(order);
        let meta =
            TableMeta { id, bytes: out.len() as u64, summary, applied_ranges: 0, ingested_at: 0 };
        place.replace(1, out);
        place.open(&Arc::new(meta))
    }

    fn spoilt(spoil: impl FnOnce(&mut TableParts)) -> String {
        let mut parts = TableParts::new();
        spoil(&mut parts);
        let error = parts.verify().unwrap_err();
        assert_eq!(
            (error.kind(), error.file()),
            (ErrorKind::Corruption, Some(&*TableDir::path(1)))
        );
        assert!(error.offset().is_some(), "{error}");
        error.message().to_string()
    }
}

/// Symptom: a walk over a damaged table never ended. Cause: a search for the end of what a range
/// tombstone hides led back, since an entry lay among others that it does not belong to; only a
/// search that ended within the range was noticed. Each search leads on now, or fails.
#[test]
fn i07_a_walk_past_hidden_entries_that_are_out_of_order_ends() {
    let hides = |range| RangeTombstone { range: Arc::new(Bounds::parse(range)), seqno: 9 };
    let forward = TableParts {
        blocks: vec![vec![put(b"b", 2, b"2"), put(b"a", 1, b"1")], vec![put(b"c", 4, b"4")]],
        ..TableParts::new()
    };
    let mut iter = forward.open().unwrap().iter(false);
    iter.seek_to_first().unwrap();
    iter.next().unwrap();
    assert_eq!(iter.user_key(), b"a");
    let error = iter.next_behind(&hides("[a-b)")).unwrap_err();
    assert!(error.message().contains("out of order") && !iter.valid(), "{error}");

    let backward = TableParts {
        blocks: vec![vec![put(b"c", 1, b"1"), put(b"b", 2, b"2")], vec![put(b"c", 4, b"4")]],
        ..TableParts::new()
    };
    let mut iter = backward.open().unwrap().iter(false);
    iter.seek_to_first().unwrap();
    let error = iter.prev_before(&hides("[c-d)")).unwrap_err();
    assert!(error.message().contains("out of order") && !iter.valid(), "{error}");
}

#[test]
fn verify_finds_what_checksums_cannot() {
    TableParts::new().verify().unwrap();
    let trailer = Trailer::new(2, EntryKind::Put);
    let cases = [
        (TableParts::spoilt(|parts| parts.blocks[0].swap(0, 1)), "out of order"),
        (TableParts::spoilt(|parts| parts.blocks[1].swap(0, 1)), "out of order"),
        (TableParts::spoilt(|parts| parts.blocks.swap(0, 1)), "behind its bound"),
        (
            TableParts::spoilt(|parts| {
                parts.blocks[0][1].0 = b"bb".to_vec();
                parts.filtered.push(b"bb".to_vec());
            }),
            "behind its bound",
        ),
        (TableParts::spoilt(|parts| parts.bounds[0] = internal_key(b"d", trailer)), "bound before"),
        (
            TableParts::spoilt(|parts| parts.bounds[0] = internal_key(b"c", Trailer::seek(9))),
            "bound before",
        ),
        (TableParts::spoilt(|parts| parts.bounds[1] = internal_key(b"d", trailer)), "largest key"),
        (TableParts::spoilt(|parts| parts.filtered.clear()), "filter denies"),
        (TableParts::spoilt(|parts| parts.summary.key_bytes += 1), "numbers"),
        (TableParts::spoilt(|parts| parts.summary.max_seqno += 1), "numbers"),
        (TableParts::spoilt(|parts| parts.summary.fingerprint = 1), "fingerprint"),
        (TableParts::spoilt(|parts| parts.blocks[0][0].2 = b"11".to_vec()), "numbers"),
        (TableParts::spoilt(|parts| parts.blocks[0][0].0 = b"0".to_vec()), "filter denies"),
        (TableParts::spoilt(|parts| parts.bounds.truncate(1)), "indexed blocks end"),
    ];
    for (number, (message, expected)) in cases.iter().enumerate() {
        assert!(message.contains(expected), "case {number}: {message}");
    }
    let error = TableParts::new().verify().and_then(|()| {
        let (place, meta, _) = small();
        let refuse = |_: &[u8], _: Trailer, _: &[u8]| Err(crate::Error::invalid_argument("enough"));
        place.open(&meta).unwrap().verify(refuse)
    });
    assert_eq!(error.unwrap_err().message(), "enough");
}

fn numbered(count: u64, value_bytes: usize) -> Vec<Entry> {
    let mut rng = Rng::new(9);
    (0..count).map(|n| put(format!("key{n:08}").as_bytes(), 1, &rng.noise(value_bytes))).collect()
}

#[test]
fn files_are_written_in_large_pieces() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let entries = numbered(40_000, 100);
    let mut writer = place.writer(1, settings(4096, Codec::None));
    for (key, trailer, payload) in &entries {
        writer.add(key, *trailer, payload).unwrap();
    }
    let estimate = writer.file_bytes();
    let meta = writer.finish().unwrap();
    assert_eq!(meta.summary.entries, 40_000);
    assert_eq!(place.bytes(1).len() as u64, meta.bytes);
    assert!(meta.bytes.abs_diff(estimate) < 1000, "{estimate} for {}", meta.bytes);
    let writes = place.fs.file(&TableDir::path(1)).writes.lock().unwrap().clone();
    let (last, rest) = writes.split_last().unwrap();
    assert!(rest.iter().all(|len| (256 << 10..=1 << 20).contains(len)), "{rest:?}");
    assert!(rest.len() >= 5 && *last <= 1 << 20);
    // An entry larger than the largest write is written in pieces too.
    place.write(2, settings(4096, Codec::None), &[put(b"k", 1, &vec![1; 5 << 20])]);
    assert!(
        place.fs.file(&TableDir::path(2)).writes.lock().unwrap().iter().all(|&len| len <= 1 << 20)
    );
}

#[test]
fn passes_read_ahead_and_leave_the_cache_alone() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let entries = numbered(40_000, 100);
    let table = place.table(1, settings(4096, Codec::None), &entries);
    let data = table.data_end;
    for backward in [false, true] {
        let before = place.stats.counts();
        assert!(walk(table.full_scan(), backward) == entries);
        let after = place.stats.counts();
        let reads = after.block_reads - before.block_reads;
        let least = if backward { 700 << 10 } else { 120 << 10 };
        assert!(reads <= data / least, "{reads} reads of {data} bytes");
        assert!(after.block_read_bytes - before.block_read_bytes < data + data / 10);
    }
    assert_eq!((place.cache.stats().blocks, place.cache.stats().misses), (0, 0));
    // A cursor starts with single blocks and then reads ahead too.
    let before = place.stats.counts().block_reads;
    assert!(walk(table.iter(true), false) == entries);
    let reads = place.stats.counts().block_reads - before;
    assert!(reads > data / (128 << 10) && reads < data / (64 << 10), "{reads} of {data} bytes");
    assert_eq!(place.cache.stats().blocks as usize, table.blocks());
    let before = place.stats.counts().block_reads;
    assert!(walk(table.iter(false), true) == entries);
    assert_eq!(place.stats.counts().block_reads, before);
}

#[test]
fn a_get_that_is_to_come_has_its_block_read_unless_it_is_in_memory() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let entries = numbered(2000, 100);
    let table = place.table(1, settings(4096, Codec::None), &entries);
    let file = place.fs.file(&TableDir::path(1));
    let begun = || std::mem::take(&mut *file.started_reads.lock().unwrap());
    begun();
    let (key, trailer) = (&entries[700].0, entries[700].1);
    let start = |key: &[u8], seqno| table.start_get(key, seqno).unwrap();
    assert_eq!(start(key, trailer.seqno()), StartedGet::Begun);
    let before = place.stats.counts();
    let asked = begun();
    assert_eq!(asked.len(), 1);
    assert!(table.get(key, trailer.seqno(), true, |_, _| ()).unwrap().is_some());
    // It was what the get read, in length and place.
    let after = place.stats.counts();
    assert_eq!(after.block_reads - before.block_reads, 1);
    assert_eq!(after.block_read_bytes - before.block_read_bytes, asked[0].end - asked[0].start);
    assert_eq!(start(key, trailer.seqno()), StartedGet::InMemory);
    assert_eq!(start(b"no such key", MAX_SEQNO), StartedGet::Absent);
    assert_eq!(start(key, table.meta.summary.min_seqno - 1), StartedGet::Absent);
    assert_eq!(begun(), []);
}

#[test]
fn the_next_window_of_a_long_walk_backward_is_begun_while_one_is_used() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let entries = numbered(40_000, 100);
    let table = place.table(1, settings(4096, Codec::None), &entries);
    let data = DATA_START..table.data_end;
    let file = place.fs.file(&TableDir::path(1));
    let begun = || std::mem::take(&mut *file.started_reads.lock().unwrap());
    begun();
    for pass in [false, true] {
        let iter = if pass { table.full_scan() } else { table.iter(false) };
        assert!(walk(iter, true) == entries);
        let ranges = begun();
        // A cursor's first windows are too short, and nothing is begun beyond the data.
        let window = if pass { 1 << 20 } else { 256 << 10 };
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let all = data.end - data.start;
        // A window begins at the block that the one before has not all of.
        let twice = ranges.len() as u64 * (8 << 10);
        assert!(bytes <= all - window + twice, "{bytes} of {all} bytes");
        assert!(bytes + 5 * window >= all, "{bytes} of {all} bytes");
        for range in &ranges {
            assert!(data.start <= range.start && range.end <= data.end, "{range:?} of {data:?}");
            assert!(range.end - range.start <= window, "{range:?}");
        }
        assert!(ranges.windows(2).all(|pair| pair[0].start > pair[1].start), "{ranges:?}");
    }
    // Short walks begin nothing, nor do those forward, of which the system reads ahead.
    assert!(walk(table.iter(false), false) == entries);
    let mut iter = table.iter(false);
    iter.seek_to_last().unwrap();
    (0..1000).for_each(|_| iter.prev().unwrap());
    assert_eq!(begun(), []);
}

#[test]
#[cfg(target_os = "linux")]
fn a_long_walk_forward_has_the_file_for_itself() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let entries = numbered(40_000, 100);
    let table = place.table(1, settings(4096, Codec::None), &entries);
    let file = place.fs.file(&TableDir::path(1));
    let opened = || {
        let advice = std::mem::take(&mut *file.advice.lock().unwrap());
        advice.iter().filter(|it| **it == AccessPattern::Sequential).count()
    };
    for (backward, pass, files) in [(false, false, 1), (false, true, 1), (true, false, 0)] {
        let iter = if pass { table.full_scan() } else { table.iter(false) };
        assert!(walk(iter, backward) == entries);
        assert_eq!(opened(), files, "backward: {backward}, a pass: {pass}");
    }
    let mut short = table.iter(false);
    short.seek_to_first().unwrap();
    (0..1000).for_each(|_| short.next().unwrap());
    assert_eq!(opened(), 0);
    // At its end a walk closes the file, or the next ones could not have it.
    let mut ended: Vec<_> = (0..9).map(|_| table.iter(false)).collect();
    for iter in &mut ended {
        iter.seek_to_first().unwrap();
        while iter.valid() {
            iter.next().unwrap();
        }
    }
    assert_eq!(opened(), 9);
    drop(ended);
    // Another process may have removed the file, as a follower's writer does.
    place.fs.remove(&TableDir::path(1)).unwrap();
    assert!(walk(table.iter(false), false) == entries);
    assert!(walk(table.full_scan(), false) == entries);
    assert_eq!(opened(), 0);
}

/// Returns true if the ranges have every byte of `part`.
fn has_all(ranges: &[std::ops::Range<u64>], part: &std::ops::Range<u64>) -> bool {
    let mut ranges = ranges.to_vec();
    ranges.sort_by_key(|range| range.start);
    let reach = |at, range: &std::ops::Range<u64>| {
        if range.start <= at { range.end.max(at) } else { at }
    };
    ranges.iter().fold(part.start, reach) >= part.end
}

/// I7: a manifest may say anything of a table that is not open.
#[test]
fn i07_reads_that_are_begun_overflow_nothing() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let mut meta = (*place.write(1, settings(4096, Codec::None), &numbered(10, 10))).clone();
    let file = place.fs.file(&TableDir::path(1));
    for (bytes, entries) in [(u64::MAX, u64::MAX), (0, u64::MAX), (u64::MAX, 0), (1, 1)] {
        meta.bytes = bytes;
        Arc::make_mut(&mut meta.summary).entries = entries;
        start_walk(&*file, &meta, false);
        start_walk(&*file, &meta, true);
    }
}

#[test]
fn an_opening_begins_its_reads_at_once() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let meta = place.write(1, settings(4096, Codec::None), &numbered(40_000, 100));
    let file = place.fs.file(&TableDir::path(1));
    let table = place.open(&meta).unwrap();
    let begun = std::mem::take(&mut *file.started_reads.lock().unwrap());
    let (head, tail) = (0..DATA_START, table.data_end..meta.bytes);
    let has = |part: &std::ops::Range<u64>| has_all(&begun, part);
    assert!(has(&head) && has(&tail), "{begun:?}, of which {head:?} and {tail:?} are read");
    let bytes: u64 = begun.iter().map(|range| range.end - range.start).sum();
    assert!(bytes < 2 * (tail.end - tail.start), "{bytes} for {tail:?}");
    // The next table of a long walk has these begun, and the blocks where the walk will come in.
    for (backward, first) in
        [(false, DATA_START..100 << 10), (true, table.data_end - 1000..table.data_end)]
    {
        start_walk(&*file, &meta, backward);
        let begun = std::mem::take(&mut *file.started_reads.lock().unwrap());
        let has = |part: &std::ops::Range<u64>| has_all(&begun, part);
        assert!(has(&head) && has(&tail) && has(&first), "{begun:?}, backward: {backward}");
    }
}

#[test]
fn a_walk_goes_on_in_the_next_table_with_long_reads() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let entries = numbered(40_000, 100);
    let half = entries.len() / 2;
    let tables = [&entries[..half], &entries[half..]].map(|part| {
        place.table(1 + (part[0].0 > entries[0].0) as u64, settings(4096, Codec::None), part)
    });
    let reads_of = |continues: bool, backward: bool| {
        let (first, then) = if backward { (1, 0) } else { (0, 1) };
        let mut left = tables[first].iter(false);
        match backward {
            false => left.seek_to_first().unwrap(),
            true => left.seek_to_last().unwrap(),
        }
        while left.valid() {
            if backward { left.prev().unwrap() } else { left.next().unwrap() }
        }
        let before = place.stats.counts();
        let mut next = tables[then].iter(false);
        if continues {
            next.continue_walk(&left, backward);
        }
        let part = if then == 0 { &entries[..half] } else { &entries[half..] };
        assert!(walk(next, backward) == part);
        place.stats.counts().block_reads - before.block_reads
    };
    for backward in [false, true] {
        let (anew, on) = (reads_of(false, backward), reads_of(true, backward));
        let data = tables[1].data_end;
        let at_once = if backward { 256 << 10 } else { 128 << 10 };
        let fewer = if backward { 4 } else { 2 };
        assert!(on <= data / at_once + 2, "{on} reads of {data} bytes");
        assert!(anew >= on + fewer, "{anew} and {on} reads of {data} bytes");
    }
    // What led to one block only is no walk.
    let mut sought = tables[0].iter(false);
    sought.seek(b"zzz", Trailer::seek(MAX_SEQNO)).unwrap();
    assert!(!sought.valid());
    let mut next = tables[1].iter(false);
    next.continue_walk(&sought, false);
    let before = place.stats.counts().block_read_bytes;
    next.seek_to_first().unwrap();
    assert!(place.stats.counts().block_read_bytes - before < 8 << 10);
}

#[test]
fn an_expected_walk_takes_one_read() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let entries = numbered(4000, 1000);
    let table = place.table(1, settings(4096, Codec::None), &entries);
    expected_walks_take_one_read(&place, &table);
    // The entries of an ingested table are stored without a number.
    let stored = |(key, _, value): Entry| (key, Trailer::new(0, EntryKind::Put), value);
    let entries: Vec<Entry> = entries.into_iter().map(stored).collect();
    let meta = place.write(2, settings(4096, Codec::None), &entries);
    let meta = (*meta).clone().ingested(7).unwrap();
    expected_walks_take_one_read(&place, &place.open(&Arc::new(meta)).unwrap());
}

fn expected_walks_take_one_read(place: &TableDir, table: &Arc<Table>) {
    let counts = || (place.stats.counts().block_reads, place.stats.counts().block_read_bytes);
    let middle = Trailer::seek(MAX_SEQNO);
    let walk = |bytes: u64, backward: bool, steps: usize| {
        let mut iter = table.iter(false);
        iter.expect(bytes);
        let before = counts();
        match backward {
            false => iter.seek(b"key00002000", middle).unwrap(),
            true => iter.seek_before(b"key00002000", middle).unwrap(),
        }
        for n in 0..steps {
            let expected = if backward { 1999 - n } else { 2000 + n };
            assert_eq!(iter.user_key(), format!("key{expected:08}").as_bytes());
            if backward { iter.prev().unwrap() } else { iter.next().unwrap() }
        }
        let after = counts();
        (after.0 - before.0, after.1 - before.1)
    };
    for backward in [false, true] {
        let (reads, bytes) = walk(120_000, backward, 100);
        assert_eq!(reads, 1);
        assert!((100_000..=120_000).contains(&bytes), "{bytes}");
        assert!(walk(0, backward, 100).0 > 3, "it begins block by block");
        // Beyond what was expected, windows grow from the least on.
        let (reads, bytes) = walk(120_000, backward, 130);
        assert!(reads <= 3 && bytes < 180_000, "{reads} reads of {bytes} bytes");
        // Very short walks are read block by block, very long ones begin with the longest window.
        assert_eq!(walk(8000, backward, 1), walk(0, backward, 1));
        assert!((250 << 10..=256 << 10).contains(&walk(u64::MAX, backward, 1).1));
    }
}

#[test]
fn a_point_read_costs_one_block_or_none() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let entries = numbered(10_000, 20);
    let table = place.table(1, TableSettings::default(), &entries);
    assert!(table.get(b"key00000007", 1, false, |_, _| ()).unwrap().is_some());
    assert_eq!(place.cache.stats().blocks, 0);
    for (key, ..) in &entries {
        assert!(get(&table, key, MAX_SEQNO).unwrap().is_some());
        assert!(get(&table, key, 0).unwrap().is_none());
    }
    let counts = place.stats.counts();
    assert_eq!(counts.block_reads, table.blocks() as u64 + 1);
    assert_eq!((counts.filter_checks, counts.filter_useful), (10_001, 0));
    for n in 0..10_000 {
        assert!(get(&table, format!("key{n:08}x").as_bytes(), MAX_SEQNO).unwrap().is_none());
    }
    let counts = place.stats.counts();
    let expected = TableCounts { filter_checks: 20_001, ..counts };
    assert_eq!(counts, expected);
    assert_eq!(counts.filter_useful + counts.filter_false_positives, 10_000);
    assert!((1..150).contains(&counts.filter_false_positives), "{counts:?}");
    let bytes = table.memory_bytes();
    assert!((10_000 * 10 / 8..40_000).contains(&bytes), "{bytes}");
}

#[test]
fn versions_of_a_key_count_once_in_the_filter() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let mut entries: Vec<_> = (0..1000).map(|n| put(b"a", 2000 - n, b"")).collect();
    entries.push(put(b"b", 1, b""));
    let table = place.table(1, settings(1 << 20, Codec::None), &entries);
    let bytes = table.memory_bytes();
    assert!(bytes < size_of::<Table>() as u64 + 200, "{bytes}");
    // The key has no version as of that moment, which is no false positive of the filter.
    assert_eq!(get(&table, b"a", 500).unwrap(), None);
    let counts = place.stats.counts();
    assert_eq!((counts.filter_checks, counts.filter_false_positives), (1, 0));
}

#[test]
fn without_a_filter_every_key_may_be_there() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let bare = TableSettings { filter_bits_per_key: 0, ..TableSettings::default() };
    let entries = numbered(100, 10);
    let table = place.table(1, bare, &entries);
    check_all(&table, &entries);
    let looks = || place.cache.stats().hits;
    let before = looks();
    assert_eq!(get(&table, b"key00000007x", MAX_SEQNO).unwrap(), None);
    assert_eq!((looks() - before, place.stats.counts().filter_checks), (1, 0));
}

#[test]
fn a_lost_file_is_named_and_an_iterator_survives_its_error() {
    let (place, meta, entries) = small();
    let table = place.open(&meta).unwrap();
    let good = place.bytes(1);
    let mut iter = table.iter(false);
    iter.seek_to_first().unwrap();
    place.replace(1, vec![0; good.len()]);
    let error = loop {
        if let Err(error) = iter.next() {
            break error;
        }
    };
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(table.path())));
    assert!(error.offset().is_some_and(|at| at >= 40) && !iter.valid());
    assert!(get(&table, b"m", 9).is_err());
    place.files.remove(&TableDir::path(1)).unwrap();
    assert_eq!(get(&table, b"m", 9).unwrap_err().kind(), ErrorKind::Io);
    let mut pass = table.full_scan();
    assert!(pass.seek_to_first().is_err() && !pass.valid());
    place.replace(1, good);
    assert!(walk(iter, false) == entries);
    assert!(walk(pass, false) == entries);
}

#[test]
#[should_panic(expected = "was added behind")]
fn entries_out_of_order_are_a_bug() {
    let place = TableDir::new(KeyOrder::Bytewise);
    let mut writer = place.writer(1, TableSettings::default());
    writer.add(b"k", Trailer::new(3, EntryKind::Put), b"").unwrap();
    writer.add(b"k", Trailer::new(4, EntryKind::Put), b"").unwrap();
}

#[test]
fn a_payload_that_is_no_pointer_is_refused_and_not_added() {
    let (place, entries) = (TableDir::new(KeyOrder::Bytewise), numbered(2, 5));
    let mut writer = place.writer(1, TableSettings::default());
    let add = |writer: &mut TableWriter, (key, trailer, payload): &Entry| {
        writer.add(key, *trailer, payload).unwrap();
    };
    add(&mut writer, &entries[0]);
    let pointer = Trailer::new(1, EntryKind::PutPointer);
    assert!(writer.add(b"key00000000a", pointer, b"\x80").is_err());
    assert!(writer.add(b"key00000000b", Trailer(9), b"").is_err());
    add(&mut writer, &entries[1]);
    let meta = Arc::new(writer.finish().unwrap());
    check_all(&place.open(&meta).unwrap(), &entries);
}

#[test]
fn the_bytes_of_a_table_are_part_of_the_format() {
    let (place, _, entries) = small();
    let meta = place.write(1, settings(90, Codec::None), &entries);
    let sum = crate::base::checksum::checksum64(0, &place.bytes(1));
    assert_eq!((meta.bytes, sum), (686, 7232557598315454889));
}

/// Guards against blocks of small entries that lie in two pages: each get that misses the page
/// cache would read both.
#[test]
fn blocks_of_small_entries_that_do_not_compress_end_with_pages() {
    let entries = |len: usize| {
        let mut rng = Rng::new(len as u64);
        (0..2000).map(|n| put(format!("{n:08}").as_bytes(), 1, &rng.noise(len))).collect::<Vec<_>>()
    };
    let ends = |len: usize, codec: Codec, block_bytes: usize| {
        let place = TableDir::new(KeyOrder::Bytewise);
        let entries = entries(len);
        let table = place.table(1, settings(block_bytes, codec), &entries);
        check_all(&table, &entries);
        let blocks = table.blocks() - 1;
        let is_filled = |at: &usize| table.handle(*at).unwrap().end().is_multiple_of(PAGE_BYTES);
        let stored = table.data_end as f64 / (2000 * (8 + len)) as f64;
        ((0..blocks).filter(is_filled).count(), blocks, stored)
    };
    for (len, codec, block_bytes) in [
        (100, Codec::None, 4096),
        (20, Codec::None, 4096),
        (200, Codec::None, 4096),
        (100, Codec::None, 16 << 10),
        (100, Codec::None, 5000),
    ] {
        let (filled, blocks, stored) = ends(len, codec, block_bytes);
        assert_eq!(filled, blocks, "{len} bytes, {block_bytes}");
        assert!(stored < 1.6, "{len} bytes take {stored}");
    }
    // Some blocks are tried to be compressed, and what their end is to be is known afterwards.
    let (filled, blocks, _) = ends(100, Codec::Lz4, 4096);
    assert!(filled > blocks * 9 / 10, "{filled} of {blocks}");
    // Where an entry is a large part of a page, little would be won for what is filled up.
    let (filled, blocks, stored) = ends(1100, Codec::None, 4096);
    assert!(filled < blocks / 4 && stored < 1.05, "{filled} of {blocks}, {stored}");
    let (filled, _, _) = ends(100, Codec::None, 1024);
    assert!(filled < 10, "{filled} of blocks that are smaller than a page");
}

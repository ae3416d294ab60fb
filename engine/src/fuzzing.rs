//! The fuzz targets: functions that give arbitrary bytes to a decoder, which must end and return no
//! wrong result. They are built with `--cfg fuzzing` only, as `cargo xtask fuzz` does. All
//! checksums are the same number then (`base/checksum.rs`), so that code behind them is reached.

use crate::base::coding::{Reader, put_varint};
use crate::base::compression::{Codec, decompress};
use crate::base::entry::{Payload, Slot};
use crate::base::error::Result;
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::key::{EntryKind, KeyOrder, MAX_SEQNO};
use crate::base::pointer::{RelocationId, SegmentId, TableId};
use crate::base::seal::EncryptionKey;
use crate::db::Db;
use crate::db::backup::point::{PointDescription, StoredFile, StoredKind};
use crate::db::changes::ChangesOptions;
use crate::db::control::request::{self, ControlRequest};
use crate::db::ingest::{SortedFileOptions, SortedFileWriter, read_sorted_file};
use crate::db::inspect::inspect_with;
use crate::db::options::{Options, WriteOptions};
use crate::env::Env;
use crate::env::sim::Simulation;
use crate::gc::settings::GcOptions;
use crate::recovery::manifest::read_version;
use crate::relocation::{RelocationMeta, RelocationTable};
use crate::segment::{RecordView, ScanMode, ScanStart, read_head, scan};
use crate::table::{Table, TableMeta, TableSource};
use crate::version::Version;
use crate::version::build::{VersionBuilder, state_of};
use crate::version::edit::Edit;
use crate::version::files::names::{self, FileName};
use crate::version::files::{TableContext, TableLimits};
use crate::version::keys::{self, WrappedKeys};
use crate::version::manifest::{Current, read_current};
use crate::version::manifest_reader::ManifestReader;
use crate::version::settings::{KeyspaceOptions, Separation};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The fuzz targets by name.
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("varint", varint),
    ("slot", slot),
    ("header", header),
    ("current", current),
    ("keys", wrapped_keys),
    ("value", value),
    ("record", record),
    ("segment", segment),
    ("table", table),
    ("table_meta", table_meta),
    ("relocation", relocation),
    ("edit", edit),
    ("manifest", manifest),
    ("keyspace_settings", keyspace_settings),
    ("options", options),
    ("names", names),
    ("inspect", inspect),
    ("directory", directory),
    ("sorted_file", sorted_file),
    ("backup_point", backup_point),
    ("control_request", control_request),
];

const DIR: &str = "db";
/// The number of the point of a backup that is read.
const POINT: u64 = 2;
/// The seed of the simulation that the small store is made in; its database number depends on it.
const SEED: u64 = 1;

/// Returns the seed inputs of the targets, taken from the files of a real store.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (path, bytes) in store() {
        let target = match names::parse(path) {
            FileName::Segment(_) => "segment",
            FileName::Table(_) => "table",
            FileName::Relocation(_) => "relocation",
            FileName::Manifest(_) => "manifest",
            _ => "current",
        };
        seeds.push((target, bytes.clone()));
        seeds.push(("inspect", bytes.clone()));
        seeds.push(("header", bytes[..bytes.len().min(HEADER_BYTES)].to_vec()));
        seeds.push(("names", path.file_name().unwrap_or_default().as_encoded_bytes().to_vec()));
        if target == "manifest" {
            let (env, _) = world(&[(path.clone(), bytes.clone())]);
            let each = |_, edit: Edit| {
                seeds.push(("edit", edit.encode()));
                Ok(())
            };
            let header = Header::decode(bytes).expect("a header of a real store");
            let opened = ManifestReader::open(&env, path, &header.database.into());
            let read = opened.and_then(|mut it| it.for_each(each));
            read.expect("the manifest of a real store");
        }
    }
    seeds.push(("keys", keys_seed()));
    seeds.push(("sorted_file", sorted_file_seed()));
    seeds.push(("backup_point", backup_point_seed()));
    let text = KeyspaceOptions::default().to_text();
    seeds.push(("keyspace_settings", text.into_bytes()));
    seeds.push(("options", GcOptions::default().to_text().into_bytes()));
    seeds.push(("control_request", b"cleave/1 checkpoint /a%20b".to_vec()));
    seeds.push(("directory", vec![0, 1, 0, 9, 3, 0, 40, 1]));
    seeds
}

/// Whatever is asked at the control socket, a refusal is a short sentence without control
/// characters, and what is accepted has an absolute path.
fn control_request(data: &[u8]) {
    match request::parse(data) {
        Ok(ControlRequest::Checkpoint(path)) => assert!(path.is_absolute()),
        Ok(_) => {}
        Err(reason) => assert!(reason.len() < 200 && !reason.contains(char::is_control)),
    }
}

fn keys_seed() -> Vec<u8> {
    let (env, _) = world(&[]);
    let dir = Path::new(DIR);
    keys::create(&env, dir, 7, Some(&EncryptionKey::new([7; 32]))).expect("a file of keys");
    let path = dir.join(names::KEYS);
    let file = env.fs.open(&path).expect("the file");
    let mut bytes = vec![0; file.len().expect("its length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("its bytes");
    bytes
}

/// Returns the description of a point with a file of each kind.
fn backup_point_seed() -> Vec<u8> {
    let file = |kind, id, holes: &[(u64, u64)]| StoredFile {
        kind,
        id,
        copied_by: 1,
        length: 1 << 20,
        identity: 7,
        checksum: 9,
        holes: holes.into(),
    };
    let files = vec![
        file(StoredKind::Table, 2, &[]),
        file(StoredKind::Segment, 3, &[(4096, 8192), (65536, 4096)]),
        file(StoredKind::Relocation, 4, &[]),
        file(StoredKind::Manifest, 5, &[]),
        file(StoredKind::Keys, 0, &[]),
    ];
    let (number, time_millis, seqno, manifest) = (POINT, 1_700_000_000_000, 99, 5);
    let (database, is_encrypted) = (7, true);
    let point =
        PointDescription { database, number, is_encrypted, time_millis, seqno, manifest, files };
    point.encode()
}

/// A description that is read is written as it was.
fn backup_point(data: &[u8]) {
    let path = Path::new(DIR).join("00000002.point");
    let (env, _) = world(&[(path.clone(), data.to_vec())]);
    if let Ok(point) = PointDescription::read(&env, &path, POINT) {
        assert_eq!(point.encode(), data);
    }
}

/// A number that decodes encodes to the same bytes, so each number has one encoding.
fn varint(data: &[u8]) {
    let mut reader = Reader::new(data);
    while !reader.is_empty() {
        let before = reader.rest();
        let Ok(number) = reader.varint() else { return };
        let mut again = Vec::new();
        put_varint(&mut again, number);
        assert_eq!(before[..before.len() - reader.rest().len()], again);
    }
}

/// Returns a sorted file behind the length of its table (two bytes), with its values at the end.
fn sorted_file_seed() -> Vec<u8> {
    let (env, _) = world(&[]);
    let path = Path::new(DIR).join("sorted");
    let options = SortedFileOptions { separation_threshold: 30, ..SortedFileOptions::default() };
    let mut file = SortedFileWriter::create_in(env.clone(), &path, &options).expect("a new file");
    for number in 0..9usize {
        file.put(number.to_string(), "value ".repeat(number)).expect("keys ascend");
    }
    file.finish().expect("a whole file");
    let content = |path: &Path| {
        let file = env.fs.open(path).expect("it was written");
        let mut bytes = vec![0; file.len().expect("a length") as usize];
        file.read_exact_at(&mut bytes, 0).expect("its content");
        bytes
    };
    let (table, values) = (content(&path), content(&Path::new(DIR).join("sorted.values")));
    [&(table.len() as u16).to_le_bytes()[..], &table, &values].concat()
}

/// A sorted file is read to its end, or refused.
fn sorted_file(data: &[u8]) {
    let [a, b, rest @ ..] = data else { return };
    let length = usize::from(u16::from_le_bytes([*a, *b])).min(rest.len());
    let (table, values) = rest.split_at(length);
    let path = Path::new(DIR).join("sorted");
    let values_path = Path::new(DIR).join("sorted.values");
    let (env, _) = world(&[(path.clone(), table.to_vec()), (values_path, values.to_vec())]);
    let mut last: Option<Vec<u8>> = None;
    let _ = read_sorted_file(&env, &path, |key| {
        assert!(last.as_deref().is_none_or(|last| last < key), "keys ascend");
        last = Some(key.to_vec());
    });
}

fn slot(data: &[u8]) {
    let Some((kind, stored)) = data.split_first() else { return };
    let Ok(kind) = EntryKind::from_number(*kind) else { return };
    if let Ok(payload) = Payload::decode(kind, stored) {
        assert_eq!(payload.kind(), kind);
        let mut again = Vec::new();
        payload.encode(&mut again);
        assert_eq!(again, stored);
    }
}

fn header(data: &[u8]) {
    if let Ok(header) = Header::decode(data) {
        assert_eq!(Header::decode(&header.encode()).ok(), Some(header));
    }
}

/// Keys that decode are in order.
fn wrapped_keys(data: &[u8]) {
    let Ok(header) = Header::decode(data) else { return };
    if let Ok(wrapped) = WrappedKeys::decode(data, header.database) {
        let first_files: Vec<u64> = wrapped.first_files().collect();
        assert!(first_files.is_sorted_by(|a, b| a < b) && !first_files.is_empty());
    }
}

fn current(data: &[u8]) {
    let (env, _) = world(&[(Path::new(DIR).join(names::CURRENT), data.to_vec())]);
    if let Ok(current) = read_current(&env, Path::new(DIR)) {
        let header = Header::new(FileKind::Current, current.database, current.manifest)
            .encrypted(current.is_encrypted);
        assert_eq!(header.encode()[16..32], data[16..32]);
    }
}

/// The input is a codec, a length (two bytes) and a compressed value said to be of that length.
fn value(data: &[u8]) {
    let [codec, a, b, stored @ ..] = data else { return };
    let len = usize::from(u16::from_le_bytes([*a, *b]));
    let Ok(codec) = Codec::from_number(*codec) else { return };
    if let Ok(raw) = decompress(codec, stored, len) {
        assert_eq!(raw.len(), len);
    }
}

fn record(data: &[u8]) {
    if let Ok(record) = RecordView::decode_exact(data, 7, 88) {
        assert_eq!(record.length as usize, data.len());
        assert!(record.seqno <= MAX_SEQNO);
        check_value(&record);
    }
}

fn check_value(record: &RecordView<'_>) {
    // Larger values only take time.
    if record.raw_len < 1 << 20
        && let Ok(raw) = record.raw_value()
    {
        assert_eq!(raw.len(), record.raw_len as usize);
    }
}

/// The frames follow each other without a gap, and a scan that finds a clean end finds the same
/// end when the length is known.
fn segment(data: &[u8]) {
    let Ok(header) = Header::decode(data) else { return };
    let path = names::segment(Path::new(DIR), SegmentId(header.file));
    let (env, _) = world(&[(path.clone(), data.to_vec())]);
    let file = env.fs.open(&path).expect("the file");
    let head = read_head(&*file, &path, header.database, SegmentId(header.file));
    let Ok(Some(head)) = head else { return };
    let start = ScanStart::first(&head);
    let mut at = start.offset;
    let seal = head.epoch.into();
    let tail = scan(&*file, &path, &head, &seal, ScanMode::Tail, start, &mut |frame| {
        assert_eq!(frame.offset, at);
        at = frame.end;
        frame.records.iter().for_each(check_value);
        Ok(())
    });
    if let Ok(end) = tail {
        assert_eq!(end.end_offset, at);
        let sealed = ScanMode::Sealed(at);
        let again = scan(&*file, &path, &head, &seal, sealed, start, &mut |_| Ok(()));
        assert_eq!(again.expect("frames that were read once").end_offset, at);
    }
}

/// Opens the bytes as a table, reads all of it, and looks up the keys that it found.
fn table(data: &[u8]) {
    let Ok(header) = Header::decode(data) else { return };
    let id = TableId(header.file);
    let path = names::table(Path::new(DIR), id);
    let (env, _) = world(&[(path.clone(), data.to_vec())]);
    let context = context(&env, header.database);
    let read = || -> Result<()> {
        let file = env.fs.open(&path).expect("the file");
        let meta = Arc::new(TableMeta::read(&*file, &path, header.database, id)?);
        let table = Table::open(TableSource {
            files: context.files.clone(),
            path: path.clone(),
            meta: meta.clone(),
            database: header.database.into(),
            order: KeyOrder::default(),
            cache: context.cache.clone(),
            stats: context.stats.clone(),
        })?;
        let mut keys = Vec::new();
        let verified = table.verify(|key, trailer, payload| {
            keys.push((key.to_vec(), trailer.seqno()));
            Slot::decode(trailer.kind()?, payload).map(drop)
        });
        for (key, seqno) in keys.iter().take(100) {
            let found = table.get(key, *seqno, true, |trailer, _| trailer.seqno());
            // If the table verifies as a whole, each of its keys is found.
            assert!(verified.is_err() || found.is_ok_and(|found| found == Some(*seqno)));
        }
        table.get(b"key", MAX_SEQNO, true, |_, _| ())?;
        Ok(())
    };
    // Errors are the expected result for most inputs.
    drop(read());
}

fn table_meta(data: &[u8]) {
    let mut reader = Reader::new(data);
    if let Ok(meta) = TableMeta::decode(&mut reader) {
        let mut again = Vec::new();
        meta.encode(&mut again);
        assert_eq!(again, data[..data.len() - reader.rest().len()]);
    }
}

fn relocation(data: &[u8]) {
    let Ok(header) = Header::decode(data) else { return };
    let id = RelocationId(header.file);
    let path = names::relocation(Path::new(DIR), id);
    let (env, _) = world(&[(path.clone(), data.to_vec())]);
    let context = context(&env, header.database);
    let read = || -> Result<()> {
        let file = env.fs.open(&path).expect("the file");
        let meta = Arc::new(RelocationMeta::read(&*file, &path, header.database, id)?);
        let (files, cache) = (context.files.clone(), context.cache.clone());
        let table = RelocationTable::open(files, path.clone(), meta, header.database, cache)?;
        let mut moves = Vec::new();
        table.for_each(|old, segment, new, length| {
            moves.push((old, segment, new, length));
            Ok(())
        })?;
        for (old, segment, new, length) in moves.into_iter().take(100) {
            let found = table.find(old)?.expect("a move that was read");
            assert_eq!((found.segment, found.offset, found.length), (segment, new, length));
        }
        table.find(1)?;
        Ok(())
    };
    drop(read());
}

fn edit(data: &[u8]) {
    if let Ok(edit) = Edit::decode(data) {
        assert_eq!(edit.encode(), data);
    }
}

/// The version that the edits yield equals the one that its state, written as one edit, yields.
fn manifest(data: &[u8]) {
    let Ok(header) = Header::decode(data) else { return };
    let path = names::manifest(Path::new(DIR), header.file);
    let (env, _) = world(&[(path, data.to_vec())]);
    let tables = context(&env, header.database);
    let Header { database, file: manifest, is_encrypted, .. } = header;
    let current = Current { database, manifest, is_encrypted };
    let comparator_of = |_: &str| Ok(KeyOrder::default());
    if let Ok(found) = read_version(&env, &tables, current, &comparator_of) {
        let state = state_of(&found.version, found.next_file, found.last_seqno);
        let edit = Edit::decode(&state.encode()).expect("an edit of ours");
        let builder = VersionBuilder { tables: &tables, comparator_of: &comparator_of };
        let mut again = Version::default();
        builder.apply_to(&mut again, &edit).expect("a state of ours");
        assert_eq!(state_of(&again, found.next_file, found.last_seqno), state);
    }
}

fn keyspace_settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(settings) = KeyspaceOptions::from_text(text) {
        assert_eq!(KeyspaceOptions::from_text(&settings.to_text()).ok(), Some(settings));
    }
}

fn options(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(settings) = GcOptions::from_text(text) {
        assert_eq!(GcOptions::from_text(&settings.to_text()).ok(), Some(settings));
    }
    if let Ok(durability) = text.parse::<crate::commit::group::Durability>() {
        assert_eq!(durability.to_string().parse().ok(), Some(durability));
    }
}

/// A name that is recognized is exactly the name that is written for its file. A store that
/// contains files of such names opens, or opening returns an error.
fn names(data: &[u8]) {
    let mut files = store().to_vec();
    for name in data.split(|byte| *byte == b'\n').take(4) {
        let Ok(name) = std::str::from_utf8(name) else { return };
        if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
            return;
        }
        let (dir, path) = (Path::new(DIR), Path::new(DIR).join(name));
        let written = match names::parse(&path) {
            FileName::Table(id) => names::table(dir, id),
            FileName::Segment(id) => names::segment(dir, id),
            FileName::Relocation(id) => names::relocation(dir, id),
            FileName::Manifest(id) => names::manifest(dir, id),
            FileName::Aside(id) => names::aside(dir, id),
            FileName::Fixed | FileName::Note | FileName::Foreign => path.clone(),
        };
        assert_eq!(written, path);
        if files.iter().all(|(known, _)| *known != path) {
            files.push((path, Vec::new()));
        }
    }
    live(&files);
}

/// `inspect` ends without a panic, whatever the file contains.
fn inspect(data: &[u8]) {
    let id = Header::decode(data).map_or(1, |header| header.file);
    for ending in ["seg", "tbl", "rel", "man"] {
        let path = Path::new(DIR).join(format!("{id:08}.{ending}"));
        let (env, _) = world(&[(path.clone(), data.to_vec())]);
        drop(inspect_with(&env, &path, None, &mut std::io::sink()));
    }
}

/// Damages a small store and uses it. Each four bytes of input are one change: the file, the
/// offset (two bytes) and the bits to flip.
fn directory(data: &[u8]) {
    let mut files = store().to_vec();
    for change in data.chunks_exact(4).take(8) {
        let count = files.len();
        let bytes = &mut files[usize::from(change[0]) % count].1;
        let at = usize::from(u16::from_le_bytes([change[1], change[2]]));
        match bytes.len() {
            0 => bytes.push(change[3]),
            // A change of no bits cuts the file instead.
            len if change[3] == 0 => bytes.truncate(at % len),
            len => bytes[at % len] ^= change[3],
        }
    }
    live(&files);
}

/// Opens, reads, writes, checks and repairs a store that consists of these files.
fn live(files: &[(PathBuf, Vec<u8>)]) {
    let (env, simulation) = world(files);
    simulation.limit_steps(2_000_000);
    simulation.run(|| {
        let builder = || Db::builder(DIR).options(small()).env(env.clone());
        let use_it = || -> Result<()> {
            let db = builder().open()?;
            for name in db.keyspaces() {
                let keyspace = db.keyspace(&name)?;
                keyspace.iter().take_while(|item| item.is_ok()).for_each(drop);
                keyspace.put("new", "value")?;
            }
            let mut changes = db.changes_with(0, &ChangesOptions::new().pin(true))?;
            while changes.next_batch().is_ok_and(|batch| batch.is_some()) {}
            drop(changes);
            db.check()?;
            db.close()
        };
        drop(use_it());
        if builder().repair().is_ok() {
            builder().open().expect("what was repaired opens").close().expect("it closes");
        }
    });
}

/// Creates a simulated disk with these files.
fn world(files: &[(PathBuf, Vec<u8>)]) -> (Env, Simulation) {
    let (env, simulation) = Env::simulated(SEED);
    env.fs.create_dir_all(Path::new(DIR)).expect("a directory");
    for (path, bytes) in files {
        let file = env.fs.create(path).expect("a new file");
        file.write_at(bytes, 0).expect("room on the disk");
    }
    (env, simulation)
}

fn context(env: &Env, database: u64) -> Arc<TableContext> {
    Arc::new(TableContext::new(
        env.fs.clone(),
        DIR.into(),
        database,
        TableLimits { cache_bytes: 64 << 10, ..TableLimits::TESTS },
    ))
}

fn small() -> Options {
    let keyspace = KeyspaceOptions {
        separation_threshold: 100,
        value_codec: Codec::Lz4,
        value_compression_min_bytes: 0,
        block_bytes: 256,
        table_bytes: 4 << 10,
        memtable_bytes: 4 << 10,
        ..KeyspaceOptions::default()
    };
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    Options { segment_bytes: 4 << 10, keyspace, gc, ..Options::default() }
}

/// Returns the files of a small store with tables, inline and separated values, relocations and a
/// log.
fn store() -> &'static [(PathBuf, Vec<u8>)] {
    static STORE: OnceLock<Vec<(PathBuf, Vec<u8>)>> = OnceLock::new();
    STORE.get_or_init(|| {
        let (env, simulation) = Env::simulated(SEED);
        simulation.run(|| {
            let db = Db::builder(DIR).options(small()).env(env).open().expect("a new store");
            let separation = Separation::Off;
            let inline = KeyspaceOptions { separation, ..small().keyspace };
            let inline = db.create_keyspace_with("inline", inline).expect("a keyspace");
            for number in 0..60usize {
                let key = format!("key{}", number * 7 % 20);
                let value = number.to_string().repeat([2, 30, 120][number % 3]);
                let separate = db.default_keyspace();
                separate.put(&key, &value).expect("a put");
                inline.put_with(&key, &value, &WriteOptions::default()).expect("a put");
                if number == 25 {
                    db.flush().expect("a flush");
                }
            }
            // One range tombstone is flushed, beside tables that it hides something in, and one is
            // in the log.
            inline.delete_range("key11".."key13").expect("a deletion");
            let snapshot = db.snapshot();
            db.gc().expect("a collection");
            inline.delete("key3").expect("a deletion");
            inline.delete_range("key5"..="key6").expect("a deletion");
            drop(snapshot);
            db.close().expect("it closes");
        });
        let files = simulation.files().into_iter().filter(|path| !path.ends_with("LOCK"));
        let files = files.map(|path| (path.clone(), simulation.read_file(&path)));
        files.map(|(path, bytes)| (path, trimmed(bytes))).collect()
    })
}

/// Cuts off all but 32 of the zeroes at the end, which are prepared for appends.
fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(used.max(bytes.len().min(used + 32)));
    bytes
}

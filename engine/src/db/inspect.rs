//! Prints any file of a database as readable text, for the command `cleave inspect`.

use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, InFile, IoContext, Result};
use crate::base::expiry::Deadline;
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::key::{KeyOrder, Trailer};
use crate::base::pointer::{RelocationId, SegmentId, TableId};
use crate::base::seal::DatabaseIdentity;
use crate::cache::{BlockCache, OpenFiles};
use crate::db::backup::point::PointDescription;
use crate::db::ingest::sorted_file;
use crate::env::fs::{File, NameKind};
use crate::env::key_provider::KeyProvider;
use crate::env::{Env, OsSettings};
use crate::relocation::{RelocationMeta, RelocationTable, TargetUse};
use crate::segment::{
    RecordKind, RecordSeal, ScanMode, ScanStart, ScanTail, SegmentHead, read_head, scan,
};
use crate::table::{Properties, Table, TableMeta, TableSource, TableStats};
use crate::version::files::names::{self, FileName};
use crate::version::keys::{self, WrappedKeys};
use crate::version::manifest_reader::ManifestReader;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Keys and values are cut to this many bytes.
const MAX_PRINTED_BYTES: usize = 64;
/// Texts of settings are cut to this many bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Prints any one file of a database as text to `out`. Reads no other file and changes nothing.
/// Damage is reported after what could be read.
///
/// ```
/// # let dir = cleavedb::doc_dir("inspect");
/// cleavedb::open(&dir)?.close()?;
/// let mut text = Vec::new();
/// cleavedb::inspect(&dir.join("CURRENT"), &mut text)?;
/// assert!(String::from_utf8_lossy(&text).contains("manifest in force"));
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub fn inspect(path: &Path, out: &mut dyn Write) -> Result<()> {
    inspect_with(&Env::os(&OsSettings::default()), path, None, out)
}

/// Prints a file of an encrypted database as [`inspect`] does. Reads `KEYS` beside the file too.
///
/// ```
/// # let dir = cleavedb::doc_dir("inspect-encrypted");
/// use cleavedb::{Db, EncryptionKey};
/// use std::sync::Arc;
/// let key = EncryptionKey::new([7; 32]);
/// Db::builder(&dir).encryption(Arc::new(key.clone())).open()?.close()?;
/// let mut text = Vec::new();
/// cleavedb::inspect_encrypted(&dir.join("00000001.man"), &key, &mut text)?;
/// assert!(String::from_utf8_lossy(&text).contains("AddKeyspace"));
/// assert!(cleavedb::inspect(&dir.join("00000001.man"), &mut text).is_err());
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub fn inspect_encrypted(path: &Path, keys: &dyn KeyProvider, out: &mut dyn Write) -> Result<()> {
    inspect_with(&Env::os(&OsSettings::default()), path, Some(keys), out)
}

/// Prints what has no header: text, and a socket. Returns false if it is something else.
fn inspect_without_header(env: &Env, path: &Path, out: &mut dyn Write) -> Result<bool> {
    if matches!(names::parse(path), FileName::Fixed) && path.ends_with(names::OPTIONS) {
        print_text(env, path, out)?;
    } else if path.ends_with(names::LOCK) {
        let what = "lock file; whether anybody holds it now, only the operating system knows\n";
        print(out, path, format_args!("{what}"))?;
        print_text(env, path, out)?;
        print(out, path, format_args!("\n"))?;
    } else if env.fs.kind(path).doing("look at", path)? == Some(NameKind::Socket) {
        let what = "socket at which the process that has the database open can be asked\n";
        print(out, path, format_args!("{what}"))?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Prints a file as [`inspect`] or [`inspect_encrypted`] does, in another environment.
pub fn inspect_with(
    env: &Env,
    path: &Path,
    keys: Option<&dyn KeyProvider>,
    out: &mut dyn Write,
) -> Result<()> {
    if !env.fs.exists(path).doing("look for", path)? {
        return Err(Error::not_found("there is no such file")
            .in_file(path)
            .advise("check the path"));
    }
    if inspect_without_header(env, path, out)? {
        return Ok(());
    }
    let file = env.fs.open(path).doing("open", path)?;
    let mut head = [0; HEADER_BYTES];
    let read = file.read_at(&mut head, 0).doing("read", path)?;
    if read == 0 && matches!(names::parse(path), FileName::Segment(_)) {
        return print(out, path, format_args!("segment: prepared, never begun\n"));
    }
    let header = Header::decode(&head[..read]).in_file(path)?;
    print(
        out,
        path,
        format_args!(
            "{} {}, format version {}, database {:016x}, {} bytes\n",
            header.kind.word(),
            header.file,
            header.version,
            header.database,
            file.len().doing("measure", path)?
        ),
    )?;
    #[cfg(feature = "sim")]
    let test_key = crate::env::key_provider::test_key();
    #[cfg(feature = "sim")]
    let keys = keys.or(test_key.as_deref());
    let identity = match keys {
        // KEYS itself is read without a key.
        Some(_) if header.kind != FileKind::Keys => identity(env, path, &header, keys)?,
        _ => header.database.into(),
    };
    match header.kind {
        FileKind::Keys => inspect_keys(&*file, &header, path, out),
        FileKind::Current => {
            print(out, path, format_args!("manifest in force: {:08}\n", header.file))
        }
        FileKind::Manifest => inspect_manifest(env, &identity, path, out),
        FileKind::Segment => inspect_segment(&*file, &header, &identity, path, out),
        FileKind::Table => inspect_table(env, &header, &identity, path, out),
        FileKind::Relocation => inspect_relocation(env, &header, path, out),
        FileKind::Probe => Ok(()),
        FileKind::BackupPoint => inspect_point(env, header.file, path, out),
        FileKind::Aside => print(
            out,
            path,
            format_args!("bytes cut off the torn end of segment {}\n", header.file),
        ),
    }
}

/// Returns the identity of what the file belongs to: a database, or, where there is none beside it,
/// a sorted file.
fn identity(
    env: &Env,
    path: &Path,
    header: &Header,
    keys: Option<&dyn KeyProvider>,
) -> Result<DatabaseIdentity> {
    let dir = path.parent().unwrap_or(Path::new(""));
    let beside = dir.join(names::KEYS);
    let is_outside = !env.fs.exists(&beside).doing("look for", &beside)?;
    if let Some(table) = sorted_file::table_path(path, header).filter(|_| is_outside)
        && env.fs.exists(&table).doing("look for", &table)?
    {
        let file = env.fs.open(&table).doing("open", &table)?;
        return sorted_file::identity(&*file, &table, header.database, keys);
    }
    keys::identity_for_repair(env, dir, header.database, true, keys)
}

fn print(out: &mut dyn Write, path: &Path, text: std::fmt::Arguments<'_>) -> Result<()> {
    out.write_fmt(text).doing("print", path)
}

/// Prints the beginning of a text file. Ours have a few lines, so longer ones are cut.
fn print_text(env: &Env, path: &Path, out: &mut dyn Write) -> Result<()> {
    let file = env.fs.open(path).doing("open", path)?;
    let mut text = vec![0; MAX_TEXT_BYTES];
    let read = file.read_at(&mut text, 0).doing("read", path)?;
    out.write_all(&text[..read]).doing("print", path)
}

fn inspect_keys(file: &dyn File, header: &Header, path: &Path, out: &mut dyn Write) -> Result<()> {
    let mut bytes = vec![0; MAX_TEXT_BYTES];
    let read = file.read_at(&mut bytes, 0).doing("read", path)?;
    let wrapped = WrappedKeys::decode(&bytes[..read], header.database).in_file(path)?;
    print(out, path, format_args!("data keys, wrapped with key {}\n", wrapped.wrapping()))?;
    wrapped
        .first_files()
        .try_for_each(|first| print(out, path, format_args!("one for files from {first} on\n")))
}

fn inspect_point(env: &Env, number: u64, path: &Path, out: &mut dyn Write) -> Result<()> {
    let point = PointDescription::read(env, path, number)?;
    print(
        out,
        path,
        format_args!(
            "up to commit {}, manifest {:08}, {}encrypted\n",
            point.seqno,
            point.manifest,
            if point.is_encrypted { "" } else { "not " }
        ),
    )?;
    for file in &point.files {
        print(
            out,
            path,
            format_args!(
                "{}, {} bytes, identity {:016x}, checksum {:016x}, holes {:?}\n",
                file.stored_name(),
                file.length,
                file.identity,
                file.checksum,
                file.holes
            ),
        )?;
    }
    Ok(())
}

fn inspect_manifest(
    env: &Env,
    identity: &DatabaseIdentity,
    path: &Path,
    out: &mut dyn Write,
) -> Result<()> {
    let mut reader = ManifestReader::open(env, path, identity)?;
    let printed = reader.for_each(|offset, edit| {
        print(out, path, format_args!("edit at {offset}\n"))?;
        edit.changes.iter().try_for_each(|change| print(out, path, format_args!("  {change:?}\n")))
    });
    printed.map(|_| ())
}

fn inspect_head(head: &SegmentHead, path: &Path, out: &mut dyn Write) -> Result<()> {
    let previous = match head.previous {
        Some(id) => format!("follows segment {id}, which has {} bytes", head.previous_bytes),
        None => "the first".to_owned(),
    };
    let unsynced = match head.first_unsynced {
        Some(id) => format!(", begun before segment {id} was synced"),
        None => String::new(),
    };
    print(
        out,
        path,
        format_args!(
            "{:?} segment, epoch {:016x}, from commit {}, {previous}{unsynced}\n",
            head.kind, head.epoch, head.first_seqno
        ),
    )
}

fn inspect_segment(
    file: &dyn File,
    header: &Header,
    identity: &DatabaseIdentity,
    path: &Path,
    out: &mut dyn Write,
) -> Result<()> {
    let id = SegmentId(header.file);
    let Some(head) = read_head(file, path, header.database, id)? else {
        return print(out, path, format_args!("never begun\n"));
    };
    inspect_head(&head, path, out)?;
    let mut each = |frame: &crate::segment::Frame<'_>| {
        let durable = frame.header.durable;
        let count = frame.records.len();
        print(
            out,
            path,
            format_args!("frame at {}: {count} records, {durable} bytes synced\n", frame.offset),
        )?;
        for record in &frame.records {
            let kind = match (record.kind, record.deadline) {
                (RecordKind::Delete, _) => "delete".to_owned(),
                (RecordKind::DeleteRange, _) => "delete of a range".to_owned(),
                (RecordKind::Ingest, _) => "ingest of a range".to_owned(),
                (RecordKind::Merge, _) => "merge".to_owned(),
                (RecordKind::Put, None) => "put".to_owned(),
                (RecordKind::Put, Some(Deadline(time))) => format!("put until {time}"),
            };
            print(
                out,
                path,
                format_args!(
                    "  {} {kind} keyspace {} {} = {} ({} bytes at {}, {:?})\n",
                    record.seqno,
                    record.keyspace,
                    shown(record.key),
                    shown(record.value),
                    record.length,
                    record.offset,
                    record.codec
                ),
            )?;
        }
        Ok(())
    };
    // Whether the log went on is not in this file, so its end is taken for a torn one.
    let (seal, start) = (RecordSeal::of(identity, id, head.epoch), ScanStart::first(&head));
    let end = scan(file, path, &head, &seal, ScanMode::Tail, start, &mut each)?;
    match end.tail {
        ScanTail::Clean => Ok(()),
        ScanTail::Torn { offset, bytes } => {
            print(out, path, format_args!("{bytes} bytes from {offset} on are no frames\n"))
        }
    }
}

fn inspect_table(
    env: &Env,
    header: &Header,
    identity: &DatabaseIdentity,
    path: &Path,
    out: &mut dyn Write,
) -> Result<()> {
    let files = Arc::new(OpenFiles::new(env.fs.clone(), 8));
    let cache = Arc::new(BlockCache::new(0));
    let (stats, id) = (Arc::new(TableStats::default()), TableId(header.file));
    let file = files.get(path)?;
    let properties = Properties::read(&*file, path, identity, id)?;
    let summary = &properties.summary;
    print(
        out,
        path,
        format_args!(
            "{} entries, {} tombstones, commits {} to {}, flushed {}, order {}, blocks {:?}, \
             fingerprint {:016x}\n",
            summary.entries,
            summary.tombstones,
            summary.min_seqno,
            summary.max_seqno,
            properties.owner.flushed,
            properties.comparator,
            properties.codec,
            summary.fingerprint
        ),
    )?;
    for (segment, used) in &summary.segments {
        let (count, bytes) = (used.count, used.bytes);
        print(
            out,
            path,
            format_args!("references {count} records, {bytes} bytes, of segment {segment}\n"),
        )?;
    }
    if properties.comparator != KeyOrder::BYTEWISE_NAME {
        return Err(Error::unsupported(
            "the keys are in an order of the user's, which only its program knows",
        )
        .in_file(path));
    }
    let meta = Arc::new(TableMeta::read(&*file, path, identity, id)?);
    let (order, database) = (KeyOrder::Bytewise, identity.into());
    let source = TableSource { files, path: path.into(), meta, database, order, cache, stats };
    let table = Table::open(source)?;
    table.verify(|user_key, trailer: Trailer, payload| {
        let Payload { is_merge, deadline, slot } = Payload::decode(trailer.kind()?, payload)?;
        let merged = if is_merge { " merge" } else { "" };
        let until = deadline.map_or(String::new(), |Deadline(time)| format!(" until {time}"));
        let slot = match slot {
            Slot::Delete => "deleted".to_owned(),
            Slot::Inline(value) => shown(value),
            Slot::Pointer(at) => {
                format!("{} bytes at {} of segment {}", at.length, at.offset, at.segment)
            }
        };
        let (key, seqno) = (shown(user_key), trailer.seqno());
        print(out, path, format_args!("{key} @{seqno}{until}{merged} = {slot}\n"))
    })
}

fn inspect_relocation(env: &Env, header: &Header, path: &Path, out: &mut dyn Write) -> Result<()> {
    let files = Arc::new(OpenFiles::new(env.fs.clone(), 8));
    let (cache, id) = (Arc::new(BlockCache::new(0)), RelocationId(header.file));
    let meta = Arc::new(RelocationMeta::read(&*files.get(path)?, path, header.database, id)?);
    let table = RelocationTable::open(files, path.into(), meta.clone(), header.database, cache)?;
    print(
        out,
        path,
        format_args!(
            "{} records of segment {}, fingerprint {:016x}\n",
            meta.entries, meta.segment, meta.fingerprint
        ),
    )?;
    for (segment, TargetUse { count, bytes }) in &meta.targets {
        print(
            out,
            path,
            format_args!("{count} records, {bytes} bytes, are in segment {segment} now\n"),
        )?;
    }
    table.for_each(|old, target, new, length| {
        print(
            out,
            path,
            format_args!("{length} bytes at {old} went to {new} of segment {target}\n"),
        )
    })
}

/// Returns bytes as text, escaped and shortened.
fn shown(bytes: &[u8]) -> String {
    let part = &bytes[..bytes.len().min(MAX_PRINTED_BYTES)];
    let rest = if part.len() < bytes.len() { "…" } else { "" };
    format!("\"{}\"{rest}", part.escape_ascii())
}

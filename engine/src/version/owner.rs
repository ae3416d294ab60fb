//! Decides whether a file with one of our names is ours. A name alone proves nothing: others use
//! `OPTIONS` and `PROBE` too, and a numbered file may belong to another database. A file that is
//! not ours is never replaced or removed; one that a crash cut short is begun anew.

use crate::base::error::{Error, IoContext, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::env::Env;
use crate::env::fs::{File, NameKind};
use crate::version::files::names::{self, FileName};
use std::path::Path;
use std::sync::Arc;

/// The first line of `OPTIONS`.
pub const OPTIONS_HEAD: &str = "# The settings in force at the last opening.";
const _: () = assert!(OPTIONS_HEAD.len() >= HEADER_BYTES, "as many bytes are read of any file");

/// Returns true if the file at `path` was written by CleaveDB (for `database`, if that is given),
/// or if CleaveDB had begun it when a crash came, so that it is empty, cut short or all zeroes.
/// Returns true also if no file exists.
///
/// For `LOCK` the name is enough; its content is checked when it is locked.
pub fn is_ours(env: &Env, path: &Path, database: Option<u64>) -> Result<bool> {
    match env.fs.kind(path).doing("look at", path)? {
        None => return Ok(true),
        Some(NameKind::File) => {}
        Some(NameKind::Socket) => return Ok(path.ends_with(names::CONTROL)),
        Some(NameKind::Directory | NameKind::Other) => return Ok(false),
    }
    let mut head = [0; OPTIONS_HEAD.len()];
    let file = env.fs.open(path).doing("open", path)?;
    let read = file.read_at(&mut head, 0).doing("read", path)?;
    let head = head.get(..read).unwrap_or_default();
    let name = path.file_name().and_then(|name| name.to_str());
    let kind = match (names::parse(path), name) {
        (FileName::Fixed, Some(names::LOCK)) | (FileName::Note, _) => return Ok(true),
        // Ours is a socket, never a file.
        (FileName::Fixed, Some(names::CONTROL)) => return Ok(false),
        (FileName::Fixed, Some(names::OPTIONS | names::OPTIONS_NEW)) => {
            return Ok(begins(head, OPTIONS_HEAD.as_bytes()));
        }
        (FileName::Fixed, Some(names::PROBE)) => FileKind::Probe,
        (FileName::Fixed, Some(names::KEYS | names::KEYS_NEW)) => FileKind::Keys,
        (FileName::Fixed, _) => FileKind::Current,
        (FileName::Table(_), _) => FileKind::Table,
        (FileName::Segment(_), _) => FileKind::Segment,
        (FileName::Relocation(_), _) => FileKind::Relocation,
        (FileName::Manifest(_), _) => FileKind::Manifest,
        (FileName::Aside(_), _) => FileKind::Aside,
        (FileName::Foreign, _) => return Ok(false),
    };
    let head = head.get(..HEADER_BYTES).unwrap_or(head);
    let Ok(found) = Header::decode(head) else {
        let is_short = head.len() < HEADER_BYTES;
        let is_begun =
            is_short && begins(head, Header::MAGIC) || head.iter().all(|&byte| byte == 0);
        // A crash may leave a CURRENT.new, a KEYS.new, or a begun file of cut bytes, with its
        // length but without its bytes; it then shows former bytes of the device. No other
        // program's file has such a name (and exactly this length, where it is always the same),
        // and refusing it would prevent opening the database.
        let may_be_torn = name == Some(names::KEYS_NEW)
            || matches!(kind, FileKind::Current | FileKind::Aside)
                && file.len().doing("measure", path)? == HEADER_BYTES as u64;
        return Ok(is_begun || may_be_torn);
    };
    let is_named_so = names::parse(path).number().is_none_or(|number| number == found.file);
    Ok(found.kind == kind && is_named_so && database.is_none_or(|id| id == found.database))
}

/// Returns true if `bytes`, which may be cut short, begin with `start`, or if they are all zeroes.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    let len = bytes.len().min(start.len());
    bytes.get(..len) == start.get(..len) || bytes.iter().all(|&byte| byte == 0)
}

/// Returns an error if the file at `path` exists and is not ours.
pub fn check_ours(env: &Env, path: &Path) -> Result<()> {
    if is_ours(env, path, None)? {
        return Ok(());
    }
    Err(Error::invalid_argument(
        "a file of this name is needed, and there is one that is not CleaveDB's",
    )
    .in_file(path)
    .advise("move it away, or choose another directory"))
}

/// Creates the file at `path` with `content`, which begins with a header, durably. A file that is
/// there is replaced if a former call began it, and refused if it is not ours.
pub fn begin_anew(env: &Env, path: &Path, content: &[u8]) -> Result<Arc<dyn File>> {
    if env.fs.kind(path).doing("look for", path)?.is_some() {
        check_ours(env, path)?;
        // A crash after this leaves no file, as before the first call.
        env.fs.remove(path).doing("remove", path)?;
    }
    let file = env.fs.create(path).doing("create", path)?;
    file.write_at(content, 0).doing("write", path)?;
    // A crash before this sync leaves a file that is cut short, so that it holds a part of its
    // header or zeroes, or one with the length of its header, whatever the bytes. One after it
    // leaves the header. `is_ours` knows the file by each of these, and the next call replaces it.
    file.sync().doing("sync", path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_wrote_or_began_is_ours_and_nothing_else() {
        let (env, simulation) = Env::simulated(1);
        simulation.run(|| {
            let head = |kind, file| Header::new(kind, 7, file).encode().to_vec();
            let current = head(FileKind::Current, 5);
            let table = head(FileKind::Table, 3);
            for (name, bytes, is_mine) in [
                ("CURRENT.new", current.clone(), true),
                ("CURRENT.new", current[..20].to_vec(), true),
                ("CURRENT.new", current[..3].to_vec(), true),
                ("CURRENT.new", vec![0; 40], true),
                ("CURRENT.new", vec![0xa7; 40], true),
                ("CURRENT.new", vec![0xa7; 41], false),
                ("00000003.cut", vec![0xa7; 40], true),
                ("00000003.cut", vec![0xa7; 41], false),
                ("CURRENT.new", b"MANIFEST-000004\n".to_vec(), false),
                ("CURRENT.new", table.clone(), false),
                ("PROBE", [head(FileKind::Probe, 0), vec![0xcd; 99]].concat(), true),
                ("PROBE", b"a probe of water".to_vec(), false),
                ("OPTIONS", OPTIONS_HEAD.into(), true),
                ("OPTIONS", OPTIONS_HEAD.as_bytes()[..9].to_vec(), true),
                ("OPTIONS", b"# mine".to_vec(), false),
                ("00000003.tbl", [table.clone(), vec![1; 99]].concat(), true),
                ("00000003.tbl", Vec::new(), true),
                ("00000004.tbl", table.clone(), false),
                ("00000003.seg", table, false),
                ("00000003.tbl", b"x,y\n1,2\n".to_vec(), false),
                ("notes", Vec::new(), false),
            ] {
                let path = Path::new(name);
                env.fs.create(path).unwrap().write_at(&bytes, 0).unwrap();
                assert_eq!(is_ours(&env, path, None).unwrap(), is_mine, "{name} {bytes:?}");
                assert_eq!(check_ours(&env, path).is_ok(), is_mine);
                env.fs.remove(path).unwrap();
                assert!(is_ours(&env, path, None).unwrap(), "nothing is in the way");
            }
            let path = Path::new("00000003.tbl");
            env.fs.create(path).unwrap().write_at(&head(FileKind::Table, 3), 0).unwrap();
            assert!(is_ours(&env, path, Some(7)).unwrap());
            assert!(!is_ours(&env, path, Some(8)).unwrap(), "another database's");
            env.fs.create_dir_all(Path::new("PROBE")).unwrap();
            assert!(!is_ours(&env, Path::new("PROBE"), None).unwrap(), "a directory");
        });
    }
}

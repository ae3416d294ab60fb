//! Checks that what is read from a disk takes no more memory than its content can be worth.

use crate::version::edit::{Change, Edit};
use crate::{Db, ErrorKind, KeyspaceOptions, doc_dir};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const TERABYTES: u64 = 1 << 42;

fn manifest(dir: &Path) -> PathBuf {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|it| it == "man")).max().unwrap()
}

fn created(name: &str) -> PathBuf {
    let dir = doc_dir(name);
    let db = crate::open(&dir).unwrap();
    db.default_keyspace().put("key", "value").unwrap();
    db.close().unwrap();
    dir
}

fn stretch(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn i7_sparse_files_are_refused_and_take_no_memory() {
    for what in ["CURRENT", "manifest"] {
        let dir = created(&format!("bounded-{what}"));
        let path = if what == "CURRENT" { dir.join(what) } else { manifest(&dir) };
        stretch(&path, TERABYTES);
        let error = crate::open(&dir).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(error.file(), Some(&*path), "{error}");
        // The repair sets the file aside and uses the others.
        assert_eq!(Db::repair(&dir).unwrap().keys, 1);
    }
}

#[test]
fn i7_a_record_that_only_claims_to_be_long_is_not_taken_into_memory() {
    let dir = created("bounded-record");
    let path = manifest(&dir);
    let end = std::fs::metadata(&path).unwrap().len();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    // A crash in the middle of an append can leave exactly this.
    let claimed = 3 << 20;
    file.write_all_at(&u32::to_le_bytes(claimed), end).unwrap();
    file.write_all_at(&u32::to_le_bytes(12345), end + 4).unwrap();
    stretch(&path, end + 8 + u64::from(claimed));
    let db = crate::open(&dir).unwrap();
    assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "value");
}

#[test]
fn stored_settings_out_of_range_keep_nobody_out() {
    let dir = created("bounded-settings");
    let db = crate::open(&dir).unwrap();
    let id = db.core.states()[0].id;
    let settings = KeyspaceOptions { block_bytes: 1, ..Default::default() }.to_text();
    let edit = Edit::new(vec![Change::SetKeyspace { id, settings }]);
    db.core.set.apply(|_| Ok(edit), &[], None).unwrap();
    db.close().unwrap();
    let db = crate::open(&dir).unwrap();
    assert_eq!(db.core.states()[0].options().block_bytes, 256);
    let notes = &db.recovery().adjusted_settings;
    assert_eq!(*notes, ["default: block_bytes is taken for 256: it was 1"]);
}

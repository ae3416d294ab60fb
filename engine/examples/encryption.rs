//! A database that nobody can read without its key, and a change of the key.
//!
//! ```text
//! cargo run -p cleavedb --example encryption
//! ```

use cleavedb::{
    Db, EncryptionKey, ErrorKind, IngestOptions, Result, SortedFileOptions, SortedFileWriter,
};
use std::sync::Arc;

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("cleavedb-secrets-{}", std::process::id()));
    // Take random bytes, from a file (`KeyFile`), a variable (`KeyVariable`) or a key service.
    let first = EncryptionKey::new([1; 32]);
    let second = EncryptionKey::new([2; 32]);
    let open = |keys: &[&EncryptionKey]| {
        let keys: Vec<EncryptionKey> = keys.iter().map(|&key| key.clone()).collect();
        Db::builder(&dir).encryption(Arc::new(keys)).open()
    };

    let db = open(&[&first])?;
    db.default_keyspace().put("name", "unreadable on the disk")?;
    // What is prepared outside of the database is encrypted with the same key.
    let path = dir.join("prepared");
    let options = SortedFileOptions::encrypted(Arc::new(first.clone()));
    let mut file = SortedFileWriter::create(&path, &options)?;
    file.put("other", "unreadable too")?;
    file.finish()?;
    let report = db.default_keyspace().ingest(&[path], &IngestOptions::default())?;
    assert_eq!((report.entries, report.files_in_clear), (1, 0));
    db.close()?;
    let refused = Db::builder(&dir).open().expect_err("no key was given");
    println!("without the key: {refused}");
    assert_eq!(refused.kind(), ErrorKind::InvalidOption);

    // The opening wraps the keys of the files with the new key, and then the former can go.
    open(&[&second, &first])?.close()?;
    let refused = open(&[&first]).expect_err("it was changed");
    println!("with the former key: {refused}");
    let db = open(&[&second])?;
    let value = db.default_keyspace().get("name")?.expect("it was put");
    println!("with the new one: {}", String::from_utf8_lossy(&value));
    db.close()?;
    std::fs::remove_dir_all(dir).ok();
    Ok(())
}

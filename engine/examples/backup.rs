//! A shop is backed up every evening. One morning the disk is gone, and it is restored; another
//! time, somebody wants to see what it held days ago.
//!
//! Run it with `cargo run -p cleavedb --example backup`.

use cleavedb::{BackupOptions, Backups, Db, Result};
use std::path::Path;

fn order(db: &Db, day: u32) -> Result<()> {
    for number in 0..100 {
        let key = format!("day {day}/order {number:03}");
        db.default_keyspace().put(key, format!("one of each, on day {day}").repeat(100))?;
    }
    Ok(())
}

fn evening(db: &Db, backup: &Path) -> Result<u64> {
    // The last week is kept. Writers go on meanwhile, and the disk is left to them for the most.
    let options = BackupOptions::new().keep(7).bytes_per_second(200 << 20);
    let report = db.backup_with(backup, &options)?;
    println!(
        "point {}: {} bytes, of which {} were copied",
        report.point, report.bytes, report.copied_bytes
    );
    Ok(report.point)
}

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("cleavedb-backup-{}", std::process::id()));
    let (shop, backup) = (dir.join("shop"), dir.join("backup"));
    let mut points = Vec::new();
    let db = cleavedb::open(&shop)?;
    for day in 0..10 {
        order(&db, day)?;
        points.push(evening(&db, &backup)?);
    }

    // A backup is worth what its last verification says. This reads all of it, and needs no
    // database and no key.
    let backups = Backups::new(&backup);
    let check = backups.verify(None)?;
    assert!(check.is_sound(), "{:?}", check.problems);
    println!("{} files of {} points are sound", check.files, check.points.len());

    // What it held some days ago, beside the database that goes on.
    backups.restore(Some(points[5]), dir.join("five"))?;
    let before = cleavedb::open(dir.join("five"))?;
    assert_eq!(before.default_keyspace().iter().count(), 600);
    before.close()?;

    // The disk is gone: the newest point becomes the database.
    db.close()?;
    Db::destroy(&shop)?;
    backups.restore(None, &shop)?;
    let db = cleavedb::open(&shop)?;
    assert!(db.check()?.is_clean());
    println!("{} orders are back", db.default_keyspace().iter().count());
    db.close()?;
    std::fs::remove_dir_all(&dir).expect("the directory of this example");
    Ok(())
}

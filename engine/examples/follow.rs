//! A monitor beside a service: this program starts itself again as the one that reads, while it
//! writes.
//!
//! ```text
//! cargo run -p cleavedb --example follow
//! ```

use cleavedb::{Db, Options, Result};
use std::path::Path;
use std::process::Command;

/// The other process: it may come and go, and the service does not notice.
fn monitor(dir: &Path) -> Result<()> {
    let follow = Options { follow: true, ..Options::default() };
    let db = Db::builder(dir).options(follow).open()?;
    let writer = Db::writer(dir)?.expect("the service runs");
    let jobs = db.default_keyspace();
    println!("{} jobs, as of {:?} ago; {writer} writes", jobs.iter().count(), db.age());
    db.catch_up()?;
    assert_eq!(jobs.get("job 7")?.unwrap(), "done");
    Ok(())
}

fn main() -> Result<()> {
    if let Some(dir) = std::env::args_os().nth(1) {
        return monitor(Path::new(&dir));
    }
    let dir = std::env::temp_dir().join(format!("cleavedb-service-{}", std::process::id()));
    let db = cleavedb::open(&dir)?;
    let jobs = db.default_keyspace();
    for number in 0..10 {
        jobs.put(format!("job {number}"), "done")?;
    }
    let program = std::env::current_exe().expect("this program");
    let status = Command::new(program).arg(&dir).status().expect("it starts");
    assert!(status.success());
    jobs.put("job 10", "waits")?;
    drop(jobs);
    db.close()?;
    std::fs::remove_dir_all(dir).ok();
    Ok(())
}

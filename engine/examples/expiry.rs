//! Sessions of users who log in: each expires by itself, and using one keeps it alive.
//!
//! ```text
//! cargo run -p cleavedb --example expiry
//! ```

use cleavedb::{Expiry, Keyspace, KeyspaceOptions, Result, Ttl, WriteBatch};
use std::time::Duration;

/// Prints how long a session stays.
fn print(sessions: &Keyspace, name: &str) -> Result<()> {
    match sessions.ttl(name)? {
        Some(Ttl::Never) => println!("{name}: stays"),
        Some(Ttl::Left(left)) => println!("{name}: {:.0} minutes", left.as_secs_f64() / 60.0),
        None => println!("{name}: none"),
    }
    Ok(())
}

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("cleavedb-sessions-{}", std::process::id()));
    let db = cleavedb::open(&dir)?;

    // What is put without another time stays half an hour.
    let minutes = |count: u64| Duration::from_secs(60 * count);
    let options = KeyspaceOptions { default_ttl: Some(minutes(30)), ..Default::default() };
    let sessions = db.create_keyspace_with("sessions", options)?;
    sessions.put("ada", "token 1")?;
    sessions.put_expiring("bob", "token 2", minutes(5))?;
    sessions.put_expiring("operator", "token 3", Expiry::Never)?;
    for name in ["ada", "bob", "operator"] {
        print(&sessions, name)?;
    }

    // Bob is back, and so his session goes on. The value stays as it is.
    sessions.expire("bob", minutes(60))?;
    print(&sessions, "bob")?;
    sessions.persist("ada")?;
    print(&sessions, "ada")?;

    // In a batch, and with a deadline that has passed: the key has no value from the start.
    let mut batch = WriteBatch::new();
    batch.put_expiring(&sessions, "eve", "token 4", Duration::ZERO);
    batch.put_expiring(&sessions, "grace", "token 5", minutes(1));
    db.write(batch)?;
    print(&sessions, "eve")?;
    print(&sessions, "grace")?;

    // It is absent everywhere, as if it had been deleted at that moment.
    assert!(sessions.get("eve")?.is_none());
    let names: Vec<_> = sessions.keys().collect::<Result<_>>()?;
    println!("{} sessions", names.len());
    assert!(sessions.put_if_absent("eve", "token 6")?.is_done());
    println!("{} sessions", sessions.keys().count());

    drop(sessions);
    db.close()?;
    std::fs::remove_dir_all(dir).ok();
    Ok(())
}

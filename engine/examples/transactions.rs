//! Writes that depend on what is there, by many threads at once: compare-and-set, a batch with
//! requirements, and a transaction. `cargo run -p cleavedb --example transactions`.

use cleavedb::{Db, ErrorKind, Exchange, Expected, Keyspace, Result, WriteBatch};
use std::thread;

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = cleavedb::open(dir.path())?;
    let accounts = db.create_keyspace("accounts")?;
    for name in ["ada", "alan", "grace"] {
        // One of many programs that do this puts the value; the others find it.
        assert!(accounts.put_if_absent(name, "100")?.is_done());
    }

    one_key(&accounts)?;
    several_keys(&db, &accounts)?;

    // Transfers in all directions; the sum stays.
    let names = ["ada", "alan", "grace"];
    thread::scope(|scope| {
        let start = |from: usize| {
            let (db, accounts) = (&db, &accounts);
            let transfers = move || {
                (0..50).try_for_each(|n| {
                    let to = (from + 1 + n % 2) % 3;
                    transfer(db, accounts, names[from], names[to], 1 + n as i64 % 7)
                })
            };
            scope.spawn(transfers)
        };
        let threads: Vec<_> = (0..3).map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    let mut sum = 0;
    for name in names {
        let amount = amount(accounts.get(name)?.as_deref());
        println!("{name}: {amount}");
        sum += amount;
    }
    assert_eq!(sum, 300 + 5);
    println!("{} conflicts on the way", db.stats().conflicts);
    db.close()
}

/// Changes one key by its version, and again by a function of its value.
fn one_key(accounts: &Keyspace) -> Result<()> {
    let found = accounts.get_versioned("ada")?.expect("it was put");
    let expected = Expected::Version(found.version);
    match accounts.compare_and_set("ada", expected, "103")? {
        Exchange::Done(version) => println!("ada has 103 now, version {version}"),
        Exchange::Mismatch(now) => println!("somebody was faster: {now:?}"),
    }
    accounts.update("ada", |old| Some((amount(old) + 2).to_string()))?;
    Ok(())
}

/// Writes several keys if one is as expected.
fn several_keys(db: &Db, accounts: &Keyspace) -> Result<()> {
    let owners = db.create_keyspace("owners")?;
    let open_account = |number: &str| {
        let mut batch = WriteBatch::new();
        batch.require(&owners, number, Expected::Absent);
        batch.put(&owners, number, "ada").put(accounts, number, "0");
        db.write(batch)
    };
    open_account("4711")?;
    assert_eq!(open_account("4711").unwrap_err().kind(), ErrorKind::Conflict);
    Ok(())
}

/// Moves an amount. After a conflict the closure runs again, with what is there by then.
fn transfer(db: &Db, accounts: &Keyspace, from: &str, to: &str, sum: i64) -> Result<()> {
    db.transact(|transaction| {
        let left = amount(transaction.get(accounts, from)?.as_deref()) - sum;
        let right = amount(transaction.get(accounts, to)?.as_deref()) + sum;
        transaction.put(accounts, from, left.to_string())?;
        transaction.put(accounts, to, right.to_string())
    })
}

fn amount(value: Option<&[u8]>) -> i64 {
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

//! Measures how fast who follows a database catches up, and what a writer loses to three that
//! follow it; the figures are in `bench/record/`.
//!
//! ```text
//! cargo run --release -p cleavedb --example follow_speed -- DIRECTORY
//! ```

use cleavedb::{Db, Options, Result};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const PUTS: u64 = 1_000_000;
const ROUNDS: usize = 3;
/// How often each follower catches up, and how long the writer writes in each round.
const PAUSES: [u64; 2] = [1, 10];
const WRITING: Duration = Duration::from_secs(12);

fn follow(dir: &Path) -> Result<Db> {
    Db::builder(dir).options(Options { follow: true, ..Options::default() }).open()
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn catch_up(dir: &Path) -> Result<()> {
    let db = cleavedb::open(dir)?;
    let reader = follow(dir)?;
    let keys = db.default_keyspace();
    let begun = Instant::now();
    for number in 0..PUTS {
        keys.put(key(number), &key(number)[..])?;
    }
    println!("{PUTS} puts of 32 bytes: {:?}", begun.elapsed());
    let begun = Instant::now();
    let caught_up = reader.catch_up()?;
    println!("catch-up of {} of them: {:?}", caught_up.records, begun.elapsed());
    assert_eq!(caught_up.seqno, db.visible_seqno());
    let begun = Instant::now();
    for _ in 0..1000 {
        reader.catch_up()?;
    }
    println!("catch-up of nothing: {:?}", begun.elapsed() / 1000);
    let begun = Instant::now();
    let again = follow(dir)?;
    println!(
        "opening to follow, {} records: {:?}",
        again.recovery().replayed_records,
        begun.elapsed()
    );
    Ok(())
}

/// Catches up until it is killed.
fn follower(dir: &Path, pause: u64) -> Result<()> {
    let db = follow(dir)?;
    loop {
        std::thread::park_timeout(Duration::from_secs(pause));
        db.catch_up()?;
    }
}

fn followers(dir: &Path, pause: u64) -> Vec<Child> {
    let start = |_| {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.arg(dir).arg(pause.to_string()).spawn().expect("it starts")
    };
    (0..3).map(start).collect()
}

/// Returns how many values of 1 KiB are put in a second.
fn write(dir: &Path) -> Result<f64> {
    let db = cleavedb::open(dir)?;
    let (keys, value) = (db.default_keyspace(), vec![7; 1024]);
    let (begun, mut puts) = (Instant::now(), 0);
    while begun.elapsed() < WRITING {
        for _ in 0..1000 {
            keys.put(key(puts % 200_000), &value)?;
            puts += 1;
        }
    }
    let speed = puts as f64 / begun.elapsed().as_secs_f64();
    drop(keys);
    db.close()?;
    Ok(speed)
}

fn beside(dir: &Path) -> Result<()> {
    for pause in PAUSES {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let alone = write(dir)?;
            let mut others = followers(dir, pause);
            let watched = write(dir)?;
            for other in &mut others {
                assert!(other.try_wait().expect("a child").is_none(), "a follower ended");
                other.kill().and_then(|()| other.wait()).expect("a child");
            }
            println!("alone {alone:8.0} puts/s, with three followers {watched:8.0}");
            ratios.push(watched / alone);
        }
        ratios.sort_by(f64::total_cmp);
        println!("each second {pause}: median ratio {:.3}", ratios[ROUNDS / 2]);
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let dir = arguments.next().expect("a directory");
    let dir = Path::new(&dir);
    if let Some(pause) = arguments.next() {
        return follower(dir, pause.to_string_lossy().parse().expect("seconds"));
    }
    catch_up(&dir.join("small"))?;
    beside(&dir.join("large"))
}

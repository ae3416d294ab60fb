//! Measures ingest beside plain writes to the same device and beside puts; the figures are in
//! `bench/record/`.
//!
//! ```text
//! cargo run --release -p cleavedb --example ingest_speed -- DIRECTORY MEBIBYTES
//! ```

use cleavedb::{IngestOptions, Keyspace, SortedFileOptions, SortedFileWriter};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Returns incompressible bytes.
fn noise() -> Vec<u8> {
    let mut state = 1u64;
    let mut bytes = Vec::with_capacity(4 << 20);
    while bytes.len() < 4 << 20 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state >> 16).to_le_bytes()[..6]);
    }
    bytes
}

/// Prints what a step has written per second; returns that.
fn timed(what: &str, bytes: u64, step: impl FnOnce() -> cleavedb::Result<()>) -> f64 {
    let begun = Instant::now();
    step().expect(what);
    let speed = bytes as f64 / begun.elapsed().as_secs_f64() / 1e6;
    println!("{what:<32} {speed:8.0} MB/s");
    speed
}

fn plain(path: &Path, noise: &[u8], bytes: u64) {
    let mut file = File::create(path).expect("a file");
    for _ in 0..bytes >> 20 {
        file.write_all(&noise[..1 << 20]).expect("room");
    }
    file.sync_all().expect("a sync");
    fs::remove_file(path).expect("the file");
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(noise: &[u8], number: u64, length: usize) -> &[u8] {
    let at = (number as usize).wrapping_mul(7919) % (noise.len() - length);
    &noise[at..at + length]
}

fn fill(keyspace: &Keyspace, noise: &[u8], pairs: u64, length: usize) -> cleavedb::Result<()> {
    for number in 0..pairs {
        keyspace.put(key(number), value(noise, number, length))?;
    }
    Ok(())
}

fn main() -> cleavedb::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().expect("a directory")).join("ingest-speed");
    let mib: u64 = arguments.next().map_or(1024, |text| text.parse().expect("a number"));
    let (noise, total) = (noise(), mib << 20);
    for length in [1024, 100] {
        let pairs = total / (16 + length as u64);
        println!("values of {length} bytes, {pairs} pairs");
        fs::create_dir_all(&dir).expect("a directory");
        let plain = timed("plain writes and a sync", total, || {
            plain(&dir.join("plain"), &noise, total);
            Ok(())
        });
        let share = |speed: f64| println!("{:>47.2} of that", speed / plain);
        let db = cleavedb::open(dir.join("db"))?;
        let keyspace = db.create_keyspace("sorted")?;
        share(timed("ingest_sorted", total, || {
            let pair = |number| (key(number), value(&noise, number, length));
            keyspace.ingest_sorted((0..pairs).map(pair)).map(|_| ())
        }));
        db.drop_keyspace("sorted")?;
        db.wait_idle()?;
        let path = dir.join("file");
        share(timed("SortedFileWriter", total, || {
            let mut file = SortedFileWriter::create(&path, &SortedFileOptions::default())?;
            for number in 0..pairs {
                file.put(key(number), value(&noise, number, length))?;
            }
            file.finish().map(|_| ())
        }));
        let keyspace = db.create_keyspace("files")?;
        share(timed("ingest of the file", total, || {
            keyspace.ingest(&[&path], &IngestOptions::default()).map(|_| ())
        }));
        db.drop_keyspace("files")?;
        db.wait_idle()?;
        let keyspace = db.create_keyspace("puts")?;
        share(timed("puts, flushed at the end", total, || {
            fill(&keyspace, &noise, pairs, length)?;
            db.flush()?;
            db.sync()
        }));
        drop(keyspace);
        db.close()?;
        fs::remove_dir_all(&dir).expect("the directory");
    }
    Ok(())
}

//! The engine's own side of `bench/overhead.py`: 1 KiB puts and gets through the Rust API.
//! Usage: overhead DIR put|get|none COUNT

use engine::{Db, ReadOptions, WriteOptions};
use std::time::Instant;

fn key(number: u64) -> [u8; 16] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = *b"user0000000000\0\0";
    for (at, byte) in key[4..].iter_mut().enumerate() {
        *byte = b'a' + (mixed >> (5 * at) & 15) as u8;
    }
    key
}

fn main() -> engine::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, dir, what, count] = arguments.as_slice() else {
        panic!("usage: overhead DIR put|get|none COUNT");
    };
    let count: u64 = count.parse().expect("a count");
    let db = Db::builder(dir).open()?;
    let keys = db.default_keyspace();
    let (reading, writing) = (ReadOptions::default(), WriteOptions::default());
    let value = [b'v'; 1024];
    // Made beforehand: only the calls are measured.
    let names: Vec<[u8; 16]> = (0..count).map(key).collect();
    let begun = Instant::now();
    let mut bytes = 0;
    if what == "put" {
        for name in &names {
            keys.put_with(name, value, &writing)?;
        }
    } else if what == "get" {
        for name in &names {
            bytes += keys.get_with(name, &reading)?.map_or(0, |value| value.len());
        }
    }
    let nanoseconds = begun.elapsed().as_nanos() as f64 / count.max(1) as f64;
    println!("{nanoseconds:.1} {bytes}");
    db.close()
}

//! The engine's own side of `bench/overhead.py`: 1 KiB puts and gets through the Rust API.
//! `put-timed` times every put for the latency histogram, where `put` times one of 16; the
//! difference is what the histograms cost.
//! Usage: overhead DIR put|put-timed|get|none COUNT

#![expect(unsafe_code, reason = "asks for the time of this thread")]

use engine::{Db, Options, ReadOptions, WriteOptions};
use std::time::Duration;

fn key(number: u64) -> [u8; 16] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = *b"user0000000000\0\0";
    for (at, byte) in key[4..].iter_mut().enumerate() {
        *byte = b'a' + (mixed >> (5 * at) & 15) as u8;
    }
    key
}

/// Nanoseconds that this thread has run: what others do on a busy machine does not count.
fn cpu_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is a place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn main() -> engine::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, dir, what, count] = arguments.as_slice() else {
        panic!("usage: overhead DIR put|put-timed|get|none COUNT");
    };
    let count: u64 = count.parse().expect("a count");
    let slow_operation = (what == "put-timed").then(|| Duration::from_secs(60 * 60));
    let db = Db::builder(dir).options(Options { slow_operation, ..Options::default() }).open()?;
    let keys = db.default_keyspace();
    let (reading, writing) = (ReadOptions::default(), WriteOptions::default());
    let value = [b'v'; 1024];
    // Made beforehand: only the calls are measured.
    let names: Vec<[u8; 16]> = (0..count).map(key).collect();
    let begun = cpu_time();
    let mut bytes = 0;
    if what.starts_with("put") {
        for name in &names {
            keys.put_with(name, value, &writing)?;
        }
    } else if what == "get" {
        for name in &names {
            bytes += keys.get_with(name, &reading)?.map_or(0, |value| value.len());
        }
    }
    let nanoseconds = (cpu_time() - begun) / count.max(1) as f64;
    println!("{nanoseconds:.1} {bytes}");
    db.close()
}

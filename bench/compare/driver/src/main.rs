//! Does one workload with one engine in one store, checks every read, and prints one JSON object.
//!
//! Usage: `cleavedb-compare engine=rocksdb dir=DIR workload=load keys=N …`, or `checksums=1 …` for
//! the checksums of the work itself. `../README.md` lists the words; `../compare.py` gives them.

mod arguments;
mod c;
mod engines;
mod generator;
mod histogram;
mod process;
mod verify;
mod work;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use arguments::Arguments;
use engines::{Settings, SpaceSettings};
use generator::Shape;

const MIB: u64 = 1 << 20;

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(|given| run(&given)) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(given: &Arguments) -> Result<String, String> {
    let shape = Shape {
        keys: given.number("keys")?,
        seed: given.number("seed")?,
        stage: given.number("stage")?,
        threads: given.number("threads")?,
    };
    let value_bytes: usize = given.number("value")?;
    if !(1..=1 << 31).contains(&shape.keys) || !(16..=1 << 20).contains(&value_bytes) {
        return Err("keys= must be from 1 to 2^31, and value= from 16 to 2^20".into());
    }
    let workload = given.text("workload")?;
    if let Ok(thread) = given.number("checksum-of-thread") {
        let ops = given.number("ops")?;
        let sum = generator::checksum(workload, shape, thread, ops, value_bytes);
        return Ok(format!("{sum:016x}"));
    }
    let settings = Settings {
        path: given.text("dir")?.into(),
        cache_bytes: given.number::<u64>("cache-mb")? * MIB,
        buffer_bytes: given.number::<u64>("buffer-mb")? * MIB,
        threshold: given.number("threshold")?,
        filter_bits: given.number("filter-bits")?,
        background_threads: given.number("background")?,
        space: SpaceSettings {
            ceiling: given.number_if_given("ceiling")?,
            settled: given.number_if_given("settled")?,
            allowance_bytes: given.number_if_given::<u64>("allowance-mb")?.map(|mib| mib * MIB),
            punch: given.switch_if_given("punch")?,
        },
    };
    let begun = Instant::now();
    let engine = engines::open(given.text("engine")?, &settings)?;
    let opening = begun.elapsed();
    let line = if workload == "verify" {
        verify::run(&*engine, shape, value_bytes, given.text("history")?)?
    } else {
        let task = work::Task {
            workload,
            shape,
            value_bytes,
            opening,
            ops: given.number("ops")?,
            batch: given.number_or("batch", 1)?,
            most: Duration::from_secs_f64(given.number("seconds")?),
            rest: Duration::from_secs_f64(given.number("rest")?),
            stay: Duration::from_secs_f64(given.number_or("stay", 0.0)?),
        };
        work::run(&*engine, &task)?
    };
    if given.number::<u8>("hold")? == 1 {
        hold(&line);
    }
    engine.close()?;
    Ok(line)
}

/// Tells what was done and keeps the store open until somebody kills the process, as a crash would
/// end it.
fn hold(line: &str) -> ! {
    println!("{line}");
    loop {
        std::thread::park();
    }
}

//! Runs a workload: threads that make operations, do and time them, and check what they read.

use std::time::{Duration, Instant};

use crate::engines::Engine;
use crate::generator::{self, Kind, Op, Shape, Stream};
use crate::histogram::Histogram;
use crate::process;

/// Pairs of a whole scan between two looks at the clock.
const LOOK_EVERY: u64 = 64;

/// One workload.
pub struct Task<'a> {
    pub workload: &'a str,
    pub shape: Shape,
    pub value_bytes: usize,
    /// How long it took to open the store.
    pub opening: Duration,
    /// Of all threads.
    pub ops: u64,
    /// How many gets are asked for at once.
    pub batch: u64,
    /// After which time it ends earlier.
    pub most: Duration,
    /// How long the engine may take to come to rest afterwards.
    pub rest: Duration,
    /// How long it stays open at least before that counts as rest.
    pub stay: Duration,
}

/// What was counted.
struct Tally {
    reads: Histogram,
    writes: Histogram,
    ops: u64,
    pairs: u64,
    user_bytes: u64,
}

impl Tally {
    fn new() -> Tally {
        let (reads, writes) = (Histogram::new(), Histogram::new());
        Tally { reads, writes, ops: 0, pairs: 0, user_bytes: 0 }
    }

    fn merge(&mut self, other: &Tally) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.ops += other.ops;
        self.pairs += other.pairs;
        self.user_bytes += other.user_bytes;
    }
}

/// Runs it, waits until the engine is at rest, and returns the JSON object.
pub fn run(engine: &dyn Engine, task: &Task<'_>) -> Result<String, String> {
    let ticks = process::processor_ticks();
    let begun = Instant::now();
    let tally = match task.workload {
        "open" => Tally::new(),
        "fullscan" | "keysonly" => whole(engine, task, begun)?,
        known if Stream::knows(known) => threads(engine, task, begun)?,
        unknown => return Err(format!("there is no workload {unknown}")),
    };
    let seconds = begun.elapsed().as_secs_f64();
    let work_ticks = process::processor_ticks() - ticks;
    let (rest, rested) = match task.rest.is_zero() {
        true => (Duration::ZERO, true),
        false => process::wait_for_rest(task.rest, task.stay),
    };
    Ok(format!(
        "{{\"open_seconds\": {:.6}, \"ops\": {}, \"pairs\": {}, \
         \"seconds\": {seconds:.6}, \"user_bytes\": {}, \
         \"rest_seconds\": {:.3}, \"rested\": {rested}, \"processor_seconds\": {:.2}, \
         \"processor_seconds_at_rest\": {:.2}, \"written_bytes\": {}, \"peak_rss_bytes\": {}, \
         \"reads\": {}, \"writes\": {}}}",
        task.opening.as_secs_f64(),
        tally.ops,
        tally.pairs,
        tally.user_bytes,
        rest.as_secs_f64(),
        work_ticks as f64 / 100.0,
        (process::processor_ticks() - ticks) as f64 / 100.0,
        process::written_bytes(),
        process::peak_rss_bytes(),
        tally.reads.json(),
        tally.writes.json(),
    ))
}

fn threads(engine: &dyn Engine, task: &Task<'_>, begun: Instant) -> Result<Tally, String> {
    let count = task.shape.threads;
    let parts: Vec<Result<Tally, String>> = std::thread::scope(|scope| {
        let one = |thread| {
            let ops = task.ops / count + u64::from(thread < task.ops % count);
            move || thread_of(engine, task, thread, ops, begun)
        };
        let running: Vec<_> = (0..count).map(|thread| scope.spawn(one(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("a worker panicked")).collect()
    });
    let mut sum = Tally::new();
    for part in parts {
        sum.merge(&part?);
    }
    Ok(sum)
}

fn thread_of(
    engine: &dyn Engine,
    task: &Task<'_>,
    thread: u64,
    ops: u64,
    begun: Instant,
) -> Result<Tally, String> {
    let mut stream = Stream::new(task.workload, task.shape, thread);
    let mut worker = Worker {
        engine,
        value_bytes: task.value_bytes,
        keys: task.shape.keys,
        sync: task.workload == "synced",
        value: Vec::new(),
        tally: Tally::new(),
    };
    let mut batch = Vec::new();
    for _ in 0..ops / task.batch.max(1) {
        let op = stream.next_op();
        if task.batch > 1 {
            batch.clear();
            batch.push(op);
            batch.extend((1..task.batch).map(|_| stream.next_op()));
        }
        let start = Instant::now();
        if start - begun > task.most {
            break;
        }
        match batch.is_empty() {
            true => worker.apply(op, start)?,
            false => worker.get_many(&batch)?,
        }
        worker.tally.ops += task.batch;
    }
    Ok(worker.tally)
}

struct Worker<'a> {
    engine: &'a dyn Engine,
    value_bytes: usize,
    keys: u64,
    sync: bool,
    value: Vec<u8>,
    tally: Tally,
}

impl Worker<'_> {
    /// Does one operation. What it takes to make a value counts for all engines alike.
    fn apply(&mut self, op: Op, start: Instant) -> Result<(), String> {
        match op.kind {
            Kind::Put | Kind::SyncedPut => self.put(op)?,
            Kind::Delete => self.delete(op.number)?,
            Kind::Get => self.get(op.number)?,
            Kind::GetMissing => {
                let key = generator::missing_key(op.number);
                if self.engine.get(&key, &mut |_| ())? {
                    return Err(format!("a key beside {} was found", op.number));
                }
            }
            Kind::Scan => self.scan(op.number, op.pairs)?,
            Kind::ReadModifyWrite => {
                self.get(op.number)?;
                self.put(op)?;
            }
        }
        let taken = start.elapsed().as_nanos() as u64;
        match op.kind {
            Kind::Put | Kind::SyncedPut | Kind::Delete | Kind::ReadModifyWrite => {
                self.tally.writes.add(taken);
            }
            _ => self.tally.reads.add(taken),
        }
        Ok(())
    }

    fn put(&mut self, op: Op) -> Result<(), String> {
        generator::value(op.number, op.version, self.value_bytes, &mut self.value);
        let key = generator::key(op.number);
        self.tally.user_bytes += (key.len() + self.value.len()) as u64;
        self.engine.put(&key, &self.value, self.sync || op.kind == Kind::SyncedPut)
    }

    fn delete(&mut self, number: u64) -> Result<(), String> {
        let key = generator::key(number);
        self.tally.user_bytes += key.len() as u64;
        self.engine.delete(&key)
    }

    fn get(&mut self, number: u64) -> Result<(), String> {
        let mut checked = Ok(0);
        let mut read = |value: &[u8]| checked = generator::check(number, value, self.value_bytes);
        if !self.engine.get(&generator::key(number), &mut read)? {
            return Err(format!("key {number} is missing"));
        }
        checked.map(|_| ())
    }

    /// Gets many values at once. That is no read whose time could be compared with that of one.
    fn get_many(&mut self, ops: &[Op]) -> Result<(), String> {
        if ops.iter().any(|op| !matches!(op.kind, Kind::Get)) {
            return Err("batch= is for gets alone".into());
        }
        let keys: Vec<_> = ops.iter().map(|op| generator::key(op.number)).collect();
        let mut checked = Ok(());
        let mut read = |index: usize, value: &[u8]| {
            if checked.is_ok() {
                checked = generator::check(ops[index].number, value, self.value_bytes).map(drop);
            }
        };
        if !self.engine.get_many(&keys, &mut read)? {
            return Err("a key of a batch is missing".into());
        }
        checked
    }

    fn scan(&mut self, from: u64, pairs: u64) -> Result<(), String> {
        let mut order = Order { next: from, keys: self.keys, seen: 0 };
        let bytes = self.value_bytes;
        self.engine.scan(&generator::key(from), pairs, false, &mut |key, value| {
            let number = order.step(key)?;
            generator::check(number, value.unwrap_or_default(), bytes).map(|_| true)
        })?;
        self.tally.pairs += order.seen;
        if order.seen < pairs.min(self.keys - from) {
            return Err(format!("a scan from {from} ended after {} pairs", order.seen));
        }
        Ok(())
    }
}

/// That no key of those that were loaded is left out, and that what was inserted behind them is in
/// order.
struct Order {
    next: u64,
    keys: u64,
    seen: u64,
}

impl Order {
    fn step(&mut self, key: &[u8]) -> Result<u64, String> {
        let number = generator::number_of(key).ok_or("a key that nobody wrote")?;
        if number < self.next || (number > self.next && self.next < self.keys) {
            return Err(format!("key {number} came where {} was due", self.next));
        }
        self.next = number + 1;
        self.seen += 1;
        Ok(number)
    }
}

/// All pairs or all keys, once, or as many as the time allows.
fn whole(engine: &dyn Engine, task: &Task<'_>, begun: Instant) -> Result<Tally, String> {
    let keys_only = task.workload == "keysonly";
    let mut order = Order { next: 0, keys: task.shape.keys, seen: 0 };
    let mut in_time = true;
    let mut visit = |key: &[u8], value: Option<&[u8]>| {
        let number = order.step(key)?;
        if let Some(value) = value {
            generator::check(number, value, task.value_bytes)?;
        }
        in_time = !order.seen.is_multiple_of(LOOK_EVERY) || begun.elapsed() < task.most;
        Ok(in_time)
    };
    engine.scan(&generator::key(0), u64::MAX >> 1, keys_only, &mut visit)?;
    if in_time && order.next < task.shape.keys {
        return Err(format!("the scan ended before key {}", order.next));
    }
    let mut tally = Tally::new();
    (tally.ops, tally.pairs) = (order.seen, order.seen);
    Ok(tally)
}

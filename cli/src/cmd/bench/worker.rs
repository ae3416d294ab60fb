//! One thread of a workload.

use super::BenchPlan;
use super::conditional::KeyGroup;
use super::keys::Draw;
use super::measure::BenchShared;
use super::mix::Mix;
use super::tally::{Side, WorkerTally};
use super::values::{KEY_BYTES, key};
use super::workload::Workload;
use crate::random::{Permutation, SplitMix64};
use cleavedb::{Cursor, Error, KeyRange, ReadOptions, Result, Value, WriteBatch};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::time::Instant;

/// The part of a workload that one thread does.
pub(super) struct Worker<'a> {
    pub(super) plan: &'a BenchPlan<'a>,
    pub(super) workload: Workload,
    pub(super) shared: &'a BenchShared,
    part: Range<u64>,
    pub(super) random: SplitMix64,
    order: Permutation,
    draw: Draw,
    pub(super) tally: WorkerTally,
    last: Instant,
}

impl<'a> Worker<'a> {
    /// Creates the worker for `part` of all operations; `stream` selects its random numbers.
    pub(super) fn new(
        plan: &'a BenchPlan<'a>,
        workload: Workload,
        shared: &'a BenchShared,
        part: Range<u64>,
        stream: u64,
    ) -> Self {
        Worker {
            plan,
            workload,
            shared,
            part,
            random: SplitMix64::new(plan.load.seed, stream),
            order: Permutation::new(plan.load.num, plan.load.seed),
            draw: Draw::of(workload, plan.load),
            tally: WorkerTally::new(),
            last: Instant::now(),
        }
    }

    /// Runs the thread's whole part.
    pub(super) fn run(mut self) -> Result<WorkerTally> {
        self.last = Instant::now();
        match self.workload {
            Workload::FillSeq | Workload::FillRandom | Workload::Overwrite => self.fill()?,
            Workload::ReadRandom | Workload::ReadMissing => self.read()?,
            Workload::ReadSeq => self.walk(Cursor::seek_to_first, Cursor::next)?,
            Workload::ReadReverse => self.walk(Cursor::seek_to_last, Cursor::prev)?,
            Workload::SeekRandom => self.seek()?,
            Workload::DeleteRandom | Workload::DeleteAll => self.delete()?,
            Workload::Cas => self.compare_and_set()?,
            Workload::Increment => self.increment()?,
            Workload::Merge | Workload::PutCounters => self.write_counters()?,
            Workload::Transactions | Workload::BatchGet => {
                self.group(KeyGroup::of(self.workload).expect("these two are groups"))?;
            }
            mixed => self.mix(Mix::of(mixed).expect("the other workloads are mixtures"))?,
        }
        Ok(self.tally)
    }

    /// Counts `ops` operations that ended now; breaks when it is time to stop.
    pub(super) fn done(&mut self, ops: u64) -> ControlFlow<()> {
        self.done_of(ops, None)
    }

    /// Does the same for operations of one side.
    pub(super) fn done_of(&mut self, ops: u64, side: Option<Side>) -> ControlFlow<()> {
        let now = Instant::now();
        let nanos = now.duration_since(self.last).as_nanos() as u64;
        self.tally.record(ops, nanos);
        if let Some(side) = side {
            self.tally.side(side).record(ops, nanos);
        }
        self.last = now;
        self.shared.count(ops, now)
    }

    /// Returns true while the count, or the time that replaces it, is not used up.
    pub(super) fn goes_on(&self, count: u64) -> bool {
        self.plan.duration.is_some() || count < self.part.end - self.part.start
    }

    /// Returns the numbers of the keys that this thread shares with no other.
    pub(super) fn own_keys(&self) -> Range<u64> {
        self.shared.own_keys(&self.part)
    }

    pub(super) fn random_key(&mut self) -> [u8; KEY_BYTES] {
        key(self.draw.next(self.shared.keys.get(), &mut self.random))
    }

    fn fill_key(&mut self, index: u64) -> [u8; KEY_BYTES] {
        match self.workload {
            Workload::FillSeq => key(index),
            Workload::FillRandom if self.plan.load.unique => key(self.order.at(index)),
            _ => self.random_key(),
        }
    }

    fn fill(&mut self) -> Result<()> {
        let counted = self.workload == Workload::FillSeq
            || self.workload == Workload::FillRandom && self.plan.load.unique;
        let mut value = Vec::new();
        let mut index = self.part.start;
        while index < self.part.end || !counted && self.plan.duration.is_some() {
            let left = if counted { self.part.end - index } else { u64::MAX };
            let size = self.plan.load.batch.min(left);
            let mut batch = WriteBatch::new();
            for index in index..index + size {
                let key = self.fill_key(index);
                self.plan.values.make(&key, self.random.next(), &mut value);
                self.tally.bytes += (key.len() + value.len()) as u64;
                if self.plan.load.batch == 1 {
                    self.plan.keyspace.put_with(key, &value, &self.plan.write_options)?;
                } else {
                    batch.put(&self.plan.keyspace, key, &value);
                }
            }
            if !batch.is_empty() {
                self.plan.db.write_with(batch, &self.plan.write_options)?;
            }
            index += size;
            if self.done(size).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let mut missing = [b'.'; KEY_BYTES + 1];
        while self.goes_on(self.tally.ops) {
            let key = self.random_key();
            let found = if self.workload == Workload::ReadMissing {
                missing[..KEY_BYTES].copy_from_slice(&key);
                self.plan.keyspace.get(missing)?
            } else {
                self.plan.keyspace.get(key)?
            };
            self.take_found(&key, found)?;
            if self.done(1).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Verifies and counts what a get of `key` returned.
    pub(super) fn take_found(&mut self, key: &[u8], found: Option<Value>) -> Result<()> {
        if let Some(value) = found {
            self.verify(key, &value)?;
            self.tally.found += 1;
            self.tally.bytes += (key.len() + value.len()) as u64;
        }
        Ok(())
    }

    pub(super) fn cursor(&self, range: impl KeyRange) -> Result<Cursor> {
        let options = ReadOptions::new().read_ahead(!self.plan.load.no_prefetch);
        self.plan.keyspace.range_with(range, &options).into_cursor()
    }

    /// Walks this thread's own range of the keys.
    fn walk(
        &mut self,
        start: fn(&mut Cursor) -> Result<()>,
        step: fn(&mut Cursor) -> Result<()>,
    ) -> Result<()> {
        let stretch = self.shared.stretch(&self.part);
        let mut cursor = self.cursor(stretch)?;
        let limit = self.plan.load.reads.map_or(u64::MAX, |_| self.part.end - self.part.start);
        start(&mut cursor)?;
        while cursor.valid() && self.tally.ops < limit {
            self.take(&mut cursor)?;
            self.tally.found += 1;
            step(&mut cursor)?;
            if self.done(1).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Reads and verifies the pair under the cursor.
    fn take(&mut self, cursor: &mut Cursor) -> Result<()> {
        if !self.plan.load.keys_only {
            let (key, value) = cursor.pair()?;
            self.verify(key, value)?;
            self.tally.bytes += value.len() as u64;
        }
        self.tally.bytes += cursor.key().len() as u64;
        Ok(())
    }

    fn seek(&mut self) -> Result<()> {
        let mut cursor = self.cursor(..)?;
        while self.goes_on(self.tally.ops) {
            self.seek_and_take(&mut cursor, self.plan.load.scan_length)?;
            if self.done(1).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Seeks to a random key and reads up to `count` pairs from there on.
    pub(super) fn seek_and_take(&mut self, cursor: &mut Cursor, count: u64) -> Result<()> {
        let key = self.random_key();
        cursor.seek(key)?;
        self.tally.found += u64::from(cursor.valid() && cursor.key() == key);
        for _ in 0..count {
            if !cursor.valid() {
                break;
            }
            self.take(cursor)?;
            cursor.next()?;
        }
        Ok(())
    }

    fn delete(&mut self) -> Result<()> {
        let all = self.workload == Workload::DeleteAll;
        let mut index = self.part.start;
        while if all { index < self.part.end } else { self.goes_on(self.tally.ops) } {
            let left = if all { self.part.end - index } else { u64::MAX };
            let size = self.plan.load.batch.min(left);
            let mut batch = WriteBatch::new();
            for index in index..index + size {
                let key = if all { key(index) } else { self.random_key() };
                self.tally.bytes += key.len() as u64;
                batch.delete(&self.plan.keyspace, key);
            }
            index += size;
            self.plan.db.write_with(batch, &self.plan.write_options)?;
            if self.done(size).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn verify(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.plan.values.is_of(key, value) {
            return Ok(());
        }
        let dir: &Path = self.plan.db.path();
        let key = String::from_utf8_lossy(key);
        Err(Error::corruption(format!("the value of key {key:?} is not what a fill wrote"))
            .in_file(dir)
            .advise("run `cleave check` on it, unless others wrote into this keyspace"))
    }
}

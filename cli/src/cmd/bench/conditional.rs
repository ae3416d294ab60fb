//! Workloads of writes that depend on what is there, and of the same work without that.

use super::BenchPlan;
use super::values::{KEY_BYTES, key};
use super::worker::Worker;
use super::workload::Workload;
use cleavedb::{Error, Exchange, Expected, Keyspace, Result, WriteBatch, merge_operators};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys that an operation of a [`KeyGroup`] reads, and keys that it writes.
const KEYS_OF_GROUP: usize = 4;

/// How several gets and puts are put together to one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyGroup {
    /// As a transaction.
    Transaction,
    /// As gets and a batch, which knows nothing of the gets.
    GetsAndBatch,
}

impl KeyGroup {
    /// Returns how `workload` groups; `None` if it does not.
    pub(super) fn of(workload: Workload) -> Option<KeyGroup> {
        match workload {
            Workload::Transactions => Some(KeyGroup::Transaction),
            Workload::BatchGet => Some(KeyGroup::GetsAndBatch),
            _ => None,
        }
    }
}

type BenchKey = [u8; KEY_BYTES];

impl Worker<'_> {
    /// Sets keys of this thread's own share by their versions, which nobody else changes.
    pub(super) fn compare_and_set(&mut self) -> Result<()> {
        let share = self.own_keys();
        let keyspace = &self.plan.keyspace;
        let mut value = Vec::new();
        while self.goes_on(self.tally.ops) {
            let number = draw(self, &share);
            let key = key(number);
            let version = &self.shared.versions[number as usize];
            self.plan.values.make(&key, self.random.next(), &mut value);
            let expected = Expected::Version(version.load(Ordering::Relaxed));
            let options = &self.plan.write_options;
            match keyspace.compare_and_set_with(key, expected, &value, options)? {
                Exchange::Done(written) => version.store(written, Ordering::Relaxed),
                Exchange::Mismatch(_) => return Err(foreign_write(&key)),
            }
            self.tally.bytes += (key.len() + value.len()) as u64;
            if self.done(1).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Adds one to counters that all threads share, `--num` of them.
    pub(super) fn increment(&mut self) -> Result<()> {
        let keyspace = counters(self.plan, Workload::Increment)?;
        while self.goes_on(self.tally.ops) {
            let key = self.random_key();
            keyspace.update_with(key, &self.plan.write_options, |old| {
                Some((counter(old) + 1).to_le_bytes())
            })?;
            self.tally.bytes += key.len() as u64 + 8;
            if self.done(1).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Merges or puts a one under counters that all threads share, `--num` of them.
    pub(super) fn write_counters(&mut self) -> Result<()> {
        let keyspace = counters(self.plan, self.workload)?;
        let options = &self.plan.write_options;
        while self.goes_on(self.tally.ops) {
            let key = self.random_key();
            match self.workload {
                Workload::Merge => keyspace.merge_with(key, b"1", options)?,
                _ => keyspace.put_with(key, b"1", options)?,
            }
            self.tally.bytes += key.len() as u64 + 1;
            if self.done(1).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Gets some keys and puts others, as one operation.
    pub(super) fn group(&mut self, group: KeyGroup) -> Result<()> {
        let share = self.own_keys();
        while self.goes_on(self.tally.ops) {
            let reads = self.draw_group(&share);
            let writes = self.draw_group(&share).map(|key| {
                let mut value = Vec::new();
                self.plan.values.make(&key, self.random.next(), &mut value);
                (key, value)
            });
            match group {
                KeyGroup::Transaction => self.transact(&reads, &writes)?,
                KeyGroup::GetsAndBatch => self.get_and_write(&reads, &writes)?,
            }
            self.tally.bytes +=
                writes.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
            if self.done(1).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn draw_group(&mut self, share: &Range<u64>) -> [BenchKey; KEYS_OF_GROUP] {
        std::array::from_fn(|_| match self.plan.load.shared {
            true => self.random_key(),
            false => key(draw(self, share)),
        })
    }

    fn transact(&mut self, reads: &[BenchKey], writes: &[(BenchKey, Vec<u8>)]) -> Result<()> {
        let BenchPlan { db, keyspace, write_options, .. } = self.plan;
        let found = db.transact_with(write_options, |transaction| {
            let found: Result<Vec<_>> =
                reads.iter().map(|key| transaction.get(keyspace, key)).collect();
            for (key, value) in writes {
                transaction.put(keyspace, key, value)?;
            }
            found
        })?;
        for (key, value) in reads.iter().zip(found) {
            self.take_found(key, Some(value.ok_or_else(|| not_loaded(key))?))?;
        }
        Ok(())
    }

    fn get_and_write(&mut self, reads: &[BenchKey], writes: &[(BenchKey, Vec<u8>)]) -> Result<()> {
        let BenchPlan { db, keyspace, write_options, .. } = self.plan;
        for key in reads {
            let value = keyspace.get(key)?.ok_or_else(|| not_loaded(key))?;
            self.take_found(key, Some(value))?;
        }
        let mut batch = WriteBatch::new();
        for (key, value) in writes {
            batch.put(keyspace, key, value);
        }
        db.write_with(batch, write_options)
    }
}

/// Draws the number of a key of `share`.
fn draw(worker: &mut Worker<'_>, share: &Range<u64>) -> u64 {
    share.start + worker.random.below(share.end - share.start)
}

/// Opens the keyspace of the counters: where values are, scans would take them for wrong values.
fn counters(plan: &BenchPlan<'_>, workload: Workload) -> Result<Keyspace> {
    let suffix = workload.counters().unwrap_or_default();
    let mut options = plan.keyspace.options();
    options.merge_operator = (workload == Workload::Merge).then(|| merge_operators::ADD.to_owned());
    let name = format!("{}-{suffix}", plan.keyspace.name());
    plan.db.open_or_create_keyspace_with(&name, options)
}

fn counter(value: Option<&[u8]>) -> u64 {
    value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Reads the versions of all loaded keys.
pub(super) fn versions(plan: &BenchPlan<'_>) -> Result<Vec<AtomicU64>> {
    let read = |number| {
        let key = key(number);
        let found = plan.keyspace.get_versioned(key)?.ok_or_else(|| not_loaded(&key))?;
        Ok(AtomicU64::new(found.version))
    };
    (0..plan.load.num).map(read).collect()
}

/// Returns the sum of all counters.
pub(super) fn sum_of_counters(plan: &BenchPlan<'_>, workload: Workload) -> Result<u64> {
    let mut sum = 0;
    for pair in counters(plan, workload)?.iter() {
        let value = &pair?.1;
        sum += match workload {
            Workload::Merge => String::from_utf8_lossy(value).parse().unwrap_or(0),
            _ => counter(Some(value)),
        };
    }
    Ok(sum)
}

/// Returns an error unless each of `ops` increments counts.
pub(super) fn check_counters(
    plan: &BenchPlan<'_>,
    workload: Workload,
    before: u64,
    ops: u64,
) -> Result<()> {
    let counted = sum_of_counters(plan, workload)? - before;
    if counted == ops {
        return Ok(());
    }
    Err(Error::internal(format!("{ops} increments were made, and {counted} count"))
        .in_file(plan.db.path()))
}

/// Returns the error of a key that must be there. What is not there is read fast, and would pass
/// for a good figure.
pub(super) fn not_loaded(key: &[u8]) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::invalid_argument(format!("there is no key {key}"))
        .advise("load all keys first, by fillseq or fillrandom --unique with the same --num")
}

fn foreign_write(key: &[u8]) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::invalid_argument(format!("key {key} was written by others than the thread it is of"))
        .advise("let nobody else write, and use no more threads than keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_begin_at_zero() {
        assert_eq!(counter(None), 0);
        assert_eq!(counter(Some(&7u64.to_le_bytes())), 7);
    }
}

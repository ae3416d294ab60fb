//! The core workloads of YCSB: reads mixed with writes, each side's latencies apart.

use super::conditional::not_loaded;
use super::tally::Side;
use super::values::{KEY_BYTES, key};
use super::worker::Worker;
use super::workload::Workload;
use cleavedb::Result;

/// YCSB's longest scan, in pairs.
const LONGEST_SCAN: u64 = 100;

/// The reads and the writes that a workload mixes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mix {
    /// Share of the operations that read.
    pub(super) reads: f64,
    /// Whether a read is a scan.
    pub(super) scans: bool,
    pub(super) writes: MixedWrite,
    /// Whether the newest keys are read most.
    pub(super) latest: bool,
}

/// What a writing operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MixedWrite {
    /// Puts a key that exists.
    Update,
    /// Puts a new key, behind all others.
    Insert,
    /// Gets a key and puts it.
    ReadModifyWrite,
}

impl Mix {
    /// Returns the mixture of `workload`; `None` if it is not one of YCSB's.
    pub(super) fn of(workload: Workload) -> Option<Mix> {
        let mix = |reads, writes| Mix { reads, scans: false, writes, latest: false };
        Some(match workload {
            Workload::YcsbA => mix(0.5, MixedWrite::Update),
            Workload::YcsbB => mix(0.95, MixedWrite::Update),
            Workload::YcsbC => mix(1.0, MixedWrite::Update),
            Workload::YcsbD => Mix { latest: true, ..mix(0.95, MixedWrite::Insert) },
            Workload::YcsbE => Mix { scans: true, ..mix(0.95, MixedWrite::Insert) },
            Workload::YcsbF => mix(0.5, MixedWrite::ReadModifyWrite),
            _ => return None,
        })
    }
}

impl Worker<'_> {
    /// Runs this thread's part of a mixture.
    pub(super) fn mix(&mut self, mix: Mix) -> Result<()> {
        let reads = self.plan.load.read_share.unwrap_or(mix.reads);
        let mut value = Vec::new();
        while self.goes_on(self.tally.ops) {
            let found = self.tally.found;
            let side = if self.random.share() < reads { Side::Reads } else { Side::Writes };
            match side {
                Side::Reads if mix.scans => self.scan()?,
                Side::Reads => {
                    let key = self.random_key();
                    self.get(&key)?;
                }
                Side::Writes => self.write(mix.writes, &mut value)?,
            }
            self.tally.side(side).found += self.tally.found - found;
            if self.done_of(1, Some(side)).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Reads up to [`LONGEST_SCAN`] pairs through a cursor of its own, which sees all writes.
    fn scan(&mut self) -> Result<()> {
        let mut cursor = self.cursor(..)?;
        let count = 1 + self.random.below(LONGEST_SCAN);
        self.seek_and_take(&mut cursor, count)
    }

    fn write(&mut self, write: MixedWrite, value: &mut Vec<u8>) -> Result<()> {
        if write == MixedWrite::Insert {
            let number = self.shared.keys.begin_insert();
            self.put(&key(number), value)?;
            self.shared.keys.end_insert(number);
            return Ok(());
        }
        let key = self.random_key();
        if write == MixedWrite::ReadModifyWrite {
            self.get(&key)?;
        }
        self.put(&key, value)
    }

    fn get(&mut self, key: &[u8; KEY_BYTES]) -> Result<()> {
        let found = self.plan.keyspace.get(key)?.ok_or_else(|| not_loaded(key))?;
        self.take_found(key, Some(found))
    }

    fn put(&mut self, key: &[u8; KEY_BYTES], value: &mut Vec<u8>) -> Result<()> {
        self.plan.values.make(key, self.random.next(), value);
        self.tally.bytes += (key.len() + value.len()) as u64;
        self.plan.keyspace.put_with(key, &*value, &self.plan.write_options)
    }
}

//! Merges the operands that pass through a flush or a compaction, so that chains of them end.
//!
//! A *run* is what a job has of one key in one stratum of snapshots, from an operand down:
//! operands, and then perhaps the entry that they are merged with, the base. All readers who see
//! any of it see the newest of it, and see the older ones only through that. So one entry with the
//! number of the newest can take the place of all (I6: what each snapshot sees stays the same).
//! Strata keep their own runs: what a snapshot sees between two operands has to stay.
//!
//! - Over a put, a run becomes a put. So it does over a tombstone, over what a range tombstone of
//!   the stratum hides, and over nothing: at the bottom, where nothing older can be.
//! - Operands alone are combined as far as the operator can. Those that it can't combine with
//!   others stay as they are, and so do their records; compaction brings them down to their base in
//!   the end, and until then the memo of reads (`version/merging.rs`) bounds what reads cost.
//! - A run of 256 MiB that can't be combined to half of that is not merged at all: what has come of
//!   it, and the rest of it, goes on as it is. Reads merge it; a put or a deletion ends it.
//! - What the operator refuses to merge stays as it is, base and all, and the job goes on: nothing
//!   is lost, reads get the operator's error, and a later put or operand may mend it. So it is with
//!   a record that is damaged; the reads of its key say so.
//!
//! I3: a large new value gets a record in a sorted segment of the same edit, as one that a filter
//! makes does (`filtering.rs`). The records of what was merged are garbage from that edit on.

use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{SeqNo, Trailer};
use crate::base::value::Value;
use crate::compaction::redirect::{Redirect, Redirected};
use crate::compaction::retain::{Retain, RetainDecision};
use crate::compaction::separate::Separator;
use crate::read::fetch::Fetcher;
use crate::read::operands::combined;
use crate::throttle::reads::IoPriority;
use crate::version::job::JobResult;
use crate::version::merging::Merging;
use crate::version::runtime::Runtime;
use crate::version::segment_output::{NewSegments, SegmentOutput};
use crate::version::view::{KeyspaceState, View};
use std::ops::Range;
use std::sync::Arc;

/// A segment with merged values is closed once it has this many bytes.
const SEGMENT_BYTES: u64 = 64 << 20;
/// A run is combined once this many operands have come, and again once it has doubled since.
const PART_OPERANDS: usize = 4096;
/// A run is combined once this many bytes have come, and again once it has doubled since.
const PART_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 16 << 20 };
/// A run of this many bytes is left as it is if it can't be combined to half of that.
const MAX_RUN_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// An entry of a run, as it is stored.
#[derive(Clone)]
struct Stored {
    trailer: Trailer,
    payload: Vec<u8>,
    /// True if the job has made it, so that it may have to be separated.
    is_new: bool,
}

/// The operands of one key in one stratum.
struct Run {
    key: Vec<u8>,
    /// `None` if they are not visible yet: then nothing is merged.
    stratum: Option<usize>,
    /// True if nothing older than the job's inputs can be below.
    is_bottom: bool,
    /// The operands, newest first.
    operands: Vec<Stored>,
    /// The bytes of their values.
    bytes: u64,
    /// The number of operands that were left by the last attempt to combine them, and their bytes.
    combined: (usize, u64),
    /// True if the run is left as it is: it is too long, or a part of it is garbage, and with it
    /// all of it. Its operands do not wait any more.
    stays: bool,
}

/// What is below the operands of a run.
enum Below {
    /// A value.
    Put(Stored),
    /// No value, for certain.
    Nothing,
    /// Entries that the run can't be merged with, or some that the job does not have.
    Others,
}

/// The merging of one job.
pub struct OperandMerger<'a> {
    merging: Arc<Merging>,
    runtime: &'a Runtime,
    /// The view whose version resolves pointers.
    view: Arc<View>,
    fetcher: Fetcher,
    separator: Separator,
    /// True if the job itself separates the large inline values that it is handed.
    is_flush: bool,
    values: SegmentOutput<'a>,
    run: Option<Run>,
}

/// An entry on its way: key, trailer and payload.
type Entry<'e> = (&'e [u8], Trailer, &'e [u8]);

impl<'a> OperandMerger<'a> {
    /// Prepares a job of `keyspace`; returns `None` if that has no merge operator. `view` resolves
    /// the pointers of the job's entries.
    pub fn of(
        runtime: &'a Runtime,
        keyspace: &KeyspaceState,
        view: &Arc<View>,
        priority: IoPriority,
    ) -> Option<Self> {
        let merging = keyspace.merging()?.clone();
        Some(OperandMerger {
            merging,
            runtime,
            view: view.clone(),
            // These reads have counters of their own, because they are not a user's reads.
            fetcher: Fetcher::new(runtime.env.reader.clone(), Arc::default()),
            separator: Separator::new(keyspace.id, &keyspace.options()),
            is_flush: priority == IoPriority::Flush,
            values: SegmentOutput::new(runtime, SEGMENT_BYTES, priority),
            run: None,
        })
    }

    /// Returns true if there are operands that wait for what is below.
    pub fn is_open(&self) -> bool {
        self.run.is_some()
    }

    /// Takes the entry that `retain` judged last, while operands wait or if it is one. Hands what
    /// is done with to `add`. Returns false if the entry goes its own way.
    pub fn take<B: FnMut(&[u8]) -> bool>(
        &mut self,
        decision: RetainDecision,
        retain: &mut Retain<'_, B>,
        redirect: &mut Redirect,
        (key, trailer, payload): Entry<'_>,
        add: &mut impl FnMut(&[u8], Trailer, &[u8]) -> JobResult,
    ) -> JobResult<bool> {
        let stratum = retain.stratum();
        let is_same = |run: &Run| run.key == key && run.stratum == stratum;
        if let Some(run) = self.run.take_if(|run| !is_same(run)) {
            // Older entries of the key, in the next stratum, are not nothing.
            let is_bottom = run.is_bottom && run.key != key;
            self.end(run, if is_bottom { Below::Nothing } else { Below::Others }, add)?;
        }
        let is_merge = trailer.kind()?.is_merge();
        if decision == RetainDecision::Drop {
            // What is below the operands is hidden, or it is a tombstone with nothing below.
            if let Some(run) = self.run.take() {
                self.end(run, Below::Nothing, add)?;
            }
            return Ok(true);
        }
        let Redirected::Stays(payload) = redirect.entry(trailer, payload)? else {
            // I6: the record is garbage, because something newer hides it from everybody, and with
            // it what it was merged with.
            if let Some(run) = &mut self.run {
                run.stays = true;
            }
            return Ok(true);
        };
        let entry = Stored { trailer, payload: payload.to_vec(), is_new: false };
        if !is_merge {
            let Some(run) = self.run.take() else {
                return Ok(false);
            };
            let decoded = Payload::decode(trailer.kind()?, &entry.payload)?;
            let is_gone = decision == RetainDecision::Expired || decoded.is_expired_for_all();
            let below = match decoded.slot {
                Slot::Delete => Below::Nothing,
                _ if is_gone => Below::Nothing,
                _ => Below::Put(entry),
            };
            let gone = matches!(below, Below::Nothing);
            let merged = self.end(run, below, add)?;
            // A tombstone that operands could not be merged with stays below them.
            return Ok(merged || !gone);
        }
        let run = self.run.get_or_insert_with(|| Run {
            key: key.to_vec(),
            stratum,
            is_bottom: retain.is_bottom(key),
            operands: Vec::new(),
            bytes: 0,
            combined: (0, 0),
            stays: stratum.is_none(),
        });
        run.bytes += value_bytes(&entry)?;
        run.operands.push(entry);
        // All attempts together read each operand about twice, whether they shrink the run or not.
        let (operands, bytes) = run.combined;
        let is_due = run.operands.len() >= operands + operands.max(PART_OPERANDS)
            || run.bytes >= bytes + bytes.max(PART_BYTES)
            || run.bytes >= MAX_RUN_BYTES;
        if is_due || run.stays {
            self.combine_part(add)?;
        }
        Ok(true)
    }

    /// Ends the last run.
    pub fn close(&mut self, add: &mut impl FnMut(&[u8], Trailer, &[u8]) -> JobResult) -> JobResult {
        if let Some(run) = self.run.take() {
            let below = if run.is_bottom { Below::Nothing } else { Below::Others };
            self.end(run, below, add)?;
        }
        Ok(())
    }

    /// Combines what has come of a long run, so that it never takes much memory. If the run stays
    /// as it is, hands that on instead.
    fn combine_part(
        &mut self,
        add: &mut impl FnMut(&[u8], Trailer, &[u8]) -> JobResult,
    ) -> JobResult {
        let Some(mut run) = self.run.take() else {
            return Ok(());
        };
        if !run.stays {
            if let Some(fewer) = self.combine(&run)? {
                run.bytes = fewer.iter().map(value_bytes).sum::<Result<u64>>()?;
                run.operands = fewer;
            }
            run.combined = (run.operands.len(), run.bytes);
            run.stays = run.bytes >= MAX_RUN_BYTES / 2;
        }
        if run.stays {
            self.pass_on(&run.key, std::mem::take(&mut run.operands), add)?;
            run.bytes = 0;
        }
        self.run = Some(run);
        Ok(())
    }

    /// Hands operands to `add` as they are; those that are new may be separated.
    fn pass_on(
        &mut self,
        key: &[u8],
        operands: Vec<Stored>,
        add: &mut impl FnMut(&[u8], Trailer, &[u8]) -> JobResult,
    ) -> JobResult {
        for entry in operands {
            match entry.is_new {
                true => self.put_out(key, entry.trailer.seqno(), true, &entry.payload, add)?,
                false => add(key, entry.trailer, &entry.payload)?,
            }
        }
        Ok(())
    }

    /// Ends a run: hands to `add` what takes its place. Returns false if it was left as it is.
    fn end(
        &mut self,
        run: Run,
        below: Below,
        add: &mut impl FnMut(&[u8], Trailer, &[u8]) -> JobResult,
    ) -> JobResult<bool> {
        let merged = match &below {
            _ if run.stays => None,
            Below::Others => match self.combine(&run)? {
                None => None,
                Some(fewer) => {
                    self.pass_on(&run.key, fewer, add)?;
                    return Ok(true);
                }
            },
            Below::Put(base) => self.value_over(&run, Some(base))?,
            Below::Nothing => self.value_over(&run, None)?,
        };
        if let Some(value) = merged {
            let newest = run.operands[0].trailer.seqno();
            self.put_out(&run.key, newest, false, &value, add)?;
            return Ok(true);
        }
        self.pass_on(&run.key, run.operands, add)?;
        if let Below::Put(base) = &below {
            add(&run.key, base.trailer, &base.payload)?;
        }
        Ok(false)
    }

    /// Returns the value that a run makes of what is below it, or `None` if it stays as it is.
    fn value_over(&self, run: &Run, base: Option<&Stored>) -> JobResult<Option<Vec<u8>>> {
        let Some(operands) = self.values_of(run)? else {
            return Ok(None);
        };
        let base = match base {
            None => None,
            Some(base) => match self.value(&run.key, base)? {
                None => return Ok(None),
                value => value,
            },
        };
        let operands: Vec<&[u8]> = operands.iter().rev().map(|value| &value[..]).collect();
        done_or_left(self.merging.full(&run.key, base.as_deref(), &operands))
    }

    /// Returns the operands of a run combined, or `None` if it stays as it is. Those that are made
    /// of several are inline then, and have the number of the newest of these.
    fn combine(&self, run: &Run) -> JobResult<Option<Vec<Stored>>> {
        if run.operands.len() < 2 {
            return Ok(None);
        }
        let Some(operands) = self.values_of(run)? else {
            return Ok(None);
        };
        let fewer = combined(&self.merging, &run.key, operands)?;
        if fewer.len() == run.operands.len() {
            return Ok(None);
        }
        let stored = |(parts, value): (Range<usize>, Value)| {
            let newest = &run.operands[parts.start];
            if parts.len() == 1 {
                // Its record stays. Made anew, a large operand that nothing is ever combined with
                // would be written by each job that combines others of its key.
                return newest.clone();
            }
            let payload = Payload::operand(Slot::Inline(&value));
            let trailer = Trailer::new(newest.trailer.seqno(), payload.kind());
            Stored { trailer, payload: value.to_vec(), is_new: true }
        };
        Ok(Some(fewer.into_iter().map(stored).collect()))
    }

    /// Returns the operands of a run, newest first, or `None` if one is damaged.
    fn values_of(&self, run: &Run) -> JobResult<Option<Vec<Value>>> {
        let mut values = Vec::with_capacity(run.operands.len());
        for (index, entry) in run.operands.iter().enumerate() {
            if index % PART_OPERANDS == PART_OPERANDS - 1 {
                self.runtime.check_closing()?;
            }
            match self.value(&run.key, entry)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some(values))
    }

    /// Returns the bytes of an entry, or `None` if they are damaged.
    fn value(&self, key: &[u8], entry: &Stored) -> JobResult<Option<Value>> {
        let seqno = entry.trailer.seqno();
        match Slot::decode(entry.trailer.kind()?, &entry.payload)? {
            Slot::Delete => Err(Error::internal("a tombstone is taken for a value").into()),
            Slot::Inline(value) => Ok(Some(Value::copy_from(value))),
            Slot::Pointer(pointer) => match self.fetcher.value(&self.view, pointer, key, seqno) {
                Err(error) if error.kind() == ErrorKind::Corruption => Ok(None),
                value => Ok(Some(value?)),
            },
        }
    }

    /// Hands a merged value, or operand, to `add`, by a pointer to a record if it is large.
    fn put_out(
        &mut self,
        key: &[u8],
        seqno: SeqNo,
        is_merge: bool,
        value: &[u8],
        add: &mut impl FnMut(&[u8], Trailer, &[u8]) -> JobResult,
    ) -> JobResult {
        let payload = Payload { is_merge, ..Slot::Inline(value).into() };
        let trailer = Trailer::new(seqno, payload.kind());
        let is_left = self.is_flush && self.separator.takes(trailer, value)?;
        if is_left || !self.separator.separates(value.len()) {
            return add(key, trailer, value);
        }
        let place = self.separator.write(key, trailer, value, &mut self.values)?;
        let payload = payload.with_slot(Slot::Pointer(place));
        let mut stored = Vec::with_capacity(payload.encoded_len());
        payload.encode(&mut stored);
        add(key, Trailer::new(seqno, payload.kind()), &stored)
    }

    /// Writes out and syncs the segments with merged values, adds them to `segments`, and returns
    /// their files, which are kept if the edit that names them takes effect.
    pub fn finish(
        merger: Option<Self>,
        segments: &mut NewSegments,
    ) -> Result<Option<SegmentOutput<'a>>> {
        let Some(mut merger) = merger else {
            return Ok(None);
        };
        assert!(merger.run.is_none(), "operands wait for what is below");
        merger.values.finish()?;
        segments.extend(merger.values.segments());
        Ok(Some(merger.values))
    }
}

/// Returns the bytes of an entry's value.
fn value_bytes(entry: &Stored) -> Result<u64> {
    Ok(match Slot::decode(entry.trailer.kind()?, &entry.payload)? {
        Slot::Delete => 0,
        Slot::Inline(value) => value.len() as u64,
        Slot::Pointer(pointer) => u64::from(pointer.length),
    })
}

/// Passes on what the operator made, `None` if it refused, and the error of a panic in it.
fn done_or_left(made: Result<Vec<u8>>) -> JobResult<Option<Vec<u8>>> {
    match made {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WrongState => Ok(None),
        Err(error) => Err(error.into()),
    }
}

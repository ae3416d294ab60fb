//! Punching: what is dead in a segment becomes holes in its file. No byte is rewritten and no
//! pointer changes; the length stays, the blocks go back to the file system.
//!
//! Run and install are the other way round here, as what is punched can't be taken back (I5):
//!
//! 1. The holes are recorded in the manifest. From then on pointers into them lead nowhere
//!    ([`crate::version::resolve`]), so that nobody can take zeroes for a record. A crash before
//!    leaves nothing; a crash behind it leaves holes that are not punched.
//! 2. They wait until no version from before the edit is alive: its readers may still see what
//!    was overwritten since, and its compactions read it.
//! 3. They are punched, a few calls at a time, while no checkpoint can link the file, and only if
//!    none has. A crash in between leaves some punched and some not, or all not: a file system
//!    may lose a hole that was not synced, but never the data beside it.
//!
//! Each opening compares what a file takes with what it should, and punches again if it takes
//! more. So nothing here has to be synced. What could not be done is tried again after a while: a
//! full disk may refuse a hole, which splits an extent, until there is room.
//!
//! What is dead is known from a liveness scan, as for relocations: hidden by what is durable (I4,
//! I6).
//!
//! Locks: that against sharing, taken only if it is free, so that a checkpoint that copies holds
//! up nobody here.

pub mod cost;
pub mod runs;

use crate::base::error::{Error, IoContext, Result};
use crate::base::pointer::SegmentId;
use crate::env::budget::IoPriority;
use crate::env::fs::File;
use crate::gc::facts::PunchCost;
use crate::gc::punch::cost::Costs;
use crate::gc::punch::runs::{PunchRange, dead_runs, total, union};
use crate::gc::relocate::VictimRecords;
use crate::stats::GcCounters;
use crate::version::Version;
use crate::version::edit::{Change, Edit};
use crate::version::files::SegmentHandle;
use crate::version::job::{JobContext, JobError, JobResult};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// So many calls are made before somebody else may have the collector.
const CALLS_PER_STEP: u64 = 64;
/// After so long a file that had a second name, or could not be punched, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Files take whole blocks.
const BLOCK_BYTES: u64 = 4096;

/// Punches, and remembers what is to be punched.
#[derive(Default)]
pub struct Puncher {
    /// What it costs.
    pub costs: Costs,
    /// By segment; recorded in the manifest.
    pending: BTreeMap<SegmentId, Pending>,
    /// True once it was seen what earlier openings have left.
    is_resumed: bool,
}

/// Holes on their way.
#[derive(Debug)]
struct Pending {
    /// The version that has them first.
    since: u64,
    /// What is left to do, ascending.
    ranges: VecDeque<(u64, u64)>,
    /// Not before this time.
    not_before: Duration,
    /// Why the last call failed.
    error: Option<Error>,
}

/// What was recorded to be punched.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    /// In how many segments.
    pub segments: u64,
    /// How many calls it takes.
    pub calls: u64,
    /// Bytes that come back.
    pub bytes: u64,
}

impl Puncher {
    /// Records that what is dead in the victims is going to be punched. What is not in their
    /// lists is lost with that: they must be those of a liveness scan that counted the segments.
    pub fn declare(
        &mut self,
        context: &JobContext,
        victims: &[VictimRecords],
        cost: &PunchCost,
    ) -> Result<Declared> {
        let (mut declared, mut found) = (Declared::default(), Vec::new());
        // In the serial step: one that died as a whole meanwhile is not there any more.
        let plan = |version: &Version| {
            found = find(version, victims, cost.least_run());
            let change = |(id, runs): &(SegmentId, Vec<PunchRange>)| {
                let holes = union(&version.segments[id].holes, runs);
                Change::Holes { segment: *id, holes }
            };
            Ok(Edit::new(found.iter().map(change).collect()))
        };
        let version = context.set.apply(plan, &[], None)?;
        for (id, runs) in found {
            declared.segments += 1;
            declared.calls += runs.len() as u64;
            declared.bytes += runs.iter().map(|run| run.fresh).sum::<u64>();
            self.wait_for(&version, id, runs.into_iter().map(|run| (run.offset, run.len)));
        }
        Ok(declared)
    }

    fn wait_for(
        &mut self,
        version: &Version,
        id: SegmentId,
        ranges: impl Iterator<Item = (u64, u64)>,
    ) {
        let (since, not_before) = (version.number, Duration::ZERO);
        let new = Pending { since, ranges: VecDeque::new(), not_before, error: None };
        let pending = self.pending.entry(id).or_insert(new);
        pending.since = since;
        pending.ranges.extend(ranges);
    }

    /// Makes some of the calls that are due; true if there may be more at once.
    pub fn run(&mut self, context: &JobContext, counters: &GcCounters) -> JobResult<bool> {
        if !self.is_resumed {
            self.resume(context);
            self.is_resumed = true;
        }
        let version = context.set.current();
        // One that was freed in another way needs nothing any more.
        self.pending.retain(|id, _| version.segments.contains_key(id));
        let Some(id) = self.next(context) else {
            return Ok(false);
        };
        let handle = version.segments[&id].handle.clone();
        drop(version);
        let outcome = self.punch(context, counters, id, &handle);
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.error = outcome.as_ref().err().and_then(JobError::failure).cloned();
            if pending.error.is_some() {
                // Its blocks count as free already, so it has to be done some time.
                pending.not_before = context.env.clock.now() + LOOK_AGAIN;
            }
        }
        outcome
    }

    /// Why holes that are recorded can't be punched now.
    pub fn error(&self) -> Option<&Error> {
        self.pending.values().find_map(|pending| pending.error.as_ref())
    }

    /// Bytes that still take blocks and wait for nothing but a call.
    pub fn due_bytes(&self, context: &JobContext) -> u64 {
        if self.pending.is_empty() {
            return 0;
        }
        let (now, oldest) = (context.env.clock.now(), context.set.oldest_alive());
        let due = self.pending.values().filter(|pending| pending.is_due(now, oldest));
        due.flat_map(|pending| &pending.ranges).map(|&(_, len)| len).sum()
    }

    /// True if a call is due.
    pub fn is_due(&self, context: &JobContext) -> bool {
        let has_holes =
            |version: &Version| version.segments.values().any(|live| !live.holes.is_empty());
        let unknown = !self.is_resumed && has_holes(&context.set.current());
        unknown || self.next(context).is_some()
    }

    /// The next segment whose holes nobody can need any more.
    fn next(&self, context: &JobContext) -> Option<SegmentId> {
        if self.pending.is_empty() {
            return None;
        }
        let (now, oldest) = (context.env.clock.now(), context.set.oldest_alive());
        self.pending.iter().find(|(_, pending)| pending.is_due(now, oldest)).map(|(&id, _)| id)
    }

    /// Looks at what an earlier opening recorded and did not do, or a crash undid: then a file
    /// takes more than its length without the holes, by one of them at least. Where the file
    /// system compresses, less than that may show; then some blocks stay until the segment goes.
    fn resume(&mut self, context: &JobContext) {
        let version = context.set.current();
        for (&id, live) in version.segments.iter() {
            let Some(length) = live.sealed else { continue };
            let Some(least) = live.holes.iter().map(|&(_, len)| len).min() else { continue };
            let file = context.set.tables().files.get(live.handle.path());
            let allocated = file.ok().and_then(|file| file.allocated().ok());
            let wanted = length.next_multiple_of(BLOCK_BYTES).saturating_sub(total(&live.holes));
            // Where it can't be told, punching once more does no harm, or says what is wrong.
            if allocated.is_none_or(|allocated| allocated >= wanted + least) {
                self.wait_for(&version, id, live.holes.iter().copied());
            }
        }
    }

    fn punch(
        &mut self,
        context: &JobContext,
        counters: &GcCounters,
        id: SegmentId,
        handle: &Arc<SegmentHandle>,
    ) -> JobResult<bool> {
        context.check_closing()?;
        let Some(pending) = self.pending.get_mut(&id) else {
            return Ok(false);
        };
        let path = handle.path();
        let file = context.env.fs.open_write(path).doing("open a segment to punch", path)?;
        let Some(unshared) = context.set.lock_hard_links_if_free() else {
            // Soon, not at once: linking takes a while, copying more.
            pending.not_before = context.env.clock.now() + LOOK_AGAIN / 100;
            return Ok(false);
        };
        // I5: a checkpoint from before the edit may see what is dead here.
        if file.links().doing("count the names of", path)? > 1 {
            pending.not_before = context.env.clock.now() + LOOK_AGAIN;
            return Ok(false);
        }
        let before = file.allocated().doing("measure", path)?;
        let mut calls = 0;
        let begun = context.env.clock.now();
        let outcome = pending.go_on(context, &*file, &mut calls);
        self.costs.note_calls(calls, context.env.clock.since(begun));
        drop(unshared);
        counters.punches.add(calls);
        let after = file.allocated().doing("measure", path)?;
        counters.bytes_freed.add(before.saturating_sub(after));
        match outcome {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.costs.give_up();
                self.pending.clear();
                return Ok(false);
            }
            outcome => outcome.doing("punch", path)?,
        }
        if pending.ranges.is_empty() {
            self.pending.remove(&id);
            counters.segments_punched.add(1);
        }
        let call_bytes = self.costs.get().map_or(0, |cost| cost.call_bytes());
        context.budget.spend(IoPriority::Gc, calls * call_bytes);
        Ok(true)
    }
}

impl Pending {
    /// I5: a reader, or a job, that holds a version from before may need what is going to be
    /// punched; whoever comes later can't find it.
    fn is_due(&self, now: Duration, oldest_alive: u64) -> bool {
        self.since <= oldest_alive && self.not_before <= now
    }

    fn go_on(
        &mut self,
        context: &JobContext,
        file: &dyn File,
        calls: &mut u64,
    ) -> std::io::Result<()> {
        while let Some(&(offset, len)) = self.ranges.front() {
            if *calls == CALLS_PER_STEP || context.is_closing() {
                break;
            }
            // A crash before or after leaves the hole or not: the next opening looks.
            file.punch(offset, len)?;
            self.ranges.pop_front();
            *calls += 1;
        }
        Ok(())
    }
}

/// What is to be punched in those of the victims that are there still.
fn find(
    version: &Version,
    victims: &[VictimRecords],
    least: u64,
) -> Vec<(SegmentId, Vec<PunchRange>)> {
    let runs_of = |victim: &VictimRecords| {
        let live = version.segments.get(&victim.id)?;
        let runs = dead_runs(&victim.list, live.sealed?, &live.holes, least);
        (!runs.is_empty()).then_some((victim.id, runs))
    };
    victims.iter().filter_map(runs_of).collect()
}

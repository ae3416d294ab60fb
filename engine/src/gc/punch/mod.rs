//! Punching: dead bytes of a segment become holes in its file. No byte is rewritten and no pointer
//! changes; the length stays, and the blocks go back to the file system.
//!
//! Install comes before run here, as punching can't be undone (I5):
//!
//! 1. The holes are recorded in the manifest. From then on pointers into them lead nowhere
//!    ([`crate::version::resolve`]), so that nobody can take zeroes for a record. A crash before
//!    the edit leaves nothing; a crash after it leaves holes that are not punched.
//! 2. They wait until no version from before the edit is alive: its readers may still see what
//!    was overwritten since, and its compactions read it.
//! 3. They are punched, a few calls at a time, while no checkpoint can link the file, and only if
//!    none has. A crash in between leaves any number of them punched: a file system may lose a
//!    hole that was not synced, but never the data beside it.
//!
//! Each opening compares what a file takes with what it should, and punches again if it takes more.
//! So nothing here has to be synced. A call that failed is tried again after a while: a full disk
//! may refuse a hole, which splits an extent, until there is room.
//!
//! A liveness scan determines what is dead, as for relocations: what durable entries hide (I4, I6).
//!
//! Lock: `hard_links`, taken only if it is free, so that a checkpoint that copies delays nobody
//! here.

pub mod cost;
pub mod runs;

use crate::base::error::{Error, IoContext, Result};
use crate::base::pointer::SegmentId;
use crate::base::size::FILE_BLOCK_BYTES;
use crate::env::fs::File;
use crate::gc::facts::PunchCost;
use crate::gc::held::OldestHolder;
use crate::gc::punch::cost::Costs;
use crate::gc::punch::runs::{PunchRange, runs_to_punch, sum_up, union};
use crate::gc::relocate::VictimRecords;
use crate::segment::SegmentKind;
use crate::throttle::reads::IoPriority;
use crate::version::edit::{Change, Edit};
use crate::version::files::SegmentHandle;
use crate::version::job::{JobError, JobResult};
use crate::version::runtime::Runtime;
use crate::version::{Version, hole_bytes};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// The number of calls in one step, after which other work of the collector may go first.
const CALLS_PER_STEP: u64 = 64;
/// The time after which a file that had a second name, or could not be punched, is tried again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The puncher, which punches holes and keeps the list of those that are pending.
#[derive(Default)]
pub struct Puncher {
    /// The measured cost of punching.
    pub costs: Costs,
    /// The holes to punch, by segment; they are recorded in the manifest.
    pending: BTreeMap<SegmentId, Pending>,
    /// True once the holes that earlier openings left were looked for.
    is_resumed: bool,
}

/// The recorded holes of one segment that are not punched yet.
#[derive(Debug)]
struct Pending {
    /// The first version that has the holes.
    since: u64,
    /// The ranges still to punch as offset and length.
    ranges: VecDeque<(u64, u64)>,
    /// The bytes that come back with them, about.
    bytes: u64,
    /// The earliest time of the next call.
    not_before: Duration,
    /// The error of the last call, if it failed.
    error: Option<Error>,
}

/// The amount of holes that were recorded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    /// Number of segments.
    pub segments: u64,
    /// Number of calls to punch them.
    pub calls: u64,
    /// Bytes that come back.
    pub bytes: u64,
}

impl Puncher {
    /// Records that the dead bytes of the victims are going to be punched. All records that are not
    /// in their lists are lost: the lists must be those of a liveness scan that counted the
    /// segments.
    pub fn declare(
        &mut self,
        context: &Runtime,
        victims: &[VictimRecords],
        cost: &PunchCost,
    ) -> Result<Declared> {
        let (mut declared, mut found) = (Declared::default(), Vec::new());
        // This runs in the serial step, where a segment that died as a whole meanwhile is no longer
        // there.
        let plan = |version: &Version| {
            let runs_of = |victim: &VictimRecords| {
                let segment = version.segments.get(&victim.id)?;
                let runs = runs_to_punch(&victim.list, segment, cost.least_run());
                (!runs.is_empty()).then_some((victim.id, runs))
            };
            found = victims.iter().filter_map(runs_of).collect();
            // A consumer of the change feed that began since they were picked looks for no commit
            // behind a hole, be it punched or not.
            let is_log =
                |id: SegmentId| version.segments[&id].handle.segment.kind() == SegmentKind::Log;
            found.retain(|(id, _)| !(is_log(*id) && context.set.log_pins().is_kept(*id)));
            let change = |(id, runs): &(SegmentId, Vec<PunchRange>)| {
                let holes = union(&version.segments[id].holes, runs);
                Change::Holes { segment: *id, holes }
            };
            Ok(Edit::new(found.iter().map(change).collect()))
        };
        let version = context.set.apply(plan, &[], None)?;
        for (id, runs) in found {
            let runs_of_segment = sum_up(&runs);
            declared.segments += 1;
            declared.calls += runs_of_segment.count;
            declared.bytes += runs_of_segment.bytes;
            let ranges = runs.into_iter().map(|run| (run.offset, run.len));
            self.wait_for(&version, id, ranges, runs_of_segment.bytes);
        }
        Ok(declared)
    }

    fn wait_for(
        &mut self,
        version: &Version,
        id: SegmentId,
        ranges: impl Iterator<Item = (u64, u64)>,
        bytes: u64,
    ) {
        let (since, not_before) = (version.number, Duration::ZERO);
        let new = Pending { since, ranges: VecDeque::new(), bytes: 0, not_before, error: None };
        let pending = self.pending.entry(id).or_insert(new);
        assert!(pending.since <= since, "I5: later holes wait for later versions");
        pending.since = since;
        pending.ranges.extend(ranges);
        pending.bytes += bytes;
    }

    /// Makes some of the calls that are due; returns true if more may be due at once.
    pub fn run(&mut self, context: &Runtime) -> JobResult<bool> {
        if !self.is_resumed {
            self.resume(context);
            self.is_resumed = true;
        }
        let version = context.set.current();
        self.forget_freed(&version);
        let Some(id) = self.next(context) else {
            return Ok(false);
        };
        let handle = version.segments[&id].handle.clone();
        drop(version);
        let outcome = self.punch(context, id, &handle);
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.error = outcome.as_ref().err().and_then(JobError::failure).cloned();
            if pending.error.is_some() {
                // Its blocks count as free already, so it has to be tried again.
                pending.not_before = context.env.clock.now() + LOOK_AGAIN;
            }
        }
        outcome
    }

    /// Forgets the holes of segments that were freed in another way.
    pub fn forget_freed(&mut self, version: &Version) {
        self.pending.retain(|id, _| version.segments.contains_key(id));
    }

    /// Returns the bytes of recorded holes in this segment that still take blocks.
    pub fn pending_bytes(&self, id: SegmentId) -> u64 {
        self.pending.get(&id).map_or(0, |pending| pending.bytes)
    }

    /// Returns the error that keeps recorded holes from being punched.
    pub fn error(&self) -> Option<&Error> {
        self.pending.values().find_map(|pending| pending.error.as_ref())
    }

    /// Returns the bytes of recorded holes that still take blocks and come back soon: those that
    /// are due, and those that wait for somebody who has not held them for long.
    pub fn expected_bytes(&self, context: &Runtime) -> u64 {
        if self.pending.is_empty() {
            return 0;
        }
        let (now, oldest) = (context.env.clock.now(), OldestHolder::of(context));
        let is_expected = |it: &&Pending| it.not_before <= now && oldest.gives_back(it.since);
        self.pending.values().filter(is_expected).map(|pending| pending.bytes).sum()
    }

    /// Returns true if a call is due.
    pub fn is_due(&self, context: &Runtime) -> bool {
        let has_holes =
            |version: &Version| version.segments.values().any(|live| !live.holes.is_empty());
        let unknown = !self.is_resumed && has_holes(&context.set.current());
        unknown || self.next(context).is_some()
    }

    /// Returns the next segment whose holes are due.
    fn next(&self, context: &Runtime) -> Option<SegmentId> {
        if self.pending.is_empty() {
            return None;
        }
        let (now, oldest) = (context.env.clock.now(), OldestHolder::of(context));
        self.pending.iter().find(|(_, pending)| pending.is_due(now, &oldest)).map(|(&id, _)| id)
    }

    /// Looks for holes that an earlier opening recorded and did not punch, or that a crash undid.
    /// Such a file takes more than its length without the holes, by at least the shortest of them.
    /// Where the file system compresses, the difference may be smaller; then some blocks stay until
    /// the segment goes.
    fn resume(&mut self, context: &Runtime) {
        let version = context.set.current();
        for (&id, live) in version.segments.iter() {
            let Some(length) = live.sealed else { continue };
            let Some(least) = live.holes.iter().map(|&(_, len)| len).min() else { continue };
            let file = context.set.tables().files.get(live.handle.path());
            let allocated = file.ok().and_then(|file| file.allocated().ok());
            let wanted =
                length.next_multiple_of(FILE_BLOCK_BYTES).saturating_sub(hole_bytes(&live.holes));
            // If the space can't be determined, punching again does no harm, or reports the error.
            let due = allocated.map_or(least, |allocated| allocated.saturating_sub(wanted));
            if due >= least {
                self.wait_for(&version, id, live.holes.iter().copied(), due);
            }
        }
    }

    fn punch(
        &mut self,
        context: &Runtime,
        id: SegmentId,
        handle: &Arc<SegmentHandle>,
    ) -> JobResult<bool> {
        context.check_closing()?;
        let counters = &context.counters.gc;
        let pending = self.pending.get_mut(&id).expect("its holes are due");
        let path = handle.path();
        let file = context.env.fs.open_write(path).doing("open a segment to punch", path)?;
        let Some(unshared) = context.set.lock_hard_links_if_free() else {
            // The next try comes soon, but not at once: linking takes a while, copying longer.
            pending.not_before = context.env.clock.now() + LOOK_AGAIN / 100;
            return Ok(false);
        };
        // I5: a consumer of the change feed may have found the segment without these holes. One
        // that comes from now on finds them.
        let is_log = handle.segment.kind() == SegmentKind::Log;
        if is_log && context.set.log_pins().is_kept(id) {
            pending.not_before = context.env.clock.now() + LOOK_AGAIN;
            return Ok(true);
        }
        // I5: a checkpoint from before the edit may see what is dead here.
        if file.links().doing("count the names of", path)? > 1 {
            pending.not_before = context.env.clock.now() + LOOK_AGAIN;
            return Ok(true);
        }
        let before = file.allocated().doing("measure", path)?;
        let mut calls = 0;
        let begun = context.env.clock.now();
        let outcome = pending.go_on(context, &*file, &mut calls);
        self.costs.note_calls(calls, context.env.clock.since(begun));
        drop(unshared);
        counters.punches.add(calls);
        let after = file.allocated().doing("measure", path)?;
        let freed = before.saturating_sub(after);
        pending.bytes = pending.bytes.saturating_sub(freed);
        counters.bytes_freed.add(freed);
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
    /// Returns true if the holes can be punched now. I5: a reader or a job that holds a version
    /// from before the edit may need these bytes; later ones can't find them.
    fn is_due(&self, now: Duration, oldest: &OldestHolder) -> bool {
        oldest.has_passed(self.since) && self.not_before <= now
    }

    fn go_on(
        &mut self,
        context: &Runtime,
        file: &dyn File,
        calls: &mut u64,
    ) -> std::io::Result<()> {
        while let Some(&(offset, len)) = self.ranges.front() {
            if *calls == CALLS_PER_STEP || context.is_closing() {
                break;
            }
            // A crash before or after this call leaves the hole or not; the next opening checks.
            file.punch(offset, len)?;
            self.ranges.pop_front();
            *calls += 1;
        }
        Ok(())
    }
}

//! The cost of punching on this file system.
//!
//! The cost of a call is measured once per opening, before the first use, on a scratch file beside
//! the segments: it differs by a factor of a hundred between file systems. From then on real calls
//! count, which take longer beside writers: 80 µs became 2 ms on ext4. Where calls were so slow
//! that none is made any more, nothing would tell when they are fast again. So the cost goes back
//! to what was measured first, half of the way with each liveness scan without a call.

use crate::base::header::{FileKind, Header};
use crate::gc::facts::PunchCost;
use crate::version::HOLE_UNIT;
use crate::version::files::names;
use crate::version::owner::is_ours;
use crate::version::runtime::Runtime;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// The number of calls that are timed. Their median counts, so that one that had to wait does not.
const PROBES: u64 = 5;
/// Bytes that each of them punches, and bytes of data between two of them.
const PROBED_BYTES: u64 = 4 * HOLE_UNIT;
/// The least and the most nanoseconds of a call; the least guards against a coarse clock.
const CALL_NANOS: (u64, u64) = (1_000, 20_000_000);

/// What was measured.
#[derive(Debug, Default)]
pub struct Costs {
    call: PunchCall,
    /// What was measured first, in nanoseconds.
    probed: u64,
    /// True if there were calls since the last liveness scan.
    has_called: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum PunchCall {
    #[default]
    Unknown,
    Unsupported,
    Nanos(u64),
}

impl Costs {
    /// Returns the cost of punching; `None` while it is unknown, and where punching can't be done.
    pub fn get(&self) -> Option<PunchCost> {
        let PunchCall::Nanos(call_nanos) = self.call else {
            return None;
        };
        debug_assert!(
            (CALL_NANOS.0..=CALL_NANOS.1).contains(&call_nanos),
            "what was measured keeps to the bounds"
        );
        Some(PunchCost { call_nanos })
    }

    /// Returns true if the cost of a call was not measured yet.
    pub fn is_unknown(&self) -> bool {
        self.call == PunchCall::Unknown
    }

    /// Records that the file system can't punch holes.
    pub fn give_up(&mut self) {
        self.call = PunchCall::Unsupported;
    }

    /// Adds the time of some calls. Each time the past counts half as much.
    pub fn note_calls(&mut self, calls: u64, time: Duration) {
        if let (PunchCall::Nanos(before), true) = (self.call, calls > 0) {
            let (least, most) = CALL_NANOS;
            let mean = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / calls;
            self.call = PunchCall::Nanos(((before + mean.min(most)) / 2).max(least));
            self.has_called = true;
        }
    }

    /// Notes that a liveness scan is over, which may find more to punch.
    pub fn note_liveness_scan(&mut self) {
        let has_called = std::mem::take(&mut self.has_called);
        if let (PunchCall::Nanos(call), false) = (self.call, has_called) {
            self.call = PunchCall::Nanos(call.midpoint(self.probed));
        }
    }

    /// Measures the cost of a call. If that fails, the cost stays unknown and nothing is punched: a
    /// scratch file that can't be written is no error of the database. The next call may succeed.
    pub fn probe(&mut self, context: &Runtime) {
        let path = context.set.tables().dir.join(names::PROBE);
        // A file that is not ours stays. Then nothing is measured, and nothing is punched.
        if !is_ours(&context.env, &path, None).unwrap_or(false) {
            return;
        }
        if let Ok(call) = probe(context, &path) {
            self.call = call;
            if let PunchCall::Nanos(nanos) = call {
                self.probed = nanos;
            }
        }
        // If the file stays, after a crash or an error, it is an orphan for the next opening.
        context.set.discard(&[path]);
    }
}

fn probe(context: &Runtime, path: &Path) -> std::io::Result<PunchCall> {
    // A file that an earlier try could not remove would be in the way.
    context.set.discard(&[path.to_path_buf()]);
    let file = context.env.fs.create(path)?;
    let mut bytes = vec![0xcd; (2 * PROBES * PROBED_BYTES) as usize];
    // I5: the header identifies the file as ours after a crash, so that it may be removed.
    let head = Header::new(FileKind::Probe, context.set.tables().identity.id, 0).encode();
    bytes[..head.len()].copy_from_slice(&head);
    file.write_at(&bytes, 0)?;
    // Without a sync there would be no blocks yet, and freeing none is cheap.
    file.sync()?;
    let mut times = Vec::new();
    for at in (0..PROBES).map(|probe| (2 * probe + 1) * PROBED_BYTES) {
        let begun = context.env.clock.now();
        match file.punch(at, PROBED_BYTES) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                return Ok(PunchCall::Unsupported);
            }
            punched => punched?,
        }
        times.push(context.env.clock.since(begun));
    }
    times.sort_unstable();
    let median = times[times.len() / 2].as_nanos();
    let (least, most) = CALL_NANOS;
    Ok(PunchCall::Nanos(u64::try_from(median).unwrap_or(most).clamp(least, most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_calls_count_more_than_the_probe() {
        let mut costs = Costs { call: PunchCall::Nanos(5000), ..Costs::default() };
        let nanos = |costs: &Costs| costs.get().unwrap().call_nanos;
        costs.note_calls(2, Duration::from_micros(14));
        assert_eq!(nanos(&costs), 6000);
        costs.note_calls(0, Duration::from_secs(1));
        costs.note_calls(1, Duration::from_secs(100));
        assert_eq!(nanos(&costs), (6000 + CALL_NANOS.1) / 2);
        costs.give_up();
        costs.note_liveness_scan();
        assert!(costs.get().is_none() && !costs.is_unknown());
    }

    /// Beside busy writers calls were slow, so nothing was punched, and nothing told that they were
    /// fast again once the writers were gone.
    #[test]
    fn without_calls_the_first_cost_comes_back() {
        let mut costs =
            Costs { call: PunchCall::Nanos(80_000), probed: 80_000, ..Costs::default() };
        let nanos = |costs: &Costs| costs.get().unwrap().call_nanos;
        costs.note_calls(1, Duration::from_millis(2));
        costs.note_liveness_scan();
        assert_eq!(nanos(&costs), 1_040_000, "there were calls");
        (0..20).for_each(|_| costs.note_liveness_scan());
        assert!((80_000..80_010).contains(&nanos(&costs)), "{}", nanos(&costs));
    }
}

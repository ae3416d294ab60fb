//! The costs of punching and of moving bytes on this file system.
//!
//! The cost of a call is measured once per opening, before the first use, on a scratch file beside
//! the segments: it differs by a factor of a hundred between file systems. From then on real calls
//! count, which take longer beside writers: 80 µs became 2 ms on ext4. The cost of moving is that
//! of the relocations of this opening, and a guess before there were any.

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
/// Nanoseconds for moving one MiB, until they are measured.
const MOVE_NANOS: u64 = 4_000_000;
/// Least bytes moved for a measurement of the cost of moving.
const LEAST_MOVED: u64 = 8 << 20;
/// Bytes moved from which on older measurements decay with each relocation.
const FADING_MOVED: u64 = 64 << 20;
/// The least and the most nanoseconds for moving one MiB.
const MOVE_NANOS_BOUNDS: (u64, u64) = (200_000, 50_000_000);

/// The measured costs.
#[derive(Debug, Default)]
pub struct Costs {
    call: PunchCall,
    moved_bytes: u64,
    moving: Duration,
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
        Some(PunchCost { call_nanos, move_nanos_per_mib: self.move_nanos_per_mib() })
    }

    /// Returns the number of bytes that could have been moved in `time`.
    pub fn movable_in(&self, time: Duration) -> u64 {
        let bytes = (time.as_nanos() << 20) / u128::from(self.move_nanos_per_mib());
        u64::try_from(bytes).unwrap_or(u64::MAX)
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
        }
    }

    /// Adds the time of a relocation. The past decays slowly.
    pub fn note_move(&mut self, bytes: u64, time: Duration) {
        if self.moved_bytes >= FADING_MOVED {
            self.moved_bytes = self.moved_bytes / 16 * 15;
            self.moving = self.moving / 16 * 15;
        }
        self.moved_bytes += bytes;
        self.moving += time;
    }

    fn move_nanos_per_mib(&self) -> u64 {
        if self.moved_bytes < LEAST_MOVED {
            return MOVE_NANOS;
        }
        let nanos = (self.moving.as_nanos() << 20) / u128::from(self.moved_bytes);
        let (least, most) = MOVE_NANOS_BOUNDS;
        u64::try_from(nanos).unwrap_or(most).clamp(least, most)
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
    fn moving_is_guessed_until_it_was_seen() {
        let mut costs = Costs { call: PunchCall::Nanos(5000), ..Costs::default() };
        let per_mib = |costs: &Costs| costs.get().unwrap().move_nanos_per_mib;
        costs.note_move(LEAST_MOVED / 2, Duration::from_secs(1));
        assert_eq!(per_mib(&costs), MOVE_NANOS, "too little to go by");
        costs.note_move(LEAST_MOVED / 2, Duration::ZERO);
        assert_eq!(per_mib(&costs), MOVE_NANOS_BOUNDS.1, "a second for 8 MiB");
        let mut costs = Costs { call: PunchCall::Nanos(5000), ..Costs::default() };
        costs.note_move(8 << 20, Duration::from_millis(24));
        assert_eq!(per_mib(&costs), 3_000_000);
        costs.note_calls(2, Duration::from_micros(14));
        assert_eq!(costs.get().unwrap().call_nanos, 6000);
        costs.note_calls(0, Duration::from_secs(1));
        costs.note_calls(1, Duration::from_secs(100));
        assert_eq!(costs.get().unwrap().call_nanos, (6000 + CALL_NANOS.1) / 2);
        costs.give_up();
        assert!(costs.get().is_none() && !costs.is_unknown());
    }
}

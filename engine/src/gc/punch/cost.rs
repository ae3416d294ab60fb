//! What punching costs on this file system, and what moving a byte does.
//!
//! A call's cost is measured once per opening, before the first use, on a scratch file beside the
//! segments: it differs by a factor of a hundred between file systems. From then on real calls
//! count, which take longer beside writers: 80 µs became 2 ms on ext4. That of moving is what the
//! relocations of this opening took, and a guess before there were any.

use crate::base::header::{FileKind, Header};
use crate::gc::facts::PunchCost;
use crate::version::HOLE_UNIT;
use crate::version::files::names;
use crate::version::job::JobContext;
use crate::version::owner::is_ours;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// How many calls are timed; the median counts, so that one that had to wait does not.
const PROBES: u64 = 5;
/// What each of them punches, and leaves behind it.
const PROBED_BYTES: u64 = 4 * HOLE_UNIT;
/// A call takes at least this long, whatever a coarse clock says, and at most this long.
const CALL_NANOS: (u64, u64) = (1_000, 20_000_000);
/// Moving a MiB takes so long until it is known...
const MOVE_NANOS: u64 = 4_000_000;
/// ...from at least so many bytes moved.
const LEAST_MOVED: u64 = 8 << 20;
/// What came before so many bytes says less with each relocation.
const FADING_MOVED: u64 = 64 << 20;
/// It is never taken to be less or more than this.
const MOVE_NANOS_BOUNDS: (u64, u64) = (200_000, 50_000_000);

/// What is known of costs.
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
    /// What punching costs; `None` while that is unknown, and where it can't be done.
    pub fn get(&self) -> Option<PunchCost> {
        let PunchCall::Nanos(call_nanos) = self.call else {
            return None;
        };
        Some(PunchCost { call_nanos, move_nanos_per_mib: self.move_nanos_per_mib() })
    }

    /// Bytes that could have been moved in so much time.
    pub fn movable_in(&self, time: Duration) -> u64 {
        let bytes = (time.as_nanos() << 20) / u128::from(self.move_nanos_per_mib());
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// True if nobody has tried yet.
    pub fn is_unknown(&self) -> bool {
        self.call == PunchCall::Unknown
    }

    /// The file system can't, after all.
    pub fn give_up(&mut self) {
        self.call = PunchCall::Unsupported;
    }

    /// Notes what some calls took. The past counts half as much each time.
    pub fn note_calls(&mut self, calls: u64, time: Duration) {
        if let (PunchCall::Nanos(before), true) = (self.call, calls > 0) {
            let (least, most) = CALL_NANOS;
            let mean = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / calls;
            self.call = PunchCall::Nanos(((before + mean.min(most)) / 2).max(least));
        }
    }

    /// Notes what a relocation took. The past fades slowly.
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

    /// Finds out what a call costs. If that fails it stays unknown and nothing is punched: a
    /// scratch file that can't be written says nothing of the database. The next time may be
    /// better.
    pub fn probe(&mut self, context: &JobContext) {
        let path = context.set.tables().dir.join(names::PROBE);
        // A file of somebody else's stays. Then nothing is measured, and nothing is punched.
        if !is_ours(&context.env, &path, None).unwrap_or(false) {
            return;
        }
        if let Ok(call) = probe(context, &path) {
            self.call = call;
        }
        // One that stays, after a crash or else, is an orphan for the next opening.
        context.set.discard(&[path]);
    }
}

fn probe(context: &JobContext, path: &Path) -> std::io::Result<PunchCall> {
    // One that an earlier try could not remove is in the way.
    context.set.discard(&[path.to_path_buf()]);
    let file = context.env.fs.create(path)?;
    let mut bytes = vec![0xcd; (2 * PROBES * PROBED_BYTES) as usize];
    // I5: whoever finds it after a crash knows whose it is, and may remove it.
    let head = Header::new(FileKind::Probe, context.set.tables().database, 0).encode();
    bytes[..head.len()].copy_from_slice(&head);
    file.write_at(&bytes, 0)?;
    // Else there would be no blocks yet, and giving none back is cheap.
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

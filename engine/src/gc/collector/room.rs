//! The room below the ceiling of space that jobs take.

use super::Collector;
use std::sync::atomic::{AtomicU64, Ordering};

/// The room that a job has taken. It is given back when this is dropped: what the job has written
/// counts as occupied by then.
pub struct TakenRoom<'a> {
    collector: &'a Collector,
    bytes: AtomicU64,
}

impl TakenRoom<'_> {
    /// Takes up to `most` bytes more. Returns how many it got; they are 0 while it is unknown how
    /// much room there is.
    pub fn take(&self, most: u64) -> u64 {
        let got = self.collector.lessen_room(most);
        self.bytes.fetch_add(got, Ordering::Relaxed);
        self.collector.taken_room.fetch_add(got, Ordering::Relaxed);
        got
    }
}

impl Drop for TakenRoom<'_> {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        self.collector.taken_room.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Collector {
    /// Returns an account for a job that may take room, which has none yet.
    pub fn room_account(&self) -> TakenRoom<'_> {
        TakenRoom { collector: self, bytes: AtomicU64::new(0) }
    }

    /// Lessens the room by up to `most` bytes until the next step; returns by how many.
    pub(super) fn lessen_room(&self, most: u64) -> u64 {
        let less = |room: u64| Some(room.saturating_sub(most));
        let before = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.map_or(0, |before| before.min(most))
    }
}

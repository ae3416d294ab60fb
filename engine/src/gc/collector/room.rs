//! The room below the ceiling of space that jobs take.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes by which space may grow before GC becomes urgent if nothing is flushed.
#[derive(Default)]
pub struct SpaceRoom {
    /// What is left; 0 while that is unknown.
    left: AtomicU64,
    /// What jobs under way have taken.
    taken: AtomicU64,
    /// The most that can be left.
    most: AtomicU64,
    /// What a job waits for; 0 if none does.
    asked: AtomicU64,
}

impl SpaceRoom {
    /// Returns what is left, as of the last step of value GC; 0 while that is unknown.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Returns the most that can be left, as GC makes room where garbage takes it.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Notes that `most` bytes can be left, or what is left already.
    pub(super) fn note_most(&self, most: u64) {
        self.most.store(most.max(self.left()), Ordering::Relaxed);
    }

    /// Returns what a job waits for; 0 if none does.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Sets what a job waits for. [`Mode::Spare`](crate::gc::picker::Mode::Spare) makes it where
    /// garbage takes it.
    pub fn ask(&self, bytes: u64) {
        self.asked.store(bytes, Ordering::Relaxed);
    }

    /// Forgets how much is left until the next step, because a job has taken some.
    pub fn forget(&self) {
        self.note(0);
    }

    /// Notes that `free` bytes are not occupied; what jobs have taken of them is not left.
    pub(super) fn note(&self, free: u64) {
        let taken = self.taken.load(Ordering::Relaxed);
        self.left.store(free.saturating_sub(taken), Ordering::Relaxed);
    }

    /// Lessens what is left by up to `most` bytes, until it is noted again; returns by how many.
    pub(super) fn lessen(&self, most: u64) -> u64 {
        let less = |left: u64| Some(left.saturating_sub(most));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.map_or(0, |before| before.min(most))
    }

    /// Returns an account for a job that may take room, which has none yet.
    pub fn account(&self) -> TakenRoom<'_> {
        TakenRoom { room: self, bytes: AtomicU64::new(0) }
    }
}

/// The room that a job has taken. It is given back when this is dropped: what the job has written
/// counts as occupied by then.
pub struct TakenRoom<'a> {
    room: &'a SpaceRoom,
    bytes: AtomicU64,
}

impl TakenRoom<'_> {
    /// Takes up to `most` bytes more. Returns how many it got; they are 0 while it is unknown how
    /// much room there is.
    pub fn take(&self, most: u64) -> u64 {
        // All is marked first, so that a note that is made meanwhile leaves too little rather than
        // too much.
        self.room.taken.fetch_add(most, Ordering::Relaxed);
        let got = self.room.lessen(most);
        self.room.taken.fetch_sub(most - got, Ordering::Relaxed);
        self.bytes.fetch_add(got, Ordering::Relaxed);
        got
    }
}

impl Drop for TakenRoom<'_> {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against jobs that take the same room: a step between the two has not seen yet what
    /// the first one is going to write.
    #[test]
    fn no_two_jobs_take_the_same_room() {
        let room = SpaceRoom::default();
        let first = room.account();
        assert_eq!(first.take(10), 0, "it is unknown how much there is");
        room.note(100);
        assert_eq!((first.take(60), room.left()), (60, 40));
        room.note(100);
        assert_eq!(room.left(), 40, "the first job has it still");
        let second = room.account();
        assert_eq!((second.take(30), second.take(30), room.left()), (30, 10, 0));
        drop(first);
        assert_eq!(room.left(), 0, "it is noted by the next step");
        room.note(100);
        assert_eq!(room.left(), 60);
        drop(second);
        room.note(100);
        assert_eq!(room.left(), 100);
        assert_eq!((room.lessen(30), room.left()), (30, 70));
        room.note(100);
        assert_eq!(room.left(), 100, "what only lessens it is no job's");
    }
}

//! The one question that locks ask: does this thread take turns in a simulation?
//!
//! In builds without a simulation nobody does, the compiler knows it ([`Seat`] has no
//! values), and locks are the standard library's and nothing else.

pub(super) use imp::{Seat, seat};

/// What a simulated thread waits for. Addresses only tell things apart that exist at the same
/// moment; no order and no decision depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "only a simulation reads it")]
pub(super) enum Awaited {
    /// A mutex or reader-writer lock at this address.
    Lock(usize),
    /// A condition variable at this address.
    Condvar(usize),
    /// The end of a thread.
    Thread(usize),
    /// The end of all threads.
    Everybody,
    /// A moment.
    Time,
}

mod imp {
    use super::Awaited;
    use std::time::Duration;

    /// A place in a simulation that does not exist.
    pub(in crate::env) enum Seat {}

    impl Seat {
        pub(in crate::env) fn pass_at_lock(&self) {
            match *self {}
        }

        pub(in crate::env) fn wait(&self, _: Awaited, _: Option<Duration>) -> bool {
            match *self {}
        }

        pub(in crate::env) fn wake_one(&self, _: Awaited) {
            match *self {}
        }

        pub(in crate::env) fn wake_all(&self, _: Awaited) {
            match *self {}
        }
    }

    pub(in crate::env) fn seat() -> Option<Seat> {
        None
    }
}

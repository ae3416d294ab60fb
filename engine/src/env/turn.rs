//! The hook by which locks find out whether the calling thread takes turns in a simulation.
//!
//! In builds without the `sim` feature no thread does. [`Seat`] then has no values, so the compiler
//! removes the hook, and locks are exactly the standard library's.

pub(super) use imp::{Seat, seat};

/// The thing that a simulated thread waits for. Addresses only distinguish things that exist at the
/// same moment; no order and no decision depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "sim"), expect(dead_code, reason = "only a simulation reads it"))]
pub(super) enum Awaited {
    /// A mutex or a reader-writer lock at this address.
    Lock(usize),
    /// A condition variable at this address.
    Condvar(usize),
    /// The end of the thread with this id.
    Thread(usize),
    /// A moment in virtual time.
    Time,
}

#[cfg(feature = "sim")]
impl Awaited {
    /// Returns the name of this kind of wait in a run's history.
    pub(super) fn point(self) -> &'static str {
        match self {
            Awaited::Lock(_) => "wait-lock",
            Awaited::Condvar(_) => "wait-condition",
            Awaited::Thread(_) => "wait-thread",
            Awaited::Time => "sleep",
        }
    }
}

#[cfg(feature = "sim")]
impl std::fmt::Display for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Awaited::Lock(_) => f.write_str("a lock"),
            Awaited::Condvar(_) => f.write_str("a condition"),
            Awaited::Thread(id) => write!(f, "the end of thread {id}"),
            Awaited::Time => f.write_str("time to pass"),
        }
    }
}

#[cfg(not(feature = "sim"))]
mod imp {
    use super::Awaited;
    use std::time::Duration;

    /// A thread's place in a simulation; it has no values, as builds without `sim` have no
    /// simulation.
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

#[cfg(feature = "sim")]
mod imp {
    pub(in crate::env) use crate::env::sim::scheduler::{Seat, seat};
}

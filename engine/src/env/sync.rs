//! Locks and condition variables: the standard library's, with two differences.
//!
//! A panic does not poison them. A thread that fails reports it through its result, and the rooms
//! above keep their state consistent at every `?`.
//!
//! A thread of a simulation never blocks in the operating system. It tries to take the lock, and if
//! it would have to wait, it hands its turn to the scheduler, which also runs condition variables
//! and their timeouts in virtual time. Threads of a simulation must not share a lock with other
//! threads. All other threads wait in real time, whatever clock their `Env` has.

use super::turn::{Awaited, Seat, seat};
use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

/// A mutual exclusion lock.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// Access to the value that a [`Mutex`] guards, until dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    // Fields are dropped in this order: the lock is released first, then waiting threads are woken.
    held: sync::MutexGuard<'a, T>,
    release: Release,
}

/// The release of a lock: wakes the threads that wait for it in a simulation, and does nothing
/// outside.
struct Release {
    seat: Option<Seat>,
    lock: usize,
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            seat.wake_all(Awaited::Lock(self.lock));
        }
    }
}

/// Takes a lock by blocking or, in a simulation, by taking turns.
#[track_caller]
fn acquire<G>(
    address: usize,
    block: impl FnOnce() -> Result<G, PoisonError<G>>,
    attempt: impl Fn() -> TryLockResult<G>,
) -> (G, Release) {
    let Some(seat) = seat() else {
        let held = block().unwrap_or_else(PoisonError::into_inner);
        return (held, Release { seat: None, lock: address });
    };
    seat.pass_at_lock();
    loop {
        if let Some(held) = unpoisoned(attempt()) {
            return (held, Release { seat: Some(seat), lock: address });
        }
        seat.wait(Awaited::Lock(address), None);
    }
}

fn unpoisoned<G>(attempt: TryLockResult<G>) -> Option<G> {
    match attempt {
        Ok(held) => Some(held),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn address<T: ?Sized>(of: &T) -> usize {
    std::ptr::from_ref(of).cast::<()>().addr()
}

impl<T> Mutex<T> {
    /// Creates a mutex that guards `value`.
    pub const fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until nobody else holds the mutex, then takes it.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let (held, release) = acquire(address(&self.0), || self.0.lock(), || self.0.try_lock());
        MutexGuard { lock: self, held, release }
    }

    /// Takes the mutex if nobody holds it, else returns `None`.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = unpoisoned(self.0.try_lock())?;
        let release = Release { seat: seat(), lock: address(&self.0) };
        Some(MutexGuard { lock: self, held, release })
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

/// A condition variable: waits for a condition that other threads make true under a [`Mutex`]. A
/// wait may end without cause, so check the condition in a loop.
#[derive(Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Creates a condition variable that nobody waits for.
    pub const fn new() -> Self {
        Condvar(sync::Condvar::new())
    }

    /// Releases the mutex, waits to be notified, and takes the mutex again.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { lock, held, release } = guard;
        if release.seat.is_some() {
            return self.wait_in_turn(lock, held, release, None).0;
        }
        let held = self.0.wait(held).unwrap_or_else(PoisonError::into_inner);
        MutexGuard { lock, held, release }
    }

    /// Waits as [`Condvar::wait`] does, for at most `time`. Returns true if the time ran out.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let MutexGuard { lock, held, release } = guard;
        if release.seat.is_some() {
            return self.wait_in_turn(lock, held, release, Some(time));
        }
        let (held, result) =
            self.0.wait_timeout(held, time).unwrap_or_else(PoisonError::into_inner);
        (MutexGuard { lock, held, release }, result.timed_out())
    }

    /// Waits in a simulation. No wake-up is lost between releasing the mutex and waiting, as no
    /// other thread runs until this one waits.
    #[track_caller]
    fn wait_in_turn<'a, T>(
        &self,
        lock: &'a Mutex<T>,
        held: sync::MutexGuard<'a, T>,
        release: Release,
        time: Option<Duration>,
    ) -> (MutexGuard<'a, T>, bool) {
        drop((held, release));
        let timed_out = match seat() {
            Some(seat) => seat.wait(Awaited::Condvar(address(self)), time),
            None => false,
        };
        (lock.lock(), timed_out)
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        match seat() {
            Some(seat) => seat.wake_one(Awaited::Condvar(address(self))),
            None => self.0.notify_one(),
        }
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        match seat() {
            Some(seat) => seat.wake_all(Awaited::Condvar(address(self))),
            None => self.0.notify_all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    #[test]
    fn a_panic_does_not_poison() {
        let mutex = Mutex::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut value = mutex.lock();
            *value = 2;
            panic!("while holding the lock");
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock(), 2);
    }

    #[test]
    fn try_lock_does_not_wait() {
        let mutex = Mutex::new(());
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(held);
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn notified_threads_go_on() {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let (mutex, changed) = &*shared;
                    let mut count = mutex.lock();
                    *count += 1;
                    changed.notify_all();
                    while *count < 4 {
                        count = changed.wait(count);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*shared.0.lock(), 4);
    }

    #[test]
    fn a_wait_that_nobody_ends_times_out() {
        let (mutex, changed) = (Mutex::new(()), Condvar::new());
        let mut guard = mutex.lock();
        loop {
            let (again, timed_out) = changed.wait_timeout(guard, Duration::from_millis(1));
            guard = again;
            if timed_out {
                break;
            }
        }
        drop(guard);
    }
}

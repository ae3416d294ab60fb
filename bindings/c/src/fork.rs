//! After a fork the child has the parent's handles but none of its threads, and shares its files:
//! a database opened before the fork must not be used, nor closed, in the child.

use engine::{Error, Result};
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks this process is away from the first one.
static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

/// The process that an object was made in.
#[derive(Clone, Copy)]
struct Process(u32);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

impl Process {
    /// This one.
    fn this() -> Process {
        WATCH.call_once(|| {
            // SAFETY: the handler only adds to a number, which may be done in a child. If it can't
            // be registered, forks go unnoticed; nothing else changes.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        Process(GENERATION.load(Ordering::Relaxed))
    }

    /// True in a child of the process that this was.
    #[inline]
    fn is_gone(self) -> bool {
        self.0 != GENERATION.load(Ordering::Relaxed)
    }

    /// An error in a child.
    #[inline]
    fn check(self) -> Result<()> {
        if self.is_gone() {
            return Err(Error::closed("the database was opened before a fork")
                .advise("open it in the child, after the parent has closed it"));
        }
        Ok(())
    }
}

/// Something that belongs to the process it was made in. In a child it can't be used, and it is
/// not dropped: threads that its end would wait for are not there.
pub struct OfProcess<T> {
    it: ManuallyDrop<T>,
    process: Process,
}

impl<T> OfProcess<T> {
    /// Of this process.
    pub fn new(it: T) -> Self {
        OfProcess { it: ManuallyDrop::new(it), process: Process::this() }
    }

    /// It; an error in a child.
    #[inline]
    pub fn get(&self) -> Result<&T> {
        self.process.check().map(|()| &*self.it)
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.process.is_gone() {
            // SAFETY: it is dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.it) };
        }
    }
}

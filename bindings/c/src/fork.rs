//! Detection of forks. A child has its parent's handles but none of its threads, and shares its
//! files, so a database that was opened before the fork must be neither used nor closed in it.

use engine::{Error, Result};
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between this process and the one that loaded the library.
static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

/// The process that an object was created in.
#[derive(Clone, Copy)]
struct Process(u32);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

impl Process {
    /// Returns the calling process, and registers the fork handler on the first call.
    fn this() -> Process {
        WATCH.call_once(|| {
            // SAFETY: the handler only increments an atomic, which is allowed in a child. If it
            // can't be registered, forks are not detected; nothing else changes.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        Process(GENERATION.load(Ordering::Relaxed))
    }

    /// Returns true in a child of this process.
    #[inline]
    fn is_gone(self) -> bool {
        self.0 != GENERATION.load(Ordering::Relaxed)
    }

    /// Fails in a child of this process.
    #[inline]
    fn check(self) -> Result<()> {
        if self.is_gone() {
            return Err(Error::closed("the database was opened before a fork")
                .advise("open it in the child, after the parent has closed it"));
        }
        Ok(())
    }
}

/// A value that belongs to the process it was created in. In a child it can't be used, and it is
/// not dropped, because dropping would wait for threads that do not exist there.
pub struct OfProcess<T> {
    it: ManuallyDrop<T>,
    process: Process,
}

impl<T> OfProcess<T> {
    /// Wraps a value of the calling process.
    pub fn new(it: T) -> Self {
        OfProcess { it: ManuallyDrop::new(it), process: Process::this() }
    }

    /// Returns the value, or an error in a child.
    #[inline]
    pub fn get(&self) -> Result<&T> {
        self.process.check().map(|()| &*self.it)
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.process.is_gone() {
            // SAFETY: the value is dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.it) };
        }
    }
}

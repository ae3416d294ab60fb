//! Detection of forks.
//!
//! A child has its parent's memory and descriptors but none of its threads. A lock that another
//! thread held at the fork stays held in the child for ever, and what the child wrote through a
//! descriptor would be in the parent's file. So whatever belongs to a process remembers which one
//! made it. In a child it refuses calls, joins no thread, takes no lock and changes no file; it is
//! not even taken apart, but left in memory until the child ends.
//!
//! A child that the kernel's `clone` made past the C library is not detected.

use super::os;
use crate::base::error::{Error, Result};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between this process and the one that first asked.
static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

/// Runs in a child before `fork` returns there. No other thread exists then, and little else than
/// an atomic may be touched.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

fn message() -> Error {
    Error::closed("the database was opened before a fork")
        .advise("open it in the child, after the parent has closed it")
}

/// The process in which something was made. It costs one relaxed load to compare it with the
/// calling one.
#[derive(Clone, Copy)]
pub struct Process(u32);

impl Process {
    /// Returns the calling process. The first call registers the handler that tells forks.
    pub fn this() -> Process {
        WATCH.call_once(|| os::at_fork(in_child));
        Process(GENERATION.load(Ordering::Relaxed))
    }

    /// Returns a process of which the calling one looks like a child.
    #[cfg(test)]
    pub fn gone() -> Process {
        Process(Process::this().0.wrapping_sub(1))
    }

    /// Returns true in a child of this process.
    #[inline]
    pub fn is_gone(self) -> bool {
        self.0 != GENERATION.load(Ordering::Relaxed)
    }

    /// Fails in a child of this process.
    #[inline]
    pub fn check(self) -> Result<()> {
        if self.is_gone() { Err(message()) } else { Ok(()) }
    }

    /// Fails in a child of this process, with an error of a system call.
    #[inline]
    pub fn check_io(self) -> io::Result<()> {
        if self.is_gone() { Err(io::Error::other(message())) } else { Ok(()) }
    }
}

impl Default for Process {
    fn default() -> Self {
        Process::this()
    }
}

/// A value that belongs to the process that made it. In a child it is left in memory instead of
/// being dropped, because dropping might wait for threads that do not exist there.
pub struct OfProcess<T> {
    /// `None` only while this is dropped.
    it: Option<T>,
    process: Process,
}

impl<T> OfProcess<T> {
    /// Wraps a value of the calling process.
    pub fn new(it: T) -> Self {
        OfProcess { it: Some(it), process: Process::this() }
    }

    /// Returns the value, or an error in a child.
    #[inline]
    pub fn get(&self) -> Result<&T> {
        self.process.check().map(|()| &**self)
    }

    /// Returns the value to take apart, or `None` in a child.
    pub fn into_inner(mut self) -> Option<T> {
        if self.process.is_gone() { None } else { self.it.take() }
    }
}

impl<T: Clone> Clone for OfProcess<T> {
    fn clone(&self) -> Self {
        OfProcess { it: self.it.clone(), process: self.process }
    }
}

/// Access without a check, for what a child may do too: reading what never changes.
impl<T> Deref for OfProcess<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.it.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.process.is_gone() {
            #[expect(clippy::disallowed_methods, reason = "dropping is for the parent")]
            std::mem::forget(self.it.take());
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for OfProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Returns a value that looks as if it had been made before a fork.
    fn inherited<T>(it: T) -> OfProcess<T> {
        OfProcess { it: Some(it), process: Process::gone() }
    }

    #[test]
    fn what_a_process_made_is_used_and_dropped_there() {
        let it = Arc::new(7);
        let own = OfProcess::new(it.clone());
        assert_eq!(**own.get().unwrap(), 7);
        own.process.check_io().unwrap();
        drop(own.clone());
        assert_eq!(own.into_inner(), Some(it.clone()));
        assert_eq!(Arc::strong_count(&it), 1);
    }

    #[test]
    fn in_a_child_it_is_refused_and_left_in_memory() {
        let it = Arc::new(7);
        let theirs = inherited(it.clone());
        let text = theirs.get().unwrap_err().to_string();
        assert!(text.contains("before a fork") && text.contains("open it in the child"), "{text}");
        assert!(theirs.process.check_io().is_err());
        assert_eq!(**theirs, 7);
        assert!(theirs.clone().into_inner().is_none());
        drop(theirs);
        assert_eq!(Arc::strong_count(&it), 3);
    }
}

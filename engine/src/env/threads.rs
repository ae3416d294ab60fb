//! The engine's only access to threads, so that a simulation decides which thread runs when.

use super::fork::OfProcess;
use std::any::Any;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The length in characters at which a program's name is cut.
const PROGRAM_CHARS: usize = 60;

/// The work of a thread.
pub type ThreadBody = Box<dyn FnOnce() + Send>;

/// Returns true if this thread unwinds after a panic.
pub fn is_panicking() -> bool {
    std::thread::panicking()
}

/// The interface to the threads of the system, or of a simulation.
pub trait Threads: Send + Sync {
    /// Starts a thread. Fails if the system has none left.
    fn spawn(&self, name: &str, work: ThreadBody) -> io::Result<Box<dyn Join>>;
    /// Lets other threads run.
    fn yield_now(&self);
    /// Returns how often a thread that waits for some microseconds of another's work should yield
    /// before it sleeps. From 16 on, more gain nothing
    /// (`bench/record/2026-11-23-many-writers.md`).
    fn yields_before_sleep(&self) -> usize {
        16
    }
    /// Returns the process id and the program's name, for a process that our lock keeps out.
    fn describe_process(&self) -> String {
        let program = std::env::args_os().next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
        let program: String = program.chars().take(PROGRAM_CHARS).collect();
        format!("process {} ({program})", std::process::id())
    }
    /// Lowers the priority of the calling thread, where the system supports it. This is for
    /// background work: a foreground thread that wants the processor gets it first.
    fn lower_priority(&self) {}
    /// Returns for how long all processors of the machine together have been idle since it started,
    /// in which waiting for a device does not count; `None` if the system does not tell. Costs some
    /// system calls.
    fn idle_processor_time(&self) -> Option<Duration> {
        None
    }
    /// Blocks the calling thread for `time`.
    fn sleep(&self, time: Duration);
}

/// A started thread. Dropping the handle lets the thread run on.
pub trait Join: Send {
    /// Waits until the thread has ended. If it panicked, the error is the panic's text.
    fn join(self: Box<Self>) -> Result<(), String>;
}

/// The operating system's threads.
pub(super) struct OsThreads;

impl Threads for OsThreads {
    fn spawn(&self, name: &str, work: ThreadBody) -> io::Result<Box<dyn Join>> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Box::new(OsJoin(OfProcess::new(thread))))
    }

    fn yield_now(&self) {
        std::thread::yield_now();
    }

    fn lower_priority(&self) {
        super::os::lower_priority();
    }

    fn idle_processor_time(&self) -> Option<Duration> {
        super::os::idle_processor_time()
    }

    #[expect(clippy::disallowed_methods, reason = "the one door that the others wait through")]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A thread of the system. A child does not have it, so there it is not waited for.
struct OsJoin(OfProcess<std::thread::JoinHandle<()>>);

impl Join for OsJoin {
    fn join(self: Box<Self>) -> Result<(), String> {
        let Some(thread) = self.0.into_inner() else { return Ok(()) };
        thread.join().map_err(|panic| panic_text(&*panic))
    }
}

/// Returns the text of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without text".to_owned())
}

/// Returns the number of threads that can run at once on this machine.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn join_waits_for_the_end() {
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        let thread =
            OsThreads.spawn("worker", Box::new(move || done.store(true, Ordering::SeqCst)));
        thread.unwrap().join().unwrap();
        assert!(seen.load(Ordering::SeqCst));
    }

    #[test]
    fn join_tells_what_a_panic_said() {
        let thread =
            OsThreads.spawn("worker", Box::new(|| std::panic::panic_any("gone".to_owned())));
        assert_eq!(thread.unwrap().join(), Err("gone".to_owned()));
    }
}

//! Floor 1: the engine's only access to files, time, threads and randomness.
//!
//! Every room that needs one of these is passed an [`Env`]. In production it is the operating
//! system ([`Env::os`]). In tests it is a simulated disk, which can lose, tear and reorder unsynced
//! writes, and a scheduler that runs one thread at a time in an order drawn from a seed.
//!
//! No other room names `std::fs`, `std::time::Instant`, `std::thread` or a source of randomness.
//! All locks come from [`sync`], so that the scheduler sees every wait of a simulated thread.

pub mod aligned;
pub mod batch_read;
pub mod begin_and_end;
pub mod budget;
pub mod clock;
#[cfg(target_os = "linux")]
mod direct_read;
#[cfg(target_os = "linux")]
mod direct_write;
mod file_system;
pub mod fork;
pub mod fs;
pub mod key_provider;
mod links;
#[cfg(target_os = "linux")]
mod local_socket;
mod locks;
mod mapped;
pub mod memory;
mod os;
pub mod planted;
mod pool;
pub mod random;
pub mod rate;
pub mod read_buffers;
#[cfg(feature = "sim")]
pub mod sim;
pub mod sockets;
pub mod sync;
#[cfg(test)]
mod tests;
pub mod threads;
mod turn;
#[cfg(all(target_os = "linux", feature = "io-uring"))]
mod uring;

use batch_read::{BatchReader, OneByOne, ParallelReads};
use clock::Clock;
use fork::Process;
use fs::Fs;
#[doc(hidden)]
pub use os::doc_dir;
use planted::Planted;
use random::Random;
use sockets::Sockets;
use std::sync::Arc;
use threads::Threads;

/// The outside world as one handle. Clones are cheap and share everything.
#[derive(Clone)]
pub struct Env {
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// The wall clock and the monotonic clock.
    pub clock: Arc<dyn Clock>,
    /// The interface to threads.
    pub threads: Arc<dyn Threads>,
    /// The source of randomness; it is seeded in simulation.
    pub random: Arc<dyn Random>,
    /// The reader that keeps many reads in flight at once.
    pub reader: Arc<dyn BatchReader>,
    /// The sockets of this machine; `None` in simulation, and on systems whose sockets do not say
    /// who the client is.
    pub sockets: Option<Arc<dyn Sockets>>,
    /// The bytes of memory that the process may use; `None` if that is not known, as in simulation.
    pub memory_limit: Option<u64>,
    /// The fault that a test has planted in the engine.
    pub planted: Planted,
}

/// The settings for using the operating system.
#[derive(Debug, Clone)]
pub struct OsSettings {
    /// The way in which parallel reads are made.
    pub parallel_reads: ParallelReads,
    /// The most threads that read; they start when first needed. The number should be what the
    /// device serves at once: 32 saturates most SSDs (WiscKey, section 3.3.1).
    pub read_threads: usize,
}

impl Default for OsSettings {
    fn default() -> Self {
        OsSettings { parallel_reads: ParallelReads::Auto, read_threads: 32 }
    }
}

impl Env {
    /// Returns the operating system's environment. It never fails: if the kernel refuses a way of
    /// reading, threads replace it, and [`BatchReader::name`] says which one runs.
    pub fn os(settings: &OsSettings) -> Env {
        Env {
            fs: Arc::new(os::OsFs(Process::this())),
            clock: Arc::new(clock::OsClock::default()),
            threads: Arc::new(threads::OsThreads),
            random: Arc::new(random::OsRandom),
            reader: os_reader(settings),
            sockets: os_sockets(),
            memory_limit: memory::limit(),
            planted: Planted::default(),
        }
    }
}

#[cfg(target_os = "linux")]
fn os_sockets() -> Option<Arc<dyn Sockets>> {
    Some(Arc::new(local_socket::OsSockets(Process::this())))
}

#[cfg(not(target_os = "linux"))]
fn os_sockets() -> Option<Arc<dyn Sockets>> {
    None
}

fn os_reader(settings: &OsSettings) -> Arc<dyn BatchReader> {
    match settings.parallel_reads {
        ParallelReads::Off => Arc::new(OneByOne::default()),
        ParallelReads::IoUring => ring().unwrap_or_else(|| pool(settings)),
        ParallelReads::Auto | ParallelReads::Threads => pool(settings),
    }
}

fn pool(settings: &OsSettings) -> Arc<dyn BatchReader> {
    Arc::new(pool::ThreadPool::new(settings.read_threads))
}

#[cfg(all(target_os = "linux", feature = "io-uring"))]
fn ring() -> Option<Arc<dyn BatchReader>> {
    Some(Arc::new(uring::RingReader::new().ok()?))
}

#[cfg(not(all(target_os = "linux", feature = "io-uring")))]
fn ring() -> Option<Arc<dyn BatchReader>> {
    None
}

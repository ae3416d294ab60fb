//! Floor 1: the only door to the outside world: files, time, threads, randomness.
//!
//! An [`Env`] is passed in everywhere. In production it is the operating system
//! ([`Env::os`]); in tests a simulated disk that can lose, tear and reorder unsynced writes, and
//! a scheduler that runs one thread at a time, in an order drawn from a seed.
//!
//! No other room names `std::fs`, `std::time::Instant`, `std::thread` or a source of randomness,
//! and all locks come from [`sync`], so that a simulated thread never blocks outside the
//! scheduler's sight.

pub mod batch_read;
pub mod budget;
pub mod clock;
#[cfg(target_os = "linux")]
mod direct_read;
pub mod fs;
mod links;
mod locks;
mod mapped;
mod os;
mod pool;
pub mod random;
#[cfg(feature = "sim")]
pub mod sim;
pub mod sync;
#[cfg(test)]
mod tests;
pub mod threads;
mod turn;
#[cfg(all(target_os = "linux", feature = "io-uring"))]
mod uring;

use batch_read::{BatchReader, OneByOne, ParallelReads};
use clock::Clock;
use fs::Fs;
#[doc(hidden)]
pub use os::doc_dir;
use random::Random;
use std::sync::Arc;
use threads::Threads;

/// The outside world, as one handle. Clones are cheap and share everything.
#[derive(Clone)]
pub struct Env {
    /// Files.
    pub fs: Arc<dyn Fs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub threads: Arc<dyn Threads>,
    /// Chance.
    pub random: Arc<dyn Random>,
    /// Many reads at once.
    pub reader: Arc<dyn BatchReader>,
}

/// How the operating system is to be used.
#[derive(Debug, Clone)]
pub struct OsSettings {
    /// How many reads at once are made.
    pub parallel_reads: ParallelReads,
    /// How many threads read, at most; they start when first needed. As many as the device
    /// answers at once: 32 saturates most SSDs (WiscKey, section 3.3.1).
    pub read_threads: usize,
}

impl Default for OsSettings {
    fn default() -> Self {
        OsSettings { parallel_reads: ParallelReads::Auto, read_threads: 32 }
    }
}

impl Env {
    /// The operating system. Never fails: a way of reading that the kernel refuses is replaced
    /// by threads, and [`BatchReader::name`] tells which one runs.
    pub fn os(settings: &OsSettings) -> Env {
        Env {
            fs: Arc::new(os::OsFs),
            clock: Arc::new(clock::OsClock::default()),
            threads: Arc::new(threads::OsThreads),
            random: Arc::new(random::OsRandom::default()),
            reader: os_reader(settings),
        }
    }
}

fn os_reader(settings: &OsSettings) -> Arc<dyn BatchReader> {
    match settings.parallel_reads {
        ParallelReads::Off => Arc::new(OneByOne),
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

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
pub mod clock;
pub mod fs;

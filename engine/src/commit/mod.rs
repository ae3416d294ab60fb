//! Floor 6: the write path. Only this room assigns sequence numbers.
//!
//! A write becomes one frame in the active log segment, then entries in memtables, then visible, in
//! that order (I1). Concurrent writers are committed as a group by the first of them, the leader.
//! Separated values stay where the log put them; the memtable takes a pointer (WiscKey, section
//! 3.4: the value log is the write-ahead log too).
//!
//! Locks: the leader holds `log` while it appends and publishes; the queue's lock is held only to
//! push and pop. A writer waits out write stalls (see `stall`) before it takes either.

pub mod batch;
pub mod conditional;
pub mod conditions;
pub mod feed;
pub mod group;
pub mod ingest;
mod leader;
pub mod log;
pub mod pace;
mod queue;
pub mod read_until;
pub mod recent;
pub mod replay;
pub mod request;
pub mod reserve;
pub mod signal;
pub mod stall;
pub mod stall_events;
#[cfg(test)]
mod tests;
mod unsynced;
mod wal_only;

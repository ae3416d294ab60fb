//! Floor 6: the way in. The only room that assigns sequence numbers.
//!
//! A write becomes one frame in the active log segment, then entries in memtables, then visible,
//! in that order (I1). Writers that come at the same time are committed as a group by the first
//! of them, the leader. Separated values stay where the log put them; the memtable takes a
//! pointer (WiscKey, section 3.4: the value log is the write-ahead log too).
//!
//! Locks: `log` is held by the leader while it appends and publishes; the queue's lock only to
//! push and pop. Writers wait for room (see `stall`) before they ask for either.

pub mod batch;
pub mod group;
pub mod log;
pub mod pace;
pub mod replay;
pub mod reserve;
pub mod stall;
pub mod stall_events;

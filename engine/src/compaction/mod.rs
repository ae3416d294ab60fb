//! Floor 7: jobs that turn memtables into tables of L0, and tables into tables of deeper levels.
//! Each job has three steps: *pick* is pure and cheap, *run* does the I/O and holds no lock,
//! *install* is one edit.
//!
//! Invariants that a job upholds: I3 (segments are synced before an edit makes pointers into them
//! durable), I6 (only entries that no reader can see are dropped), I5 (inputs are unlinked after
//! the edit, once their last reader is gone).

pub mod convert;
pub mod deletions;
pub mod early;
pub mod filtering;
pub mod flush;
pub mod fold;
pub mod homing;
pub mod job;
pub mod level0;
mod operands;
pub mod output;
pub mod picker;
pub mod piece_end;
pub mod redirect;
pub mod reorganize;
pub mod retain;
pub mod scan_order;
pub mod separate;
pub mod settle;
pub mod stale;

#[cfg(test)]
mod tests;

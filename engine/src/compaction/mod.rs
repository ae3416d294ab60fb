//! Floor 7: memtables to L0, tables to deeper tables. Each job has three steps: *pick* is pure and
//! cheap, *run* does the I/O and holds no lock, *install* is one edit.
//!
//! What a job upholds: I3 (segments are synced before an edit makes pointers into them durable),
//! I6 (only what nobody can see is dropped), I5 (inputs go after the edit, with their last
//! reader).

pub mod flush;
pub mod fold;
pub mod job;
pub mod output;
pub mod picker;
pub mod redirect;
pub mod reorganize;
pub mod retain;
pub mod stale;

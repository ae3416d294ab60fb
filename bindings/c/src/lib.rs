//! The C library of CleaveDB: every function of LevelDB's `leveldb/c.h`, and CleaveDB's own in the
//! same style. The headers in `include/` document the functions for callers.
//!
//! ```text
//! C ──► guard.rs (no panic crosses) ──► border.rs (pointers → slices, strings, errors)
//!         ──► handle.rs (numbers → objects, checked) ──► the engine
//! ```
//! C never holds a pointer to an object of this library, but for the entry that a compaction filter
//! is asked about, during that call. A handle is a number with a generation, so a handle that is
//! null, closed twice, used after its close or of another kind is detected and refused. `unsafe` is
//! used where C must be trusted (`border.rs`, and the callbacks in `comparator.rs`, `filter.rs` and
//! `compaction_filter.rs`) and where handles are looked up without a lock (`handle.rs`).

#![expect(unsafe_code, reason = "the border to C; where it stands is said above")]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles need pointers of 64 bits");

mod backup;
mod batch;
mod border;
mod cache;
mod changes;
mod compaction_filter;
mod comparator;
mod compare;
mod db;
mod delete_range;
mod env;
mod error;
mod expiry;
mod extra;
mod extra_options;
mod filter;
mod guard;
mod handle;
mod ingest;
mod iter;
mod manage;
mod merge;
mod options;
mod properties;
mod snapshot;
mod space;
mod transaction;

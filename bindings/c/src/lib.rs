//! CleaveDB for C: every function of LevelDB's `leveldb/c.h`, and CleaveDB's own in the same
//! style. `include/` says what each does; here is how.
//!
//! ```text
//! C ──► guard.rs (no panic crosses) ──► border.rs (pointers → slices, strings, errors)
//!         ──► handle.rs (numbers → objects, checked) ──► the engine
//! ```
//! C never holds a pointer to anything of ours: what looks like one is a number with a generation,
//! so a handle that is null, closed twice, used after its end or of another kind is noticed and
//! refused. `unsafe` stands where C is trusted (`border.rs`, and the callbacks in `comparator.rs`
//! and `filter.rs`) and where handles are looked up without a lock (`handle.rs`).

#![expect(unsafe_code, reason = "the border to C; where it stands is said above")]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles need pointers of 64 bits");

mod batch;
mod border;
mod cache;
mod comparator;
mod db;
mod env;
mod error;
mod extra;
mod extra_options;
mod filter;
mod fork;
mod guard;
mod handle;
mod iter;
mod manage;
mod options;
mod properties;
mod snapshot;

//! What users see of the engine, on real files: one behaviour per file, public API only. One
//! program, so that it links once; `cargo test --test behaviour cursors::` runs a part of it.

mod basics;
mod batches;
mod common;
mod compaction;
mod concurrency;
mod corruption;
mod cursors;
mod durability;
mod foreign;
mod keyspaces;
mod locks;
mod model;
mod multi_get;
mod readonly;
mod reopen;
mod snapshots;

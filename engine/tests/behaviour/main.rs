//! Tests of the engine's behaviour on real files, by the public API only, one behaviour per file.
//! They are one program, which links once; `cargo test --test behaviour cursors::` runs a part.

mod at_flush;
mod basics;
mod batches;
mod changes;
mod checkpoint;
mod common;
mod compaction;
mod comparator;
mod compare;
mod compression;
mod concurrency;
mod corruption;
mod cursors;
mod delete_range;
mod durability;
mod encryption;
mod events;
mod expiry;
mod filters;
mod follow;
mod foreign;
mod gc;
mod ingest;
mod keyspaces;
mod kinds;
mod lifetimes;
mod linear;
mod locks;
mod merge;
mod model;
mod multi_get;
mod options;
mod pinned_tree;
mod planted;
mod public;
#[cfg(target_os = "linux")]
mod punch;
mod readonly;
mod registers;
mod reopen;
mod sessions;
mod snapshots;
mod space;
mod table_cache;
mod transactions;

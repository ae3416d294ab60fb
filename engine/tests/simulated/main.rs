//! Tests of the whole database in the simulation: crashes, I/O errors and random workloads. Each
//! run depends on its seed alone.

mod backup;
mod ceiling;
mod changes;
mod client;
mod collect;
mod crash;
mod delete_range;
mod dropping;
mod encryption;
mod expired_reads;
mod expiry;
mod extremes;
mod faults;
mod filters;
mod follow;
mod full;
mod histories;
mod history;
mod hot;
mod ingest;
mod model;
mod panics;
mod peers;
mod pinned_tree;
mod punch;
mod random;
mod refused;
mod rotation;
mod scan_order;
mod script;
mod sessions;
mod sync_every;
mod table_cache;
mod unsynced_scans;
mod write_ahead;

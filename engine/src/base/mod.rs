//! Floor 0: the terms of the engine, as pure data and functions without I/O, locks or threads.
//!
//! Every other room uses them: keys and their order, entries, pointers, checksums, encodings of
//! integers, file headers, errors.

pub mod blocks;
pub mod bounds;
pub mod check;
pub mod checksum;
pub mod coding;
pub mod compression;
#[cfg(test)]
pub mod counted_order;
pub mod entry;
pub mod error;
pub mod expiry;
#[cfg(test)]
pub mod golden;
pub mod header;
pub mod iter;
pub mod json;
pub mod key;
pub mod memory;
pub mod pointer;
pub mod range_tombstone;
pub mod seal;
pub mod size;
pub mod value;

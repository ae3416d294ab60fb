//! Floor 0: the words of the engine. Pure data and functions; no I/O, no locks, no threads.
//!
//! Every other room speaks in these terms: keys and their order, entries, pointers, checksums,
//! the bytes of integers, the heads of files, errors.

pub mod check;
pub mod checksum;
pub mod coding;
pub mod compression;
pub mod entry;
pub mod error;
pub mod header;
pub mod iter;
pub mod key;
pub mod pointer;
pub mod size;
pub mod value;

//! Moving out: a directory of LevelDB, written by ourselves.
//!
//! | file | what |
//! |---|---|
//! | `leveldb.rs` | the directory: tables, a manifest that lists them, and CURRENT |
//! | `table.rs` | a table |
//!
//! Text is what `cleave dump` writes.

pub(crate) mod leveldb;
mod table;

#[cfg(test)]
pub(crate) use table::TableFill;

//! Moving in: other stores' data, read by decoders of our own, into keyspaces.
//!
//! | file | what |
//! |---|---|
//! | `source.rs` | what every store looks like: parts and pairs |
//! | `fill.rs` | writes the pairs of a source, and goes on where an import was interrupted |
//! | `verify.rs` | compares both sides |
//! | `lsm/` | directories of LevelDB and RocksDB |
//! | `badger.rs` | backups of Badger |
//! | `mdb_dump.rs`, `ldb_dump.rs` | what the tools of LMDB and RocksDB print |
//! | `sqlite.rs` | tables of SQLite, through its shell |
//! | `input.rs` | such text and streams |
//! | `cursor.rs`, `crc32c.rs` | numbers out of foreign bytes; their checksum |
//!
//! Bytes of other stores are trusted as little as our own: checksums are verified before anything
//! is parsed, lengths are bounded, and damage is an error with file and offset.

#[cfg(test)]
mod arbitrary;
pub(crate) mod badger;
pub(crate) mod crc32c;
pub(crate) mod cursor;
pub(crate) mod fill;
pub(crate) mod input;
pub(crate) mod ldb_dump;
pub(crate) mod lsm;
pub(crate) mod mdb_dump;
pub(crate) mod source;
pub(crate) mod sqlite;
pub(crate) mod verify;

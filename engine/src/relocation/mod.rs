//! Floor 3: relocations, the files that say where the live records of a freed segment went. One
//! relocation belongs to one freed segment; it is written once, front to back, by value GC, and
//! never changes.
//!
//! Place in the data's way: value GC moves live records into sorted segments and notes each move
//! in a [`RelocationWriter`]; the manifest records the [`RelocationMeta`] that comes out. A pointer
//! into the freed segment is resolved by [`RelocationTable::find`] for as long as a table still
//! holds it: the tree is not rewritten for it.
//!
//! Invariants: I3 (an entry names the whole new place, and a record that has no entry was garbage:
//! what is read is still proven by the record itself), I7 (every block is checked against its
//! checksum, seeded by database, file and offset, before it is parsed; every length is bounded),
//! I11 (the header names kind and version). Errors name file and offset.
//!
//! This room takes no lock of its own; those of [`crate::cache`] are taken and let go inside
//! single calls. A relocation may be read by any number of threads.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | the bytes of a relocation file |
//! | `meta.rs` | what the manifest says about one |
//! | `writer.rs` | moves, in order of old offset, to a file |
//! | `reader.rs` | one move, or all of them |

mod block;
mod format;
mod meta;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use meta::{RelocationMeta, TargetUse};
pub use reader::RelocationTable;
pub use writer::RelocationWriter;

//! Floor 3: relocations, the files that map the live records of a freed segment to their new
//! places. Each relocation belongs to one freed segment. Value GC writes it once, front to back,
//! and it never changes.
//!
//! Place in the data's way: value GC moves live records into sorted segments and adds each move to
//! a [`RelocationWriter`]; the manifest records the resulting [`RelocationMeta`]. As long as a
//! table still holds a pointer into the freed segment, [`RelocationTable::find`] resolves it: the
//! tree is not rewritten.
//!
//! Invariants: I3 (an entry names the whole new place; a record without an entry was garbage; the
//! record that is read still proves itself by its key and checksum), I7 (every block is checked
//! against its checksum, seeded by database, file and offset, before it is parsed; every length is
//! bounded), I11 (the header names kind and version). Errors name file and offset.
//!
//! This room has no locks of its own; those of [`crate::cache`] are taken and released inside
//! single calls. Any number of threads may read a relocation.
//!
//! | file | what |
//! |---|---|
//! | `format.rs`, `block.rs` | the bytes of a relocation file and of its blocks |
//! | `meta.rs` | the description of a relocation in the manifest |
//! | `writer.rs` | writes moves, in order of old offset, to a file |
//! | `reader.rs` | reads one move, many, or all of them |

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

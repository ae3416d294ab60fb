//! Floor 3: sorted tables, the files that make up the tree. A flush or a compaction writes a table
//! once, front to back, and it never changes.
//!
//! Place in the data's way: `compaction/output.rs` writes entries in order through
//! [`TableWriter`]; the manifest records the resulting [`TableMeta`]; `read` opens a [`Table`] and
//! reads one key ([`Table::get`]) or iterates over it ([`TableIter`]).
//!
//! Invariants: I3 (a table states exactly what it references per segment), I7 (every block is
//! checked against its checksum, seeded by database, table and offset, before it is parsed; every
//! length is bounded), I11 (the header names kind and version). Errors name file and offset.
//!
//! This room has no locks of its own; those of [`crate::cache`] are taken and released inside
//! single calls. Any number of threads may read a table.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | the format of a table file: blocks and their trailers, the footer |
//! | `block.rs`, `block_iter.rs` | the format of a block of entries; the iterator over it |
//! | `index.rs` | finds the block that may hold a key |
//! | `filter.rs`, `policy.rs` | rule out absent keys: the engine's filter; the user's filter |
//! | `properties.rs` | the content of a table in numbers; its description in the manifest |
//! | `writer.rs` | writes sorted entries to a file |
//! | `tail.rs`, `reader.rs` | open a table; read one key |
//! | `iter.rs`, `read_ahead.rs` | read many keys |
//! | `pinned.rs` | loads a whole table into memory |
//! | `verify.rs` | verifies the whole table |
//! | `stats.rs` | counts what reading costs |

mod block;
mod block_iter;
mod filter;
mod format;
mod index;
mod iter;
mod pinned;
mod policy;
mod properties;
mod read_ahead;
mod reader;
mod stats;
mod tail;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use iter::TableIter;
pub use pinned::Pinning;
pub use policy::FilterPolicy;
pub use properties::{Properties, SegmentUse, Summary, TableMeta, TableOwner};
pub use read_ahead::start_walk;
pub use reader::{StartedGet, Table, TableSource};
pub use stats::TableStats;
pub use tail::salt_of;
pub use writer::{TableSettings, TableWriter};

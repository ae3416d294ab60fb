//! Floor 3: sorted tables, the files that a tree is made of. A table is written once, front to
//! back, by a flush or a compaction, and never changes.
//!
//! Place in the data's way: `compaction/output.rs` writes entries in order through
//! [`TableWriter`]; the manifest records the [`TableMeta`] that comes out; `read` opens a
//! [`Table`], asks it for one key ([`Table::get`]) or walks it ([`TableIter`]).
//!
//! Invariants: I3 (a table says per segment what it references, exactly), I7 (every block is
//! checked against its checksum, seeded by database, table and offset, before it is parsed; every
//! length is bounded), I11 (the header names kind and version). Errors name file and offset.
//!
//! This room takes no lock of its own; those of [`crate::cache`] are taken and let go inside
//! single calls. A table may be read by any number of threads.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | the bytes of a table file: blocks and their trailers, the footer |
//! | `block.rs`, `block_iter.rs` | the bytes of a block of entries; walking them |
//! | `index.rs` | which block may hold a key |
//! | `filter.rs`, `policy.rs` | which keys are certainly not here; as the user knows it |
//! | `properties.rs` | what is in the table, in numbers; what the manifest says about it |
//! | `writer.rs` | sorted entries to a file |
//! | `tail.rs`, `reader.rs` | opening a table; one key |
//! | `iter.rs`, `read_ahead.rs` | many keys |
//! | `verify.rs` | the whole table against itself |
//! | `stats.rs` | what reading cost |

mod block;
mod block_iter;
mod filter;
mod format;
mod index;
mod iter;
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
pub use policy::FilterPolicy;
pub use properties::{Properties, SegmentUse, Summary, TableMeta, TableOwner};
pub use reader::Table;
pub use stats::TableStats;
pub use writer::{TableSettings, TableWriter};

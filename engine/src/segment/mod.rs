//! Floor 3: segments, the files of records. The *log segments* in arrival order are the
//! write-ahead log and the home of the values separated at write; *sorted segments*, in key order,
//! hold what value GC moved out of others. Both have the same bytes.
//!
//! The data's way: a commit group becomes frames in the [`SegmentWriter`], which returns a value
//! pointer for each record; a reader resolves a pointer with [`Segment::read_value`]; recovery
//! and checking walk whole segments with [`scan()`]; value GC copies what is live to a
//! [`SortedWriter`].
//!
//! Invariants: **I1** a frame is believed whole or not at all (`scan.rs`). **I2** a torn tail
//! is told from rot (there too). **I3** a pointer yields its value or an error that names file
//! and offset (`reader.rs`). **I7** checksums and bounds come before meaning (`format.rs`,
//! `frame.rs`, `record.rs`). **I8** a failed sync is never repeated (`tail.rs`). **I11** the
//! head names the format.
//!
//! Callers: commit writes; read, recovery and checking read. Which segments exist is
//! the business of `version`.
//!
//! Locks: each live segment has one mutex around its write buffer (`tail.rs`), a leaf, under which
//! no I/O is done; and one that makes its syncs one at a time, held during them.

mod format;
mod frame;
mod reader;
mod record;
mod scan;
mod sorted;
mod tail;
mod writer;

#[cfg(test)]
mod tests;

pub use format::{HEAD_BYTES, SegmentHead, SegmentIdentity, SegmentKind};
pub use reader::{FileSource, Segment};
pub use record::{MIN_RECORD_BYTES, RecordInput, RecordKind, RecordView};
pub use scan::{Frame, ScanMode, ScanStart, ScanTail, read_head, scan};
pub use sorted::SortedWriter;
pub use writer::{SegmentWriter, Syncer, WriterSettings};

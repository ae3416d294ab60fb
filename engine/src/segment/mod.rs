//! Floor 3: segments, the files of records. *Log segments* hold records in the order of commits:
//! they are the write-ahead log and the home of values that were separated at write. *Sorted
//! segments* hold, in the order of keys, records that value GC or a compaction job copied from
//! others, or that a flush made of the values in memtables. Where value GC moves more of log
//! segments than fits in its memory, such a segment has several parts, each in the order of keys.
//! Both kinds have one format, and no reader relies on the order.
//!
//! Data flow: a commit group becomes frames in the [`SegmentWriter`], which returns a value pointer
//! for each record; a reader resolves a pointer with [`Segment::read_value`]; recovery and checks
//! walk whole segments with [`scan()`]; value GC and compaction jobs copy live records, and flushes
//! write new ones, with a [`SortedWriter`]. A change feed follows the log with a [`FrameReader`]
//! while it is written.
//!
//! Invariants: **I1** a frame is accepted whole or not at all (`scan.rs`). **I2** a torn tail is
//! distinguished from corruption (`scan.rs`). **I3** a pointer yields its value or an error that
//! names file and offset (`reader.rs`). **I7** checksums and bounds are verified before any field
//! is used (`format.rs`, `frame.rs`, `record.rs`). **I8** a failed sync is never repeated
//! (`tail.rs`). **I11** the head names the format.
//!
//! Callers: `commit` writes; `read`, recovery and checks read. `version` decides which segments
//! exist.
//!
//! Locks: each live segment has two mutexes (`tail.rs`). One guards its write buffers; it is a
//! leaf, and no I/O is done under it. The other makes its syncs one at a time and is held during
//! them.

mod format;
mod frame;
mod frames;
mod reader;
mod record;
mod scan;
mod sorted;
mod tail;
mod writer;

#[cfg(test)]
mod tests;

pub use format::{HEAD_BYTES, SegmentHead, SegmentIdentity, SegmentKind};
pub use frames::FrameReader;
pub use reader::{FileSource, Segment, VerifiedValue};
pub use record::{
    MIN_RECORD_BYTES, RecordInput, RecordKind, RecordSeal, RecordView, ingest_value, range_ends,
};
pub use scan::{
    Frame, ScanMode, ScanStart, ScanTail, evidence_of_any_sync, read_head, scan, written_bytes,
};
pub use sorted::SortedWriter;
pub use writer::{SegmentWriter, Syncer, WriterSettings};

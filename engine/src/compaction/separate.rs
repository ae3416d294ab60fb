//! Separation at flush: the large inline values of memtables go to sorted segments, and their
//! entries get pointers (Titan). What is overwritten in the memtable is never written there,
//! because the flush drops it first (`retain.rs`).
//!
//! I3: a record holds keyspace, key and sequence number of its entry, as one in the log does, so a
//! reader can tell a wrong record. The segments are synced before the edit that names them together
//! with the table whose pointers lead into them.

use crate::base::compression::{Codec, compress};
use crate::base::entry::{Payload, Slot};
use crate::base::error::Result;
use crate::base::expiry::Deadline;
use crate::base::key::{SeqNo, Trailer};
use crate::base::pointer::{KeyspaceId, ValuePointer};
use crate::segment::{RecordInput, RecordKind};
use crate::version::job::JobResult;
use crate::version::segment_output::SegmentOutput;
use crate::version::settings::KeyspaceOptions;

/// Returns the least length in bytes of the value that the pointer of an entry leads to, as
/// [`RecordInput::least_value_bytes`] says.
pub fn least_value_bytes(
    keyspace: KeyspaceId,
    key: &[u8],
    seqno: SeqNo,
    (deadline, pointer): (Option<Deadline>, ValuePointer),
    is_encrypted: bool,
) -> usize {
    let bare = RecordInput { deadline, ..RecordInput::put(keyspace, key, b"") };
    bare.least_value_bytes(seqno, pointer.length as usize, is_encrypted)
}

/// Separates values of one keyspace by its settings.
pub struct Separator {
    keyspace: KeyspaceId,
    options: KeyspaceOptions,
}

impl Separator {
    /// Creates the separator of `keyspace`.
    pub fn new(keyspace: KeyspaceId, options: &KeyspaceOptions) -> Self {
        Separator { keyspace, options: options.clone() }
    }

    /// Returns true if the value of the entry is inline and large enough for a segment.
    pub fn takes(&self, trailer: Trailer, payload: &[u8]) -> Result<bool> {
        let payload = Payload::decode(trailer.kind()?, payload)?;
        Ok(match payload.slot {
            Slot::Inline(value) => {
                self.options.separates_at_flush(value.len()) && !payload.is_expired_for_all()
            }
            Slot::Pointer(_) | Slot::Delete => false,
        })
    }

    /// Returns the bytes of the entry's value if it is chosen for it when it is separated, and 0
    /// otherwise. Of a separated value they are those of its record, which a codec may have made
    /// small, and to which a few are added; a value of nearly 32 KiB may not count.
    pub fn chosen_bytes(&self, trailer: Trailer, payload: &[u8]) -> Result<u64> {
        let (bytes, is_chosen) = match Payload::decode(trailer.kind()?, payload)?.slot {
            Slot::Inline(value) => (value.len(), self.options.chooses_for(value.len())),
            Slot::Pointer(pointer) => {
                let bytes = pointer.length as usize;
                let as_value = bytes.max(self.options.separation_threshold);
                (bytes, self.options.chooses_for(as_value))
            }
            Slot::Delete => (0, false),
        };
        Ok(if is_chosen { bytes as u64 } else { 0 })
    }

    /// Returns true if a value of `bytes` bytes that a compaction makes goes to a segment.
    pub fn separates(&self, bytes: usize) -> bool {
        self.options.separates(bytes)
    }

    /// Writes the value of an entry that it takes to `output`, with the entry's deadline, and
    /// returns the pointer to its record. The value is compressed here, where that pays, and not
    /// when it is written to the log: so writers don't wait for it, and a value that is overwritten
    /// before the flush never costs it.
    pub fn write(
        &self,
        key: &[u8],
        trailer: Trailer,
        payload: &[u8],
        output: &mut SegmentOutput<'_>,
    ) -> JobResult<ValuePointer> {
        let Payload { is_merge, deadline, slot } = Payload::decode(trailer.kind()?, payload)?;
        let Slot::Inline(value) = slot else { unreachable!("only inline values are taken") };
        let kind = if is_merge { RecordKind::Merge } else { RecordKind::Put };
        self.write_value((kind, key, value), deadline, trailer.seqno(), output)
    }

    /// Writes a value of a key, with the kind of its record, to `output`, and returns the pointer
    /// to that.
    pub fn write_value(
        &self,
        (kind, key, value): (RecordKind, &[u8], &[u8]),
        deadline: Option<Deadline>,
        seqno: SeqNo,
        output: &mut SegmentOutput<'_>,
    ) -> JobResult<ValuePointer> {
        let options = &self.options;
        let worth_trying = value.len() >= options.value_compression_min_bytes;
        let compressed = worth_trying.then(|| compress(options.value_codec, value)).flatten();
        let (codec, stored) = match &compressed {
            Some((codec, bytes)) => (*codec, bytes.as_slice()),
            None => (Codec::None, value),
        };
        let record = RecordInput {
            kind,
            keyspace: self.keyspace,
            codec,
            raw_len: value.len() as u32,
            deadline,
            key,
            value: stored,
        };
        output.add(&record, seqno)
    }
}

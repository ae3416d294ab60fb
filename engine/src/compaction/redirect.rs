//! Pointers on their way through a compaction: one that leads through a relocation is replaced by
//! the direct one, and one whose record value GC has proven garbage takes its entry along.
//!
//! Such an entry is hidden by a durable newer one, for every reader there is or will be
//! (`gc/census.rs`), so that dropping it shows nothing older (I6): whoever looks for the key meets
//! the newer one first, in this table or above.

use crate::base::coding::Reader;
use crate::base::error::Result;
use crate::base::key::{EntryKind, Trailer};
use crate::base::pointer::ValuePointer;
use crate::version::Version;
use crate::version::resolve::Resolved;
use std::sync::Arc;

/// Resolves the pointers that a job copies.
pub struct Redirect {
    /// Held until the job is installed: a relocation stays as long as a version from before it
    /// became needless is alive, so what the job writes can be resolved when it is read; and so
    /// does what was given up since, so what the job reads is there.
    version: Arc<Version>,
    /// True if every pointer is direct, and its record there.
    is_plain: bool,
    payload: Vec<u8>,
    dropped: u64,
}

/// What becomes of an entry.
pub enum Redirected<'a> {
    /// It stays, with this payload.
    Stays(&'a [u8]),
    /// Nobody will see it again.
    Garbage,
}

impl Redirect {
    /// Resolves by the relocations and holes of `version`.
    pub fn new(version: Arc<Version>) -> Self {
        let is_whole = version.segments.values().all(|live| live.holes.is_empty());
        let is_plain = version.relocations.is_empty() && is_whole;
        Redirect { version, is_plain, payload: Vec::new(), dropped: 0 }
    }

    /// What becomes of the entry with this trailer and payload.
    pub fn entry<'a>(&'a mut self, trailer: Trailer, payload: &'a [u8]) -> Result<Redirected<'a>> {
        if self.is_plain || trailer.kind()? != EntryKind::PutPointer {
            return Ok(Redirected::Stays(payload));
        }
        let pointer = ValuePointer::decode(&mut Reader::new(payload))?;
        let segments = &self.version.segments;
        let is_whole = segments.get(&pointer.segment).is_none_or(|live| live.holes.is_empty());
        if is_whole && !self.version.relocations.contains_key(&pointer.segment) {
            return Ok(Redirected::Stays(payload));
        }
        match self.version.resolve(pointer)? {
            Resolved::At(_, place) => {
                self.payload.clear();
                place.encode(&mut self.payload);
                Ok(Redirected::Stays(&self.payload))
            }
            Resolved::Gone(_) => {
                self.dropped += 1;
                Ok(Redirected::Garbage)
            }
        }
    }

    /// How many entries were garbage.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

//! Pointers on their way through a compaction: one that leads through a relocation is replaced by
//! the direct one, and one whose record value GC has proven garbage takes its entry along.
//!
//! Such an entry is hidden by a durable newer one, for every reader there is or will be
//! (`gc/liveness_scan.rs`), so that dropping it shows nothing older (I6): whoever looks for the key
//! meets the newer one first, in this table or above.

use crate::base::coding::Reader;
use crate::base::error::Result;
use crate::base::key::{EntryKind, Trailer};
use crate::base::pointer::ValuePointer;
use crate::version::Version;
use crate::version::resolve::Places;

/// Resolves the pointers that a job copies. Held until the job is installed.
pub struct Redirect {
    places: Places,
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
    pub fn new(version: &Version) -> Self {
        Redirect { places: Places::of(version), payload: Vec::new(), dropped: 0 }
    }

    /// What becomes of the entry with this trailer and payload.
    pub fn entry<'a>(&'a mut self, trailer: Trailer, payload: &'a [u8]) -> Result<Redirected<'a>> {
        if self.places.are_plain() || trailer.kind()? != EntryKind::PutPointer {
            return Ok(Redirected::Stays(payload));
        }
        let pointer = ValuePointer::decode(&mut Reader::new(payload))?;
        let Some(place) = self.places.place(pointer)? else {
            self.dropped += 1;
            return Ok(Redirected::Garbage);
        };
        if place == pointer {
            return Ok(Redirected::Stays(payload));
        }
        self.payload.clear();
        place.encode(&mut self.payload);
        Ok(Redirected::Stays(&self.payload))
    }

    /// How many entries were garbage.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

//! Resolves pointers that pass through a compaction: a pointer that leads through a relocation is
//! replaced by the direct one, and an entry whose record value GC has proven garbage is dropped.
//!
//! Such an entry is hidden by a durable newer one for every present and future reader
//! (`gc/liveness_scan.rs`), so dropping it exposes nothing older (I6): a reader of the key meets
//! the newer entry first, in this table or above.

use crate::base::entry::{Payload, Slot};
use crate::base::error::{ErrorKind, Result};
use crate::base::key::Trailer;
use crate::version::Version;
use crate::version::resolve::Places;

/// Resolves the pointers that a job copies. It is held until the job is installed.
pub struct Redirect {
    places: Places,
    payload: Vec<u8>,
    dropped: u64,
}

/// The decision about an entry.
pub enum Redirected<'a> {
    /// The entry is kept with this payload.
    Stays(&'a [u8]),
    /// The entry is garbage: no reader will see it again.
    Garbage,
}

impl Redirect {
    /// Creates a resolver with the relocations and holes of `version`.
    pub fn new(version: &Version) -> Self {
        Redirect { places: Places::of(version), payload: Vec::new(), dropped: 0 }
    }

    /// Decides about the entry with this trailer and payload.
    pub fn entry<'a>(&'a mut self, trailer: Trailer, payload: &'a [u8]) -> Result<Redirected<'a>> {
        if self.places.are_plain() || !trailer.kind()?.is_pointer() {
            return Ok(Redirected::Stays(payload));
        }
        let entry = Payload::decode(trailer.kind()?, payload)?;
        let Slot::Pointer(pointer) = entry.slot else {
            return Ok(Redirected::Stays(payload));
        };
        let place = match self.places.place(pointer) {
            Ok(Some(place)) if place != pointer => place,
            Ok(None) => {
                self.dropped += 1;
                return Ok(Redirected::Garbage);
            }
            Ok(Some(_)) => return Ok(Redirected::Stays(payload)),
            // I3: a pointer whose relocation is damaged stays as it is, and the relocation stays
            // with it, so that one damaged block holds no flush and no compaction up. Reads and
            // liveness scans say what is wrong.
            Err(error) if error.kind() == ErrorKind::Corruption => {
                return Ok(Redirected::Stays(payload));
            }
            Err(error) => return Err(error),
        };
        debug_assert_eq!(place.length, pointer.length, "a relocation copies whole records");
        self.payload.clear();
        entry.with_slot(Slot::Pointer(place)).encode(&mut self.payload);
        Ok(Redirected::Stays(&self.payload))
    }

    /// Returns how many entries were garbage.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

//! The point read: it searches the memtables, then the tables that may hold the key, newest first.
//! The first entry at or below the sequence number decides.

use crate::base::entry::Slot;
use crate::base::error::Result;
use crate::base::key::{EntryKind, SeqNo, Trailer};
use crate::base::pointer::ValuePointer;
use crate::version::levels::LEVELS;
use crate::version::view::View;

/// The result of a point read in the tree.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// The key has no value: it was never written, or it was deleted.
    Nothing,
    /// The value is inline.
    Inline(Vec<u8>),
    /// The value is separated; its record is later verified against the sequence number (I3).
    Pointer(ValuePointer, SeqNo),
}

fn owned(trailer: Trailer, slot: Slot<'_>) -> Lookup {
    match slot {
        Slot::Delete => Lookup::Nothing,
        Slot::Inline(value) => Lookup::Inline(value.to_vec()),
        Slot::Pointer(pointer) => Lookup::Pointer(pointer, trailer.seqno()),
    }
}

fn decoded(trailer: Trailer, payload: &[u8]) -> Result<Lookup> {
    let kind: EntryKind = trailer.kind()?;
    Ok(owned(trailer, Slot::decode(kind, payload)?))
}

/// Returns the newest entry of `user_key` at or below `seqno`.
///
/// Costs no I/O if filters, indexes and blocks are in memory; else one block read for each sorted
/// run whose filter does not exclude the key.
pub fn get(view: &View, user_key: &[u8], seqno: SeqNo, fill_cache: bool) -> Result<Lookup> {
    for memtable in view.memtables() {
        if let Some(found) = memtable.table.get(user_key, seqno, owned) {
            return Ok(found);
        }
    }
    // I6: L0 newest first, then deeper levels: a deeper entry is older, so the first hit decides.
    let order = view.levels.order();
    for handle in view.levels.level(0) {
        let (low, high) = crate::version::levels::bounds(handle);
        if order.compare(user_key, low).is_lt() || order.compare(user_key, high).is_gt() {
            continue;
        }
        if let Some(found) = handle.table()?.get(user_key, seqno, fill_cache, decoded)? {
            return found;
        }
    }
    for level in 1..LEVELS {
        if let Some(handle) = view.levels.find(level, user_key)
            && let Some(found) = handle.table()?.get(user_key, seqno, fill_cache, decoded)?
        {
            return found;
        }
    }
    Ok(Lookup::Nothing)
}

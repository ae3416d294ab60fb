//! Walks one keyspace and reports where each visible entry is and who sees it.
//!
//! The newest entry of a key is what reads see now. The live snapshots divide the older ones into
//! strata; the newest of each stratum is what the snapshot above it sees (`compaction/retain.rs`
//! keeps the same ones), with what that is merged with if it is an operand. Entries above the
//! sequence number of the walk are later and do not count.

use crate::base::entry::{Payload, Slot};
use crate::base::error::Result;
use crate::base::iter::{CurrentKey, EntryIter};
use crate::base::key::SeqNo;
use crate::base::pointer::ValuePointer;
use crate::read::cursor::merged;
use crate::read::level_iter::ReadMode;
use crate::version::resolve::Resolved;
use crate::version::runtime::Runtime;
use crate::version::snapshots::{oldest_reader, stratum};
use crate::version::view::View;

/// The place of an entry's bytes.
pub(super) enum StoredPlace {
    /// The tree, with this many bytes of key and value.
    Inline(u64),
    /// A record of a segment, after relocations were followed.
    Record(ValuePointer),
}

/// An entry that a read or snapshot sees.
pub(super) struct Seen {
    /// The place of its bytes.
    pub(super) stored: StoredPlace,
    /// `None` if reads see it now. Otherwise a newer entry hides it from them, and this is the
    /// oldest snapshot that sees it.
    pub(super) only_by: Option<SeqNo>,
}

/// Calls `visit` for every entry of `view` that a read or snapshot sees; `snapshots` ascend. Fails
/// if the database closes meanwhile.
pub(super) fn walk(
    runtime: &Runtime,
    view: &View,
    seqno: SeqNo,
    snapshots: &[SeqNo],
    visit: &mut dyn FnMut(Seen),
) -> Result<()> {
    assert!(snapshots.is_sorted(), "I6: strata of snapshots are looked up by bisection");
    let order = view.levels.order().clone();
    let mut iter = merged(view, ReadMode::FullScan)?;
    let mut cover = view.ranges();
    let mut key = CurrentKey::default();
    // The stratum of the entry of `key` that was seen last.
    let mut last: Option<usize> = None;
    let mut is_newest = true;
    // True if there is a newer entry of `key`, even one above `seqno`.
    let mut is_hidden = false;
    iter.seek_to_first()?;
    while iter.valid() {
        runtime.check_closing()?;
        if key.enter(&order, iter.user_key()) {
            (last, is_newest, is_hidden) = (None, true, false);
        }
        let trailer = iter.trailer();
        let stratum = stratum(snapshots, trailer.seqno());
        let reader = oldest_reader(snapshots, stratum, seqno);
        if cover.hides(key.bytes(), trailer.seqno(), reader) {
            // Nobody sees it; nobody but snapshots sees what is older.
            (last, is_newest) = (Some(stratum), false);
        } else if trailer.seqno() <= seqno && last != Some(stratum) {
            is_hidden |= cover.hides(key.bytes(), trailer.seqno(), SeqNo::MAX);
            let is_merge = trailer.kind()?.is_merge();
            // What an operand is merged with is seen through it.
            last = (!is_merge).then_some(stratum);
            let payload = Payload::decode(trailer.kind()?, iter.payload())?;
            let stored = match payload.slot {
                _ if payload.is_expired_for_all() => None,
                Slot::Delete => None,
                Slot::Inline(value) => {
                    Some(StoredPlace::Inline((key.bytes().len() + value.len()) as u64))
                }
                // A record may be gone if its entry was hidden when that was decided. The entry
                // that hid it was dropped since, for a newer one that this walk leaves out, or that
                // hides it from all but snapshots that ended before the view was taken.
                Slot::Pointer(pointer) => match view.resolve(pointer)? {
                    Resolved::Gone(_) if is_hidden => None,
                    resolved => Some(StoredPlace::Record(resolved.place(pointer)?.1)),
                },
            };
            // A range tombstone stands for a newer entry of the key.
            is_newest &= !cover.hides(key.bytes(), trailer.seqno(), seqno);
            // Below the newest entry, only what a snapshot sees is visible.
            let only_by = if is_newest { None } else { snapshots.get(stratum).copied() };
            is_newest &= is_merge;
            if let Some(stored) = stored {
                visit(Seen { stored, only_by });
            }
        }
        is_hidden |= !trailer.kind()?.is_merge();
        iter.next()?;
    }
    Ok(())
}

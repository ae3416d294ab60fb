//! Walks one keyspace and tells of each entry that somebody sees where it is and who sees it.
//!
//! Of each key the newest entry is what reads see now. The live snapshots cut the older ones into
//! strata; of each stratum the newest is what the snapshot above it sees (`compaction/retain.rs`
//! keeps the same ones). Entries behind the sequence number of the walk do not count: they came
//! later.

use crate::base::entry::Slot;
use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::key::SeqNo;
use crate::base::pointer::ValuePointer;
use crate::read::cursor::merged;
use crate::read::level_iter::ReadMode;
use crate::version::resolve::Resolved;
use crate::version::view::View;

/// Where the bytes of an entry are.
pub(super) enum StoredPlace {
    /// In the tree: this many, key and value.
    Inline(u64),
    /// In a record of a segment, where relocations lead to.
    Record(ValuePointer),
}

/// An entry that somebody sees.
pub(super) struct Seen {
    /// Where it is.
    pub(super) stored: StoredPlace,
    /// `None`: reads see it now. Else the oldest snapshot that sees it, while a newer one hides
    /// it from reads.
    pub(super) only_by: Option<SeqNo>,
}

/// Calls `visit` for every entry of `view` that somebody sees; `snapshots` ascend.
pub(super) fn walk(
    view: &View,
    seqno: SeqNo,
    snapshots: &[SeqNo],
    visit: &mut dyn FnMut(Seen),
) -> Result<()> {
    let order = view.levels.order().clone();
    let mut iter = merged(view, ReadMode::FullScan)?;
    let mut key: Vec<u8> = Vec::new();
    // Where the entry of `key` was that was seen last.
    let mut last: Option<usize> = None;
    let mut is_newest = true;
    // True if there is a newer entry of `key`, be it one behind `seqno`.
    let mut is_hidden = false;
    iter.seek_to_first()?;
    let mut first = true;
    while iter.valid() {
        if first || order.compare(iter.user_key(), &key).is_ne() {
            first = false;
            key.clear();
            key.extend_from_slice(iter.user_key());
            (last, is_newest, is_hidden) = (None, true, false);
        }
        let trailer = iter.trailer();
        let stratum = snapshots.partition_point(|&snapshot| snapshot < trailer.seqno());
        if trailer.seqno() <= seqno && last != Some(stratum) {
            last = Some(stratum);
            let stored = match Slot::decode(trailer.kind()?, iter.payload())? {
                Slot::Delete => None,
                Slot::Inline(value) => Some(StoredPlace::Inline((key.len() + value.len()) as u64)),
                // What hid it when its record was given up was dropped for a newer one since, of
                // which this walk takes no notice, or which hides it from all but snapshots that
                // went before the view was taken.
                Slot::Pointer(pointer) => match view.resolve(pointer)? {
                    Resolved::Gone(_) if is_hidden => None,
                    resolved => Some(StoredPlace::Record(resolved.place(pointer)?.1)),
                },
            };
            // Below the newest entry only what a snapshot sees is seen.
            let only_by = if is_newest { None } else { snapshots.get(stratum).copied() };
            is_newest = false;
            if let Some(stored) = stored {
                visit(Seen { stored, only_by });
            }
        }
        is_hidden = true;
        iter.next()?;
    }
    Ok(())
}

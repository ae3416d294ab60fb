//! The point read: it searches the memtables, then the tables that may hold the key, newest first.
//! The first entry at or below the sequence number decides.

use crate::base::entry::{Payload, Slot};
use crate::base::error::Result;
use crate::base::expiry::{Deadline, ExpiryTime};
use crate::base::key::{EntryKind, SeqNo, Trailer};
use crate::base::pointer::ValuePointer;
use crate::hot::UpdateTable;
use crate::memtable::KeyPlace;
use crate::table::StartedGet;
use crate::version::expiry::ReadPoint;
use crate::version::view::View;

/// The result of a point read in the tree.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// The key has no value: it was never written, it was deleted, or it has expired.
    Nothing,
    /// The value is inline, and was written at this sequence number. It is left empty for who asked
    /// for [`Wanted::Version`].
    Inline(Vec<u8>, SeqNo),
    /// The value is separated; its record is later verified against the sequence number (I3).
    Pointer(ValuePointer, SeqNo),
    /// An operand was written at this sequence number: the value has to be merged
    /// (`operands.rs`).
    Merge(SeqNo),
}

impl Lookup {
    /// Returns the sequence number of the value that was found.
    pub fn seqno(&self) -> Option<SeqNo> {
        match self {
            Lookup::Nothing => None,
            Lookup::Inline(_, seqno) | Lookup::Pointer(_, seqno) | Lookup::Merge(seqno) => {
                Some(*seqno)
            }
        }
    }
}

/// What of an entry a point read returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The value, if it is inline.
    Value,
    /// Only what is there, and its sequence number. No value is copied.
    Version,
}

/// The result of a point read, and what time has to do with it.
pub struct TimedLookup {
    /// What was found.
    pub found: Lookup,
    /// The time by which an entry was found to have expired, if one was.
    pub expired: Option<ExpiryTime>,
    /// When the value that was found expires, if it does.
    pub deadline: Option<Deadline>,
}

/// Goes straight to the table that holds the newest entry of a key, if the update table knows it
/// (Lin, Chen 2022, section 2.4).
///
/// I6: the update table is asked after the view was taken, so it knows of every table of the view.
/// If it names a table of the view, no other one there has a newer entry; the room `hot` says why.
/// A reader of an older moment may need an older entry, and searches as usual.
fn short_cut<R>(
    view: &View,
    user_key: &[u8],
    seqno: SeqNo,
    fill_cache: bool,
    hot: &UpdateTable,
    decoded: impl FnOnce(Trailer, &[u8]) -> Result<R>,
) -> Result<Option<R>> {
    if hot.is_off() {
        return Ok(None);
    }
    hot.lookups.add(1);
    // I6: it knows nothing of what was ingested, which may be newer.
    let ingested = view.levels.ingested();
    let newest = hot.newest(view.keyspace, user_key);
    let newest = newest.filter(|newest| newest.seqno <= seqno && newest.seqno > ingested);
    let Some(newest) = newest else { return Ok(None) };
    let Some(handle) = view.levels.holder(newest.table, user_key) else { return Ok(None) };
    let is_it = |trailer: Trailer, payload: &[u8]| {
        (trailer.seqno() == newest.seqno).then(|| decoded(trailer, payload))
    };
    let found = handle.table()?.get(user_key, seqno, fill_cache, is_it)?.flatten().transpose()?;
    hot.short_cuts.add(u64::from(found.is_some()));
    Ok(found)
}

/// Returns what a reader at this time sees of an entry.
fn owned(
    trailer: Trailer,
    payload: Payload<'_>,
    wanted: Wanted,
    now: impl FnOnce() -> ExpiryTime,
) -> Lookup {
    match payload.seen_at(now) {
        Slot::Delete => Lookup::Nothing,
        _ if payload.is_merge => Lookup::Merge(trailer.seqno()),
        Slot::Inline(value) => {
            let value = if wanted == Wanted::Value { value.to_vec() } else { Vec::new() };
            Lookup::Inline(value, trailer.seqno())
        }
        Slot::Pointer(pointer) => Lookup::Pointer(pointer, trailer.seqno()),
    }
}

/// Returns what a reader at `point` sees of `user_key`. `hot` is the update table of the database,
/// for readers who may rely on it.
///
/// Costs what [`find`] does.
pub fn get(
    view: &View,
    user_key: &[u8],
    point: ReadPoint<'_>,
    fill_cache: bool,
    hot: Option<&UpdateTable>,
) -> Result<Lookup> {
    Ok(get_timed(view, user_key, point, fill_cache, hot, Wanted::Value, None)?.found)
}

/// Does what [`get`] does, for what is wanted, and also returns what time has to do with it. Notes
/// in `place` where the key is in the active memtable, if that is searched.
pub fn get_timed(
    view: &View,
    user_key: &[u8],
    point: ReadPoint<'_>,
    fill_cache: bool,
    hot: Option<&UpdateTable>,
    wanted: Wanted,
    place: Option<&mut KeyPlace>,
) -> Result<TimedLookup> {
    let see = |trailer: Trailer, payload: Payload<'_>| {
        let mut time = None;
        let found = owned(trailer, payload, wanted, || *time.insert(point.moment.time()));
        let (expired, deadline) = match found {
            Lookup::Nothing => (time, None),
            _ => (None, payload.deadline),
        };
        TimedLookup { found, expired, deadline }
    };
    let found = find(view, user_key, point.seqno, fill_cache, hot, place, see)?;
    Ok(found.unwrap_or(TimedLookup { found: Lookup::Nothing, expired: None, deadline: None }))
}

/// Has the system begin to read the block in which [`get`] will probably find the key, unless that
/// is in memory; returns true if it did. So gets of many keys wait for the device once. Nothing is
/// begun under a range tombstone, as there is probably nothing newer in tables.
///
/// Costs a search in the memtables, in the filters of the tables that may hold the key, and in one
/// index. An error is left to the get, which tries again.
pub fn start_get(view: &View, user_key: &[u8], seqno: SeqNo) -> bool {
    let mut memtables = view.memtables();
    if view.newest_range(user_key, |it| it <= seqno).is_some()
        || memtables.any(|memtable| memtable.table.get(user_key, seqno, |_, _| ()).is_some())
    {
        return false;
    }
    let started = view.levels.holders(user_key).find_map(|handle| {
        let started = handle.table().and_then(|table| table.start_get(user_key, seqno));
        started.map_or(Some(StartedGet::Absent), |it| (it != StartedGet::Absent).then_some(it))
    });
    started == Some(StartedGet::Begun)
}

/// Calls `see` with the newest entry of `user_key` at or below `seqno`, be it a tombstone or
/// expired; returns the result, or `None` if there is no such entry.
///
/// Costs no I/O if filters, indexes and blocks are in memory; else one block read for each sorted
/// run whose filter does not exclude the key. Where tables have no filters, it costs one in all if
/// the update table knows the key.
pub fn find<R>(
    view: &View,
    user_key: &[u8],
    seqno: SeqNo,
    fill_cache: bool,
    hot: Option<&UpdateTable>,
    mut place: Option<&mut KeyPlace>,
    see: impl Fn(Trailer, Payload<'_>) -> R,
) -> Result<Option<R>> {
    // I6: a range tombstone stands for one of the key, so it ends the search for older entries.
    if let Some(deleted) = view.newest_range(user_key, |it| it <= seqno) {
        return find_newer(view, user_key, seqno, deleted, fill_cache, see);
    }
    for memtable in view.memtables() {
        // The first one is the active one.
        let found = match place.take() {
            Some(place) => memtable.table.get_noting(user_key, seqno, place, &see),
            None => memtable.table.get(user_key, seqno, &see),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    let decoded = |trailer: Trailer, payload: &[u8]| -> Result<R> {
        Ok(see(trailer, Payload::decode(trailer.kind()?, payload)?))
    };
    let mut unasked = hot;
    // I6: the newest come first, so the first hit decides.
    for handle in view.levels.holders(user_key) {
        let table = handle.table()?;
        // A filter says for less than the update table that a key is not there.
        if !table.has_filter()
            && let Some(hot) = unasked.take()
            && let Some(found) = short_cut(view, user_key, seqno, fill_cache, hot, decoded)?
        {
            return Ok(Some(found));
        }
        if let Some(found) = table.get(user_key, seqno, fill_cache, decoded)? {
            return found.map(Some);
        }
    }
    Ok(None)
}

/// Does what [`find`] does for a key that a range tombstone with the number `deleted` is over: it
/// searches only where newer entries can be, and finds a tombstone of that number if there is none.
#[cold]
fn find_newer<R>(
    view: &View,
    user_key: &[u8],
    seqno: SeqNo,
    deleted: SeqNo,
    fill_cache: bool,
    see: impl Fn(Trailer, Payload<'_>) -> R,
) -> Result<Option<R>> {
    let is_newer = |found: SeqNo| found > deleted;
    let visit = |trailer: Trailer, payload: Payload<'_>| {
        is_newer(trailer.seqno()).then(|| see(trailer, payload))
    };
    let tombstone = Trailer::new(deleted, EntryKind::Delete);
    for memtable in view.memtables() {
        if let Some(found) = memtable.table.get(user_key, seqno, visit) {
            return Ok(Some(found.unwrap_or_else(|| see(tombstone, Slot::Delete.into()))));
        }
    }
    for handle in
        view.levels.holders(user_key).filter(|handle| is_newer(handle.meta.summary.max_seqno))
    {
        let decoded = |trailer: Trailer, payload: &[u8]| -> Result<Option<R>> {
            Ok(visit(trailer, Payload::decode(trailer.kind()?, payload)?))
        };
        if let Some(found) = handle.table()?.get(user_key, seqno, fill_cache, decoded)? {
            return Ok(Some(found?.unwrap_or_else(|| see(tombstone, Slot::Delete.into()))));
        }
    }
    Ok(Some(see(tombstone, Slot::Delete.into())))
}

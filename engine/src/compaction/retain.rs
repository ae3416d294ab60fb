//! Decides which entries are kept: those that a reader can still see (I6).
//!
//! The live snapshots divide the commit order into strata. Of one key, the newest entry of each
//! stratum is what the snapshot above it sees (or, in the top stratum, what current readers see);
//! no reader sees the others. A tombstone in the lowest stratum hides older entries only; if no
//! older entry can exist below, it hides nothing and is dropped.
//!
//! An operand hides nothing: what it is merged with is below it, and is kept, down to the first
//! entry of the stratum that is none (`operands.rs` merges them).
//!
//! An entry whose deadline has passed for every reader who sees it goes like a tombstone. As long
//! as it may hide something, [`Payload::EXPIRED`] is left of it, with the same sequence number.
//!
//! [`Payload::EXPIRED`]: crate::base::entry::Payload::EXPIRED
//!
//! A range tombstone hides older entries of its range and stratum in the same way. The job drops
//! them and keeps the range tombstone, which may hide others elsewhere; the version knows when it
//! does not (`version/levels.rs`).
//!
//! A newer entry hides an older one wherever it is. Those that the job does not read are known from
//! the update table, and count once the version says that they are durable in tables (Lin, Chen
//! 2022, section 2.3; the room `hot` says why that is safe).

use crate::base::entry::{deadline_of, entry_bytes};
use crate::base::error::Result;
use crate::base::expiry::Deadline;
use crate::base::iter::CurrentKey;
use crate::base::key::{EntryKind, KeyOrder, SeqNo, Trailer};
use crate::base::pointer::KeyspaceId;
use crate::base::range_tombstone::{RangeCover, RangeTombstones};
use crate::hot::UpdateTable;
use crate::version::edit::Change;
use crate::version::snapshots::{SeenSeqnos, oldest_reader, stratum};
use std::sync::Arc;

/// Decides entry by entry, in table order: keys ascending, newest entry first.
pub struct Retain<'a, B> {
    order: KeyOrder,
    /// What readers could see when the job began. Later snapshots see the newest entry of each key
    /// up to the visible one, which is always kept.
    seen: SeenSeqnos,
    newer: Option<NewerEntries<'a>>,
    /// The durable range tombstones over the entries.
    cover: RangeCover,
    /// Returns true if no entry older than this job's inputs can exist for a key.
    is_bottom: B,
    key: CurrentKey,
    stratum: Option<usize>,
    /// True if what is older is hidden, within the stratum of the entry that was judged last.
    is_closed: bool,
    dropped: u64,
    superseded: u64,
    superseded_bytes: u64,
    dropped_until: Option<Deadline>,
    /// True if a filter may change the entry that was judged last.
    may_change: bool,
    /// True if the entry that was judged last is visible.
    is_settled: bool,
}

/// The newest entries of a keyspace, as far as the update table knows them.
struct NewerEntries<'a> {
    hot: &'a UpdateTable,
    keyspace: KeyspaceId,
    /// Returns the sequence number up to which entries are durable in tables now.
    flushed: Box<dyn Fn() -> SeqNo + 'a>,
    /// What it returned last.
    durable: SeqNo,
}

impl NewerEntries<'_> {
    /// Returns the number of the newest entry of a key, if that is known, is newer than `seqno`,
    /// and is not newer than `visible`.
    ///
    /// I2, I6: an entry that a flush is about to make durable hides nothing: a power cut may take
    /// it with the end of the log, and leave what this job has made.
    fn find(&mut self, user_key: &[u8], seqno: SeqNo, visible: SeqNo) -> Option<SeqNo> {
        let newest = self.hot.newest(self.keyspace, user_key)?.seqno;
        if newest <= seqno || newest > visible {
            return None;
        }
        if newest > self.durable {
            self.durable = (self.flushed)();
        }
        (newest <= self.durable).then_some(newest)
    }
}

/// The decision about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetainDecision {
    /// The entry is kept.
    Keep,
    /// Of the entry is kept that it has expired, with the same sequence number.
    Expired,
    /// The entry is dropped.
    Drop,
}

impl<'a, B: FnMut(&[u8]) -> bool> Retain<'a, B> {
    /// Creates the decider for a job over keys in this order.
    pub fn new(order: KeyOrder, seen: SeenSeqnos, is_bottom: B) -> Self {
        debug_assert!(seen.snapshots.is_sorted());
        debug_assert!(seen.times.is_sorted());
        Retain {
            cover: RangeCover::new(order.clone(), []),
            order,
            seen,
            newer: None,
            is_bottom,
            key: CurrentKey::default(),
            stratum: None,
            is_closed: false,
            dropped: 0,
            superseded: 0,
            superseded_bytes: 0,
            dropped_until: None,
            may_change: false,
            is_settled: false,
        }
    }

    /// Also drops what the update table knows to be superseded in this keyspace. `flushed` returns
    /// the sequence number up to which all its entries are durable in tables.
    pub fn with_update_table(
        mut self,
        hot: &'a UpdateTable,
        keyspace: KeyspaceId,
        flushed: impl Fn() -> SeqNo + 'a,
    ) -> Self {
        let flushed = Box::new(flushed);
        self.newer = Some(NewerEntries { hot, keyspace, flushed, durable: 0 });
        self
    }

    /// Also drops what these range tombstones hide. They are durable, or become so with the edit
    /// that installs the job's output.
    pub fn with_ranges(mut self, ranges: impl IntoIterator<Item = Arc<RangeTombstones>>) -> Self {
        self.cover = self.cover.with(ranges);
        self
    }

    /// Returns the sequence number up to which all range tombstones are applied to what is kept.
    /// What is older than a snapshot is kept for it, even if a newer range tombstone hides it from
    /// others.
    pub fn applied_ranges(&self) -> SeqNo {
        let oldest = self.seen.snapshots.first().copied().unwrap_or(SeqNo::MAX);
        self.cover.last_seqno().min(oldest).min(self.seen.visible)
    }

    /// Decides about an entry.
    pub fn judge(
        &mut self,
        user_key: &[u8],
        trailer: Trailer,
        payload: &[u8],
    ) -> Result<RetainDecision> {
        let same_key = !self.key.enter(&self.order, user_key);
        let stratum = self.stratum_of(trailer.seqno());
        let mut hidden = same_key && self.stratum == Some(stratum) && self.is_closed;
        if !hidden && !self.cover.is_empty() {
            // I6: what is not visible yet hides nothing, since a snapshot that is taken before it
            // becomes visible is not in the list.
            let reader = oldest_reader(&self.seen.snapshots, stratum, self.seen.visible);
            hidden = self.cover.hides(user_key, trailer.seqno(), reader);
        }
        if !hidden && self.is_superseded(user_key, trailer.seqno(), stratum) {
            hidden = true;
            self.superseded += 1;
            self.superseded_bytes += entry_bytes(user_key, trailer, payload)?;
        }
        self.stratum = Some(stratum);
        let kind = trailer.kind()?;
        // I6: an operand needs what is below it.
        self.is_closed = hidden || !kind.is_merge();
        let expired = !hidden && self.has_expired(kind, payload, stratum)?;
        let is_tombstone = expired || kind == EntryKind::Delete;
        let needless = hidden || is_tombstone && stratum == 0 && (self.is_bottom)(user_key);
        self.dropped += u64::from(needless);
        // I6: nobody who reads at a snapshot sees it, and everybody else does, unless a newer one
        // hides it.
        let is_newest =
            stratum == self.seen.snapshots.len() && trailer.seqno() <= self.seen.visible;
        self.may_change = is_newest && !needless && !is_tombstone && !kind.is_merge();
        self.is_settled = trailer.seqno() <= self.seen.visible;
        Ok(match (needless, expired) {
            (true, _) => RetainDecision::Drop,
            (false, true) => RetainDecision::Expired,
            (false, false) => RetainDecision::Keep,
        })
    }

    /// Returns the stratum of the entry that was judged last, or `None` if it is not visible yet: a
    /// snapshot that is taken before it becomes visible is not in the list.
    pub fn stratum(&self) -> Option<usize> {
        self.stratum.filter(|_| self.is_settled)
    }

    /// Returns true if no entry of a key can be older than the job's inputs.
    pub fn is_bottom(&mut self, user_key: &[u8]) -> bool {
        (self.is_bottom)(user_key)
    }

    /// Returns true if the entry that was judged last is a value that no snapshot sees.
    pub fn may_change(&self) -> bool {
        self.may_change
    }

    /// I6: returns true if a tombstone in the place of the entry that was judged last would hide
    /// something older.
    pub fn needs_tombstone(&mut self, user_key: &[u8]) -> bool {
        self.stratum != Some(0) || !(self.is_bottom)(user_key)
    }

    /// I6: returns true if the entry has expired for every reader who sees it, now or later.
    fn has_expired(&mut self, kind: EntryKind, payload: &[u8], stratum: usize) -> Result<bool> {
        let Some(deadline) = deadline_of(kind, payload)? else {
            return Ok(false);
        };
        let expired = deadline.has_passed(self.seen.time_of(stratum));
        if expired {
            self.dropped_until = self.dropped_until.max(Some(deadline));
        }
        Ok(expired)
    }

    fn stratum_of(&self, seqno: SeqNo) -> usize {
        stratum(&self.seen.snapshots, seqno)
    }

    /// I6: returns true if an entry that the job need not have read hides this one from every
    /// reader. An entry that is not visible yet hides nothing, since a snapshot that is taken
    /// before it becomes visible is not in the list.
    fn is_superseded(&mut self, user_key: &[u8], seqno: SeqNo, stratum: usize) -> bool {
        let visible = self.seen.visible;
        let newer = self.newer.as_mut().and_then(|newer| newer.find(user_key, seqno, visible));
        newer.is_some_and(|newest| self.stratum_of(newest) == stratum)
    }

    /// Returns how many entries were dropped because of entries that the job did not read.
    pub fn superseded(&self) -> u64 {
        self.superseded
    }

    /// Returns the bytes of these, their separated values included.
    pub fn superseded_bytes(&self) -> u64 {
        self.superseded_bytes
    }

    /// Returns the change that records up to which deadline entries have expired for good, if any
    /// did. It belongs in the edit that installs the job's output.
    pub fn expiry_change(&self) -> Option<Change> {
        self.dropped_until.map(Change::DroppedUntil)
    }

    /// Returns how many entries were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::entry::{Payload, Slot};
    use crate::base::expiry::ExpiryTime;
    use crate::base::pointer::TableId;

    /// Returns the entries that are kept. Each is written `a5` (put) or `a5x` (delete), newest
    /// first.
    fn kept(snapshots: &[SeqNo], bottom: bool, entries: &str) -> String {
        kept_beside("", SeqNo::MAX, snapshots, bottom, entries)
    }

    /// Does the same beside other tables, in which the newest entries of keys are `flushed`, when
    /// `visible` was the newest visible number.
    fn kept_beside(
        flushed: &str,
        visible: SeqNo,
        snapshots: &[SeqNo],
        bottom: bool,
        entries: &str,
    ) -> String {
        let (hot, keyspace) = (UpdateTable::new(1 << 20), KeyspaceId(1));
        for entry in flushed.split_whitespace() {
            let (key, seqno) = entry.split_at(1);
            let seqno = seqno.trim_end_matches('x').parse().unwrap();
            hot.flushed((keyspace, key.as_bytes()), seqno, TableId(9), 1);
        }
        let snapshots = snapshots.to_vec();
        let seen = SeenSeqnos { snapshots, visible, ..SeenSeqnos::default() };
        let mut retain = Retain::new(KeyOrder::Bytewise, seen, |_| bottom).with_update_table(
            &hot,
            keyspace,
            || SeqNo::MAX,
        );
        let mut out = Vec::new();
        for entry in entries.split_whitespace() {
            let kind = if entry.ends_with('x') { EntryKind::Delete } else { EntryKind::Put };
            let trailer = Trailer::new(number(entry), kind);
            let verdict = retain.judge(&entry.as_bytes()[..1], trailer, b"").unwrap();
            if verdict == RetainDecision::Keep {
                out.push(entry);
            }
        }
        out.join(" ")
    }

    #[test]
    fn i6_only_what_nobody_sees_goes() {
        let entries = "a9 a7 a5x a3 b8x b2 c4x";
        // Snapshots, whether the job is at the bottom, and the entries that are kept.
        let cases: [(&[SeqNo], bool, &str); 8] = [
            (&[], false, "a9 b8x c4x"),
            (&[], true, "a9"),
            (&[7], false, "a9 a7 b8x b2 c4x"),
            (&[7], true, "a9 a7 b8x b2"),
            (&[6], true, "a9 b8x b2"),
            (&[3, 6], true, "a9 a5x a3 b8x b2 c4x"),
            (&[1], true, "a9 b8x c4x"),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9], true, "a9 a7 a5x a3 b8x b2 c4x"),
        ];
        for (snapshots, bottom, expected) in cases {
            assert_eq!(kept(snapshots, bottom, entries), expected, "{snapshots:?} {bottom}");
        }
    }

    #[test]
    fn i6_what_a_newer_table_supersedes_goes_unless_a_snapshot_sees_it() {
        let entries = "a9 a7 b8 b2 c4x c1 d3";
        // What other tables have, the visible number, snapshots, and the entries that are kept.
        let cases: [(&str, SeqNo, &[SeqNo], &str); 8] = [
            ("", 20, &[], "a9 b8 c4x d3"),
            ("a12 c13", 20, &[], "b8 d3"),
            ("a12 c13x", 12, &[], "b8 c4x d3"),
            ("a12 b12 c12 d12", 20, &[10], "a9 b8 c4x d3"),
            ("a12 b12 c12 d12", 20, &[5], "b2 c4x d3"),
            ("a12 b12 c12 d12", 20, &[1, 15], "c1"),
            ("a9 b8 c4 d3", 20, &[], "a9 b8 c4x d3"),
            ("a7 b1", 20, &[], "a9 b8 c4x d3"),
        ];
        for (flushed, visible, snapshots, expected) in cases {
            let kept = kept_beside(flushed, visible, snapshots, false, entries);
            assert_eq!(kept, expected, "{flushed} {visible} {snapshots:?}");
        }
    }

    /// Guards against what a power cut leaves of a compaction beside a flush that did not end.
    #[test]
    fn i02_i06_what_a_flush_is_writing_supersedes_nothing_before_its_edit() {
        let (hot, keyspace) = (UpdateTable::new(1 << 20), KeyspaceId(1));
        for (key, seqno) in [(b"a", 12), (b"b", 14), (b"c", 14), (b"d", 15)] {
            hot.flushed((keyspace, key), seqno, TableId(9), 1);
        }
        let flushed = std::cell::Cell::new(13);
        let seen = SeenSeqnos { visible: 20, ..SeenSeqnos::default() };
        let mut retain = Retain::new(KeyOrder::Bytewise, seen, |_| false);
        retain = retain.with_update_table(&hot, keyspace, || flushed.get());
        let mut judge = |key: &[u8]| retain.judge(key, Trailer::new(5, EntryKind::Put), b"");
        assert_eq!(judge(b"a").unwrap(), RetainDecision::Drop);
        assert_eq!(judge(b"b").unwrap(), RetainDecision::Keep);
        flushed.set(14);
        assert_eq!(judge(b"c").unwrap(), RetainDecision::Drop, "the edit was made meanwhile");
        assert_eq!(judge(b"d").unwrap(), RetainDecision::Keep);
    }

    #[test]
    fn bytes_of_what_a_newer_table_supersedes_count() {
        let (hot, keyspace) = (UpdateTable::new(1 << 20), KeyspaceId(1));
        hot.flushed((keyspace, b"a"), 12, TableId(9), 1);
        let seen = SeenSeqnos { visible: 20, ..SeenSeqnos::default() };
        let mut retain = Retain::new(KeyOrder::Bytewise, seen, |_| false).with_update_table(
            &hot,
            keyspace,
            || SeqNo::MAX,
        );
        // The second entry of `a` is hidden by the first, which the job has read, and so is that
        // of `b`.
        for (key, seqno) in [(b"a", 9), (b"a", 7), (b"b", 8), (b"b", 6)] {
            retain.judge(key, Trailer::new(seqno, EntryKind::Put), b"value").unwrap();
        }
        assert_eq!((retain.superseded(), retain.dropped()), (1, 3));
        let bytes = (1 + Trailer::BYTES + b"value".len()) as u64;
        assert_eq!(retain.superseded_bytes(), bytes);
    }

    /// Guards every combination of snapshots and of entries that are in other tables instead.
    #[test]
    fn what_each_snapshot_sees_in_all_tables_never_changes() {
        let entries: Vec<&str> = "a9 a7 a5x a3 b8x b6 b2 c4x c1".split(' ').collect();
        for bits in 0u32..1 << 10 {
            let snapshots: Vec<SeqNo> = (0..10).filter(|bit| bits >> bit & 1 == 1).collect();
            for newer in 0u32..1 << 3 {
                // Of each key, the newest entry may be in a newer table.
                let is_newer = |entry: &&&str| match **entry {
                    "a9" => newer & 1 > 0,
                    "b8x" => newer & 2 > 0,
                    "c4x" => newer & 4 > 0,
                    _ => false,
                };
                let flushed = entries.iter().filter(is_newer).copied().collect::<Vec<_>>();
                let inputs: Vec<&str> =
                    entries.iter().filter(|entry| !is_newer(entry)).copied().collect();
                let flushed = flushed.join(" ");
                let kept = kept_beside(&flushed, 9, &snapshots, false, &inputs.join(" "));
                let all = |rest: &str| {
                    let mut all: Vec<&str> =
                        flushed.split_whitespace().chain(rest.split_whitespace()).collect();
                    all.sort_by_key(|entry| {
                        (entry[..1].to_owned(), std::cmp::Reverse(number(entry)))
                    });
                    all.join(" ")
                };
                for &snapshot in snapshots.iter().chain([&99]) {
                    let (before, after) = (entries.join(" "), all(&kept));
                    assert_eq!(sees(&after, snapshot), sees(&before, snapshot), "{snapshots:?}");
                }
            }
        }
    }

    /// Judges entries such as `a9~50`, a put with the deadline 50. Snapshots are written `7@40`: a
    /// sequence number and a time; other readers judge at `now`. Returns what is left, where `a9x`
    /// is what keeps nothing but that it has expired, and the greatest deadline by which something
    /// went.
    fn expired(snapshots: &str, now: u64, bottom: bool, entries: &str) -> String {
        let snapshots: Vec<(SeqNo, ExpiryTime)> = snapshots
            .split_whitespace()
            .map(|it| it.split_once('@').unwrap())
            .map(|(seqno, time)| (seqno.parse().unwrap(), ExpiryTime(time.parse().unwrap())))
            .collect();
        let (snapshots, times) = snapshots.into_iter().unzip();
        let seen = SeenSeqnos { snapshots, times, visible: SeqNo::MAX, now: ExpiryTime(now) };
        let mut retain = Retain::new(KeyOrder::Bytewise, seen, |_| bottom);
        let mut out = Vec::new();
        for entry in entries.split_whitespace() {
            let (put, deadline) = entry.split_once('~').unwrap_or((entry, ""));
            let deadline = deadline.parse().ok().map(Deadline);
            let slot = if put.ends_with('x') { Slot::Delete } else { Slot::Inline(b"value") };
            let (payload, mut stored) = (Payload { is_merge: false, deadline, slot }, Vec::new());
            payload.encode(&mut stored);
            let trailer = Trailer::new(number(put), payload.kind());
            match retain.judge(&entry.as_bytes()[..1], trailer, &stored).unwrap() {
                RetainDecision::Keep => out.push(entry.to_owned()),
                RetainDecision::Expired => out.push(format!("{put}x")),
                RetainDecision::Drop => {}
            }
        }
        if let Some(Change::DroppedUntil(Deadline(until))) = retain.expiry_change() {
            out.push(format!("until {until}"));
        }
        out.join(" ")
    }

    #[test]
    fn i06_what_has_expired_for_all_who_see_it_is_a_tombstone() {
        let entries = "a9~50 a7 b8 b2~30 c4~40 d6x d5~20";
        // Snapshots, the time of other readers, whether the job is at the bottom, and what is left.
        let cases = [
            ("", 39, false, "a9~50 b8 c4~40 d6x"),
            ("", 40, false, "a9~50 b8 c4x d6x until 40"),
            ("", 40, true, "a9~50 b8 until 40"),
            ("", 99, false, "a9x b8 c4x d6x until 50"),
            ("", 99, true, "b8 until 50"),
            // A snapshot from before an entry does not keep it from expiring, but older ones stay.
            ("7@10", 99, false, "a9x a7 b8 b2~30 c4~40 d6x until 50"),
            ("7@10", 99, true, "a9x a7 b8 b2~30 c4~40 until 50"),
            ("7@45", 99, true, "a9x a7 b8 until 50"),
            // The oldest snapshot that sees an entry decides, not those before it.
            ("3@10 8@40 9@49", 99, true, "a9~50 a7 b8 b2~30 c4x d6x until 40"),
            ("3@10 8@40 9@50", 99, true, "a9x a7 b8 b2~30 c4x d6x until 50"),
            ("3@30 8@39 9@50", 99, true, "a9x a7 b8 c4~40 d6x until 50"),
            ("5@25", 99, true, "a9x b8 b2~30 c4~40 d6x until 50"),
        ];
        for (snapshots, now, bottom, expected) in cases {
            let left = expired(snapshots, now, bottom, entries);
            assert_eq!(left, expected, "{snapshots:?} {now} {bottom}");
        }
    }

    fn number(entry: &str) -> SeqNo {
        entry[1..].trim_end_matches('x').parse().unwrap()
    }

    /// Returns what a snapshot sees of the three keys.
    fn sees(entries: &str, snapshot: SeqNo) -> Vec<String> {
        let mut seen = Vec::new();
        for key in ["a", "b", "c"] {
            let newest = entries
                .split_whitespace()
                .filter(|entry| entry.starts_with(key))
                .find(|entry| number(entry) <= snapshot);
            seen.extend(newest.filter(|entry| !entry.ends_with('x')).map(str::to_owned));
        }
        seen
    }

    #[test]
    fn what_each_snapshot_sees_never_changes() {
        let entries = "a9 a7 a5x a3 b8x b6 b2 c4x c1";
        for bits in 0u32..1 << 10 {
            let snapshots: Vec<SeqNo> = (0..10).filter(|bit| bits >> bit & 1 == 1).collect();
            for bottom in [false, true] {
                let kept = kept(&snapshots, bottom, entries);
                for &snapshot in snapshots.iter().chain([&99]) {
                    assert_eq!(sees(&kept, snapshot), sees(entries, snapshot), "{snapshots:?}");
                }
            }
        }
    }
}

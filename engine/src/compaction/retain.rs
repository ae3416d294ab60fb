//! Decides which entries are kept: those that a reader can still see (I6).
//!
//! The live snapshots divide the commit order into strata. Of one key, the newest entry of each
//! stratum is what the snapshot above it sees (or, in the top stratum, what current readers see);
//! no reader sees the others. A tombstone in the lowest stratum hides older entries only; if no
//! older entry can exist below, it hides nothing and is dropped.
//!
//! A newer entry hides an older one wherever it is. Those that the job does not read are known from
//! the update table (Lin, Chen 2022, section 2.3; the room `hot` says why that is safe).

use crate::base::error::Result;
use crate::base::iter::CurrentKey;
use crate::base::key::{EntryKind, KeyOrder, SeqNo, Trailer};
use crate::base::pointer::KeyspaceId;
use crate::hot::UpdateTable;
use crate::version::snapshots::{SeenSeqnos, stratum};

/// Decides entry by entry, in table order: keys ascending, newest entry first.
pub struct Retain<'a, B> {
    order: KeyOrder,
    /// What readers could see when the job began. Later snapshots see the newest entry of each key
    /// up to the visible one, which is always kept.
    seen: SeenSeqnos,
    /// The update table, and the keyspace in it.
    hot: Option<(&'a UpdateTable, KeyspaceId)>,
    /// Returns true if no entry older than this job's inputs can exist for a key.
    is_bottom: B,
    key: CurrentKey,
    stratum: Option<usize>,
    dropped: u64,
    superseded: u64,
}

impl<'a, B: FnMut(&[u8]) -> bool> Retain<'a, B> {
    /// Creates the decider for a job over keys in this order.
    pub fn new(order: KeyOrder, seen: SeenSeqnos, is_bottom: B) -> Self {
        debug_assert!(seen.snapshots.is_sorted());
        let (key, stratum, hot, dropped, superseded) = (CurrentKey::default(), None, None, 0, 0);
        Retain { order, seen, hot, is_bottom, key, stratum, dropped, superseded }
    }

    /// Also drops what the update table knows to be superseded.
    pub fn with_update_table(mut self, hot: &'a UpdateTable, keyspace: KeyspaceId) -> Self {
        self.hot = Some((hot, keyspace));
        self
    }

    /// Returns true if the entry must be kept.
    pub fn keep(&mut self, user_key: &[u8], trailer: Trailer) -> Result<bool> {
        let same_key = !self.key.enter(&self.order, user_key);
        let stratum = self.stratum_of(trailer.seqno());
        let mut hidden = same_key && self.stratum == Some(stratum);
        if !hidden && self.is_superseded(user_key, trailer.seqno(), stratum) {
            hidden = true;
            self.superseded += 1;
        }
        self.stratum = Some(stratum);
        let needless = hidden
            || trailer.kind()? == EntryKind::Delete && stratum == 0 && (self.is_bottom)(user_key);
        self.dropped += u64::from(needless);
        Ok(!needless)
    }

    fn stratum_of(&self, seqno: SeqNo) -> usize {
        stratum(&self.seen.snapshots, seqno)
    }

    /// I6: returns true if an entry that the job need not have read hides this one from every
    /// reader. An entry that is not visible yet hides nothing, since a snapshot that is taken
    /// before it becomes visible is not in the list.
    fn is_superseded(&self, user_key: &[u8], seqno: SeqNo, stratum: usize) -> bool {
        let known = self.hot.and_then(|(hot, keyspace)| hot.newest(keyspace, user_key));
        known.is_some_and(|newest| {
            newest.seqno > seqno
                && newest.seqno <= self.seen.visible
                && self.stratum_of(newest.seqno) == stratum
        })
    }

    /// Returns how many entries were dropped because of entries that the job did not read.
    pub fn superseded(&self) -> u64 {
        self.superseded
    }

    /// Returns how many entries were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let seen = SeenSeqnos { snapshots: snapshots.to_vec(), visible };
        let mut retain =
            Retain::new(KeyOrder::Bytewise, seen, |_| bottom).with_update_table(&hot, keyspace);
        let mut out = Vec::new();
        for entry in entries.split_whitespace() {
            let kind = if entry.ends_with('x') { EntryKind::Delete } else { EntryKind::Put };
            if retain.keep(&entry.as_bytes()[..1], Trailer::new(number(entry), kind)).unwrap() {
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

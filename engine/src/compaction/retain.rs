//! Decides which entries are kept: those that a reader can still see (I6).
//!
//! The live snapshots divide the commit order into strata. Of one key, the newest entry of each
//! stratum is what the snapshot above it sees (or, in the top stratum, what current readers see);
//! no reader sees the others. A tombstone in the lowest stratum hides older entries only; if no
//! older entry can exist below, it hides nothing and is dropped.

use crate::base::error::Result;
use crate::base::key::{EntryKind, KeyOrder, SeqNo, Trailer};

/// Decides entry by entry, in table order: keys ascending, newest entry first.
pub struct Retain<B> {
    order: KeyOrder,
    /// The live snapshots when the job began, ascending. Later snapshots see the newest entry of
    /// each key, which is always kept.
    snapshots: Vec<SeqNo>,
    /// Returns true if no entry older than this job's inputs can exist for a key.
    is_bottom: B,
    key: Vec<u8>,
    stratum: Option<usize>,
    dropped: u64,
}

impl<B: FnMut(&[u8]) -> bool> Retain<B> {
    /// Creates the decider for a job over keys in this order.
    pub fn new(order: KeyOrder, snapshots: Vec<SeqNo>, is_bottom: B) -> Self {
        debug_assert!(snapshots.is_sorted());
        Retain { order, snapshots, is_bottom, key: Vec::new(), stratum: None, dropped: 0 }
    }

    /// Returns true if the entry must be kept.
    pub fn keep(&mut self, user_key: &[u8], trailer: Trailer) -> Result<bool> {
        let same_key = self.stratum.is_some() && self.order.compare(user_key, &self.key).is_eq();
        if !same_key {
            self.key.clear();
            self.key.extend_from_slice(user_key);
        }
        let stratum = self.snapshots.partition_point(|&snapshot| snapshot < trailer.seqno());
        let hidden = same_key && self.stratum == Some(stratum);
        self.stratum = Some(stratum);
        let needless = hidden
            || trailer.kind()? == EntryKind::Delete && stratum == 0 && (self.is_bottom)(user_key);
        self.dropped += u64::from(needless);
        Ok(!needless)
    }

    /// Returns how many entries were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the entries that are kept. Each is written `a5` (put) or `a5x` (delete), newest
    /// first.
    fn kept(snapshots: &[SeqNo], bottom: bool, entries: &str) -> String {
        let mut retain = Retain::new(KeyOrder::Bytewise, snapshots.to_vec(), |_| bottom);
        let mut out = Vec::new();
        for entry in entries.split_whitespace() {
            let kind = if entry.ends_with('x') { EntryKind::Delete } else { EntryKind::Put };
            let seqno: SeqNo = entry[1..].trim_end_matches('x').parse().unwrap();
            if retain.keep(&entry.as_bytes()[..1], Trailer::new(seqno, kind)).unwrap() {
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
    fn what_each_snapshot_sees_never_changes() {
        let sees = |entries: &str, snapshot: SeqNo| {
            let mut seen = Vec::new();
            for key in ["a", "b", "c"] {
                let newest = entries
                    .split_whitespace()
                    .filter(|e| e.starts_with(key))
                    .find(|e| e[1..].trim_end_matches('x').parse::<SeqNo>().unwrap() <= snapshot);
                seen.extend(newest.filter(|entry| !entry.ends_with('x')).map(str::to_owned));
            }
            seen
        };
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

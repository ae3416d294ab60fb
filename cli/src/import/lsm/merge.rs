//! Merges sorted runs to what a reader of the store would see: the newest value of each key,
//! without what was deleted.

use super::entry::{
    BLOB, DELETION, DELETION_WITH_TIMESTAMP, EntryRun, MERGE, RunEntry, SINGLE_DELETION, VALUE,
    WIDE_COLUMNS,
};
use super::table::ErasedRange;
use crate::text::shown_key;
use cleavedb::{Error, Result};
use std::cmp::Ordering;

/// The visible pairs of several runs.
pub(crate) struct VisiblePairs {
    runs: Vec<Box<dyn EntryRun>>,
    /// The runs that have an entry, as a heap: each comes before those at twice its place, and one
    /// and two more.
    heap: Vec<usize>,
    ranges: ErasedRanges,
    /// The key that was seen last; what follows of it is older.
    seen: Option<Vec<u8>>,
    /// True if the first of the heap was returned, and is to be left.
    is_used: bool,
}

impl VisiblePairs {
    pub(crate) fn new(mut runs: Vec<Box<dyn EntryRun>>, ranges: Vec<ErasedRange>) -> Result<Self> {
        let mut heap = Vec::new();
        for (index, run) in runs.iter_mut().enumerate() {
            if run.advance()? {
                heap.push(index);
            }
        }
        let ranges = ErasedRanges::new(ranges);
        let mut pairs = VisiblePairs { runs, heap, ranges, seen: None, is_used: false };
        (0..pairs.heap.len() / 2).rev().for_each(|place| pairs.sift_down(place));
        Ok(pairs)
    }

    /// Goes to the next visible pair and returns it.
    pub(crate) fn next(&mut self) -> Result<Option<RunEntry<'_>>> {
        loop {
            if self.is_used {
                self.leave_first()?;
            }
            self.is_used = true;
            let Some(&first) = self.heap.first() else { return Ok(None) };
            let entry = self.runs[first].entry();
            if self.seen.as_deref() == Some(entry.key) {
                continue;
            }
            let seen = self.seen.get_or_insert_default();
            seen.clear();
            seen.extend_from_slice(entry.key);
            if self.ranges.hide(&entry) {
                continue;
            }
            match entry.kind() {
                VALUE => break,
                DELETION | SINGLE_DELETION => {}
                kind => {
                    let (file, offset) = self.runs[first].place();
                    return Err(unsupported(kind, entry.key).in_file(&file).at(offset));
                }
            }
        }
        Ok(self.heap.first().map(|&first| self.runs[first].entry()))
    }

    fn leave_first(&mut self) -> Result<()> {
        let Some(&first) = self.heap.first() else { return Ok(()) };
        if !self.runs[first].advance()? {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2];
            let mut least = place;
            for child in children.into_iter().filter(|&child| child < self.heap.len()) {
                if self.order(child, least) == Ordering::Less {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.heap.swap(place, least);
            place = least;
        }
    }

    fn order(&self, a: usize, b: usize) -> Ordering {
        let entry = |place: usize| self.runs[self.heap[place]].entry();
        entry(a).order(&entry(b))
    }
}

fn unsupported(kind: u8, key: &[u8]) -> Error {
    let key = shown_key(key);
    match kind {
        MERGE => Error::unsupported(format!(
            "the key {key} has merge operands, whose operator is code of the program that wrote it"
        )),
        BLOB => Error::unsupported(format!("the value of the key {key} is in a blob file")),
        WIDE_COLUMNS => Error::unsupported(format!("the key {key} has columns, not one value")),
        DELETION_WITH_TIMESTAMP => {
            Error::unsupported(format!("the key {key} has a user-defined timestamp"))
        }
        _ => Error::unsupported(format!("the entry of the key {key} has the unknown kind {kind}")),
    }
}

/// Ranges that were deleted, asked about keys in ascending order.
struct ErasedRanges {
    /// Descending by their beginnings, so that the next one is the last.
    ahead: Vec<ErasedRange>,
    /// Those that have begun.
    begun: Vec<ErasedRange>,
}

impl ErasedRanges {
    fn new(mut ahead: Vec<ErasedRange>) -> Self {
        ahead.sort_by(|a, b| b.begin.cmp(&a.begin));
        ErasedRanges { ahead, begun: Vec::new() }
    }

    /// Returns true if a later deletion of a range covers the entry.
    fn hide(&mut self, entry: &RunEntry<'_>) -> bool {
        while let Some(range) = self.ahead.pop_if(|range| range.begin.as_slice() <= entry.key) {
            self.begun.push(range);
        }
        self.begun.retain(|range| range.end.as_slice() > entry.key);
        self.begun.iter().any(|range| range.hides(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::lsm::table::TableBounds;
    use std::path::PathBuf;
    use std::rc::Rc;

    /// Entries in order: key, sequence number, kind, value.
    struct Entries(Vec<(&'static str, u64, u8, &'static str)>, usize);

    impl EntryRun for Entries {
        fn advance(&mut self) -> Result<bool> {
            self.1 += 1;
            Ok(self.1 <= self.0.len())
        }

        fn entry(&self) -> RunEntry<'_> {
            let (key, seqno, kind, value) = self.0[self.1 - 1];
            let tag = seqno << 8 | u64::from(kind);
            RunEntry { key: key.as_bytes(), tag, value: value.as_bytes() }
        }

        fn place(&self) -> (PathBuf, u64) {
            (PathBuf::from("run"), 7)
        }
    }

    fn merged(
        runs: Vec<Vec<(&'static str, u64, u8, &'static str)>>,
        ranges: Vec<ErasedRange>,
    ) -> Result<Vec<String>> {
        let runs = runs.into_iter().map(|run| Box::new(Entries(run, 0)) as Box<dyn EntryRun>);
        let mut pairs = VisiblePairs::new(runs.collect(), ranges)?;
        let mut found = Vec::new();
        while let Some(entry) = pairs.next()? {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            found.push(format!("{}={}", text(entry.key), text(entry.value)));
        }
        Ok(found)
    }

    fn range(begin: &str, end: &str, seqno: u64) -> ErasedRange {
        ErasedRange { begin: begin.into(), end: end.into(), seqno, bounds: None }
    }

    /// Returns a range in a table with these bounds: keys, sequence numbers and kinds.
    fn bounded(
        range: ErasedRange,
        smallest: (&str, u64, u8),
        largest: (&str, u64, u8),
    ) -> ErasedRange {
        let [smallest, largest] = [smallest, largest]
            .map(|(key, seqno, kind)| (key.into(), seqno << 8 | u64::from(kind)));
        ErasedRange { bounds: Some(Rc::new(TableBounds { smallest, largest })), ..range }
    }

    #[test]
    fn the_newest_of_each_key_is_visible_unless_it_is_deleted() {
        let runs = vec![
            vec![("a", 9, DELETION, ""), ("a", 1, VALUE, "old"), ("c", 2, VALUE, "c2")],
            vec![("b", 3, VALUE, "b3"), ("c", 8, VALUE, "c8"), ("d", 4, SINGLE_DELETION, "")],
            vec![("a", 5, VALUE, "older"), ("b", 7, VALUE, "b7"), ("d", 1, VALUE, "")],
            vec![],
            vec![("e", 6, VALUE, "")],
        ];
        assert_eq!(merged(runs, Vec::new()).unwrap(), ["b=b7", "c=c8", "e="]);
    }

    #[test]
    fn a_deleted_range_hides_what_is_older_within_it() {
        let keys = ["a", "b", "c", "d", "e", "f"];
        let runs = vec![keys.iter().map(|key| (*key, 5, VALUE, "")).collect(), vec![]];
        let ranges = vec![range("b", "d", 6), range("a", "z", 4), range("e", "f", 9)];
        assert_eq!(merged(runs, ranges).unwrap(), ["a=", "d=", "f="]);
        let runs = vec![vec![("b", 9, VALUE, "new"), ("c", 2, VALUE, "")]];
        let ranges = vec![range("b", "b", 99), range("a", "d", 6), range("x", "a", 99)];
        assert_eq!(merged(runs, ranges).unwrap(), ["b=new"]);
    }

    /// Live keys were missing after an import from RocksDB, whose deleted ranges reach beyond the
    /// tables that hold them: in the deepest level newer entries have the sequence number 0. Now a
    /// range hides nothing that lies outside of its table's bounds.
    #[test]
    fn a_deleted_range_hides_nothing_outside_of_its_table() {
        const HIGHEST: u64 = (1 << 56) - 1;
        const RANGE_DELETION: u8 = 0xf;
        let all = range("a", "f", 10);
        // The table ends where its neighbour begins, whose entries are in the deepest level now.
        let split = bounded(all.clone(), ("b", 10, RANGE_DELETION), ("d", HIGHEST, RANGE_DELETION));
        let keys = ["a", "b", "c", "d", "e"];
        let runs = || vec![keys.iter().map(|key| (*key, 0, VALUE, "")).collect()];
        assert_eq!(merged(runs(), vec![split.clone()]).unwrap(), ["a=", "d=", "e="]);
        // The neighbour is still there, too.
        let next = bounded(all.clone(), ("d", 10, RANGE_DELETION), ("e", 0, VALUE));
        assert_eq!(merged(runs(), vec![split, next]).unwrap(), ["a="]);
        // Both bounds belong to the table, and of their keys what lies between them.
        let exact = bounded(all, ("a", 4, VALUE), ("e", 3, VALUE));
        let runs = vec![
            vec![("a", 5, VALUE, ""), ("b", 11, VALUE, ""), ("e", 2, VALUE, "")],
            vec![("c", 9, VALUE, ""), ("d", 0, VALUE, "")],
        ];
        assert_eq!(merged(runs, vec![exact.clone()]).unwrap(), ["a=", "b=", "e="]);
        let runs = vec![vec![("a", 4, VALUE, ""), ("e", 3, VALUE, "")]];
        assert!(merged(runs, vec![exact]).unwrap().is_empty());
    }

    #[test]
    fn what_only_the_program_can_read_is_refused_by_its_key() {
        let cases = [(MERGE, "merge operands"), (BLOB, "blob file"), (WIDE_COLUMNS, "columns")];
        for (kind, expected) in cases.into_iter().chain([(0x55, "unknown kind 85")]) {
            let error = merged(vec![vec![("k", 2, kind, "")]], Vec::new()).unwrap_err();
            let told = error.to_string();
            assert!(told.contains(expected) && told.contains("\"k\""), "{told}");
            assert_eq!(
                (error.file().unwrap(), error.offset()),
                (PathBuf::from("run").as_path(), Some(7))
            );
            let hidden = vec![vec![("k", 3, DELETION, "")], vec![("k", 2, kind, "")]];
            assert!(merged(hidden, Vec::new()).unwrap().is_empty(), "it was deleted since");
        }
    }
}

//! Finds where the manifest and the disk differ. Every store that freed space wrongly had such a
//! difference and did not look for it.

use crate::base::pointer::SegmentId;
use crate::base::size::{FILE_BLOCK_BYTES, counted, sized};
use crate::space::files::{FileFacts, Standing};
use crate::space::report::SegmentSpace;
use crate::space::row_of;
use crate::version::Version;
use std::collections::BTreeMap;
use std::path::Path;

/// The most files that one warning names; the others are counted.
const MAX_NAMED: usize = 3;
/// Bytes that a file system may take in addition to a file's content, to map its blocks.
const SLACK_BYTES: u64 = 64 << 10;
/// The same as a share of the content: one part in this many.
const SLACK_SHARE: u64 = 16;

/// The files with one kind of discrepancy.
#[derive(Default)]
struct Discrepancy {
    names: Vec<String>,
    count: u64,
    bytes: u64,
}

/// Discrepancies by kind; the key is text that follows "3 files (1.5 MiB) ".
#[derive(Default)]
struct Discrepancies(BTreeMap<&'static str, Discrepancy>);

impl Discrepancies {
    fn add(&mut self, what: &'static str, name: String, bytes: u64) {
        let discrepancy = self.0.entry(what).or_default();
        discrepancy.count += 1;
        discrepancy.bytes += bytes;
        if discrepancy.names.len() < MAX_NAMED {
            discrepancy.names.push(name);
        }
    }

    fn into_lines(self) -> Vec<String> {
        let line = |(what, discrepancy): (&str, Discrepancy)| {
            let files = counted(discrepancy.count, "file");
            let more = if discrepancy.count > MAX_NAMED as u64 { ", …" } else { "" };
            let names = discrepancy.names.join(", ");
            format!("{files} ({}) {what}: {names}{more}", sized(discrepancy.bytes))
        };
        self.0.into_iter().map(line).collect()
    }
}

const MISSING: &str = "named by the manifest but not in the directory";
const LEFT_OVER: &str =
    "that nothing names, left by a crash; the next opening for writing removes them";
const FOREIGN: &str = "not CleaveDB's";
const DELETED: &str = "deleted from the directory but still open; closing the database frees them";
const OTHER_LENGTH: &str = "with another length than the manifest says";
const MORE_BLOCKS: &str = "with more blocks than length and holes explain";
const FEWER_BLOCKS: &str =
    "with fewer blocks than length and holes explain: compressed or punched by others";
const OVERFULL: &str = "with more bytes of records than there can be; run `cleave check`";

/// The facts that are compared.
pub(super) struct Books<'a> {
    pub(super) version: &'a Version,
    pub(super) files: &'a BTreeMap<&'a Path, &'a FileFacts>,
    pub(super) segments: &'a [SegmentSpace],
    /// True if nobody writes; then no running job explains a file that no edit names.
    pub(super) read_only: bool,
    /// Files that are open but have no name any more, with the bytes they take.
    pub(super) nameless: Vec<(String, u64)>,
}

/// Returns every difference as a sentence.
pub(super) fn find(books: Books<'_>) -> Vec<String> {
    let mut discrepancies = Discrepancies::default();
    for file in books.files.values() {
        match file.standing {
            Standing::Foreign => discrepancies.add(FOREIGN, file.name(), file.measure.allocated),
            Standing::Unnamed if books.read_only => {
                discrepancies.add(LEFT_OVER, file.name(), file.measure.allocated);
            }
            _ => {}
        }
    }
    live_files(&books, &mut discrepancies);
    debug_assert_eq!(
        books.segments.len(),
        books.version.segments.len(),
        "each segment of the version has a row"
    );
    for segment in books.segments {
        let seen = segment.live_bytes + segment.pinned_bytes;
        let room = segment.length.saturating_sub(segment.hole_bytes);
        let named = books.version.uses.of(SegmentId(segment.id)).bytes;
        // A segment that is being written may have records in a buffer still.
        if segment.sealed && (seen > room || named > segment.length) {
            discrepancies.add(OVERFULL, format!("{:08}.seg", segment.id), seen);
        }
    }
    for (name, bytes) in books.nameless {
        discrepancies.add(DELETED, name, bytes);
    }
    discrepancies.into_lines()
}

fn live_files(books: &Books<'_>, discrepancies: &mut Discrepancies) {
    let keyspaces = books.version.keyspaces.values();
    for (_, table) in keyspaces.flat_map(|keyspace| keyspace.levels.tables()) {
        let Some(file) = books.files.get(table.path()) else {
            discrepancies.add(MISSING, table.path().display().to_string(), table.meta.bytes);
            continue;
        };
        compare(file, Some(table.meta.bytes), 0, discrepancies);
    }
    for relocation in books.version.relocations.values() {
        match relocation.path().map(|path| (path, books.files.get(path))) {
            None => {}
            Some((path, None)) => {
                discrepancies.add(MISSING, path.display().to_string(), relocation.meta.bytes);
            }
            Some((_, Some(file))) => compare(file, Some(relocation.meta.bytes), 0, discrepancies),
        }
    }
    for (id, live) in books.version.segments.iter() {
        let Some(file) = books.files.get(live.handle.path()) else {
            let bytes = live.sealed.unwrap_or(0);
            discrepancies.add(MISSING, live.handle.path().display().to_string(), bytes);
            continue;
        };
        let holes = row_of(books.segments, *id).map_or(0, |segment| segment.hole_bytes);
        compare(file, live.sealed, holes, discrepancies);
    }
}

/// Compares one file with `length`, the manifest's, which is `None` if it is not recorded yet.
fn compare(file: &FileFacts, length: Option<u64>, holes: u64, discrepancies: &mut Discrepancies) {
    let Some(length) = length else {
        return;
    };
    let measure = &file.measure;
    if measure.len != length {
        let difference = measure.len.abs_diff(length);
        return discrepancies.add(OTHER_LENGTH, file.name(), difference);
    }
    let expected = length.next_multiple_of(FILE_BLOCK_BYTES).saturating_sub(holes);
    let slack = SLACK_BYTES.max(expected / SLACK_SHARE);
    if measure.allocated > expected + slack {
        discrepancies.add(MORE_BLOCKS, file.name(), measure.allocated - expected);
    } else if measure.allocated + slack < expected {
        discrepancies.add(FEWER_BLOCKS, file.name(), expected - measure.allocated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::fs::Measure;
    use crate::version::files::names::{self, FileName};

    fn file(name: &str, standing: Standing, len: u64, allocated: u64) -> FileFacts {
        let path = Path::new("db").join(name);
        let named: FileName = names::parse(&path);
        let measure = Measure { len, allocated, links: 1, modified: None };
        FileFacts { path, named, standing, measure }
    }

    fn lines(files: &[FileFacts], read_only: bool) -> Vec<String> {
        let version = Version::default();
        let files = crate::space::files::by_path(files);
        find(Books { version: &version, files: &files, segments: &[], read_only, nameless: vec![] })
    }

    #[test]
    fn what_nothing_names_is_told() {
        let files = [
            file("00000007.tbl", Standing::Unnamed, 5000, 8192),
            file("notes.txt", Standing::Foreign, 10, 4096),
        ];
        assert_eq!(lines(&files, false), ["1 file (4.0 KiB) not CleaveDB's: notes.txt"]);
        let both = lines(&files, true);
        assert_eq!(both.len(), 2);
        assert!(both[1].starts_with("1 file (8.0 KiB) that nothing names"), "{both:?}");
        assert!(both[1].ends_with(": 00000007.tbl"), "{both:?}");
    }

    #[test]
    fn lengths_and_blocks_are_compared() {
        let cases = [
            (Some(10_000), 10_000, 12_288, 0, None),
            (Some(10_000), 10_001, 12_288, 0, Some(OTHER_LENGTH)),
            (None, 10_001, 1 << 30, 0, None),
            (Some(1 << 20), 1 << 20, 2 << 20, 0, Some(MORE_BLOCKS)),
            (Some(1 << 20), 1 << 20, 1 << 19, 0, Some(FEWER_BLOCKS)),
            (Some(1 << 20), 1 << 20, 1 << 19, 1 << 19, None),
            (Some(1 << 20), 1 << 20, 1 << 20, 1 << 19, Some(MORE_BLOCKS)),
        ];
        for (length, found, allocated, holes, expected) in cases {
            let mut discrepancies = Discrepancies::default();
            let file = file("00000007.seg", Standing::Live, found, allocated);
            compare(&file, length, holes, &mut discrepancies);
            let told: Vec<&str> = discrepancies.0.keys().copied().collect();
            assert_eq!(told, Vec::from_iter(expected), "{length:?} {allocated}");
        }
    }

    #[test]
    fn many_files_are_one_line() {
        let files: Vec<_> = (1..=5)
            .map(|id| file(&format!("{id:08}.seg"), Standing::Unnamed, 1 << 20, 1 << 20))
            .collect();
        let lines = lines(&files, true);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("5 files (5.0 MiB) that"), "{lines:?}");
        assert!(lines[0].ends_with("00000001.seg, 00000002.seg, 00000003.seg, …"), "{lines:?}");
    }
}

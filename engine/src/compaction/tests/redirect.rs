//! Golden cases of the resolution of pointers in a compaction.

use crate::base::coding::Reader;
use crate::base::golden::{golden, number};
use crate::base::key::{EntryKind, KeyOrder, Trailer};
use crate::base::pointer::{RelocationId, SegmentId, ValuePointer};
use crate::cache::memory_fs::MemoryFs;
use crate::compaction::redirect::{Redirect, Redirected};
use crate::env::fs::Fs;
use crate::relocation::RelocationWriter;
use crate::segment::SegmentKind;
use crate::version::Version;
use crate::version::build::VersionBuilder;
use crate::version::edit::{Change, Edit};
use crate::version::files::{TableContext, TableLimits, names};
use std::sync::Arc;

#[test]
fn golden_pointers_become_direct() {
    golden("compaction/testdata/redirect.txt", run);
}

/// Runs a case: `live 2` is a segment, `moved 1:0 2:4096` a record of 100 bytes that value GC
/// moved; `hole 2 4096 4096` a range of a segment;
/// `pointer 1:0`, `inline` and `tombstone` are entries.
fn run(lines: &[&str]) -> String {
    let words = lines.iter().map(|line| line.split(' ').collect::<Vec<_>>());
    let (facts, entries): (Vec<_>, Vec<_>) =
        words.partition(|words| !["pointer", "inline", "tombstone"].contains(&words[0]));
    let mut redirect = Redirect::new(&version(&facts));
    let mut text: String = entries.iter().map(|words| entry(&mut redirect, words)).collect();
    text += &format!("{} dropped", redirect.dropped());
    text
}

fn place(word: &str) -> ValuePointer {
    let (segment, offset) = word.split_once(':').expect(word);
    ValuePointer { segment: SegmentId(number(segment)), offset: number(offset), length: 100 }
}

fn entry(redirect: &mut Redirect, words: &[&str]) -> String {
    let mut payload = b"value".to_vec();
    let kind = match words {
        ["pointer", at] => {
            payload.clear();
            place(at).encode(&mut payload);
            EntryKind::PutPointer
        }
        ["inline"] => EntryKind::Put,
        _ => EntryKind::Delete,
    };
    match redirect.entry(Trailer::new(1, kind), &payload) {
        Ok(Redirected::Garbage) => "garbage\n".to_owned(),
        Ok(Redirected::Stays(same)) if same == payload => "as it was\n".to_owned(),
        Ok(Redirected::Stays(other)) => {
            let pointer = ValuePointer::decode(&mut Reader::new(other)).unwrap();
            format!("{}:{}\n", pointer.segment, pointer.offset)
        }
        Err(error) => format!("{:?}\n", error.kind()),
    }
}

fn version(facts: &[Vec<&str>]) -> Version {
    let fs = Arc::new(MemoryFs::default());
    let tables = Arc::new(TableContext::new(
        fs.clone(),
        "db".into(),
        7,
        TableLimits { cache_bytes: 1 << 20, ..TableLimits::TESTS },
    ));
    let mut version = Version::default();
    for words in facts {
        let changes = match words[..] {
            ["live", id] => {
                let id = SegmentId(number(id));
                let add = Change::AddSegment { id, kind: SegmentKind::Log, epoch: id.0 };
                vec![add, Change::SealSegment { id, length: 1 << 20 }]
            }
            ["hole", id, offset, length] => {
                let holes = [(number(offset), number(length))].into();
                vec![Change::Holes { segment: SegmentId(number(id)), holes }]
            }
            ["moved", from, to] => {
                let (from, to) = (place(from), place(to));
                let id = RelocationId(from.segment.0 + 100);
                let path = names::relocation(&tables.dir, id);
                let file = fs.create(&path).unwrap();
                let mut writer = RelocationWriter::create(file, path, 7, id, from.segment);
                writer.add(from.offset, to.segment, to.offset, to.length).unwrap();
                vec![Change::AddRelocation { meta: Arc::new(writer.finish().unwrap()) }]
            }
            _ => panic!("{words:?}"),
        };
        let comparator_of = |_: &str| Ok(KeyOrder::Bytewise);
        let builder = VersionBuilder { tables: &tables, comparator_of: &comparator_of };
        builder.apply_to(&mut version, &Edit::new(changes)).unwrap();
    }
    version
}

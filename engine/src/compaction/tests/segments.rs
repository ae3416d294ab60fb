//! The sorted segments that a job writes: their order, their size, and what is left of them.

use super::world::JobWorld;
use crate::base::pointer::{KeyspaceId, ValuePointer};
use crate::segment::RecordInput;
use crate::throttle::reads::IoPriority;
use crate::version::segment_output::SegmentOutput;
use std::path::{Path, PathBuf};

const KEYSPACE: KeyspaceId = KeyspaceId(1);

fn files(world: &JobWorld) -> Vec<PathBuf> {
    let dir = Path::new("db");
    let files = world.runtime.env.fs.list(dir).unwrap().into_iter().map(|name| dir.join(name));
    files.filter(|path| path.extension().is_some_and(|it| it == "seg")).collect()
}

/// Adds 30 records of about 1000 bytes.
fn fill(output: &mut SegmentOutput<'_>) -> Vec<ValuePointer> {
    let add = |seqno: u64| {
        let key = format!("key{seqno:02}");
        let record = RecordInput::put(KEYSPACE, key.as_bytes(), &[7; 1000]);
        output.add(&record, seqno).unwrap()
    };
    (1..=30).map(add).collect()
}

#[test]
fn segments_are_split_by_size_and_hold_records_in_the_order_they_came() {
    let world = JobWorld::new(1 << 20);
    let mut output = SegmentOutput::new(&world.runtime, 10_000, IoPriority::Flush);
    let pointers = fill(&mut output);
    output.finish().unwrap();
    let segments = output.segments();
    assert_eq!((segments.handles.len(), segments.changes.len()), (3, 6));
    let written: u64 = files(&world)
        .iter()
        .map(|path| world.runtime.env.fs.open(path).unwrap().len().unwrap())
        .sum();
    assert_eq!(segments.bytes, written);
    assert!(pointers.is_sorted_by_key(|pointer| (pointer.segment, pointer.offset)));
    for (seqno, pointer) in (1..).zip(pointers) {
        let handle = segments.handles.iter().find(|it| it.id() == pointer.segment).unwrap();
        let key = format!("key{seqno:02}");
        let read =
            |key: &str, seqno| handle.segment.read_value(pointer, KEYSPACE, key.as_bytes(), seqno);
        assert_eq!(&read(&key, seqno).unwrap()[..], [7; 1000]);
        assert!(read("other", seqno).is_err() && read(&key, seqno + 1).is_err());
    }
    output.keep();
    assert_eq!(files(&world).len(), 3);
}

#[test]
fn a_job_that_fails_leaves_no_segment() {
    let world = JobWorld::new(1 << 20);
    let mut output = SegmentOutput::new(&world.runtime, 10_000, IoPriority::Flush);
    fill(&mut output);
    assert_eq!(files(&world).len(), 3);
    drop(output);
    assert_eq!(files(&world).len(), 0);
    assert_eq!(world.runtime.set.unnamed().get(), 0);
}

/// Guards the bounds of space: value GC must see what a flush is writing.
#[test]
fn segments_count_while_no_version_names_them() {
    let world = JobWorld::new(1 << 20);
    let mut output = SegmentOutput::new(&world.runtime, 10_000, IoPriority::Flush);
    fill(&mut output);
    output.finish().unwrap();
    let unnamed = world.runtime.set.unnamed().get();
    assert_eq!(unnamed, output.segments().bytes);
    output.keep();
    assert_eq!(world.runtime.set.unnamed().get(), 0, "an edit names them");
}

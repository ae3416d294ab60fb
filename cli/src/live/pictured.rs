//! Reads the part of a report of space that pictures show from the JSON of another process.

use cleavedb::{
    ClassSpace, FileClass, KeyspaceSpace, SegmentSpace, Separation, SpaceCell, SpaceParts,
    SpaceReport,
};
use serde_json::Value;
use std::time::Duration;

/// Returns the report without holders and warnings, which have no place in a picture.
pub(crate) fn report(told: &Value) -> SpaceReport {
    let mut report = SpaceReport::default();
    report.seqno = number(told, "seqno");
    report.allocated = number(told, "allocated");
    report.live_bytes = number(told, "live_bytes");
    report.hole_bytes = number(told, "hole_bytes");
    report.settled_bytes = told["settled_bytes"].as_u64();
    report.ceiling_bytes = told["ceiling_bytes"].as_u64();
    report.parts = parts(&told["parts"]);
    report.classes = list(told, "classes").filter_map(class).collect();
    report.keyspaces = list(told, "keyspaces").map(keyspace).collect();
    report.segments = list(told, "segments").map(segment).collect();
    report
}

fn list<'a>(told: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    told[field].as_array().into_iter().flatten()
}

fn parts(told: &Value) -> SpaceParts {
    let mut parts = SpaceParts::default();
    parts.live = number(told, "live");
    parts.pinned = number(told, "pinned");
    parts.garbage = number(told, "garbage");
    parts.log = number(told, "log");
    parts.tree = number(told, "tree");
    parts.obsolete = number(told, "obsolete");
    parts.metadata = number(told, "metadata");
    parts.other = number(told, "other");
    parts
}

/// Returns nothing for a class that only a later version knows.
fn class(told: &Value) -> Option<ClassSpace> {
    let mut class = ClassSpace::default();
    let name = told["class"].as_str()?;
    class.class = *FileClass::ALL.iter().find(|class| class.name() == name)?;
    class.files = number(told, "files");
    class.allocated = number(told, "allocated");
    class.length = number(told, "length");
    class.shared = number(told, "shared");
    Some(class)
}

fn keyspace(told: &Value) -> KeyspaceSpace {
    let mut keyspace = KeyspaceSpace::default();
    keyspace.name = told["name"].as_str().unwrap_or_default().to_owned();
    keyspace.entries = number(told, "entries");
    keyspace.inline_bytes = number(told, "inline_bytes");
    keyspace.separated_bytes = number(told, "separated_bytes");
    keyspace.pinned_entries = number(told, "pinned_entries");
    keyspace.pinned_bytes = number(told, "pinned_bytes");
    keyspace.tables = number(told, "tables");
    keyspace.table_bytes = number(told, "table_bytes");
    keyspace.table_entries = number(told, "table_entries");
    keyspace.scan_cost_bytes = number(told, "scan_cost_bytes");
    keyspace.ordered_bytes = number(told, "ordered_bytes");
    keyspace.is_separation_chosen = told["is_separation_chosen"] == true;
    let separation = told["separation"].as_str().and_then(Separation::from_name);
    keyspace.separation = separation.unwrap_or_default();
    keyspace
}

fn number(told: &Value, field: &str) -> u64 {
    told[field].as_u64().unwrap_or_default()
}

fn segment(told: &Value) -> SegmentSpace {
    let mut segment = SegmentSpace::default();
    segment.id = number(told, "id");
    segment.sorted = told["kind"] == "sorted";
    segment.sealed = told["sealed"] == true;
    segment.replay = told["replay"] == true;
    segment.length = number(told, "length");
    segment.allocated = number(told, "allocated");
    segment.live_records = number(told, "live_records");
    segment.live_bytes = number(told, "live_bytes");
    segment.pinned_bytes = number(told, "pinned_bytes");
    segment.referenced_bytes = number(told, "referenced_bytes");
    segment.garbage_bytes = number(told, "garbage_bytes");
    segment.hole_bytes = number(told, "hole_bytes");
    segment.links = number(told, "links");
    let age = told["age_seconds"].as_f64().and_then(|age| Duration::try_from_secs_f64(age).ok());
    segment.age = age;
    segment.reason = told["reason"].as_str().unwrap_or_default().to_owned();
    segment.cells = list(told, "cells").map(cell).collect();
    segment
}

fn cell(told: &Value) -> SpaceCell {
    let share = |index: usize| told[index].as_u64().unwrap_or_default().min(100) as u8;
    let mut cell = SpaceCell::default();
    (cell.live, cell.pinned, cell.garbage) = (share(0), share(1), share(2));
    (cell.log, cell.hole, cell.unwritten) = (share(3), share(4), share(5));
    cell
}

#[cfg(test)]
mod tests {
    use crate::picture::tests_report;

    #[test]
    fn a_report_survives_its_json() {
        let report = tests_report::report();
        let told = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(super::report(&told), report);
    }
}

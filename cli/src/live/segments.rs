//! Reads the part of a report of space that pictures show from the JSON of another process.

use cleavedb::{SegmentSpace, SpaceCell, SpaceReport};
use serde_json::Value;
use std::time::Duration;

/// Returns the report's sums and segments; what has no place in a picture is left at its default.
pub(crate) fn report(told: &Value) -> SpaceReport {
    let mut report = SpaceReport::default();
    report.seqno = number(told, "seqno");
    report.allocated = number(told, "allocated");
    report.live_bytes = number(told, "live_bytes");
    report.hole_bytes = number(told, "hole_bytes");
    report.settled_bytes = told["settled_bytes"].as_u64();
    report.ceiling_bytes = told["ceiling_bytes"].as_u64();
    let segments = told["segments"].as_array();
    report.segments = segments.into_iter().flatten().map(segment).collect();
    report
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
    segment.cells = told["cells"].as_array().into_iter().flatten().map(cell).collect();
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
        let mut report = tests_report::report();
        let told = serde_json::from_str(&report.to_json()).unwrap();
        report.parts = Default::default();
        assert_eq!(super::report(&told), report);
    }
}

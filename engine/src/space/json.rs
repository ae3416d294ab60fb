//! A [`SpaceReport`] as JSON.

use crate::base::json::{joined, quoted};
use crate::space::report::{HolderSpace, KeyspaceSpace, SegmentSpace, SpaceCell, SpaceReport};
use std::time::Duration;

impl SpaceReport {
    /// Returns the report as one JSON object. Sizes are in bytes, times in seconds. The numbers of
    /// a cell are percentages; `cell_parts` says of what.
    pub fn to_json(&self) -> String {
        let parts = self.parts.named().map(|(name, bytes)| field(name, bytes));
        let classes = self.classes.iter().map(|class| {
            let numbers = [
                ("files", class.files),
                ("allocated", class.allocated),
                ("length", class.length),
                ("shared", class.shared),
            ];
            format!("{{\"class\":{},{}}}", quoted(class.class.name()), fields(&numbers))
        });
        let numbers = [
            ("seqno", self.seqno),
            ("allocated", self.allocated),
            ("live_bytes", self.live_bytes),
            ("hole_bytes", self.hole_bytes),
        ];
        format!(
            "{{{},\"amplification\":{},\"settled_bytes\":{},\"ceiling_bytes\":{},\
             \"parts\":{{{}}},\"classes\":[{}],\"keyspaces\":[{}],\"holders\":[{}],\
             \"warnings\":[{}],\"cell_parts\":[{}],\"segments\":[{}]}}",
            fields(&numbers),
            decimal(self.amplification()),
            bytes(self.settled_bytes),
            bytes(self.ceiling_bytes),
            joined(parts),
            joined(classes),
            joined(self.keyspaces.iter().map(keyspace)),
            joined(self.holders.iter().map(holder)),
            joined(self.warnings.iter().map(|warning| quoted(warning))),
            // A report has thousands of cells, so each is a list, and the names are told once.
            joined(cell_parts(&SpaceCell::default()).iter().map(|(name, _)| quoted(name))),
            joined(self.segments.iter().map(segment)),
        )
    }
}

fn bytes(value: Option<u64>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

fn field(name: &str, value: u64) -> String {
    format!("\"{name}\":{value}")
}

fn fields(numbers: &[(&str, u64)]) -> String {
    joined(numbers.iter().map(|&(name, value)| field(name, value)))
}

fn decimal(value: Option<f64>) -> String {
    value.map_or("null".to_owned(), |value| format!("{value:.4}"))
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or("null".to_owned(), |time| format!("{:.3}", time.as_secs_f64()))
}

fn keyspace(keyspace: &KeyspaceSpace) -> String {
    let numbers = [
        ("entries", keyspace.entries),
        ("live_bytes", keyspace.live_bytes()),
        ("inline_bytes", keyspace.inline_bytes),
        ("separated_bytes", keyspace.separated_bytes),
        ("pinned_entries", keyspace.pinned_entries),
        ("pinned_bytes", keyspace.pinned_bytes),
        ("tables", keyspace.tables),
        ("table_bytes", keyspace.table_bytes),
        ("table_entries", keyspace.table_entries),
        ("stale_table_bytes", keyspace.stale_table_bytes()),
        ("scan_cost_bytes", keyspace.scan_cost_bytes),
        ("ordered_bytes", keyspace.ordered_bytes),
    ];
    format!(
        "{{\"name\":{},{},\"separation\":{},\"is_separation_chosen\":{},\
         \"separation_reason\":{}}}",
        quoted(&keyspace.name),
        fields(&numbers),
        quoted(keyspace.separation.name()),
        keyspace.is_separation_chosen,
        keyspace.separation_reason.map_or("null".into(), quoted),
    )
}

fn holder(holder: &HolderSpace) -> String {
    let numbers = [
        ("seqno", holder.seqno),
        ("versions", holder.versions),
        ("version_bytes", holder.version_bytes),
        ("files", holder.files),
        ("file_bytes", holder.file_bytes),
    ];
    format!(
        "{{\"kind\":{},\"keyspace\":{},\"age_seconds\":{},{}}}",
        quoted(holder.kind),
        holder.keyspace.as_ref().map_or("null".to_owned(), |name| quoted(name)),
        seconds(Some(holder.age)),
        fields(&numbers)
    )
}

fn segment(segment: &SegmentSpace) -> String {
    let numbers = [
        ("length", segment.length),
        ("allocated", segment.allocated),
        ("live_records", segment.live_records),
        ("live_bytes", segment.live_bytes),
        ("pinned_bytes", segment.pinned_bytes),
        ("referenced_bytes", segment.referenced_bytes),
        ("garbage_bytes", segment.garbage_bytes),
        ("hole_bytes", segment.hole_bytes),
        ("links", segment.links),
    ];
    let cells = segment.cells.iter().map(|cell| {
        format!("[{}]", joined(cell_parts(cell).iter().map(|(_, share)| share.to_string())))
    });
    format!(
        "{{\"id\":{},\"kind\":\"{}\",\"sealed\":{},\"replay\":{},{},\"age_seconds\":{},\
         \"reason\":{},\"cells\":[{}]}}",
        segment.id,
        if segment.sorted { "sorted" } else { "log" },
        segment.sealed,
        segment.replay,
        fields(&numbers),
        seconds(segment.age),
        quoted(&segment.reason),
        joined(cells)
    )
}

/// Returns the shares of a cell with their names.
fn cell_parts(cell: &SpaceCell) -> [(&'static str, u8); 6] {
    [
        ("live", cell.live),
        ("pinned", cell.pinned),
        ("garbage", cell.garbage),
        ("log", cell.log),
        ("hole", cell.hole),
        ("unwritten", cell.unwritten),
    ]
}

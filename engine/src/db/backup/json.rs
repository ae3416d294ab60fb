//! Prints the list of points as JSON.

use super::{BackupPoint, PointList};
use crate::base::json::{joined, quoted};

impl PointList {
    /// Returns the list as one JSON object, which `docs/json.md` describes.
    pub fn to_json(&self) -> String {
        let unreadable = self.unreadable.iter().map(|(number, error)| {
            format!("{{\"number\":{number},\"error\":{}}}", quoted(&error.to_string()))
        });
        format!(
            "{{\"points\":[{}],\"unreadable\":[{}]}}",
            joined(self.points.iter().map(point)),
            joined(unreadable)
        )
    }
}

fn point(point: &BackupPoint) -> String {
    format!(
        "{{\"number\":{},\"made_ms\":{},\"seqno\":{},\"files\":{},\"bytes\":{},\
         \"added_bytes\":{},\"encrypted\":{},\"database\":\"{:016x}\"}}",
        point.number,
        point.made.as_millis(),
        point.seqno,
        point.files,
        point.bytes,
        point.added_bytes,
        point.is_encrypted,
        point.database
    )
}

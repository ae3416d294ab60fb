//! Prints what a backup did, and the list of points, as JSON.

use super::{BackupPoint, BackupReport, PointList};
use crate::base::error::Error;
use crate::base::json::{joined, quoted};

impl BackupReport {
    /// Returns the report as one JSON object, which `docs/json.md` describes.
    pub fn to_json(&self) -> String {
        format!(
            "{{\"point\":{},\"files\":{},\"bytes\":{},\"copied_files\":{},\"copied_bytes\":{},\
             \"deleted_points\":[{}],\"freed_bytes\":{},\"unreadable\":[{}]}}",
            self.point,
            self.files,
            self.bytes,
            self.copied_files,
            self.copied_bytes,
            joined(self.deleted_points.iter().map(u64::to_string)),
            self.freed_bytes,
            joined(self.unreadable.iter().map(Error::to_json))
        )
    }
}

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

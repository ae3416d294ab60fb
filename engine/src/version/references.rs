//! I3: every file that a version's tables and relocations name exists. A table names segments that
//! are live or relocated; a relocation names live segments only, so one hop always suffices. An
//! edit that would break this is refused before it is written, because it would make values
//! unreachable that are still on disk.

use crate::base::error::{Error, Result};
use crate::base::pointer::SegmentId;
use crate::relocation::RelocationMeta;
use crate::table::TableMeta;
use crate::version::Version;
use crate::version::edit::{Change, Edit};

/// Checks the changes of `edit`, which led to `version`.
pub(super) fn check_edit(version: &Version, edit: &Edit) -> Result<()> {
    for change in &edit.changes {
        match change {
            Change::AddTable { meta, .. } => check_table(version, meta)?,
            Change::AddRelocation { meta } => check_relocation(version, meta)?,
            Change::RemoveSegment { id } => {
                check_gone(version, *id)?;
                check_no_target(version, *id)?;
            }
            Change::RemoveRelocation { segment } => check_gone(version, *segment)?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks every table and relocation of a version.
pub fn check_all(version: &Version) -> Result<()> {
    for keyspace in version.keyspaces.values() {
        for (_, table) in keyspace.levels.tables() {
            check_table(version, &table.meta)?;
        }
    }
    version.relocations.values().try_for_each(|it| check_relocation(version, &it.meta))
}

fn is_known(version: &Version, segment: SegmentId) -> bool {
    version.segments.contains_key(&segment) || version.relocations.contains_key(&segment)
}

fn check_table(version: &Version, meta: &TableMeta) -> Result<()> {
    match meta.summary.segments.keys().find(|segment| !is_known(version, **segment)) {
        None => Ok(()),
        Some(segment) => Err(Error::corruption(format!(
            "table {} references segment {segment}, which is neither live nor relocated",
            meta.id
        ))),
    }
}

fn check_relocation(version: &Version, meta: &RelocationMeta) -> Result<()> {
    let segment = meta.segment;
    if version.segments.contains_key(&segment) {
        let message = format!("segment {segment} is relocated, and live at the same time");
        return Err(Error::corruption(message));
    }
    match meta.targets.keys().find(|target| !version.segments.contains_key(target)) {
        None => Ok(()),
        Some(target) => Err(Error::corruption(format!(
            "the relocation of segment {segment} leads to segment {target}, which is not live"
        ))),
    }
}

/// Checks that no table names a segment that is neither live nor relocated any more.
fn check_gone(version: &Version, segment: SegmentId) -> Result<()> {
    if is_known(version, segment) || version.uses.of(segment).count == 0 {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "segment {segment} is still referenced, and would be neither live nor relocated"
    )))
}

fn check_no_target(version: &Version, segment: SegmentId) -> Result<()> {
    let leads_there = |meta: &RelocationMeta| meta.targets.contains_key(&segment);
    match version.relocations.values().find(|relocation| leads_there(&relocation.meta)) {
        None => Ok(()),
        Some(relocation) => check_relocation(version, &relocation.meta),
    }
}

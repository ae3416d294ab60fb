//! Builds versions from edits: it applies each change to the set of live files. It does no I/O: the
//! handles it creates open their files later. Shared by recovery and by [`super::set::VersionSet`].

use crate::base::error::{Error, Result};
use crate::base::expiry::Deadline;
use crate::base::key::{KeyOrder, SeqNo};
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::base::range_tombstone::RangeTombstone;
use crate::version::edit::{Change, Edit};
use crate::version::files::{RelocationHandle, SegmentHandle, TableContext, TableHandle};
use crate::version::levels::Levels;
use crate::version::{Holes, KeyspaceVersion, LiveSegment, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the order of a keyspace's keys for its recorded comparator name.
pub type ComparatorOf<'a> = &'a dyn Fn(&str) -> Result<KeyOrder>;

/// Builds versions from edits; shared by recovery and by [`VersionSet`].
pub struct VersionBuilder<'a> {
    /// The context that handles need to open files.
    pub tables: &'a Arc<TableContext>,
    /// The known comparators.
    pub comparator_of: ComparatorOf<'a>,
}

/// The files that an edit removes from the version, to be marked once the edit is durable.
#[derive(Default)]
pub(super) struct Removed {
    tables: Vec<Arc<TableHandle>>,
    segments: Vec<Arc<SegmentHandle>>,
    relocations: Vec<Arc<RelocationHandle>>,
}

/// The range tombstones that an edit adds to each keyspace, and the numbers of those that it
/// removes.
type RangeChanges = BTreeMap<KeyspaceId, (Vec<RangeTombstone>, Vec<SeqNo>)>;

impl Removed {
    /// Returns the ids of the segments.
    pub(super) fn segments(&self) -> impl Iterator<Item = SegmentId> {
        self.segments.iter().map(|segment| segment.id())
    }

    /// Returns the files of one version that a later one does not have.
    pub(super) fn between(before: &Version, after: &Version) -> Removed {
        let levels = before.keyspaces.values().flat_map(|keyspace| keyspace.levels.tables());
        let left = after.table_ids();
        let tables = levels.map(|(_, table)| table).filter(|table| !left.contains(&table.meta.id));
        let segments = before.segments.iter();
        let segments = segments.filter(|(id, _)| !after.segments.contains_key(id));
        let is_left = |id| after.relocations.values().any(|it| it.meta.id == id);
        let relocations = before.relocations.values().filter(|it| !is_left(it.meta.id));
        Removed {
            tables: tables.cloned().collect(),
            segments: segments.map(|(_, live)| live.handle.clone()).collect(),
            relocations: relocations.cloned().collect(),
        }
    }

    /// Marks the files as named by no version any more.
    pub(super) fn mark_obsolete(&self) {
        self.tables.iter().for_each(|table| table.mark_obsolete());
        self.segments.iter().for_each(|segment| segment.mark_obsolete());
        self.relocations.iter().for_each(|relocation| relocation.mark_obsolete());
    }
}

impl VersionBuilder<'_> {
    /// Applies `edit` to a version that is not shared. Nothing is copied, so the cost of replay is
    /// proportional to the number of changes. After an error the version must not be used.
    pub fn apply_to(&self, version: &mut Version, edit: &Edit) -> Result<()> {
        self.change(version, edit, &[]).map(|_| ())
    }

    /// Returns the version after `edit` and the files that the edit removed. A new segment uses its
    /// handle in `segments` if there is one, else a new handle.
    pub(super) fn apply_tracking(
        &self,
        base: &Version,
        edit: &Edit,
        segments: &[Arc<SegmentHandle>],
    ) -> Result<(Version, Removed)> {
        let mut version = base.clone();
        let removed = self.change(&mut version, edit, segments)?;
        Ok((version, removed))
    }

    fn change(
        &self,
        version: &mut Version,
        edit: &Edit,
        segments: &[Arc<SegmentHandle>],
    ) -> Result<Removed> {
        let mut removed = Removed::default();
        let mut ranges = RangeChanges::default();
        for change in &edit.changes {
            match change {
                Change::AddRange { keyspace, tombstone } => {
                    ranges.entry(*keyspace).or_default().0.push(tombstone.clone());
                }
                Change::RemoveRange { keyspace, seqno } => {
                    ranges.entry(*keyspace).or_default().1.push(*seqno);
                }
                Change::AddTable { .. } | Change::RemoveTable { .. } => {
                    self.change_table(version, change, &mut removed)?;
                }
                Change::AddSegment { .. }
                | Change::SealSegment { .. }
                | Change::RemoveSegment { .. }
                | Change::Holes { .. } => {
                    self.change_segment(version, change, segments, &mut removed)?;
                }
                Change::AddRelocation { .. } | Change::RemoveRelocation { .. } => {
                    self.change_relocation(version, change, &mut removed)?;
                }
                Change::Head(head) => version.head = *head,
                Change::DroppedUntil(deadline) => {
                    version.dropped_until = version.dropped_until.max(*deadline);
                }
                Change::NextFile(_) | Change::LastSeqno(_) | Change::StateGoesOn => {}
                _ => self.change_keyspace(version, change, &mut removed)?,
            }
        }
        // The set of a keyspace is made anew once for all changes of an edit.
        for (keyspace, (added, removed)) in ranges {
            edit_levels(version, keyspace)?.change_ranges(added, &removed)?;
        }
        Ok(removed)
    }

    fn change_keyspace(
        &self,
        version: &mut Version,
        change: &Change,
        removed: &mut Removed,
    ) -> Result<()> {
        match change {
            Change::AddKeyspace { id, name, order, settings, flushed } => {
                let levels = Arc::new(Levels::new((self.comparator_of)(order)?));
                let keyspace = KeyspaceVersion {
                    name: name.clone(),
                    order: order.clone(),
                    settings: settings.clone(),
                    flushed: *flushed,
                    levels,
                };
                version.keyspaces.insert(*id, Arc::new(keyspace));
            }
            Change::SetKeyspace { id, settings } => {
                edit_keyspace(version, *id)?.settings.clone_from(settings);
            }
            Change::Flushed { keyspace, seqno } => {
                edit_keyspace(version, *keyspace)?.flushed = *seqno;
            }
            Change::DropKeyspace { id } => {
                let gone = version.keyspaces.remove(id).ok_or_else(|| unknown_keyspace(*id))?;
                let uses = Arc::make_mut(&mut version.uses);
                for (_, table) in gone.levels.tables() {
                    uses.remove(&table.meta.summary.segments);
                    removed.tables.push(table.clone());
                }
            }
            _ => unreachable!("only changes of keyspaces come here"),
        }
        Ok(())
    }

    fn change_table(
        &self,
        version: &mut Version,
        change: &Change,
        removed: &mut Removed,
    ) -> Result<()> {
        match change {
            Change::AddTable { keyspace, level, meta } => {
                let levels = edit_levels(version, *keyspace)?;
                let order = levels.order().clone();
                let handle = TableHandle::new(meta.clone(), order, self.tables.clone());
                // A trivial move removes and adds the same file; the handle is kept with its state.
                let moved = removed.tables.iter().position(|table| table.meta.id == meta.id);
                let handle = match moved.map(|index| removed.tables.swap_remove(index)) {
                    Some(same) if *same.meta == **meta => same,
                    // I7: no file has two contents.
                    Some(_) => {
                        let what = format!("table {} is added as another than it was", meta.id.0);
                        return Err(Error::corruption(what));
                    }
                    None => Arc::new(handle),
                };
                levels.add(*level, handle)?;
                Arc::make_mut(&mut version.uses).add(&meta.summary.segments);
            }
            Change::RemoveTable { keyspace, level, id } => {
                let table = edit_levels(version, *keyspace)?.remove(*level, *id)?;
                Arc::make_mut(&mut version.uses).remove(&table.meta.summary.segments);
                removed.tables.push(table);
            }
            _ => unreachable!("only changes of tables come here"),
        }
        Ok(())
    }

    fn change_segment(
        &self,
        version: &mut Version,
        change: &Change,
        given: &[Arc<SegmentHandle>],
        removed: &mut Removed,
    ) -> Result<()> {
        let segments = Arc::make_mut(&mut version.segments);
        match change {
            Change::AddSegment { id, kind, epoch } => {
                let known = given.iter().find(|handle| handle.id() == *id).cloned();
                let handle = known.unwrap_or_else(|| {
                    Arc::new(SegmentHandle::open(*id, *kind, *epoch, self.tables))
                });
                let holes = Holes::default();
                segments.insert(*id, LiveSegment { handle, sealed: None, holes });
            }
            Change::SealSegment { id, length } => {
                let live = segments.get_mut(id).ok_or_else(|| unknown_segment(*id))?;
                live.sealed = Some(*length);
            }
            Change::RemoveSegment { id } => {
                let gone = segments.remove(id).ok_or_else(|| unknown_segment(*id))?;
                removed.segments.push(gone.handle);
            }
            Change::Holes { segment, holes } => {
                let live = segments.get_mut(segment).ok_or_else(|| unknown_segment(*segment))?;
                let end = holes.last().map_or(0, |(offset, len)| offset + len);
                if live.sealed.is_none_or(|sealed| end > sealed) {
                    let message = format!("an edit puts holes behind the end of {segment}");
                    return Err(Error::corruption(message));
                }
                live.holes = holes.clone();
            }
            _ => unreachable!("only changes of segments come here"),
        }
        Ok(())
    }

    fn change_relocation(
        &self,
        version: &mut Version,
        change: &Change,
        removed: &mut Removed,
    ) -> Result<()> {
        let relocations = Arc::make_mut(&mut version.relocations);
        match change {
            Change::AddRelocation { meta } => {
                let handle = RelocationHandle::new(meta.clone(), self.tables.clone());
                let before = relocations.insert(meta.segment, Arc::new(handle));
                removed.relocations.extend(before);
            }
            Change::RemoveRelocation { segment } => {
                let gone = relocations.remove(segment).ok_or_else(|| {
                    let message = format!("an edit removes the relocation of {segment}, not there");
                    Error::corruption(message)
                })?;
                removed.relocations.push(gone);
            }
            _ => unreachable!("only changes of relocations come here"),
        }
        Ok(())
    }
}

fn unknown_keyspace(id: KeyspaceId) -> Error {
    Error::corruption(format!("an edit names keyspace {id}, which does not exist"))
}

fn unknown_segment(id: SegmentId) -> Error {
    Error::corruption(format!("an edit names segment {id}, which does not exist"))
}

fn edit_keyspace(version: &mut Version, id: KeyspaceId) -> Result<&mut KeyspaceVersion> {
    let keyspace = version.keyspaces.get_mut(&id).ok_or_else(|| unknown_keyspace(id))?;
    Ok(Arc::make_mut(keyspace))
}

fn edit_levels(version: &mut Version, id: KeyspaceId) -> Result<&mut Levels> {
    Ok(Arc::make_mut(&mut edit_keyspace(version, id)?.levels))
}

/// Returns the whole state of a version as one edit, the first record of a new manifest.
pub fn state_of(version: &Version, next_file: u64, last_seqno: SeqNo) -> Edit {
    let mut changes = vec![Change::NextFile(next_file), Change::LastSeqno(last_seqno)];
    for (&id, live) in version.segments.iter() {
        let segment = &live.handle.segment;
        changes.push(Change::AddSegment { id, kind: segment.kind(), epoch: segment.epoch() });
        if let Some(length) = live.sealed {
            changes.push(Change::SealSegment { id, length });
        }
        if !live.holes.is_empty() {
            changes.push(Change::Holes { segment: id, holes: live.holes.clone() });
        }
    }
    for relocation in version.relocations.values() {
        changes.push(Change::AddRelocation { meta: relocation.meta.clone() });
    }
    for (&id, keyspace) in &version.keyspaces {
        changes.push(Change::AddKeyspace {
            id,
            name: keyspace.name.clone(),
            order: keyspace.order.clone(),
            settings: keyspace.settings.clone(),
            flushed: keyspace.flushed,
        });
        for (level, table) in keyspace.levels.tables() {
            changes.push(Change::AddTable { keyspace: id, level, meta: table.meta.clone() });
        }
        let add = |it: &RangeTombstone| Change::AddRange { keyspace: id, tombstone: it.clone() };
        changes.extend(keyspace.levels.ranges().iter().map(add));
    }
    changes.push(Change::Head(version.head));
    if version.dropped_until > Deadline::default() {
        changes.push(Change::DroppedUntil(version.dropped_until));
    }
    Edit::new(changes)
}

//! Floor 8: explains space: [`SpaceReport`] says where every block of the store is and what it
//! holds.
//!
//! The numbers have three independent sources: one walk over the tree gives what is seen and by
//! whom (`walk.rs`); the version gives what should be there; the file system gives what is there
//! (`files.rs`). `drift.rs` reports where they differ. Nothing is stored and no counter is trusted.

mod cells;
mod drift;
mod files;
mod holders;
mod json;
mod reason;
pub mod report;
mod segments;
pub mod stale;
mod table;
#[cfg(test)]
mod tests;
mod walk;

use crate::base::error::Result;
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::env::fs::File;
use crate::gc::bounds::SpaceBounds;
use crate::gc::facts::SegmentFault;
use crate::gc::settings::GcOptions;
use crate::segment::MIN_RECORD_BYTES;
use crate::version::Version;
use crate::version::files::names::FileName;
use crate::version::runtime::Runtime;
use crate::version::settings::Separation;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::{KeyspaceState, View};
use files::{FileFacts, Standing, by_path};
use holders::OldVersions;
use report::{ClassSpace, FileClass, KeyspaceSpace, SegmentSpace, SpaceParts, SpaceReport};
use segments::Tallies;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use walk::{StoredPlace, walk};

/// The most tries to get views of one version before different ones have to do.
const MAX_TRIES: usize = 16;

/// The result of the walk over the tree.
struct Walked {
    keyspaces: Vec<KeyspaceSpace>,
    tallies: Tallies,
    old_versions: OldVersions,
    live_bytes: u64,
}

/// The parts of a database that the report is made from, and what value GC says.
pub struct SpaceSources<'a> {
    /// Its files, live and obsolete, and who holds old versions of what.
    pub runtime: &'a Runtime,
    /// All keyspaces.
    pub keyspaces: &'a [Arc<KeyspaceState>],
    /// Ends, in bytes, of the segments whose length the manifest did not have at the opening.
    pub log_ends: &'a BTreeMap<SegmentId, u64>,
    /// The options of value GC.
    pub gc: &'a GcOptions,
    /// Returns what scans have lost to strewn values of a keyspace, and what was put in order for
    /// it, in bytes.
    pub scan_costs_of: &'a dyn Fn(KeyspaceId) -> (u64, u64),
    /// True if the user has paused value GC.
    pub is_gc_paused: bool,
    /// Returns why value GC can't free a segment, or `None` if it can.
    pub fault_of: &'a dyn Fn(SegmentId) -> Option<SegmentFault>,
    /// The space that value GC can't free, as sentences.
    pub gc_warnings: Vec<String>,
    /// True if the database was opened read-only.
    pub read_only: bool,
}

impl SpaceSources<'_> {
    /// Notes when the values of a keyspace are separated, and what scans have lost there.
    fn note_order(&self, space: &mut KeyspaceSpace, state: &KeyspaceState) {
        (space.scan_cost_bytes, space.ordered_bytes) = (self.scan_costs_of)(state.id);
        space.separation = state.options().separation;
        // Who writes chooses, and only that process knows it.
        if space.separation == Separation::Auto && !self.read_only {
            let reason = state.choice.reason();
            (space.separation, space.is_separation_chosen) = (reason.separation(), true);
            space.separation_reason = Some(reason.name());
        }
    }

    /// Makes the report. Reads every table, past the cache, and measures each file.
    pub fn report(self) -> Result<SpaceReport> {
        let keyspaces = self.keyspaces;
        // The sequence number is taken first: the views then hold everything up to it.
        let SeenSeqnos { snapshots, visible: seqno, .. } = self.runtime.snapshots.seen();
        let (views, version) = self.one_moment();
        let purge = &self.runtime.set.tables().purge;
        let read: BTreeSet<_> = purge.still_read().into_iter().collect();
        let obsolete = read.iter().cloned().chain(purge.unread()).collect();
        let files =
            files::measure(&self.runtime.env, &self.runtime.set.tables().dir, &version, &obsolete)?;
        let by_path = by_path(&files);
        let mut walked = Walked {
            keyspaces: Vec::new(),
            tallies: Tallies::new(&version, &by_path, self.log_ends),
            old_versions: OldVersions::new(),
            live_bytes: 0,
        };
        for (state, view) in keyspaces.iter().zip(&views) {
            walked.keyspace(self.runtime, &state.name, view, (seqno, &snapshots))?;
        }
        let spaces = walked.keyspaces.iter_mut().zip(keyspaces);
        spaces.for_each(|(space, state)| self.note_order(space, state));
        let mut segments = walked.tallies.into_segments(self.runtime.env.clock.wall());
        assert!(segments.is_sorted_by_key(|segment| segment.id), "rows are found by bisection");
        let parts = parts(&files, &segments);
        assert_eq!(
            parts.total(),
            files.iter().map(|file| file.measure.allocated).sum::<u64>(),
            "each block is in one part"
        );
        let pinned: u64 = walked.old_versions.values().map(|(_, bytes)| bytes).sum();
        let policy = reason::policy(self.gc, self.is_gc_paused);
        let seen = walked.live_bytes + pinned;
        reason::give(&mut segments, &parts, seen, &policy, self.fault_of);
        let names = |id: KeyspaceId| {
            let known = keyspaces.iter().find(|state| state.id == id);
            known.map_or_else(|| format!("dropped keyspace {id}"), |state| state.name.clone())
        };
        let read: Vec<&FileFacts> = files.iter().filter(|file| read.contains(&file.path)).collect();
        let holders = self.runtime.snapshots.pins.holders();
        let now = self.runtime.env.clock.now();
        let log_pins = self.runtime.set.log_pins();
        let is_kept_by = |pin, segment| log_pins.is_kept_by(pin, segment);
        let holders =
            holders::account(&holders, &read, &is_kept_by, &walked.old_versions, &names, now);
        let mut warnings = drift::find(drift::Books {
            version: &version,
            files: &by_path,
            segments: &segments,
            read_only: self.read_only,
            nameless: self.nameless(),
        });
        warnings.extend(self.gc_warnings);
        let (bounds, has_bounds) = (SpaceBounds::new(self.gc), self.gc.automatic);
        Ok(SpaceReport {
            seqno,
            allocated: parts.total(),
            live_bytes: walked.live_bytes,
            hole_bytes: segments.iter().map(|segment| segment.hole_bytes).sum(),
            ceiling_bytes: has_bounds.then(|| bounds.ceiling(seen).limit()),
            settled_bytes: has_bounds.then(|| bounds.settled(seen).limit()),
            parts,
            classes: classes(&files, &version),
            keyspaces: walked.keyspaces,
            segments,
            holders,
            warnings,
        })
    }

    /// Takes a view of each keyspace, and the version they share: if they differed, records that GC
    /// moves in between would be looked for in the wrong place. Edits are rare, so the second try
    /// hardly ever fails.
    fn one_moment(&self) -> (Vec<Arc<View>>, Arc<Version>) {
        let mut tries = 0..MAX_TRIES;
        loop {
            let version = self.runtime.set.current();
            let views: Vec<Arc<View>> = self.keyspaces.iter().map(|state| state.view()).collect();
            let is_one = views.iter().all(|view| Arc::ptr_eq(&view.version, &version));
            if is_one || tries.next().is_none() {
                return (views, version);
            }
        }
    }

    /// Lists files that are open but were deleted from the directory, with the bytes they take.
    fn nameless(&self) -> Vec<(String, u64)> {
        let held = self.runtime.set.tables().files.held();
        let nameless = held.into_iter().filter(|(_, file)| file.links().is_ok_and(|n| n == 0));
        let told = |(path, file): (PathBuf, Arc<dyn File>)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, file.allocated().unwrap_or(0))
        };
        nameless.map(told).collect()
    }
}

impl Walked {
    fn keyspace(
        &mut self,
        runtime: &Runtime,
        name: &str,
        view: &View,
        (seqno, snapshots): (u64, &[u64]),
    ) -> Result<()> {
        let tables = || view.levels.tables().map(|(_, table)| &table.meta);
        let mut space = KeyspaceSpace {
            name: name.to_owned(),
            tables: tables().count() as u64,
            table_bytes: tables().map(|meta| meta.bytes).sum(),
            table_entries: tables().map(|meta| meta.summary.entries).sum(),
            ..KeyspaceSpace::default()
        };
        let (tallies, old_versions) = (&mut self.tallies, &mut self.old_versions);
        walk(runtime, view, seqno, snapshots, &mut |seen| {
            let bytes = match seen.stored {
                StoredPlace::Inline(bytes) => bytes,
                StoredPlace::Record(pointer) => {
                    tallies.add(pointer, seen.only_by.is_some());
                    // Only key and value count, as in the bounds of space.
                    u64::from(pointer.length).saturating_sub(MIN_RECORD_BYTES as u64)
                }
            };
            match (seen.only_by, seen.stored) {
                (Some(snapshot), _) => {
                    let sum = old_versions.entry(snapshot).or_default();
                    (sum.0, sum.1) = (sum.0 + 1, sum.1 + bytes);
                    space.pinned_entries += 1;
                    space.pinned_bytes += bytes;
                    return;
                }
                (None, StoredPlace::Inline(_)) => space.inline_bytes += bytes,
                (None, StoredPlace::Record(_)) => space.separated_bytes += bytes,
            }
            space.entries += 1;
        })?;
        self.live_bytes += space.live_bytes();
        self.keyspaces.push(space);
        Ok(())
    }
}

/// Sums up what the blocks of all files hold.
fn parts(files: &[FileFacts], segments: &[SegmentSpace]) -> SpaceParts {
    let mut parts = SpaceParts::default();
    for file in files {
        let allocated = file.measure.allocated;
        let segment = match file.named {
            FileName::Segment(id) => row_of(segments, id),
            _ => None,
        };
        match (file.standing, file.named, segment) {
            (Standing::Live, FileName::Segment(_), Some(segment)) => {
                // Live bytes are capped by what is allocated: the file system may compress, or
                // bytes may be in a buffer still.
                let live = segment.live_bytes.min(allocated);
                let pinned = segment.pinned_bytes.min(allocated - live);
                parts.live += live;
                parts.pinned += pinned;
                let rest = allocated - live - pinned;
                *if segment.replay { &mut parts.log } else { &mut parts.garbage } += rest;
            }
            (Standing::Live, FileName::Table(_), _) => parts.tree += allocated,
            (Standing::Live, ..) => parts.metadata += allocated,
            (Standing::Obsolete, ..) => parts.obsolete += allocated,
            (Standing::Unnamed | Standing::Aside | Standing::Foreign, ..) => {
                parts.other += allocated;
            }
        }
    }
    parts
}

/// Sums up the files by class.
fn classes(files: &[FileFacts], version: &Version) -> Vec<ClassSpace> {
    let class_of = |file: &FileFacts| match file.named {
        FileName::Table(_) => FileClass::Tables,
        FileName::Segment(id) if is_log(version, id) => FileClass::Log,
        FileName::Segment(_) => FileClass::Segments,
        FileName::Relocation(_) => FileClass::Relocations,
        FileName::Manifest(_) | FileName::Fixed | FileName::Note => FileClass::Manifest,
        FileName::Aside(_) | FileName::Foreign => FileClass::Other,
    };
    let sum = |&class| {
        let mut sum = ClassSpace { class, files: 0, allocated: 0, length: 0, shared: 0 };
        for file in files.iter().filter(|file| class_of(file) == class) {
            sum.files += 1;
            sum.allocated += file.measure.allocated;
            sum.length += file.measure.len;
            sum.shared += if file.measure.links > 1 { file.measure.allocated } else { 0 };
        }
        sum
    };
    let classes: Vec<_> = FileClass::ALL.iter().map(sum).filter(|class| class.files > 0).collect();
    let counted: u64 = classes.iter().map(|class| class.files).sum();
    assert_eq!(counted, files.len() as u64, "each file is in one class");
    classes
}

/// Returns the row of a segment; rows are sorted by id.
fn row_of(segments: &[SegmentSpace], id: SegmentId) -> Option<&SegmentSpace> {
    let index = segments.binary_search_by_key(&id.0, |segment| segment.id).ok()?;
    segments.get(index)
}

/// Returns true if recovery would replay this segment.
fn is_log(version: &Version, id: SegmentId) -> bool {
    let Some(live) = version.segments.get(&id) else {
        return false;
    };
    let is_log = live.handle.segment.kind() == crate::segment::SegmentKind::Log;
    is_log && (id >= version.head.segment || live.sealed.is_none())
}

//! Explains space: [`Db::space`] reports where every block of the store is and what it holds.
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
mod table;
#[cfg(test)]
mod tests;
mod walk;

use crate::base::error::Result;
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::db::Db;
use crate::segment::MIN_RECORD_BYTES;
use crate::version::Version;
use crate::version::files::names::FileName;
use crate::version::view::{KeyspaceState, View};
use files::{FileFacts, Standing, by_path};
use holders::OldVersions;
use report::{ClassSpace, FileClass, KeyspaceSpace, SegmentSpace, SpaceParts, SpaceReport};
use segments::Tallies;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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

impl Db {
    /// Reports where the blocks of the database are, what they hold, and who keeps what from being
    /// freed.
    ///
    /// Costs a read of every table, past the cache, and a measurement of each file; values are not
    /// read. Writers and readers go on meanwhile; what they do while the report is made may show in
    /// one of its numbers and not in another.
    pub fn space(&self) -> Result<SpaceReport> {
        let core = &self.core;
        core.check_open()?;
        // The sequence number is taken first: the views then hold everything up to it.
        let seqno = core.snapshots.visible();
        let snapshots = core.snapshots.list();
        let states = core.states();
        let (views, version) = self.one_moment(&states);
        let purge = &core.set.tables().purge;
        let read: BTreeSet<_> = purge.still_read().into_iter().collect();
        let obsolete = read.iter().cloned().chain(purge.unread()).collect();
        let files = files::measure(&core.env, &core.dir, &version, &obsolete)?;
        let by_path = by_path(&files);
        let mut walked = Walked {
            keyspaces: Vec::new(),
            tallies: Tallies::new(&version, &by_path, &core.log_ends),
            old_versions: OldVersions::new(),
            live_bytes: 0,
        };
        for (state, view) in states.iter().zip(&views) {
            walked.keyspace(&state.name, view, seqno, &snapshots)?;
        }
        let mut segments = walked.tallies.into_segments(core.env.clock.wall());
        let parts = parts(&files, &segments);
        let pinned: u64 = walked.old_versions.values().map(|(_, bytes)| bytes).sum();
        let is_paused = core.background.gc_paused().load(Ordering::Relaxed);
        let policy = reason::policy(&core.options.gc, is_paused);
        let fault_of = |segment| core.background.gc_fault(segment);
        reason::give(&mut segments, &parts, walked.live_bytes + pinned, &policy, &fault_of);
        let names = |id: KeyspaceId| {
            let known = states.iter().find(|state| state.id == id);
            known.map_or_else(|| format!("dropped keyspace {id}"), |state| state.name.clone())
        };
        let read: Vec<&FileFacts> = files.iter().filter(|file| read.contains(&file.path)).collect();
        let holders = core.snapshots.pins.holders();
        let now = core.env.clock.now();
        let holders = holders::account(&holders, &read, &walked.old_versions, &names, now);
        let mut warnings = drift::find(drift::Books {
            version: &version,
            files: &by_path,
            segments: &segments,
            read_only: core.options.read_only,
            nameless: self.nameless(),
        });
        warnings.extend(core.background.gc_warnings());
        Ok(SpaceReport {
            seqno,
            allocated: parts.total(),
            live_bytes: walked.live_bytes,
            hole_bytes: segments.iter().map(|segment| segment.hole_bytes).sum(),
            target: Some(core.options.gc.max_space_amplification),
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
    fn one_moment(&self, states: &[Arc<KeyspaceState>]) -> (Vec<Arc<View>>, Arc<Version>) {
        let mut tries = 0..MAX_TRIES;
        loop {
            let version = self.core.set.current();
            let views: Vec<Arc<View>> = states.iter().map(|state| state.view()).collect();
            let is_one = views.iter().all(|view| Arc::ptr_eq(&view.version, &version));
            if is_one || tries.next().is_none() {
                return (views, version);
            }
        }
    }

    /// Lists files that are open but were deleted from the directory, with the bytes they take.
    fn nameless(&self) -> Vec<(String, u64)> {
        let held = self.core.set.tables().files.held();
        let nameless = held.into_iter().filter(|(_, file)| file.links().is_ok_and(|n| n == 0));
        let told = |(path, file): (std::path::PathBuf, Arc<dyn crate::env::fs::File>)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, file.allocated().unwrap_or(0))
        };
        nameless.map(told).collect()
    }
}

impl Walked {
    fn keyspace(&mut self, name: &str, view: &View, seqno: u64, snapshots: &[u64]) -> Result<()> {
        let tables = || view.levels.tables().map(|(_, table)| &table.meta);
        let mut space = KeyspaceSpace {
            name: name.to_owned(),
            tables: tables().count() as u64,
            table_bytes: tables().map(|meta| meta.bytes).sum(),
            table_entries: tables().map(|meta| meta.summary.entries).sum(),
            ..KeyspaceSpace::default()
        };
        let (tallies, old_versions) = (&mut self.tallies, &mut self.old_versions);
        walk(view, seqno, snapshots, &mut |seen| {
            let bytes = match seen.stored {
                StoredPlace::Inline(bytes) => bytes,
                StoredPlace::Record(pointer) => {
                    tallies.add(pointer, seen.only_by.is_some());
                    // Only key and value count, as in the space target.
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
        FileName::Manifest(_) | FileName::Fixed => FileClass::Manifest,
        FileName::Aside(_) | FileName::Foreign => FileClass::Other,
    };
    let sum = |class| {
        let mut sum = ClassSpace { class, files: 0, allocated: 0, length: 0, shared: 0 };
        for file in files.iter().filter(|file| class_of(file) == class) {
            sum.files += 1;
            sum.allocated += file.measure.allocated;
            sum.length += file.measure.len;
            sum.shared += if file.measure.links > 1 { file.measure.allocated } else { 0 };
        }
        sum
    };
    FileClass::ALL.map(sum).into_iter().filter(|class| class.files > 0).collect()
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

//! Relocation: the live records of some segments move to a new sorted segment, and the old segments
//! are freed. The tree is not written: for each freed segment a relocation file says where its
//! records are.
//!
//! Run (no lock): copy, sync, write the relocations, sync, sync the directory. Install: one edit
//! adds the new segment, removes the old ones and adds their relocations. A crash before the edit
//! leaves orphans. A crash after it leaves segments that nothing names, which the next opening
//! removes, too (I5: they are unlinked here only once no reader holds them).
//!
//! One hop: older relocations that lead into a freed segment are rewritten, so that each leads
//! straight to the present place of its records. Garbage in that segment is left out of them. From
//! then on "relocated, but not listed" proves that an entry is hidden for good, because the
//! liveness scan found it hidden by durable entries (I4, I6).
//!
//! Nobody waits: writers never touch closed segments, readers hold theirs, and compactions go on
//! (the pointers that they install are resolved by relocations, which stay while an older version
//! is alive).

use crate::base::error::{Error, IoContext, Result};
use crate::base::pointer::{RelocationId, SegmentId, ValuePointer};
use crate::costly_check;
use crate::env::fs::File;
use crate::gc::copying::{self, CopySource, Moved};
use crate::gc::loading::CopyMemory;
use crate::gc::overwritten::Overwritten;
use crate::gc::record_list::RecordList;
use crate::gc::victim_reader::{Failure, VictimReader};
use crate::relocation::{RelocationMeta, RelocationWriter};
use crate::segment::SegmentKind;
use crate::throttle::reads::IoPriority;
use crate::version::edit::{Change, Edit};
use crate::version::files::{RelocationHandle, names};
use crate::version::runtime::Runtime;
use crate::version::segment_output::{NewSegments, SegmentOutput};
use crate::version::{Version, hole_bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// A segment to free, with its live records in the order of keys. Records that are not in the list
/// are lost: the list must be that of a liveness scan that counted the segment.
#[derive(Debug, Clone)]
pub struct VictimRecords {
    /// The id of the segment.
    pub id: SegmentId,
    /// The records that a liveness scan found live in it.
    pub list: RecordList,
}

/// The results of relocations and of declared holes, as counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct MoveReport {
    /// Number of segments freed.
    pub segments: u64,
    /// Bytes of the freed segments, without those that were in holes already.
    pub bytes_freed: u64,
    /// Number of segments in which holes are made instead.
    pub segments_punched: u64,
    /// Bytes of those holes; they come back once nobody reads an older version.
    pub bytes_punched: u64,
    /// Number of records moved.
    pub records: u64,
    /// Bytes written to the new segment.
    pub bytes_moved: u64,
    /// Bytes read from the old segments.
    pub bytes_read: u64,
    /// Bytes of relocation files written.
    pub relocation_bytes: u64,
}

impl MoveReport {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &MoveReport) {
        self.segments += other.segments;
        self.bytes_freed += other.bytes_freed;
        self.segments_punched += other.segments_punched;
        self.bytes_punched += other.bytes_punched;
        self.records += other.records;
        self.bytes_moved += other.bytes_moved;
        self.bytes_read += other.bytes_read;
        self.relocation_bytes += other.relocation_bytes;
    }
}

/// Frees the victims that still exist. Records that are `overwritten` by now are not moved. What is
/// moved is loaded into `memory`.
pub fn run(
    context: &Runtime,
    victims: &[VictimRecords],
    overwritten: &Overwritten,
    memory: CopyMemory<'_>,
) -> Result<MoveReport, Failure> {
    let version = context.set.current();
    let mut job = Job::new(context, &version);
    let ids: BTreeSet<_> = victims.iter().map(|victim| victim.id).collect();
    assert_eq!(ids.len(), victims.len(), "a segment is freed once");
    let mut sources = Vec::new();
    for victim in victims {
        // A segment that died as a whole meanwhile is skipped.
        let live = version.segments.get(&victim.id).filter(|live| live.sealed.is_some());
        if let Some(live) = live {
            let is_sorted = live.handle.segment.kind() == SegmentKind::Sorted;
            assert!(
                is_sorted || victim.id < version.head.segment,
                "I5: replay may need segment {}, so it is not freed",
                victim.id
            );
            let length = live.sealed.unwrap_or_default();
            job.report.bytes_freed += length.saturating_sub(hole_bytes(&live.holes));
            let reader = VictimReader::open(context, live.handle.clone())?;
            sources.push(CopySource::new(reader, &victim.list));
        }
    }
    if sources.is_empty() {
        return Ok(MoveReport::default());
    }
    job.report.segments = sources.len() as u64;
    job.copy(&mut sources, overwritten, memory)?;
    let moved: BTreeMap<SegmentId, Vec<Moved>> =
        sources.into_iter().map(|source| (source.reader.handle.id(), source.moved)).collect();
    job.write_relocations(moved)?;
    Ok(job.install()?)
}

/// A relocation under way.
struct Job<'a> {
    context: &'a Runtime,
    version: &'a Version,
    /// The new segment, if anything was moved.
    output: Option<SegmentOutput<'a>>,
    freed: Vec<SegmentId>,
    /// The relocations of the freed segments, and the rewritten ones.
    metas: Vec<RelocationMeta>,
    /// The older relocations that are replaced.
    replaced: Vec<Arc<RelocationHandle>>,
    /// The relocation files.
    created: Vec<PathBuf>,
    report: MoveReport,
    installed: bool,
}

impl<'a> Job<'a> {
    fn new(context: &'a Runtime, version: &'a Version) -> Self {
        Job {
            context,
            version,
            output: None,
            freed: Vec::new(),
            metas: Vec::new(),
            replaced: Vec::new(),
            created: Vec::new(),
            report: MoveReport::default(),
            installed: false,
        }
    }

    /// Copies the live records, if there are any, and makes the copy durable.
    fn copy(
        &mut self,
        sources: &mut [CopySource<'_>],
        overwritten: &Overwritten,
        memory: CopyMemory<'_>,
    ) -> Result<(), Failure> {
        let mut output = SegmentOutput::new(self.context, u64::MAX, IoPriority::Gc);
        self.report.bytes_read =
            copying::copy(self.context, sources, overwritten, &mut output, memory)?;
        self.report.records = sources.iter().map(|source| source.moved.len() as u64).sum();
        if self.report.records > 0 {
            output.finish()?;
            self.output = Some(output);
        }
        // Otherwise nothing was live, or all records died meanwhile. If there is a file, it goes.
        Ok(())
    }

    fn write_relocations(
        &mut self,
        mut moved: BTreeMap<SegmentId, Vec<Moved>>,
    ) -> Result<(), Failure> {
        for list in moved.values_mut() {
            list.sort_unstable_by_key(|moved| moved.from);
        }
        for (&segment, list) in &moved {
            self.freed.push(segment);
            let mut output = RelocationOutput { segment, open: None };
            for Moved { from, to } in list {
                output.add(self, *from, *to)?;
            }
            self.end(output)?;
        }
        for older in self.version.relocations.values() {
            if older.meta.targets.keys().any(|target| moved.contains_key(target)) {
                self.compose(older, &moved)?;
                self.replaced.push(older.clone());
            }
        }
        if self.created.is_empty() && self.output.is_none() {
            return Ok(());
        }
        let dir = &self.context.set.tables().dir;
        // A crash before this is done leaves orphans, or nothing at all.
        let synced = self.context.env.fs.sync_dir(dir).doing("sync the directory", dir);
        synced.map_err(|error| self.context.health.fail(&error).into())
    }

    /// Rewrites an older relocation: entries that led to a freed segment lead to the present place
    /// of their records. If it can't be read, the segments that it leads to can't be freed, but
    /// others can.
    fn compose(
        &mut self,
        older: &RelocationHandle,
        moved: &BTreeMap<SegmentId, Vec<Moved>>,
    ) -> Result<(), Failure> {
        let Some(table) = read(older.table(), older, moved)? else {
            return Ok(());
        };
        let mut output = RelocationOutput { segment: older.meta.segment, open: None };
        let mut written = Ok(());
        let walked = table.for_each(|from, segment, offset, length| {
            let to = match moved.get(&segment) {
                None => Some(ValuePointer { segment, offset, length }),
                Some(list) => {
                    let found = list.binary_search_by_key(&offset, |moved| moved.from);
                    found.ok().map(|index| list[index].to)
                }
            };
            written = to.map_or(Ok(()), |to| output.add(self, from, to));
            written.clone()
        });
        // An error of writing, such as a full disk, is not attributed to a segment.
        written?;
        read(walked, older, moved)?;
        Ok(self.end(output)?)
    }

    fn end(&mut self, output: RelocationOutput) -> Result<()> {
        let Some((writer, file)) = output.open else {
            self.metas.push(RelocationMeta::empty(output.segment));
            return Ok(());
        };
        let meta = writer.finish()?;
        // I3: what the edit points to is durable before the edit. A crash here leaves an orphan.
        let path = names::relocation(&self.context.set.tables().dir, meta.id);
        let synced = file.sync().doing("sync what was relocated", &path);
        // I8: it is unknown what the device holds of this file, and perhaps of others.
        synced.map_err(|error| self.context.health.fail(&error))?;
        self.report.relocation_bytes += meta.bytes;
        self.metas.push(meta);
        Ok(())
    }

    fn install(mut self) -> Result<MoveReport> {
        costly_check!(
            "I3",
            self.freed.iter().all(|id| self.metas.iter().any(|meta| meta.segment == *id)),
            "a segment is freed without a relocation"
        );
        assert_eq!(
            self.output.is_some(),
            self.report.records > 0,
            "I3: records that were moved are in the new segment"
        );
        let NewSegments { mut changes, handles, bytes } =
            self.output.as_ref().map(SegmentOutput::segments).unwrap_or_default();
        self.report.bytes_moved = bytes;
        let add = |meta: RelocationMeta| Change::AddRelocation { meta: Arc::new(meta) };
        changes.extend(self.metas.drain(..).map(add));
        let (freed, replaced) = (&self.freed, &self.replaced);
        let plan = |version: &Version| {
            check_unchanged(version, replaced)?;
            // A segment that died as a whole meanwhile is gone already; its relocation is needless.
            let there = freed.iter().filter(|id| version.segments.contains_key(id));
            changes.extend(there.map(|&id| Change::RemoveSegment { id }));
            Ok(Edit::new(changes))
        };
        self.context.set.apply(plan, &handles, None)?;
        self.output.take().into_iter().for_each(SegmentOutput::keep);
        self.installed = true;
        Ok(self.report)
    }
}

/// Attributes an error of reading an older relocation to the freed segments that it leads to.
fn read<T>(
    outcome: Result<T>,
    older: &RelocationHandle,
    moved: &BTreeMap<SegmentId, Vec<Moved>>,
) -> Result<T, Failure> {
    outcome.map_err(|error| {
        let led_to = older.meta.targets.keys().filter(|target| moved.contains_key(target));
        Failure::of(led_to.copied().collect(), error)
    })
}

/// Checks that the older relocations did not change: only jobs of this room remove relocations, and
/// one of them runs at a time.
fn check_unchanged(version: &Version, replaced: &[Arc<RelocationHandle>]) -> Result<()> {
    let same = replaced.iter().all(|older| {
        let now = version.relocations.get(&older.meta.segment);
        now.is_some_and(|now| Arc::ptr_eq(now, older))
    });
    if same {
        return Ok(());
    }
    Err(Error::wrong_state("the relocations changed while segments were relocated"))
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if !self.installed {
            self.context.set.discard(&self.created);
        }
    }
}

/// A relocation file that is created with its first entry.
struct RelocationOutput {
    segment: SegmentId,
    open: Option<(RelocationWriter, Arc<dyn File>)>,
}

impl RelocationOutput {
    fn add(&mut self, job: &mut Job<'_>, from: u64, to: ValuePointer) -> Result<()> {
        if self.open.is_none() {
            self.open = Some(self.create(job)?);
        }
        let (writer, _) = self.open.as_mut().expect("created just now");
        writer.add(from, to.segment, to.offset, to.length)
    }

    fn create(&self, job: &mut Job<'_>) -> Result<(RelocationWriter, Arc<dyn File>)> {
        let context = job.context;
        let tables = context.set.tables();
        let id = RelocationId(context.set.allocate()?);
        let path = names::relocation(&tables.dir, id);
        let file = context.env.fs.create(&path).doing("create a relocation", &path)?;
        job.created.push(path.clone());
        let database = tables.identity.id;
        let writer = RelocationWriter::create(file.clone(), path, database, id, self.segment);
        Ok((writer, file))
    }
}

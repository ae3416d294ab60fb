//! Runs a picked compaction: merges the inputs, drops entries that no reader sees, writes the
//! outputs, and installs them with one edit.

use crate::base::entry::Payload;
use crate::base::error::{Error, Result};
use crate::base::iter::EntryIter;
use crate::base::key::{SeqNo, Trailer};
use crate::compaction::convert::MovedValues;
use crate::compaction::early;
use crate::compaction::filtering::{FilterReport, Filtered, Filtering};
use crate::compaction::homing::{Homing, HomingRoom};
use crate::compaction::operands::OperandMerger;
use crate::compaction::output::{TableOutput, UpdateNotes};
use crate::compaction::picker::{Pick, span};
use crate::compaction::redirect::{Redirect, Redirected};
use crate::compaction::retain::{Retain, RetainDecision};
use crate::compaction::stale;
use crate::read::input::SortedRunIter;
use crate::read::level_iter::{LevelIter, ReadMode};
use crate::read::merge::MergeIter;
use crate::table::TableMeta;
use crate::throttle::reads::IoPriority;
use crate::version::Version;
use crate::version::edit::{Change, Edit};
use crate::version::files::TableHandle;
use crate::version::job::{JobError, JobResult};
use crate::version::levels::{LEVELS, Levels, bounds, level0_runs_of};
use crate::version::runtime::Runtime;
use crate::version::segment_output::NewSegments;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::KeyspaceState;
use std::sync::Arc;

/// The result of a compaction.
#[derive(Debug, Default, Clone)]
pub struct CompactionReport {
    /// Bytes of the inputs, and of the records whose values were read to be moved.
    pub bytes_read: u64,
    /// Bytes of the tables written.
    pub bytes_written: u64,
    /// Bytes of values written to a sorted segment.
    pub values_written: u64,
    /// Entries dropped because no reader could see them.
    pub dropped: u64,
    /// Those of them that were dropped because of newer entries that the job did not read.
    pub superseded: u64,
    /// The bytes of these, their separated values included.
    pub superseded_bytes: u64,
    /// True if the tables were moved without being read.
    pub moved: bool,
    /// What the keyspace's filter decided.
    pub filter: FilterReport,
    /// The values that moved to where the settings say.
    pub moved_values: MovedValues,
    /// The tables that were written.
    pub outputs: Vec<Arc<TableMeta>>,
    /// The last user key whose values were moved, if a piece of values ended before the last entry.
    pub moved_until: Option<Vec<u8>>,
}

/// The number of entries between two checks whether the database is closing.
const CLOSING_CHECK_ENTRIES: u32 = 4096;

/// Hands the entries of `input` that must be kept to `add`, in order. `merger` merges operands, in
/// a keyspace with an operator.
pub fn copy<B: FnMut(&[u8]) -> bool>(
    runtime: &Runtime,
    input: &mut MergeIter,
    retain: &mut Retain<'_, B>,
    redirect: &mut Redirect,
    merger: Option<&mut OperandMerger<'_>>,
    add: impl FnMut(&[u8], Trailer, &[u8]) -> JobResult,
) -> JobResult {
    copy_filtered(runtime, input, retain, redirect, (merger, None), add)
}

/// Does as [`copy`], but asks a filter about values that no snapshot sees.
fn copy_filtered<B: FnMut(&[u8]) -> bool>(
    runtime: &Runtime,
    input: &mut MergeIter,
    retain: &mut Retain<'_, B>,
    redirect: &mut Redirect,
    (mut merger, mut filtering): (Option<&mut OperandMerger<'_>>, Option<&mut Filtering<'_>>),
    mut add: impl FnMut(&[u8], Trailer, &[u8]) -> JobResult,
) -> JobResult {
    let mut until_check = CLOSING_CHECK_ENTRIES;
    let mut expired = Vec::new();
    Payload::EXPIRED.encode(&mut expired);
    input.seek_to_first()?;
    while input.valid() {
        let (key, trailer, payload) = (input.user_key(), input.trailer(), input.payload());
        let decision = retain.judge(key, trailer, payload)?;
        let is_taken = match &mut merger {
            Some(merger) if merger.is_open() || trailer.kind()?.is_merge() => {
                merger.take(decision, retain, redirect, (key, trailer, payload), &mut add)?
            }
            _ => false,
        };
        match decision {
            _ if is_taken => {}
            RetainDecision::Keep => {
                if let Redirected::Stays(payload) = redirect.entry(trailer, payload)? {
                    let filtered = match &mut filtering {
                        Some(it) if retain.may_change() => {
                            it.ask(key, trailer, payload, || retain.needs_tombstone(key))?
                        }
                        _ => Filtered::Stays,
                    };
                    match filtered {
                        Filtered::Stays => add(key, trailer, payload)?,
                        Filtered::Becomes(trailer, payload) => add(key, trailer, payload)?,
                        Filtered::Goes => {}
                    }
                }
            }
            RetainDecision::Expired => {
                let kind = Payload::EXPIRED.kind();
                add(key, Trailer::new(trailer.seqno(), kind), &expired)?
            }
            RetainDecision::Drop => {}
        }
        input.next()?;
        until_check -= 1;
        if until_check == 0 {
            runtime.check_closing()?;
            until_check = CLOSING_CHECK_ENTRIES;
        }
    }
    match merger {
        Some(merger) => merger.close(&mut add),
        None => Ok(()),
    }
}

/// Returns the inputs of `pick`, merged.
fn inputs(pick: &Pick, levels: &Levels) -> Result<MergeIter> {
    let order = levels.order().clone();
    let mode = ReadMode::FullScan;
    let mut inputs = Vec::new();
    if pick.level == 0 {
        for run in level0_runs_of(&pick.inputs) {
            inputs.push(SortedRunIter::level0(&order, run, mode)?);
        }
    } else {
        inputs.push(SortedRunIter::Level(LevelIter::new(order.clone(), pick.inputs.clone(), mode)));
    }
    inputs.push(SortedRunIter::Level(LevelIter::new(order.clone(), pick.below.clone(), mode)));
    Ok(MergeIter::new(order, inputs))
}

/// Runs `pick`, which was made for the tables `levels` of `keyspace`. Values move to where the
/// settings say if there is `room`.
pub fn run(
    runtime: &Runtime,
    keyspace: &Arc<KeyspaceState>,
    levels: &Levels,
    pick: &Pick,
    seen: SeenSeqnos,
    room: Option<HomingRoom<'_>>,
) -> JobResult<CompactionReport> {
    let down = pick.output_level.checked_sub(pick.level);
    assert!(down.is_some_and(|down| down <= 1), "I6: entries go down level by level");
    assert!(pick.output_level < LEVELS && !pick.inputs.is_empty(), "nothing to compact");
    // I6: a crash before the edit leaves what nobody sees; after it, its files, which the next
    // opening removes.
    if let Some(changes) = stale::unread(levels, pick, &seen) {
        let segments = NewSegments { changes, ..NewSegments::default() };
        install(runtime, keyspace, pick, &[], segments, None)?;
        return Ok(CompactionReport { dropped: pick.input_entries(), ..Default::default() });
    }
    if pick.is_move(&keyspace.order, &keyspace.options()) {
        let metas: Vec<_> = pick.inputs.iter().map(|table| table.meta.clone()).collect();
        install(runtime, keyspace, pick, &metas, NewSegments::default(), None)?;
        return Ok(CompactionReport { moved: true, ..Default::default() });
    }
    let is_deepest = levels.deepest().is_none_or(|deepest| deepest <= pick.output_level);
    let homing = room.and_then(|room| Homing::of(runtime, keyspace, is_deepest, room));
    let is_filtered = runtime.filters.contains_key(&keyspace.name);
    if !is_filtered && keyspace.merging().is_none() {
        let rewrite = prepare(runtime, keyspace, levels, pick, seen, &runtime.set.current())?;
        return rewrite.run(CopySteps { homing, ..CopySteps::default() });
    }
    // The view's version resolves pointers, also those of values that the filter asks for or that
    // are merged. It keeps the segments from being removed meanwhile.
    let view = keyspace.view();
    if let Err(dropped) = keyspace.check() {
        return Err(JobError::Obsolete(dropped));
    }
    let rewrite = prepare(runtime, keyspace, levels, pick, seen, &view.version)?;
    let merger = OperandMerger::of(runtime, keyspace, &view, IoPriority::Compaction);
    let filtering = is_filtered.then(|| Filtering::new(runtime, keyspace, view, pick.output_level));
    rewrite.run(CopySteps { merger, filtering, homing })
}

/// What a compaction does to the entries that it copies, in this order.
#[derive(Default)]
struct CopySteps<'a> {
    merger: Option<OperandMerger<'a>>,
    filtering: Option<Filtering<'a>>,
    homing: Option<Homing<'a>>,
}

/// A compaction that rewrites tables: what it reads, what it keeps of that, and where that goes.
pub struct Rewrite<'a, B> {
    runtime: &'a Runtime,
    keyspace: &'a KeyspaceState,
    pick: &'a Pick,
    /// The entries of all inputs, merged.
    pub input: MergeIter,
    /// The decision about each entry.
    pub retain: Retain<'a, B>,
    /// The resolver of pointers.
    pub redirect: Redirect,
    /// The new tables.
    pub output: TableOutput<'a>,
    filter: FilterReport,
    /// The values that moved to where the settings say.
    pub moved_values: MovedValues,
}

/// Prepares the rewriting of the inputs of `pick`, which was made for the tables `levels` of
/// `keyspace`. Pointers are resolved with the relocations and holes of `version`.
pub fn prepare<'a>(
    runtime: &'a Runtime,
    keyspace: &'a KeyspaceState,
    levels: &'a Levels,
    pick: &'a Pick,
    seen: SeenSeqnos,
    version: &Version,
) -> Result<Rewrite<'a, impl FnMut(&[u8]) -> bool + use<'a>>> {
    // I6: entries older than the inputs are below the output level, or were there when the job was
    // picked; nothing older can arrive meanwhile, because no other job may touch these keys in the
    // two levels.
    let is_bottom = move |key: &[u8]| {
        pick.output_level + 1 >= LEVELS || !levels.may_hold_from(pick.output_level + 1, key)
    };
    let notes = early::notes(&runtime.hot.scores(), pick);
    let mut retain =
        Retain::new(keyspace.order.clone(), seen, is_bottom).with_ranges([levels.ranges().clone()]);
    if notes == UpdateNotes::Moves {
        retain = retain.with_update_table(&runtime.hot, keyspace.id, || keyspace.flushed());
    }
    let options = keyspace.options().clone();
    let (split, priority) = (options.table_bytes, IoPriority::Compaction);
    let mut output = TableOutput::new(runtime, keyspace, &options, split, priority).noting(notes);
    if levels.deepest().is_some_and(|deepest| deepest > pick.output_level) {
        output = output.above_deepest();
    }
    if let Some((low, high)) = span(levels.order(), pick.tables())
        && pick.output_level + 1 < LEVELS
    {
        let next = levels.overlapping(pick.output_level + 1, &low, &high);
        output = output.ending_at(next.iter().map(|table| bounds(table).0.to_vec()).collect());
    }
    output.applying(retain.applied_ranges());
    let (redirect, input) = (Redirect::new(version), inputs(pick, levels)?);
    let (filter, moved_values) = (FilterReport::default(), MovedValues::default());
    Ok(Rewrite { runtime, keyspace, pick, input, retain, redirect, output, filter, moved_values })
}

impl<B: FnMut(&[u8]) -> bool> Rewrite<'_, B> {
    /// Writes the entries that must be kept, after these steps, and installs the result. Separated
    /// values stay where they are unless a step changes or moves them.
    fn run(mut self, steps: CopySteps<'_>) -> JobResult<CompactionReport> {
        let CopySteps { mut merger, mut filtering, mut homing } = steps;
        let Rewrite { runtime, input, retain, redirect, output, .. } = &mut self;
        let asked = (merger.as_mut(), filtering.as_mut());
        copy_filtered(runtime, input, retain, redirect, asked, |key, trailer, payload| {
            let at_home = match &mut homing {
                Some(homing) => homing.entry(key, trailer, payload)?,
                None => None,
            };
            let (trailer, payload) = at_home.unwrap_or((trailer, payload));
            output.add(key, trailer, payload)
        })?;
        self.filter = filtering.as_ref().map_or(self.filter, |filtering| filtering.report);
        let (mut segments, filtered) = match filtering {
            Some(it) => it.finish().map(|(segments, values)| (segments, Some(values)))?,
            None => (NewSegments::default(), None),
        };
        let merged = OperandMerger::finish(merger, &mut segments)?;
        let moved_out;
        (self.moved_values, moved_out) = Homing::finish(homing, &mut segments)?;
        self.install(segments, || {
            [filtered, merged, moved_out].into_iter().flatten().for_each(|it| it.keep())
        })
    }

    /// Replaces the inputs by the new tables with one edit, which adds `segments` too, and calls
    /// `keep` once these are named.
    pub fn install(
        mut self,
        mut segments: NewSegments,
        keep: impl FnOnce(),
    ) -> JobResult<CompactionReport> {
        let (tables, values_written) = (self.output.finish()?, segments.bytes);
        segments.changes.extend(self.retain.expiry_change());
        let changed_from = self.filter.oldest;
        install(self.runtime, self.keyspace, self.pick, &tables, segments, changed_from)?;
        keep();
        self.output.keep();
        Ok(CompactionReport {
            bytes_read: self.pick.bytes() + self.moved_values.bytes_read,
            bytes_written: tables.iter().map(|meta| meta.bytes).sum(),
            values_written,
            dropped: self.retain.dropped() + self.redirect.dropped(),
            superseded: self.retain.superseded(),
            superseded_bytes: self.retain.superseded_bytes(),
            filter: self.filter,
            moved_values: self.moved_values,
            outputs: tables,
            ..CompactionReport::default()
        })
    }
}

/// Replaces the inputs of `pick` by `tables` with one edit, which adds the new segments first. A
/// filter changed entries from the number `changed_from` on, if any.
fn install(
    runtime: &Runtime,
    keyspace: &KeyspaceState,
    pick: &Pick,
    tables: &[Arc<TableMeta>],
    segments: NewSegments,
    changed_from: Option<SeqNo>,
) -> JobResult {
    let mut is_dropped = false;
    let plan = |version: &Version| {
        is_dropped = version.keyspace(keyspace.id).is_none();
        if is_dropped {
            return Ok(Edit::new(Vec::new()));
        }
        let removed = |level: usize, tables: &[Arc<TableHandle>]| {
            let remove = |table: &Arc<TableHandle>| Change::RemoveTable {
                keyspace: keyspace.id,
                level,
                id: table.meta.id,
            };
            tables.iter().map(remove).collect::<Vec<_>>()
        };
        let mut changes = segments.changes;
        changes.extend(removed(pick.level, &pick.inputs));
        changes.extend(removed(pick.output_level, &pick.below));
        changes.extend(tables.iter().map(|meta| Change::AddTable {
            keyspace: keyspace.id,
            level: pick.output_level,
            meta: meta.clone(),
        }));
        Ok(Edit::new(changes))
    };
    let filtered = changed_from.map(|oldest| (keyspace.id, oldest, &*runtime.snapshots));
    runtime.set.apply_filtered(plan, &segments.handles, None, filtered)?;
    if is_dropped {
        return Err(JobError::Obsolete(Error::keyspace_dropped(&keyspace.name)));
    }
    Ok(())
}

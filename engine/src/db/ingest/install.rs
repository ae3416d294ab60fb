//! Has the tables of an ingest take effect: with a number of their own, by one edit.
//!
//! I6: of each key, what is above is newer. So no older entry of the range may be in a memtable,
//! and each table goes to the deepest level that has no table with such keys, nor has any level
//! above it, and to which no running compaction is about to add one. What is older and in memtables
//! is flushed first, without any lock; under the lock of the log is only looked whether more came
//! since. If that happens again and again, the keyspace's writers wait for one flush.

use super::IngestReport;
use super::existing::without_existing;
use super::ingestion::IngestOutput;
use crate::background::SpanClaim;
use crate::base::bounds::Bounds;
use crate::base::error::{Error, Result};
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, MAX_SEQNO, SeqNo, Trailer};
use crate::commit::ingest::IngestOutcome;
use crate::compaction::output::TableOutput;
use crate::compaction::picker::KeySpan;
use crate::db::Core;
use crate::db::keyspace::Keyspace;
use crate::events::Event;
use crate::table::TableMeta;
use crate::version::edit::{Change, Edit};
use crate::version::levels::{LEVELS, Levels, bounds};
use crate::version::segment_output::NewSegments;
use crate::version::settings::KeyspaceOptions;
use crate::version::view::View;
use crate::version::{LogPosition, Version};
use std::sync::Arc;

/// After this many rounds in which somebody wrote to the range meanwhile, writers wait.
const ROUNDS_BEFORE_GATE: usize = 3;

/// The tables that are to take effect, all of them synced.
pub(super) struct NewTables<'a> {
    pub(super) metas: Vec<Arc<TableMeta>>,
    pub(super) output: IngestOutput<'a>,
    pub(super) entries: u64,
    /// Deletions among the entries.
    pub(super) deletes: u64,
    pub(super) skipped: u64,
}

/// The place where they take effect.
pub(super) struct Install<'a> {
    pub(super) core: &'a Core,
    pub(super) keyspace: &'a Keyspace,
    pub(super) settings: &'a KeyspaceOptions,
    pub(super) below: bool,
    /// It is called when the tables are in place and their number is not visible yet.
    pub(super) after_edit: &'a dyn Fn(),
}

/// Tables that replace those of an ingest, without the keys that have a value already.
struct CheckedTables<'a> {
    metas: Vec<Arc<TableMeta>>,
    /// The files of `metas`, if these are not those of the ingest.
    output: Option<TableOutput<'a>>,
    /// Up to this number, all keys that have a value are left out.
    seqno: SeqNo,
    entries: u64,
}

/// Returns the least and the greatest key of tables in order; `None` if there are none.
fn span_of(metas: &[Arc<TableMeta>]) -> Option<KeySpan> {
    let (first, last) = (metas.first()?, metas.last()?);
    Some((first.summary.smallest_key().to_vec(), last.summary.largest_key().to_vec()))
}

/// Returns true if a memtable of `view` has an entry of a key within `span`.
fn is_in_memory(view: &View, order: &KeyOrder, span: &KeySpan) -> Result<bool> {
    for memtable in view.memtables() {
        let mut entries = memtable.table.iter();
        entries.seek(&span.0, Trailer::seek(MAX_SEQNO))?;
        if entries.valid() && order.compare(entries.user_key(), &span.1).is_le() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if a table may have an entry within `span` from after `seqno`.
fn has_newer(levels: &Levels, span: &KeySpan, seqno: SeqNo) -> bool {
    let order = levels.order();
    levels.tables().any(|(_, table)| {
        let (low, high) = bounds(table);
        table.meta.summary.max_seqno > seqno
            && order.compare(low, &span.1).is_le()
            && order.compare(high, &span.0).is_ge()
    })
}

/// Returns the changes that add the tables at `seqno`, and the highest level that gets one.
fn additions(
    keyspace: &Keyspace,
    levels: &Levels,
    metas: &[Arc<TableMeta>],
    claim: &SpanClaim<'_>,
    seqno: SeqNo,
) -> Result<(Vec<Change>, usize)> {
    let (order, mut highest) = (levels.order(), LEVELS);
    let mut changes = Vec::with_capacity(metas.len());
    for meta in metas {
        let (low, high) = (meta.summary.smallest_key(), meta.summary.largest_key());
        let is_free = |level: usize| {
            !claim.running.iter().any(|(output, (first, last))| {
                *output == level
                    && order.compare(first, high).is_le()
                    && order.compare(last, low).is_ge()
            })
        };
        let level = levels.deepest_above(low, high, is_free);
        highest = highest.min(level);
        let meta = Arc::new(TableMeta::clone(meta).ingested(seqno)?);
        changes.push(Change::AddTable { keyspace: keyspace.state.id, level, meta });
    }
    Ok((changes, highest))
}

impl<'a> Install<'a> {
    /// Has `new` take effect. On an error its files are removed, and nothing has changed.
    pub(super) fn run(&self, new: NewTables<'a>) -> Result<IngestReport> {
        let NewTables { metas, output, entries, deletes, skipped } = new;
        let mut report = IngestReport { entries, skipped, ..IngestReport::default() };
        let begun = self.core.env.clock.now();
        let mut checked = CheckedTables { metas, output: None, seqno: MAX_SEQNO, entries };
        if self.below {
            checked.seqno = 0;
        }
        let segments = output.segments.segments();
        let Some(seqno) = self.commit(&mut checked, &segments, &mut report)? else {
            // Every key had a value, or there was none; the files are removed.
            report.entries = 0;
            return Ok(report);
        };
        report.seqno = Some(seqno);
        output.segments.keep();
        match checked.output.take() {
            Some(other) => {
                other.keep();
                drop(output.tables);
            }
            None => output.tables.keep(),
        }
        let counters = &self.core.counters;
        counters.ingests.add(1);
        counters.entries_ingested.add(report.entries);
        counters.deletes_ingested.add(deletes);
        counters.ingest_bytes_written.add(report.bytes_written);
        self.core.emit(Event::Ingested {
            keyspace: self.keyspace.name().to_owned(),
            entries: report.entries,
            tables: report.tables,
            bytes_written: report.bytes_written,
            level: report.level,
            took: self.core.env.clock.since(begun),
        });
        self.core.background.wake();
        Ok(report)
    }

    /// Tries to commit until nobody has written to the range meanwhile; returns the number of the
    /// ingest, or `None` if no key is left.
    fn commit(
        &self,
        checked: &mut CheckedTables<'a>,
        segments: &NewSegments,
        report: &mut IngestReport,
    ) -> Result<Option<SeqNo>> {
        let (core, state) = (self.core, &self.keyspace.state);
        let own = checked.metas.clone();
        let mut gate = None;
        for round in 0.. {
            core.check_open()?;
            core.runtime.check_closing()?;
            if round == ROUNDS_BEFORE_GATE {
                gate = Some(core.committer.stall_controller().close_gate(state.id));
            }
            let Some(span) = span_of(&own) else { return Ok(None) };
            if is_in_memory(&state.view(), &state.order, &span)? {
                core.flush(std::slice::from_ref(state))?;
            }
            let is_behind = || has_newer(&state.view().levels, &span, checked.seqno);
            if self.below && (round == 0 || is_behind()) {
                // What was left out once stays so.
                let seqno = core.snapshots.visible();
                let found = without_existing(core, self.keyspace, self.settings, &checked.metas)?;
                checked.seqno = seqno;
                if let Some((output, metas, left)) = found {
                    report.skipped += checked.entries - left;
                    (checked.metas, checked.output, checked.entries) = (metas, Some(output), left);
                }
            }
            let Some(span) = span_of(&checked.metas) else { return Ok(None) };
            if let Some(seqno) = self.try_commit(checked, segments, &span, report)? {
                drop(gate);
                report.entries = checked.entries;
                return Ok(Some(seqno));
            }
        }
        unreachable!("once the gate is closed, the writers that were admitted come to an end")
    }

    /// Commits unless somebody wrote to `span` meanwhile.
    fn try_commit(
        &self,
        checked: &CheckedTables<'a>,
        segments: &NewSegments,
        span: &KeySpan,
        report: &mut IngestReport,
    ) -> Result<Option<SeqNo>> {
        let (core, state) = (self.core, &self.keyspace.state);
        let (lower, upper) = (Some(span.0.clone()), Some(span.1.clone()));
        let range = Bounds { lower, upper, open_lower: false, closed_upper: true };
        let claim = core.background.claim_span(state, (&span.0, &span.1));
        let may_commit = || {
            let view = state.view();
            let is_newer = has_newer(&view.levels, span, checked.seqno);
            Ok(!is_newer && !is_in_memory(&view, &state.order, span)?)
        };
        let mut level = 0;
        let install = |seqno: SeqNo, head: Option<LogPosition>| {
            let plan = |version: &Version| {
                let Some(known) = version.keyspace(state.id) else {
                    return Err(Error::keyspace_dropped(&state.name));
                };
                let mut changes = segments.changes.clone();
                let (added, highest) =
                    additions(self.keyspace, &known.levels, &checked.metas, &claim, seqno)?;
                changes.extend(added);
                level = highest;
                changes.extend(head.filter(|head| *head > version.head).map(Change::Head));
                Ok(Edit::new(changes))
            };
            // A crash before the edit is durable leaves orphans, after it, all of the ingest.
            core.set.apply(plan, &segments.handles, None).map(|_| (self.after_edit)())
        };
        let tables: Vec<_> = checked.metas.iter().map(|meta| meta.id).collect();
        let outcome = core.committer.commit_ingest(state, &range, &tables, may_commit, install)?;
        let IngestOutcome::Committed(seqno, ()) = outcome else { return Ok(None) };
        let bytes: u64 = checked.metas.iter().map(|meta| meta.bytes).sum();
        report.bytes_written = bytes + segments.bytes;
        (report.tables, report.level) = (checked.metas.len() as u64, level);
        Ok(Some(seqno))
    }
}

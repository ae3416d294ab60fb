//! What the log says of ingests: their numbers, and whether a table that no edit names can be of
//! one that took effect.
//!
//! The record of an ingest is durable before the edit that adds its tables, and these are written
//! before. So a table without a record was given up, and must not take effect now (I6), unless the
//! record was in a part of the log that is gone.

use crate::base::key::SeqNo;
use crate::base::pointer::{SegmentId, TableId};
use crate::repair::segments::{FoundSegment, log_end};
use crate::segment::{RecordKind, RecordView};
use std::collections::{BTreeMap, BTreeSet};

/// The record of an ingest.
pub struct LoggedIngest {
    /// Its number.
    pub seqno: SeqNo,
    tables: Vec<TableId>,
}

impl LoggedIngest {
    /// Returns what `record` says of an ingest, if it does.
    pub fn of(record: &RecordView<'_>) -> Option<LoggedIngest> {
        let of_ingest = Some(record).filter(|record| record.kind == RecordKind::Ingest)?;
        Some(LoggedIngest { seqno: record.seqno, tables: of_ingest.ingested_tables().ok()? })
    }
}

/// What is known of a table of an ingest that no edit names.
#[derive(Debug, PartialEq, Eq)]
pub enum Trace {
    /// The log has the record of its ingest, which got this number.
    Logged(SeqNo),
    /// The log has none, and would have it.
    GivenUp,
    /// The log may have lost it.
    Unknown,
}

/// The ingests of the log.
#[derive(Default)]
pub struct LoggedIngests {
    ingests: Vec<LoggedIngest>,
    /// The log still has the record of each ingest whose tables have ids above this one; `None` if
    /// that is certain of none.
    complete_above: Option<SegmentId>,
}

impl LoggedIngests {
    /// Takes the ingests out of `segments`. `lost` are those whose heads are lost.
    pub fn take(
        segments: &mut BTreeMap<SegmentId, FoundSegment>,
        lost: &BTreeSet<SegmentId>,
    ) -> LoggedIngests {
        let end = log_end(segments, lost, 0);
        let is_whole = end.iter().all(|found| found.is_whole);
        // A segment may get its id while the one before it is still in use. So what was logged
        // after the second got its own is in these segments; the very first has none before it.
        let begin = match end.as_slice() {
            [first, ..] if first.head.previous.is_none() => Some(first.head.id),
            [_, second, ..] => Some(second.head.id),
            _ => None,
        };
        let complete_above = begin.filter(|_| is_whole);
        let ingests = segments.values_mut().flat_map(|found| std::mem::take(&mut found.ingests));
        LoggedIngests { ingests: ingests.collect(), complete_above }
    }

    /// Returns the numbers of the ingests.
    pub fn seqnos(&self) -> BTreeSet<SeqNo> {
        self.ingests.iter().map(|ingest| ingest.seqno).collect()
    }

    /// Returns what is known of a table of an ingest.
    pub fn trace(&self, table: TableId) -> Trace {
        let ingest = self.ingests.iter().find(|ingest| ingest.tables.contains(&table));
        match (ingest, self.complete_above) {
            (Some(ingest), _) => Trace::Logged(ingest.seqno),
            (None, Some(segment)) if table.0 > segment.0 => Trace::GivenUp,
            (None, _) => Trace::Unknown,
        }
    }
}

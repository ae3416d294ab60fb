//! What the log says of ingests: their numbers, and whether a table that no edit names can be of
//! one that took effect.
//!
//! The record of an ingest is durable before the edit that adds its tables, and these are written
//! before. So a table without a record was given up, and must not take effect now (I6), unless the
//! record was in a part of the log that is gone.

use crate::base::bounds::Bounds;
use crate::base::key::{KeyOrder, SeqNo};
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::repair::sources::{FoundSegment, log_end};
use crate::segment::{RecordKind, RecordView};
use crate::table::TableMeta;
use std::collections::{BTreeMap, BTreeSet};

/// The record of an ingest.
pub struct LoggedIngest {
    keyspace: KeyspaceId,
    seqno: SeqNo,
    range: Bounds,
}

impl LoggedIngest {
    /// Returns what `record` says of an ingest, if it does.
    pub fn of(record: &RecordView<'_>) -> Option<LoggedIngest> {
        let of_ingest = Some(record).filter(|record| record.kind == RecordKind::Ingest)?;
        let (keyspace, seqno) = (record.keyspace, record.seqno);
        Some(LoggedIngest { keyspace, seqno, range: of_ingest.range().ok()? })
    }
}

/// What is known of a table of an ingest that no edit names.
#[derive(Debug, PartialEq, Eq)]
pub enum Trace {
    /// The log has a record that may be that of its ingest.
    Logged,
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
    /// Takes the ingests out of `segments`.
    pub fn take(segments: &mut BTreeMap<SegmentId, FoundSegment>) -> LoggedIngests {
        let end = log_end(segments);
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
    pub fn trace(&self, keyspace: KeyspaceId, order: &KeyOrder, table: &TableMeta) -> Trace {
        let (smallest, largest) = (table.summary.smallest_key(), table.summary.largest_key());
        let is_of = |it: &LoggedIngest| {
            it.keyspace == keyspace && it.range.covers(order, smallest, largest)
        };
        match self.complete_above {
            _ if self.ingests.iter().any(is_of) => Trace::Logged,
            Some(segment) if table.id.0 > segment.0 => Trace::GivenUp,
            _ => Trace::Unknown,
        }
    }
}

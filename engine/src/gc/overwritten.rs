//! Finds records that were overwritten or deleted since a liveness scan, from the newest entries
//! alone: those in memtables and in tables flushed since. Such a record is not moved: moving dead
//! bytes costs twice, once to write them and once more as garbage in their new place.
//!
//! The rules are those of `liveness_scan.rs`, and the order is: a durable sequence number, the
//! snapshots, the views. So a newer entry found here is durable (I4), and no snapshot sees the
//! older record, now or later (I6). The log is not synced for this: to move what its last
//! segments hide costs less than a sync for each relocation.
//!
//! Cost: a look-up in each memtable for each record that is about to be moved, and in the tables
//! flushed since, where filters spare most of the work.

use crate::base::entry::Payload;
use crate::base::error::Result;
use crate::base::key::{SeqNo, Trailer};
use crate::base::pointer::KeyspaceId;
use crate::commit::group::Committer;
use crate::segment::RecordView;
use crate::version::files::TableHandle;
use crate::version::job::JobResult;
use crate::version::snapshots::{Snapshots, is_seen};
use crate::version::view::View;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The newest entries of a database.
pub struct Overwritten {
    seqno: SeqNo,
    snapshots: Vec<SeqNo>,
    keyspaces: BTreeMap<KeyspaceId, Recent>,
}

/// The newest entries of one keyspace.
struct Recent {
    view: Arc<View>,
    /// Tables with entries newer than the liveness scan, newest first.
    flushed: Vec<Arc<TableHandle>>,
}

impl Overwritten {
    /// Collects the entries that are newer than `since`, the sequence number of a liveness scan.
    /// `views` returns a view of each keyspace.
    ///
    /// I4, I6: first a number is read up to which everything is durable, then the snapshots are
    /// listed, and the views are taken last.
    pub fn gather(
        since: SeqNo,
        committer: &Committer,
        snapshots: &Snapshots,
        views: impl FnOnce() -> JobResult<Vec<Arc<View>>>,
    ) -> JobResult<Overwritten> {
        let seqno = committer.log().durable();
        let snapshots = snapshots.list();
        assert!(since <= seqno, "I6: what is visible stays visible");
        assert!(snapshots.is_sorted(), "I6: snapshots are looked up by bisection");
        let recent = |view: Arc<View>| {
            let tables = view.levels.level(0).iter();
            let flushed = tables.filter(|table| table.meta.summary.max_seqno > since);
            (view.keyspace, Recent { flushed: flushed.cloned().collect(), view })
        };
        Ok(Overwritten { seqno, snapshots, keyspaces: views()?.into_iter().map(recent).collect() })
    }

    /// Returns true if nobody sees `record` any more, now or later. False may also mean that the
    /// newer entry is elsewhere; the next liveness scan will find it.
    pub fn hides(&self, record: &RecordView<'_>) -> Result<bool> {
        let Some(recent) = self.keyspaces.get(&record.keyspace) else {
            return Ok(false);
        };
        // I6: the number of an ingested record is not in it, so whatever is found may be its own
        // entry, or an older one.
        if record.seqno == 0 {
            return Ok(false);
        }
        let newest = recent.newest(record.key, self.seqno)?;
        let deleted = recent.view.newest_range(record.key, |it| it <= self.seqno);
        let newest = newest.max(deleted).filter(|&it| it > record.seqno);
        Ok(newest.is_some_and(|newest| !is_seen(&self.snapshots, record.seqno, newest)))
    }
}

impl Recent {
    /// Returns the sequence number of the newest entry of `key` at or below `seqno`. I4: an operand
    /// overwrites nothing, so if the newest entry is one, there is none.
    fn newest(&self, key: &[u8], seqno: SeqNo) -> Result<Option<SeqNo>> {
        for memtable in self.view.memtables() {
            let found_at = |trailer: Trailer, _: Payload<'_>| overwriting(trailer);
            if let Some(found) = memtable.table.get(key, seqno, found_at) {
                return found;
            }
        }
        let found_at = |trailer: Trailer, _: &[u8]| overwriting(trailer);
        for table in &self.flushed {
            if let Some(found) = table.table()?.get(key, seqno, true, found_at)? {
                return found;
            }
        }
        Ok(None)
    }
}

/// Returns the number of an entry, or `None` for an operand.
fn overwriting(trailer: Trailer) -> Result<Option<SeqNo>> {
    Ok((!trailer.kind()?.is_merge()).then_some(trailer.seqno()))
}

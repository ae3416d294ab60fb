//! The memtables that a follower fills: those that readers have, or new ones.

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, ValuePointer};
use crate::commit::replay::insert_record;
use crate::segment::{Frame, RecordKind, RecordView};
use crate::version::files::SegmentHandle;
use crate::version::view::{KeyspaceState, LoggedMemtable, NewMemtables};
use crate::version::{LogPosition, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A memtable is sealed at this part of the size at which the writer seals its own. The writer's
/// flushes end anywhere in it, and what is behind that place is copied.
const SEALED_PART: u64 = 4;

/// The memtables that frames of the log go to.
pub(super) struct FollowedTables {
    keyspaces: BTreeMap<KeyspaceId, Arc<KeyspaceState>>,
    /// The memtables that are filled beside those of the views; `None` if these are filled.
    new: Option<NewMemtables>,
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl FollowedTables {
    pub(super) fn new(keyspaces: Vec<Arc<KeyspaceState>>, anew: bool) -> FollowedTables {
        let keyspaces = keyspaces.into_iter().map(|state| (state.id, state)).collect();
        let new = anew.then(NewMemtables::new);
        FollowedTables { keyspaces, new, records: 0, bytes: 0 }
    }

    /// Adds keyspaces that are known by now.
    pub(super) fn admit(&mut self, keyspaces: Vec<Arc<KeyspaceState>>) {
        self.keyspaces.extend(keyspaces.into_iter().map(|state| (state.id, state)));
    }

    /// Returns the memtables that were filled beside those of the views.
    pub(super) fn into_new(self) -> Option<NewMemtables> {
        self.new
    }

    /// Inserts a frame. I1: nobody sees any of it before its last number is visible.
    pub(super) fn insert(
        &mut self,
        version: &Version,
        segment: &Arc<SegmentHandle>,
        frame: &Frame<'_>,
    ) -> Result<()> {
        // I7: the number is from a file.
        if frame.header.first_seqno == 0 {
            let what = "a frame of the log has the number 0, which no commit has";
            return Err(Error::corruption(what).at(frame.offset));
        }
        let at = LogPosition { segment: segment.id(), offset: frame.offset };
        for record in &frame.records {
            self.insert_one(version, segment, at, record)?;
            self.records += 1;
        }
        self.bytes += frame.end - frame.offset;
        // Between two commits, so that no view has a part of one.
        for record in &frame.records {
            self.seal_if_full(record.keyspace);
        }
        Ok(())
    }

    fn insert_one(
        &mut self,
        version: &Version,
        segment: &Arc<SegmentHandle>,
        at: LogPosition,
        record: &RecordView<'_>,
    ) -> Result<()> {
        // A record of a keyspace that was dropped since is skipped.
        let Some(state) = self.keyspaces.get(&record.keyspace) else { return Ok(()) };
        let view = state.view();
        // Readers of the present view need what only the next version has in tables.
        let known = if self.new.is_some() { version } else { &*view.version };
        let flushed = known.keyspace(state.id).map_or(SeqNo::MAX, |keyspace| keyspace.flushed);
        if record.seqno <= flushed || record.kind == RecordKind::Ingest {
            return Ok(());
        }
        let memtable = match &mut self.new {
            None => view.active.clone(),
            Some(new) => {
                let of_one = new.entry(state.id).or_default();
                if of_one.is_empty() {
                    of_one.push(new_memtable(state));
                }
                of_one[0].clone()
            }
        };
        let (offset, length) = (record.offset, record.length);
        let pointer = ValuePointer { segment: segment.id(), offset, length };
        memtable.note(at, 0, segment, record.seqno);
        insert_record(&memtable.table, record, pointer, &state.options())
    }

    fn seal_if_full(&mut self, id: KeyspaceId) {
        let Some(state) = self.keyspaces.get(&id) else { return };
        let most = state.options().memtable_bytes / SEALED_PART;
        match &mut self.new {
            None if state.peek().active.bytes() >= most => {
                state.rotate_memtable();
            }
            Some(new) => {
                let Some(of_one) = new.get_mut(&id) else { return };
                if of_one[0].bytes() >= most {
                    of_one.insert(0, new_memtable(state));
                }
            }
            None => {}
        }
    }
}

fn new_memtable(state: &KeyspaceState) -> Arc<LoggedMemtable> {
    let room = state.options().memtable_bytes / SEALED_PART;
    Arc::new(LoggedMemtable::with_room(state.order.clone(), room))
}

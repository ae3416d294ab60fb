//! What a transaction remembers until it ends: its own writes, and what it has read.

use crate::base::bounds::Bounds;
use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::expiry::Deadline;
use crate::base::key::{EntryKind, FIRST_OWN_SEQNO, KeyOrder, SeqNo, Trailer};
use crate::base::pointer::KeyspaceId;
use crate::commit::batch::Batch;
use crate::commit::conditions::KeyspaceReads;
use crate::commit::read_until::ReadUntil;
use crate::memtable::Memtable;
use crate::read::cursor::OwnEntries;
use crate::version::view::KeyspaceState;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A transaction may remember at most this many bytes of what it has read. Ranges are remembered by
/// their ends, so only hundreds of thousands of single keys take so much.
const MAX_READ_BYTES: usize = 64 << 20;
/// The approximate memory for a key or the end of a range besides its bytes.
const READ_OVERHEAD_BYTES: usize = 48;

/// A transaction's own writes in one keyspace as a sorted run, for cursors.
struct OwnRun {
    table: Arc<Memtable>,
    /// The operations before this one are in the table, as far as they are of this keyspace.
    next: usize,
}

/// What a transaction remembers of one keyspace.
struct KeyspaceWork {
    keyspace: Arc<KeyspaceState>,
    /// The last operation on each key that was written.
    last: FxHashMap<Box<[u8]>, usize>,
    /// Each operation that follows another one on the same key, with that one, in their order.
    replaced: Vec<(usize, usize)>,
    /// The ranges that were deleted, if any were; each has the number behind its operation's as
    /// sequence number.
    deleted: Option<Memtable>,
    run: Option<OwnRun>,
    read_keys: FxHashSet<Box<[u8]>>,
    /// Each is the part of the keyspace that one walk has seen since its last seek.
    read_ranges: Vec<Bounds>,
}

impl KeyspaceWork {
    fn new(keyspace: &Arc<KeyspaceState>) -> Self {
        KeyspaceWork {
            keyspace: keyspace.clone(),
            last: FxHashMap::default(),
            replaced: Vec::new(),
            deleted: None,
            run: None,
            read_keys: FxHashSet::default(),
            read_ranges: Vec::new(),
        }
    }
}

impl KeyspaceWork {
    /// Remembers that operation `number` deletes a range.
    fn note_deleted(&mut self, range: Arc<Bounds>, number: usize) {
        let order = &self.keyspace.order;
        let deleted = self.deleted.get_or_insert_with(|| Memtable::new(order.clone()));
        deleted.insert_range(range, number as u64 + 1);
    }
}

/// The work of a transaction that has not ended.
#[derive(Default)]
pub(super) struct TransactionWork {
    pub batch: Batch,
    /// The numbers of the operations that delete ranges.
    range_operations: Vec<usize>,
    keyspaces: Vec<KeyspaceWork>,
    /// The value that expires first of those that were read.
    pub until: Option<ReadUntil>,
    read_bytes: usize,
    /// True once what was read is not remembered any more, because it was too much.
    reads_too_much: bool,
}

impl TransactionWork {
    /// Returns an error if what was read is not remembered, so that no write can be committed.
    pub fn check_reads(&self) -> Result<()> {
        if !self.reads_too_much {
            return Ok(());
        }
        let mib = MAX_READ_BYTES >> 20;
        let message = format!("the transaction has read keys of more than {mib} MiB");
        Err(Error::new(ErrorKind::LimitReached, message)
            .advise("read a range instead of many keys, or make several transactions of it"))
    }

    fn of(&mut self, keyspace: &Arc<KeyspaceState>) -> &mut KeyspaceWork {
        let found = self.keyspaces.iter().position(|work| work.keyspace.id == keyspace.id);
        let index = found.unwrap_or_else(|| {
            self.keyspaces.push(KeyspaceWork::new(keyspace));
            self.keyspaces.len() - 1
        });
        &mut self.keyspaces[index]
    }

    /// Adds a put with its deadline, or a deletion if `value` is `None`.
    pub fn write(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
        value: Option<(&[u8], Option<Deadline>)>,
    ) -> Result<()> {
        match value {
            Some((value, deadline)) => self.batch.put(keyspace, key, value, deadline)?,
            None => self.batch.delete(keyspace, key)?,
        }
        self.note_write(keyspace, key);
        Ok(())
    }

    /// Adds a merge of an operand.
    pub fn merge(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        self.batch.merge(keyspace, key, operand)?;
        self.note_write(keyspace, key);
        Ok(())
    }

    /// Remembers that the last operation is on this key.
    fn note_write(&mut self, keyspace: &Arc<KeyspaceState>, key: &[u8]) {
        let operation = self.batch.len() - 1;
        let work = self.of(keyspace);
        if let Some(last) = work.last.get_mut(key) {
            work.replaced.push((operation, std::mem::replace(last, operation)));
        } else {
            work.last.insert(key.into(), operation);
        }
    }

    /// Adds the deletion of all keys of a range.
    pub fn delete_range(&mut self, keyspace: &Arc<KeyspaceState>, range: Bounds) -> Result<()> {
        let before = self.batch.len();
        self.batch.delete_range(keyspace, range)?;
        if self.batch.len() > before {
            let range = self.batch.range(before).expect("it was added").clone();
            self.of(keyspace).note_deleted(range, before);
            self.range_operations.push(before);
        }
        Ok(())
    }

    /// Takes back all operations from number `len` on.
    pub fn take_back(&mut self, len: usize) {
        let mut fewer_ranges = false;
        for operation in (len..self.batch.len()).rev() {
            if self.range_operations.pop_if(|last| *last == operation).is_some() {
                fewer_ranges = true;
                continue;
            }
            let (id, key) = (self.batch.keyspace(operation).id, self.batch.key(operation));
            let mut all = self.keyspaces.iter_mut();
            let work = all.find(|work| work.keyspace.id == id).expect("it was written to");
            match work.replaced.pop_if(|(by, _)| *by == operation) {
                Some((_, before)) => *work.last.get_mut(key).expect("it was written to") = before,
                None => drop(work.last.remove(key)),
            }
        }
        for work in &mut self.keyspaces {
            // The next operations get the numbers of those that are taken back.
            work.run.take_if(|run| run.next > len);
        }
        self.batch.truncate(len);
        if fewer_ranges {
            self.gather_ranges();
        }
    }

    /// Gathers the deleted ranges anew.
    fn gather_ranges(&mut self) {
        for work in &mut self.keyspaces {
            work.deleted = None;
        }
        for &operation in &self.range_operations {
            let range = self.batch.range(operation).expect("it deletes a range");
            let id = self.batch.keyspace(operation).id;
            let mut all = self.keyspaces.iter_mut();
            let work = all.find(|work| work.keyspace.id == id).expect("it was written to");
            work.note_deleted(range.clone(), operation);
        }
    }

    /// Returns the number of the last operation of the transaction on a key, or `None` if it did
    /// not write it.
    pub fn own_operation(&self, keyspace: KeyspaceId, key: &[u8]) -> Option<usize> {
        let work = self.keyspaces.iter().find(|work| work.keyspace.id == keyspace)?;
        let deleted = work.deleted.as_ref().and_then(|it| it.newest_range(key, |_| true));
        work.last.get(key).copied().max(deleted.map(|behind| behind as usize - 1))
    }

    /// Returns what [`Self::own_operation`] does, for a read of the key, which is remembered if it
    /// depends on what others have written.
    pub fn read_operation(&mut self, keyspace: &Arc<KeyspaceState>, key: &[u8]) -> Option<usize> {
        let operation = self.own_operation(keyspace.id, key);
        if operation.is_none_or(|it| self.is_merged_with_others(keyspace.id, key, it)) {
            self.note_key(keyspace, key);
        }
        operation
    }

    /// Returns true if `operation`, the last one on the key, is merged with what others have
    /// written: there are only operands of the transaction below it.
    pub fn is_merged_with_others(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        operation: usize,
    ) -> bool {
        if !self.batch.is_merge(operation) {
            return false;
        }
        let Some(work) = self.keyspaces.iter().find(|work| work.keyspace.id == keyspace) else {
            return false;
        };
        // The deletion of a range ends the chain of operands, as any other does.
        let deleted = work.deleted.as_ref().and_then(|it| it.newest_range(key, |_| true));
        let deleted = deleted.map(|behind| behind as usize - 1);
        let mut at = operation;
        loop {
            let before = work.replaced.binary_search_by_key(&at, |(by, _)| *by);
            match before.ok().map(|index| work.replaced[index].1) {
                Some(before) if Some(before) > deleted => {
                    if !self.batch.is_merge(before) {
                        return false;
                    }
                    at = before;
                }
                _ => return deleted.is_none(),
            }
        }
    }

    /// Returns the transaction's own writes in a keyspace so far, or `None` if there are none.
    pub fn own_entries(&mut self, keyspace: &Arc<KeyspaceState>) -> Result<Option<OwnEntries>> {
        let Some(work) = self.keyspaces.iter_mut().find(|work| work.keyspace.id == keyspace.id)
        else {
            return Ok(None);
        };
        if work.last.is_empty() && work.deleted.is_none() {
            return Ok(None);
        }
        let run = work.run.get_or_insert_with(|| OwnRun {
            table: Arc::new(Memtable::new(keyspace.order.clone())),
            next: 0,
        });
        let is_here = |&operation: &usize| self.batch.keyspace(operation).id == keyspace.id;
        for operation in (run.next..self.batch.len()).filter(is_here) {
            let (key, seqno) = (self.batch.key(operation), FIRST_OWN_SEQNO + operation as u64);
            if let Some(range) = self.batch.range(operation) {
                run.table.insert_range(range.clone(), seqno);
                continue;
            }
            match self.batch.value(operation)? {
                Some(operand) if self.batch.is_merge(operation) => {
                    let trailer = Trailer::new(seqno, EntryKind::Merge);
                    let payload = Payload::operand(Slot::Inline(&operand));
                    run.table.insert(key, trailer, payload);
                }
                Some(value) => {
                    let trailer = Trailer::new(seqno, EntryKind::Put);
                    run.table.insert(key, trailer, Slot::Inline(&value));
                }
                None => {
                    let trailer = Trailer::new(seqno, EntryKind::Delete);
                    run.table.insert(key, trailer, Slot::Delete);
                }
            }
        }
        run.next = self.batch.len();
        let last: SeqNo = FIRST_OWN_SEQNO + self.batch.len() as u64 - 1;
        Ok(Some(OwnEntries { table: run.table.clone(), last }))
    }

    /// Remembers that a key was read.
    pub fn note_key(&mut self, keyspace: &Arc<KeyspaceState>, key: &[u8]) {
        if self.reads_too_much {
            return;
        }
        let read = &mut self.of(keyspace).read_keys;
        if !read.contains(key) {
            read.insert(key.into());
            self.charge(key.len() + READ_OVERHEAD_BYTES);
        }
    }

    /// Remembers that a value was read that expires at `deadline`.
    pub fn note_deadline(&mut self, keyspace: &Arc<KeyspaceState>, key: &[u8], deadline: Deadline) {
        if !self.reads_too_much {
            ReadUntil::note(&mut self.until, keyspace, key, deadline);
        }
    }

    /// Remembers that a walk has seen `range`; returns the number under which it is extended.
    pub fn note_range(&mut self, keyspace: &Arc<KeyspaceState>, range: Bounds) -> usize {
        if self.reads_too_much {
            return 0;
        }
        let bytes = range_bytes(&range);
        let ranges = &mut self.of(keyspace).read_ranges;
        ranges.push(range);
        let number = ranges.len() - 1;
        self.charge(bytes);
        number
    }

    /// Remembers that the walk which saw range `number` went on, forward or backward, to the key
    /// `at`, or to the end of its `bounds`.
    pub fn extend_range(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        number: usize,
        forward: bool,
        at: Option<&[u8]>,
        bounds: &Bounds,
    ) {
        if !self.reads_too_much {
            let range = &mut self.of(keyspace).read_ranges[number];
            let before = range_bytes(range);
            extend(range, forward, at, bounds, &keyspace.order);
            let after = range_bytes(range);
            self.charge(after.saturating_sub(before));
        }
    }

    /// Counts memory for what was read, and forgets all of it once it is too much.
    fn charge(&mut self, bytes: usize) {
        self.read_bytes += bytes;
        if self.read_bytes > MAX_READ_BYTES {
            self.reads_too_much = true;
            for work in &mut self.keyspaces {
                (work.read_keys, work.read_ranges) = Default::default();
            }
            self.until = None;
        }
    }

    /// Returns what was read.
    pub fn take_reads(&mut self) -> Vec<KeyspaceReads<'static>> {
        let was_read =
            |work: &KeyspaceWork| !work.read_keys.is_empty() || !work.read_ranges.is_empty();
        let of = |work: KeyspaceWork| {
            KeyspaceReads::new(work.keyspace, work.read_keys, work.read_ranges)
        };
        self.keyspaces.drain(..).filter(was_read).map(of).collect()
    }
}

/// Returns the approximate memory that a range takes.
fn range_bytes(range: &Bounds) -> usize {
    range.bytes() + 2 * READ_OVERHEAD_BYTES
}

/// Extends a range forward or backward to the key `at`, or to the end of `bounds` if it is `None`.
/// A walk that turned around is within the range, which is then left as it is.
fn extend(range: &mut Bounds, forward: bool, at: Option<&[u8]>, bounds: &Bounds, order: &KeyOrder) {
    match (forward, at) {
        (true, Some(key)) => {
            if range.is_behind(order, key) {
                store(&mut range.upper, key);
                range.closed_upper = true;
            }
        }
        (true, None) => {
            (range.upper, range.closed_upper) = (bounds.upper.clone(), bounds.closed_upper);
        }
        (false, Some(key)) => {
            if range.is_before(order, key) {
                store(&mut range.lower, key);
                range.open_lower = false;
            }
        }
        (false, None) => {
            (range.lower, range.open_lower) = (bounds.lower.clone(), bounds.open_lower);
        }
    }
}

/// Stores `key` in the memory of the end that was there.
fn store(end: &mut Option<Vec<u8>>, key: &[u8]) {
    let end = end.get_or_insert_default();
    end.clear();
    end.extend_from_slice(key);
}

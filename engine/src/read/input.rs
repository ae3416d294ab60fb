//! The inputs of a merge: a memtable, a table, or a level below L0.
//!
//! `merge.rs` merges these for cursors, liveness scans, flushes and compactions. The kind of input
//! is dispatched by a branch, which is predicted, rather than by a virtual call: walks over keys
//! take an entry every few dozen nanoseconds.

use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, Trailer};
use crate::base::pointer::TableId;
use crate::base::range_tombstone::RangeTombstone;
use crate::memtable::MemtableIter;
use crate::read::level_iter::{LevelIter, ReadMode};
use crate::table::TableIter;
use crate::version::files::TableHandle;
use std::sync::Arc;

/// An iterator over one sorted run.
pub enum SortedRunIter {
    /// A memtable.
    Memtable(MemtableIter),
    /// One table of L0.
    Table(TableIter),
    /// A level below L0, or the tables of L0 that came with one ingest.
    Level(LevelIter),
}

macro_rules! of_each {
    ($input:expr, $iter:ident => $call:expr) => {
        match $input {
            SortedRunIter::Memtable($iter) => $call,
            SortedRunIter::Table($iter) => $call,
            SortedRunIter::Level($iter) => $call,
        }
    };
}

impl SortedRunIter {
    /// Returns an iterator over one sorted run of L0. A single table is opened now.
    pub fn level0(
        order: &KeyOrder,
        run: &[Arc<TableHandle>],
        mode: ReadMode,
    ) -> Result<SortedRunIter> {
        Ok(match run {
            [table] => SortedRunIter::Table(mode.iter(&*table.table()?)),
            _ => SortedRunIter::Level(LevelIter::new(order.clone(), run.to_vec(), mode)),
        })
    }

    /// Returns the bytes and the entries of the tables; none for a memtable.
    pub fn size(&self) -> (u64, u64) {
        match self {
            SortedRunIter::Memtable(_) => (0, 0),
            SortedRunIter::Table(iter) => iter.size(),
            SortedRunIter::Level(iter) => iter.size(),
        }
    }

    /// Sets the number of bytes that walks will probably read from the tables.
    pub fn expect(&mut self, bytes: u64) {
        match self {
            SortedRunIter::Memtable(_) => {}
            SortedRunIter::Table(iter) => iter.expect(bytes),
            SortedRunIter::Level(iter) => iter.expect(bytes),
        }
    }

    /// Returns the id of the table that holds the current entry; `None` for a memtable.
    pub fn table_id(&self) -> Option<TableId> {
        match self {
            SortedRunIter::Memtable(_) => None,
            SortedRunIter::Table(iter) => Some(iter.table_id()),
            SortedRunIter::Level(iter) => iter.table_id(),
        }
    }
}

impl EntryIter for SortedRunIter {
    #[inline]
    fn valid(&self) -> bool {
        of_each!(self, iter => iter.valid())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        of_each!(self, iter => iter.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        of_each!(self, iter => iter.seek_to_last())
    }

    fn seek(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        of_each!(self, iter => iter.seek(user_key, trailer))
    }

    fn seek_before(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        of_each!(self, iter => iter.seek_before(user_key, trailer))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        of_each!(self, iter => iter.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        of_each!(self, iter => iter.prev())
    }

    fn next_behind(&mut self, hidden: &RangeTombstone) -> Result<()> {
        of_each!(self, iter => iter.next_behind(hidden))
    }

    fn prev_before(&mut self, hidden: &RangeTombstone) -> Result<()> {
        of_each!(self, iter => iter.prev_before(hidden))
    }

    fn next_towards(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        of_each!(self, iter => iter.next_towards(user_key, trailer))
    }

    fn prev_towards(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        of_each!(self, iter => iter.prev_towards(user_key, trailer))
    }

    fn leave(&mut self) {
        of_each!(self, iter => iter.leave())
    }

    #[inline]
    fn user_key(&self) -> &[u8] {
        of_each!(self, iter => iter.user_key())
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        of_each!(self, iter => iter.trailer())
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        of_each!(self, iter => iter.payload())
    }
}

//! The iterator over a table, in both directions.
//!
//! Place in the data's way: a cursor or a compaction merges it with other iterators. An iterator
//! keeps its table alive, and with it the memory of index and filter. It holds one block, and reads
//! ahead (`read_ahead.rs`) once it moves from block to block.

use super::block::Block;
use super::block_iter::BlockIter;
use super::read_ahead::ReadAhead;
use super::reader::Table;
use crate::base::error::{Error, Result};
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, MAX_SEQNO, Trailer};
use crate::base::pointer::TableId;
use crate::base::range_tombstone::RangeTombstone;
use std::cmp::Ordering;
use std::sync::Arc;

/// An iterator that stands on an entry of a table or on none.
pub struct TableIter {
    table: Arc<Table>,
    fill_cache: bool,
    ahead: ReadAhead,
    /// The number of the block that `block` iterates over; `None` if no block is loaded.
    number: Option<usize>,
    block: BlockIter,
}

impl Table {
    /// Returns an iterator for a cursor, on no entry yet. Blocks are read through the cache; with
    /// `fill_cache` they are also inserted there.
    pub fn iter(self: &Arc<Self>, fill_cache: bool) -> TableIter {
        TableIter::new(Arc::clone(self), fill_cache, ReadAhead::default())
    }

    /// Returns an iterator for one pass over everything, such as a compaction's. It reads far ahead
    /// from the start and does not change the cache.
    pub fn full_scan(self: &Arc<Self>) -> TableIter {
        TableIter::new(Arc::clone(self), false, ReadAhead::whole_pass())
    }
}

impl TableIter {
    fn new(table: Arc<Table>, fill_cache: bool, ahead: ReadAhead) -> Self {
        TableIter { table, fill_cache, ahead, number: None, block: BlockIter::default() }
    }

    /// Returns the bytes and the entries of the table.
    pub fn size(&self) -> (u64, u64) {
        (self.table.meta.bytes, self.table.meta.summary.entries)
    }

    /// Returns the id of the table.
    pub fn table_id(&self) -> TableId {
        self.table.meta.id
    }

    /// Goes on with the walk of `other`, which has come to the end of its table, or to the
    /// beginning if `backward`: this one is read ahead from its first block on.
    pub fn continue_walk(&mut self, other: &TableIter, backward: bool) {
        self.ahead.continue_from(&other.ahead, self.table.blocks(), backward);
    }

    /// Returns true if the walk will probably come to the end of the table.
    pub fn is_long_walk(&self) -> bool {
        self.ahead.is_long()
    }

    /// Sets the number of bytes that walks will probably read from the table, each from the place
    /// of a seek on.
    pub fn expect(&mut self, bytes: u64) {
        self.ahead.expect(bytes);
    }

    /// Loads block `number` unless it is loaded already.
    fn enter(&mut self, number: usize) -> Result<()> {
        debug_assert!(number < self.table.blocks(), "there is no block {number}");
        if self.number == Some(number) {
            return Ok(());
        }
        self.number = None;
        let block = match self.table.pinned.get(number) {
            Some(block) => block,
            None => self.through_cache(number)?,
        };
        self.block.reset(block);
        self.number = Some(number);
        Ok(())
    }

    fn through_cache(&mut self, number: usize) -> Result<Block> {
        let handle = self.table.handle(number)?;
        match self.table.cached(handle, self.fill_cache)? {
            Some(block) => Ok(block),
            None => self.ahead.load(&self.table, number, handle, self.fill_cache),
        }
    }

    /// Moves to the first entry of block `number`, which must be less than [`Table::blocks`].
    pub fn seek_to_block(&mut self, number: usize) -> Result<()> {
        self.block.leave();
        self.enter(number)?;
        let stood = self.block.seek_to_first();
        self.placed(stood)
    }

    /// Moves to the next entry of the block, or to no entry if this is the last.
    pub fn next_in_block(&mut self) -> Result<()> {
        let stepped = self.block.next();
        self.placed(stepped)
    }

    /// Adds the place of the loaded block to an error, and makes the iterator invalid on error.
    fn placed(&mut self, result: Result<()>) -> Result<()> {
        result.map_err(|error| {
            self.leave();
            self.name(error)
        })
    }

    #[cold]
    fn name(&self, error: Error) -> Error {
        match self.number {
            Some(number) => self.table.in_block(error, number),
            None => error.in_file(self.table.path()),
        }
    }

    /// Returns the place of the current entry; later entries have larger ones.
    fn place(&self) -> (Option<usize>, usize) {
        debug_assert!(self.valid(), "the iterator stands on no entry");
        (self.number, self.block.offset())
    }

    /// I7: fails unless a search for an end of a range has led on from the place where it began.
    /// Damaged entries that are out of order can lead it back, and the walk would never end.
    fn check_went(&mut self, onward: Ordering, from: (Option<usize>, usize)) -> Result<()> {
        if !self.valid() || self.place().cmp(&from) == onward {
            return Ok(());
        }
        self.placed(Err(Error::corruption("the entries of a table are out of order")))
    }

    /// Returns true if the entries are stored without the number that they have.
    fn is_ingested(&self) -> bool {
        self.table.meta.ingested_at > 0
    }

    /// Moves to the first entry at or after the target in an ingested table, which has one entry of
    /// a key at most. I6: that one is passed over if its number is above the target's.
    fn seek_ingested(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        self.seek_stored(user_key, Trailer::seek(MAX_SEQNO))?;
        let is_before = self.valid()
            && self.trailer() > trailer
            && self.table.order.compare(self.user_key(), user_key).is_eq();
        if is_before { self.next() } else { Ok(()) }
    }

    /// Moves to the entry of the target's key in an ingested table, and returns true if there is
    /// one that sorts before the target.
    fn finds_before(&mut self, user_key: &[u8], trailer: Trailer) -> Result<bool> {
        self.seek_stored(user_key, Trailer::seek(MAX_SEQNO))?;
        let is_it = self.valid() && self.table.order.compare(self.user_key(), user_key).is_eq();
        Ok(is_it && self.trailer() > trailer)
    }

    /// Moves to the first entry whose stored form is at or after the target.
    fn seek_stored(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        self.leave();
        let Some(number) = self.table.block_for(user_key, trailer)? else {
            return Ok(());
        };
        self.enter(number)?;
        let stood = self.block.seek(&self.table.order, user_key, trailer);
        self.placed(stood)?;
        // The target may lie between the block's last entry and its bound.
        if self.block.valid() { Ok(()) } else { self.next_block() }
    }

    /// Moves to the last entry whose stored form is before the target.
    fn seek_stored_before(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        self.leave();
        let Some(number) = self.table.block_for(user_key, trailer)? else {
            return self.seek_to_last();
        };
        self.enter(number)?;
        let stood = self.block.seek_before(&self.table.order, user_key, trailer);
        self.placed(stood)?;
        if self.block.valid() { Ok(()) } else { self.prev_block() }
    }

    /// Moves to the first entry of the next block, or to no entry if there is none.
    fn next_block(&mut self) -> Result<()> {
        let behind = self.number.map_or(0, |number| number + 1);
        if behind >= self.table.blocks() {
            self.leave();
            return Ok(());
        }
        self.seek_to_block(behind)
    }

    /// Moves to the last entry of the previous block, or to no entry if there is none.
    fn prev_block(&mut self) -> Result<()> {
        self.leave();
        let Some(before) = self.number.and_then(|number| number.checked_sub(1)) else {
            return Ok(());
        };
        self.enter(before)?;
        let stood = self.block.seek_to_last();
        self.placed(stood)
    }
}

impl EntryIter for TableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.block.valid()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.leave();
        self.ahead.aim(false);
        self.seek_to_block(0)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.leave();
        self.ahead.aim(true);
        self.enter(self.table.blocks() - 1)?;
        let stood = self.block.seek_to_last();
        self.placed(stood)
    }

    fn seek(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        self.ahead.aim(false);
        if self.is_ingested() {
            return self.seek_ingested(user_key, trailer);
        }
        self.seek_stored(user_key, trailer)
    }

    fn seek_before(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        self.ahead.aim(true);
        if self.is_ingested() && self.finds_before(user_key, trailer)? {
            return Ok(());
        }
        let stored = if self.is_ingested() { Trailer::seek(MAX_SEQNO) } else { trailer };
        self.seek_stored_before(user_key, stored)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid(), "the iterator steps from no entry");
        let stepped = self.block.next();
        if stepped.is_err() {
            return self.placed(stepped);
        }
        if self.block.valid() { Ok(()) } else { self.next_block() }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid(), "the iterator steps from no entry");
        let stepped = self.block.prev();
        if stepped.is_err() {
            return self.placed(stepped);
        }
        if self.block.valid() { Ok(()) } else { self.prev_block() }
    }

    fn next_behind(&mut self, hidden: &RangeTombstone) -> Result<()> {
        let (summary, order) = (&self.table.meta.summary, &self.table.order);
        if summary.max_seqno >= hidden.seqno {
            return self.next();
        }
        if !hidden.range.is_behind(order, summary.largest_key()) {
            self.leave();
            return Ok(());
        }
        // A user's order may be none, and a search by it could go back.
        match order {
            KeyOrder::Bytewise => {
                let from = self.place();
                self.seek_cut(hidden.range.end())?;
                self.check_went(Ordering::Greater, from)
            }
            KeyOrder::Custom(_) => self.next(),
        }
    }

    fn prev_before(&mut self, hidden: &RangeTombstone) -> Result<()> {
        let (summary, order) = (&self.table.meta.summary, &self.table.order);
        if summary.max_seqno >= hidden.seqno {
            return self.prev();
        }
        if !hidden.range.is_before(order, summary.smallest_key()) {
            self.leave();
            return Ok(());
        }
        match order {
            KeyOrder::Bytewise => {
                let from = self.place();
                self.seek_before_cut(hidden.range.begin())?;
                self.check_went(Ordering::Less, from)
            }
            KeyOrder::Custom(_) => self.prev(),
        }
    }

    /// The loaded block is kept for a seek that needs it. I5: a file that the walk had for itself
    /// is closed, or an iterator at rest would keep it.
    fn leave(&mut self) {
        self.block.leave();
        self.ahead.end_walk();
    }

    #[inline]
    fn user_key(&self) -> &[u8] {
        debug_assert!(self.valid(), "the iterator stands on no entry");
        self.block.user_key()
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        debug_assert!(self.valid(), "the iterator stands on no entry");
        self.table.numbered(self.block.trailer())
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        debug_assert!(self.valid(), "the iterator stands on no entry");
        self.block.payload()
    }
}

//! An iterator over one level below L0: it walks the tables one after the other and opens each when
//! the walk reaches it.

use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, Trailer};
use crate::base::pointer::TableId;
use crate::base::range_tombstone::RangeTombstone;
use crate::table::Table;
use crate::table::TableIter;
use crate::version::files::TableHandle;
use crate::version::levels::{Levels, bounds};
use std::sync::Arc;

/// The way in which the blocks of tables are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// Block by block, through the cache.
    Cached,
    /// Block by block; blocks that are not in the cache are not added to it.
    Uncached,
    /// One pass over all blocks, with long readahead and bypassing the cache.
    FullScan,
}

impl ReadMode {
    /// Returns an iterator over one table.
    pub fn iter(self, table: &Arc<Table>) -> TableIter {
        match self {
            ReadMode::Cached => table.iter(true),
            ReadMode::Uncached => table.iter(false),
            ReadMode::FullScan => table.full_scan(),
        }
    }
}

/// The tables of a walk.
enum WalkedTables {
    /// All of this level. A cursor counts no handles then: for 27 tables, these were 54 counts that
    /// threads contended for.
    Level(Arc<Levels>, usize),
    Some(Vec<Arc<TableHandle>>),
}

impl WalkedTables {
    fn all(&self) -> &[Arc<TableHandle>] {
        match self {
            WalkedTables::Level(levels, level) => levels.level(*level),
            WalkedTables::Some(tables) => tables,
        }
    }
}

/// An iterator over disjoint, sorted tables.
pub struct LevelIter {
    order: KeyOrder,
    tables: WalkedTables,
    mode: ReadMode,
    open: Option<(usize, TableIter)>,
    /// The number of bytes that walks will probably read; zero if it is unknown.
    expected: u64,
}

impl LevelIter {
    /// Creates an iterator over `tables`, which must be sorted by key and disjoint.
    pub fn new(order: KeyOrder, tables: Vec<Arc<TableHandle>>, mode: ReadMode) -> Self {
        let tables = WalkedTables::Some(tables);
        LevelIter { order, tables, mode, open: None, expected: 0 }
    }

    /// Creates an iterator over all tables of a level below L0.
    pub fn of_level(levels: &Arc<Levels>, level: usize, mode: ReadMode) -> Self {
        debug_assert!(level > 0, "tables of L0 overlap");
        let (order, tables) = (levels.order().clone(), WalkedTables::Level(levels.clone(), level));
        LevelIter { order, tables, mode, open: None, expected: 0 }
    }

    /// Returns the bytes and the entries of all tables.
    pub fn size(&self) -> (u64, u64) {
        let metas = self.tables.all().iter().map(|table| &table.meta);
        // I7: the numbers are from files.
        metas.fold((0, 0), |(bytes, entries), meta| {
            (bytes.saturating_add(meta.bytes), entries.saturating_add(meta.summary.entries))
        })
    }

    /// Sets the number of bytes that walks will probably read, each from the place of a seek on.
    pub fn expect(&mut self, bytes: u64) {
        self.expected = bytes;
        if let Some((_, iter)) = &mut self.open {
            iter.expect(bytes);
        }
    }

    /// Returns the id of the table that the walk is in, if it is in one.
    pub fn table_id(&self) -> Option<TableId> {
        self.open.as_ref().map(|(_, iter)| iter.table_id())
    }

    /// Opens table `index` unless it is open; returns false if there is no such table.
    fn open(&mut self, index: Option<usize>) -> Result<bool> {
        let Some(handle) = index.and_then(|index| self.tables.all().get(index)) else {
            self.open = None;
            return Ok(false);
        };
        let index = index.unwrap_or_default();
        if self.open.as_ref().is_none_or(|(open, _)| *open != index) {
            self.open = None;
            let mut iter = self.mode.iter(&*handle.table()?);
            iter.expect(self.expected);
            self.open = Some((index, iter));
        }
        Ok(true)
    }

    fn iter(&mut self) -> &mut TableIter {
        &mut self.open.as_mut().expect("a table is open").1
    }

    /// Goes on with the walk of `left` in the open table. A long walk has the system begin to read
    /// the table behind that, number `next`, or it would wait for it to be opened.
    fn continue_walk(&mut self, left: &TableIter, next: Option<usize>, backward: bool) {
        self.iter().continue_walk(left, backward);
        if self.iter().is_long_walk()
            && let Some(next) = next.and_then(|next| self.tables.all().get(next))
        {
            next.start_walk(backward);
        }
    }

    /// Moves from the end of a table to the first entry of the next table that has one.
    fn skip_forward(&mut self) -> Result<()> {
        while let Some((index, left)) = self.open.take_if(|(_, iter)| !iter.valid()) {
            if self.open(Some(index + 1))? {
                self.continue_walk(&left, Some(index + 2), false);
                self.iter().seek_to_first()?;
            }
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while let Some((index, left)) = self.open.take_if(|(_, iter)| !iter.valid()) {
            if self.open(index.checked_sub(1))? {
                self.continue_walk(&left, index.checked_sub(2), true);
                self.iter().seek_to_last()?;
            }
        }
        Ok(())
    }
}

/// Returns true if `hidden` hides all entries of a table.
fn hides_all(hidden: &RangeTombstone, order: &KeyOrder, table: &TableHandle) -> bool {
    let (smallest, largest) = bounds(table);
    table.meta.summary.max_seqno < hidden.seqno && hidden.range.covers(order, smallest, largest)
}

impl EntryIter for LevelIter {
    #[inline]
    fn valid(&self) -> bool {
        self.open.as_ref().is_some_and(|(_, iter)| iter.valid())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        if self.open(Some(0))? {
            self.iter().seek_to_first()?;
        }
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        if self.open(self.tables.all().len().checked_sub(1))? {
            self.iter().seek_to_last()?;
        }
        self.skip_backward()
    }

    fn seek(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        let order = &self.order;
        let index = self
            .tables
            .all()
            .partition_point(|table| order.compare(bounds(table).1, user_key).is_lt());
        if self.open(Some(index))? {
            self.iter().seek(user_key, trailer)?;
        }
        self.skip_forward()
    }

    fn seek_before(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        let order = &self.order;
        let behind = self
            .tables
            .all()
            .partition_point(|table| order.compare(bounds(table).0, user_key).is_le());
        if self.open(behind.checked_sub(1))? {
            self.iter().seek_before(user_key, trailer)?;
        }
        self.skip_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.iter().next()?;
        self.skip_forward()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.iter().prev()?;
        self.skip_backward()
    }

    /// Tables that are hidden as a whole are passed over without being opened.
    fn next_behind(&mut self, hidden: &RangeTombstone) -> Result<()> {
        self.iter().next_behind(hidden)?;
        let Some((index, iter)) = &self.open else { return Ok(()) };
        if iter.valid() {
            return Ok(());
        }
        let mut next = index + 1;
        while self.tables.all().get(next).is_some_and(|table| hides_all(hidden, &self.order, table))
        {
            next += 1;
        }
        if self.open(Some(next))? {
            let begins_within = {
                let table = &self.tables.all()[next];
                table.meta.summary.max_seqno < hidden.seqno
                    && !hidden.range.is_behind(&self.order, bounds(table).0)
            };
            match self.order {
                KeyOrder::Bytewise if begins_within => self.iter().seek_cut(hidden.range.end())?,
                _ => self.iter().seek_to_first()?,
            }
        }
        self.skip_forward()
    }

    fn prev_before(&mut self, hidden: &RangeTombstone) -> Result<()> {
        self.iter().prev_before(hidden)?;
        let Some((index, iter)) = &self.open else { return Ok(()) };
        if iter.valid() {
            return Ok(());
        }
        let mut before = *index;
        while before > 0 && hides_all(hidden, &self.order, &self.tables.all()[before - 1]) {
            before -= 1;
        }
        if self.open(before.checked_sub(1))? {
            let ends_within = {
                let table = &self.tables.all()[before - 1];
                table.meta.summary.max_seqno < hidden.seqno
                    && !hidden.range.is_before(&self.order, bounds(table).1)
            };
            match self.order {
                KeyOrder::Bytewise if ends_within => {
                    self.iter().seek_before_cut(hidden.range.begin())?
                }
                _ => self.iter().seek_to_last()?,
            }
        }
        self.skip_backward()
    }

    fn leave(&mut self) {
        self.open = None;
    }

    #[inline]
    fn user_key(&self) -> &[u8] {
        self.open.as_ref().expect("valid").1.user_key()
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.open.as_ref().expect("valid").1.trailer()
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        self.open.as_ref().expect("valid").1.payload()
    }
}

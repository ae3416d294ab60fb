//! Verification of a whole table, for `check` and for tests. Every byte is read from the file
//! again, even if it is in memory.

use super::block_iter::BlockIter;
use super::properties::Summary;
use super::read_ahead::ReadAhead;
use super::reader::Table;
use super::tail::{TableTail, TailDemand};
use crate::base::blocks::BlockFingerprint;
use crate::base::checksum::key_hash;
use crate::base::error::{Error, Result};
use crate::base::key::{Trailer, split_internal};

impl Table {
    /// Reads the whole file. Checks the order of the entries, the bounds of the blocks, the numbers
    /// and the fingerprint of the properties, and that the filter denies no key. Calls `each` with
    /// each entry; its first error ends the pass. Errors name file and offset.
    pub fn verify(&self, mut each: impl FnMut(&[u8], Trailer, &[u8]) -> Result<()>) -> Result<()> {
        let file = self.files.get(&self.path)?;
        let (path, meta, demand) = (&self.path, &self.meta, TailDemand::Whole);
        let tail = TableTail::read(&*file, path, meta, &self.database, &self.order, demand)?;
        let mut walk =
            TableVerifier { table: self, tail, last: Vec::new(), summary: Summary::default() };
        let (mut ahead, mut fingerprint) = (ReadAhead::whole_pass(), BlockFingerprint::default());
        for number in 0..walk.tail.index.len() {
            let handle =
                walk.tail.index.handle(number).map_err(|error| error.in_file(&self.path))?;
            let sealed = ahead.sealed(self, number, handle)?;
            fingerprint.add(&sealed);
            let block = self.adopt(handle, sealed, false)?;
            walk.block(number, BlockIter::new(block), &mut each)
                .map_err(|error| self.at(error, handle))?;
        }
        walk.summary.largest = walk.last;
        walk.summary.fingerprint = fingerprint.value();
        if walk.summary != *walk.tail.properties.summary {
            let message = "the table's numbers or fingerprint are not those of its entries";
            return Err(Error::corruption(message).in_file(&self.path).at(walk.tail.data_end));
        }
        Ok(())
    }
}

/// The state of a verification: what it has found so far.
struct TableVerifier<'a> {
    table: &'a Table,
    tail: TableTail,
    /// The internal key of the last entry.
    last: Vec<u8>,
    summary: Summary,
}

impl TableVerifier<'_> {
    fn block(
        &mut self,
        number: usize,
        mut entry: BlockIter,
        each: &mut impl FnMut(&[u8], Trailer, &[u8]) -> Result<()>,
    ) -> Result<()> {
        entry.seek_to_first()?;
        if let Some(before) = number.checked_sub(1) {
            self.check_start(before, &entry)?;
        }
        while entry.valid() {
            self.entry(&entry)?;
            each(entry.user_key(), self.table.numbered(entry.trailer()), entry.payload())?;
            entry.next()?;
        }
        let bound = self.tail.index.bound(number)?;
        if self.table.order.compare_internal(&self.last, bound).is_gt() {
            return Err(Error::corruption("the block's last key is behind its bound"));
        }
        Ok(())
    }

    /// Checks the rule of bounds: the bound of the previous block sorts before this block's first
    /// entry, and if the bound is no entry itself, no entry has its user key.
    fn check_start(&self, before: usize, first: &BlockIter) -> Result<()> {
        let order = &self.table.order;
        let bound = self.tail.index.bound(before)?;
        let ends = order.compare_internal(bound, first.internal_key()).is_lt();
        let (bound_key, _) = split_internal(bound);
        let apart = order.compare(bound_key, first.user_key()).is_lt();
        if !ends || !(apart || bound == self.last) {
            return Err(Error::corruption("the block's first key is not behind the bound before"));
        }
        Ok(())
    }

    fn entry(&mut self, entry: &BlockIter) -> Result<()> {
        let key = entry.internal_key();
        if self.summary.entries > 0 && !self.table.order.compare_internal(&self.last, key).is_lt() {
            return Err(Error::corruption("two entries are out of order"));
        }
        let user_key = entry.user_key();
        if self.tail.filter.as_ref().is_some_and(|filter| !filter.may_contain(key_hash(user_key))) {
            return Err(Error::corruption("the filter denies a key that the table has"));
        }
        self.summary.count(user_key, entry.trailer(), entry.payload())?;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }
}

//! Writes the tables of a flush or compaction: it splits between user keys, syncs each table, and
//! removes all of them if the job fails.

use crate::base::entry::entry_bytes;
use crate::base::error::{Error, IoContext, Result};
use crate::base::key::{KeyOrder, SeqNo, Trailer};
use crate::base::pointer::TableId;
use crate::hot::FlushNotes;
use crate::table::{TableMeta, TableOwner, TableSettings, TableWriter};
use crate::throttle::reads::IoPriority;
use crate::version::files::names;
use crate::version::job::JobResult;
use crate::version::runtime::Runtime;
use crate::version::settings::KeyspaceOptions;
use crate::version::unnamed::WrittenFrom;
use crate::version::view::KeyspaceState;
use std::path::PathBuf;
use std::sync::Arc;

/// The filters of tables above the deepest level have so many bits per key more. Such tables hold
/// few of the keys, but whoever looks for a key that is nowhere asks their filters as well as those
/// of the deepest level (Dayan, Athanassoulis, Idreos: "Monkey: Optimal Navigable Key-Value
/// Store"). With 10 bits, 2.3 million keys of 116 bytes and a small memory, gets of missing keys
/// are 1.7 times as many with it (`bench/record/2026-11-26-pages.md`).
const UPPER_FILTER_BITS: u32 = 6;

/// The granularity in bytes in which writes are charged to the I/O budget.
const SPEND_BYTES: u64 = 1 << 20;

/// The tables that a job writes.
pub struct TableOutput<'a> {
    runtime: &'a Runtime,
    owner: TableOwner,
    order: KeyOrder,
    settings: TableSettings,
    /// A table is closed at the first new user key once it has this many bytes.
    split_bytes: u64,
    /// The user keys at which a table of three quarters of that is closed, the last one first.
    borders: Vec<Vec<u8>>,
    priority: IoPriority,
    /// Bytes of the open table that were charged to the budget.
    spent: u64,
    /// Bytes that were added to the set's count of bytes that no version names yet.
    unnamed: u64,
    /// Where what the job writes comes from.
    from: WrittenFrom,
    open: Option<(TableWriter, PathBuf, Arc<dyn crate::env::fs::File>)>,
    last_key: Vec<u8>,
    done: Vec<Arc<TableMeta>>,
    created: Vec<TableId>,
    kept: bool,
    notes: UpdateNotes,
    /// What the update table will be told of the open table.
    newest: FlushNotes,
    /// True if the keyspace has a merge operator.
    merges: bool,
    /// Range tombstones up to this number are applied to the entries.
    applied_ranges: SeqNo,
}

/// What the update table is told of the entries that go to tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateNotes {
    /// Nothing.
    Nothing,
    /// The first entry of each key is newer than all that other tables have: those of memtables,
    /// oldest first, with the newest tables of L0 or without. The room `hot` relies on that.
    Newest,
    /// Entries move from other tables.
    Moves,
}

impl<'a> TableOutput<'a> {
    /// Creates an empty output for tables of `keyspace` with the layout in `options`.
    pub fn new(
        runtime: &'a Runtime,
        keyspace: &KeyspaceState,
        options: &KeyspaceOptions,
        split_bytes: u64,
        priority: IoPriority,
    ) -> Self {
        let settings = TableSettings {
            block_bytes: options.block_bytes,
            codec: options.block_codec,
            filter_bits_per_key: options.filter_bits_per_key,
        };
        let version = runtime.set.current();
        TableOutput {
            runtime,
            owner: TableOwner {
                id: keyspace.id,
                name: keyspace.name.clone(),
                merge_operator: options.merge_operator.clone(),
                flushed: version.keyspace(keyspace.id).map_or(0, |keyspace| keyspace.flushed),
            },
            order: keyspace.order.clone(),
            settings,
            split_bytes,
            borders: Vec::new(),
            priority,
            spent: 0,
            unnamed: 0,
            from: WrittenFrom::Others,
            open: None,
            last_key: Vec::new(),
            done: Vec::new(),
            created: Vec::new(),
            kept: false,
            notes: UpdateNotes::Nothing,
            newest: FlushNotes::default(),
            merges: keyspace.merging().is_some(),
            applied_ranges: 0,
        }
    }

    /// Creates an empty output for the one table of memtables, which goes to L0. `newest` is the
    /// number of the newest entry of the memtables.
    pub fn of_memtables(
        runtime: &'a Runtime,
        keyspace: &KeyspaceState,
        options: &KeyspaceOptions,
        newest: SeqNo,
    ) -> Self {
        let mut output = TableOutput::new(runtime, keyspace, options, u64::MAX, IoPriority::Flush);
        output.owner.flushed = output.owner.flushed.max(newest);
        output.above_deepest().noting(UpdateNotes::Newest)
    }

    /// Says that memtables hold all of it until the files are named.
    pub fn held_by_memtables(mut self) -> Self {
        self.from = WrittenFrom::Memtables;
        self
    }

    /// Sets what the update table is told.
    ///
    /// I6: of a keyspace with a merge operator it is told nothing, so it knows no entry there: a
    /// newer entry would not say that an older one is needed no more. Nor is it told of operands in
    /// any other, as a keyspace whose settings a repair did not find may have some.
    pub fn noting(mut self, notes: UpdateNotes) -> Self {
        let is_off = self.runtime.hot.is_off() || self.merges;
        self.notes = if is_off { UpdateNotes::Nothing } else { notes };
        self
    }

    /// Says that the tables go to a level above the deepest one, where filters are larger.
    pub fn above_deepest(mut self) -> Self {
        if self.settings.filter_bits_per_key > 0 {
            let bits = &mut self.settings.filter_bits_per_key;
            *bits = bits.saturating_add(UPPER_FILTER_BITS);
        }
        self
    }

    /// Has tables that are nearly full end before these user keys, which are in order: those with
    /// which the tables of the next level begin. So a later compaction of one of the new tables
    /// reads fewer tables of which it needs only a part.
    pub fn ending_at(mut self, borders: Vec<Vec<u8>>) -> Self {
        self.borders = borders;
        self.borders.reverse();
        self
    }

    /// Adds the next entry; entries come in table order.
    pub fn add(&mut self, user_key: &[u8], trailer: Trailer, payload: &[u8]) -> JobResult {
        let most = self.most_bytes(user_key);
        let full = self.open.as_ref().is_some_and(|(w, ..)| w.file_bytes() >= most);
        // I6: all entries of a user key stay in one table, so that a later compaction cannot move
        // the newer ones deeper than the older ones.
        if full && self.order.compare(user_key, &self.last_key).is_ne() {
            self.close_table()?;
        }
        if self.open.is_none() {
            self.runtime.check_closing()?;
            self.open = Some(self.create()?);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(user_key);
        let (writer, ..) = self.open.as_mut().expect("created just now");
        writer.add(user_key, trailer, payload)?;
        let (unspent, table) = (writer.block_bytes() - self.spent, writer.id());
        if self.notes != UpdateNotes::Nothing && !trailer.kind()?.is_merge() {
            self.note(user_key, trailer, payload, table)?;
        }
        if unspent >= SPEND_BYTES {
            self.spent += unspent;
            self.spend(unspent);
        }
        Ok(())
    }

    /// Returns how many bytes the open table may have before an entry of `user_key` goes to the
    /// next one.
    fn most_bytes(&mut self, user_key: &[u8]) -> u64 {
        let mut most = self.split_bytes;
        while let Some(border) = self.borders.last()
            && self.order.compare(border, user_key).is_le()
        {
            self.borders.pop();
            most = self.split_bytes / 4 * 3;
        }
        most
    }

    /// Tells the update table that an entry goes to `table`, or notes it until that is whole.
    fn note(&mut self, key: &[u8], trailer: Trailer, payload: &[u8], table: TableId) -> Result<()> {
        let (hot, key) = (&self.runtime.hot, (self.owner.id, key));
        if self.notes == UpdateNotes::Moves {
            hot.moved(key, trailer.seqno(), table);
            return Ok(());
        }
        let bytes = entry_bytes(key.1, trailer, payload)?;
        self.newest.add(hot, key, trailer.seqno(), table, bytes);
        Ok(())
    }

    /// Charges written bytes to the budget and reports them to value GC, which counts all
    /// files towards the bounds of space, those included that a crash here would leave as orphans.
    fn spend(&mut self, bytes: u64) {
        self.unnamed += bytes;
        self.runtime.set.unnamed().add(bytes, self.from);
        self.runtime.budget.spend(self.priority, bytes);
    }

    fn create(&mut self) -> Result<(TableWriter, PathBuf, Arc<dyn crate::env::fs::File>)> {
        let id = TableId(self.runtime.set.allocate()?);
        let tables = self.runtime.set.tables();
        let path = names::table(&tables.dir, id);
        let file = self.runtime.env.fs.create(&path).doing("create a table", &path)?;
        self.created.push(id);
        self.runtime.hot.begin(id);
        let writer = TableWriter::create(
            file.clone(),
            path.clone(),
            id,
            &tables.identity,
            self.owner.clone(),
            self.order.clone(),
            self.settings,
        )?;
        Ok((writer.with_policy(tables.filter_policy.as_ref()), path, file))
    }

    fn close_table(&mut self) -> Result<()> {
        if let Some((writer, path, file)) = self.open.take() {
            let applied_ranges = self.applied_ranges;
            let meta = TableMeta { applied_ranges, ..writer.finish()? };
            debug_assert!(meta.bytes >= self.spent, "more was charged than was written");
            let unspent = meta.bytes - std::mem::take(&mut self.spent);
            self.spend(unspent);
            // A crash between here and the edit leaves an orphan.
            if let Err(error) = file.sync() {
                let error = Error::io("sync a table", &path, error);
                // I8: the content on the device is unknown, of this file and perhaps of others.
                return Err(self.runtime.health.fail(&error));
            }
            self.done.push(Arc::new(meta));
        }
        Ok(())
    }

    /// Closes the open table. The next entry must be of another user key than the last (I6).
    pub fn end_table(&mut self) -> Result<()> {
        self.close_table()
    }

    /// Records with all tables that range tombstones up to this number were applied to them.
    pub fn applying(&mut self, ranges: SeqNo) {
        self.applied_ranges = ranges;
    }

    /// Closes the last table and makes the names of all tables durable, so that an edit may name
    /// them.
    pub fn finish(&mut self) -> Result<Vec<Arc<TableMeta>>> {
        self.close_table()?;
        debug_assert_eq!(self.spent, 0, "bytes of a closed table were not charged");
        debug_assert_eq!(self.created.len(), self.done.len());
        if !self.created.is_empty() {
            let dir = &self.runtime.set.tables().dir;
            let synced = self.runtime.env.fs.sync_dir(dir).doing("sync the directory", dir);
            // I8: as with the tables themselves, it is now unknown what is durable.
            synced.map_err(|error| self.runtime.health.fail(&error))?;
        }
        // I6: before a version has the tables, so that no reader finds an older entry by the short
        // cut. Compactions go by a newer one only once it is durable.
        self.newest.hand_over(&self.runtime.hot, self.owner.id);
        Ok(std::mem::take(&mut self.done))
    }

    /// Leaves the tables as orphans for the next opening, because the database was closed: another
    /// process may own the directory by now.
    pub fn leave(mut self) {
        (self.open, self.kept) = (None, true);
    }

    /// Keeps the tables, because the edit that names them took effect. That edit ends a job, so the
    /// scores of all tables are summed up.
    pub fn keep(mut self) {
        assert!(self.open.is_none(), "a table that is not synced cannot be named");
        self.kept = true;
        let runtime = self.runtime;
        // The edit has named the new bytes, so they are no longer counted apart.
        drop(self);
        runtime.sum_scores();
    }
}

impl Drop for TableOutput<'_> {
    fn drop(&mut self) {
        self.runtime.hot.end(&self.created);
        if !self.kept {
            self.open = None;
            let dir = &self.runtime.set.tables().dir;
            let paths: Vec<PathBuf> =
                self.created.iter().map(|&id| names::table(dir, id)).collect();
            self.runtime.set.discard(&paths);
        }
        self.runtime.set.unnamed().end(self.unnamed, self.from);
    }
}

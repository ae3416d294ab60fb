//! Collects what tables and the end of the log still hold, as sorted inputs of the rebuilt tree.
//!
//! Whole tables are inputs as they are. The readable entries of damaged tables, and the records at
//! the end of the log that are newer than the keyspace's tables, go to a memtable in front of them.

use crate::base::entry::Payload;
use crate::base::error::{Error, IoContext, Result};
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, SeqNo, Trailer};
use crate::base::pointer::{SegmentId, TableId, ValuePointer};
use crate::commit::replay::insert_record;
use crate::env::Env;
use crate::memtable::Memtable;
use crate::repair::RepairReport;
use crate::segment::{RecordKind, RecordView};
use crate::table::{Properties, TableMeta};
use crate::version::files::{TableContext, TableHandle, names};
use crate::version::settings::KeyspaceOptions;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The inputs of one keyspace.
pub struct KeyspaceSource {
    pub order: KeyOrder,
    pub options: KeyspaceOptions,
    pub tables: Vec<Arc<TableHandle>>,
    pub loose: Arc<Memtable>,
    /// Sequence number up to which everything is in tables.
    pub flushed: SeqNo,
}

impl KeyspaceSource {
    pub fn new(order: KeyOrder, settings: &str, flushed: SeqNo) -> Result<KeyspaceSource> {
        let options = KeyspaceOptions::from_manifest(settings)?.0;
        let loose = Arc::new(Memtable::new(order.clone()));
        Ok(KeyspaceSource { order, options, tables: Vec::new(), loose, flushed })
    }

    /// Adds a table: whole, or what can be read of it. `ingests` are the numbers of ingests, and
    /// `is_orphan` is true if no edit has added it. Returns true if all of its entries could be
    /// read.
    pub fn add_table(
        &mut self,
        table: Arc<TableHandle>,
        properties: &Properties,
        ingests: &BTreeSet<SeqNo>,
        is_orphan: bool,
        report: &mut RepairReport,
    ) -> bool {
        // I2: what was flushed has brought all older commits to tables. An ingest has not: those to
        // keys outside of its range may still be in the log only.
        let mut flushed = table.meta.summary.max_seqno;
        if ingests.contains(&flushed) {
            flushed = 0;
        }
        // I6: the newest that was flushed may be deletions, of which no table has anything left.
        flushed = flushed.max(properties.owner.flushed);
        let note = |_: &[u8], trailer: Trailer, _: &[u8]| {
            if !ingests.contains(&trailer.seqno()) {
                flushed = flushed.max(trailer.seqno());
            }
            Ok(())
        };
        let verified = self
            .check_order(&table, &properties.comparator)
            .and_then(|()| table.table()?.verify(note));
        // I2: what is damaged of a table that a crash kept from being added is in the log.
        if verified.is_ok() || !is_orphan {
            self.flushed = self.flushed.max(flushed);
        }
        match verified {
            Ok(()) => {
                report.tables += 1;
                self.tables.push(table);
                true
            }
            Err(error) => {
                report.problems.push(error);
                // What is damaged may be its header, or its filter.
                let is_whole = self.pick_up(&table) == table.meta.summary.entries;
                if !is_whole && self.options.merge_operator.is_some() {
                    let what = "operands of keys in this table may have lost what they are \
                                merged with, and their values are then too little";
                    report.problems.push(Error::corruption(what).in_file(table.path()));
                }
                report.tables += u64::from(is_whole);
                is_whole
            }
        }
    }

    /// Refuses a table that can't be merged as it is.
    fn check_order(&self, table: &TableHandle, order: &str) -> Result<()> {
        if order == self.order.name() {
            return Ok(());
        }
        let message = format!(
            "a table of a keyspace ordered by {:?} is ordered by {order:?}",
            self.order.name()
        );
        Err(Error::corruption(message).in_file(table.path()))
    }

    /// Saves the entries of all blocks that can be read, and returns how many there are.
    fn pick_up(&self, table: &TableHandle) -> u64 {
        let Ok(open) = table.open_for_salvage().map(Arc::new) else { return 0 };
        let (mut entries, mut kept) = (open.iter(false), 0);
        for number in 0..open.blocks() {
            let mut step = entries.seek_to_block(number);
            while step.is_ok() && entries.valid() {
                kept += u64::from(self.keep(&entries));
                step = entries.next_in_block();
            }
        }
        kept
    }

    /// Saves an entry. Returns false if it makes no sense.
    fn keep(&self, entry: &dyn EntryIter) -> bool {
        let trailer = entry.trailer();
        let payload = trailer.kind().and_then(|kind| Payload::decode(kind, entry.payload()));
        let Ok(payload) = payload else { return false };
        self.loose.insert(entry.user_key(), trailer, payload);
        true
    }

    /// Adds a record of the log, unless a table has it. Returns true if it was added.
    pub fn add_record(&self, segment: SegmentId, record: &RecordView<'_>) -> Result<bool> {
        let is_new = record.seqno > self.flushed;
        // Tables have no range tombstones, and the edit with one may be lost. It hides only what is
        // older, so it does no harm if it was applied before.
        if is_new || record.kind == RecordKind::DeleteRange {
            let pointer = ValuePointer { segment, offset: record.offset, length: record.length };
            insert_record(&self.loose, record, pointer, &self.options)?;
        }
        Ok(is_new)
    }
}

/// Reads the properties of a table.
pub fn describe_table(
    env: &Env,
    context: &TableContext,
    id: TableId,
) -> Result<(Properties, TableMeta)> {
    let path = names::table(&context.dir, id);
    let file = env.fs.open(&path).doing("open", &path)?;
    let properties = Properties::read(&*file, &path, &context.identity, id)?;
    let bytes = file.len().doing("measure", &path)?;
    let meta = TableMeta {
        id,
        bytes,
        summary: properties.summary.clone(),
        applied_ranges: 0,
        ingested_at: 0,
    };
    Ok((properties, meta))
}

/// Returns the error for a keyspace whose comparator was not given.
pub fn needs_order(error: Error) -> Error {
    error.advise("repair it with the comparator that the database was created with")
}

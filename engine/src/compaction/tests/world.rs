//! A keyspace on a simulated disk, without a database around it: what jobs work on.

use crate::base::compression::Codec;
use crate::base::iter::EntryIter;
use crate::base::key::{EntryKind, KeyOrder, SeqNo};
use crate::base::pointer::KeyspaceId;
use crate::compaction::output::TableOutput;
use crate::env::Env;
use crate::hot::UpdateTable;
use crate::table::TableMeta;
use crate::throttle::reads::IoPriority;
use crate::version::Version;
use crate::version::edit::{Change, Edit};
use crate::version::files::{TableContext, TableLimits};
use crate::version::health::Health;
use crate::version::merging::MergeOperators;
use crate::version::runtime::Runtime;
use crate::version::set::{FilesOf, VersionSet, VersionSetParts};
use crate::version::settings::KeyspaceOptions;
use crate::version::view::KeyspaceState;
use std::path::Path;
use std::sync::Arc;

const KEYSPACE: KeyspaceId = KeyspaceId(1);
/// Greater than any sequence number of a case.
const LAST_SEQNO: SeqNo = 1000;

/// One keyspace and what its jobs need.
pub struct JobWorld {
    /// What jobs get.
    pub runtime: Runtime,
    /// The keyspace.
    pub keyspace: Arc<KeyspaceState>,
}

impl JobWorld {
    /// Creates an empty keyspace whose tables are split at `table_bytes` and hold what they are
    /// given, in place and without compression.
    pub fn new(table_bytes: u64) -> JobWorld {
        JobWorld::merging(table_bytes, None)
    }

    /// Creates one with this merge operator.
    pub fn merging(table_bytes: u64, operator: Option<&str>) -> JobWorld {
        let (env, _) = Env::simulated(1);
        env.fs.create_dir_all(Path::new("db")).unwrap();
        let tables =
            Arc::new(TableContext::new(env.fs.clone(), "db".into(), 7, TableLimits::TESTS));
        let health = Arc::<Health>::default();
        let set = Arc::new(VersionSet::new(VersionSetParts {
            files: FilesOf::Us,
            env: env.clone(),
            tables,
            health: health.clone(),
            version: Version::default(),
            next_file: 2,
            last_seqno: LAST_SEQNO,
            comparator_of: Box::new(|_| Ok(KeyOrder::Bytewise)),
        }));
        set.open_for_edits(1, 0);
        let options = KeyspaceOptions {
            table_bytes,
            memtable_bytes: table_bytes,
            convert_in_compactions: false,
            block_codec: Codec::None,
            block_bytes: 1024,
            merge_operator: operator.map(str::to_owned),
            ..KeyspaceOptions::default()
        };
        let merging = MergeOperators::default().of_new("default", &options, &health).unwrap();
        let (name, order) = ("default".to_owned(), KeyOrder::Bytewise);
        let add = Change::AddKeyspace {
            id: KEYSPACE,
            name: name.clone(),
            order: "bytewise".to_owned(),
            settings: options.to_text(),
            flushed: 0,
        };
        let version = set.apply(|_| Ok(Edit::new(vec![add])), &[], None).unwrap();
        let keyspace = KeyspaceState::new(KEYSPACE, name, order, options, merging, version);
        let keyspace = Arc::new(keyspace);
        set.register(keyspace.clone());
        JobWorld {
            runtime: Runtime::new(env, set, health, None, UpdateTable::new(1 << 20)),
            keyspace,
        }
    }

    /// Returns an output like that of a compaction.
    pub fn output(&self) -> TableOutput<'_> {
        let options = self.keyspace.options().clone();
        let (runtime, split) = (&self.runtime, options.table_bytes);
        TableOutput::new(runtime, &self.keyspace, &options, split, IoPriority::Compaction)
    }

    /// Returns an output like that of a flush, which notes its entries in the update table.
    pub fn flush_output(&self) -> TableOutput<'_> {
        let options = self.keyspace.options().clone();
        TableOutput::of_memtables(&self.runtime, &self.keyspace, &options, 0)
    }

    /// Adds what an output has written to a level.
    pub fn add_tables(&self, level: usize, mut output: TableOutput<'_>) {
        let tables = output.finish().unwrap();
        self.install(level, (output, tables), 0);
    }

    /// Adds the tables that an output has finished to a level. All entries up to the number
    /// `flushed` are durable in tables then.
    pub fn install(
        &self,
        level: usize,
        (output, tables): (TableOutput<'_>, Vec<Arc<TableMeta>>),
        flushed: SeqNo,
    ) {
        let keyspace = self.keyspace.id;
        let seqno = flushed.max(self.keyspace.flushed());
        let add = |meta| Change::AddTable { keyspace, level, meta };
        let added = tables.into_iter().map(add);
        self.apply(added.chain([Change::Flushed { keyspace, seqno }]).collect());
        output.keep();
    }

    /// Lists the entries of all tables, a line for each. `mark` returns what stands behind the key
    /// and the number of an entry.
    pub fn tables(&self, mark: impl Fn(EntryKind, &[u8]) -> String) -> String {
        let levels = self.keyspace.view().levels.clone();
        let mut text = String::new();
        for (level, table) in levels.tables() {
            text += &format!("L{level}");
            let mut entries = table.table().unwrap().iter(false);
            entries.seek_to_first().unwrap();
            while entries.valid() {
                let (key, trailer) = (entries.user_key().escape_ascii(), entries.trailer());
                let mark = mark(trailer.kind().unwrap(), entries.payload());
                text += &format!(" {key}{}{mark}", trailer.seqno());
                entries.next().unwrap();
            }
            text += "\n";
        }
        text
    }

    /// Applies these changes.
    pub fn apply(&self, changes: Vec<Change>) {
        self.runtime.set.apply(|_| Ok(Edit::new(changes)), &[], None).unwrap();
    }
}

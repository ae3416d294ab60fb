//! Floor 7: the part of an opening before there is an open database: it checks the place, creates
//! what is missing, and makes a version out of the manifest and memtables out of the log.
//!
//! ```text
//! place.rs        what is at the path: nothing, a database of ours, or somebody else's files
//! create.rs       an empty database, whose CURRENT comes last
//! comparators.rs  the user's comparators, which must be those that the keyspaces were made with
//! manifest.rs     the edits of the manifest become a version, whose files must be there
//! leftovers.rs    files that a crash left behind and no edit names
//! keyspaces.rs    the log behind the head becomes memtables
//! settle.rs       what a crash left behind is made durable, kept aside or removed
//! follow/         reads on in a database that another process may be writing
//! ```
//! Until everything was read and checked, no file changes. What is removed was left by a crash and
//! is named by no live edit (I5).

pub mod comparators;
pub mod create;
pub mod follow;
mod keyspaces;
pub mod leftovers;
pub mod manifest;
pub mod place;
pub mod settle;

use crate::base::error::{Error, Result};
use crate::commit::replay::{ReplayReport, replay};
use crate::env::Env;
use crate::events::Events;
use crate::version::files::TableContext;
use crate::version::health::Health;
use crate::version::manifest::Current;
use crate::version::merging::MergeOperators;
use crate::version::set::{FilesOf, VersionSet, VersionSetParts};
use crate::version::settings::DEFAULT_KEYSPACE;
use crate::version::view::KeyspaceState;
use comparators::Comparators;
use follow::{FirstSeen, FollowParts};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A report of what recovery found and did.
///
/// ```
/// # let dir = cleavedb::doc_dir("recovery");
/// let db = cleavedb::open(&dir)?;
/// assert_eq!(db.recovery().torn_bytes, 0);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Records of the log that were replayed because they were not in tables yet.
    pub replayed_records: u64,
    /// Bytes of log read to replay them.
    pub replayed_bytes: u64,
    /// Bytes of the torn tail, which a crash cut short and which are no part of the log. They are
    /// kept in files that end in `.cut`, so that nothing is thrown away unseen.
    pub torn_bytes: u64,
    /// Orphans that were removed: files that a crash left behind and no edit names.
    pub orphans_removed: u64,
    /// Files in the directory that are not CleaveDB's; they are left alone.
    pub foreign_files: u64,
    /// Settings of keyspaces that were out of the range that this build allows, with the values
    /// used instead. Empty unless another build wrote the database.
    pub adjusted_settings: Vec<String>,
}

/// A database whose files are read, but which nobody can use yet.
pub struct Recovered {
    /// The set that holds the recovered version.
    pub set: Arc<VersionSet>,
    /// The write state of the database.
    pub health: Arc<Health>,
    /// The keyspaces by name, with what was replayed in their memtables.
    pub keyspaces: BTreeMap<String, Arc<KeyspaceState>>,
    /// The result of replaying the log.
    pub replay: ReplayReport,
    /// The report for the user.
    pub report: RecoveryReport,
    /// The newest sequence number.
    pub last_seqno: u64,
    /// The id of the next file.
    pub next_file: u64,
    /// Number of the manifest in force.
    manifest: u64,
    /// True if the manifest ends in an edit that a crash cut short.
    is_torn: bool,
    /// Files that no live edit names.
    orphans: Vec<PathBuf>,
    /// Errors of steps on which nothing depends, which are to be reported.
    pub tolerated: Vec<Error>,
}

/// A recovery under way, of a database whose lock is held.
pub struct Recovery<'a> {
    /// The world outside.
    pub env: &'a Env,
    /// The context that tables are opened with.
    pub tables: Arc<TableContext>,
    /// The contents of CURRENT.
    pub current: Current,
    /// The comparators that the user gave.
    pub comparators: &'a Comparators,
    /// The merge operators that can be used.
    pub merge_operators: &'a MergeOperators,
    /// The destinations of events.
    pub events: Arc<Events>,
    /// True if no edit will be made.
    pub read_only: bool,
}

impl Recovered {
    /// Makes it of what a follower has seen first.
    pub fn followed(parts: &FollowParts, first: FirstSeen) -> Recovered {
        let known = parts.comparators.clone();
        let set = VersionSet::new(VersionSetParts {
            env: parts.env.clone(),
            tables: parts.tables.clone(),
            health: parts.health.clone(),
            version: first.version,
            next_file: first.next_file,
            last_seqno: first.last_seqno,
            comparator_of: Box::new(move |name: &str| known.named(name)),
            files: parts.files,
        });
        let by_name = |state: &Arc<KeyspaceState>| (state.name.clone(), state.clone());
        let keyspaces = first.keyspaces.by_id.values().map(by_name).collect();
        first.keyspaces.by_id.into_values().for_each(|keyspace| set.register(keyspace));
        let (replayed_records, replayed_bytes) = (first.records, first.bytes);
        let adjusted_settings = first.keyspaces.adjusted_settings;
        let report = RecoveryReport {
            replayed_records,
            replayed_bytes,
            adjusted_settings,
            ..RecoveryReport::default()
        };
        Recovered {
            set: Arc::new(set),
            health: parts.health.clone(),
            keyspaces,
            replay: ReplayReport::default(),
            report,
            last_seqno: first.last_seqno,
            next_file: first.next_file,
            manifest: 0,
            is_torn: false,
            orphans: Vec::new(),
            tolerated: Vec::new(),
        }
    }
}

impl Recovery<'_> {
    /// Reads the manifest and the log. Changes no file.
    pub fn run(self) -> Result<Recovered> {
        let Recovery { env, tables, current, comparators, merge_operators, events, read_only } =
            self;
        let health = Arc::new(Health::new(events));
        let known = comparators.clone();
        let comparator_of = move |name: &str| known.named(name);
        let found = manifest::read_version(env, &tables, current, &comparator_of)?;
        manifest::check_files(env, &found.version)?;
        let left = leftovers::find_leftovers(env, &tables.dir, &found, current)?;
        let opened =
            keyspaces::open_keyspaces(&found.version, comparators, merge_operators, &health)?;
        let by_name = |state: &Arc<KeyspaceState>| (state.name.clone(), state.clone());
        let keyspaces: BTreeMap<_, _> = opened.by_id.values().map(by_name).collect();
        if !keyspaces.contains_key(DEFAULT_KEYSPACE) {
            let error = Error::corruption("the manifest has no keyspace `default`");
            return Err(error.in_file(&tables.dir));
        }
        let replay = replay(env, &found.version, &mut |record| {
            keyspaces::check_keyspace(&found, &record)?;
            keyspaces::insert(&opened.by_id, &found.version, &record)
        })?;
        let report = RecoveryReport {
            replayed_records: replay.records,
            replayed_bytes: replay.bytes,
            torn_bytes: replay.torn.iter().map(|torn| torn.bytes).sum(),
            orphans_removed: 0,
            foreign_files: left.foreign,
            adjusted_settings: opened.adjusted_settings,
        };
        let last_seqno = found.last_seqno.max(replay.last_seqno);
        let set = VersionSet::new(VersionSetParts {
            env: env.clone(),
            tables,
            health: health.clone(),
            version: found.version,
            next_file: left.next_file,
            last_seqno,
            comparator_of: Box::new(comparator_of),
            files: FilesOf::Us,
        });
        opened.by_id.into_values().for_each(|keyspace| set.register(keyspace));
        if !read_only {
            set.open_for_edits(current.manifest, found.manifest_bytes);
        }
        Ok(Recovered {
            set: Arc::new(set),
            health,
            keyspaces,
            replay,
            report,
            last_seqno,
            next_file: left.next_file,
            manifest: current.manifest,
            is_torn: found.is_torn,
            orphans: left.orphans,
            tolerated: Vec::new(),
        })
    }
}

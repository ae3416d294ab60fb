//! What can still be known of a damaged database besides its data: its id, its keyspaces, and
//! which table belongs to which.
//!
//! Taken from the longest valid beginning of the newest manifest that has one; without any, from
//! the heads of the files, and there is one keyspace then until the log names others.

use crate::base::error::{Error, IoContext, Result};
use crate::base::header::{HEADER_BYTES, Header};
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId, TableId};
use crate::db::DEFAULT_KEYSPACE;
use crate::db::comparators::Comparators;
use crate::db::recover::MAX_UNKNOWN_IDS;
use crate::env::Env;
use crate::version::Holes;
use crate::version::edit::{Change, Edit};
use crate::version::files::names::{self, FileName};
use crate::version::manifest::{read_current, scan_records};
use crate::version::settings::KeyspaceOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A keyspace that has to be in the repaired database.
#[derive(Debug, Clone)]
pub struct KnownKeyspace {
    pub name: String,
    pub order: String,
    pub settings: String,
    /// Every entry up to here is in tables.
    pub flushed: SeqNo,
}

/// What is known.
#[derive(Default)]
pub struct Facts {
    pub database: u64,
    pub keyspaces: BTreeMap<KeyspaceId, KnownKeyspace>,
    pub owners: BTreeMap<TableId, KeyspaceId>,
    /// Keyspaces that were dropped: their records are no loss.
    pub dropped: BTreeSet<KeyspaceId>,
    /// Segments with holes: their lengths, and the holes.
    pub punched: BTreeMap<SegmentId, (u64, Holes)>,
    /// Freed segments in which nothing was live, so that there is no file that says so.
    pub given_up: BTreeSet<SegmentId>,
    pub last_seqno: SeqNo,
    lengths: BTreeMap<SegmentId, u64>,
    /// The highest id of any file.
    pub highest_file: u64,
    /// Every file of ours, by kind and id.
    pub files: Vec<(FileName, PathBuf)>,
}

impl Facts {
    /// Looks at everything but the data.
    pub fn gather(
        env: &Env,
        dir: &Path,
        comparators: &Comparators,
        options: &KeyspaceOptions,
    ) -> Result<Facts> {
        let mut facts = Facts::default();
        for path in env.fs.list(dir).doing("list", dir)? {
            let path = dir.join(path.file_name().unwrap_or_default());
            let named = names::parse(&path);
            if matches!(named, FileName::Fixed | FileName::Foreign) {
                continue;
            }
            facts.files.push((named, path));
        }
        facts.database = facts.find_database(env, dir).ok_or_else(|| {
            Error::corruption("no file tells which database it belongs to")
                .in_file(dir)
                .advise("restore the database from a checkpoint or a backup")
        })?;
        facts.read_manifests(env);
        facts.leave_out_impossible(env);
        facts.require_default(comparators, options);
        Ok(facts)
    }

    /// What most files say; CURRENT first.
    fn find_database(&self, env: &Env, dir: &Path) -> Option<u64> {
        if let Ok(current) = read_current(env, dir) {
            return Some(current.database);
        }
        let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, path) in &self.files {
            if let Some(header) = read_header(env, path) {
                *votes.entry(header.database).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, count)| *count).map(|(database, _)| database)
    }

    /// Leaves out files with numbers that this database never gave out, and finds the highest of
    /// the others.
    fn leave_out_impossible(&mut self, env: &Env) {
        let mut known = self.highest_file;
        for (named, path) in &self.files {
            let of_this =
                |head: &Header| head.database == self.database && Some(head.file) == named.number();
            if let Some(head) = read_header(env, path).filter(of_this) {
                known = known.max(head.file);
            }
        }
        let limit = known.saturating_add(MAX_UNKNOWN_IDS);
        self.files.retain(|(named, _)| named.number().is_some_and(|id| id < limit));
        let numbers = self.files.iter().filter_map(|(named, _)| named.number());
        self.highest_file = numbers.fold(known, u64::max);
    }

    fn read_manifests(&mut self, env: &Env) {
        let mut manifests: Vec<(u64, PathBuf)> = Vec::new();
        for (named, path) in &self.files {
            if let FileName::Manifest(id) = named {
                manifests.push((*id, path.clone()));
            }
        }
        manifests.sort();
        for (_, path) in manifests.into_iter().rev() {
            let edits = self.edits(env, &path);
            if !edits.is_empty() {
                edits.iter().for_each(|edit| self.learn(edit));
                return;
            }
        }
    }

    /// The valid edits that a manifest begins with; none if it is another database's.
    fn edits(&self, env: &Env, path: &Path) -> Vec<Edit> {
        let read = || -> Result<Vec<Edit>> {
            let file = env.fs.open(path).doing("open", path)?;
            let len = usize::try_from(file.len().doing("measure", path)?).unwrap_or(0);
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, 0).doing("read", path)?;
            if Header::decode(&bytes)?.database != self.database {
                return Ok(Vec::new());
            }
            Ok(scan_records(&bytes)?.into_iter().map(|(_, edit)| edit).collect())
        };
        read().unwrap_or_default()
    }

    fn learn(&mut self, edit: &Edit) {
        for change in &edit.changes {
            match change {
                Change::AddKeyspace { id, name, order, settings, flushed } => {
                    let (name, order) = (name.clone(), order.clone());
                    let (settings, flushed) = (settings.clone(), *flushed);
                    let known = KnownKeyspace { name, order, settings, flushed };
                    self.keyspaces.insert(*id, known);
                }
                Change::SetKeyspace { id, settings } => {
                    if let Some(known) = self.keyspaces.get_mut(id) {
                        known.settings.clone_from(settings);
                    }
                }
                Change::DropKeyspace { id } => {
                    self.keyspaces.remove(id);
                    self.dropped.insert(*id);
                }
                Change::AddTable { keyspace, meta, .. } => {
                    self.owners.insert(meta.id, *keyspace);
                }
                Change::Flushed { keyspace, seqno } => {
                    if let Some(known) = self.keyspaces.get_mut(keyspace) {
                        known.flushed = known.flushed.max(*seqno);
                    }
                }
                Change::SealSegment { id, length } => {
                    self.lengths.insert(*id, *length);
                }
                Change::Holes { segment, holes } => {
                    let length = self.lengths.get(segment).copied().unwrap_or(0);
                    self.punched.insert(*segment, (length, holes.clone()));
                }
                Change::AddRelocation { meta } if meta.has_file() => {
                    self.given_up.remove(&meta.segment);
                }
                Change::AddRelocation { meta } => {
                    self.given_up.insert(meta.segment);
                }
                Change::LastSeqno(seqno) => self.last_seqno = self.last_seqno.max(*seqno),
                Change::NextFile(id) => self.highest_file = self.highest_file.max(*id),
                _ => {}
            }
        }
    }

    fn require_default(&mut self, comparators: &Comparators, options: &KeyspaceOptions) {
        if self.keyspaces.values().any(|known| known.name == DEFAULT_KEYSPACE) {
            return;
        }
        // Creation gives it the first id.
        let known = KnownKeyspace {
            name: DEFAULT_KEYSPACE.to_owned(),
            order: comparators.order_for_new(DEFAULT_KEYSPACE).name().to_owned(),
            settings: options.to_text(),
            flushed: 0,
        };
        self.keyspaces.insert(KeyspaceId(1), known);
    }

    /// The keyspace that a record or table names. One that no manifest knows, nor knows to be
    /// dropped, gets a name of its own.
    pub fn keyspace(&mut self, id: KeyspaceId, order: &str) -> Option<&mut KnownKeyspace> {
        if self.dropped.contains(&id) {
            return None;
        }
        Some(self.keyspaces.entry(id).or_insert_with(|| KnownKeyspace {
            name: format!("recovered-{}", id.0),
            order: order.to_owned(),
            settings: KeyspaceOptions::default().to_text(),
            flushed: 0,
        }))
    }
}

fn read_header(env: &Env, path: &Path) -> Option<Header> {
    let mut bytes = [0; HEADER_BYTES];
    env.fs.open(path).ok()?.read_exact_at(&mut bytes, 0).ok()?;
    Header::decode(&bytes).ok()
}

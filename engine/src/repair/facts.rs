//! Gathers what can still be found out about a damaged database besides its data: its id and its
//! keyspaces.
//!
//! - Every readable edit of the newest manifest that has any: keyspaces added and dropped.
//! - The edits before the first unreadable one: a keyspace whose id was given out by then, and of
//!   which they have no trace, was dropped.
//! - The edits that added ingested tables: the number of the ingest. Without it, what was ingested
//!   gets the number 0, as if it had been there before every commit.
//! - The properties of tables: id, name and comparator of the keyspace that a table belongs to.
//! - Records of the log: ids of keyspaces.
//!
//! A keyspace that was certainly dropped stays dropped. One that no manifest mentions is kept,
//! because its data would be lost unseen otherwise. It gets the name that its tables give, or
//! `recovered-` and its id if only the log has records of it, and the report lists it.

use crate::base::error::{Error, IoContext, Result};
use crate::base::expiry::Deadline;
use crate::base::header::{HEADER_BYTES, Header};
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId, TableId};
use crate::base::range_tombstone::RangeTombstone;
use crate::base::seal::DatabaseIdentity;
use crate::env::Env;
use crate::env::key_provider::KeyProvider;
use crate::recovery::comparators::Comparators;
use crate::recovery::leftovers::MAX_UNKNOWN_IDS;
use crate::segment::SegmentKind;
use crate::table::{Properties, TableMeta};
use crate::version::Holes;
use crate::version::edit::{Change, Edit};
use crate::version::files::names::{self, FileName};
use crate::version::keys;
use crate::version::manifest::{read_current, salvage};
use crate::version::settings::{DEFAULT_KEYSPACE, KeyspaceOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A keyspace that must be in the repaired database.
#[derive(Debug, Clone)]
pub struct KnownKeyspace {
    pub name: String,
    pub order: String,
    pub settings: String,
    /// Sequence number up to which every entry is in tables.
    pub flushed: SeqNo,
}

/// What counts of the state that a manifest begins with.
struct FirstState {
    /// Bound on the ids that were given out by then.
    next_file: u64,
    /// The sequence numbers up to which every entry was in tables.
    flushed: BTreeMap<KeyspaceId, SeqNo>,
}

/// What the edits say of a segment.
pub struct RecordedSegment {
    /// Its kind, and the seed of its checksums, if it is in use.
    pub identity: Option<(SegmentKind, u64)>,
    /// Its length in bytes, if it is sealed.
    pub length: Option<u64>,
    /// Its holes.
    pub holes: Holes,
}

/// The facts that were found.
#[derive(Default)]
pub struct RepairFacts {
    pub identity: DatabaseIdentity,
    pub keyspaces: BTreeMap<KeyspaceId, KnownKeyspace>,
    /// Keyspaces that an edit dropped; their records are no loss.
    dropped: BTreeSet<KeyspaceId>,
    /// Bound on ids below which all keyspaces are known: one that is not listed was dropped.
    known_below: u64,
    /// Names of the keyspaces that no manifest mentioned, except `default`.
    pub recovered: Vec<String>,
    /// The comparators that the user gave.
    comparators: Comparators,
    /// Settings for keyspaces whose own are lost.
    settings: KeyspaceOptions,
    /// The holes of segments.
    holes: BTreeMap<SegmentId, Holes>,
    /// Freed segments in which nothing was live, so that no relocation file lists them.
    pub given_up: BTreeSet<SegmentId>,
    pub last_seqno: SeqNo,
    /// The range tombstones of each keyspace that were flushed.
    pub ranges: BTreeMap<KeyspaceId, Vec<RangeTombstone>>,
    /// The numbers at which tables were ingested.
    pub ingested: BTreeMap<TableId, SeqNo>,
    /// The greatest deadline by which an entry was dropped because it had expired.
    pub dropped_until: Deadline,
    lengths: BTreeMap<SegmentId, u64>,
    /// The tables that an edit added, with their keyspaces, and those that one removed, alone or
    /// with its keyspace.
    added: BTreeMap<TableId, KeyspaceId>,
    removed: BTreeSet<TableId>,
    /// The state that the manifest begins with, if all of that could be read.
    first_state: Option<FirstState>,
    /// The segments that the edits leave in use: their kinds, and the seeds of their checksums.
    segments: BTreeMap<SegmentId, (SegmentKind, u64)>,
    /// The segment where the head of the log was, as far as edits say: it only moves on.
    pub log_head: SegmentId,
    /// True if the manifest is the last one, all of it could be read, and every file that it leaves
    /// in use is there, so that it names all live tables. An edit that is missing at its end, or in
    /// a newer one, may have replaced any.
    is_whole: bool,
    /// True if the manifest is the last one, and all of it could be read.
    is_read: bool,
    /// The highest id of any file or keyspace.
    pub highest_file: u64,
    /// Every file of ours, by kind and id.
    pub files: Vec<(FileName, PathBuf)>,
}

impl RepairFacts {
    /// Reads everything but the data.
    pub fn gather(
        env: &Env,
        dir: &Path,
        comparators: &Comparators,
        options: &KeyspaceOptions,
        keys: Option<&dyn KeyProvider>,
    ) -> Result<RepairFacts> {
        let (comparators, settings) = (comparators.clone(), options.clone());
        let mut facts = RepairFacts { comparators, settings, ..RepairFacts::default() };
        for path in env.fs.list(dir).doing("list", dir)? {
            let path = dir.join(path.file_name().unwrap_or_default());
            let named = names::parse(&path);
            if matches!(named, FileName::Fixed | FileName::Note | FileName::Foreign) {
                continue;
            }
            facts.files.push((named, path));
        }
        let (database, is_encrypted) = facts.find_database(env, dir).ok_or_else(|| {
            Error::corruption("no file says which database it belongs to")
                .in_file(dir)
                .advise("restore the database from a checkpoint or a backup")
        })?;
        facts.identity = keys::identity_for_repair(env, dir, database, is_encrypted, keys)?;
        facts.read_manifests(env, dir);
        facts.leave_out_impossible(env);
        Ok(facts)
    }

    /// Returns the database id that most files carry; CURRENT's comes first. Returns also whether
    /// CURRENT says that the database is encrypted.
    fn find_database(&self, env: &Env, dir: &Path) -> Option<(u64, bool)> {
        if let Ok(current) = read_current(env, dir) {
            return Some((current.database, current.is_encrypted));
        }
        let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, path) in &self.files {
            if let Some(header) = read_header(env, path) {
                *votes.entry(header.database).or_default() += 1;
            }
        }
        let most = votes.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(database, _)| (database, false))
    }

    /// Removes files whose ids this database never gave out, and finds the highest id of the
    /// others.
    fn leave_out_impossible(&mut self, env: &Env) {
        let mut known = self.highest_file;
        for (named, path) in &self.files {
            let of_this = |head: &Header| {
                head.database == self.identity.id && Some(head.file) == named.number()
            };
            if let Some(head) = read_header(env, path).filter(of_this) {
                known = known.max(head.file);
            }
        }
        let limit = known.saturating_add(MAX_UNKNOWN_IDS);
        self.files.retain(|(named, _)| named.number().is_some_and(|id| id < limit));
        let numbers = self.files.iter().filter_map(|(named, _)| named.number());
        self.highest_file = numbers.fold(known, u64::max);
    }

    fn read_manifests(&mut self, env: &Env, dir: &Path) {
        let in_force = read_current(env, dir).ok().map(|current| current.manifest);
        let mut manifests: Vec<(u64, PathBuf)> = Vec::new();
        for (named, path) in &self.files {
            if let FileName::Manifest(id) = named {
                manifests.push((*id, path.clone()));
            }
        }
        manifests.sort();
        let newest = manifests.last().map(|(id, _)| *id);
        let mut newest_part = None;
        for (id, path) in manifests.into_iter().rev() {
            let found = salvage(env, &path, &self.identity).unwrap_or_default();
            if found.is_part() {
                // One that a crash kept from being written to its end is newer than the one in
                // force.
                newest_part = newest_part.or(Some(found));
            } else if !found.edits.is_empty() {
                // A long state fills several edits.
                let last_of_state = found.edits.iter().position(|edit| !edit.goes_on());
                for (number, edit) in found.edits.iter().enumerate() {
                    self.learn(edit, number < found.unbroken);
                    if Some(number) == last_of_state && number < found.unbroken {
                        self.first_state = Some(self.state());
                    }
                }
                self.is_read = found.is_whole && in_force.or(newest) == Some(id);
                self.is_whole = self.is_read && self.has_all_files();
                return;
            }
        }
        // Of the keyspaces that it does not name nothing is known.
        let edits = newest_part.map(|part| part.edits).unwrap_or_default();
        edits.iter().for_each(|edit| self.learn(edit, false));
    }

    fn state(&self) -> FirstState {
        let flushed = self.keyspaces.iter().map(|(id, known)| (*id, known.flushed)).collect();
        FirstState { next_file: self.known_below, flushed }
    }

    /// Returns true if all files are there that the edits leave in use. If one is not, an edit that
    /// removed it may be missing where the manifest ends: a file that was cut off behind a record
    /// looks whole.
    fn has_all_files(&self) -> bool {
        let segments = self.segments.keys().map(|id| FileName::Segment(*id));
        self.lacking().is_empty() && self.there().is_superset(&segments.collect())
    }

    fn there(&self) -> BTreeSet<FileName> {
        self.files.iter().map(|(named, _)| *named).collect()
    }

    /// Applies an edit. `unbroken` is true if all edits before it could be read.
    fn learn(&mut self, edit: &Edit, unbroken: bool) {
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
                    let gone = self.added.iter().filter(|(_, keyspace)| *keyspace == id);
                    self.removed.extend(gone.map(|(table, _)| *table));
                }
                Change::Flushed { keyspace, seqno } => {
                    if let Some(known) = self.keyspaces.get_mut(keyspace) {
                        known.flushed = known.flushed.max(*seqno);
                    }
                }
                Change::AddTable { keyspace, meta, .. } => {
                    self.added.insert(meta.id, *keyspace);
                    // A table that moves to another level is removed and added by one edit, in this
                    // order, and lives on.
                    self.removed.remove(&meta.id);
                    if meta.ingested_at > 0 {
                        self.ingested.insert(meta.id, meta.ingested_at);
                    }
                }
                Change::RemoveTable { id, .. } => drop(self.removed.insert(*id)),
                Change::AddSegment { id, kind, epoch } => {
                    self.segments.insert(*id, (*kind, *epoch));
                }
                Change::RemoveSegment { id } => drop(self.segments.remove(id)),
                Change::SealSegment { id, length } => drop(self.lengths.insert(*id, *length)),
                Change::Holes { segment, holes } => {
                    self.holes.insert(*segment, holes.clone());
                }
                Change::AddRelocation { meta } if meta.has_file() => {
                    self.given_up.remove(&meta.segment);
                }
                Change::AddRelocation { meta } => {
                    self.given_up.insert(meta.segment);
                }
                // One that was removed since hid nothing in the tables of its version, but may do
                // so in others that are found; it does no harm.
                Change::AddRange { keyspace, tombstone } => {
                    self.ranges.entry(*keyspace).or_default().push(tombstone.clone());
                }
                Change::Head(at) => self.log_head = self.log_head.max(at.segment),
                Change::LastSeqno(seqno) => self.last_seqno = self.last_seqno.max(*seqno),
                Change::DroppedUntil(deadline) => {
                    self.dropped_until = self.dropped_until.max(*deadline);
                }
                Change::NextFile(id) => {
                    self.highest_file = self.highest_file.max(*id);
                    if unbroken {
                        self.known_below = self.known_below.max(*id);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns true if an edit has removed this table: what is in it is in others, too.
    pub fn is_removed(&self, table: TableId) -> bool {
        self.removed.contains(&table)
    }

    /// Returns true if no edit ever added this table, for certain: what is in it is in others, too.
    pub fn was_never_added(&self, table: TableId) -> bool {
        self.is_whole && !self.added.contains_key(&table)
    }

    /// Returns true if what a table of a keyspace holds had been replaced: an edit has removed it,
    /// or no edit has it that could have added it since the state with which the manifest begins.
    /// What it has is in other tables, or was deleted since.
    ///
    /// I2: a table with nothing but what is newer than all tables is of a flush that a crash kept
    /// from being named, or whose edit is lost. The log may have lost the same, and what is newer
    /// than the table is there, or in tables, so nothing comes back with it.
    pub fn is_replaced(&self, meta: &TableMeta, keyspace: KeyspaceId) -> bool {
        if self.is_removed(meta.id) || self.added.contains_key(&meta.id) {
            return self.is_removed(meta.id);
        }
        let flushed = match &self.first_state {
            _ if self.is_whole => self.keyspaces.get(&keyspace).map(|known| known.flushed),
            // One that was begun before the state and named after it has an edit, or is newer. Of a
            // compaction whose edit is lost, the tables that it has read are missing.
            Some(state) if meta.id.0 < state.next_file => state.flushed.get(&keyspace).copied(),
            _ => None,
        };
        // The entries of an ingest have no number of their own.
        let is_of_commits = meta.summary.max_seqno > 0;
        is_of_commits && flushed.is_some_and(|flushed| meta.summary.min_seqno <= flushed)
    }

    /// Returns the keyspaces of which a table is missing that the edits which could be read leave
    /// in use.
    pub fn lacking(&self) -> BTreeSet<KeyspaceId> {
        self.missing_tables().into_values().collect()
    }

    fn missing_tables(&self) -> BTreeMap<TableId, KeyspaceId> {
        let there = self.there();
        let in_use = self.added.iter().filter(|(id, _)| !self.removed.contains(id));
        let missing = in_use.filter(|(id, _)| !there.contains(&FileName::Table(**id)));
        missing.map(|(id, keyspace)| (*id, *keyspace)).collect()
    }

    /// Returns the tables that are missing for certain. If an edit may be lost, it may have removed
    /// them.
    pub fn lost_tables(&self) -> Vec<TableId> {
        let missing = self.missing_tables();
        missing.into_keys().filter(|_| self.is_read).collect()
    }

    /// Returns the segments of the log that the edits leave in use and whose files are gone.
    pub fn missing_logs(&self) -> BTreeSet<SegmentId> {
        let there = self.there();
        self.logs().filter(|id| !there.contains(&FileName::Segment(*id))).collect()
    }

    /// Returns the segments of the log whose lengths in bytes edits record.
    pub fn sealed_logs(&self) -> BTreeMap<SegmentId, u64> {
        self.logs().filter_map(|id| Some((id, *self.lengths.get(&id)?))).collect()
    }

    fn logs(&self) -> impl Iterator<Item = SegmentId> {
        let logs = self.segments.iter().filter(|(_, (kind, _))| *kind == SegmentKind::Log);
        logs.map(|(id, _)| *id)
    }

    /// Returns what the edits say of a segment.
    pub fn recorded(&self, segment: SegmentId) -> RecordedSegment {
        let identity = self.segments.get(&segment).copied();
        let length = self.lengths.get(&segment).copied();
        let holes = self.holes.get(&segment).cloned().unwrap_or_default();
        RecordedSegment { identity, length, holes }
    }

    /// Returns true if the edits say that this segment is none of the log.
    pub fn is_sorted(&self, segment: SegmentId) -> bool {
        self.segments.get(&segment).is_some_and(|(kind, _)| *kind == SegmentKind::Sorted)
    }

    /// Returns the keyspace to which an edit added this table.
    pub fn owner(&self, table: TableId) -> Option<KeyspaceId> {
        self.added.get(&table).copied()
    }

    /// Returns true if an edit added this table, and `None` if the manifest can't tell.
    pub fn is_added(&self, table: TableId) -> Option<bool> {
        if self.added.contains_key(&table) { Some(true) } else { self.is_whole.then_some(false) }
    }

    /// Adds the keyspaces that only tables mention. Afterwards there is a keyspace `default`.
    pub fn learn_tables<'a>(&mut self, tables: impl Iterator<Item = &'a Properties>) {
        let mut unknown = BTreeMap::new();
        for properties in tables {
            let id = properties.owner.id;
            if !self.is_dropped(id) && !self.keyspaces.contains_key(&id) {
                unknown.insert(id, properties);
            }
        }
        // Of several with the same name, all but the newest were dropped, or all were.
        for (id, properties) in unknown.into_iter().rev() {
            let name = self.free_name(id, &properties.owner.name);
            let operator = properties.owner.merge_operator.as_deref();
            self.recover(id, name, properties.comparator.clone(), operator);
        }
        if self.keyspaces.values().all(|known| known.name != DEFAULT_KEYSPACE) {
            // Creation gives `default` the first id.
            let order = self.comparators.order_for_new(DEFAULT_KEYSPACE).name().to_owned();
            self.recover(KeyspaceId(1), DEFAULT_KEYSPACE.to_owned(), order, None);
        }
    }

    /// Adds the keyspace of a log record if it is not known. Returns false if it was dropped.
    pub fn learn_record(&mut self, id: KeyspaceId) -> bool {
        if self.keyspaces.contains_key(&id) {
            return true;
        }
        // The id must not be given to another keyspace, whether this one was dropped or not.
        self.highest_file = self.highest_file.max(id.0);
        if self.is_dropped(id) {
            return false;
        }
        let name = self.free_name(id, "");
        let order = self.comparators.order_for_new(&name).name().to_owned();
        self.recover(id, name, order, None);
        true
    }

    /// Returns true if the keyspace was certainly dropped.
    pub fn is_dropped(&self, id: KeyspaceId) -> bool {
        let known = self.keyspaces.contains_key(&id);
        self.dropped.contains(&id) || (!known && id.0 < self.known_below)
    }

    /// Adds a keyspace with the settings that the user gave, and with the merge operator that its
    /// tables name.
    fn recover(&mut self, id: KeyspaceId, name: String, order: String, operator: Option<&str>) {
        if name != DEFAULT_KEYSPACE {
            self.recovered.push(name.clone());
        }
        self.highest_file = self.highest_file.max(id.0);
        let mut settings = self.settings.clone();
        if let Some(operator) = operator {
            settings.merge_operator = Some(operator.to_owned());
            // What may expire can't be merged.
            settings.default_ttl = None;
        }
        let known = KnownKeyspace { name, order, settings: settings.to_text(), flushed: 0 };
        self.keyspaces.insert(id, known);
    }

    /// Returns `wanted`, or another free name if that is taken or empty.
    fn free_name(&self, id: KeyspaceId, wanted: &str) -> String {
        let is_free = |name: &String| self.keyspaces.values().all(|known| known.name != *name);
        let wanted = Some(wanted.to_owned()).filter(|name| !name.is_empty());
        let numbered = (1..).map(|number: u64| match number {
            1 => format!("recovered-{}", id.0),
            _ => format!("recovered-{}-{number}", id.0),
        });
        let mut names = wanted.into_iter().chain(numbered);
        names.find(is_free).expect("there are more numbers than keyspaces")
    }
}

fn read_header(env: &Env, path: &Path) -> Option<Header> {
    let mut bytes = [0; HEADER_BYTES];
    env.fs.open(path).ok()?.read_exact_at(&mut bytes, 0).ok()?;
    Header::decode(&bytes).ok()
}

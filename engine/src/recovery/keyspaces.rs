//! Opens the keyspaces of a version, and replays the log into their memtables.

use crate::base::error::{Error, Result};
use crate::base::pointer::{KeyspaceId, ValuePointer};
use crate::commit::replay::{Replayed, insert_record};
use crate::recovery::comparators::Comparators;
use crate::recovery::manifest::Manifested;
use crate::segment::RecordKind;
use crate::version::Version;
use crate::version::health::Health;
use crate::version::merging::MergeOperators;
use crate::version::settings::KeyspaceOptions;
use crate::version::view::KeyspaceState;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The keyspaces of a version, with empty memtables.
pub struct OpenKeyspaces {
    /// The keyspaces by id.
    pub by_id: BTreeMap<KeyspaceId, Arc<KeyspaceState>>,
    /// Settings that were out of the range that this build allows, with the values used instead.
    pub adjusted_settings: Vec<String>,
}

/// Opens the keyspaces of a version. Fails if one of them needs a comparator or a merge operator
/// that was not given.
pub fn open_keyspaces(
    version: &Version,
    comparators: &Comparators,
    merge_operators: &MergeOperators,
    health: &Arc<Health>,
) -> Result<OpenKeyspaces> {
    let shared = Arc::new(version.clone());
    let mut found = OpenKeyspaces { by_id: BTreeMap::new(), adjusted_settings: Vec::new() };
    for &id in version.keyspaces.keys() {
        let (state, notes) = open_keyspace(id, &shared, comparators, merge_operators, health)?;
        found.adjusted_settings.extend(notes);
        found.by_id.insert(id, state);
    }
    Ok(found)
}

/// Opens one keyspace of a version, and tells which of its settings were adjusted.
pub fn open_keyspace(
    id: KeyspaceId,
    version: &Arc<Version>,
    comparators: &Comparators,
    merge_operators: &MergeOperators,
    health: &Arc<Health>,
) -> Result<(Arc<KeyspaceState>, Vec<String>)> {
    let keyspace = &version.keyspaces[&id];
    let name = &keyspace.name;
    comparators.check(name, &keyspace.order)?;
    let order = comparators.named(&keyspace.order)?;
    let (options, notes) = KeyspaceOptions::from_manifest(&keyspace.settings)?;
    let notes = notes.iter().map(|note| format!("{name}: {note}")).collect();
    let merging = merge_operators.of_recorded(name, &options, health)?;
    let state = KeyspaceState::new(id, name.clone(), order, options, merging, version.clone());
    Ok((Arc::new(state), notes))
}

/// Refuses a record of a keyspace whose id the manifest never gave out, because the manifest has
/// lost its end then. A record of a keyspace that was dropped since is fine.
pub fn check_keyspace(found: &Manifested, replayed: &Replayed<'_>) -> Result<()> {
    let id = replayed.record.keyspace;
    if found.version.keyspaces.contains_key(&id) || id.0 < found.next_file {
        return Ok(());
    }
    Err(Error::corruption(format!("a commit is to keyspace {id}, which the manifest never knew"))
        .at(replayed.at.offset)
        .advise("the manifest has lost its end: restore the database from a checkpoint"))
}

/// Inserts a replayed record into its memtable, unless a table holds it already.
pub fn insert(
    keyspaces: &BTreeMap<KeyspaceId, Arc<KeyspaceState>>,
    version: &Version,
    replayed: &Replayed<'_>,
) -> Result<()> {
    let record = replayed.record;
    // A record of a keyspace that was dropped since is skipped.
    let (Some(state), Some(known)) =
        (keyspaces.get(&record.keyspace), version.keyspace(record.keyspace))
    else {
        return Ok(());
    };
    if record.seqno <= known.flushed || record.kind == RecordKind::Ingest {
        return Ok(());
    }
    let pointer = ValuePointer {
        segment: replayed.segment.id(),
        offset: record.offset,
        length: record.length,
    };
    let options = state.options().clone();
    let view = state.view();
    view.active.note(replayed.at, replayed.log_bytes, replayed.segment, record.seqno);
    insert_record(&view.active.table, record, pointer, &options)?;
    if view.active.bytes() >= options.memtable_bytes {
        state.rotate_memtable();
    }
    Ok(())
}

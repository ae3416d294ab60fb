//! Opens the keyspaces of a version, and replays the log into their memtables.

use crate::base::compression::Codec;
use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, Result};
use crate::base::key::Trailer;
use crate::base::pointer::{KeyspaceId, ValuePointer};
use crate::commit::replay::Replayed;
use crate::recovery::comparators::Comparators;
use crate::recovery::manifest::Manifested;
use crate::segment::RecordKind;
use crate::version::Version;
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

/// Opens the keyspaces of a version. Fails if one of them needs a comparator that was not given.
pub fn open_keyspaces(version: &Version, comparators: &Comparators) -> Result<OpenKeyspaces> {
    let shared = Arc::new(version.clone());
    let mut found = OpenKeyspaces { by_id: BTreeMap::new(), adjusted_settings: Vec::new() };
    for (&id, keyspace) in &version.keyspaces {
        let name = &keyspace.name;
        comparators.check(name, &keyspace.order)?;
        let order = comparators.named(&keyspace.order)?;
        let (options, notes) = KeyspaceOptions::from_manifest(&keyspace.settings)?;
        found.adjusted_settings.extend(notes.iter().map(|note| format!("{name}: {note}")));
        let state = KeyspaceState::new(id, name.clone(), order, options, shared.clone());
        found.by_id.insert(id, Arc::new(state));
    }
    Ok(found)
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
    if record.seqno <= known.flushed {
        return Ok(());
    }
    let pointer = ValuePointer {
        segment: replayed.segment.id(),
        offset: record.offset,
        length: record.length,
    };
    let options = state.options().clone();
    let raw;
    let slot = match record.kind {
        RecordKind::Delete | RecordKind::DeleteRange => Slot::Delete,
        // Only separated values are compressed in the log. They stay there, whatever the settings
        // have become since: inline they could take many times the memory that the writer had.
        RecordKind::Put if record.codec != Codec::None => Slot::Pointer(pointer),
        RecordKind::Put if options.separates_at_write(record.raw_len as usize) => {
            Slot::Pointer(pointer)
        }
        RecordKind::Put => {
            raw = record.raw_value()?;
            Slot::Inline(&raw)
        }
    };
    let payload = Payload { deadline: record.deadline, slot };
    let view = state.view();
    view.active.note(replayed.at, replayed.log_bytes, replayed.segment, record.seqno);
    if record.kind == RecordKind::DeleteRange {
        view.active.table.insert_range(Arc::new(record.deleted_range()?), record.seqno);
    } else {
        view.active.table.insert(record.key, Trailer::new(record.seqno, payload.kind()), payload);
    }
    if view.active.bytes() >= options.memtable_bytes {
        state.rotate_memtable();
    }
    Ok(())
}

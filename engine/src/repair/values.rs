//! Finds values: in segments, and through relocations, which say where records of freed segments
//! went.
//!
//! Relocations are found by their files, whatever the manifest says. Each file names its segment,
//! and a place it gives is trusted only once the record there proves to be the right one, by
//! checksum, keyspace, key and sequence number (I3). So any of several relocations for one segment
//! may lead to the value, and so may the segment itself, if it is still there.
//!
//! I6: what was given up as garbage stays given up, even if its bytes can still be read: a record
//! in a hole, or without an entry in the newest whole relocation of its segment. No read could see
//! its entry when that was decided. If the repair finds no newer version of the key, that version
//! was lost, and an older one in its place would be a wrong value.

use crate::base::error::{Error, IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, RelocationId, SegmentId, ValuePointer};
use crate::env::Env;
use crate::relocation::{RelocationMeta, RelocationTable};
use crate::repair::RepairReport;
use crate::repair::segments::FoundSegment;
use crate::version::files::{TableContext, names};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A relocation file that can be read.
struct FoundRelocation {
    id: RelocationId,
    table: RelocationTable,
    /// False if part of it is damaged; a record without an entry is not taken for garbage then.
    whole: bool,
}

/// The segments and relocations in which values are looked for.
#[derive(Default)]
pub struct ValueFinder {
    /// The segments.
    pub segments: BTreeMap<SegmentId, FoundSegment>,
    /// The relocations of each freed segment, newest first.
    relocations: BTreeMap<SegmentId, Vec<FoundRelocation>>,
    /// Freed segments in which nothing was live.
    given_up: BTreeSet<SegmentId>,
}

impl ValueFinder {
    /// Creates an empty finder. `given_up` are the segments that the manifest gave up as a whole.
    pub fn new(given_up: BTreeSet<SegmentId>) -> Self {
        ValueFinder { given_up, ..ValueFinder::default() }
    }

    /// Adds a relocation file: whole, or what can be read of it.
    pub fn add_relocation(
        &mut self,
        env: &Env,
        context: &TableContext,
        id: RelocationId,
        report: &mut RepairReport,
    ) -> Result<()> {
        let path = names::relocation(&context.dir, id);
        let file = env.fs.open(&path).doing("open", &path)?;
        let meta = Arc::new(RelocationMeta::read(&*file, &path, context.identity.id, id)?);
        let (files, cache) = (context.files.clone(), context.cache.clone());
        let table = RelocationTable::open(files, path, meta.clone(), context.identity.id, cache)?;
        let checked = table.for_each(|_, _, _, _| Ok(()));
        let found = FoundRelocation { id, table, whole: checked.is_ok() };
        report.relocations += u64::from(found.whole);
        report.problems.extend(checked.err());
        let of_segment = self.relocations.entry(meta.segment).or_default();
        let newer = of_segment.partition_point(|other| other.id > id);
        of_segment.insert(newer, found);
        Ok(())
    }

    /// Returns every place where the record of a pointer may be.
    fn places(&self, pointer: ValuePointer) -> Vec<ValuePointer> {
        let relocations = self.relocations.get(&pointer.segment).into_iter().flatten();
        let mut places: Vec<ValuePointer> = relocations
            .filter_map(|relocation| relocation.table.find(pointer.offset).ok().flatten())
            .filter(|place| place.length == pointer.length)
            .collect();
        places.push(pointer);
        places
    }

    /// Returns the place of an entry's value, once its record has proven to be the right one.
    pub fn locate(
        &self,
        pointer: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
    ) -> Result<ValuePointer> {
        if self.is_garbage(pointer) {
            return Err(given_up(pointer));
        }
        let mut failed = None;
        for place in self.places(pointer) {
            match self.prove(place, keyspace, key, seqno) {
                Ok(()) => return Ok(place),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| missing(pointer)))
    }

    /// Returns true if the newest whole relocation of its segment has no entry for the record.
    fn is_garbage(&self, pointer: ValuePointer) -> bool {
        let relocations = self.relocations.get(&pointer.segment);
        let newest = relocations.and_then(|all| all.iter().find(|relocation| relocation.whole));
        match newest {
            Some(newest) => matches!(newest.table.find(pointer.offset), Ok(None)),
            None => self.given_up.contains(&pointer.segment),
        }
    }

    fn prove(
        &self,
        place: ValuePointer,
        keyspace: KeyspaceId,
        key: &[u8],
        seqno: SeqNo,
    ) -> Result<()> {
        let found = self.segments.get(&place.segment).ok_or_else(|| missing(place))?;
        if found.is_punched(place) {
            return Err(given_up(place));
        }
        found.handle.segment.read_value(place, keyspace, key, seqno).map(|_| ())
    }
}

fn missing(place: ValuePointer) -> Error {
    Error::corruption(format!("segment {} is missing, and a value with it", place.segment))
}

fn given_up(place: ValuePointer) -> Error {
    Error::corruption(format!(
        "of a key only a version is left that was given up as garbage, at offset {} of segment {}",
        place.offset, place.segment
    ))
}

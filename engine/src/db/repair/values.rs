//! Where values are: segments, and the relocations that say where the records of freed ones went.
//!
//! A relocation is looked for in its own file, whatever the manifest says: each names its segment,
//! and what it leads to is believed only once the record there proves to be the right one, by
//! checksum, keyspace, key and sequence number (I3). So of several for one segment any may lead to
//! the value, and so may the segment itself, if it is still there.
//!
//! I6: what was given up as garbage stays given up, even if its bytes can still be read: a record
//! without an entry in the newest whole relocation of its segment, or in a hole. Nobody could see
//! its entry when that was decided, and if the repair finds no newer version of the key, then that
//! was lost, and an older one in its place would be another value.

use crate::base::error::{Error, IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, RelocationId, SegmentId, ValuePointer};
use crate::db::repair::RepairReport;
use crate::db::repair::sources::FoundSegment;
use crate::env::Env;
use crate::relocation::{RelocationMeta, RelocationTable};
use crate::version::files::{TableContext, names};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A relocation file that can be read.
struct FoundRelocation {
    id: RelocationId,
    table: RelocationTable,
    /// False if part of it is damaged: what it does not tell of is no garbage then.
    whole: bool,
}

/// What can be found of values.
#[derive(Default)]
pub struct ValueFinder {
    /// The segments.
    pub segments: BTreeMap<SegmentId, FoundSegment>,
    /// Of each freed segment, newest first.
    relocations: BTreeMap<SegmentId, Vec<FoundRelocation>>,
    /// Freed segments in which nothing was live.
    given_up: BTreeSet<SegmentId>,
}

impl ValueFinder {
    /// Nothing found yet; the manifest says that these segments were given up whole.
    pub fn new(given_up: BTreeSet<SegmentId>) -> Self {
        ValueFinder { given_up, ..ValueFinder::default() }
    }

    /// Takes in a relocation file: whole, or what can be read of it.
    pub fn add_relocation(
        &mut self,
        env: &Env,
        context: &TableContext,
        id: RelocationId,
        report: &mut RepairReport,
    ) -> Result<()> {
        let path = names::relocation(&context.dir, id);
        let file = env.fs.open(&path).doing("open", &path)?;
        let meta = Arc::new(RelocationMeta::read(&*file, &path, context.database, id)?);
        let (files, cache) = (context.files.clone(), context.cache.clone());
        let table = RelocationTable::open(files, path, meta.clone(), context.database, cache)?;
        let checked = table.for_each(|_, _, _, _| Ok(()));
        let found = FoundRelocation { id, table, whole: checked.is_ok() };
        report.relocations += u64::from(found.whole);
        report.problems.extend(checked.err());
        let of_segment = self.relocations.entry(meta.segment).or_default();
        let newer = of_segment.partition_point(|other| other.id > id);
        of_segment.insert(newer, found);
        Ok(())
    }

    /// Everywhere the record of a pointer may be.
    fn places(&self, pointer: ValuePointer) -> Vec<ValuePointer> {
        let relocations = self.relocations.get(&pointer.segment).into_iter().flatten();
        let mut places: Vec<ValuePointer> = relocations
            .filter_map(|relocation| relocation.table.find(pointer.offset).ok().flatten())
            .filter(|place| place.length == pointer.length)
            .collect();
        places.push(pointer);
        places
    }

    /// Where the value of an entry is, once its record has proven to be the right one.
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

    /// True if the newest whole relocation of its segment does not tell of the record.
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

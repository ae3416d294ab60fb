//! Copies values out of segments that do not stay in the database, because a part of them is
//! damaged or in doubt, into sorted segments of their own.
//!
//! So the damaged file goes to `lost` as it is, with all that no table leads to, and what is left
//! in the database is whole: a check finds nothing wrong, a backup has all of it, and value GC may
//! free what becomes garbage.

use crate::base::error::{IoContext, Result};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::env::Env;
use crate::env::fs::File;
use crate::segment::{RecordSeal, Segment, SegmentIdentity, SegmentKind, SortedWriter};
use crate::version::edit::Change;
use crate::version::files::{TableContext, names};
use std::path::PathBuf;
use std::sync::Arc;

/// A segment is closed once it has this many bytes.
const SEGMENT_BYTES: u64 = 64 << 20;

/// The segment that is being written.
struct SavedSegment {
    writer: SortedWriter,
    identity: SegmentIdentity,
    path: PathBuf,
    file: Arc<dyn File>,
}

/// The copies of values. No segment is created before the first of them.
pub struct SavedValues<'a> {
    env: &'a Env,
    context: &'a TableContext,
    open: Option<SavedSegment>,
    changes: Vec<Change>,
}

impl<'a> SavedValues<'a> {
    pub fn new(env: &'a Env, context: &'a TableContext) -> Self {
        SavedValues { env, context, open: None, changes: Vec::new() }
    }

    /// Adds a copy of `record`, which was read from `offset` of `from`, and returns the pointer to
    /// it. Takes the ids of its files from `next_file`.
    pub fn copy(
        &mut self,
        record: &[u8],
        from: &Segment,
        offset: u64,
        next_file: &mut u64,
    ) -> Result<ValuePointer> {
        if self.open.as_ref().is_some_and(|open| open.writer.len() >= SEGMENT_BYTES) {
            self.close()?;
        }
        if self.open.is_none() {
            self.open = Some(self.create(SegmentId(*next_file))?);
            *next_file += 1;
        }
        let open = self.open.as_mut().expect("created just now");
        open.writer.copy(record, from.seal(), offset)
    }

    fn create(&self, id: SegmentId) -> Result<SavedSegment> {
        let path = names::segment(&self.context.dir, id);
        let file = self.env.fs.create(&path).doing("create a sorted segment", &path)?;
        let database = &self.context.identity;
        // I12: the epoch of a segment is drawn anew, also if a repair that was cut short has used
        // the id.
        let epoch = self.env.random.next_u64();
        let kind = SegmentKind::Sorted;
        let identity = SegmentIdentity { database: database.id, id, kind, epoch };
        let seal = RecordSeal::of(database, id, epoch);
        let writer = SortedWriter::create(file.clone(), &path, identity, seal)?;
        Ok(SavedSegment { writer, identity, path, file })
    }

    fn close(&mut self) -> Result<()> {
        let Some(SavedSegment { writer, identity, path, file }) = self.open.take() else {
            return Ok(());
        };
        let length = writer.finish()?;
        // I3: before the manifest that names the segment. A crash from here to the new CURRENT
        // leaves a segment that no edit names, and what it is a copy of.
        file.sync().doing("sync a sorted segment", &path)?;
        let SegmentIdentity { id, kind, epoch, .. } = identity;
        self.changes.push(Change::AddSegment { id, kind, epoch });
        self.changes.push(Change::SealSegment { id, length });
        Ok(())
    }

    /// Closes the last segment and returns the changes that add all of them.
    pub fn finish(mut self) -> Result<Vec<Change>> {
        self.close()?;
        Ok(self.changes)
    }
}

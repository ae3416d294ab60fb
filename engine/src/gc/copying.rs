//! Copies live records of some segments into one sorted segment, in the order of keys. What does
//! not fit in its memory is copied part after part. Of sorted segments a part has the records of a
//! range of keys, which lie together in each of them, so that the parts follow each other in the
//! order of keys, too. Of others it has those of a range of places: a part by keys would read them
//! one by one.

use crate::base::error::{ErrorKind, Result};
use crate::base::pointer::ValuePointer;
use crate::gc::loading::{CopyMemory, LoadedChunk, LoadedChunks};
use crate::gc::overwritten::Overwritten;
use crate::gc::record_list::RecordList;
use crate::gc::record_runs::RecordToMove;
use crate::gc::victim_reader::{Failure, VictimReader};
use crate::segment::RecordView;
use crate::version::job::JobError;
use crate::version::runtime::Runtime;
use crate::version::segment_output::SegmentOutput;
use std::sync::Arc;

/// A segment to be freed, and what was moved of it so far.
pub struct CopySource<'a> {
    /// The segment, open for reading.
    pub reader: Arc<VictimReader>,
    list: &'a RecordList,
    /// The old and new place of each record that was moved, part after part in the order of keys.
    pub moved: Vec<Moved>,
}

/// The old and the new place of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Offset in the old segment.
    pub from: u64,
    /// Pointer to the record's new place.
    pub to: ValuePointer,
}

impl<'a> CopySource<'a> {
    /// Creates a source of which nothing was moved; `list` has its live records in the order of
    /// keys.
    pub fn new(reader: VictimReader, list: &'a RecordList) -> Self {
        CopySource { reader: Arc::new(reader), list, moved: Vec::with_capacity(list.len()) }
    }
}

/// Copies the records of `sources` in the order of keys, except those that died since they were
/// listed. If they do not fit in `memory`, they are copied in several parts. Returns the number of
/// bytes read.
pub fn copy(
    context: &Runtime,
    sources: &mut [CopySource<'_>],
    overwritten: &Overwritten,
    output: &mut SegmentOutput<'_>,
    memory: CopyMemory<'_>,
) -> Result<u64, Failure> {
    let items = sources.iter().enumerate().flat_map(|(source, open)| {
        open.list.iter().map(move |record| RecordToMove { source, record })
    });
    let (items, readers) = (items.collect(), sources.iter().map(|it| it.reader.clone()).collect());
    let mut chunks = LoadedChunks::new(context, readers, items, memory);
    let mut read = 0;
    while let Some(mut chunk) = chunks.next()? {
        read += chunk.read;
        // What nobody has read lately need not come into the cache now.
        output.write_around_cache(chunk.is_missed);
        context.check_closing()?;
        copy_loaded(sources, &mut chunk, overwritten, output)?;
        chunks.give_back(chunk);
    }
    debug_assert!(
        sources.iter().all(|source| source.moved.len() <= source.list.len()),
        "only listed records are moved, each once"
    );
    Ok(read)
}

/// Copies the records of a chunk.
fn copy_loaded(
    sources: &mut [CopySource<'_>],
    chunk: &mut LoadedChunk,
    overwritten: &Overwritten,
    output: &mut SegmentOutput<'_>,
) -> Result<(), Failure> {
    for (item, bytes) in chunk.records() {
        let source = &mut sources[item.source];
        let seal = source.reader.handle.segment.seal();
        // If a table can't be read, it hides nothing here: moving a dead record does no harm.
        // Reads, compactions and liveness scans of the table report the error.
        let is_wanted = |view: &RecordView<'_>| !overwritten.hides(view).unwrap_or(false);
        let to = match output.copy_if(bytes, seal, item.record.offset, is_wanted) {
            Ok(Some(to)) => to,
            Ok(None) => continue,
            Err(JobError::Failed(error)) if error.kind() == ErrorKind::Corruption => {
                return Err(source.reader.failed(error, item.record));
            }
            Err(error) => return Err(error.into()),
        };
        source.moved.push(Moved { from: item.record.offset, to });
    }
    Ok(())
}

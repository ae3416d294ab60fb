//! The files of sorted segments that long walks have for themselves.

use crate::base::error::Result;
use crate::base::pointer::SegmentId;
use crate::cache::WalkFile;
use crate::env::fs::File;
use crate::read::read_plan::MAX_RUN_BYTES;
use crate::segment::{Segment, SegmentKind};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The greatest length in bytes of one read of several records from a file that a walk has for
/// itself, which is a whole window: the system reads ahead only if the reads of a file come one
/// after the other.
///
/// Measured with 258,000 values of 1 KiB in key order and a cold page cache: 929,000 pairs a second
/// with 256 KiB, read by several threads at once, and 1,036,000 with 4 MiB.
pub(super) const MAX_STREAM_BYTES: u64 = 4 << 20;

/// The files of sorted segments that a long walk has opened once more: the system reads ahead of
/// each, because the walk alone reads it, and from front to back.
///
/// Measured with 258,000 values of 1 KiB in 32 sorted segments and a cold page cache: a full scan
/// took 0.6 of the time and 0.7 of the processor time.
#[derive(Default)]
pub struct WalkFiles {
    files: BTreeMap<SegmentId, LentFile>,
    /// The bytes that the system reads ahead of all of them.
    read_ahead: u64,
    batch: u64,
}

struct LentFile {
    own: WalkFile,
    /// The last batch with a value of the segment.
    batch: u64,
}

/// The greatest number of files that a walk opens for itself.
const MOST_WALK_FILES: usize = 64;
/// A walk opens no further file for itself once the system reads so many bytes ahead of those that
/// it has. On a device with a read-ahead of 8 MiB, in 96 MiB of memory, what was read ahead of 32
/// segments was gone before the walk got there: a full scan took 1.05 s instead of 0.36 s without
/// such files (`bench/record/2026-11-28-read-ahead.md`).
const MOST_READ_AHEAD_BYTES: u64 = 8 << 20;
/// A file that so many batches had no use for is closed: the walk has probably left the segment.
const UNUSED_BATCHES: u64 = 2;

impl WalkFiles {
    /// Begins the next batch: closes what the last ones did not use.
    pub(super) fn begin_batch(&mut self) {
        self.batch += 1;
        let oldest = self.batch.saturating_sub(UNUSED_BATCHES);
        self.files.retain(|_, lent| lent.batch >= oldest);
        self.read_ahead = self.files.values().map(|lent| lent.own.read_ahead).sum();
    }

    /// Returns the walk's own file of a sorted segment, and how long a read of several records may
    /// be. Where it can't have one, and of other segments, it is the shared file.
    pub(super) fn of(&mut self, segment: &Segment) -> Result<(Arc<dyn File>, u64)> {
        if segment.kind() != SegmentKind::Sorted {
            return shared_file(segment);
        }
        let is_full =
            self.files.len() >= MOST_WALK_FILES || self.read_ahead >= MOST_READ_AHEAD_BYTES;
        let lent = match self.files.entry(segment.identity().id) {
            Entry::Occupied(lent) => lent.into_mut(),
            Entry::Vacant(_) if is_full => return shared_file(segment),
            Entry::Vacant(place) => match segment.open_for_walk() {
                Some(own) => {
                    self.read_ahead += own.read_ahead;
                    place.insert(LentFile { own, batch: 0 })
                }
                None => return shared_file(segment),
            },
        };
        lent.batch = self.batch;
        Ok((lent.own.file.clone(), MAX_STREAM_BYTES))
    }
}

/// Returns the file of a segment that all readers share, and how long a read of several records may
/// be.
pub(super) fn shared_file(segment: &Segment) -> Result<(Arc<dyn File>, u64)> {
    Ok((segment.file()?, MAX_RUN_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::OpenFiles;
    use crate::cache::memory_fs::MemoryFs;
    use crate::segment::SegmentIdentity;
    use crate::version::files::PathSource;
    use std::path::Path;

    /// Makes what opens segments, of which number 3 has no file.
    fn segments(fs: MemoryFs) -> impl Fn(u64, SegmentKind) -> Segment {
        let fs = Arc::new(fs);
        let open = Arc::new(OpenFiles::new(fs.clone(), 1000));
        move |id: u64, kind| {
            let path = Path::new("segment").join(id.to_string());
            if id != 3 {
                fs.put(&path, Vec::new());
            }
            let identity = SegmentIdentity { database: 1, id: SegmentId(id), kind, epoch: 1 };
            let source = PathSource { files: open.clone(), path: path.clone() };
            Segment::open(identity, path, Arc::new(source))
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_walk_has_as_many_files_as_memory_for_their_read_ahead() {
        for (read_ahead, most) in [(64 << 10, MOST_WALK_FILES), (1 << 20, 8), (32 << 20, 1)] {
            let segment = segments(MemoryFs::reading_ahead(read_ahead));
            let mut files = WalkFiles::default();
            files.begin_batch();
            for id in 10..100 {
                let (_, most_bytes) = files.of(&segment(id, SegmentKind::Sorted)).unwrap();
                let is_own = files.files.contains_key(&SegmentId(id));
                assert_eq!(most_bytes, if is_own { MAX_STREAM_BYTES } else { MAX_RUN_BYTES });
            }
            assert_eq!(files.files.len(), most, "{read_ahead}");
            // Those that were closed make room.
            (0..=UNUSED_BATCHES).for_each(|_| files.begin_batch());
            files.of(&segment(200, SegmentKind::Sorted)).unwrap();
            assert_eq!(files.files.len(), 1);
        }
    }

    #[test]
    fn a_walk_opens_the_files_of_sorted_segments_once_and_closes_those_it_has_left() {
        let segment = segments(MemoryFs::default());
        let mut files = WalkFiles::default();
        files.begin_batch();
        let held = |files: &WalkFiles| files.files.len();
        files.of(&segment(1, SegmentKind::Sorted)).unwrap();
        files.of(&segment(1, SegmentKind::Sorted)).unwrap();
        files.of(&segment(2, SegmentKind::Log)).unwrap();
        assert_eq!(held(&files), 1);
        assert!(files.of(&segment(3, SegmentKind::Sorted)).is_err(), "there is no such file");
        assert_eq!(held(&files), 1);
        (4..100).for_each(|id| drop(files.of(&segment(id, SegmentKind::Sorted)).unwrap()));
        assert_eq!(files.files.len(), MOST_WALK_FILES);
        for _ in 0..UNUSED_BATCHES {
            files.begin_batch();
            files.of(&segment(1, SegmentKind::Sorted)).unwrap();
            assert_eq!(files.files.len(), MOST_WALK_FILES);
        }
        files.begin_batch();
        assert_eq!(held(&files), 1);
        files.of(&segment(100, SegmentKind::Sorted)).unwrap();
        assert_eq!(held(&files), 2);
    }
}

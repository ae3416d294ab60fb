//! Value GC on request. It also works by itself, so this is for programs that know a better moment.

use crate::base::error::Result;
use crate::db::Db;
use std::sync::atomic::Ordering;

/// The result of a collection.
///
/// ```
/// # let dir = cleavedb::doc_dir("gc-report");
/// let db = cleavedb::open(&dir)?;
/// let report = db.gc()?;
/// assert_eq!(report.segments_freed, 0);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcReport {
    /// Segments freed.
    pub segments_freed: u64,
    /// Bytes of the segments freed.
    pub bytes_freed: u64,
    /// Segments in which holes were punched, where that is cheaper than to move what is live.
    pub segments_punched: u64,
    /// Bytes of those holes. They are freed once no earlier cursor reads them.
    pub bytes_punched: u64,
    /// Live values that were moved.
    pub values_moved: u64,
    /// Bytes of those values, and of the relocations that lead to them.
    pub bytes_written: u64,
}

impl Db {
    /// Frees now what is worth freeing: every segment that shrinks well, whether the ceiling
    /// holds or not. Flushes first, so that recent writes count too. Writers and readers go on
    /// meanwhile.
    ///
    /// Costs a read of all keys, and a read and a write of each live value in the segments freed
    /// (WiscKey, section 3.3.2, frees from the tail of the log instead). What
    /// snapshots and cursors still see stays until they are dropped.
    ///
    /// Fails with [`ErrorKind::ReadOnly`] if the database takes no writes, and with the error of
    /// the flush or of the collection.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-gc"))?;
    /// let words = db.default_keyspace();
    /// words.put("one", vec![1; 1 << 20])?;
    /// words.delete("one")?;
    /// let report = db.gc()?;
    /// println!("{} bytes freed", report.bytes_freed);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::ReadOnly`]: crate::ErrorKind::ReadOnly
    pub fn gc(&self) -> Result<GcReport> {
        self.core.check_writable()?;
        {
            let committer = &self.core.committer;
            let mut log = committer.hold();
            // The flush moves the head past the active segment, so its garbage counts too.
            committer.log().end_active(&mut log)?;
            committer.log().record_sealed()?;
        }
        self.flush()?;
        let done = self.core.background.collect_now()?;
        Ok(GcReport {
            segments_freed: done.segments,
            bytes_freed: done.bytes_freed,
            segments_punched: done.segments_punched,
            bytes_punched: done.bytes_punched,
            values_moved: done.records,
            bytes_written: done.bytes_moved + done.relocation_bytes,
        })
    }

    /// Pauses automatic GC, for a time that needs all of the device. Segments in which nothing is
    /// live are still dropped. A running liveness scan is given up; a relocation (of 64 MiB or one
    /// segment) is completed first. [`Db::resume_gc`] ends the pause, and so does opening anew.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-pause-gc"))?;
    /// db.pause_gc();
    /// // ... a minute in which the device serves requests only ...
    /// db.resume_gc();
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn pause_gc(&self) {
        self.set_gc_paused(true);
    }

    /// Ends [`Db::pause_gc`].
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-resume-gc"))?;
    /// db.pause_gc();
    /// db.resume_gc();
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn resume_gc(&self) {
        self.set_gc_paused(false);
    }

    /// Does nothing in a forked child, where there is no GC and waking it might wait for a lock.
    fn set_gc_paused(&self, is_paused: bool) {
        if self.core.process.is_gone() {
            return;
        }
        self.core.background.collector().paused().store(is_paused, Ordering::Relaxed);
        self.core.background.wake();
    }
}

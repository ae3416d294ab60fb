//! Incremental backups: a directory of *points*, each a whole state of the database, which share
//! the files that they have in common.
//!
//! | file | what |
//! |---|---|
//! | `making.rs` | `Db::backup`: a new point |
//! | `backups.rs` | without a database: list, verify, restore and delete points |
//! | `restoring.rs` | a point becomes a database again |
//! | `point.rs` | the description of a point, and its bytes |
//! | `catalog.rs` | what a backup directory holds, and what is left over in it |
//! | `copying.rs` | copies a file, and takes its checksum on the way |
//! | `json.rs` | the list of points as JSON |
//!
//! Tables, relocations and sealed segments never change, so a file that the backup has is never
//! read again, nor copied. Whether it has a file is decided by what the version says about it, and
//! costs a look at the length of the copy ([`point::StoredFile::stands_for`]): kind, id, length and
//! identity are the same, and what was not copied is a hole in the database too. Holes only grow.
//! So a copy that was made before a segment was punched serves later points, which do not look into
//! the hole, as well as earlier ones, which may. The other way round happens only if the database
//! itself was set back: then the segment is copied again, under the number of the new point.
//!
//! A point is there as soon as its description is, which is renamed into place when all else is
//! durable; it is gone as soon as its description is, and files go only after that. So a crash
//! anywhere leaves the other points as they were.

mod backups;
pub(crate) mod catalog;
mod copying;
mod json;
mod making;
pub(crate) mod point;
mod restoring;

pub use backups::{BackupCheck, BackupPoint, BackupProblem, Backups, DeletedPoints, PointList};
pub use making::BackupReport;
pub use restoring::RestoreReport;

use crate::base::error::{Error, Result};
use crate::db::long_pass::{PassOptions, PassProgress};
use std::sync::Arc;

/// The options of [`Db::backup_with`](crate::Db::backup_with). New ones may be added in any
/// release, so they are set by chained calls.
///
/// ```
/// # let dir = cleavedb::doc_dir("backup-options");
/// # let db = cleavedb::open(dir.join("store"))?;
/// use cleavedb::BackupOptions;
/// let options = BackupOptions::new().keep(7).bytes_per_second(50 << 20);
/// for day in 0..9 {
///     db.default_keyspace().put("day", day.to_string())?;
///     db.backup_with(dir.join("backup"), &options)?;
/// }
/// let points = cleavedb::Backups::new(dir.join("backup")).list()?.points;
/// assert_eq!(points.len(), 7);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BackupOptions {
    /// The number of points to keep, the new one included; older ones are deleted once it is
    /// there. `None`, the default, keeps all.
    pub keep: Option<usize>,
    /// Reads each file that the backup has before the new point relies on it, and copies those that
    /// are damaged again. Default false: a file is taken for whole if it has its length.
    /// [`Backups::verify`] tells of damage without a new point.
    pub verify: bool,
    pub(crate) pass: PassOptions,
}

impl BackupOptions {
    /// Returns the defaults: keeps all points, and copies as fast as it can.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`BackupOptions::keep`].
    #[must_use]
    pub fn keep(mut self, points: usize) -> Self {
        self.keep = Some(points);
        self
    }

    /// Sets [`BackupOptions::verify`].
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Sets how many bytes per second are copied, or read to verify them, at most.
    #[must_use]
    pub fn bytes_per_second(mut self, rate: u64) -> Self {
        self.pass.bytes_per_second = Some(rate);
        self
    }

    /// Has `tell` called after each piece that was copied or verified, on the thread that makes the
    /// backup.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backup-progress");
    /// # let db = cleavedb::open(dir.join("store"))?;
    /// use cleavedb::BackupOptions;
    /// let options = BackupOptions::new().on_progress(|progress| {
    ///     println!("{} of {} bytes", progress.done_bytes, progress.all_bytes);
    /// });
    /// db.backup_with(dir.join("backup"), &options)?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    #[must_use]
    pub fn on_progress(mut self, tell: impl Fn(PassProgress) + Send + Sync + 'static) -> Self {
        self.pass.on_progress = Some(Arc::new(tell));
        self
    }

    fn check(&self) -> Result<()> {
        check_keep(self.keep)?;
        self.pass.check()
    }
}

fn check_keep(keep: Option<usize>) -> Result<()> {
    if keep == Some(0) {
        return Err(Error::invalid_option("a backup that keeps no point is none")
            .advise("keep at least one"));
    }
    Ok(())
}

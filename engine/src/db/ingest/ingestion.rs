//! Takes keys in ascending order and writes them to tables and sorted segments that no version
//! names yet. Their entries and records have the number 0, which no commit has, because the ingest
//! gets its own when it takes effect (`install.rs`).
//!
//! A crash leaves orphans, which the next opening removes. While files are written, the ingest
//! counts as a job, so that a closing database waits for that, and never for the caller.

use super::install::{Install, NewTables};
use super::{IngestOptions, IngestReport};
use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, Result, shown_key};
use crate::base::expiry::Deadline;
use crate::base::key::Trailer;
use crate::commit::batch::{check_deadline, check_key, check_value};
use crate::compaction::output::TableOutput;
use crate::compaction::separate::Separator;
use crate::db::expiry::Expiry;
use crate::db::keyspace::Keyspace;
use crate::segment::RecordKind;
use crate::throttle::reads::IoPriority;
use crate::version::segment_output::SegmentOutput;
use crate::version::settings::KeyspaceOptions;
use std::fmt;
use std::ops::Range;

/// Entries are written once there are this many bytes of them.
const BUFFER_BYTES: usize = 1 << 20;
/// The free space of the disk is checked after this many bytes.
const DISK_CHECK_BYTES: u64 = 16 << 20;

/// An entry that waits in memory.
struct Waiting {
    key: Range<usize>,
    /// `None` for a deletion.
    value: Option<Range<usize>>,
    deadline: Option<Deadline>,
}

/// The files that are written.
pub(super) struct IngestOutput<'a> {
    pub(super) tables: TableOutput<'a>,
    pub(super) segments: SegmentOutput<'a>,
}

/// An ingest under way: keys are put in ascending order, and take effect with
/// [`Ingestion::finish`]. [`Keyspace::begin_ingest`] has an example.
pub struct Ingestion<'a> {
    keyspace: &'a Keyspace,
    options: IngestOptions,
    settings: KeyspaceOptions,
    separator: Separator,
    waiting: Vec<Waiting>,
    bytes: Vec<u8>,
    last_key: Option<Vec<u8>>,
    /// `None` once it was taken to be installed, or given up.
    output: Option<IngestOutput<'a>>,
    entries: u64,
    /// Keys that were left out.
    pub(super) skipped: u64,
    /// Deletions among the entries.
    deletes: u64,
    /// The bytes until the free space of the disk is checked again; at first it is at once.
    until_check: u64,
    /// Set by a failed write: what follows would leave a gap.
    failed: Option<Error>,
}

impl fmt::Debug for Ingestion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingestion").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl<'a> Ingestion<'a> {
    pub(super) fn begin(keyspace: &'a Keyspace, options: IngestOptions) -> Result<Self> {
        let core = &keyspace.core;
        core.check_writable()?;
        core.health.check()?;
        keyspace.state.check()?;
        let settings = (**keyspace.state.options()).clone();
        let (runtime, priority) = (&core.runtime, IoPriority::Flush);
        let split = settings.table_bytes;
        let tables = TableOutput::new(runtime, &keyspace.state, &settings, split, priority);
        let segments = SegmentOutput::new(runtime, core.committer.log().segment_bytes(), priority);
        Ok(Ingestion {
            keyspace,
            options,
            separator: Separator::new(keyspace.state.id, &settings),
            settings,
            waiting: Vec::new(),
            bytes: Vec::new(),
            last_key: None,
            output: Some(IngestOutput { tables, segments }),
            entries: 0,
            skipped: 0,
            deletes: 0,
            until_check: 0,
            failed: None,
        })
    }

    /// Puts a value under a key that comes behind all before.
    ///
    /// Fails with [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the key does
    /// not come behind the one before, or if key or value are too large; then the key is left out,
    /// and the ingest can go on. Any other error is final.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_entry(key.as_ref(), Some(value.as_ref()), None)
    }

    /// Puts a value that expires, as [`Keyspace::put_expiring`] does.
    pub fn put_expiring(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: impl Into<Expiry>,
    ) -> Result<()> {
        self.put_entry(key.as_ref(), Some(value.as_ref()), Some(expiry.into()))
    }

    /// Deletes a key that comes behind all before.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.put_entry(key.as_ref(), None, None)
    }

    fn put_entry(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        expiry: Option<Expiry>,
    ) -> Result<()> {
        let deadline = value.and_then(|_| self.keyspace.deadline(expiry));
        self.add_checked(key, value, deadline)
    }

    /// Adds an entry of a file. Without a deadline of its own, a value gets the keyspace's default.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        deadline: Option<Deadline>,
    ) -> Result<()> {
        let default = || value.and_then(|_| self.keyspace.deadline(None));
        let deadline = deadline.or_else(default);
        self.add_checked(key, value, deadline)
    }

    fn add_checked(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        deadline: Option<Deadline>,
    ) -> Result<()> {
        check_key(key)?;
        value.map_or(Ok(()), check_value)?;
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        check_deadline(&self.keyspace.state, deadline)?;
        let order = &self.keyspace.state.order;
        if let Some(last) = &self.last_key
            && order.compare(last, key).is_ge()
        {
            let (last, key) = (shown_key(last), shown_key(key));
            return Err(Error::invalid_argument(format!(
                "the key {key} does not come behind {last}, which was ingested before it"
            ))
            .advise("sort the keys, each of them once, or load them without ingesting"));
        }
        match &mut self.last_key {
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            none => *none = Some(key.to_vec()),
        }
        if value.is_none() && self.options.below {
            self.skipped += 1;
            return Ok(());
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let value = value.map(|_| middle..self.bytes.len());
        self.waiting.push(Waiting { key: start..middle, value, deadline });
        if self.bytes.len() >= BUFFER_BYTES {
            self.write_out()?;
        }
        Ok(())
    }

    /// Writes what waits in memory.
    fn write_out(&mut self) -> Result<()> {
        let written = self.try_write_out();
        written.inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// Returns once what waits in memory may be written. I9, I10: an ingest is held up by the same
    /// rules as a put of as many bytes, and leaves the reserve to what makes room. The caller has
    /// begun no job, so that closing need not wait for this.
    fn admit(&mut self) -> Result<()> {
        let committer = &self.keyspace.core.committer;
        let bytes = self.bytes.len() as u64;
        self.until_check = self.until_check.saturating_sub(bytes);
        if self.until_check == 0 {
            self.until_check = DISK_CHECK_BYTES;
            committer.check_disk_now();
        }
        let keyspaces = std::iter::once(&self.keyspace.state);
        committer.stall_controller().admit(keyspaces, bytes, || false)
    }

    fn try_write_out(&mut self) -> Result<()> {
        let core = &self.keyspace.core;
        core.check_open()?;
        self.admit()?;
        let _job = core.background.begin_job()?;
        self.keyspace.state.check()?;
        let output = self.output.as_mut().expect("it is taken by `finish` only");
        let mut stored = Vec::new();
        for entry in &self.waiting {
            let key = &self.bytes[entry.key.clone()];
            self.deletes += u64::from(entry.value.is_none());
            let value = entry.value.as_ref().map(|value| &self.bytes[value.clone()]);
            let slot = match value {
                None => Slot::Delete,
                Some(value) if self.separator.separates(value.len()) => {
                    let (to, deadline) = (&mut output.segments, entry.deadline);
                    let value = (RecordKind::Put, key, value);
                    Slot::Pointer(self.separator.write_value(value, deadline, 0, to)?)
                }
                Some(value) => Slot::Inline(value),
            };
            let payload = Payload { deadline: entry.deadline, ..slot.into() };
            stored.clear();
            payload.encode(&mut stored);
            output.tables.add(key, Trailer::new(0, payload.kind()), &stored)?;
        }
        self.entries += self.waiting.len() as u64;
        self.waiting.clear();
        self.bytes.clear();
        self.bytes.shrink_to(2 * BUFFER_BYTES);
        Ok(())
    }

    /// Makes the files durable and has all of them take effect at once. Nothing has changed if this
    /// fails; only after an error that turned the database read-only, the next opening tells.
    pub fn finish(self) -> Result<IngestReport> {
        self.finish_with(&|| ())
    }

    /// Does as [`Ingestion::finish`], and calls `after_edit` when the tables are in place and their
    /// number is not visible yet.
    pub(crate) fn finish_with(mut self, after_edit: &dyn Fn()) -> Result<IngestReport> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.write_out()?;
        let core = &self.keyspace.core;
        let job = core.background.begin_job()?;
        let mut output = self.output.take().expect("it is taken here only");
        output.segments.finish()?;
        let metas = output.tables.finish()?;
        let (entries, deletes, skipped) = (self.entries, self.deletes, self.skipped);
        let new = NewTables { metas, output, entries, deletes, skipped };
        let (keyspace, settings) = (self.keyspace, &self.settings);
        let below = self.options.below;
        let install = Install { core, keyspace, settings, below, after_edit };
        let report = install.run(new);
        drop(job);
        report
    }
}

impl Drop for Ingestion<'_> {
    fn drop(&mut self) {
        let Some(output) = self.output.take() else { return };
        // The files are removed while closing waits for that. After it, another process may own the
        // directory, so they are left as orphans.
        let core = &self.keyspace.core;
        let job = core.check_open().and_then(|()| core.background.begin_job());
        match job {
            Ok(_job) => drop(output),
            Err(_) => {
                output.tables.leave();
                output.segments.leave();
            }
        }
    }
}

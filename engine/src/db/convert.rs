//! Conversion of stored values to the present settings of their keyspaces, piece by piece.
//!
//! Levels are converted from the top. Entries only go down, and what writers, flushes and
//! compactions make meanwhile is by the present settings. So once a level and all above it are
//! converted they stay so, and one walk over each level is enough, whatever runs beside it.

use crate::background::CompactionReason;
use crate::base::error::Result;
use crate::base::pointer::TableId;
use crate::compaction::convert::{self, ValueHomes, all_value_bytes};
use crate::compaction::job::CompactionReport;
use crate::compaction::level0;
use crate::compaction::picker::pick_range;
use crate::db::keyspace::Keyspace;
use crate::db::long_pass::{LongPass, PassOptions, PassProgress};
use crate::db::{Core, Db};
use crate::version::files::TableHandle;
use crate::version::levels::{LEVELS, Levels, bounds};
use crate::version::view::{KeyspaceState, View};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The options of [`Db::convert_with`] and [`Keyspace::convert_with`]. New ones may be added in any
/// release, so they are set by chained calls.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("convert-options"))?;
/// use cleavedb::ConvertOptions;
/// let tell = ConvertOptions::new().on_progress(|pass| {
///     println!("{} of {} bytes", pass.done_bytes, pass.all_bytes);
/// });
/// db.convert_with(&tell)?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    pass: PassOptions,
}

impl ConvertOptions {
    /// Returns the defaults: nobody is told of the progress.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has `tell` called after each piece, on the thread that converts.
    #[must_use]
    pub fn on_progress(mut self, tell: impl Fn(PassProgress) + Send + Sync + 'static) -> Self {
        self.pass.on_progress = Some(Arc::new(tell));
        self
    }
}

/// What a conversion has done. [`Keyspace::convert`] has an example.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvertReport {
    /// The number of values that moved from segments into the tree.
    pub values_moved_in: u64,
    /// The number of values that moved from the tree to segments.
    pub values_moved_out: u64,
    /// The number of values that are damaged, and stay where they were. One may count again for
    /// each level that a compaction takes it to meanwhile.
    pub damaged_values: u64,
    /// The number of pieces, each of which took effect with one edit.
    pub pieces: u64,
    /// Bytes of the tables and records that were read.
    pub bytes_read: u64,
    /// Bytes of the tables and segments that were written.
    pub bytes_written: u64,
}

impl ConvertReport {
    /// Adds a job, and returns how many bytes it has read.
    fn add(&mut self, job: &CompactionReport) -> u64 {
        let (moved, bytes_read) = (&job.moved_values, self.bytes_read);
        self.values_moved_in += moved.moved_in;
        self.values_moved_out += moved.moved_out;
        self.damaged_values += moved.damaged;
        self.pieces += 1;
        self.bytes_read += job.bytes_read;
        self.bytes_written += job.bytes_written + job.values_written;
        self.bytes_read - bytes_read
    }
}

/// The conversion of one keyspace.
struct Conversion<'a> {
    core: &'a Core,
    keyspace: &'a Arc<KeyspaceState>,
    pass: &'a mut LongPass,
    report: &'a mut ConvertReport,
    /// The tables in which all values are at home.
    converted: BTreeSet<TableId>,
}

impl Conversion<'_> {
    fn run(mut self) -> Result<()> {
        // What is written from now on is by the present settings, and so is what is flushed.
        self.core.flush(std::slice::from_ref(self.keyspace))?;
        self.lower_level0()?;
        (1..LEVELS).try_for_each(|level| self.convert_level(level))
    }

    /// Returns true if every value of `table`, which is in `view`, is at home.
    fn is_converted(&mut self, view: &Arc<View>, table: &Arc<TableHandle>) -> Result<bool> {
        if self.converted.contains(&table.meta.id) {
            return Ok(true);
        }
        // Closing waits until the table was read.
        let _job = self.core.background.begin_job()?;
        let homes = ValueHomes::of(self.core, self.keyspace);
        let is_converted = homes.have_all(self.core, view, table)?;
        if is_converted {
            self.converted.insert(table.meta.id);
            self.pass.advance(bytes_of(table));
        }
        Ok(is_converted)
    }

    /// Compacts L0 unless it is converted: its tables overlap, so none can be rewritten alone. That
    /// moves values on the way, or leaves them to the walk over the level below.
    fn lower_level0(&mut self) -> Result<()> {
        let mut old = BTreeSet::new();
        let view = self.keyspace.view();
        for table in view.levels.level(0) {
            if !self.is_converted(&view, table)? {
                old.insert(table.meta.id);
            }
        }
        drop(view);
        let is_left =
            |levels: &Levels| levels.level(0).iter().any(|table| old.contains(&table.meta.id));
        while is_left(&self.keyspace.view().levels) {
            let options = self.keyspace.options().clone();
            let choose = |levels: &Levels| {
                let oldest = is_left(levels).then(|| level0::pick_oldest_part(levels, &options))?;
                oldest.or_else(|| pick_range(levels, 0, (None, None), false))
            };
            let background = &self.core.background;
            let job = background.run_chosen(self.keyspace, CompactionReason::Manual, choose)?;
            job.iter().for_each(|job| self.pass.advance(self.report.add(job)));
        }
        Ok(())
    }

    /// Converts the tables of a level below L0, in the order of keys.
    fn convert_level(&mut self, level: usize) -> Result<()> {
        let order = &self.keyspace.order;
        let mut done: Option<Vec<u8>> = None;
        loop {
            let (piece, bytes) = self.next_piece(level, &mut done)?;
            if piece.is_empty() {
                return Ok(());
            }
            // I9, I10: a conversion is held up by the same rules as puts. It has begun no job, so
            // closing need not wait for this.
            let stalls = self.core.committer.stall_controller();
            stalls.admit(std::iter::once(self.keyspace), bytes, || false)?;
            let mut last = None;
            let choose = |levels: &Levels| {
                let pick = convert::pick(levels, level, &piece)?;
                last = pick.inputs.last().map(|table| bounds(table).1.to_vec());
                Some(pick)
            };
            let background = &self.core.background;
            let job = background.run_chosen(self.keyspace, CompactionReason::Conversion, choose)?;
            // If another compaction took the tables, its outputs are looked at next.
            let Some(job) = job else { continue };
            self.pass.advance(self.report.add(&job));
            let until = job.moved_until.or(last);
            let goes_on = |until: &Vec<u8>| {
                done.as_ref().is_none_or(|done| order.compare(done, until).is_lt())
            };
            // A job that began before the settings changed may bring values back behind the walk;
            // then the piece ends there, having moved some of them.
            done = until.filter(goes_on).or(done);
        }
    }

    /// Passes over the tables of `level` behind the user key `done` that are converted, and returns
    /// the next ones that are not, whose values fill about one segment, with the bytes to write.
    fn next_piece(
        &mut self,
        level: usize,
        done: &mut Option<Vec<u8>>,
    ) -> Result<(Vec<TableId>, u64)> {
        let most_bytes = self.core.committer.log().segment_bytes();
        let (mut piece, mut bytes, mut after) = (Vec::new(), 0, done.clone());
        while bytes < most_bytes {
            // Each look has a view of its own, which keeps files from being removed.
            let view = self.keyspace.view();
            let Some(table) = first_behind(&view.levels, level, after.as_deref()) else { break };
            let last = bounds(table).1.to_vec();
            if !self.is_converted(&view, table)? {
                piece.push(table.meta.id);
                bytes = all_value_bytes(table).saturating_add(bytes);
            } else if piece.is_empty() {
                *done = Some(last.clone());
            } else {
                break;
            }
            after = Some(last);
        }
        Ok((piece, bytes.min(most_bytes)))
    }
}

/// Returns the first table of `level`, below L0, with a key behind the user key `after`.
fn first_behind<'a>(
    levels: &'a Levels,
    level: usize,
    after: Option<&[u8]>,
) -> Option<&'a Arc<TableHandle>> {
    let is_before = |table: &Arc<TableHandle>| {
        after.is_some_and(|after| levels.order().compare(bounds(table).1, after).is_le())
    };
    let tables = levels.level(level);
    tables.get(tables.partition_point(is_before))
}

/// Returns the bytes of a table and of the values that it references.
fn bytes_of(table: &Arc<TableHandle>) -> u64 {
    // I7: the numbers are from files.
    table.meta.bytes.saturating_add(table.meta.summary.value_bytes())
}

impl Core {
    /// Converts some keyspaces; one that is dropped meanwhile has nothing left to convert.
    fn convert(
        &self,
        keyspaces: &[Arc<KeyspaceState>],
        options: &ConvertOptions,
    ) -> Result<ConvertReport> {
        self.check_writable()?;
        let views = keyspaces.iter().map(|keyspace| keyspace.view());
        let of_view = |view: Arc<View>| {
            let tables = view.levels.tables().map(|(_, table)| bytes_of(table));
            tables.fold(0, u64::saturating_add)
        };
        let all_bytes = views.map(of_view).fold(0, u64::saturating_add);
        let mut pass = LongPass::new(&self.env, &options.pass, all_bytes);
        let mut report = ConvertReport::default();
        for keyspace in keyspaces {
            let conversion = Conversion {
                core: self,
                keyspace,
                pass: &mut pass,
                report: &mut report,
                converted: BTreeSet::new(),
            };
            let outcome = conversion.run();
            if keyspaces.len() == 1 || keyspace.check().is_ok() {
                outcome?;
            }
        }
        Ok(report)
    }
}

impl Keyspace {
    /// Brings every stored value to where the keyspace's settings say, and waits for it: after
    /// [`Keyspace::set_options`] has changed `separation` or `separation_threshold`, what was
    /// written before stays where it is until then, or until a compaction comes to it. A value of
    /// at least the threshold moves from the tree to a sorted segment, unless separation is off;
    /// any other moves from its segment into the tree. What is separated already stays in its
    /// segment, of whichever kind that is.
    ///
    /// It works piece by piece, about a segment's worth of values at a time, each of which takes
    /// effect with one edit. Reads, snapshots and writes go on meanwhile. If it ends early, by an
    /// error, a crash or because the database is closed, what was moved stays moved, and another
    /// call goes on from there. What is at home is not written again: if separation is off that
    /// costs nothing, else a read of the tables, and of separated values that are compressed to
    /// less than the threshold.
    ///
    /// Costs a flush, a read and a write of the values that move and of the tables that they are
    /// in, and a compaction of L0. The old places are freed once nobody reads them: tables at once,
    /// segments when nothing in them is live, or by value GC before that. Until then it takes up to
    /// as much extra space as the values that move do.
    ///
    /// Writes, ingests and compactions that were under way when the settings changed may still
    /// store values by the old ones; call it after they are done. Fails as [`Keyspace::flush`]
    /// does.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("convert");
    /// use cleavedb::{KeyspaceOptions, Separation};
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("long", vec![1; 5000])?;
    /// words.put("short", vec![2; 50])?;
    /// words.flush()?;
    /// words.set_options(KeyspaceOptions { separation: Separation::Off, ..words.options() })?;
    /// let report = words.convert()?;
    /// assert_eq!((report.values_moved_in, report.values_moved_out), (1, 0));
    /// assert_eq!(words.get("long")?.unwrap(), vec![1; 5000]);
    /// assert_eq!(words.convert()?.bytes_written, 0);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn convert(&self) -> Result<ConvertReport> {
        self.convert_with(&ConvertOptions::default())
    }

    /// Converts as [`Keyspace::convert`] does, with options: [`ConvertOptions`] has an example.
    pub fn convert_with(&self, options: &ConvertOptions) -> Result<ConvertReport> {
        self.state.check()?;
        self.core.convert(std::slice::from_ref(&self.state), options)
    }
}

impl Db {
    /// Brings the stored values of all keyspaces to where their settings say, as
    /// [`Keyspace::convert`] does, and returns the sum.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-convert"))?;
    /// let report = db.convert()?;
    /// assert_eq!(report.values_moved_in + report.values_moved_out, 0);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn convert(&self) -> Result<ConvertReport> {
        self.convert_with(&ConvertOptions::default())
    }

    /// Converts as [`Db::convert`] does, with options: [`ConvertOptions`] has an example.
    pub fn convert_with(&self, options: &ConvertOptions) -> Result<ConvertReport> {
        self.core.convert(&self.core.states(), options)
    }
}

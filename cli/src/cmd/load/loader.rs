//! The loop of a load that writes batches, and what it leaves when it ends early.

use super::LoadTally;
use super::distinct::DistinctKeys;
use super::input::LoadInput;
use super::mark::LoadMark;
use super::rejects::Rejects;
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;
use crate::text::counted;
use cleavedb::{Db, Error, ErrorKind, Keyspace, Result, WriteBatch, WriteOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size in bytes from which a batch is written, even with few records.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes of keys and values after which the progress is noted. A load that was killed repeats at
/// most these; a sync for each is no delay.
const MARK_BYTES: u64 = 64 << 20;

/// A load under way.
pub(super) struct Loader<'a> {
    pub(super) keyspace: Keyspace,
    pub(super) batch: WriteBatch,
    pub(super) options: WriteOptions,
    pub(super) ack: Option<Output>,
    pub(super) progress: Progress,
    pub(super) seen: LoadTally,
    pub(super) stored: LoadTally,
    /// True once a batch could not be written: what was read since the last one is lost.
    pub(super) has_failed: bool,
    /// The stored bytes when the progress was last noted.
    pub(super) marked_bytes: u64,
    pub(super) distinct: DistinctKeys,
    pub(super) rejects: Rejects,
    pub(super) mark: LoadMark,
    pub(super) interruption: Interruption,
    pub(super) db: &'a Db,
}

impl Loader<'_> {
    pub(super) fn read(&mut self, input: &mut LoadInput, batch_records: u64) -> Result<()> {
        loop {
            self.interruption.check(&input.name)?;
            let record = self.rejects.next_good(input.records.as_mut());
            self.seen.lines = input.records.count();
            let Some(record) = record? else {
                // A pipe may have ended because its writer was interrupted, too.
                return self.interruption.check(&input.name);
            };
            self.seen.records += 1;
            self.seen.bytes += (record.key.len() + record.value.len()) as u64;
            self.distinct.add(&record.key);
            self.batch.put(&self.keyspace, &record.key, &record.value);
            let full = self.batch.len() as u64 >= batch_records;
            if full || self.batch.bytes() >= BATCH_BYTES {
                self.write_batch()?;
                self.progress.show(self.stored.lines, input.share());
            }
        }
    }

    /// Writes the records read since the last batch and acknowledges them. Writes nothing once that
    /// has failed, so that what is stored stays the beginning of the input.
    pub(super) fn write_batch(&mut self) -> Result<()> {
        if self.has_failed {
            return Ok(());
        }
        // An empty batch is written, too: a record that was refused is no operation in it, and its
        // error comes now.
        let batch = mem::take(&mut self.batch);
        let is_empty = batch.is_empty();
        let written = self.db.write_with(batch, &self.options);
        self.has_failed = written.is_err();
        written?;
        self.stored = self.seen;
        if is_empty {
            // Only lines without a record were read since.
            return Ok(());
        }
        match self.acknowledge() {
            // Nobody reads the acknowledgements any more; the load itself goes on.
            Err(Stop::OutputClosed) => self.ack = None,
            Err(Stop::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        if self.stored.bytes - self.marked_bytes >= MARK_BYTES {
            self.note_progress()?;
        }
        Ok(())
    }

    fn acknowledge(&mut self) -> Result<(), Stop> {
        let Some(out) = &mut self.ack else { return Ok(()) };
        out.line(self.stored.lines.to_string())?;
        out.flush()
    }

    /// Notes how many lines are stored, or put aside, once a crash can't take them back.
    fn note_progress(&mut self) -> Result<()> {
        self.db.sync()?;
        self.rejects.sync()?;
        self.mark.write(self.stored.lines)?;
        self.marked_bytes = self.stored.bytes;
        Ok(())
    }

    /// Ends a load that met an error: returns it with how many lines are stored nevertheless, and
    /// how to go on.
    pub(super) fn stopped(mut self, error: &Error) -> Error {
        let lines = self.stored.lines;
        let (lines_told, behind) = self.told_as_stored();
        // The first error is what matters; where this one keeps the note away, there is only the
        // beginning to go on from.
        let is_noted = lines > 0 && self.note_progress().is_ok();
        let stored = match (lines, is_noted) {
            (0, _) => String::new(),
            (_, true) => format!("{lines_told}, and --resume goes on {behind}"),
            (_, false) => lines_told,
        };
        let told = match (error.advice(), stored) {
            (_, stored) if stored.is_empty() => error.clone(),
            (Some(advice), stored) => error.clone().advise(format!("{advice}; {stored}")),
            (None, stored) => error.clone().advise(stored),
        };
        // What was left out so far is told before the error that ended it.
        match self.rejects.finish() {
            Ok(_) => told,
            Err(error) => error,
        }
    }

    /// Returns what an error says of the lines that are stored, and where a resumed load goes on.
    fn told_as_stored(&self) -> (String, &'static str) {
        let lines = self.stored.lines;
        let counted = counted(lines, "line");
        match (self.has_failed, lines) {
            (false, 1) => ("the 1 line before it is stored".into(), "there"),
            (false, _) => (format!("the {counted} before it are stored"), "there"),
            // A batch that failed has several lines, so the error need not be about the next one.
            (true, 1) => ("the first line is stored".into(), "behind it"),
            (true, _) => (format!("the first {counted} are stored"), "behind them"),
        }
    }
}

/// Whether somebody wants the load to end: by Ctrl-C, by ending the process, or by hanging up.
pub(super) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Watches the signals. Where the input is typed at a terminal, they end the process as usual:
    /// its reading could not be interrupted.
    pub(super) fn watch(is_prepared: bool) -> Result<Interruption> {
        let flag = Arc::new(AtomicBool::new(false));
        let signals = if is_prepared { &[SIGINT, SIGTERM, SIGHUP][..] } else { &[] };
        for &signal in signals {
            // The second one ends the process at once: reading a pipe may take for ever.
            let second = signal_hook::flag::register_conditional_shutdown(signal, 2, flag.clone());
            second
                .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
                .map_err(|error| Error::io("watch signals for", Path::new("the load"), error))?;
        }
        Ok(Interruption(flag))
    }

    fn check(&self, input: &Path) -> Result<()> {
        if !self.0.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Io, "the load was interrupted").in_file(input))
    }
}

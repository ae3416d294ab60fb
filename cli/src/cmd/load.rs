//! `cleave load`: reads records from text and stores them in batches.
//!
//! Lines are stored in their order, so at any moment a prefix of the input is stored. With `--ack`,
//! a number on standard output after each batch says how many lines are stored with the durability
//! of `--durability`.

use super::sorting::{self, MEMORY_MIB, SortedLoader};
use crate::args::{Durable, Target, TextInput};
use crate::format::Format;
use crate::format::read::{self, Fields, Records};
use crate::open;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::Output;
use crate::progress::Progress;
use crate::text::{human_bytes, human_count, per_second};
use clap::Args;
use cleavedb::{Db, Error, Keyspace, Options, Result, WriteBatch, WriteOptions};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size in bytes from which a batch is written, even with few records.
const BATCH_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 256 << 10;

/// Load records from TSV, CSV, JSON lines or hexadecimal text
///
/// If a key occurs several times, its last value wins.
///
/// The value is, in TSV, everything after the first tab (with the escapes \t \n \r \0 \\ \xNN
/// decoded); in CSV, the other column if there are two, else the row as a JSON object; in JSON
/// lines, the field "value" of an object that has only "key" and "value", else the whole line.
/// --value names other columns or fields.
#[derive(Args)]
pub(crate) struct Load {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    input: TextInput,

    /// Records per batch
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,

    /// After each batch, print the number of lines stored so far
    #[arg(long)]
    ack: bool,

    #[command(flatten)]
    durable: Durable,

    /// Ingest the records instead of writing them one after the other: fastest if their keys
    /// ascend. If they do not, they are sorted first, from the place where they cease to; what came
    /// before it takes effect at that moment, and the rest at the end, or whenever there are 500
    /// files of --memory each
    #[arg(long, conflicts_with_all = ["ack", "batch", "durability"])]
    sorted: bool,

    /// The memory that sorting may take, in MiB
    #[arg(long, value_name = "MIB", default_value_t = MEMORY_MIB, requires = "sorted",
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memory: u64,

    /// The directory for files of the sort [default: that of the database]
    #[arg(long, value_name = "DIR", requires = "sorted")]
    temp: Option<PathBuf>,
}

pub(crate) fn run(args: &Load) -> Outcome {
    if args.sorted && open::keys().is_some() {
        // What is sorted goes through files that are not encrypted.
        let what = "an encrypted database can't be loaded with --sorted";
        return Err(Error::invalid_option(what).advise("load without --sorted").into());
    }
    let mut input = LoadInput::open(&args.input)?;
    let db = open::to_fill(&args.target.dir, Options::default())?;
    if args.sorted {
        return load_sorted(args, &mut input, db);
    }
    let mut loader = Loader {
        keyspace: db.open_or_create_keyspace(&args.target.keyspace)?,
        batch: WriteBatch::new(),
        options: WriteOptions::new().durability(args.durable.durability),
        ack: args.ack.then(Output::new),
        progress: Progress::new("lines", true),
        seen: Count::default(),
        stored: Count::default(),
        db: &db,
    };
    // Whatever stopped the reading, the lines before it are stored.
    let read = loader.read(&mut input, args.batch);
    let rest = loader.write_batch();
    read.and(rest).map_err(|error| after_stored(&error, loader.stored.lines))?;
    let (stored, seconds) = (loader.stored, loader.progress.seconds());
    drop(loader);
    db.close()?;
    tell(stored, seconds);
    Ok(Status::Done)
}

fn tell(stored: Count, seconds: f64) {
    eprintln!(
        "loaded {} records, {}, in {seconds:.1} s ({}/s)",
        human_count(stored.records),
        human_bytes(stored.bytes),
        human_count(per_second(stored.records, seconds) as u64),
    );
}

/// Loads by ingesting. A bad line ends it, and what came before it and was not in order is not
/// stored.
fn load_sorted(args: &Load, input: &mut LoadInput, db: Db) -> Outcome {
    let keyspace = db.open_or_create_keyspace(&args.target.keyspace)?;
    let temp = args.temp.as_deref().unwrap_or(&args.target.dir);
    sorting::remove_leftovers(&args.target.dir)?;
    let mut loader = SortedLoader::new(&keyspace, temp, args.memory)?;
    let (mut progress, mut seen) = (Progress::new("lines", true), Count::default());
    while let Some(record) = input.records.next()? {
        seen.records += 1;
        seen.bytes += (record.key.len() + record.value.len()) as u64;
        loader.add(record.key, record.value)?;
        progress.show(input.records.count(), input.share());
    }
    loader.finish()?;
    let seconds = progress.seconds();
    drop((progress, keyspace));
    db.close()?;
    tell(seen, seconds);
    Ok(Status::Done)
}

/// Adds to the error of a bad line or a failed write how many lines are stored nevertheless.
fn after_stored(error: &Error, lines: u64) -> Error {
    let advice = error.advice().unwrap_or("load again");
    let advice = match lines {
        0 => advice.to_string(),
        _ => format!("{advice}; the {} lines before it are stored", human_count(lines)),
    };
    error.clone().advise(advice)
}

/// The progress of the load.
#[derive(Clone, Copy, Default)]
struct Count {
    lines: u64,
    records: u64,
    bytes: u64,
}

struct Loader<'a> {
    keyspace: Keyspace,
    batch: WriteBatch,
    options: WriteOptions,
    ack: Option<Output>,
    progress: Progress,
    seen: Count,
    stored: Count,
    db: &'a Db,
}

impl Loader<'_> {
    fn read(&mut self, input: &mut LoadInput, batch_records: u64) -> Result<()> {
        loop {
            let record = input.records.next();
            self.seen.lines = input.records.count();
            let Some(record) = record? else { return Ok(()) };
            self.seen.records += 1;
            self.seen.bytes += (record.key.len() + record.value.len()) as u64;
            self.batch.put(&self.keyspace, &record.key, &record.value);
            let full = self.batch.len() as u64 >= batch_records;
            if full || self.batch.bytes() >= BATCH_BYTES {
                self.write_batch()?;
                self.progress.show(self.stored.lines, input.share());
            }
        }
    }

    /// Writes the records read since the last batch and acknowledges them.
    fn write_batch(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.db.write_with(mem::take(&mut self.batch), &self.options)?;
        self.stored = self.seen;
        match self.acknowledge() {
            // Nobody reads the acknowledgements any more; the load itself goes on.
            Err(Stop::OutputClosed) => self.ack = None,
            Err(Stop::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        Ok(())
    }

    fn acknowledge(&mut self) -> Result<(), Stop> {
        let Some(out) = &mut self.ack else { return Ok(()) };
        out.line(self.stored.lines.to_string())?;
        out.flush()
    }
}

/// The input text, and how much of it was read.
pub(crate) struct LoadInput {
    pub(crate) records: Box<dyn Records>,
    consumed: Arc<AtomicU64>,
    bytes: Option<u64>,
}

impl LoadInput {
    pub(crate) fn open(args: &TextInput) -> Result<Self> {
        let file = args.file.as_deref().filter(|file| *file != Path::new("-"));
        let consumed = Arc::new(AtomicU64::new(0));
        let (source, name, bytes): (Box<dyn Read>, _, _) = match file {
            None => (Box::new(io::stdin()), Path::new("standard input"), None),
            Some(path) => {
                let failed = |error| Error::io("read", path, error);
                let file = File::open(path).map_err(failed)?;
                let metadata = file.metadata().map_err(failed)?;
                (Box::new(file), path, metadata.is_file().then_some(metadata.len()))
            }
        };
        let format = match args.format {
            Some(format) => format,
            None => file.map_or(Ok(Format::Tsv), format_of)?,
        };
        let counted = LoadCount { source, consumed: Arc::clone(&consumed) };
        let buffered = Box::new(BufReader::with_capacity(READ_BYTES, counted));
        let fields = Fields { key: args.key.clone(), values: args.value.clone(), raw: args.raw };
        let records = read::read(format, buffered, name.to_path_buf(), fields)?;
        Ok(LoadInput { records, consumed, bytes })
    }

    pub(crate) fn share(&self) -> Option<f64> {
        let bytes = self.bytes.filter(|&bytes| bytes > 0)?;
        Some(self.consumed.load(Ordering::Relaxed) as f64 / bytes as f64)
    }
}

fn format_of(path: &Path) -> Result<Format> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        "tsv" | "txt" => Ok(Format::Tsv),
        "csv" => Ok(Format::Csv),
        "jsonl" | "ndjson" | "json" => Ok(Format::Jsonl),
        "hex" => Ok(Format::Hex),
        _ => Err(Error::invalid_argument("the format is unknown: the file's extension names none")
            .in_file(path)
            .advise("name it with --format tsv, csv, jsonl or hex")),
    }
}

/// A reader that counts the bytes that pass, for the progress.
struct LoadCount {
    source: Box<dyn Read>,
    consumed: Arc<AtomicU64>,
}

impl Read for LoadCount {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.consumed.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

//! `cleave load`: reads records from text and stores them in batches.
//!
//! Lines are stored in their order, so at any moment a prefix of the input is stored. With `--ack`,
//! a number on standard output after each batch says how many lines are stored with the durability
//! of `--durability`. A load that ends early notes how far it came ([`mark`]).

mod distinct;
mod input;
mod loader;
mod mark;
mod rejects;

use super::sorting::{self, MEMORY_MIB, SortedLoader};
use crate::args::{CreateKeyspace, Durable, Target, TextInput};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::{Output, note};
use crate::place::{self, PathKind};
use crate::progress::Progress;
use crate::text::{counted, human_bytes, human_count, per_second};
use clap::Args;
use cleavedb::{Db, Error, ErrorKind, Keyspace, Options, Result, WriteBatch, WriteOptions};
use distinct::DistinctKeys;
pub(crate) use input::LoadInput;
use loader::{Interruption, Loader};
use mark::LoadMark;
use rejects::Rejects;
use std::path::PathBuf;

/// Load records from TSV, CSV, JSON lines or hexadecimal text
///
/// If a key occurs several times, its last value wins.
///
/// The value is, in TSV, everything after the first tab (with the escapes \t \n \r \0 \\ \xNN
/// decoded); in CSV, the other column if there are two, else the row as a JSON object; in JSON
/// lines, the field "value" of an object that has only "key" and "value", else the whole line.
/// --value names other columns or fields, and --key that of the key, or several: '{country}/{id}'.
///
/// Exit status 1 if --keep-going left lines out.
#[derive(Args)]
pub(crate) struct Load {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    create: CreateKeyspace,

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

    /// Leave bad lines out instead of stopping at the first one; they are told at the end
    #[arg(long)]
    keep_going: bool,

    /// Keep going, and write the bad lines to this new file, which can be corrected and loaded
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,

    /// Go on where a load of the same input, with the same options, stopped or was interrupted
    #[arg(long, conflicts_with = "sorted")]
    resume: bool,

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
    refuse_exchanged(args)?;
    let mut input = LoadInput::open(&args.input)?;
    let (dir, name, create) = (&args.target.dir, &args.target.keyspace, args.create.create);
    let (db, keyspace) = open::to_fill_keyspace(dir, name, create, Options::default())?;
    let rejects = Rejects::new(args.keep_going, args.rejects.as_deref(), args.resume)?;
    let mark = LoadMark::new(args, &input.name);
    let first = match args.resume {
        true => resumed(&mark, &mut input)?,
        false => mark.begin().map(|()| 0)?,
    };
    if args.sorted {
        return load_sorted(args, &mut input, (db, keyspace), rejects);
    }
    let mut loader = Loader {
        keyspace,
        batch: WriteBatch::new(),
        options: WriteOptions::new().durability(args.durable.durability),
        ack: args.ack.then(Output::new),
        progress: Progress::new("lines", true),
        seen: LoadTally::begin(first),
        stored: LoadTally::begin(first),
        has_failed: false,
        marked_bytes: 0,
        distinct: DistinctKeys::new(),
        rejects,
        mark,
        interruption: Interruption::watch(input.is_prepared)?,
        db: &db,
    };
    let read = loader.read(&mut input, args.batch);
    // Whatever stopped the reading, the lines before it are stored. If a batch failed, those before
    // that batch are.
    let rest = loader.write_batch();
    if let Err(error) = read.and(rest) {
        return Err(loader.stopped(&error).into());
    }
    let Loader { stored, distinct, progress, mark, mut rejects, keyspace, .. } = loader;
    let seconds = progress.seconds();
    drop((progress, keyspace));
    // What is in tables need not be replayed by the next opening.
    db.flush()?;
    // Without the note, nobody could pass over these lines again.
    rejects.sync()?;
    mark.remove()?;
    db.close()?;
    tell(&input, &stored, &distinct, seconds);
    Ok(if rejects.finish()? { Status::Negative } else { Status::Done })
}

/// Skips what an interrupted load has stored, and returns how many lines that is.
fn resumed(mark: &LoadMark, input: &mut LoadInput) -> Result<u64> {
    let Some(lines) = mark.lines()? else {
        note!("no such load was interrupted here: it starts at the beginning");
        return Ok(0);
    };
    input.records.skip(lines)?;
    if input.records.count() < lines {
        let (stored, there) = (human_count(lines), human_count(input.records.count()));
        let what = format!("line {stored} is stored already, but the input ends at line {there}");
        return Err(Error::invalid_argument(what)
            .in_file(&input.name)
            .advise("give the input whose load was interrupted, or load without --resume"));
    }
    note!("going on behind line {}", human_count(lines));
    Ok(lines)
}

/// Refuses a file of records in the place of the database, which is easily typed.
fn refuse_exchanged(args: &Load) -> Result<()> {
    let dir = &args.target.dir;
    let file = args.input.file();
    match (place::look(dir)?, file) {
        (PathKind::File, Some(second)) if second.is_dir() || !second.exists() => {
            let (dir, second) = (dir.display(), second.display());
            Err(Error::invalid_argument("this is a file, not the directory of a database")
                .in_file(&args.target.dir)
                .advise(format!("the database comes first: `cleave load {second} {dir}`")))
        }
        (PathKind::File, None) => {
            let name = dir.display();
            Err(Error::invalid_argument("this is a file, not the directory of a database")
                .in_file(dir)
                .advise(format!("name a database before it: `cleave load DIR {name}`")))
        }
        (PathKind::Missing, None) if input::format_by_extension(dir).is_some() => {
            let what = "this is called as a file of records, but it would be the new database";
            Err(Error::new(ErrorKind::NotFound, what).in_file(dir).advise(
                "check the path of the file, and name the database first: \
                         `cleave load DIR FILE`",
            ))
        }
        _ => Ok(()),
    }
}

fn tell(input: &LoadInput, stored: &LoadTally, distinct: &DistinctKeys, seconds: f64) {
    note!(
        "loaded {}, {}, in {seconds:.1} s ({}/s)",
        counted(stored.records, "record"),
        human_bytes(stored.bytes),
        human_count(per_second(stored.records, seconds) as u64),
    );
    let (keys, is_exact) = distinct.count();
    // Where nearly all keys differ, an estimate does not say whether all do.
    if is_exact && keys < stored.records || keys < stored.records / 10 * 9 {
        let about = if is_exact { "" } else { "about " };
        let hint = input.key_hint.as_ref();
        let hint = hint.map(|it| format!("; {it} makes keys of several columns"));
        note!(
            "{about}{} distinct of {}: the last value of each key counts{}",
            human_count(keys),
            counted(stored.records, "record"),
            hint.unwrap_or_default()
        );
    }
}

/// Loads by ingesting. A bad line ends it, and what came before it and was not in order is not
/// stored.
fn load_sorted(
    args: &Load,
    input: &mut LoadInput,
    (db, keyspace): (Db, Keyspace),
    mut rejects: Rejects,
) -> Outcome {
    let temp = args.temp.as_deref().unwrap_or(&args.target.dir);
    sorting::remove_leftovers(&args.target.dir)?;
    let mut loader = SortedLoader::new(&keyspace, temp, args.memory)?;
    let mut progress = Progress::new("lines", true);
    let (mut seen, mut distinct) = (LoadTally::begin(0), DistinctKeys::new());
    while let Some(record) = rejects.next_good(input.records.as_mut())? {
        seen.records += 1;
        seen.bytes += (record.key.len() + record.value.len()) as u64;
        distinct.add(&record.key);
        loader.add(record.key, record.value)?;
        progress.show(input.records.count(), input.share());
    }
    loader.finish()?;
    let seconds = progress.seconds();
    drop((progress, keyspace));
    db.flush()?;
    db.close()?;
    tell(input, &seen, &distinct, seconds);
    Ok(if rejects.finish()? { Status::Negative } else { Status::Done })
}

/// What a load has read or stored.
#[derive(Clone, Copy)]
struct LoadTally {
    /// Lines of the input, from its beginning, though others may have loaded the first ones.
    lines: u64,
    records: u64,
    bytes: u64,
}

impl LoadTally {
    fn begin(lines: u64) -> LoadTally {
        LoadTally { lines, records: 0, bytes: 0 }
    }
}

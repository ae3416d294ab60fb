//! `cleave import`: moves the data of other stores in.

use crate::import::badger::BadgerSource;
use crate::import::fill::{FillOptions, ImportCount, fill};
use crate::import::input::is_standard_input;
use crate::import::ldb_dump::LdbDumpSource;
use crate::import::lsm::{ForeignLock, LsmSource, LsmStore};
use crate::import::mdb_dump::MdbDumpSource;
use crate::import::source::Source;
use crate::import::sqlite::{RowChoice, SqliteSource};
use crate::import::verify::{DigestedSource, compare, digest_source};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::note;
use crate::place::{self, PathKind};
use crate::text::{counted, human_bytes, human_count, per_second};
use clap::{Args, ValueEnum};
use cleavedb::{DEFAULT_KEYSPACE, Error, Options, Result};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Import the data of another store, without that store's library
///
/// The source is only read; LevelDB and RocksDB must not have it open meanwhile. The keyspaces that
/// are filled must be empty. Each column family of RocksDB and each named database of LMDB becomes
/// a keyspace of its name.
#[derive(Args)]
pub(crate) struct Import {
    /// Whose data it is
    #[arg(long, value_enum, value_name = "STORE")]
    from: Origin,

    /// The other store's directory, or the file of a backup or dump; - for standard input
    source: PathBuf,

    /// The database's directory
    dir: PathBuf,

    /// The keyspace, or with several parts the one for the default part
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    keyspace: String,

    /// SQLite: the table
    #[arg(long, value_name = "NAME", required_if_eq("from", "sqlite"))]
    table: Option<String>,

    /// SQLite: the column with the key [default: the first one]
    #[arg(long, value_name = "COLUMN", requires = "table")]
    key: Option<String>,

    /// SQLite: the column with the value; several become a JSON object [default: the other column
    /// if there are two, else the row]
    #[arg(long, value_name = "COLUMN", requires = "table")]
    value: Vec<String>,

    /// Go on with an import that was interrupted: behind the last key that is stored, where the
    /// source has its keys in order, and else from the beginning again
    #[arg(long)]
    resume: bool,

    /// Do not read both sides again to compare their counts and checksums
    #[arg(long)]
    no_verify: bool,
}

/// The stores whose data can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Origin {
    /// A directory of LevelDB
    Leveldb,
    /// A directory of RocksDB
    Rocksdb,
    /// What `ldb dump --hex` of RocksDB prints
    LdbDump,
    /// A backup of Badger
    Badger,
    /// What `mdb_dump` of LMDB prints, `mdb_dump -a` for all databases
    LmdbDump,
    /// A table of SQLite, which the program sqlite3 reads
    Sqlite,
}

pub(crate) fn run(args: &Import) -> Outcome {
    let lock = match args.from {
        Origin::Leveldb | Origin::Rocksdb => {
            check_directory(args)?;
            ForeignLock::hold(&args.source)?
        }
        _ => None,
    };
    let options = FillOptions::new(&args.keyspace, args.resume);
    let mut source = DigestedSource::new(open_source(args)?, &options);
    let db = open::to_fill(&args.dir, Options::default())?;
    let begun = Instant::now();
    let count = fill(&db, &mut source, &options)?;
    tell(count, begun.elapsed().as_secs_f64());
    if !args.no_verify {
        // A stream cannot be read twice: there, what was read is compared with what is stored.
        let digests = match is_standard_input(&args.source) {
            true => source.digests,
            false => digest_source(open_source(args)?.as_mut(), &options)?,
        };
        let all = compare(&db, &digests)?;
        let keyspaces = counted(digests.len() as u64, "keyspace");
        let pairs = counted(all.pairs, "pair");
        note!("verified {pairs} in {keyspaces}, checksum {}", all.checksum());
    }
    drop(lock);
    db.close()?;
    Ok(Status::Done)
}

/// Fails if the directory is of another store.
fn check_directory(args: &Import) -> Result<()> {
    let name = if args.from == Origin::Leveldb { "LevelDB" } else { "RocksDB" };
    match place::look(&args.source)? {
        PathKind::Foreign(store) if store == name => Ok(()),
        PathKind::Foreign(store @ ("LevelDB" | "RocksDB")) => {
            let what = format!("this is a directory of {store}, not of {name}");
            let advice = format!("import it with --from {}", store.to_lowercase());
            Err(Error::invalid_argument(what).in_file(&args.source).advise(advice))
        }
        _ => {
            let what = format!("there is no store of {name}");
            Err(Error::not_found(what)
                .in_file(&args.source)
                .advise("give the directory with its file CURRENT"))
        }
    }
}

fn open_source(args: &Import) -> Result<Box<dyn Source>> {
    let path: &Path = &args.source;
    Ok(match args.from {
        Origin::Leveldb => Box::new(LsmSource::open(LsmStore::LevelDb, path)?),
        Origin::Rocksdb => Box::new(LsmSource::open(LsmStore::RocksDb, path)?),
        Origin::LdbDump => Box::new(LdbDumpSource::open(path)?),
        Origin::Badger => Box::new(BadgerSource::open(path)?),
        Origin::LmdbDump => Box::new(MdbDumpSource::open(path)?),
        Origin::Sqlite => {
            let table = args.table.clone().unwrap_or_default();
            let choice = RowChoice { table, key: args.key.clone(), values: args.value.clone() };
            Box::new(SqliteSource::open(path, &choice)?)
        }
    })
}

fn tell(count: ImportCount, seconds: f64) {
    if count.skipped > 0 {
        note!("went on behind {} stored before", counted(count.skipped, "pair"));
    }
    note!(
        "imported {}, {}, in {seconds:.1} s ({}/s)",
        counted(count.pairs, "pair"),
        human_bytes(count.bytes),
        human_count(per_second(count.pairs, seconds) as u64),
    );
}

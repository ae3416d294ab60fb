//! `cleave export`: moves a keyspace out, to a directory of another store.

use crate::args::Target;
use crate::export::leveldb::export;
use crate::import::fill::FillOptions;
use crate::import::lsm::{LsmSource, LsmStore};
use crate::import::verify::{compare, digest_source};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::note;
use crate::text::{counted, human_bytes, human_count, per_second};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Instant;

/// Export a keyspace to a directory that another store opens
///
/// For text (TSV, JSON lines, hexadecimal) there is `cleave dump`. When values expire is not
/// exported.
#[derive(Args)]
pub(crate) struct Export {
    /// The store that is to open it
    #[arg(long, value_enum, value_name = "STORE")]
    to: Goal,

    #[command(flatten)]
    target: Target,

    /// The directory to write, which must be new or empty
    output: PathBuf,

    /// Do not read both sides again to compare their counts and checksums
    #[arg(long)]
    no_verify: bool,
}

/// The stores that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// LevelDB, and RocksDB, which opens such directories too
    Leveldb,
}

pub(crate) fn run(args: &Export) -> Outcome {
    let Goal::Leveldb = args.to;
    let db = open::to_walk(&args.target.dir)?;
    let keyspace = open::known_keyspace(&db, &args.target.keyspace)?;
    let begun = Instant::now();
    let count = export(&keyspace, &args.output)?;
    let seconds = begun.elapsed().as_secs_f64();
    note!(
        "exported {}, {}, in {seconds:.1} s ({}/s)",
        counted(count.pairs, "pair"),
        human_bytes(count.bytes),
        human_count(per_second(count.pairs, seconds) as u64),
    );
    if !args.no_verify {
        let options = FillOptions::new(&args.target.keyspace, false);
        let mut written = LsmSource::open(LsmStore::LevelDb, &args.output)?;
        let all = compare(&db, &digest_source(&mut written, &options)?)?;
        note!("verified {}, checksum {}", counted(all.pairs, "pair"), all.checksum());
    }
    Ok(Status::Done)
}

//! `cleave dump`: prints a keyspace as text that `cleave load` reads back to the same bytes.

use crate::args::Target;
use crate::cmd::scan::Part;
use crate::format::{Format, write_pair};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use cleavedb::ReadOptions;

/// Print a whole keyspace as text that `cleave load` reads back, byte for byte
#[derive(Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    part: Part,

    /// The output format; `hex`, unlike --hex, leaves the bounds as they are typed
    #[arg(long, value_enum, default_value_t = DumpFormat::Tsv)]
    format: DumpFormat,
}

/// The formats that `dump` writes.
#[derive(Clone, Copy, ValueEnum)]
enum DumpFormat {
    /// key TAB value; backslash, tab, newline and what is not UTF-8 are escaped as \\ \t \n \xNN
    Tsv,
    /// {"key":"…","value":"…"}; bytes that are not UTF-8 become {"hex":"…"}
    Jsonl,
    /// hexkey TAB hexvalue
    Hex,
}

pub(crate) fn run(args: &Dump) -> Outcome {
    let format = match args.format {
        _ if args.part.hex.hex => Format::Hex,
        DumpFormat::Tsv => Format::Tsv,
        DumpFormat::Jsonl => Format::Jsonl,
        DumpFormat::Hex => Format::Hex,
    };
    let walk = args.part.walk()?;
    let db = open::to_walk(&args.target.dir)?;
    let keyspace = open::known_keyspace(&db, &args.target.keyspace)?;
    let mut out = Output::new();
    let mut progress = Progress::new("pairs", !Output::is_terminal());
    let mut line = String::new();
    let mut count = 0;
    walk.run(&keyspace, &ReadOptions::new(), |key, value| {
        write_pair(format, key, value, &mut line);
        count += 1;
        progress.show(count, None);
        out.bytes(line.as_bytes())
    })?;
    out.finish()?;
    Ok(Status::Done)
}

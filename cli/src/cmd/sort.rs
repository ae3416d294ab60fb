//! `cleave sort`: writes sorted files for `cleave ingest`.

use super::load::LoadInput;
use super::sorting::{MEMORY_MIB, SortedRuns};
use crate::args::TextInput;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::progress::Progress;
use clap::Args;
use std::path::PathBuf;

/// Sort records from text into files for `cleave ingest`
///
/// The input is as that of `cleave load`. More than fits into memory goes to several files, FILE,
/// FILE.2, FILE.3 and so on, whose names are printed; ingest them together, in this order. With
/// --key-file the files are encrypted, and a database with that key takes them.
#[derive(Args)]
pub(crate) struct Sort {
    /// The file to write; there may be a second one, FILE.values, with large values
    output: PathBuf,

    #[command(flatten)]
    input: TextInput,

    /// The memory that sorting may take, in MiB
    #[arg(long, value_name = "MIB", default_value_t = MEMORY_MIB,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memory: u64,
}

pub(crate) fn run(args: &Sort) -> Outcome {
    let mut input = LoadInput::open(&args.input)?;
    let mut progress = Progress::new("lines", true);
    let output = args.output.clone();
    let mut runs = SortedRuns::new(args.memory, move |number| match number {
        0 => output.clone(),
        _ => {
            let mut name = output.clone().into_os_string();
            name.push(format!(".{}", number + 1));
            PathBuf::from(name)
        }
    });
    while let Some(record) = input.records.next()? {
        runs.add(record.key, record.value)?;
        progress.show(input.records.count(), input.share());
    }
    let files = runs.finish()?;
    drop(progress);
    let mut out = Output::new();
    for file in files {
        out.line(file.display().to_string())?;
    }
    out.flush()?;
    Ok(Status::Done)
}

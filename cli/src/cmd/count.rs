//! `cleave count`: how many keys there are.

use super::scan::Part;
use crate::args::Target;
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::Args;
use cleavedb::ReadOptions;

/// Print the number of keys, or of those in a range
///
/// All keys of the range are read, and no values.
#[derive(Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    part: Part,
}

pub(crate) fn run(args: &CountArgs) -> Outcome {
    let mut walk = args.part.walk()?;
    walk.keys_only = true;
    let db = open::to_walk(&args.target.dir)?;
    let keyspace = open::known_keyspace(&db, &args.target.keyspace)?;
    let options = ReadOptions::new().fill_cache(false);
    let count = walk.run(&keyspace, &options, |_, _| Ok::<_, cleavedb::Error>(()))?;
    let mut out = Output::new();
    out.line(count.to_string())?;
    out.finish()?;
    Ok(Status::Done)
}

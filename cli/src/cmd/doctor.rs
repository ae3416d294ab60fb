//! `cleave doctor`: says what is unusual about a database, and what helps.

use crate::doctor::facts::Facts;
use crate::doctor::rules::{RULES, Symptom, examine};
use crate::outcome::{Outcome, Status, Stop, reported};
use crate::output::Output;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Say what is unusual about a database and what helps; exit status 1 if something is
///
/// It reads all keys and changes nothing. If a process has the database open for writing, that
/// process's statistics are looked at; without one, there are no counters, and only what lies on
/// disk is. `cleave check` looks for damage.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// The database's directory
    dir: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let facts = Facts::gather(&args.dir)?;
    let found = examine(&facts);
    let status = if found.is_empty() { Status::Done } else { Status::Negative };
    reported(print(args, &found), status)
}

fn print(args: &DoctorArgs, found: &[Symptom]) -> Result<(), Stop> {
    let mut out = Output::new();
    if args.json {
        let symptoms: Vec<_> = found.iter().map(Symptom::to_json).collect();
        out.line(json!({ "rules": RULES.len(), "findings": symptoms }).to_string())?;
    } else {
        out.bytes(to_text(found, &args.dir.display().to_string()).as_bytes())?;
    }
    out.finish()
}

fn to_text(found: &[Symptom], name: &str) -> String {
    let mut text = match found.len() {
        0 => format!("{name}: nothing unusual, by {} rules\n", RULES.len()),
        1 => format!("{name}: one thing is unusual\n"),
        count => format!("{name}: {count} things are unusual\n"),
    };
    for (index, symptom) in found.iter().enumerate() {
        text += &format!("\n{}. {}\n   {}\n", index + 1, symptom.what, symptom.why);
        text += &format!("   try: {}\n", symptom.advice);
    }
    text
}

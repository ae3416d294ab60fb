//! `cleave convert`: brings stored values to where the settings of their keyspaces say.

use crate::cmd::bench::parse_separation;
use crate::open;
use crate::outcome::{Outcome, Status, Stop, reported};
use crate::output::Output;
use crate::place;
use crate::progress;
use crate::text::{human_bytes, human_count, parse_size};
use clap::Args;
use cleavedb::{ConvertOptions, ConvertReport, Db, Result, Separation};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

/// Move stored values into the tree or out of it, to where the settings of their keyspaces say;
/// exit status 1 if a value is damaged
///
/// It works piece by piece. If it is interrupted, run it again: what was moved stays moved. The old
/// copies become garbage, which automatic value GC frees in time and `cleave gc` at once.
#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// The database's directory
    dir: PathBuf,

    /// The keyspace [default: all of them]
    #[arg(short, long, value_name = "NAME")]
    keyspace: Option<String>,

    /// Change the setting first, of each keyspace that is converted: at_write, at_flush, off, auto
    #[arg(long, value_name = "POLICY", value_parser = parse_separation)]
    separation: Option<Separation>,

    /// Separate values of at least this many bytes from now on, such as 4k
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    threshold: Option<usize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ConvertArgs) -> Outcome {
    let db = open::to_change(&args.dir)?;
    if let Some(name) = &args.keyspace {
        open::known_keyspace(&db, name)?;
    }
    let names = args.keyspace.clone().map_or_else(|| db.keyspaces(), |name| vec![name]);
    let before = place::allocated_bytes(&args.dir)?;
    let started = Instant::now();
    let report = args.convert(&db, &names)?;
    db.close()?;
    let after = place::allocated_bytes(&args.dir)?;
    let text = if args.json {
        to_json(&names, &report).to_string()
    } else {
        format!(
            "{}\nconverted in {:.1} s: {} read, {} written; {} before, {} now",
            summary(&report),
            started.elapsed().as_secs_f64(),
            human_bytes(report.bytes_read),
            human_bytes(report.bytes_written),
            human_bytes(before),
            human_bytes(after)
        )
    };
    let status = if report.damaged_values > 0 { Status::Negative } else { Status::Done };
    reported(print(&text), status)
}

fn print(text: &str) -> Result<(), Stop> {
    let mut out = Output::new();
    out.line(text)?;
    out.finish()
}

impl ConvertArgs {
    /// Changes the settings of keyspaces where that is asked for, and converts them.
    fn convert(&self, db: &Db, names: &[String]) -> Result<ConvertReport> {
        for name in names {
            let keyspace = db.keyspace(name)?;
            let mut options = keyspace.options();
            options.separation = self.separation.unwrap_or(options.separation);
            options.separation_threshold = self.threshold.unwrap_or(options.separation_threshold);
            keyspace.set_options(options)?;
        }
        let options = ConvertOptions::new().on_progress(progress::of_pass());
        match &self.keyspace {
            Some(name) => db.keyspace(name)?.convert_with(&options),
            None => db.convert_with(&options),
        }
    }
}

fn summary(report: &ConvertReport) -> String {
    let values = |count: u64| match count {
        1 => "1 value".to_owned(),
        many => format!("{} values", human_count(many)),
    };
    let (moved_in, moved_out) = (values(report.values_moved_in), values(report.values_moved_out));
    let mut text = format!("{moved_in} moved into the tree, {moved_out} out of it");
    if report.damaged_values > 0 {
        let damaged = values(report.damaged_values);
        text += &format!("; {damaged} could not be read and stayed: run `cleave check`");
    }
    text
}

/// Returns the JSON that `docs/json.md` describes.
fn to_json(names: &[String], report: &ConvertReport) -> Value {
    json!({
        "keyspaces": names,
        "values_moved_in": report.values_moved_in,
        "values_moved_out": report.values_moved_out,
        "damaged_values": report.damaged_values,
        "pieces": report.pieces,
        "bytes_read": report.bytes_read,
        "bytes_written": report.bytes_written,
    })
}

//! `cleave check`: reads every byte of a database and reports whether it is sound.

use crate::open;
use crate::outcome::{Outcome, Status, Stop, reported};
use crate::output::Output;
use crate::progress;
use crate::text::{counted, human_bytes, parse_size};
use clap::Args;
use cleavedb::{CheckOptions, CheckReport, Error, ErrorKind, Finding};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Verify every checksum, order and pointer; exit status 1 if something is damaged, 2 if this build
/// cannot verify everything
#[derive(Args)]
pub(crate) struct Check {
    /// The database's directory
    dir: PathBuf,

    /// Read at most this much per second, such as 50M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    rate: Option<usize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The result of the check. A database that does not open counts as checked, with nothing read.
struct Checked {
    report: CheckReport,
    /// Records that recovery verified by replay, as part of the opening.
    replayed: u64,
    opens: bool,
}

pub(crate) fn run(args: &Check) -> Outcome {
    let checked = check(args).map_err(Stop::Error)?;
    reported(checked.print(args.json), checked.status())
}

fn check(args: &Check) -> Result<Checked, Error> {
    let mut options = CheckOptions::new().on_progress(progress::of_pass());
    if let Some(rate) = args.rate {
        options = options.bytes_per_second(rate as u64);
    }
    let opened = open::to_check(&args.dir).and_then(|db| {
        let replayed = db.recovery().replayed_records;
        Ok(Checked { report: db.check_with(&options)?, replayed, opens: true })
    });
    let mut report = CheckReport::default();
    // This command is there to find what keeps a database from opening, so corruption is a result.
    match opened {
        Err(error) if error.kind() == ErrorKind::Corruption => {
            report.problems.push(error.into());
            report.problem_count = 1;
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            report.unverified.push(error.into());
            report.unverified_count = 1;
        }
        other => return other,
    }
    Ok(Checked { report, replayed: 0, opens: false })
}

impl Checked {
    fn print(&self, as_json: bool) -> Result<(), Stop> {
        let mut out = Output::new();
        if as_json {
            out.line(self.to_json().to_string())?;
        } else {
            for finding in self.report.problems.iter().chain(&self.report.unverified) {
                out.line(finding.to_string())?;
            }
            out.line(self.summary())?;
        }
        out.finish()
    }

    fn status(&self) -> Status {
        match (self.report.is_damaged(), self.report.is_clean()) {
            (true, _) => Status::Negative,
            (false, true) => Status::Done,
            (false, false) => Status::Unverified,
        }
    }

    fn summary(&self) -> String {
        let report = &self.report;
        if !self.opens {
            return match self.status() {
                Status::Unverified => "not verified: this build cannot open the database".into(),
                _ => "damaged: the database does not open; restore the file from a checkpoint, or \
                      save what is left with `cleave repair`"
                    .into(),
            };
        }
        let places = |count: u64| counted(count, "place");
        let mut verdict = match report.problem_count {
            0 if report.unverified_count > 0 => {
                format!("not verified: {}, by this build", places(report.unverified_count))
            }
            0 => "sound".to_string(),
            many => format!("damaged: {}", counted(many, "problem")),
        };
        if report.is_damaged() && report.unverified_count > 0 {
            verdict += &format!(", {} not verified", places(report.unverified_count));
        }
        let log = match self.replayed {
            0 => String::new(),
            // After a kill before the first flush, replayed records are all there is.
            records => format!("; {} replayed", counted(records, "record")),
        };
        format!(
            "{verdict} ({}, {}, {}, {}, {}{log})",
            counted(report.files, "file"),
            human_bytes(report.bytes),
            counted(report.entries, "table entry"),
            counted(report.records, "record"),
            counted(report.pointers, "pointer")
        )
    }

    /// Returns the JSON that `docs/json.md` describes.
    fn to_json(&self) -> Value {
        let report = &self.report;
        let status = match self.status() {
            Status::Done => "sound",
            Status::Negative => "damaged",
            Status::Unverified => "unverified",
        };
        let list = |findings: &[Finding]| findings.iter().map(finding).collect::<Vec<_>>();
        json!({
            "status": status,
            "opens": self.opens,
            "files": report.files,
            "bytes": report.bytes,
            "entries": report.entries,
            "records": report.records,
            "pointers": report.pointers,
            "moves": report.moves,
            "replayed_records": self.replayed,
            "problem_count": report.problem_count,
            "problems": list(&report.problems),
            "unverified_count": report.unverified_count,
            "unverified": list(&report.unverified),
        })
    }
}

/// Returns the JSON of an error.
pub(super) fn error(error: &Error) -> Value {
    json!({
        "kind": format!("{:?}", error.kind()),
        "message": error.message(),
        "file": error.file().map(|file| file.display().to_string()),
        "offset": error.offset(),
        "advice": error.advice(),
    })
}

fn finding(finding: &Finding) -> Value {
    let mut json = error(&finding.error);
    json["keyspace"] = json!(finding.keyspace);
    json["key"] = json!(finding.key.as_ref().map(|key| key.escape_ascii().to_string()));
    json
}

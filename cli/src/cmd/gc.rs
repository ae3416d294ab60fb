//! `cleave gc`: frees the space of dead values now.

use crate::live::LiveStore;
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::place;
use crate::text::{counted, human_bytes};
use clap::Args;
use cleavedb::{Db, Result};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Instant;

/// Free the space of dead values now; automatic value GC also frees it, in time
///
/// `cleave space` shows how much there is to free. If a process has the database open for writing,
/// that one collects.
#[derive(Args)]
pub(crate) struct Gc {
    /// The database's directory
    dir: PathBuf,
}

pub(crate) fn run(args: &Gc) -> Outcome {
    let collector = match LiveStore::announced(&args.dir) {
        Some(live) => GcBy::Process(live),
        None => GcBy::OwnOpening(open::to_change(&args.dir)?),
    };
    let before = place::allocated_bytes(&args.dir)?;
    let started = Instant::now();
    let done = match collector {
        GcBy::Process(live) => Collected::told(&live.have_told("gc")?),
        GcBy::OwnOpening(db) => Collected::by(db)?,
    };
    let after = place::allocated_bytes(&args.dir)?;
    let mut out = Output::new();
    out.line(format!(
        "collected in {:.1} s: {} freed, {}{} moved ({} written); \
         {} before, {} now",
        started.elapsed().as_secs_f64(),
        counted(done.segments_freed, "segment"),
        done.punched(),
        counted(done.values_moved, "value"),
        human_bytes(done.bytes_written),
        human_bytes(before),
        human_bytes(after)
    ))?;
    out.finish()?;
    Ok(Status::Done)
}

/// Who collects.
enum GcBy {
    Process(LiveStore),
    OwnOpening(Db),
}

/// What a collection did.
struct Collected {
    segments_freed: u64,
    segments_punched: u64,
    bytes_punched: u64,
    values_moved: u64,
    bytes_written: u64,
}

impl Collected {
    fn told(told: &Value) -> Collected {
        let number = |field: &str| told[field].as_u64().unwrap_or_default();
        Collected {
            segments_freed: number("segments_freed"),
            segments_punched: number("segments_punched"),
            bytes_punched: number("bytes_punched"),
            values_moved: number("values_moved"),
            bytes_written: number("bytes_written"),
        }
    }

    fn by(db: Db) -> Result<Collected> {
        let report = db.gc()?;
        db.close()?;
        Ok(Collected {
            segments_freed: report.segments_freed,
            segments_punched: report.segments_punched,
            bytes_punched: report.bytes_punched,
            values_moved: report.values_moved,
            bytes_written: report.bytes_written,
        })
    }

    /// Returns what was punched as words of a list, if anything was.
    fn punched(&self) -> String {
        match self.segments_punched {
            0 => String::new(),
            segments => {
                let bytes = human_bytes(self.bytes_punched);
                format!("{} punched ({bytes}), ", counted(segments, "segment"))
            }
        }
    }
}

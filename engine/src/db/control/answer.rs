//! Does what a client of the control socket asks for, by the calls that a program would make.

use super::PROTOCOL;
use super::request::ControlRequest;
use crate::base::error::{Error, Result};
use crate::base::json::{joined, quoted};
use crate::db::backup::BackupOptions;
use crate::db::holders::CoreHandle;
use crate::db::{Core, Db};
use crate::hot::ScoredTable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerStatus {
    /// It was done; the body is the result.
    Done,
    /// The database refused it or failed; the body is the error.
    Failed,
    /// It is no request.
    Refused,
    /// Too many clients are served.
    Busy,
}

impl AnswerStatus {
    fn word(self) -> &'static str {
        match self {
            AnswerStatus::Done => "ok",
            AnswerStatus::Failed => "failed",
            AnswerStatus::Refused => "refused",
            AnswerStatus::Busy => "busy",
        }
    }
}

/// An answer: a status, and a body as JSON or as text.
pub(super) struct ControlAnswer {
    status: AnswerStatus,
    is_text: bool,
    body: String,
}

impl ControlAnswer {
    fn failed(error: &Error) -> ControlAnswer {
        ControlAnswer { status: AnswerStatus::Failed, is_text: false, body: error.to_json() }
    }

    /// Returns the answer to something that is no request.
    pub(super) fn refused(reason: &str) -> ControlAnswer {
        let error = Error::invalid_argument(reason);
        ControlAnswer { status: AnswerStatus::Refused, ..ControlAnswer::failed(&error) }
    }

    /// Returns the answer to a client that is one too many.
    pub(super) fn busy() -> ControlAnswer {
        let error = Error::wrong_state("too many others are asking").advise("ask again soon");
        ControlAnswer { status: AnswerStatus::Busy, ..ControlAnswer::failed(&error) }
    }

    /// Returns the answer to a client that comes after the end.
    pub(super) fn closing() -> ControlAnswer {
        ControlAnswer::failed(&Error::closed("the database is closing"))
    }

    /// Returns the bytes to send: a line with the status, the kind and the length of the body, and
    /// the body.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let (status, length) = (self.status.word(), self.body.len());
        let kind = if self.is_text { "text" } else { "json" };
        format!("{PROTOCOL} {status} {kind} {length}\n{}", self.body).into_bytes()
    }
}

/// Carries out a request.
pub(super) fn answer(core: &Arc<Core>, request: &ControlRequest) -> ControlAnswer {
    let is_text = matches!(
        request,
        ControlRequest::Metrics | ControlRequest::StatsText | ControlRequest::SpaceText
    );
    match carry_out(core, request) {
        Ok(body) => ControlAnswer { status: AnswerStatus::Done, is_text, body },
        Err(error) => ControlAnswer::failed(&error),
    }
}

fn carry_out(core: &Arc<Core>, request: &ControlRequest) -> Result<String> {
    core.check_open()?;
    // This handle keeps nothing open, as it is not a user's.
    let db = Db { core: CoreHandle::of_engine(core.clone()) };
    let done = |()| "{}".to_owned();
    Ok(match request {
        ControlRequest::Stats => db.stats().to_json(),
        ControlRequest::StatsText => db.stats().to_string(),
        ControlRequest::Metrics => db.stats().to_openmetrics(),
        ControlRequest::Space => db.space()?.to_json(),
        ControlRequest::SpaceText => db.space()?.to_string(),
        ControlRequest::Hot(None) => tables_json(&db.count_stale_entries()?),
        ControlRequest::Hot(Some(name)) => tables_json(&db.keyspace(name)?.count_stale_entries()?),
        ControlRequest::Settings => settings_json(core),
        ControlRequest::Jobs => jobs_json(&db),
        ControlRequest::Events => core.recent.as_ref().map_or("[]".into(), |it| it.to_json()),
        ControlRequest::Gc => collected_json(&db)?,
        ControlRequest::Compact(None) => db.compact().map(done)?,
        ControlRequest::Compact(Some(name)) => db.keyspace(name)?.compact_range(..).map(done)?,
        ControlRequest::Checkpoint(path) => db.checkpoint(path).map(done)?,
        ControlRequest::Backup { dir, keep, rate, verify } => {
            let mut options = BackupOptions::new().verify(*verify);
            options.keep = *keep;
            options.pass.bytes_per_second = *rate;
            db.backup_with(dir, &options)?.to_json()
        }
        ControlRequest::Pause => {
            db.pause_gc();
            done(())
        }
        ControlRequest::Resume => {
            db.resume_gc();
            done(())
        }
    })
}

fn tables_json(tables: &[ScoredTable]) -> String {
    let table = |table: &ScoredTable| {
        format!(
            "{{\"id\":{},\"keyspace\":{},\"level\":{},\"entries\":{},\"bytes\":{},\
             \"newest_entries\":{},\"stale_entries\":{},\"stale_bytes\":{}}}",
            table.id,
            quoted(&table.keyspace),
            table.level,
            table.entries,
            table.bytes,
            table.score.newest_entries,
            table.score.stale_entries,
            table.score.stale_bytes
        )
    };
    format!("[{}]", joined(tables.iter().map(table)))
}

/// Returns the lines `name = value` of a text as one JSON object; comments are left out.
fn lines_json(text: &str) -> String {
    let pairs = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = pairs.filter_map(|line| line.split_once(" = "));
    let pairs = pairs.map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)));
    format!("{{{}}}", joined(pairs))
}

fn settings_json(core: &Core) -> String {
    let text = core.options.to_text();
    let own = text.split("\n# of new keyspaces").next().unwrap_or_default();
    let keyspaces = core.states();
    let keyspaces = keyspaces.iter().map(|keyspace| {
        format!("{}:{}", quoted(&keyspace.name), lines_json(&keyspace.options().to_text()))
    });
    format!("{{\"database\":{},\"keyspaces\":{{{}}}}}", lines_json(own), joined(keyspaces))
}

fn jobs_json(db: &Db) -> String {
    let core: &Core = &db.core;
    let now = core.env.clock.now();
    let jobs = core.background.running_jobs();
    let jobs = jobs.iter().map(|job| {
        let text = |text: Option<&str>| text.map_or("null".to_owned(), quoted);
        format!(
            "{{\"kind\":\"{}\",\"reason\":{},\"keyspace\":{},\"level\":{},\"bytes\":{},\
             \"seconds\":{:.3}}}",
            job.kind,
            text(job.reason),
            text(job.keyspace.as_deref()),
            job.level.map_or("null".to_owned(), |level| level.to_string()),
            job.bytes,
            now.saturating_sub(job.begun).as_secs_f64()
        )
    });
    let holders = db.holders();
    format!(
        "{{\"version\":\"{}\",\"holder\":{},\"uptime_seconds\":{:.3},\"gc_paused\":{},\
         \"processors\":{},\"holders\":{{\"handles\":{},\"cursors\":{},\"scans\":{},\
         \"snapshots\":{},\"transactions\":{},\"changes\":{}}},\"jobs\":[{}]}}",
        env!("CARGO_PKG_VERSION"),
        quoted(&core.env.threads.describe_process()),
        now.as_secs_f64(),
        core.background.collector().paused().load(Ordering::Relaxed),
        crate::env::threads::processors(),
        holders.handles,
        holders.cursors,
        holders.scans,
        holders.snapshots,
        holders.transactions,
        holders.changes,
        joined(jobs)
    )
}

fn collected_json(db: &Db) -> Result<String> {
    let report = db.gc()?;
    Ok(format!(
        "{{\"segments_freed\":{},\"bytes_freed\":{},\"segments_punched\":{},\
         \"bytes_punched\":{},\"values_moved\":{},\"bytes_written\":{}}}",
        report.segments_freed,
        report.bytes_freed,
        report.segments_punched,
        report.bytes_punched,
        report.values_moved,
        report.bytes_written
    ))
}

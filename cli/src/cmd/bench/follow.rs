//! A consumer of the change feed beside a workload, to see whether it keeps up and what it costs.

use super::BenchPlan;
use crate::text::{human_count, per_second};
use clap::ValueEnum;
use cleavedb::{Changed, Changes, ChangesOptions, Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What the consumer is handed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Follow {
    /// What readers see
    Visible,
    /// What is durable; it syncs the log when it has seen all that is
    Durable,
}

/// How often the consumer looks whether the workload has ended, while nothing new comes.
const LOOK: Duration = Duration::from_millis(5);

/// What the consumer did.
pub(super) struct BenchFeed {
    changes: u64,
    bytes: u64,
    /// The most changes that were visible and not handed out yet.
    most_behind: u64,
    /// The seconds from the end of the workload until all was handed out.
    seconds_after: f64,
}

/// Returns the changes from now on.
pub(super) fn changes_from_now(plan: &BenchPlan<'_>, how: Follow) -> Result<Changes> {
    let options = ChangesOptions::new().pin(true).visible(how == Follow::Visible);
    plan.db.changes_with(plan.db.visible_seqno(), &options)
}

/// Follows `changes` until `is_over` and all was handed out; verifies each value.
pub(super) fn follow(
    plan: &BenchPlan<'_>,
    mut changes: Changes,
    is_over: &AtomicBool,
) -> Result<BenchFeed> {
    let mut feed = BenchFeed { changes: 0, bytes: 0, most_behind: 0, seconds_after: 0.0 };
    let mut ended: Option<Instant> = None;
    loop {
        if ended.is_none() && is_over.load(Ordering::Relaxed) {
            ended = Some(Instant::now());
        }
        let Some(batch) = changes.wait_batch(LOOK)? else {
            if let Some(ended) = ended {
                feed.seconds_after = ended.elapsed().saturating_sub(LOOK).as_secs_f64();
                return Ok(feed);
            }
            continue;
        };
        for change in &batch {
            let Changed::Put { value, .. } = change.what else { continue };
            if change.keyspace == Some(plan.keyspace.name())
                && !plan.values.is_of(change.key, value)
            {
                let what = format!("change {} is not what a fill wrote", change.seqno);
                return Err(Error::corruption(what).in_file(plan.db.path()));
            }
            feed.bytes += (change.key.len() + value.len()) as u64;
        }
        feed.changes += batch.len() as u64;
        let behind = plan.db.visible_seqno().saturating_sub(batch.last_seqno());
        feed.most_behind = feed.most_behind.max(behind);
    }
}

impl BenchFeed {
    /// Returns the member `feed` of the workload's JSON object. `seconds` is the workload's time.
    pub(super) fn to_json(&self, seconds: f64) -> String {
        let all = seconds + self.seconds_after;
        format!(
            ",\"feed\":{{\"changes\":{},\"changes_per_second\":{:.1},\"bytes\":{},\
             \"most_behind\":{},\"seconds_after\":{:.6}}}",
            self.changes,
            per_second(self.changes, all),
            self.bytes,
            self.most_behind,
            self.seconds_after,
        )
    }

    /// Returns a line for people.
    pub(super) fn to_text(&self, seconds: f64) -> String {
        let all = seconds + self.seconds_after;
        format!(
            "\n  change feed {:>10} changes/s; at most {} behind, {:.2} s at the end",
            human_count(per_second(self.changes, all) as u64),
            human_count(self.most_behind),
            self.seconds_after,
        )
    }
}

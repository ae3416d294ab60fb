//! The parts of an open database that all its rooms above work with.

use crate::base::error::Error;
use crate::env::Env;
use crate::env::budget::Budget;
use crate::events::Event;
use crate::hot::UpdateTable;
use crate::stats::Counters;
use crate::version::compaction_filter::CompactionFilters;
use crate::version::expiry::ExpiryClock;
use crate::version::health::Health;
use crate::version::job::{JobError, JobResult};
use crate::version::set::VersionSet;
use crate::version::snapshots::Snapshots;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The parts of an open database that the log, background jobs and the public handles share.
/// Clones are the same database.
#[derive(Clone)]
pub struct Runtime {
    /// Files, clock, threads and randomness.
    pub env: Env,
    /// The set that holds the live version.
    pub set: Arc<VersionSet>,
    /// The write state of the database.
    pub health: Arc<Health>,
    /// The visible sequence number and the live snapshots.
    pub snapshots: Arc<Snapshots>,
    /// The counters of the statistics.
    pub counters: Arc<Counters>,
    /// The budget of background I/O.
    pub budget: Arc<Budget>,
    /// The newest entries of keys that were flushed lately.
    pub hot: Arc<UpdateTable>,
    /// The user's compaction filters.
    pub filters: Arc<CompactionFilters>,
    /// Set when the database closes, so that jobs end early.
    closing: Arc<AtomicBool>,
}

impl Runtime {
    /// Puts together a database that was just opened. `cap` is the most bytes per second that
    /// background jobs may write; `hot` is empty.
    pub fn new(
        env: Env,
        set: Arc<VersionSet>,
        health: Arc<Health>,
        cap: Option<u64>,
        hot: UpdateTable,
    ) -> Self {
        let budget = Arc::new(Budget::new(env.clock.clone(), health.events.clone(), cap));
        let expiry = ExpiryClock::new(env.clock.clone());
        // What was dropped because it had expired must not become live again (I6).
        expiry.pass(set.current().dropped_until);
        let (snapshots, counters) = (Arc::new(Snapshots::new(expiry)), Arc::default());
        let (hot, filters, closing) = (Arc::new(hot), Arc::default(), Arc::default());
        Runtime { env, set, health, snapshots, counters, budget, hot, filters, closing }
    }

    /// Has compactions ask these filters.
    pub fn with_filters(self, filters: CompactionFilters) -> Self {
        Runtime { filters: Arc::new(filters), ..self }
    }

    /// Returns how many bytes can still be written to the disk of the database, or `None` if that
    /// cannot be determined; then a full disk shows only when a write fails.
    pub fn free_space(&self) -> Option<u64> {
        self.env.fs.free_space(&self.set.tables().dir).ok()
    }

    /// Sums up what is known of the entries of each table, after a job has replaced some.
    pub fn sum_scores(&self) {
        if !self.hot.is_off() {
            self.hot.sum_scores(|| self.set.current().table_ids());
        }
    }

    /// Returns a runtime whose jobs go on while the database closes, for those that belong to
    /// closing.
    pub fn for_closing(&self) -> Self {
        // Closing asks no filter, so that it takes no longer than it must.
        Runtime { closing: Arc::default(), filters: Arc::default(), ..self.clone() }
    }

    /// Makes running jobs end early.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.budget.close();
    }

    /// Reports an event to the listeners.
    pub fn emit(&self, event: Event) {
        self.health.events.emit(event);
    }

    /// Counts and reports the failure of work in the background on which nothing depends.
    pub fn note_background_error(&self, error: Error) {
        self.counters.background_errors.add(1);
        self.emit(Event::BackgroundError { error });
    }

    /// Returns true once the database is closing.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Returns [`JobError::Obsolete`] once the database is closing.
    pub fn check_closing(&self) -> JobResult {
        if self.is_closing() {
            return Err(JobError::Obsolete(Error::closed("the database is closing")));
        }
        Ok(())
    }
}

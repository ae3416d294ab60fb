//! What every background job works with, be it a flush, a compaction or value GC.

use crate::base::error::{Error, Result};
use crate::env::Env;
use crate::env::budget::Budget;
use crate::version::health::Health;
use crate::version::set::VersionSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What every job needs.
#[derive(Clone)]
pub struct JobContext {
    /// Files, time, threads.
    pub env: Env,
    /// The live version.
    pub set: Arc<VersionSet>,
    /// The right to write.
    pub health: Arc<Health>,
    /// What background work may write.
    pub budget: Arc<Budget>,
    /// Set when the database closes: jobs end early.
    pub closing: Arc<AtomicBool>,
}

impl JobContext {
    /// An error once the database is closing.
    pub fn check_closing(&self) -> Result<()> {
        if self.closing.load(Ordering::Relaxed) {
            return Err(Error::closed("the database is closing"));
        }
        Ok(())
    }
}

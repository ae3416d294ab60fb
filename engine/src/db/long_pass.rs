//! A long pass over files that a user asked for: how far it is, and how fast it may go.

use crate::base::error::{Error, Result};
use crate::env::Env;
use crate::env::rate::RateLimit;
use crate::version::runtime::Runtime;
use std::fmt;
use std::sync::Arc;

/// How far a long pass over files is: a backup, its verification, a restore or a check.
/// [`BackupOptions::on_progress`](crate::BackupOptions::on_progress) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassProgress {
    /// The bytes done so far.
    pub done_bytes: u64,
    /// The bytes of the whole pass, as far as they are known by now; for a check, an estimate.
    pub all_bytes: u64,
}

/// What a user gives to follow a pass, and to bound it.
#[derive(Clone, Default)]
pub(crate) struct PassOptions {
    pub(crate) bytes_per_second: Option<u64>,
    pub(crate) on_progress: Option<Arc<dyn Fn(PassProgress) + Send + Sync>>,
}

impl PassOptions {
    pub(crate) fn check(&self) -> Result<()> {
        if self.bytes_per_second == Some(0) {
            return Err(Error::invalid_option("at 0 bytes per second nothing ever ends"));
        }
        Ok(())
    }
}

impl fmt::Debug for PassOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassOptions")
            .field("bytes_per_second", &self.bytes_per_second)
            .finish_non_exhaustive()
    }
}

/// A pass under way.
pub(crate) struct LongPass {
    options: PassOptions,
    limit: Option<RateLimit>,
    /// The open database that is read; `None` for files that are nobody's.
    of: Option<Runtime>,
    done_bytes: u64,
    all_bytes: u64,
}

impl LongPass {
    /// Begins a pass over `all_bytes`.
    pub(crate) fn new(env: &Env, options: &PassOptions, all_bytes: u64) -> Self {
        let limit = |rate| RateLimit::new(env.clock.clone(), env.threads.clone(), rate);
        let limit = options.bytes_per_second.map(limit);
        LongPass { options: options.clone(), limit, of: None, done_bytes: 0, all_bytes }
    }

    /// Has the pass end early if this database closes.
    pub(crate) fn while_open(self, runtime: &Runtime) -> Self {
        LongPass { of: Some(runtime.clone()), ..self }
    }

    /// Fails if the database closes whose pass this is.
    pub(crate) fn check_closing(&self) -> Result<()> {
        self.of.iter().try_for_each(Runtime::check_closing).map_err(Error::from)
    }

    /// Notes that so many bytes were done, tells the user, and waits if that was too fast, unless
    /// the database closes.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.done_bytes += bytes;
        self.all_bytes = self.all_bytes.max(self.done_bytes);
        if let Some(limit) = &mut self.limit {
            let of = &self.of;
            limit.spend(bytes, || !of.as_ref().is_some_and(Runtime::is_closing));
        }
        if let Some(tell) = &self.options.on_progress {
            tell(PassProgress { done_bytes: self.done_bytes, all_bytes: self.all_bytes });
        }
    }

    /// Returns the bytes done so far.
    pub(crate) fn done_bytes(&self) -> u64 {
        self.done_bytes
    }
}

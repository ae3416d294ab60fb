//! The commit of a transaction, and transactions that are run again after a conflict.

use crate::base::error::{ErrorKind, Result};
use crate::base::pointer::KeyspaceId;
use crate::db::commit_checked::commit_checked;
use crate::db::options::WriteOptions;
use crate::db::transaction::Transaction;
use crate::db::{Core, Db};
use crate::env::planted::PlantedFault;
use std::sync::Arc;
use std::time::Duration;

/// [`Db::transact`] runs a transaction at most this often.
const MAX_RUNS: u32 = 100;
/// The advice with the last conflict.
const GIVES_UP: &str = "it was run 100 times: make the transaction shorter, let fewer threads \
                        write what it reads, or read at a snapshot what may expire meanwhile";
/// The longest wait after the first conflict; it doubles up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_micros(50);
/// The longest wait between two runs.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// Commits a transaction, which ends by that in any case.
pub(super) fn commit(transaction: &Transaction, options: &WriteOptions) -> Result<()> {
    let core: &Arc<Core> = &transaction.core;
    core.check_open()?;
    options.check_no_expiry()?;
    let (batch, mut conditions) = transaction.state.end()?;
    if batch.is_empty() {
        // What was read was so at the moment of the snapshot, with nothing to add to it.
        return Ok(());
    }
    core.check_writable()?;
    let durability = core.durability(options)?;
    let keyspace = batch.keyspaces().next().map_or(KeyspaceId(0), |keyspace| keyspace.id);
    if let Some(conditions) = &mut conditions {
        if core.env.planted.is(PlantedFault::RangesForgotten) {
            conditions.forget_ranges();
        }
        if core.env.planted.is(PlantedFault::SnapshotLate) {
            conditions.since = core.snapshots.visible();
        }
    }
    core.time_write(keyspace, || {
        core.committer.admit_batch(&batch)?;
        let written = commit_checked(core, &Arc::new(batch), conditions, durability)?;
        written.map_or(Ok(()), |key| Err(key.error()))
    })
}

impl Db {
    /// Runs `body` in a transaction and commits it. After a conflict, waits for a short random time
    /// and runs `body` again in a new transaction, at most 100 times in all. So `body` may run
    /// several times, and only its last run takes effect.
    ///
    /// Returns what `body` returned. If `body` returns an error, the transaction is given up and
    /// the error is returned, unless it is an [`ErrorKind::Conflict`]: that is a reason to run
    /// again. Other failures are those of [`Transaction::commit`].
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transact"))?;
    /// # let counters = db.default_keyspace();
    /// let next = || {
    ///     db.transact(|transaction| {
    ///         let number = match transaction.get(&counters, "orders")? {
    ///             Some(last) => u64::from_le_bytes(last[..].try_into().unwrap()),
    ///             None => 0,
    ///         };
    ///         transaction.put(&counters, "orders", (number + 1).to_le_bytes())?;
    ///         Ok(number)
    ///     })
    /// };
    /// assert_eq!((next()?, next()?, next()?), (0, 1, 2));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn transact<T>(&self, body: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        self.transact_with(&WriteOptions::default(), body)
    }

    /// Runs `body` as [`Db::transact`] does, and commits with a durability of its own.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("transact-with"))?;
    /// # let words = db.default_keyspace();
    /// use cleavedb::{Durability, WriteOptions};
    /// let synced = WriteOptions::new().durability(Durability::Sync);
    /// db.transact_with(&synced, |transaction| transaction.put(&words, "one", "eins"))?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn transact_with<T>(
        &self,
        options: &WriteOptions,
        mut body: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        options.check_no_expiry()?;
        self.retry_conflicts(|| {
            let transaction = self.begin();
            let made = body(&transaction)?;
            transaction.commit_with(options)?;
            Ok(made)
        })
    }

    /// Calls `run` again and again while it fails with a conflict, as [`Db::transact`] does: after
    /// random waits that grow, and a bounded number of times. It is for what begins and commits
    /// transactions itself, as those of another language do.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("retry-conflicts"))?;
    /// # let words = db.default_keyspace();
    /// db.retry_conflicts(|| {
    ///     let transaction = db.begin();
    ///     transaction.put(&words, "one", "eins")?;
    ///     transaction.commit()
    /// })?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn retry_conflicts<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<T> {
        let mut wait = FIRST_WAIT;
        for number in 1.. {
            match run() {
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    if number == MAX_RUNS {
                        return Err(error.advise(GIVES_UP));
                    }
                }
                done => return done,
            }
            // A random part of the wait keeps those who met from meeting again.
            let env = &self.core.env;
            let part = (env.random.next_u64() % 1000) as u32;
            env.threads.sleep(wait * part / 1000);
            wait = (wait * 2).min(MAX_WAIT);
        }
        unreachable!("the last run returns")
    }
}

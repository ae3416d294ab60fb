//! Floor 0: the rules that delay anyone. Each rule turns facts into a decision, as a pure function
//! with golden cases in `testdata`. All constants of delays are here, each with its reason.
//!
//! | who | when | what happens | rule | seen as |
//! |---|---|---|---|---|
//! | puts | the disk is down to its reserve | refused | [`disk`] | events `LowSpace…` |
//! | deletions | it has only what flushes need | refused | [`disk`] | `writes_refused_for_space` |
//! | writes | memtables are not flushed yet | wait | [`tree`] | stall `memtables_full` |
//! | writes | L0 is full | wait | [`tree`] | stall `level0_full` |
//! | writes | recovery would replay too much | wait | [`tree`] | stall `replay_full` |
//! | writes | full segments of the log are not synced yet | wait | [`tree`] | stall `log_sync` |
//! | writes | L0 has grown | each is delayed | [`tree`] | stall `level0_slow` |
//! | writes | space nears its ceiling | bytes are delayed | [`ceiling`] | stall `space_ceiling` |
//! | compaction, GC | the output may not fit | left out | [`disk`] | failed jobs |
//! | compaction, GC | above the cap, or reads are slow | delayed | [`reads`] | events `IoLimit…` |
//! | GC | users leave no processor time | rests | [`spare`] | more space than is settled |
//! | any job | it has failed | rests, then retried | [`retry`] | failed jobs |
//! | GC of a segment | it has failed | rests, then retried | [`retry`] | segments in quarantine |
//!
//! A stall is counted and timed in the statistics; one event says that it has begun, and one that
//! it has ended. Each failure of a job is an event. No event says that GC rests for want of
//! processor time, because it does so about twice a second.
//!
//! A write meets the rules in the order of this table ([`admit`]). If it waits for a job that has
//! failed, it gets the error of the job (I9: `Health::hindrance`). Flushes are never held up but
//! after a failure.
//!
//! Rules oppose each other in one place: background work gives way to reads, until writers would
//! have to wait for it ([`reads::Pressure`]).
//!
//! All state, locks and condition variables are with those who ask. These are `commit/stall.rs`
//! and `commit/reserve.rs` for [`tree`] and [`disk`]; `gc/collector/pace.rs` for [`ceiling`], which
//! sets the pace, and `commit/pace.rs`, which keeps it; `env/budget.rs` for [`reads`], with
//! pressures from `gc/collector/pace.rs` and `background/jobs.rs`; `background/collect.rs` for
//! [`spare`]; `background/failures.rs` and `gc/quarantine.rs` for [`retry`].

pub mod ceiling;
#[cfg(test)]
mod ceiling_tests;
pub mod disk;
pub mod reads;
pub mod retry;
pub mod spare;
pub mod tree;

#[cfg(test)]
mod tests;

/// Has a write meet the rules of the disk, then those of the tree and the log, then that of the
/// ceiling of space. Nothing comes after an error: a write that is refused does not wait first, for
/// that would not make room, and one that has waited may still be delayed.
#[inline]
pub fn admit<E>(
    by_disk: impl FnOnce() -> Result<(), E>,
    by_tree: impl FnOnce() -> Result<(), E>,
    by_ceiling: impl FnOnce(),
) -> Result<(), E> {
    by_disk()?;
    by_tree()?;
    by_ceiling();
    Ok(())
}

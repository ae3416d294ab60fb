//! How long the operations of users take: latencies for the statistics, and events for those that
//! are slow. Reading the clock twice costs about as much as a hundredth of a put, so most
//! operations are not timed.

use crate::base::error::Result;
use crate::base::pointer::KeyspaceId;
use crate::db::Core;
use crate::events::{Event, OperationKind};
use crate::stats::LatencyStats;
use std::time::Duration;

impl Core {
    /// When an operation begins, if this one is to be timed: one of
    /// [`LatencyStats::SAMPLED`], or every one if slow operations are to be told of.
    #[inline]
    fn begin(&self, number: u64) -> Option<Duration> {
        let is_timed = number.is_multiple_of(LatencyStats::SAMPLED);
        (is_timed || self.options.slow_operation.is_some()).then(|| self.env.clock.now())
    }

    /// Counts a point read, and begins to time it.
    #[inline]
    pub(crate) fn begin_get(&self) -> Option<Duration> {
        self.begin(self.counters.gets.next())
    }

    /// Counts a point read that found a value. A timed one also tells the background whether it
    /// is in the way of reads.
    #[inline]
    pub(crate) fn end_get(&self, keyspace: KeyspaceId, begun: Option<Duration>) {
        self.counters.gets_found.add(1);
        if let Some(begun) = begun {
            let took = self.env.clock.since(begun);
            self.budget.note_read(took);
            self.counters.latencies.get.add(took);
            self.note_if_slow(OperationKind::Get, keyspace, took);
        }
    }

    /// Does a write, and times it with all delays.
    #[inline]
    pub(crate) fn time_write<T>(
        &self,
        keyspace: KeyspaceId,
        write: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        // Commits are counted by their leaders, so this costs a load. Threads that read the same
        // number are sampled together.
        let Some(begun) = self.begin(self.counters.commits.get()) else {
            return write();
        };
        let outcome = write();
        let took = self.env.clock.since(begun);
        self.counters.latencies.write.add(took);
        self.note_if_slow(OperationKind::Write, keyspace, took);
        outcome
    }

    /// Makes one step of a cursor, the `number`th of it.
    #[inline]
    pub(crate) fn time_step<T>(
        &self,
        keyspace: KeyspaceId,
        number: u64,
        step: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(begun) = self.begin(number) else {
            return step();
        };
        let outcome = step();
        let took = self.env.clock.since(begun);
        self.counters.latencies.scan_step.add(took);
        self.note_if_slow(OperationKind::ScanStep, keyspace, took);
        outcome
    }

    #[inline]
    fn note_if_slow(&self, operation: OperationKind, keyspace: KeyspaceId, took: Duration) {
        if self.options.slow_operation.is_some_and(|limit| took >= limit) {
            self.tell_of_slow(operation, keyspace, took);
        }
    }

    #[cold]
    fn tell_of_slow(&self, operation: OperationKind, keyspace: KeyspaceId, took: Duration) {
        let state = self.states().into_iter().find(|state| state.id == keyspace);
        let keyspace = state.map_or_else(String::new, |state| state.name.clone());
        self.health.events.emit(Event::SlowOperation { operation, keyspace, took });
    }
}

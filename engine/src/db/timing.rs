//! Times users' operations, for the latencies in the statistics and for events about slow ones.
//! Reading the clock twice costs about a hundredth of a put, so most operations are not timed.

use crate::base::error::Result;
use crate::base::pointer::KeyspaceId;
use crate::db::Core;
use crate::events::{Event, OperationKind};
use crate::stats::LatencyStats;
use std::time::Duration;

impl Core {
    /// Returns the start time if this operation is to be timed: one in [`LatencyStats::SAMPLED`],
    /// or every one if slow operations are reported.
    #[inline]
    fn begin(&self, number: u64) -> Option<Duration> {
        let is_timed = number.is_multiple_of(LatencyStats::SAMPLED);
        (is_timed || self.options.slow_operation.is_some()).then(|| self.env.clock.now())
    }

    /// Counts a point read and starts its timer.
    #[inline]
    pub(crate) fn begin_get(&self) -> Option<Duration> {
        self.begin(self.counters.gets.next())
    }

    /// Counts a point read that found a value. The time of a timed one also lets the background
    /// find out whether it slows reads down.
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

    /// Does as [`Core::end_get`] if a value was found.
    #[inline]
    pub(crate) fn end_get_if(&self, found: bool, keyspace: KeyspaceId, begun: Option<Duration>) {
        if found {
            self.end_get(keyspace, begun);
        }
    }

    /// Runs a write and times it with all its delays.
    #[inline]
    pub(crate) fn time_write<T>(
        &self,
        keyspace: KeyspaceId,
        write: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        // The leaders of commit groups count commits, so this costs one load. Threads that load the
        // same number are sampled together.
        let Some(begun) = self.begin(self.counters.commits.get()) else {
            return write();
        };
        let outcome = write();
        let took = self.env.clock.since(begun);
        self.counters.latencies.write.add(took);
        self.note_if_slow(OperationKind::Write, keyspace, took);
        outcome
    }

    /// Makes step `number` of a cursor.
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
            self.report_slow(operation, keyspace, took);
        }
    }

    #[cold]
    fn report_slow(&self, operation: OperationKind, keyspace: KeyspaceId, took: Duration) {
        let state = self.states().into_iter().find(|state| state.id == keyspace);
        let keyspace = state.map_or_else(String::new, |state| state.name.clone());
        self.health.events.emit(Event::SlowOperation { operation, keyspace, took });
    }
}

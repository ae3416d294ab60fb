//! Jobs that put values in key order because scans have paid for it: when there is one, and what
//! it costs. They come after all others, one at a time.

use super::choice::{ChosenCompaction, CompactionReason, CompactionTurn};
use super::{Background, BackgroundState};
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::compaction::job::{self, CompactionReport};
use crate::compaction::picker::span;
use crate::compaction::scan_order::{self, OrderFacts, OrderPick};
use crate::events::Event;
use crate::read::demand::{DemandRange, KnownDemand, OrderBasis, ScanDemands};
use crate::table::TableMeta;
use crate::version::health::JobKind;
use crate::version::job::JobResult;
use crate::version::runtime::Runtime;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::KeyspaceState;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Background {
    /// Returns what scans have paid for the disorder of values, by range of keys.
    pub fn scan_costs(&self, keyspace: KeyspaceId) -> Vec<DemandRange> {
        self.demands.as_ref().map_or_else(Vec::new, |demands| demands.ranges(keyspace))
    }

    /// Finds a job for the order of values. `most_bytes` returns the most bytes that one may write.
    /// Also returns the room that a job lacks below the ceiling of space, and that value GC can
    /// make; 0 if none lacks any.
    pub(super) fn find_disorder(
        &self,
        resting: &[JobKind],
        state: &BackgroundState,
        most_bytes: &dyn Fn() -> u64,
    ) -> (Option<ChosenCompaction>, u64) {
        // I9: what is not urgent leaves the last space to others.
        let is_low = self.committer.stall_controller().reserve.is_low();
        let Some(demands) = self.demands.as_ref().filter(|_| !state.ordering && !is_low) else {
            return (None, 0);
        };
        let version = self.runtime.set.current();
        let (room, mut asked_room) = (self.collector.room().left(), 0);
        let mut wait = |needed: u64| {
            if needed > room {
                // The least of several keyspaces: it can be made where more can't.
                asked_room = if asked_room == 0 { needed } else { needed.min(asked_room) };
            }
            None
        };
        let basis = || OrderBasis {
            version: version.number,
            room: room.min(most_bytes()),
            most_room: self.collector.room().most().min(most_bytes()),
            running: state.busy.state(),
        };
        let turn: CompactionTurn = (JobKind::OptionalCompaction, state.compacted_last);
        let found = self.find_compaction(resting, turn, |keyspace, view| {
            let demand = demands.worth_a_look(keyspace.id, version.number)?;
            // Each wake-up asks, and the decision costs a look at each table that scans pay for. A
            // flush that is coming since then would hold back nothing that waits for other reasons.
            let basis = basis();
            if let Some(known) = demand.waits.filter(|known| known.basis == basis) {
                return wait(known.needed);
            }
            let segment_bytes = self.committer.log().segment_bytes();
            // What waits for a flush is put in order with the rest.
            let flushes = !view.immutables.is_empty() || self.wants_flush(keyspace, &demand);
            let facts = OrderFacts {
                demand: &demand,
                is_sorted: &|id: SegmentId| scan_order::is_sorted(&version, id),
                room: basis.room,
                most_room: basis.most_room,
                segment_bytes: segment_bytes.min(scan_order::MAX_PIECE_BYTES),
                flushes,
            };
            match scan_order::pick(keyspace.id, &view.levels, &state.busy, &facts) {
                OrderPick::Order(pick, moves) => Some((CompactionReason::ScanOrder(moves), pick)),
                OrderPick::Lower(pick) if !flushes => Some((CompactionReason::ScanOrder(0), pick)),
                OrderPick::Nothing if !flushes => {
                    demands.found_nothing(keyspace.id, version.number);
                    None
                }
                OrderPick::Wait(needed) => {
                    // A compaction of L0 for which there is room may have waited for a flush
                    // alone. The view may be of a later version than the one that was current.
                    if !flushes && view.version.number == version.number {
                        demands.found_wait(keyspace.id, basis, needed);
                    }
                    wait(needed)
                }
                OrderPick::Lower(_) | OrderPick::Nothing => None,
            }
        });
        (found, asked_room)
    }

    /// Returns true if the memtable of `keyspace` should be flushed so that its values can be put
    /// in order.
    fn wants_flush(&self, keyspace: &KeyspaceState, demand: &KnownDemand) -> bool {
        let view = keyspace.peek();
        let log_bytes = self.committer.stall_controller().log_bytes.load(Ordering::Relaxed);
        let since = view.active.first_bytes().map_or(0, |first| log_bytes.saturating_sub(first));
        let (entries, bytes) = (view.active.table.entries(), view.active.bytes());
        view.immutables.is_empty()
            && scan_order::wants_flush(demand, &view.levels, (entries, bytes, since))
    }

    /// Seals the memtables that scans have paid to be flushed.
    pub(super) fn flush_scanned(&self) {
        let is_low = self.committer.stall_controller().reserve.is_low();
        let Some(demands) = self.demands.as_ref().filter(|_| !is_low) else { return };
        let version = self.runtime.set.current().number;
        let mut keyspaces = self.runtime.set.keyspaces();
        keyspaces.retain(|keyspace| {
            let demand = demands.worth_a_look(keyspace.id, version);
            demand.is_some_and(|demand| self.wants_flush(keyspace, &demand))
        });
        self.seal(&keyspaces);
    }

    /// Runs a job for the order of values that moves about `moves` bytes of them. Its range of keys
    /// pays for it.
    pub(super) fn put_in_order(
        &self,
        runtime: &Runtime,
        chosen: &ChosenCompaction,
        moves: u64,
        seen: SeenSeqnos,
    ) -> JobResult<CompactionReport> {
        let ChosenCompaction { keyspace, levels, pick, .. } = chosen;
        let price = scan_order::price_of(pick, moves);
        if moves == 0 {
            self.demands.iter().for_each(|demands| demands.charge_all(keyspace.id, price));
            return job::run(runtime, keyspace, levels, pick, seen, None);
        }
        let keys = span(levels.order(), pick.tables()).unwrap_or_default();
        let charge = |demands: &Arc<ScanDemands>| {
            demands.charge(keyspace.id, levels, (&keys.0, &keys.1), price);
        };
        self.demands.iter().for_each(charge);
        let begun = runtime.env.clock.now();
        let report = scan_order::run(runtime, keyspace, levels, (pick, moves), seen)?;
        let took = runtime.env.clock.since(begun);
        self.note_in_order(keyspace, (&keys.0, &keys.1), &report);
        runtime.counters.scan_orders.add(1);
        runtime.counters.scan_order_bytes_written.add(report.values_written);
        runtime.counters.scan_order_nanos.add_time(took);
        runtime.emit(Event::ValuesOrdered {
            keyspace: keyspace.name.clone(),
            bytes_written: report.values_written,
            took,
        });
        Ok(report)
    }

    /// Notes the tables whose values are in order now, of those with keys from `low` to `high`.
    fn note_in_order(
        &self,
        keyspace: &Arc<KeyspaceState>,
        (low, high): (&[u8], &[u8]),
        report: &CompactionReport,
    ) {
        let (order, until) = (&keyspace.order, report.moved_until.as_ref());
        let is_done = |table: &&Arc<TableMeta>| {
            let last = table.summary.largest_key();
            until.is_none_or(|until| order.compare(last, until).is_le())
        };
        let done: Vec<_> = report.outputs.iter().filter(is_done).map(|it| it.id).collect();
        // Those that another job has taken meanwhile are forgotten at once.
        let levels = keyspace.view().levels.clone();
        let rest = report.outputs.iter().find(|table| !is_done(table));
        let rest = rest.map(|table| table.summary.smallest_key());
        let keys = (low, until.map_or(high, |until| until), rest);
        let in_order = (&done[..], report.values_written);
        let note = |demands: &Arc<ScanDemands>| demands.done(keyspace.id, &levels, keys, in_order);
        self.demands.iter().for_each(note);
    }
}

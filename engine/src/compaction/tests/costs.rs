//! What the deciders cost that run while commits wait: how often they compare keys.

use super::script::{context, table};
use crate::base::bounds::Bounds;
use crate::base::counted_order::CountedOrder;
use crate::base::key::{KeyOrder, SeqNo};
use crate::base::pointer::KeyspaceId;
use crate::base::range_tombstone::RangeTombstone;
use crate::compaction::picker::RunningCompactions;
use crate::compaction::scan_order::{self, OrderFacts, OrderPick};
use crate::compaction::stale::{self, StaleFacts};
use crate::read::demand::{DemandRange, KnownDemand};
use crate::version::levels::Levels;
use crate::version::snapshots::SeenSeqnos;
use std::collections::BTreeSet;
use std::sync::Arc;

const KEYSPACE: KeyspaceId = KeyspaceId(1);
const TABLES: u64 = 300;

/// Returns levels with tables side by side in L2, each with the number of its place, counted from
/// one, in its keys and as its sequence number. `more` says what else is known of each.
fn levels(order: &Arc<CountedOrder>, more: &str) -> Levels {
    let context = context();
    let line = |n: u64| format!("L2 {n} {n:04}a-{n:04}m 1M {more}");
    let tables = (1..=TABLES).map(|n| table(&line(n), &context).unwrap());
    Levels::of(KeyOrder::Custom(order.clone()), tables)
}

/// Returns range tombstones with the numbers behind those of the tables, each over a little more.
fn nested(count: u64, upper: impl Fn(u64) -> String) -> Vec<RangeTombstone> {
    let one = |n: u64| {
        let range = Bounds::parse(&format!("[-{})", upper(n)));
        RangeTombstone { range: Arc::new(range), seqno: TABLES + n }
    };
    (1..=count).map(one).collect()
}

/// A queue was trimmed by ever longer ranges while a snapshot saw the old tables, so no range
/// tombstone ever became idle. For each table all of them were looked at, twice once they were
/// many, each time that a thread looked for work; commits waited for that.
#[test]
fn tables_that_a_snapshot_sees_cost_no_look_at_each_range_tombstone() {
    const TRIMS: u64 = 5000;
    let order = Arc::new(CountedOrder::default());
    let compared = |ranges, snapshots: &[SeqNo], has_room: bool| {
        let levels = levels(&order, "").with_ranges(ranges);
        let seen = SeenSeqnos {
            snapshots: snapshots.to_vec(),
            visible: TABLES + TRIMS,
            ..SeenSeqnos::default()
        };
        let known = StaleFacts {
            oldest_snapshot: snapshots.first().copied(),
            seen: &seen,
            is_relocated: &|_| false,
            idle: true,
            level0_bytes: u64::MAX,
            is_worth: &|_| has_room,
        };
        order.take();
        let pick = stale::pick(KEYSPACE, &levels, &RunningCompactions::default(), &known);
        (pick.map(|pick| pick.inputs.len() as u64), order.take())
    };
    let over_all = || nested(TRIMS, |n| format!("9{n:05}"));
    assert_eq!(compared(over_all(), &[TABLES], true), (None, 0), "the snapshot is older than all");
    // The snapshot sees the last third of the tables, and the range tombstones that are over these.
    let (found, count) = compared(over_all(), &[2 * TABLES / 3, TABLES + TRIMS / 2], true);
    assert_eq!(found, Some(TABLES / 3));
    assert!(count < 100 * TABLES, "{count} comparisons");
    // All end within the first table, and there may be no room to write that anew.
    let within = || nested(TRIMS, |n| format!("0001b{n:05}"));
    for (has_room, expected) in [(true, Some(1)), (false, None)] {
        let (found, count) = compared(within(), &[TABLES + TRIMS / 2], has_room);
        assert_eq!(found, expected);
        assert!(count < 20 * TABLES, "{count} comparisons");
    }
}

/// For each range of keys that scans had read, all tables were compared with its ends, each time
/// that a thread looked for work.
#[test]
fn ranges_of_scans_cost_no_look_at_each_table() {
    let order = Arc::new(CountedOrder::default());
    let levels = levels(&order, "in=1:50");
    let waste = |n: u64| if n == TABLES / 2 { 1 << 30 } else { 0 };
    let range =
        |n: u64| DemandRange { low: format!("{n:04}a").into(), waste: waste(n), ordered: 0 };
    let ranges = (1..=TABLES).map(range).collect();
    let demand = KnownDemand { ranges, done: BTreeSet::new(), waits: None };
    let facts = OrderFacts {
        demand: &demand,
        is_sorted: &|_| false,
        room: u64::MAX,
        most_room: u64::MAX,
        segment_bytes: 1,
        flushes: false,
    };
    order.take();
    let pick = scan_order::pick(KEYSPACE, &levels, &RunningCompactions::default(), &facts);
    let OrderPick::Order(pick, 5000) = pick else { panic!("a table of the range is strewn") };
    let ids: Vec<_> = pick.inputs.iter().map(|table| table.meta.id.0).collect();
    assert_eq!(ids, [TABLES / 2]);
    let count = order.take();
    assert!(count < 50, "{count} comparisons");
}

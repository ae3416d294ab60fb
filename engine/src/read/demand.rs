//! What the order of values costs scans: for ranges of keys, the reads that cursors needed beyond
//! those that ordered values would have taken. In memory only, and bounded; compaction brings the
//! values into key order where that costs less (`compaction/scan_order.rs`).
//!
//! The ranges of a keyspace follow each other without gaps. They are split at the borders of the
//! deepest level's tables where scans find values strewn, and once they are many, the two
//! neighbours that cost least are joined. What they cost counts half after each hour.
//!
//! Locks: `keyspaces` is a leaf. A cursor that finds it taken leaves its reads uncounted.

use crate::base::key::KeyOrder;
use crate::base::pointer::{KeyspaceId, TableId};
use crate::env::clock::Clock;
use crate::env::sync::Mutex;
use crate::version::files::TableHandle;
use crate::version::levels::{Levels, bounds};
use crate::version::view::View;
use crate::version::walks::READ_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Ordered values are read together up to this many bytes, or more where a walk is long.
const RUN_BYTES: u64 = 256 << 10;
/// Values in order may lie in this many segments, each with its own read in a large window. Eight
/// are as fast, and write as much (`bench/record/2026-11-28-bounds-by-memory.md`).
pub const ORDERED_RUNS: u64 = 4;
/// A window with this many values per read is in order.
const VALUES_PER_READ: u64 = 16;
/// A cursor hands over what it counted after this many reads too many.
const NOTED_READS: u64 = 128;
/// The most ranges of one keyspace.
const MAX_RANGES: usize = 256;
/// After this time, what scans have cost counts half.
const HALF_LIFE: Duration = Duration::from_secs(3600);
/// A keyspace is looked at once scans have cost this many bytes more than before.
const LEAST_WASTE: u64 = 1 << 20;

/// Returns the number of reads of a window that ordered values would have saved, if it took
/// `reads` for so many values with so many bytes.
pub fn extra_reads(values: u64, bytes: u64, reads: u64) -> u64 {
    if values == 0 || bytes / values >= READ_BYTES {
        // Each is a read of its own wherever it lies.
        return 0;
    }
    let runs = (1 + values / VALUES_PER_READ).min(ORDERED_RUNS);
    reads.saturating_sub(runs + bytes / RUN_BYTES)
}

/// What a range of keys costs scans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DemandRange {
    /// The first user key; the range goes up to that of the next one. The first range has none.
    pub low: Vec<u8>,
    /// What reads cost that ordered values would have saved, in bytes that could have been moved
    /// in that time, since it was paid for putting values in order.
    pub waste: u64,
    /// The bytes of values that were put in order.
    pub ordered: u64,
}

/// The demand of one keyspace.
#[derive(Debug, Default)]
pub struct ScanDemand {
    ranges: Vec<DemandRange>,
    /// Tables whose values were put in order. They never are again: only other tables can have
    /// values elsewhere.
    done: BTreeSet<TableId>,
    /// The version and the waste at which nothing was found to do.
    looked: Option<(u64, u64)>,
    /// What was found that waits.
    waits: Option<OrderWait>,
    /// The time up to which what was is halved.
    halved: Duration,
}

/// What a decision about the order of values rests on, beside what scans have paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderBasis {
    /// The number of the version.
    pub version: u64,
    /// The bytes by which space may grow.
    pub room: u64,
    /// The most that `room` can become.
    pub most_room: u64,
    /// What tells whether other jobs were begun or ended (`compaction/picker.rs`).
    pub running: (u64, usize),
}

/// A decision that something is worth it, and has to wait.
#[derive(Debug, Clone, Copy)]
pub struct OrderWait {
    /// What it rests on.
    pub basis: OrderBasis,
    /// The room that it waits for, or 0.
    pub needed: u64,
    /// What scans had cost.
    waste: u64,
}

/// What is known of the scans of a keyspace, for a decision.
pub struct KnownDemand {
    /// The ranges, in the order of keys.
    pub ranges: Vec<DemandRange>,
    /// Tables whose values were put in order.
    pub done: BTreeSet<TableId>,
    /// The last decision that something waits, unless scans have paid much since, so that more may
    /// be worth it, or what they have paid is less, so that nothing may be.
    pub waits: Option<OrderWait>,
}

/// The demand of all keyspaces of a database.
pub struct ScanDemands {
    clock: Arc<dyn Clock>,
    keyspaces: Mutex<BTreeMap<KeyspaceId, ScanDemand>>,
}

impl ScanDemands {
    /// Creates the demand of a database that was just opened: nothing.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        ScanDemands { clock, keyspaces: Mutex::default() }
    }

    /// Adds reads that a scan of `view` at `key` needed too many.
    fn note(&self, view: &View, key: &[u8], reads: u64) {
        let now = self.clock.now();
        if let Some(mut keyspaces) = self.keyspaces.try_lock() {
            let demand = keyspaces.entry(view.keyspace).or_default();
            demand.halve(now);
            demand.note(&view.levels, key, reads.saturating_mul(READ_BYTES));
        }
    }

    /// Returns what is known of a keyspace, unless scans cost little there, or nothing was found to
    /// do at this version and not much was added since.
    pub fn worth_a_look(&self, keyspace: KeyspaceId, version: u64) -> Option<KnownDemand> {
        let mut keyspaces = self.keyspaces.lock();
        let demand = keyspaces.get_mut(&keyspace)?;
        demand.halve(self.clock.now());
        let waste = demand.waste();
        let is_new = match demand.looked {
            Some((at, before)) if at == version => is_much_more(waste, before),
            _ => true,
        };
        let stands = |known: &OrderWait| waste >= known.waste && !is_much_more(waste, known.waste);
        let known = || KnownDemand {
            ranges: demand.ranges.clone(),
            done: demand.done.clone(),
            waits: demand.waits.filter(stands),
        };
        (is_new && waste >= LEAST_WASTE).then(known)
    }

    /// Notes that nothing was found to do.
    pub fn found_nothing(&self, keyspace: KeyspaceId, version: u64) {
        if let Some(demand) = self.keyspaces.lock().get_mut(&keyspace) {
            demand.looked = Some((version, demand.waste()));
        }
    }

    /// Notes that something waits, by a decision that rests on `basis`.
    pub fn found_wait(&self, keyspace: KeyspaceId, basis: OrderBasis, needed: u64) {
        if let Some(demand) = self.keyspaces.lock().get_mut(&keyspace) {
            demand.waits = Some(OrderWait { basis, needed, waste: demand.waste() });
        }
    }

    /// Returns the ranges of a keyspace, in the order of keys.
    pub fn ranges(&self, keyspace: KeyspaceId) -> Vec<DemandRange> {
        let mut keyspaces = self.keyspaces.lock();
        let demand = keyspaces.get_mut(&keyspace);
        demand.map_or_else(Vec::new, |demand| {
            demand.halve(self.clock.now());
            demand.ranges.clone()
        })
    }

    /// Takes the price of putting values in order, which lie from the user key `low` to `high`,
    /// from the range of these keys, and what that lacks from all others. This is done before the
    /// job begins: one that fails is not tried again before it is worth it again.
    pub fn charge(
        &self,
        keyspace: KeyspaceId,
        levels: &Levels,
        (low, high): (&[u8], &[u8]),
        price: u64,
    ) {
        if let Some(demand) = self.keyspaces.lock().get_mut(&keyspace) {
            demand.split_around(levels, low, high);
            let index = demand.index_of(levels.order(), low);
            let range = &mut demand.ranges[index];
            let paid = range.waste.min(price);
            range.waste -= paid;
            demand.take(price - paid);
            demand.bound();
        }
    }

    /// Takes a price from all ranges of a keyspace, from each its share.
    pub fn charge_all(&self, keyspace: KeyspaceId, price: u64) {
        if let Some(demand) = self.keyspaces.lock().get_mut(&keyspace) {
            demand.take(price);
        }
    }

    /// Notes that `bytes` of values were put in order, from the user key `low` to `high`, and that
    /// all of `tables` are. Forgets those that are not in `levels`. If the job ended before the
    /// last of its keys, `rest` is the next one: what scans have paid beyond the price is for the
    /// range of that.
    pub fn done(
        &self,
        keyspace: KeyspaceId,
        levels: &Levels,
        (low, high, rest): (&[u8], &[u8], Option<&[u8]>),
        (tables, bytes): (&[TableId], u64),
    ) {
        if let Some(demand) = self.keyspaces.lock().get_mut(&keyspace) {
            demand.split_around(levels, low, high);
            let index = demand.index_of(levels.order(), low);
            let range = &mut demand.ranges[index];
            range.ordered = range.ordered.saturating_add(bytes);
            let rest = rest.map(|rest| demand.index_of(levels.order(), rest));
            if let Some(rest) = rest.filter(|rest| *rest != index) {
                let waste = std::mem::take(&mut demand.ranges[index].waste);
                let rest = &mut demand.ranges[rest];
                rest.waste = rest.waste.saturating_add(waste);
            }
            demand.bound();
            let live: BTreeSet<TableId> = levels.tables().map(|(_, table)| table.meta.id).collect();
            demand.done.extend(tables);
            demand.done.retain(|table| live.contains(table));
        }
    }

    /// Forgets a dropped keyspace.
    pub fn forget(&self, keyspace: KeyspaceId) {
        self.keyspaces.lock().remove(&keyspace);
    }
}

/// Returns true if scans have cost so much more than `before` that another look is worth it.
fn is_much_more(waste: u64, before: u64) -> bool {
    waste >= before.saturating_add(before / 8).saturating_add(LEAST_WASTE)
}

/// Returns `value * num / all`.
fn part(value: u64, num: u64, all: u64) -> u64 {
    let part = u128::from(value) * u128::from(num) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

impl ScanDemand {
    fn waste(&self) -> u64 {
        self.ranges.iter().map(|range| range.waste).fold(0, u64::saturating_add)
    }

    fn halve(&mut self, now: Duration) {
        let times = now.saturating_sub(self.halved).as_secs() / HALF_LIFE.as_secs();
        if times > 0 {
            self.halved += HALF_LIFE * u32::try_from(times).unwrap_or(u32::MAX);
            let halved = |bytes: u64| bytes.checked_shr(times.min(64) as u32).unwrap_or(0);
            for range in &mut self.ranges {
                (range.waste, range.ordered) = (halved(range.waste), halved(range.ordered));
            }
        }
    }

    /// Returns the number of the range with `key`.
    fn index_of(&mut self, order: &KeyOrder, key: &[u8]) -> usize {
        if self.ranges.is_empty() {
            self.ranges.push(DemandRange::default());
        }
        let behind = &self.ranges[1..];
        behind.partition_point(|range| order.compare(&range.low, key).is_le())
    }

    fn note(&mut self, levels: &Levels, key: &[u8], waste: u64) {
        self.split_around(levels, key, key);
        let index = self.index_of(levels.order(), key);
        self.ranges[index].waste = self.ranges[index].waste.saturating_add(waste);
        self.bound();
    }

    /// Takes from each range its share of `price`.
    fn take(&mut self, price: u64) {
        let all = self.waste();
        let left = all.saturating_sub(price);
        for range in &mut self.ranges {
            range.waste = part(range.waste, left, all);
        }
    }

    fn bound(&mut self) {
        while self.ranges.len() > MAX_RANGES {
            self.join_least();
        }
    }

    /// Has ranges begin where the table of the deepest level begins that has the user key `low`,
    /// and behind the one that has `high`.
    fn split_around(&mut self, levels: &Levels, low: &[u8], high: &[u8]) {
        let order = levels.order();
        let deepest = levels.deepest().filter(|level| *level > 0);
        let tables = deepest.map_or(&[][..], |level| levels.level(level));
        let begun = |key| tables.partition_point(|it| order.compare(bounds(it).0, key).is_le());
        // The first table stands for all keys before it, too.
        let (first, behind) = (begun(low).saturating_sub(1), begun(high).max(1));
        for border in [first, behind] {
            if border > 0 && border < tables.len() {
                self.split(order, tables, border);
            }
        }
    }

    /// Has a range begin with the table number `border`. What its range had is shared out by the
    /// number of tables.
    fn split(&mut self, order: &KeyOrder, tables: &[Arc<TableHandle>], border: usize) {
        let low = bounds(&tables[border]).0;
        let index = self.index_of(order, low);
        if index > 0 && order.compare(&self.ranges[index].low, low).is_eq() {
            return;
        }
        let first_in = |low: &[u8]| {
            tables.partition_point(|table| order.compare(bounds(table).0, low).is_lt())
        };
        let first = if index == 0 { 0 } else { first_in(&self.ranges[index].low) };
        let end = self.ranges.get(index + 1).map_or(tables.len(), |next| first_in(&next.low));
        let (all, behind) = (end.saturating_sub(first) as u64, end.saturating_sub(border) as u64);
        let range = &mut self.ranges[index];
        let share = |bytes| part(bytes, behind.min(all), all);
        let (waste, ordered) = (share(range.waste), share(range.ordered));
        range.waste -= waste;
        range.ordered -= ordered;
        self.ranges.insert(index + 1, DemandRange { low: low.to_vec(), waste, ordered });
    }

    /// Joins the two neighbours that cost least.
    fn join_least(&mut self) {
        let costs = self.ranges.windows(2).map(|pair| pair[0].waste.saturating_add(pair[1].waste));
        let least = costs.enumerate().min_by_key(|(_, cost)| *cost);
        let Some((index, waste)) = least else { return };
        let joined = self.ranges.remove(index + 1);
        let range = &mut self.ranges[index];
        range.waste = waste;
        range.ordered = range.ordered.saturating_add(joined.ordered);
    }
}

/// What one cursor counted and has not handed over yet.
pub struct ScanNotes {
    demands: Option<Arc<ScanDemands>>,
    /// The reads too many, with the place where they began.
    open: Option<(Arc<View>, Vec<u8>, u64)>,
}

impl ScanNotes {
    /// Creates the notes of a cursor; without `demands` nothing is noted.
    pub fn new(demands: Option<Arc<ScanDemands>>) -> Self {
        ScanNotes { demands, open: None }
    }

    /// Notes the reads too many of a window of `view` that begins at `key`.
    pub fn window(&mut self, view: &Arc<View>, key: &[u8], extra: u64) {
        if extra == 0 || self.demands.is_none() {
            return;
        }
        let (.., sum) = self.open.get_or_insert_with(|| (view.clone(), key.to_vec(), 0));
        *sum += extra;
        if *sum >= NOTED_READS {
            self.hand_over();
        }
    }

    /// Hands over what was counted, because the walk goes on elsewhere.
    pub fn hand_over(&mut self) {
        if let (Some(demands), Some((view, key, reads))) = (&self.demands, self.open.take()) {
            demands.note(&view, &key, reads);
        }
    }
}

impl Drop for ScanNotes {
    fn drop(&mut self) {
        self.hand_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::golden::{golden, number, pair};

    /// Runs a case: `window values=8 bytes=8k reads=8` asks for the reads too many.
    fn run(lines: &[&str]) -> String {
        let mut text = String::new();
        for line in lines {
            let words = line.split_whitespace().skip(1).map(pair);
            let values: Vec<u64> = words.map(|(_, value)| number(value)).collect();
            text += &format!("{}\n", extra_reads(values[0], values[1], values[2]));
        }
        text
    }

    #[test]
    fn golden_reads_that_ordered_values_would_have_saved() {
        golden("read/testdata/demand.txt", run);
    }

    fn demand(wastes: &[u64]) -> ScanDemand {
        let range = |(index, &waste): (usize, &u64)| {
            let low = if index == 0 { Vec::new() } else { vec![index as u8] };
            DemandRange { low, waste, ordered: waste }
        };
        ScanDemand { ranges: wastes.iter().enumerate().map(range).collect(), ..Default::default() }
    }

    fn wastes(demand: &ScanDemand) -> Vec<u64> {
        demand.ranges.iter().map(|range| range.waste).collect()
    }

    /// A piece that ended early took what its range had paid for all, and the rest had to pay
    /// again, four times as much, as if its values had been put in order before.
    #[test]
    fn what_was_paid_for_the_rest_of_a_piece_stays_with_the_rest() {
        let cases: [(Option<&[u8]>, _); 4] = [
            (None, [4, 3, 5]),
            (Some(&[0, 1]), [4, 3, 5]),
            (Some(&[1]), [0, 7, 5]),
            (Some(&[2, 1]), [0, 3, 9]),
        ];
        for (rest, expected) in cases {
            let demands = ScanDemands::new(crate::env::Env::simulated(1).0.clock);
            let (keyspace, levels) = (KeyspaceId(1), Levels::new(KeyOrder::Bytewise));
            demands.keyspaces.lock().insert(keyspace, demand(&[4, 3, 5]));
            demands.done(keyspace, &levels, (&[], &[0], rest), (&[], 100));
            let ranges = demands.ranges(keyspace);
            assert_eq!(ranges.iter().map(|it| it.waste).collect::<Vec<_>>(), expected);
            assert_eq!(ranges.iter().map(|it| it.ordered).collect::<Vec<_>>(), [104, 3, 5]);
        }
    }

    /// A decision to wait was made anew each time that a thread looked for work.
    #[test]
    fn a_wait_is_known_while_scans_cost_about_the_same() {
        let (env, _) = crate::env::Env::simulated(1);
        let (demands, keyspace) = (ScanDemands::new(env.clock.clone()), KeyspaceId(1));
        let basis = OrderBasis { version: 7, room: 100, most_room: 200, running: (3, 1) };
        let known_wait = || demands.worth_a_look(keyspace, 7).and_then(|known| known.waits);
        demands.found_wait(keyspace, basis, 150);
        assert!(known_wait().is_none(), "no scan has cost anything");
        let mib = |count: u64| count << 20;
        demands.keyspaces.lock().insert(keyspace, demand(&[mib(8), mib(72)]));
        assert!(known_wait().is_none(), "nothing was decided");
        demands.found_wait(keyspace, basis, 150);
        let set =
            |waste| demands.keyspaces.lock().get_mut(&keyspace).unwrap().ranges[0].waste = waste;
        for (waste, is_known) in
            [(mib(8), true), (mib(19) - 1, true), (mib(19), false), (mib(8) - 1, false)]
        {
            set(waste);
            let known = known_wait().map(|wait| (wait.basis, wait.needed));
            assert_eq!(known, is_known.then_some((basis, 150)), "{waste}");
        }
        set(mib(8));
        assert!(demands.worth_a_look(keyspace, 7).is_some(), "a flush may be worth it meanwhile");
        env.threads.sleep(HALF_LIFE);
        assert!(known_wait().is_none(), "less is paid for");
    }

    #[test]
    fn the_neighbours_that_cost_least_are_joined() {
        let mut demand = demand(&[9, 1, 2, 8]);
        demand.join_least();
        assert_eq!(wastes(&demand), [9, 3, 8]);
        assert_eq!(demand.ranges[1].low, [1]);
        assert_eq!(demand.index_of(&KeyOrder::Bytewise, &[2]), 1);
        assert_eq!(demand.index_of(&KeyOrder::Bytewise, &[3]), 2);
        assert_eq!(demand.index_of(&KeyOrder::Bytewise, &[]), 0);
    }

    #[test]
    fn what_scans_have_cost_counts_half_after_an_hour() {
        let mut demand = demand(&[9, 100]);
        demand.halve(HALF_LIFE - Duration::from_secs(1));
        assert_eq!(wastes(&demand), [9, 100]);
        demand.halve(HALF_LIFE);
        assert_eq!(wastes(&demand), [4, 50]);
        demand.halve(HALF_LIFE * 4 - Duration::from_secs(1));
        assert_eq!(wastes(&demand), [1, 12]);
        demand.halve(HALF_LIFE * 4000);
        assert_eq!(wastes(&demand), [0, 0]);
    }

    #[test]
    fn a_price_is_shared_by_what_each_range_has() {
        let mut demand = demand(&[10, 30, 0]);
        demand.take(20);
        assert_eq!(wastes(&demand), [5, 15, 0]);
        demand.take(100);
        assert_eq!(wastes(&demand), [0, 0, 0]);
    }
}

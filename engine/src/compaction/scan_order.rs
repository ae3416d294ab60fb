//! Decides which values are put into key order because scans read them, and does it. The decision
//! is pure.
//!
//! A range of keys is worth it once scans have paid for its disorder what putting its values in
//! order costs (`read/demand.rs` knows the former). So what this writes never exceeds by much what
//! scans have lost, whatever comes next. Of a table only values that lie in the log, or in more
//! sorted segments than a scan can read together, are rewritten; large runs that are in order
//! already stay, each of an eighth of the values at least. A segment counts as one run, though
//! value GC writes what it moves of log segments in several parts if that exceeds its memory
//! (`gc.memory_bytes`). A table that comes from such a job is never picked again: its pointers do
//! not change, so only overwriting, which makes other tables of it, makes work anew. And the more
//! often a range was put in order, the more scans must have paid.
//!
//! A piece is a compaction of a few neighbouring tables within their level, as a reorganization is
//! (`reorganize.rs`), with the same crash cases. What lies above is brought down first
//! where it is much: the memtable by a flush, L0 by a compaction, unless a flush is coming.

use crate::base::key::KeyOrder;
use crate::base::pointer::{KeyspaceId, SegmentId, ValuePointer};
use crate::compaction::job::CompactionReport;
use crate::compaction::picker::{Pick, RunningCompactions, pick_level0};
use crate::compaction::piece_end::PieceEnd;
use crate::compaction::reorganize;
use crate::read::demand::{DemandRange, KnownDemand, ORDERED_RUNS};
use crate::segment::SegmentKind;
use crate::version::Version;
use crate::version::files::TableHandle;
use crate::version::job::JobResult;
use crate::version::levels::{LEVELS, Levels, bounds};
use crate::version::runtime::Runtime;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::KeyspaceState;
use crate::version::walks::READ_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// A piece puts at most about so many bytes of values in order. It holds up compactions of full
/// levels meanwhile, and its old copies take space until value GC frees them.
pub const MAX_PIECE_BYTES: u64 = 128 << 20;
/// A piece for all of which there is no room has so many bytes at least, or the lesser number where
/// room for the first can't be made; and always `LEAST_PIECE_PART` of the values of its keyspace. A
/// liveness scan, which reads all keys, finds what a piece leaves dead, and relocations free it for
/// the next one (`bench/record/2026-11-27-constants.md`).
const LEAST_PIECE_BYTES: [u64; 2] = [64 << 20, 16 << 20];
/// See `LEAST_PIECE_BYTES`; one part in this many.
const LEAST_PIECE_PART: u64 = 8;
/// A piece for all of which there is no room has three of four parts of it. The rest is for what
/// others write meanwhile.
const ROOM_PARTS: (u64, u64) = (3, 4);
/// A table is left alone if less than this part (one in this many) of its values is strewn.
const LEAST_STREWN_PART: u64 = 16;
/// A byte that is put in order is read and written.
const MOVES_PER_BYTE: u64 = 2;
/// What is put in order as often as it is overwritten must be worth so many times its price.
const MOST_OFTEN: u64 = 4;

/// Facts that the levels do not contain.
pub struct OrderFacts<'a> {
    /// What scans have paid.
    pub demand: &'a KnownDemand,
    /// Returns true for sorted segments of the version.
    pub is_sorted: &'a dyn Fn(SegmentId) -> bool,
    /// The bytes by which space may grow: up to where value GC gets urgent, and to where the disk
    /// is nearly full.
    pub room: u64,
    /// The most that `room` can become.
    pub most_room: u64,
    /// The bytes of values that a piece of several tables has at most.
    pub segment_bytes: u64,
    /// True if a flush is about to bring more to L0.
    pub flushes: bool,
}

/// The decision.
pub enum OrderPick {
    /// Bring down L0 by this compaction.
    Lower(Pick),
    /// Put so many bytes of the values of these tables in order, the first of them.
    Order(Pick, u64),
    /// Something is worth it, and waits for other jobs, for room that can't be made, or for this
    /// room if it is not 0: the least that any of the pieces needs for which there is too little.
    Wait(u64),
    /// Nothing is worth it.
    Nothing,
}

/// What a table has to do with the order of values.
#[derive(Debug, Clone, Copy, Default)]
struct TableDisorder {
    /// The bytes of its values that are not in the large sorted runs.
    strewn: u64,
    /// The bytes that a job would move.
    moves: u64,
}

/// Returns the sorted segments with most values of `uses`, as many as stay where they are: none
/// that has so few values that to move them costs less than the read that each scan needs there.
fn homes(
    uses: &BTreeMap<SegmentId, u64>,
    is_sorted: &dyn Fn(SegmentId) -> bool,
) -> BTreeSet<SegmentId> {
    let least = sum(uses) / LEAST_HOME_PART;
    let runs = sorted_runs(uses, is_sorted).into_iter().take(KEPT_RUNS);
    runs.filter(|(bytes, _)| *bytes >= least).map(|(_, id)| id).collect()
}

/// One run is written, so that many stay at most.
const KEPT_RUNS: usize = ORDERED_RUNS as usize - 1;
/// A run stays if it has at least this part (one in this many) of the values.
///
/// Measured with 258,000 values of 1 KiB that were flushed in 32 runs of equal size, in 96 MiB of
/// memory: where the three largest stayed, a scan of some 50 values took 2.4 reads instead of 1.2.
const LEAST_HOME_PART: u64 = 8;

fn sum(uses: &BTreeMap<SegmentId, u64>) -> u64 {
    // I7: the numbers are from files.
    uses.values().copied().fold(0, u64::saturating_add)
}

/// Returns the sorted segments of `uses` with their bytes, those with most first.
fn sorted_runs(
    uses: &BTreeMap<SegmentId, u64>,
    is_sorted: &dyn Fn(SegmentId) -> bool,
) -> Vec<(u64, SegmentId)> {
    let sorted = uses.iter().filter(|(id, _)| is_sorted(**id));
    let mut runs: Vec<_> = sorted.map(|(id, bytes)| (*bytes, *id)).collect();
    runs.sort_by(|a, b| b.cmp(a));
    runs
}

/// Returns the bytes of the values that tables have in each segment, but for large values.
fn uses<'a>(tables: impl Iterator<Item = &'a Arc<TableHandle>>) -> BTreeMap<SegmentId, u64> {
    let mut uses = BTreeMap::new();
    for (&id, used) in tables.flat_map(|table| &table.meta.summary.segments) {
        if used.bytes / used.count.max(1) < READ_BYTES {
            let sum: &mut u64 = uses.entry(id).or_default();
            // I7: the numbers are from files.
            *sum = sum.saturating_add(used.bytes);
        }
    }
    uses
}

fn disorder(table: &Arc<TableHandle>, is_sorted: &dyn Fn(SegmentId) -> bool) -> TableDisorder {
    let uses = uses(std::iter::once(table));
    let (all, homes) = (sum(&uses), homes(&uses, is_sorted));
    let runs = sorted_runs(&uses, is_sorted).into_iter().take(KEPT_RUNS + 1);
    let in_order = runs.map(|(bytes, _)| bytes).fold(0, u64::saturating_add);
    TableDisorder { strewn: all - in_order, moves: moved(&uses, &homes) }
}

/// Returns the bytes of the values of `uses` that do not stay where they are.
fn moved(uses: &BTreeMap<SegmentId, u64>, homes: &BTreeSet<SegmentId>) -> u64 {
    let moved = uses.iter().filter(|(id, _)| !homes.contains(id)).map(|(_, bytes)| *bytes);
    moved.fold(0, u64::saturating_add)
}

/// Returns the price of putting `bytes` of values of `tables` bytes of tables in order, where
/// `ordered` bytes of values were put in order before.
fn price(tables: u64, bytes: u64, ordered: u64) -> u64 {
    let once = tables.saturating_add(bytes).saturating_mul(MOVES_PER_BYTE);
    let again = ordered.min(bytes);
    let more = (u128::from(once) * u128::from(MOST_OFTEN - 1) * u128::from(again))
        / u128::from(bytes.max(1));
    once.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
}

/// What is strewn in a range.
struct StrewnRange<'a> {
    range: &'a DemandRange,
    price: u64,
    /// The strewn tables below L0 that begin in it, by level.
    tables: Vec<StrewnTable>,
}

/// A table of whose values much is strewn.
struct StrewnTable {
    level: usize,
    /// Its place in the level.
    place: usize,
    disorder: TableDisorder,
}

/// Picks the next job of a keyspace. Costs a look at each table of the ranges that have paid for
/// some.
pub fn pick(
    keyspace: KeyspaceId,
    levels: &Levels,
    busy: &RunningCompactions,
    facts: &OrderFacts<'_>,
) -> OrderPick {
    let ranges = &facts.demand.ranges;
    let mut due: Vec<StrewnRange<'_>> = (0..ranges.len())
        .filter_map(|index| strewn(levels, facts, index))
        .filter(|range| range.range.waste > range.price)
        .collect();
    // The range that has lost most beyond its price comes first; of equals, that of lesser keys.
    due.sort_by_key(|range| std::cmp::Reverse(range.range.waste - range.price));
    // What is brought down first is put in order with the rest. Left for later, it would be too
    // little to be worth it, and cost each scan some reads.
    let upper = pick_upper(keyspace, levels, busy, facts);
    let fits = |pick: &Pick| pick.bytes() <= facts.room;
    if let Some(pick) = upper.clone().filter(|pick| !facts.flushes && fits(pick)) {
        return OrderPick::Lower(pick);
    }
    let (mut waits, mut lacks) = (false, 0);
    for table in due.iter().flat_map(|range| &range.tables) {
        waits = true;
        let pick = piece(levels, table, facts);
        let moves = match pick.inputs.len() {
            1 => table.disorder.moves.min(MAX_PIECE_BYTES),
            _ => moved_by(&pick, facts.is_sorted),
        };
        let Some((least, needed)) = least_piece(levels, &pick, moves, facts.most_room) else {
            continue;
        };
        let room = facts.room.saturating_sub(pick.bytes());
        let most = if moves <= room { moves } else { room / ROOM_PARTS.1 * ROOM_PARTS.0 };
        if most < least {
            lacks = if lacks == 0 { needed } else { needed.min(lacks) };
        } else if busy.is_free(keyspace, levels.order(), &pick) {
            return OrderPick::Order(pick, most);
        }
    }
    if waits {
        return OrderPick::Wait(lacks);
    }
    match upper {
        Some(pick) if fits(&pick) => OrderPick::Lower(pick),
        Some(pick) if pick.bytes() <= facts.most_room => OrderPick::Wait(pick.bytes()),
        Some(_) => OrderPick::Wait(0),
        None => OrderPick::Nothing,
    }
}

/// Returns the least bytes that a piece has of the `moves` of `pick`, and the room that it needs
/// for them; `None` if not even `most_room` is enough.
fn least_piece(levels: &Levels, pick: &Pick, moves: u64, most_room: u64) -> Option<(u64, u64)> {
    let part = levels.value_bytes() / LEAST_PIECE_PART;
    let leasts = LEAST_PIECE_BYTES.map(|least| least.max(part).min(moves));
    let needed = |least: u64| {
        let room = least.div_ceil(ROOM_PARTS.0).saturating_mul(ROOM_PARTS.1).min(moves);
        room.saturating_add(pick.bytes())
    };
    let all = leasts.into_iter().map(|least| (least, needed(least)));
    all.into_iter().find(|(_, needed)| *needed <= most_room)
}

/// Returns the strewn tables of range number `index`, unless scans have not paid for any of them.
/// Costs two bisections of each level if scans have paid for anything, and a look at each table.
fn strewn<'a>(levels: &Levels, facts: &'a OrderFacts<'_>, index: usize) -> Option<StrewnRange<'a>> {
    let ranges = &facts.demand.ranges;
    let range = &ranges[index];
    if range.waste == 0 {
        // Whatever is there, it is not paid for.
        return None;
    }
    let low = (index > 0).then_some(&range.low[..]);
    let high = ranges.get(index + 1).map(|next| &next.low[..]);
    let (mut tables, mut bytes, mut moves) = (Vec::new(), 0u64, 0u64);
    for level in 1..LEVELS {
        for place in beginning(levels, level, (low, high)) {
            let table = &levels.level(level)[place];
            if let Some(disorder) = is_strewn(table, facts) {
                bytes = bytes.saturating_add(table.meta.bytes);
                if range.waste <= price(bytes, 0, 0) {
                    // Not even the tables themselves are paid for.
                    return None;
                }
                moves = moves.saturating_add(disorder.moves);
                tables.push(StrewnTable { level, place, disorder });
            }
        }
    }
    let price = price(bytes, moves, range.ordered);
    (!tables.is_empty()).then_some(StrewnRange { range, price, tables })
}

/// Returns the places of the tables of a level below L0 whose first user keys are from `low` on,
/// and before `high`. Costs two bisections.
fn beginning(
    levels: &Levels,
    level: usize,
    (low, high): (Option<&[u8]>, Option<&[u8]>),
) -> Range<usize> {
    debug_assert!(level > 0, "tables of L0 are in the order of their age");
    let (order, tables) = (levels.order(), levels.level(level));
    let before = |key| tables.partition_point(|table| order.compare(bounds(table).0, key).is_lt());
    low.map_or(0, before)..high.map_or(tables.len(), before)
}

fn is_strewn(table: &Arc<TableHandle>, facts: &OrderFacts<'_>) -> Option<TableDisorder> {
    if facts.demand.done.contains(&table.meta.id) {
        return None;
    }
    let disorder = disorder(table, facts.is_sorted);
    let least = table.meta.summary.value_bytes() / LEAST_STREWN_PART;
    (disorder.strewn > 0 && disorder.strewn >= least).then_some(disorder)
}

/// Returns a piece that begins with a table: with its strewn neighbours as long as all of their
/// values fit in a segment, and there is room for them, so that tables with few values do not get a
/// segment each.
fn piece(
    levels: &Levels,
    StrewnTable { level, place, disorder }: &StrewnTable,
    facts: &OrderFacts<'_>,
) -> Pick {
    let (table, behind) = (&levels.level(*level)[*place], &levels.level(*level)[*place + 1..]);
    let mut inputs = vec![table.clone()];
    let mut bytes = table.meta.summary.value_bytes().max(disorder.moves);
    let mut tables = table.meta.bytes;
    for next in behind {
        bytes = bytes.saturating_add(next.meta.summary.value_bytes());
        tables = tables.saturating_add(next.meta.bytes);
        let most_bytes = facts.segment_bytes.min(facts.room.saturating_sub(tables));
        if bytes > most_bytes || is_strewn(next, facts).is_none() {
            break;
        }
        inputs.push(next.clone());
    }
    Pick::in_place(*level, inputs)
}

/// Returns the bytes of values that a job for `pick` moves, at most.
pub fn moved_by(pick: &Pick, is_sorted: &dyn Fn(SegmentId) -> bool) -> u64 {
    let uses = uses(pick.tables());
    moved(&uses, &homes(&uses, is_sorted)).min(MAX_PIECE_BYTES)
}

/// Returns the price of a job for `pick` that moves `moves` bytes of values, in a range where
/// nothing was put in order before. A compaction of L0 moves none.
pub fn price_of(pick: &Pick, moves: u64) -> u64 {
    price(pick.bytes(), moves, 0)
}

/// Picks L0 if a notable part of the values is there, and scans have paid for its compaction and
/// for putting them in order.
fn pick_upper(
    keyspace: KeyspaceId,
    levels: &Levels,
    busy: &RunningCompactions,
    facts: &OrderFacts<'_>,
) -> Option<Pick> {
    let values = levels.level(0).iter().map(|table| table.meta.summary.value_bytes());
    let (here, all) = (values.fold(0, u64::saturating_add), levels.value_bytes());
    if here == 0 || here < all / LEAST_STREWN_PART {
        return None;
    }
    let pick = pick_level0(keyspace, levels, busy)?;
    // Tables are written by this compaction, and again with their values.
    let tables = pick.bytes().saturating_mul(2);
    (paid(&facts.demand.ranges) > price(tables, here, 0)).then_some(pick)
}

fn paid(ranges: &[DemandRange]) -> u64 {
    ranges.iter().map(|range| range.waste).fold(0, u64::saturating_add)
}

/// Returns true if a memtable with so many entries, which takes so many bytes of memory and has at
/// most so many bytes of separated values, should be flushed so that these can be put in order.
pub fn wants_flush(
    demand: &KnownDemand,
    levels: &Levels,
    (entries, bytes, values): (u64, u64, u64),
) -> bool {
    let is_notable = entries > 0 && entries >= levels.entries() / LEAST_STREWN_PART;
    is_notable && paid(&demand.ranges) > price(bytes.saturating_mul(2), values, 0)
}

/// Returns true for the sorted segments of `version`.
pub fn is_sorted(version: &Version, id: SegmentId) -> bool {
    let segment = version.segments.get(&id);
    segment.is_some_and(|live| live.handle.segment.kind() == SegmentKind::Sorted)
}

/// A piece at work: it moves values until they have so many bytes.
pub struct OrderingPiece {
    /// The segments whose values stay.
    homes: BTreeSet<SegmentId>,
    /// Where it ends.
    pub end: PieceEnd,
}

impl OrderingPiece {
    /// Creates a piece that moves the values of `pick` that are strewn, as far as `version` says,
    /// until they have `most_bytes`.
    pub fn new(order: KeyOrder, pick: &Pick, version: &Version, most_bytes: u64) -> Self {
        let homes = homes(&uses(pick.tables()), &|id| is_sorted(version, id));
        OrderingPiece { homes, end: PieceEnd::new(order, most_bytes) }
    }

    /// Returns true if the record moves.
    pub fn takes(&mut self, pointer: ValuePointer) -> bool {
        let bytes = u64::from(pointer.length);
        let is_strewn = !self.homes.contains(&pointer.segment);
        let takes = self.end.until().is_none() && bytes < READ_BYTES && is_strewn;
        if takes {
            self.end.moves(bytes);
        }
        takes
    }
}

/// Runs `pick`, which was made for the tables `levels` of `keyspace`, and moves about `most_bytes`
/// of values.
pub fn run(
    runtime: &Runtime,
    keyspace: &Arc<KeyspaceState>,
    levels: &Levels,
    (pick, most_bytes): (&Pick, u64),
    seen: SeenSeqnos,
) -> JobResult<CompactionReport> {
    let (order, version) = (keyspace.order.clone(), runtime.set.current());
    let piece = OrderingPiece::new(order, pick, &version, most_bytes);
    reorganize::rewrite(runtime, keyspace, levels, pick, seen, reorganize::MovedPart::Strewn(piece))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::tests::script::{context, table};

    #[test]
    fn tables_that_begin_in_a_range_are_found_by_bisection() {
        let context = context();
        let lines = ["b-c", "d-d", "f-h", "k-m"].into_iter().zip(1..);
        let tables = lines.map(|(keys, id)| table(&format!("L3 {id} {keys} 1M"), &context));
        let levels = Levels::of(KeyOrder::Bytewise, tables.flatten());
        let keys = || std::iter::once(None).chain((b'a'..=b'n').map(|key| Some([key])));
        for (low, high) in keys().flat_map(|low| keys().map(move |high| (low, high))) {
            let (low, high) = (low.as_ref().map(|it| &it[..]), high.as_ref().map(|it| &it[..]));
            let begins_in = |place: &usize| {
                let first = bounds(&levels.level(3)[*place]).0;
                low.is_none_or(|low| low <= first) && high.is_none_or(|high| first < high)
            };
            let expected: Vec<_> = (0..4).filter(begins_in).collect();
            let found: Vec<_> = beginning(&levels, 3, (low, high)).collect();
            assert_eq!(found, expected, "{low:?} {high:?}");
            assert!(beginning(&levels, 2, (low, high)).is_empty());
        }
    }
}

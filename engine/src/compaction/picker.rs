//! Picks the tables to compact next: a pure function of the levels, the settings and the running
//! compactions.
//!
//! Leveled compaction: L0 scores by its number of sorted runs, each deeper level by its bytes over
//! its target; the highest score of at least one wins. The tables of a level take turns, so that
//! work spreads over the keys. A large ingest in L0 goes down piece by piece (`level0.rs`). A job
//! owns its tables and the range of user keys that they span, in both of its levels, until it is
//! installed.

use crate::base::key::KeyOrder;
use crate::base::pointer::{KeyspaceId, TableId};
use crate::compaction::level0;
use crate::version::files::TableHandle;
use crate::version::levels::{LEVELS, Levels, bounds, level0_runs_of, table_bytes};
use crate::version::settings::KeyspaceOptions;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The ratio of the target size of a level to that of the level above.
pub const FAN_OUT: u64 = 10;

/// Of so many tables of a level, those whose turn is next, the one goes down that costs least. With
/// more, the choice would take long.
const MOST_CANDIDATES: usize = 64;

/// Below this score, a compaction of L0 that is due waits until each level below is back at its
/// target, and L1 at the part of it (one in this many) that `DRAINED_LEVEL1` gives. Meanwhile more
/// comes to L0, and then more of it is merged at once, with less of L1.
const PRESSING_LEVEL0: f64 = 2.0;
/// The part of L1's target; see `PRESSING_LEVEL0`.
const DRAINED_LEVEL1: f64 = 2.0;

/// Several tables of L0 that are smaller than this part of a usual table, one in so many, are
/// merged even if they do not overlap. Otherwise who writes in order, and flushes often, would have
/// very many small tables.
const LEAST_MOVED_PART: u64 = 4;

/// A flush that comes late makes one table of so many memtables by default.
const MOST_FLUSHED_MEMTABLES: u64 = 3;

/// The inputs and the output level of a compaction.
#[derive(Clone)]
pub struct Pick {
    /// The level of `inputs`.
    pub level: usize,
    /// The level of the outputs: the level below, or the same one to drop entries no reader sees.
    pub output_level: usize,
    /// The tables of `level`.
    pub inputs: Vec<Arc<TableHandle>>,
    /// The tables of `output_level` that overlap `inputs`.
    pub below: Vec<Arc<TableHandle>>,
    /// True if several runs of L0 are merged even if they do not overlap.
    pub merges_runs: bool,
}

impl Pick {
    /// Picks tables to be rewritten in their level.
    pub fn in_place(level: usize, inputs: Vec<Arc<TableHandle>>) -> Self {
        Pick { level, output_level: level, inputs, below: Vec::new(), merges_runs: false }
    }

    /// Returns the bytes of all input tables.
    pub fn bytes(&self) -> u64 {
        table_bytes(&self.inputs).saturating_add(table_bytes(&self.below))
    }

    /// Returns true if this reads fewer bytes of the level below for each byte that it takes there.
    fn costs_less_than(&self, other: &Pick) -> bool {
        let cost = |a: &Pick, b: &Pick| {
            u128::from(table_bytes(&a.below)) * u128::from(table_bytes(&b.inputs))
        };
        cost(self, other) < cost(other, self)
    }

    /// Returns the number of entries of the tables of `level`.
    pub fn input_entries(&self) -> u64 {
        // I7: the numbers are from files.
        let entries = self.inputs.iter().map(|table| table.meta.summary.entries);
        entries.fold(0, u64::saturating_add)
    }

    /// Returns the bytes of the separated values that the inputs reference.
    pub fn value_bytes(&self) -> u64 {
        let bytes = self.tables().map(|table| table.meta.summary.value_bytes());
        bytes.fold(0, u64::saturating_add)
    }

    /// Iterates over all input tables.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.inputs.iter().chain(&self.below)
    }

    /// Returns true if this is a trivial move: there is nothing to merge, neither with the level
    /// below nor among the runs of L0, as behind a load in the order of keys. A table that is
    /// larger than those that flushes write is rewritten, to be split.
    ///
    /// Costs a sort of the inputs if they are of L0.
    pub fn is_move(&self, order: &KeyOrder, options: &KeyspaceOptions) -> bool {
        let flushed_bytes = options.memtable_bytes.saturating_mul(MOST_FLUSHED_MEMTABLES);
        let most_bytes = flushed_bytes.max(2 * options.table_bytes);
        self.below.is_empty()
            && self.output_level > self.level
            && self.inputs.iter().all(|table| table.meta.bytes <= most_bytes)
            && (self.level > 0 || self.is_movable_level0(order, options))
    }

    /// Returns true if there is only one run of L0, or if no two tables of the runs have a user key
    /// in common and they are large enough to stay apart.
    fn is_movable_level0(&self, order: &KeyOrder, options: &KeyspaceOptions) -> bool {
        let least_bytes = self.inputs.len() as u64 * (options.table_bytes / LEAST_MOVED_PART);
        let is_one = level0_runs_of(&self.inputs).nth(1).is_none();
        let are_large = || table_bytes(&self.inputs) >= least_bytes;
        is_one || !self.merges_runs && are_large() && are_disjoint(order, &self.inputs)
    }

    fn span(&self, order: &KeyOrder) -> Option<(Vec<u8>, Vec<u8>)> {
        span(order, self.tables())
    }
}

/// Returns true if no two of the tables may have a user key in common.
fn are_disjoint(order: &KeyOrder, tables: &[Arc<TableHandle>]) -> bool {
    let mut spans: Vec<_> = tables.iter().map(|table| bounds(table)).collect();
    order.sort(&mut spans, |(a, _), (b, _)| order.compare(a, b));
    spans.is_sorted_by(|(_, last), (first, _)| order.compare(last, first).is_lt())
}

/// Returns the least and the greatest user key of the tables; `None` if there are none.
pub fn span<'a>(
    order: &KeyOrder,
    tables: impl Iterator<Item = &'a Arc<TableHandle>>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    tables.map(|table| bounds(table)).fold(None, |span, keys| Some(widened(order, span, keys)))
}

/// Returns the least and the greatest user key of `span`, which may be empty, and of the keys from
/// `low` to `high`.
pub fn widened(
    order: &KeyOrder,
    span: Option<(Vec<u8>, Vec<u8>)>,
    (low, high): (&[u8], &[u8]),
) -> (Vec<u8>, Vec<u8>) {
    let Some((first, last)) = span else {
        return (low.to_vec(), high.to_vec());
    };
    let first = if order.compare(low, &first).is_lt() { low.to_vec() } else { first };
    let last = if order.compare(high, &last).is_gt() { high.to_vec() } else { last };
    (first, last)
}

/// The least and the greatest of some user keys.
pub type KeySpan = (Vec<u8>, Vec<u8>);

/// The levels and keys that a running job owns.
struct Claim {
    keyspace: KeyspaceId,
    levels: (usize, usize),
    span: KeySpan,
}

/// The running compactions and what they own.
#[derive(Default)]
pub struct RunningCompactions {
    next: u64,
    claims: BTreeMap<u64, Claim>,
    tables: BTreeMap<TableId, ()>,
}

impl RunningCompactions {
    /// Registers a job as running; returns `None` if a running job owns part of it.
    pub fn claim(&mut self, keyspace: KeyspaceId, order: &KeyOrder, pick: &Pick) -> Option<u64> {
        if !self.is_free(keyspace, order, pick) {
            return None;
        }
        debug_assert!((pick.level..=pick.level + 1).contains(&pick.output_level));
        let span = pick.span(order)?;
        for table in pick.tables() {
            let other = self.tables.insert(table.meta.id, ());
            debug_assert!(other.is_none(), "table {} is an input of two jobs", table.meta.id);
        }
        self.next += 1;
        let levels = (pick.level, pick.output_level);
        self.claims.insert(self.next, Claim { keyspace, levels, span });
        Some(self.next)
    }

    /// Registers the keys from `low` to `high` in all levels as taken, so that no job with some of
    /// them begins. Returns the claim, and of each running job with some of them the level of its
    /// outputs with its span.
    pub fn claim_span(
        &mut self,
        keyspace: KeyspaceId,
        order: &KeyOrder,
        (low, high): (&[u8], &[u8]),
    ) -> (u64, Vec<(usize, KeySpan)>) {
        let claims = self.claims.values().filter(|claim| claim.keyspace == keyspace);
        let meets = |claim: &&Claim| {
            order.compare(&claim.span.0, high).is_le() && order.compare(&claim.span.1, low).is_ge()
        };
        let running = claims.filter(meets).map(|claim| (claim.levels.1, claim.span.clone()));
        let running = running.collect();
        self.next += 1;
        let span = (low.to_vec(), high.to_vec());
        self.claims.insert(self.next, Claim { keyspace, levels: (0, LEVELS - 1), span });
        (self.next, running)
    }

    /// Removes a claim of [`RunningCompactions::claim_span`].
    pub fn release_span(&mut self, claim: u64) {
        let ended = self.claims.remove(&claim);
        assert!(ended.is_some(), "the claim {claim} ends twice");
    }

    /// Removes a job that is over.
    pub fn release(&mut self, claim: u64, pick: &Pick) {
        let ended = self.claims.remove(&claim);
        assert!(ended.is_some(), "compaction {claim} ends twice");
        for table in pick.tables() {
            let owned = self.tables.remove(&table.meta.id);
            debug_assert!(owned.is_some(), "table {} was not an input of the job", table.meta.id);
        }
        debug_assert!(!self.claims.is_empty() || self.tables.is_empty());
    }

    /// Returns the claims on parts of a keyspace.
    pub fn claims_of(&self, keyspace: KeyspaceId) -> Vec<u64> {
        let claims = self.claims.iter().filter(|(_, claim)| claim.keyspace == keyspace);
        claims.map(|(number, _)| *number).collect()
    }

    /// Returns true if one of these claims is still held.
    pub fn holds_any(&self, claims: &[u64]) -> bool {
        claims.iter().any(|number| self.claims.contains_key(number))
    }

    /// Returns two numbers that are the same later only if nothing was claimed or released since.
    pub fn state(&self) -> (u64, usize) {
        (self.next, self.claims.len())
    }

    /// Returns true if no running job conflicts with `pick`.
    pub fn is_free(&self, keyspace: KeyspaceId, order: &KeyOrder, pick: &Pick) -> bool {
        if pick.tables().any(|table| self.tables.contains_key(&table.meta.id)) {
            return false;
        }
        let Some((low, high)) = pick.span(order) else {
            return false;
        };
        self.claims.values().filter(|claim| claim.keyspace == keyspace).all(|claim| {
            let apart = claim.levels.1 < pick.level || pick.output_level < claim.levels.0;
            apart
                || order.compare(&claim.span.1, &low).is_lt()
                || order.compare(&claim.span.0, &high).is_gt()
        })
    }

    /// Returns true if a job runs on L0 of this keyspace.
    pub(super) fn owns_level0(&self, keyspace: KeyspaceId) -> bool {
        self.claims.values().any(|claim| claim.keyspace == keyspace && claim.levels.0 == 0)
    }
}

/// The user key of each level behind which its next job starts; `None` for the first table.
pub type CompactionCursors = [Option<Vec<u8>>; LEVELS];

/// Least number of full tables in L1's target. With half as many, ten million values of 1 KiB are
/// overwritten as fast (`bench/record/2026-11-26-many-keys.md`).
const LEAST_LEVEL1_TABLES: u64 = 8;

/// Returns the target size of L1 in bytes: about what L0 brings at once. Where a flush separates
/// values, that is as small a part of the memtables as tables are of all that is stored. A larger
/// L1 would be rewritten for little each time: with 256 MiB instead of 32, ten million values of
/// 1 KiB are overwritten a quarter slower (`bench/record/2026-11-26-many-keys.md`).
pub fn level1_bytes(levels: &Levels, options: &KeyspaceOptions) -> u64 {
    let tables: u64 = (0..LEVELS).map(|level| levels.bytes(level)).fold(0, u64::saturating_add);
    let share = tables as f64 / (tables as f64 + levels.value_bytes() as f64).max(1.0);
    let most = options.max_level1_bytes();
    let brought = (most as f64 * share) as u64;
    // A memtable of pointers brings more than the share of the tree.
    let largest = levels.level(0).iter().map(|table| table.meta.bytes).max().unwrap_or_default();
    let seen = largest.saturating_mul(options.level0_trigger as u64);
    let least = options.table_bytes.saturating_mul(LEAST_LEVEL1_TABLES);
    brought.max(seen).max(least).min(most)
}

/// Returns the target size of a level in bytes, where that of L1 is `base`.
///
/// The deepest level has that of its place, and overflows into the next. Those above it have at
/// most a tenth of the level below them each: what they hold hides about as much in the deepest
/// one, and a level of a fixed size could hide most of it. None has less than L1, or entries would
/// be merged in passing that could go further at once.
fn target_bytes(level: usize, levels: &Levels, base: u64) -> u64 {
    debug_assert!((1..LEVELS - 1).contains(&level), "L{level} has no target");
    let most = (1..level).fold(base, |bytes, _| bytes.saturating_mul(FAN_OUT));
    let deepest = levels.deepest().unwrap_or_default();
    if level >= deepest {
        return most;
    }
    let part = (level..deepest).fold(levels.bytes(deepest), |bytes, _| bytes / FAN_OUT);
    part.clamp(base, most)
}

/// Returns how urgent a compaction of each level is; it is due from 1.0 on.
pub fn scores(levels: &Levels, options: &KeyspaceOptions) -> [f64; LEVELS] {
    let mut scores = [0.0; LEVELS];
    scores[0] = level0::score(levels, options);
    let base = level1_bytes(levels, options);
    for (level, score) in scores.iter_mut().enumerate().take(LEVELS - 1).skip(1) {
        *score = levels.bytes(level) as f64 / target_bytes(level, levels, base) as f64;
    }
    scores
}

/// Returns in what order compactions of the levels with these scores are made; one is due from 1.0
/// on.
fn urgencies(scores: [f64; LEVELS]) -> [f64; LEVELS] {
    let mut urgencies = scores;
    if (1.0..PRESSING_LEVEL0).contains(&scores[0]) {
        (urgencies[0], urgencies[1]) = (1.0, DRAINED_LEVEL1 * scores[1]);
    }
    urgencies
}

/// Picks the most urgent job that does not conflict with running jobs.
pub fn pick(
    keyspace: KeyspaceId,
    levels: &Levels,
    options: &KeyspaceOptions,
    busy: &RunningCompactions,
    compaction_cursors: &CompactionCursors,
) -> Option<Pick> {
    let scores = scores(levels, options);
    debug_assert!(scores.iter().all(|score| *score >= 0.0), "a target is 0: {scores:?}");
    let urgencies = urgencies(scores);
    let mut due: Vec<usize> = (0..LEVELS - 1).filter(|&level| urgencies[level] >= 1.0).collect();
    due.sort_by(|&a, &b| urgencies[b].total_cmp(&urgencies[a]));
    due.into_iter().find_map(|level| match level {
        0 => level0::pick_part(keyspace, levels, options, busy),
        _ => pick_level(keyspace, levels, level, busy, compaction_cursors[level].as_deref()),
    })
}

pub(super) fn with_below(
    levels: &Levels,
    level: usize,
    inputs: Vec<Arc<TableHandle>>,
) -> Option<Pick> {
    assert!(level + 1 < LEVELS, "there is no level below L{level}");
    let (low, high) = span(levels.order(), inputs.iter())?;
    let below = levels.overlapping(level + 1, &low, &high).to_vec();
    Some(Pick { level, output_level: level + 1, inputs, below, merges_runs: false })
}

/// Picks one table of a level below L0 to go into the next level.
pub fn pick_table(levels: &Levels, level: usize, table: &Arc<TableHandle>) -> Option<Pick> {
    with_below(levels, level, vec![table.clone()])
}

/// Picks all of L0: its tables overlap, and an older one must not stay above a newer one.
pub fn pick_level0(
    keyspace: KeyspaceId,
    levels: &Levels,
    busy: &RunningCompactions,
) -> Option<Pick> {
    if busy.owns_level0(keyspace) {
        return None;
    }
    let pick = with_below(levels, 0, levels.level(0).to_vec())?;
    busy.is_free(keyspace, levels.order(), &pick).then_some(pick)
}

fn pick_level(
    keyspace: KeyspaceId,
    levels: &Levels,
    level: usize,
    busy: &RunningCompactions,
    turn: Option<&[u8]>,
) -> Option<Pick> {
    let tables = levels.level(level);
    let order = levels.order();
    debug_assert!(level > 0, "tables of L0 go down together");
    let start = turn.map_or(0, |turn| {
        tables.partition_point(|table| order.compare(bounds(table).0, turn).is_le())
    });
    let in_turn = (0..tables.len()).map(|step| &tables[(start + step) % tables.len()]);
    let picks = in_turn.filter_map(|table| pick_table(levels, level, table));
    let free = picks.filter(|pick| busy.is_free(keyspace, order, pick)).take(MOST_CANDIDATES);
    free.reduce(|best, other| if other.costs_less_than(&best) { other } else { best })
}

/// Picks, for a manual compaction, all tables of `level` that overlap the user keys from `low` to
/// `high` to go into the level below or, with `in_place`, into the same level.
pub fn pick_range(
    levels: &Levels,
    level: usize,
    range: (Option<&[u8]>, Option<&[u8]>),
    in_place: bool,
) -> Option<Pick> {
    let order = levels.order();
    let hit = |table: &&Arc<TableHandle>| {
        let (first, last) = bounds(table);
        range.0.is_none_or(|low| order.compare(last, low).is_ge())
            && range.1.is_none_or(|high| order.compare(first, high).is_le())
    };
    let mut inputs: Vec<_> = levels.level(level).iter().filter(hit).cloned().collect();
    if inputs.is_empty() {
        return None;
    }
    if level == 0 {
        // An older table of L0 must not stay above a newer one, so all of them are picked.
        inputs = levels.level(0).to_vec();
    }
    if in_place {
        return Some(Pick::in_place(level, inputs));
    }
    // Whoever asks for it has all entries rewritten, which is one job here, and one for each table
    // behind a move.
    Some(Pick { merges_runs: true, ..with_below(levels, level, inputs)? })
}

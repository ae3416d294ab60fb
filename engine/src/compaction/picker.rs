//! Which tables to compact next: a pure function of the levels, the settings and what is being
//! compacted already.
//!
//! Leveled: L0 scores by its number of tables, each deeper level by its bytes over its target;
//! the highest score from one on wins. A level's tables take turns, so that work spreads over
//! the keys. A job owns its tables and the user keys they span, in both of its levels, until it
//! is installed.

use crate::base::key::KeyOrder;
use crate::base::pointer::{KeyspaceId, TableId};
use crate::version::files::TableHandle;
use crate::version::levels::{LEVELS, Levels, bounds};
use crate::version::settings::KeyspaceOptions;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Each level is this many times larger than the one above.
pub const FAN_OUT: u64 = 10;

/// A job to do.
#[derive(Clone)]
pub struct Pick {
    /// Where the inputs are.
    pub level: usize,
    /// Where the outputs go: the level below, or the same one to drop what nobody sees.
    pub output_level: usize,
    /// The tables of `level`.
    pub inputs: Vec<Arc<TableHandle>>,
    /// The tables of `output_level` that overlap them.
    pub below: Vec<Arc<TableHandle>>,
}

impl Pick {
    /// Bytes of all inputs.
    pub fn bytes(&self) -> u64 {
        self.tables().map(|table| table.meta.bytes).sum()
    }

    /// Bytes of the separated values that the inputs name.
    pub fn value_bytes(&self) -> u64 {
        self.tables().map(value_bytes).fold(0, u64::saturating_add)
    }

    /// All input tables.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.inputs.iter().chain(&self.below)
    }

    /// True if the inputs can go down as they are: nothing to merge with, and no sense in
    /// rewriting. A table much larger than its level wants is split on this occasion.
    pub fn is_move(&self, table_bytes: u64) -> bool {
        self.below.is_empty()
            && self.output_level > self.level
            && self.inputs.len() == 1
            && self.inputs[0].meta.bytes <= 2 * table_bytes
    }

    fn span(&self, order: &KeyOrder) -> Option<(Vec<u8>, Vec<u8>)> {
        span(order, self.tables())
    }
}

/// Bytes of the separated values that `table` names.
pub fn value_bytes(table: &Arc<TableHandle>) -> u64 {
    let segments = table.meta.summary.segments.values();
    segments.map(|used| used.bytes).fold(0, u64::saturating_add)
}

/// The user keys that tables span together.
pub fn span<'a>(
    order: &KeyOrder,
    tables: impl Iterator<Item = &'a Arc<TableHandle>>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    tables.map(|table| bounds(table)).fold(None, |span, (low, high)| {
        let Some((first, last)) = span else {
            return Some((low.to_vec(), high.to_vec()));
        };
        let first = if order.compare(low, &first).is_lt() { low.to_vec() } else { first };
        let last = if order.compare(high, &last).is_gt() { high.to_vec() } else { last };
        Some((first, last))
    })
}

/// What a running job owns.
struct Claim {
    keyspace: KeyspaceId,
    levels: (usize, usize),
    span: (Vec<u8>, Vec<u8>),
}

/// The running jobs.
#[derive(Default)]
pub struct RunningCompactions {
    next: u64,
    claims: BTreeMap<u64, Claim>,
    tables: BTreeMap<TableId, ()>,
}

impl RunningCompactions {
    /// Marks a job as running; `None` if one that runs owns part of it.
    pub fn claim(&mut self, keyspace: KeyspaceId, order: &KeyOrder, pick: &Pick) -> Option<u64> {
        if !self.is_free(keyspace, order, pick) {
            return None;
        }
        let span = pick.span(order)?;
        self.tables.extend(pick.tables().map(|table| (table.meta.id, ())));
        self.next += 1;
        let levels = (pick.level, pick.output_level);
        self.claims.insert(self.next, Claim { keyspace, levels, span });
        Some(self.next)
    }

    /// The job is over.
    pub fn release(&mut self, claim: u64, pick: &Pick) {
        self.claims.remove(&claim);
        for table in pick.tables() {
            self.tables.remove(&table.meta.id);
        }
    }

    /// True if no running job is in the way of `pick`.
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

    /// True if a job works on L0 of this keyspace.
    fn owns_level0(&self, keyspace: KeyspaceId) -> bool {
        self.claims.values().any(|claim| claim.keyspace == keyspace && claim.levels.0 == 0)
    }
}

/// Where the next job of each level starts: behind the keys of the one before.
pub type CompactionCursors = [Option<Vec<u8>>; LEVELS];

/// How large a level may grow, in bytes.
pub fn target_bytes(level: usize, options: &KeyspaceOptions) -> u64 {
    (1..level).fold(options.level_base_bytes, |bytes, _| bytes.saturating_mul(FAN_OUT))
}

/// How urgent a compaction of each level is; from one on it is due.
pub fn scores(levels: &Levels, options: &KeyspaceOptions) -> [f64; LEVELS] {
    let mut scores = [0.0; LEVELS];
    scores[0] = levels.level(0).len() as f64 / options.level0_trigger as f64;
    for (level, score) in scores.iter_mut().enumerate().take(LEVELS - 1).skip(1) {
        *score = levels.bytes(level) as f64 / target_bytes(level, options) as f64;
    }
    scores
}

/// The most urgent job that can run beside those that do.
pub fn pick(
    keyspace: KeyspaceId,
    levels: &Levels,
    options: &KeyspaceOptions,
    busy: &RunningCompactions,
    compaction_cursors: &CompactionCursors,
) -> Option<Pick> {
    let scores = scores(levels, options);
    let mut due: Vec<usize> = (0..LEVELS - 1).filter(|&level| scores[level] >= 1.0).collect();
    due.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    due.into_iter().find_map(|level| match level {
        0 => pick_level0(keyspace, levels, busy),
        _ => pick_level(keyspace, levels, level, busy, compaction_cursors[level].as_deref()),
    })
}

fn with_below(levels: &Levels, level: usize, inputs: Vec<Arc<TableHandle>>) -> Option<Pick> {
    let (low, high) = span(levels.order(), inputs.iter())?;
    let below = levels.overlapping(level + 1, &low, &high);
    Some(Pick { level, output_level: level + 1, inputs, below })
}

/// One table of a level below L0, into the next level.
pub fn pick_table(levels: &Levels, level: usize, table: &Arc<TableHandle>) -> Option<Pick> {
    with_below(levels, level, vec![table.clone()])
}

/// All of L0: its tables overlap, and the older must not stay above the newer.
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
    let start = turn.map_or(0, |turn| {
        tables.partition_point(|table| order.compare(bounds(table).0, turn).is_le())
    });
    (0..tables.len()).find_map(|step| {
        let table = tables[(start + step) % tables.len()].clone();
        let pick = with_below(levels, level, vec![table])?;
        busy.is_free(keyspace, order, &pick).then_some(pick)
    })
}

/// For a manual compaction: everything of `level` that overlaps the user keys from `low` to
/// `high`, into the level below; or, with `in_place`, into the same level.
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
        // The older tables of L0 must not stay above the newer: all of them go.
        inputs = levels.level(0).to_vec();
    }
    if in_place {
        return Some(Pick { level, output_level: level, inputs, below: Vec::new() });
    }
    with_below(levels, level, inputs)
}

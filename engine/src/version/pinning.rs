//! The tree in memory (`Options::pin_tree`): which tables are pinned, and how one becomes so.
//!
//! Place in the data's way: the opening pins all tables, upper levels first, as far as they fit.
//! What jobs write later is pinned by a background job of its own (`background/pinning.rs`), one
//! table at a time, after the tables that it replaces were released. So the bound needs to be no
//! larger than the tree. A table keeps its pin while it moves down, and until its last reader is
//! gone.
//!
//! What a table takes in memory is known only when it was read: blocks are compressed on disk, and
//! keys in them share their beginnings. To read little for nothing, the loader learns from each
//! attempt: how large the tables of a keyspace are in memory for what is in them, and how much a
//! table needs that did not fit.

use super::Version;
use super::files::TableHandle;
use crate::base::error::Error;
use crate::base::pointer::KeyspaceId;
use crate::cache::TreeMemory;
use crate::env::sync::Mutex;
use crate::events::Event;
use crate::stats::Counter;
use crate::table::{Pinning, Table, TableMeta};
use crate::throttle::reads::IoPriority;
use crate::version::runtime::Runtime;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tables of a keyspace that may turn out too large, one after the other, before tables that
/// might just fit are no longer tried.
const PATIENCE: u32 = 3;

/// The bytes of memory that each table takes beside its entries.
const FIXED_BYTES: u64 = Table::FIXED_BYTES + 256;

/// What is known of a table's pin. It changes only while the table is being loaded.
#[derive(Default)]
pub(super) struct PinMark(AtomicU64);

impl PinMark {
    const PINNED: u64 = u64::MAX;
    const UNREADABLE: u64 = u64::MAX - 1;

    fn get(&self) -> PinProgress {
        match self.0.load(Ordering::Acquire) {
            0 => PinProgress::Untried,
            Self::PINNED => PinProgress::Pinned,
            Self::UNREADABLE => PinProgress::Unreadable,
            bytes => PinProgress::Needs(bytes),
        }
    }

    fn set(&self, state: PinProgress) {
        let number = match state {
            PinProgress::Untried => 0,
            PinProgress::Pinned => Self::PINNED,
            PinProgress::Unreadable => Self::UNREADABLE,
            PinProgress::Needs(bytes) => bytes.clamp(1, Self::UNREADABLE - 1),
        };
        self.0.store(number, Ordering::Release);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PinProgress {
    Untried,
    Pinned,
    /// It did not fit, and is tried again once there is this much room.
    Needs(u64),
    /// It could not be read, and is not tried again before the next opening.
    Unreadable,
}

/// What the loader has learned of the tables of a keyspace.
#[derive(Clone, Copy, Default)]
struct Growth {
    /// The bytes that tables took in memory when they were tried, without [`FIXED_BYTES`] of each,
    /// and the bytes of what is in them. Those of the last tables weigh more.
    memory: u64,
    content: u64,
    /// The number of tables that did not fit since one did.
    refusals: u32,
}

impl Growth {
    fn learn(&mut self, meta: &TableMeta, memory: u64) {
        let grown = |sum: u64, new: u64| (sum - sum / 8).saturating_add(new);
        self.memory = grown(self.memory, memory.saturating_sub(FIXED_BYTES));
        self.content = grown(self.content, content_bytes(meta));
    }

    /// Returns the bytes that a table will probably take.
    fn expected(&self, meta: &TableMeta) -> u64 {
        let content = content_bytes(meta);
        let grown = match self.content {
            0 => u128::from(content),
            learned => u128::from(content) * u128::from(self.memory) / u128::from(learned),
        };
        u64::try_from(grown).unwrap_or(u64::MAX).saturating_add(FIXED_BYTES)
    }

    /// Returns the room that is required before a table is tried for the first time.
    fn required(&self, meta: &TableMeta) -> u64 {
        let expected = self.expected(meta);
        if self.refusals >= PATIENCE {
            return expected.saturating_add(expected / 32);
        }
        // Keys that share much of their beginnings take less than half of their bytes.
        let slack = if self.content == 0 { expected / 2 } else { expected / 32 };
        expected - slack
    }
}

/// Returns the bytes of a table's entries, as they would lie in blocks if no two keys shared their
/// beginning.
fn content_bytes(meta: &TableMeta) -> u64 {
    let summary = &meta.summary;
    let bytes = summary.key_bytes.saturating_add(summary.payload_bytes);
    bytes.saturating_add(12 * summary.entries)
}

/// The pinned tables of a database, and what was learned of the others.
pub struct PinnedTree {
    memory: Arc<TreeMemory>,
    growth: Mutex<BTreeMap<KeyspaceId, Growth>>,
    refused: Counter,
}

/// A table that may be pinned.
#[derive(Clone)]
pub struct TableToPin {
    keyspace: KeyspaceId,
    level: usize,
    /// The table.
    pub handle: Arc<TableHandle>,
}

/// How much of a version is pinned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PinnedTreeStats {
    /// The bytes of memory that pinned tables take, those included that left the tree and are still
    /// read.
    pub bytes: u64,
    /// The bytes that they may take; 0 if nothing is ever pinned.
    pub bound: u64,
    /// The tables of the version that are pinned.
    pub pinned: u64,
    /// Those that are not, because they do not fit or were not loaded yet.
    pub left_out: u64,
    /// Those that could not be read.
    pub unreadable: u64,
    /// About how many bytes more the bound had to be for those left out.
    pub missing_bytes: u64,
    /// The attempts that were given up because a table did not fit.
    pub refused: u64,
}

impl PinnedTree {
    /// Makes a tree of which nothing is pinned, and at most `bound` bytes ever are.
    pub fn new(bound: u64) -> Self {
        PinnedTree {
            memory: Arc::new(TreeMemory::new(bound)),
            growth: Mutex::default(),
            refused: Counter::default(),
        }
    }

    /// Returns true if nothing is ever pinned.
    pub fn is_off(&self) -> bool {
        self.memory.is_off()
    }

    /// Returns the table to be pinned next: of those that are not, and that probably fit, one of
    /// the highest level.
    pub fn pick(&self, version: &Version) -> Option<TableToPin> {
        if self.is_off() {
            return None;
        }
        let (growth, room) = (self.growth.lock(), self.memory.room());
        let is_wanted =
            |table: &TableToPin| !table.handle.is_obsolete() && is_wanted(table, &growth, room);
        all_tables(version).filter(is_wanted).min_by_key(|table| table.level)
    }

    /// Pins all tables that fit, upper levels first. Called by the opening, before anybody reads.
    pub fn load(&self, runtime: &Runtime) {
        if self.is_off() {
            return;
        }
        let (version, begun) = (runtime.set.current(), runtime.env.clock.now());
        let mut tables: Vec<TableToPin> = all_tables(&version).collect();
        tables.sort_by_key(|table| table.level);
        // I7: the numbers are from files.
        let lengths = tables.iter().map(|table| table.handle.meta.bytes);
        let all_bytes = lengths.fold(0, u64::saturating_add);
        let (mut done_bytes, mut reported) = (0, 0);
        for table in &tables {
            let fits = is_wanted(table, &self.growth.lock(), self.memory.room());
            if fits {
                self.pin(runtime, table, |_| true);
            }
            done_bytes = u64::saturating_add(done_bytes, table.handle.meta.bytes);
            // A sixteenth of the tree at a time, so that listeners are not flooded.
            let sixteenths = u128::from(done_bytes) * 16 / u128::from(all_bytes.max(1));
            if sixteenths > reported {
                reported = sixteenths;
                let pinned_bytes = self.memory.used();
                let progress = Event::TreeLoading { done_bytes, all_bytes, pinned_bytes };
                runtime.emit(progress);
            }
        }
        // What was passed over early may fit by what was learned later. A read-only database has no
        // job that would look again.
        while let Some(table) = self.pick(&version) {
            self.pin(runtime, &table, |_| true);
        }
        let PinnedTreeStats { bytes, pinned, left_out, missing_bytes, .. } = self.stats(&version);
        let took = runtime.env.clock.since(begun);
        runtime.emit(Event::TreeLoaded { tables: pinned, bytes, left_out, missing_bytes, took });
    }

    /// Pins a table if it fits, in the background: it shares the budget of background I/O, and ends
    /// when the database closes, or when the table has left the tree.
    pub fn pin_beside_others(&self, runtime: &Runtime, table: &TableToPin) {
        self.pin(runtime, table, |bytes| {
            runtime.budget.spend(IoPriority::Compaction, bytes);
            !runtime.is_closing() && !table.handle.is_obsolete()
        });
    }

    /// Pins a table if it fits. A table that cannot be read stays as it is: readers get the error
    /// when they need the block, and only then.
    fn pin(&self, runtime: &Runtime, table: &TableToPin, go_on: impl FnMut(u64) -> bool) {
        let handle = &table.handle;
        debug_assert!(handle.pin_mark.get() != PinProgress::Pinned, "a table is pinned once");
        let opened = handle.open();
        match opened.and_then(|opened| opened.pin(self.memory.charge(), go_on)) {
            Ok(Pinning::Pinned(pinned, bytes)) => {
                self.learn(table, bytes, true);
                handle.hold(*pinned);
                handle.pin_mark.set(PinProgress::Pinned);
            }
            Ok(Pinning::TooLarge { expected, most }) => {
                self.refused.add(1);
                self.learn(table, expected, false);
                // Room must have come, and what is known now must fit, before it is read again.
                let required = expected.max(most.saturating_add(expected / 8));
                handle.pin_mark.set(PinProgress::Needs(required));
            }
            Ok(Pinning::Stopped) => {}
            Err(error) => {
                handle.pin_mark.set(PinProgress::Unreadable);
                report_unreadable(runtime, handle, error);
            }
        }
    }

    fn learn(&self, table: &TableToPin, memory: u64, fits: bool) {
        let mut growth = self.growth.lock();
        let growth = growth.entry(table.keyspace).or_default();
        growth.learn(&table.handle.meta, memory);
        growth.refusals = if fits { 0 } else { growth.refusals.saturating_add(1) };
    }

    /// Forgets what was learned of a keyspace that was dropped.
    pub fn forget(&self, keyspace: KeyspaceId) {
        self.growth.lock().remove(&keyspace);
    }

    /// Returns how much of `version` is pinned.
    pub fn stats(&self, version: &Version) -> PinnedTreeStats {
        if self.is_off() {
            return PinnedTreeStats::default();
        }
        let memory = &self.memory;
        let growth = self.growth.lock();
        let mut stats = PinnedTreeStats {
            bytes: memory.used(),
            bound: memory.bound(),
            refused: self.refused.get(),
            ..PinnedTreeStats::default()
        };
        let mut needed = 0_u64;
        for TableToPin { keyspace, handle, .. } in all_tables(version) {
            match handle.pin_mark.get() {
                PinProgress::Pinned => stats.pinned += 1,
                PinProgress::Unreadable => stats.unreadable += 1,
                PinProgress::Needs(bytes) => {
                    stats.left_out += 1;
                    needed = needed.saturating_add(bytes);
                }
                PinProgress::Untried => {
                    stats.left_out += 1;
                    let growth = growth.get(&keyspace).copied().unwrap_or_default();
                    needed = needed.saturating_add(growth.expected(&handle.meta));
                }
            }
        }
        stats.missing_bytes = needed.saturating_sub(stats.bound - stats.bytes);
        stats
    }
}

fn report_unreadable(runtime: &Runtime, handle: &TableHandle, error: Error) {
    let table = handle.path().to_path_buf();
    runtime.emit(Event::TableNotPinned { table, error });
}

/// Returns true if a table is not pinned, and probably fits into `room`.
fn is_wanted(table: &TableToPin, growth: &BTreeMap<KeyspaceId, Growth>, room: u64) -> bool {
    match table.handle.pin_mark.get() {
        PinProgress::Pinned | PinProgress::Unreadable => false,
        PinProgress::Needs(bytes) => bytes <= room,
        PinProgress::Untried => {
            let growth = growth.get(&table.keyspace).copied().unwrap_or_default();
            growth.required(&table.handle.meta) <= room
        }
    }
}

/// Returns all tables of a version, by keyspace, of each upper levels first.
fn all_tables(version: &Version) -> impl Iterator<Item = TableToPin> {
    version.keyspaces.iter().flat_map(|(&keyspace, state)| {
        let tables = state.levels.tables();
        tables.map(move |(level, handle)| TableToPin { keyspace, level, handle: handle.clone() })
    })
}

//! A view for those who walk entries and read no values, as a liveness scan does. It keeps
//! memtables, tables and relocations, but no segment: what value GC frees meanwhile can be unlinked
//! (I5).

use crate::base::pointer::SegmentId;
use crate::version::Version;
use crate::version::files::TableHandle;
use crate::version::levels::Levels;
use crate::version::resolve::Places;
use crate::version::view::{LoggedMemtable, View};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The entries of a keyspace, and where their records are.
pub struct EntriesView {
    view: View,
    places: Places,
    /// Those that were there.
    segments: BTreeSet<SegmentId>,
}

impl EntriesView {
    /// Those of `view`.
    pub fn of(view: &View) -> EntriesView {
        EntriesView::with(view, view.levels.clone(), view.memtables())
    }

    /// Those of the tables in `view` that reference one of these segments, and of the memtables
    /// that lead there: a view from before a flush has no table for what it flushed.
    pub fn referencing(view: &View, segments: &BTreeSet<SegmentId>) -> EntriesView {
        let is_wanted = |table: &TableHandle| {
            table.meta.summary.segments.keys().any(|segment| segments.contains(segment))
        };
        let leads_there = |memtable: &&Arc<LoggedMemtable>| {
            memtable.pins().iter().any(|segment| segments.contains(segment))
        };
        let levels = Arc::new(view.levels.filtered(is_wanted));
        EntriesView::with(view, levels, view.memtables().filter(leads_there))
    }

    fn with<'a>(
        view: &View,
        levels: Arc<Levels>,
        memtables: impl Iterator<Item = &'a Arc<LoggedMemtable>>,
    ) -> EntriesView {
        let version = Version { segments: Arc::default(), ..(*view.version).clone() };
        let named = view.version.segments.keys().copied();
        let pinned = view.memtables().flat_map(|memtable| memtable.pins());
        EntriesView {
            places: Places::of(&view.version),
            segments: named.chain(pinned).collect(),
            view: View {
                keyspace: view.keyspace,
                version: Arc::new(version),
                active: Arc::new(LoggedMemtable::new(levels.order().clone())),
                immutables: memtables.map(|memtable| Arc::new(memtable.unpinned())).collect(),
                levels,
            },
        }
    }

    /// What iterators are made of. Pointers are not resolved by it.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Where records are, as far as relocations and holes tell.
    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// True if this segment was there when the view was taken: in the version, or kept by one of
    /// its memtables. Those pin a segment before they lead there, so of what was visible then
    /// nothing leads elsewhere.
    pub(super) fn holds(&self, segment: SegmentId) -> bool {
        self.segments.contains(&segment)
    }
}

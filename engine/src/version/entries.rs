//! A view for those who walk entries and read no values, as a census does. It keeps memtables,
//! tables and relocations, but no segment: what value GC frees meanwhile can be unlinked (I5).

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
        let unpinned = |memtable: &Arc<LoggedMemtable>| Arc::new(memtable.unpinned());
        let immutables = view.immutables.iter().map(unpinned).collect();
        EntriesView::with(view, view.levels.clone(), unpinned(&view.active), immutables)
    }

    /// Those of the tables in `view` that reference one of these segments, and of the memtables
    /// that lead there: a view from before a flush has no table for what it flushed.
    pub fn referencing(view: &View, segments: &BTreeSet<SegmentId>) -> EntriesView {
        let is_wanted = |table: &TableHandle| {
            table.meta.summary.segments.keys().any(|segment| segments.contains(segment))
        };
        let levels = Arc::new(view.levels.filtered(is_wanted));
        let leads_there = |memtable: &&Arc<LoggedMemtable>| {
            memtable.pins().iter().any(|segment| segments.contains(segment))
        };
        let memtables = view.memtables().filter(leads_there);
        let memtables = memtables.map(|memtable| Arc::new(memtable.unpinned())).collect();
        let nothing = Arc::new(LoggedMemtable::new(view.levels.order().clone()));
        EntriesView::with(view, levels, nothing, memtables)
    }

    fn with(
        view: &View,
        levels: Arc<Levels>,
        active: Arc<LoggedMemtable>,
        immutables: Vec<Arc<LoggedMemtable>>,
    ) -> EntriesView {
        let version = Version { segments: Arc::default(), ..(*view.version).clone() };
        EntriesView {
            places: Places::of(&view.version),
            segments: view
                .version
                .segments
                .keys()
                .copied()
                .chain(view.memtables().flat_map(|memtable| memtable.pins()))
                .collect(),
            view: View {
                keyspace: view.keyspace,
                version: Arc::new(version),
                levels,
                active,
                immutables,
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

//! A view for jobs that walk entries and read no values, such as a liveness scan. It keeps
//! memtables, tables and relocations, but no segment: segments that value GC frees meanwhile can be
//! unlinked (I5).

use crate::base::pointer::SegmentId;
use crate::version::Version;
use crate::version::files::TableHandle;
use crate::version::levels::Levels;
use crate::version::resolve::Places;
use crate::version::view::{LoggedMemtable, View};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The entries of a keyspace, and the places of their records.
pub struct EntriesView {
    view: View,
    places: Places,
    /// The segments that existed when the view was taken.
    segments: BTreeSet<SegmentId>,
}

impl EntriesView {
    /// Returns the entries of `view`.
    pub fn of(view: &View) -> EntriesView {
        EntriesView::with(view, view.levels.clone(), view.memtables())
    }

    /// Returns the entries of those tables in `view` that reference one of `segments`, and of the
    /// memtables that point into one. Memtables are included because a view from before a flush has
    /// no table for what it flushed.
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
                version: Arc::new(version),
                active: Arc::new(LoggedMemtable::new(levels.order().clone())),
                immutables: memtables.map(|memtable| Arc::new(memtable.unpinned())).collect(),
                levels,
                shown: 0,
                ..view.clone()
            },
        }
    }

    /// Returns the view that iterators are made of. It must not be used to resolve pointers.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the places of records according to relocations and holes.
    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// Returns true if this segment existed when the view was taken: in the version, or pinned by
    /// one of its memtables. A memtable pins a segment before it points there, so no entry visible
    /// at that time points to any other segment.
    pub(super) fn holds(&self, segment: SegmentId) -> bool {
        self.segments.contains(&segment)
    }
}

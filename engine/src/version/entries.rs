//! A view for those who walk entries and read no values, as a census does. It keeps memtables,
//! tables and relocations, but no segment: what value GC frees meanwhile can be unlinked (I5).

use crate::base::pointer::SegmentId;
use crate::version::Version;
use crate::version::resolve::Places;
use crate::version::view::View;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The entries of a keyspace, and where their records are.
pub struct EntriesView {
    view: View,
    places: Places,
    segments: BTreeSet<SegmentId>,
}

impl EntriesView {
    /// Those of `view`.
    pub fn of(view: &View) -> EntriesView {
        let version = Version { segments: Arc::default(), ..(*view.version).clone() };
        EntriesView {
            places: Places::of(&view.version),
            segments: view.version.segments.keys().copied().collect(),
            view: View {
                keyspace: view.keyspace,
                version: Arc::new(version),
                levels: view.levels.clone(),
                active: view.active.clone(),
                immutables: view.immutables.clone(),
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

    /// True if this segment was there when the view was taken, or a memtable of it leads there.
    pub(super) fn holds(&self, segment: SegmentId) -> bool {
        let is_pinned = || self.view.memtables().any(|memtable| memtable.pinned(segment).is_some());
        self.segments.contains(&segment) || is_pinned()
    }
}

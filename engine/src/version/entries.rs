//! A view for those who walk entries and read no values, as a census does. It keeps memtables,
//! tables and relocations, but no segment: what value GC frees meanwhile can be unlinked (I5).

use crate::base::error::Result;
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::version::Version;
use crate::version::resolve::{Places, unknown};
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

    /// The direct pointer to the record of `pointer`, an entry of this view; `None` if the record
    /// was given up as garbage. One that leads nowhere is corruption (I3).
    pub fn place(&self, pointer: ValuePointer) -> Result<Option<ValuePointer>> {
        let Some(place) = self.places.place(pointer)? else {
            return Ok(None);
        };
        let is_pinned = || self.view.memtables().any(|it| it.pinned(place.segment).is_some());
        if self.segments.contains(&place.segment) || is_pinned() {
            return Ok(Some(place));
        }
        Err(unknown(place))
    }
}

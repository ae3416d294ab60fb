//! Pins of the log: consumers of the change feed keep the log segments from one on, for as long as
//! the process lives.
//!
//! A pinned segment may leave the version like any other: when it is dead, moved, or folded. Its
//! file then stays until the last pin lets go of it (I5), so nothing that frees segments has to
//! know of pins to be correct. Value GC knows of them all the same, because moving what is live in
//! a pinned segment would free nothing. Only punching destroys bytes in place, so it asks here
//! first.
//!
//! Lock: a leaf, held for a few lines.

use crate::base::pointer::SegmentId;
use crate::env::sync::Mutex;
use crate::segment::SegmentKind;
use crate::version::pins::Pin;
use crate::version::{LiveSegment, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pins of a log, and the pinned segments that no version names any more.
#[derive(Default)]
pub struct LogPins {
    state: Mutex<LogPinState>,
}

#[derive(Default)]
struct LogPinState {
    /// The first segment that each pin keeps, by the id of the pin.
    floors: BTreeMap<u64, SegmentId>,
    /// Segments that left the version.
    kept: BTreeMap<SegmentId, LiveSegment>,
    is_closed: bool,
}

impl LogPinState {
    fn floor(&self) -> Option<SegmentId> {
        self.floors.values().min().copied()
    }

    fn keep(&mut self, version: &Version, segments: impl Iterator<Item = SegmentId>) {
        for id in segments {
            if let Some(live) = version.segments.get(&id)
                && live.handle.segment.kind() == SegmentKind::Log
            {
                self.kept.insert(id, live.clone());
            }
        }
    }

    /// Takes out what no pin keeps any more; the caller drops it outside of the lock.
    fn take_free(&mut self) -> BTreeMap<SegmentId, LiveSegment> {
        let Some(floor) = self.floor() else {
            return std::mem::take(&mut self.kept);
        };
        let rest = self.kept.split_off(&floor);
        std::mem::replace(&mut self.kept, rest)
    }
}

impl LogPins {
    /// Keeps every log segment of the current version, and all that come, until the pin is moved or
    /// dropped. `pin` is its entry in the registry of holders.
    pub fn register(self: &Arc<Self>, pin: Arc<Pin>) -> LogPin {
        if let Some(id) = pin.id() {
            let before = self.state.lock().floors.insert(id, SegmentId(0));
            assert!(before.is_none(), "pin {id} keeps the log already");
        }
        LogPin { pin, pins: self.clone() }
    }

    /// Returns the first segment of the log that is kept for a consumer; `None` if none is.
    pub fn floor(&self) -> Option<SegmentId> {
        self.state.lock().floor()
    }

    /// Returns true if this segment, a part of the log, is kept for a consumer.
    pub fn is_kept(&self, segment: SegmentId) -> bool {
        self.floor().is_some_and(|floor| floor <= segment)
    }

    /// Takes over the segments that an edit is about to remove from `version` and that are pinned.
    /// `publish` gives readers the next version meanwhile, so that a segment that is missing there
    /// is found here, and a pin that is registered later finds no older version.
    pub(super) fn take_over(
        &self,
        version: &Version,
        removed: impl Iterator<Item = SegmentId>,
        publish: impl FnOnce(),
    ) {
        let mut state = self.state.lock();
        if let Some(floor) = state.floor().filter(|_| !state.is_closed) {
            state.keep(version, removed.filter(|id| *id >= floor));
        }
        publish();
    }

    /// Returns the segments from `from` on that are kept and that the version read before this call
    /// does not have, by id.
    pub fn kept_from(&self, from: SegmentId) -> BTreeMap<SegmentId, LiveSegment> {
        let state = self.state.lock();
        state.kept.range(from..).map(|(id, live)| (*id, live.clone())).collect()
    }

    /// Returns true if the pin with this id keeps a segment that left the version.
    pub fn is_kept_by(&self, pin: u64, segment: SegmentId) -> bool {
        let state = self.state.lock();
        state.kept.contains_key(&segment) && state.floors.get(&pin).is_some_and(|it| *it <= segment)
    }

    /// Lets go of everything, as the database closes.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let free = std::mem::take(&mut state.kept);
        drop(state);
        drop(free);
    }
}

/// A pin of the log; dropping it ends it.
pub struct LogPin {
    pin: Arc<Pin>,
    pins: Arc<LogPins>,
}

impl LogPin {
    /// Lets go of the segments before `segment`.
    pub fn move_to(&self, segment: SegmentId) {
        let Some(id) = self.pin.id() else { return };
        let mut state = self.pins.state.lock();
        let floor = state.floors.get_mut(&id).expect("a pin is registered until it is dropped");
        // I5: what was let go of may be gone already.
        *floor = segment.max(*floor);
        let free = state.take_free();
        drop(state);
        drop(free);
    }
}

impl Drop for LogPin {
    fn drop(&mut self) {
        let Some(id) = self.pin.id() else { return };
        let mut state = self.pins.state.lock();
        state.floors.remove(&id);
        let free = state.take_free();
        drop(state);
        drop(free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::pointer::KeyspaceId;
    use crate::cache::memory_fs::MemoryFs;
    use crate::version::files::{SegmentHandle, TableContext, TableLimits};
    use crate::version::pins::{PinKind, PinOwner, Pins};
    use std::time::Duration;

    fn context() -> TableContext {
        TableContext::new(Arc::new(MemoryFs::default()), "db".into(), 7, TableLimits::TESTS)
    }

    fn version(context: &TableContext, log: &[u64], sorted: &[u64]) -> Version {
        let live = |id: u64, kind| {
            let handle = Arc::new(SegmentHandle::open(SegmentId(id), kind, 1, context));
            (SegmentId(id), LiveSegment { handle, sealed: Some(100), holes: Arc::default() })
        };
        let log = log.iter().map(|&id| live(id, SegmentKind::Log));
        let sorted = sorted.iter().map(|&id| live(id, SegmentKind::Sorted));
        Version { segments: Arc::new(log.chain(sorted).collect()), ..Version::default() }
    }

    fn pin(pins: &Arc<Pins>) -> Arc<Pin> {
        let (kind, keyspace) = (PinKind::Changes, None::<KeyspaceId>);
        Arc::new(pins.register(PinOwner { kind, keyspace, seqno: 0, since: Duration::ZERO }, None))
    }

    /// Removes all segments of a version, as an edit does.
    fn remove(log: &LogPins, version: Version) {
        log.take_over(&version, version.segments.keys().copied(), || ());
        version.segments.values().for_each(|live| live.handle.mark_obsolete());
    }

    #[test]
    fn i05_a_pinned_segment_stays_until_its_last_pin_has_passed_it() {
        let (context, pins, log) =
            (context(), Arc::new(Pins::default()), Arc::new(LogPins::default()));
        let (first, second) = (log.register(pin(&pins)), log.register(pin(&pins)));
        first.move_to(SegmentId(2));
        second.move_to(SegmentId(3));
        assert!(!log.is_kept(SegmentId(1)) && log.is_kept(SegmentId(2)));
        remove(&log, version(&context, &[1, 2, 3, 5], &[4]));
        let kept = || log.kept_from(SegmentId(0)).into_keys().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!(kept(), [2, 3, 5], "neither what is behind all pins nor sorted segments");
        assert_eq!(context.purge.unread().len(), 2);
        first.move_to(SegmentId(5));
        assert_eq!(kept(), [3, 5]);
        drop(second);
        assert_eq!(kept(), [5]);
        first.move_to(SegmentId(1));
        assert!(!log.is_kept(SegmentId(4)), "a pin never goes back");
        drop(first);
        assert_eq!((kept(), context.purge.unread().len()), (vec![], 5));
    }

    #[test]
    fn closing_lets_go_of_all() {
        let (context, pins, log) =
            (context(), Arc::new(Pins::default()), Arc::new(LogPins::default()));
        let kept = log.register(pin(&pins));
        remove(&log, version(&context, &[1], &[]));
        log.close();
        remove(&log, version(&context, &[2], &[]));
        assert_eq!(context.purge.unread().len(), 2);
        drop(kept);
    }
}

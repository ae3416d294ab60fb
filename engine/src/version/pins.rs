//! Who holds on to the past: every open cursor, range iterator and snapshot, by name and age, so
//! that space that can't come back yet can be put down to somebody.
//!
//! Two things are held. A snapshot holds *versions of keys*: compaction and GC keep what it sees.
//! A cursor holds *files*: those of the [`Version`] it walks stay, live or not, until it goes
//! (I5). This registry only remembers; what stays is decided by [`super::snapshots`] and by the
//! handles themselves. Hence it keeps weak references: it never holds anything itself.
//!
//! Locks: one, a leaf, held to insert, note or take out an entry: once or twice in the life of a
//! cursor, never for a step of it.

use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::env::sync::Mutex;
use crate::version::Version;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What somebody holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinKind {
    /// A snapshot of the whole database.
    Snapshot,
    /// A cursor over one keyspace.
    Cursor,
    /// A range iterator over one keyspace, with the snapshot and the cursors it is made of.
    Iterator,
}

/// Who holds something, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinOwner {
    /// What it is.
    pub kind: PinKind,
    /// What it walks; `None` for a snapshot, which sees all keyspaces.
    pub keyspace: Option<KeyspaceId>,
    /// It sees everything at or below.
    pub seqno: SeqNo,
    /// When it was made, by the clock of the environment.
    pub since: Duration,
}

/// One who holds on, as [`Pins::holders`] lists it.
pub struct Holder {
    /// Who.
    pub owner: PinOwner,
    /// The versions whose files it keeps.
    pub versions: Vec<Arc<Version>>,
}

struct HeldVersions {
    owner: PinOwner,
    versions: Vec<Weak<Version>>,
}

/// Everybody who holds on to the past of a database.
#[derive(Default)]
pub struct Pins {
    state: Mutex<PinState>,
}

#[derive(Default)]
struct PinState {
    next: u64,
    held: BTreeMap<u64, HeldVersions>,
}

impl Pins {
    /// Notes that `owner` exists and keeps the files of `version`, until the pin is dropped.
    pub fn register(self: &Arc<Self>, owner: PinOwner, version: Option<&Arc<Version>>) -> Pin {
        let versions = version.map(Arc::downgrade).into_iter().collect();
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        state.held.insert(id, HeldVersions { owner, versions });
        drop(state);
        Pin { id, pins: self.clone() }
    }

    /// Everybody, the oldest first.
    pub fn holders(&self) -> Vec<Holder> {
        let holder = |held: &HeldVersions| Holder {
            owner: held.owner,
            versions: held.versions.iter().filter_map(Weak::upgrade).collect(),
        };
        // In the order of ids, so that the sort keeps those of one moment in theirs.
        let mut all: Vec<Holder> = self.state.lock().held.values().map(holder).collect();
        all.sort_by_key(|holder| holder.owner.since);
        all
    }
}

/// One entry of the registry; dropping it takes it out.
pub struct Pin {
    id: u64,
    pins: Arc<Pins>,
}

impl Pin {
    /// Notes that its owner keeps the files of `version`, too.
    pub fn keeps(&self, version: &Arc<Version>) {
        let mut state = self.pins.state.lock();
        let held = state.held.get_mut(&self.id).expect("a pin is registered until it is dropped");
        let version = Arc::downgrade(version);
        if !held.versions.iter().any(|known| known.ptr_eq(&version)) {
            held.versions.push(version);
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // Taken out under the lock, dropped outside of it: the lock stays a leaf.
        let _held = self.pins.state.lock().held.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(kind: PinKind, seconds: u64) -> PinOwner {
        let since = Duration::from_secs(seconds);
        PinOwner { kind, keyspace: Some(KeyspaceId(7)), seqno: seconds, since }
    }

    fn kinds(pins: &Pins) -> Vec<PinKind> {
        pins.holders().iter().map(|holder| holder.owner.kind).collect()
    }

    #[test]
    fn the_oldest_comes_first_and_leaves_when_dropped() {
        let pins = Arc::new(Pins::default());
        let young = pins.register(owner(PinKind::Cursor, 9), None);
        let old = pins.register(owner(PinKind::Snapshot, 3), None);
        let same = pins.register(owner(PinKind::Iterator, 9), None);
        use PinKind::{Cursor, Iterator, Snapshot};
        assert_eq!(kinds(&pins), [Snapshot, Cursor, Iterator]);
        drop(old);
        assert_eq!(kinds(&pins), [Cursor, Iterator]);
        drop((young, same));
        assert_eq!(kinds(&pins), []);
    }

    #[test]
    fn i05_the_registry_itself_holds_no_version() {
        let pins = Arc::new(Pins::default());
        let (first, second) = (Arc::new(Version::default()), Arc::new(Version::default()));
        let pin = pins.register(owner(PinKind::Iterator, 1), Some(&first));
        assert_eq!(pins.holders()[0].versions.len(), 1);
        pin.keeps(&first);
        pin.keeps(&second);
        assert_eq!(pins.holders()[0].versions.len(), 2);
        assert_eq!(Arc::strong_count(&first), 1);
        drop(first);
        let left = pins.holders().remove(0).versions;
        assert!(left.len() == 1 && Arc::ptr_eq(&left[0], &second));
    }
}

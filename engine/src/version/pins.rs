//! A registry of open cursors, range iterators and snapshots, by kind and age, so that space that
//! cannot be freed yet can be attributed to a holder.
//!
//! A snapshot keeps *versions of keys*: compaction and GC retain what it sees. A cursor keeps
//! *files*: those of the [`Version`] it walks stay, live or not, until the cursor is dropped (I5).
//! The registry only records holders; [`super::snapshots`] and the file handles decide what stays.
//! It therefore has weak references and never keeps a version itself.
//!
//! Locks: one, a leaf, held to insert, update or remove an entry: once or twice in the life of a
//! cursor, never for a step of it.

use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::env::fork::Process;
use crate::env::sync::Mutex;
use crate::version::Version;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The kind of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinKind {
    /// A snapshot of the whole database.
    Snapshot,
    /// A transaction, with the snapshot that it reads.
    Transaction,
    /// A cursor over one keyspace.
    Cursor,
    /// A range iterator over one keyspace, with the snapshot and the cursors it is made of.
    Iterator,
    /// A consumer of the change feed, or a pin of the log for one.
    Changes,
}

/// The description of a holder and the time when it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinOwner {
    /// The kind of the holder.
    pub kind: PinKind,
    /// The keyspace that is read; `None` for a snapshot, which sees all keyspaces.
    pub keyspace: Option<KeyspaceId>,
    /// The holder sees every entry at or below this sequence number.
    pub seqno: SeqNo,
    /// The time of creation, by the clock of the environment.
    pub since: Duration,
}

/// One holder with the versions it keeps, as [`Pins::holders`] lists it.
pub struct Holder {
    /// The id of its pin.
    pub id: u64,
    /// The description of the holder.
    pub owner: PinOwner,
    /// The versions whose files the holder keeps.
    pub versions: Vec<Arc<Version>>,
}

struct HeldVersions {
    owner: PinOwner,
    versions: Vec<Weak<Version>>,
}

/// The registry of all holders of a database.
#[derive(Default)]
pub struct Pins {
    state: Mutex<PinState>,
    process: Process,
}

#[derive(Default)]
struct PinState {
    next: u64,
    held: BTreeMap<u64, HeldVersions>,
}

impl Pins {
    /// Registers `owner` as a holder of the files of `version`, until the returned pin is dropped.
    pub fn register(self: &Arc<Self>, owner: PinOwner, version: Option<&Arc<Version>>) -> Pin {
        if self.process.is_gone() {
            // A thread that a child does not have may hold the lock for ever.
            return Pin { id: u64::MAX, pins: self.clone() };
        }
        let versions = version.map(Arc::downgrade).into_iter().collect();
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let before = state.held.insert(id, HeldVersions { owner, versions });
        assert!(before.is_none(), "pin {id} is held already");
        drop(state);
        Pin { id, pins: self.clone() }
    }

    /// Returns all holders, the oldest first.
    pub fn holders(&self) -> Vec<Holder> {
        let holder = |(&id, held): (&u64, &HeldVersions)| Holder {
            id,
            owner: held.owner,
            versions: held.versions.iter().filter_map(Weak::upgrade).collect(),
        };
        // Collected in the order of ids, so that the stable sort keeps holders of equal age in that
        // order.
        let mut all: Vec<Holder> = self.state.lock().held.iter().map(holder).collect();
        all.sort_by_key(|holder| holder.owner.since);
        all
    }
}

/// One entry of the registry; dropping it removes the entry.
pub struct Pin {
    id: u64,
    pins: Arc<Pins>,
}

impl Pin {
    /// Returns the id of the pin, or `None` in a child of its process, where nothing is pinned.
    pub fn id(&self) -> Option<u64> {
        (!self.pins.process.is_gone()).then_some(self.id)
    }

    /// Records that the pin's owner has come to this sequence number.
    pub fn move_to(&self, seqno: SeqNo) {
        if self.pins.process.is_gone() {
            return;
        }
        let mut state = self.pins.state.lock();
        let held = state.held.get_mut(&self.id).expect("a pin is registered until it is dropped");
        held.owner.seqno = seqno;
    }

    /// Records that the pin's owner also keeps the files of `version`.
    pub fn keeps(&self, version: &Arc<Version>) {
        if self.pins.process.is_gone() {
            return;
        }
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
        if self.pins.process.is_gone() {
            return;
        }
        // The entry is removed under the lock and dropped outside of it, so that the lock stays a
        // leaf.
        let held = self.pins.state.lock().held.remove(&self.id);
        debug_assert!(held.is_some(), "a pin is registered until it is dropped");
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

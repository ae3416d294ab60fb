//! What a conditional commit relies on: that nobody wrote what it has read. A transaction, or a
//! compare-and-set, reads at one moment and commits at a later one. If nothing that it read was
//! written in between, then it is as if all of it happened at the moment of the commit, so commits
//! are serializable in the order of the log (Kung, Robinson 1981: backward validation).

use crate::base::bounds::Bounds;
use crate::base::error::{Error, Result};
use crate::base::key::{KeyOrder, SeqNo};
use crate::base::pointer::KeyspaceId;
use crate::commit::batch::CommitFrame;
use crate::commit::read_until::ReadUntil;
use crate::commit::recent::RecentKeys;
use crate::env::planted::{Planted, PlantedFault};
use crate::read::changed::{ChangeSearch, memtables_have};
use crate::version::snapshots::Snapshots;
use crate::version::view::KeyspaceState;
use rustc_hash::FxHashSet;
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

/// At most this many keys are searched for in the memtables under the lock of the log; each takes
/// about a microsecond.
const MAX_MEMTABLE_SEARCHES: usize = 64;

/// The keys that were read in one keyspace.
enum ReadKeys<'a> {
    /// A single one, which needs no set.
    One(Cow<'a, [u8]>),
    Many(FxHashSet<Box<[u8]>>),
}

impl ReadKeys<'_> {
    fn len(&self) -> usize {
        match self {
            ReadKeys::One(_) => 1,
            ReadKeys::Many(keys) => keys.len(),
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        match self {
            ReadKeys::One(one) => **one == *key,
            ReadKeys::Many(keys) => keys.contains(key),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (one, many) = match self {
            ReadKeys::One(one) => (Some(&**one), None),
            ReadKeys::Many(keys) => (None, Some(keys)),
        };
        one.into_iter().chain(many.into_iter().flatten().map(|key| &**key))
    }

    fn add(&mut self, key: &[u8]) {
        if let ReadKeys::One(one) = self {
            *self = ReadKeys::Many(FxHashSet::from_iter([Box::from(&**one)]));
        }
        if let ReadKeys::Many(keys) = self {
            keys.insert(key.into());
        }
    }
}

/// What was read in one keyspace.
pub struct KeyspaceReads<'a> {
    keyspace: Cow<'a, Arc<KeyspaceState>>,
    keys: ReadKeys<'a>,
    /// Disjoint, in the keyspace's order.
    ranges: Vec<Bounds>,
}

impl<'a> KeyspaceReads<'a> {
    /// Collects what was read in `keyspace`, in any order.
    pub fn new(
        keyspace: Arc<KeyspaceState>,
        keys: FxHashSet<Box<[u8]>>,
        ranges: Vec<Bounds>,
    ) -> Self {
        let ranges = disjoint(ranges, &keyspace.order);
        KeyspaceReads { keyspace: Cow::Owned(keyspace), keys: ReadKeys::Many(keys), ranges }
    }

    /// Makes what stands for the read of one key.
    pub fn of_key(keyspace: &'a Arc<KeyspaceState>, key: &'a [u8]) -> Self {
        let (keyspace, keys) = (Cow::Borrowed(keyspace), ReadKeys::One(key.into()));
        KeyspaceReads { keyspace, keys, ranges: Vec::new() }
    }

    /// Returns a copy that borrows nothing.
    pub fn owned(&self) -> KeyspaceReads<'static> {
        let keys = match &self.keys {
            ReadKeys::One(one) => ReadKeys::One(Cow::Owned(one.to_vec())),
            ReadKeys::Many(keys) => ReadKeys::Many(keys.clone()),
        };
        let keyspace = Cow::Owned(Arc::clone(&self.keyspace));
        KeyspaceReads { keyspace, keys, ranges: self.ranges.clone() }
    }

    /// Adds the read of a key.
    pub fn add_key(&mut self, key: &[u8]) {
        self.keys.add(key);
    }

    /// Returns the id of the keyspace that was read.
    pub fn keyspace(&self) -> KeyspaceId {
        self.keyspace.id
    }

    /// Searches the memtables for a key that was read and written after `since`. Returns
    /// [`ConditionCheck::Unknown`] if something that was written since may be in a table already,
    /// or if the search would take long.
    fn check_memtables(&self, since: SeqNo, planted: Planted) -> ConditionCheck {
        let view = self.keyspace.peek();
        let flushed = view.version.keyspace(self.keyspace.id).map(|keyspace| keyspace.flushed);
        // I6: a version that names a flushed table and a view without its memtables are published
        // at one moment, so an entry that is in no memtable of this view is not after `flushed`,
        // or was ingested.
        let ingested = match planted.is(PlantedFault::IngestForgotten) {
            true => 0,
            false => view.levels.ingested(),
        };
        let flushed = flushed.map(|flushed| flushed.max(ingested));
        let may_be_in_table = flushed.is_none_or(|flushed| flushed > since);
        if may_be_in_table && !planted.is(PlantedFault::TablesForgotten) {
            return ConditionCheck::Unknown;
        }
        let mut written = view.memtables().filter(|memtable| memtable.last_seqno() > since);
        if written.next().is_none() {
            return ConditionCheck::Hold;
        }
        if !self.ranges.is_empty() || self.keys.len() > MAX_MEMTABLE_SEARCHES {
            return ConditionCheck::Unknown;
        }
        match self.keys.iter().find(|key| memtables_have(&view, key, since)) {
            Some(key) => ConditionCheck::Written(self.written(key)),
            None => ConditionCheck::Hold,
        }
    }

    fn written(&self, key: &[u8]) -> ChangedKey {
        let keyspace = self.keyspace.name.clone();
        ChangedKey { keyspace, key: key.into(), has_expired: false }
    }

    fn touches(&self, key: &[u8]) -> bool {
        self.keys.contains(key) || contains(&self.ranges, &self.keyspace.order, key)
    }
}

/// All that a commit has read.
pub enum ReadParts<'a> {
    /// One key, which is not copied unless the commit has to wait.
    Key(KeyspaceReads<'a>),
    /// Any number of keys and ranges.
    Shared(Arc<[KeyspaceReads<'static>]>),
}

impl<'a> Deref for ReadParts<'a> {
    type Target = [KeyspaceReads<'a>];

    fn deref(&self) -> &[KeyspaceReads<'a>] {
        match self {
            ReadParts::Key(reads) => std::slice::from_ref(reads),
            ReadParts::Shared(reads) => reads,
        }
    }
}

/// What a commit relies on: what was read, and when.
pub struct Conditions<'a> {
    /// Nothing that was read may have been written after this sequence number.
    pub since: SeqNo,
    /// What was read; a keyspace may come several times.
    pub reads: ReadParts<'a>,
    /// The value that expires first of those that were read, if any of them does. It must not have
    /// expired at the commit.
    pub until: Option<ReadUntil>,
}

/// The answer to whether the conditions of a commit hold.
pub enum ConditionCheck {
    /// Nothing that was read was written since.
    Hold,
    /// This key was written, in the keyspace of that name.
    Written(ChangedKey),
    /// The keys that were written since are not all in memory.
    Unknown,
}

/// A key that was read, and is not as it was: somebody else wrote it, or its value has expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedKey {
    /// The name of the keyspace.
    pub keyspace: String,
    /// The key.
    pub key: Box<[u8]>,
    /// True if its value has expired, false if it was written.
    pub has_expired: bool,
}

impl ChangedKey {
    /// Returns the error for a transaction that read the key.
    pub fn error(&self) -> Error {
        let change = match self.has_expired {
            false => "was written since the transaction read it",
            true => "has expired since the transaction read it",
        };
        Error::conflict(&self.keyspace, &self.key, change).advise("run the transaction again")
    }
}

impl Conditions<'_> {
    /// Returns a copy that borrows nothing, for a commit that has to wait.
    pub fn owned(&self) -> Conditions<'static> {
        let reads = match &self.reads {
            ReadParts::Key(reads) => ReadParts::Key(reads.owned()),
            ReadParts::Shared(reads) => ReadParts::Shared(reads.clone()),
        };
        Conditions { since: self.since, reads, until: self.until.clone() }
    }

    /// Checks the conditions under the lock of the log: against the keys of the last commits, or,
    /// if these do not reach back far enough, in the memtables and in `group`. These are the frames
    /// before this commit in its group, which are in no memtable yet. Costs no I/O.
    pub fn check(
        &self,
        recent: &RecentKeys,
        group: &[CommitFrame<'_>],
        planted: Planted,
    ) -> ConditionCheck {
        match self.check_recent(recent) {
            ConditionCheck::Unknown => match self.check_memtables(planted) {
                ConditionCheck::Hold if planted.is(PlantedFault::GroupForgotten) => {
                    ConditionCheck::Hold
                }
                ConditionCheck::Hold => self.check_group(group),
                found => found,
            },
            known => known,
        }
    }

    /// Returns the key with the name of its keyspace if it was read.
    fn touched(&self, id: KeyspaceId, key: &[u8]) -> Option<ChangedKey> {
        let mut reads = self.reads.iter().filter(|reads| reads.keyspace.id == id);
        reads.find(|reads| reads.touches(key)).map(|reads| reads.written(key))
    }

    /// Returns a key, or the beginning of a range, that was read and lies in a range that is
    /// deleted.
    fn touched_by(&self, id: KeyspaceId, range: &Bounds) -> Option<ChangedKey> {
        let mut reads = self.reads.iter().filter(|reads| reads.keyspace.id == id);
        reads.find_map(|reads| {
            let order = &reads.keyspace.order;
            if let Some(key) = reads.keys.iter().find(|key| range.contains(order, key)) {
                return Some(reads.written(key));
            }
            let read = reads.ranges.iter().find(|read| read.overlaps(range, order))?;
            Some(reads.written(read.lower.as_deref().unwrap_or_default()))
        })
    }

    fn check_recent(&self, recent: &RecentKeys) -> ConditionCheck {
        let Some(mut written) = recent.after(self.since) else {
            return ConditionCheck::Unknown;
        };
        let found = written.find_map(|(id, key)| self.touched(id, key));
        found.map_or(ConditionCheck::Hold, ConditionCheck::Written)
    }

    /// Looks through all records of the group, which the recent keys do not hold if they are very
    /// many. That takes a small part of the time that the leader needs for these records anyway.
    fn check_group(&self, group: &[CommitFrame<'_>]) -> ConditionCheck {
        let records = group.iter().flat_map(|frame| frame.records.iter().zip(frame.targets));
        let found = records.into_iter().find_map(|(record, target)| match target.range {
            Some(range) => self.touched_by(record.keyspace, range),
            None => self.touched(record.keyspace, record.key),
        });
        found.map_or(ConditionCheck::Hold, ConditionCheck::Written)
    }

    fn check_memtables(&self, planted: Planted) -> ConditionCheck {
        let mut unknown = false;
        for reads in &*self.reads {
            match reads.check_memtables(self.since, planted) {
                ConditionCheck::Hold => {}
                ConditionCheck::Unknown => unknown = true,
                written => return written,
            }
        }
        if unknown { ConditionCheck::Unknown } else { ConditionCheck::Hold }
    }

    /// Checks the conditions in the tree, and moves `since` to the moment of the check. Requires: a
    /// snapshot at the first `since` lives.
    ///
    /// Costs a search for each key that was read, and a walk over each range, in the memtables and
    /// tables that were written since. No lock is held.
    pub fn check_tree(&mut self, snapshots: &Snapshots) -> Result<Option<ChangedKey>> {
        // I6: the number is read first. A view that is taken later has all up to it.
        let visible = snapshots.visible();
        for reads in &*self.reads {
            let view = reads.keyspace.view();
            reads.keyspace.check()?;
            let search = ChangeSearch::new(view, self.since);
            for key in reads.keys.iter() {
                if search.has_key(key)? {
                    return Ok(Some(reads.written(key)));
                }
            }
            for range in &reads.ranges {
                if let Some(key) = search.first_key(range)? {
                    return Ok(Some(reads.written(&key)));
                }
            }
        }
        self.since = visible;
        Ok(None)
    }

    /// Forgets all ranges, for a planted fault.
    pub fn forget_ranges(&mut self) {
        if let ReadParts::Shared(reads) = &mut self.reads {
            let reads = Arc::get_mut(reads).into_iter().flatten();
            reads.for_each(|reads| reads.ranges.clear());
        }
    }

    /// Returns an error if a keyspace that was read was dropped.
    pub fn check_keyspaces(&self) -> Result<()> {
        self.reads.iter().try_for_each(|reads| reads.keyspace.check())
    }
}

/// Returns true if one of `ranges`, which are disjoint and in order, holds `key`.
fn contains(ranges: &[Bounds], order: &KeyOrder, key: &[u8]) -> bool {
    let begun = ranges.partition_point(|range| !range.is_before(order, key));
    begun > 0 && !ranges[begun - 1].is_behind(order, key)
}

/// Returns ranges that hold the same keys, disjoint and in order.
fn disjoint(mut ranges: Vec<Bounds>, order: &KeyOrder) -> Vec<Bounds> {
    order.sort(&mut ranges, |a, b| a.begin().compare(b.begin(), order));
    let mut merged: Vec<Bounds> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            // It begins before the end of the last one, or right there.
            Some(last) if range.begin().compare(last.end(), order).is_le() => {
                if range.end().compare(last.end(), order).is_gt() {
                    (last.upper, last.closed_upper) = (range.upper, range.closed_upper);
                }
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sets of up to three ranges with ends from `b` to `d`, open, closed or absent, hold the
    /// same keys before and after they are made disjoint.
    #[test]
    fn disjoint_ranges_hold_what_the_ranges_held() {
        let order = KeyOrder::Bytewise;
        let mut all = Vec::new();
        for lower in ["(-", "(b-", "[b-", "(c-", "[c-"] {
            for upper in [")", "b]", "c)", "c]", "d)", "d]"] {
                all.push(Bounds::parse(&format!("{lower}{upper}")));
            }
        }
        let keys = ["a", "b", "bb", "c", "cc", "d", "e"];
        let holds = |range: &Bounds, key: &str| range.contains(&order, key.as_bytes());
        for (a, b, c) in (0..all.len().pow(3)).map(|number| {
            let count = all.len();
            (&all[number % count], &all[number / count % count], &all[number / count / count])
        }) {
            let ranges = vec![a.clone(), b.clone(), c.clone()];
            let merged = disjoint(ranges.clone(), &order);
            for key in keys {
                let expected = ranges.iter().any(|range| holds(range, key));
                let found = contains(&merged, &order, key.as_bytes());
                assert_eq!(found, expected, "{key} in {ranges:?}, made {merged:?}");
            }
        }
    }

    #[test]
    fn keys_and_ranges_that_were_read_are_found() {
        let keyspace = |id: u64, name: &str| {
            let options = crate::version::settings::KeyspaceOptions::default();
            let (order, version) = (KeyOrder::Bytewise, Arc::default());
            Arc::new(KeyspaceState::new(KeyspaceId(id), name.into(), order, options, None, version))
        };
        let keys = |keys: &[&str]| keys.iter().map(|key| Box::from(key.as_bytes())).collect();
        let reads = [
            KeyspaceReads::new(keyspace(1, "one"), keys(&["x", "k"]), Vec::new()),
            KeyspaceReads::new(keyspace(2, "two"), keys(&[]), vec![Bounds::parse("(c-d]")]),
        ];
        let conditions =
            Conditions { since: 10, reads: ReadParts::Shared(reads.into()), until: None };
        let mut recent = RecentKeys::starting_after(9);
        let mut written = |seqno, id, key: &str| {
            recent.note(seqno, KeyspaceId(id), key.as_bytes());
            match conditions.check_recent(&recent) {
                ConditionCheck::Hold => "hold".to_owned(),
                ConditionCheck::Written(key) => key.error().message().to_owned(),
                ConditionCheck::Unknown => "unknown".to_owned(),
            }
        };
        assert_eq!(written(10, 1, "k"), "hold", "it was there when it was read");
        assert_eq!(written(11, 1, "d"), "hold");
        assert_eq!(written(12, 2, "k"), "hold");
        assert_eq!(written(13, 2, "c"), "hold");
        assert_eq!(written(14, 3, "d"), "hold");
        let since = "was written since the transaction read it";
        assert_eq!(written(15, 2, "d"), format!("the key \"d\" in keyspace \"two\" {since}"));
        recent.take_back(14);
        recent.note(15, KeyspaceId(1), b"x");
        let ConditionCheck::Written(written) = conditions.check_recent(&recent) else {
            panic!("`x` was read and written");
        };
        assert_eq!(&*written.key, b"x");
        recent.skip_to(16);
        assert!(matches!(conditions.check_recent(&recent), ConditionCheck::Unknown));
    }
}

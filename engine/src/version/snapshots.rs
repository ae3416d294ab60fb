//! Pinned sequence numbers. Compaction keeps every entry that a live snapshot can see.

use crate::base::expiry::ExpiryTime;
use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::env::fork::Process;
use crate::env::sync::Mutex;
use crate::version::expiry::ExpiryClock;
use crate::version::filtered::KeptViews;
use crate::version::pins::{Pin, PinKind, PinOwner, Pins};
use crate::version::view::{KeyspaceState, View};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The live snapshots of a database, and the newest visible sequence number.
pub struct Snapshots {
    /// Every entry at or below this sequence number is visible. Only the commit leader writes it.
    visible: AtomicU64,
    live: Mutex<BTreeMap<SeqNo, SnapshotGroup>>,
    /// The number of installations of what compaction filters changed. It grows under the lock of
    /// `live`.
    installations: AtomicU64,
    kept_views: KeptViews,
    process: Process,
    /// The registry of holders of snapshots and files, by kind and age.
    pub pins: Arc<Pins>,
    /// The clock by which entries expire.
    pub expiry: ExpiryClock,
}

/// The sequence numbers that readers can see, at the beginning of a job.
#[derive(Debug, Clone, Default)]
pub struct SeenSeqnos {
    /// Those of live snapshots, ascending.
    pub snapshots: Vec<SeqNo>,
    /// Every reader without a snapshot, and every snapshot taken from now on, sees all entries up
    /// to this one.
    pub visible: SeqNo,
    /// The time of each of `snapshots`, at which it judges deadlines; they ascend, too.
    pub times: Vec<ExpiryTime>,
    /// Every other reader judges deadlines at this time or later.
    pub now: ExpiryTime,
}

impl SeenSeqnos {
    /// Returns the earliest time at which a reader judges an entry of this stratum: that of the
    /// oldest snapshot that sees it. What has expired by then has expired for all who see it.
    pub fn time_of(&self, stratum: usize) -> ExpiryTime {
        self.times.get(stratum).copied().unwrap_or(self.now)
    }
}

/// Returns the number of the stratum of `seqno`: `snapshots`, in ascending order, divide the order
/// of commits into strata. I6: of two entries of a key the newer one hides the older from all
/// readers exactly if both are in one stratum.
#[inline]
pub fn stratum(snapshots: &[SeqNo], seqno: SeqNo) -> usize {
    snapshots.partition_point(|&snapshot| snapshot < seqno)
}

/// Returns the number up to which the oldest reader of a stratum sees: that of the snapshot above
/// it, and at most `visible`, which is the number of other readers. I6: a range tombstone hides an
/// entry of the stratum from all of them if it is newer than that and not after this number.
#[inline]
pub fn oldest_reader(snapshots: &[SeqNo], stratum: usize, visible: SeqNo) -> SeqNo {
    snapshots.get(stratum).map_or(visible, |snapshot| visible.min(*snapshot))
}

/// Returns true if one of `snapshots`, in ascending order, sees what was written at `older`,
/// because it does not see `newer`. An entry hides none that is newer, so the answer is then false.
pub fn is_seen(snapshots: &[SeqNo], older: SeqNo, newer: SeqNo) -> bool {
    stratum(snapshots, older) < stratum(snapshots, newer)
}

/// The snapshots that share one sequence number.
#[derive(Default)]
struct SnapshotGroup {
    /// Those that were taken together; mostly there are no others, and then a scan allocates
    /// nothing for its snapshot.
    first: Option<(TakenAt, usize)>,
    /// How many of the others were taken when.
    others: BTreeMap<TakenAt, usize>,
}

/// The time at which a snapshot judges deadlines, the time when it was taken, and the number of
/// installations of filtered entries before it.
type TakenAt = (ExpiryTime, Duration, u64);

impl SnapshotGroup {
    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    fn count(&self) -> usize {
        self.first.map_or(0, |(_, count)| count) + self.others.values().sum::<usize>()
    }

    /// Returns the earliest time at which one of them judges deadlines.
    fn time(&self) -> ExpiryTime {
        let first = self.first.map(|((time, ..), _)| time);
        let other = self.others.keys().next().map(|(time, ..)| *time);
        first.into_iter().chain(other).min().expect("a group is never empty")
    }

    /// Returns the time when the oldest was taken.
    fn oldest(&self) -> Option<Duration> {
        let first = self.first.map(|((_, taken, _), _)| taken);
        first.into_iter().chain(self.others.keys().map(|(_, taken, _)| *taken)).min()
    }

    /// Returns the number of installations before the first of them.
    fn installations(&self) -> u64 {
        let first = self.first.map(|((.., before), _)| before);
        let others = self.others.keys().map(|(.., before)| *before);
        first.into_iter().chain(others).min().expect("a group is never empty")
    }

    fn add(&mut self, at: TakenAt) {
        match &mut self.first {
            Some((first, count)) if *first == at => *count += 1,
            Some(_) => *self.others.entry(at).or_default() += 1,
            none => *none = Some((at, 1)),
        }
    }

    fn remove(&mut self, at: TakenAt) {
        // Equal ones may be in both, after the first was removed and another one came.
        if let Some((first, count)) = &mut self.first
            && *first == at
        {
            *count -= 1;
            if *count == 0 {
                self.first = None;
            }
        } else if let Entry::Occupied(mut entry) = self.others.entry(at) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

impl Snapshots {
    /// Creates an empty list, before any commit.
    pub fn new(expiry: ExpiryClock) -> Self {
        Snapshots {
            visible: AtomicU64::new(0),
            live: Mutex::default(),
            installations: AtomicU64::new(0),
            kept_views: KeptViews::default(),
            process: Process::default(),
            pins: Arc::default(),
            expiry,
        }
    }

    /// Returns the newest sequence number that reads may see.
    pub fn visible(&self) -> SeqNo {
        self.visible.load(Ordering::Acquire)
    }

    /// Returns the visible sequence number and the time at one moment. A number that was read
    /// before the time might be older than that: a value that was replaced by a newer one in time
    /// would seem to have expired.
    pub fn instant(&self) -> (SeqNo, ExpiryTime) {
        let mut seqno = self.visible();
        loop {
            let time = self.expiry.now();
            let after = self.visible();
            if after == seqno {
                return (seqno, time);
            }
            seqno = after;
        }
    }

    /// Makes every entry up to `seqno` visible at once (I1); the memtables must hold them already.
    pub fn publish(&self, seqno: SeqNo) {
        debug_assert!(seqno >= self.visible(), "I6: what was visible stays visible");
        self.visible.store(seqno, Ordering::Release);
    }

    /// Pins the visible sequence number. `now` is kept to report the snapshot's age.
    ///
    /// The number is read under the lock, so that a job that lists the snapshots either sees this
    /// one or started from a state that this one includes.
    pub fn take(self: &Arc<Self>, now: Duration) -> SnapshotPin {
        self.take_for(PinKind::Snapshot, None, now)
    }

    /// Does as [`Snapshots::take`] for a holder of another kind, over one keyspace or all. In a
    /// child of this process, where nobody reads, nothing is pinned.
    pub fn take_for(
        self: &Arc<Self>,
        kind: PinKind,
        keyspace: Option<KeyspaceId>,
        now: Duration,
    ) -> SnapshotPin {
        let (seqno, time, installations) = if self.process.is_gone() {
            let (seqno, time) = self.instant();
            (seqno, time, u64::MAX)
        } else {
            let mut live = self.live.lock();
            // I6: the time is read under the lock, as the number is, so that times ascend with
            // numbers, and a job that does not list this snapshot has read an earlier time.
            let (seqno, time) = self.instant();
            let installations = self.installations.load(Ordering::Relaxed);
            live.entry(seqno).or_default().add((time, now, installations));
            (seqno, time, installations)
        };
        let pin = self.pins.register(PinOwner { kind, keyspace, seqno, since: now }, None);
        SnapshotPin { seqno, time, taken: now, installations, pin, snapshots: self.clone() }
    }

    /// Returns what readers can see, for a job that drops what none of them does.
    pub fn seen(&self) -> SeenSeqnos {
        // I6: the number is read first. A snapshot that is missing in the list was taken later, so
        // it sees all up to that number.
        let visible = self.visible();
        let live = self.live.lock();
        let snapshots = live.keys().copied().collect();
        let times: Vec<ExpiryTime> = live.values().map(SnapshotGroup::time).collect();
        debug_assert!(times.is_sorted(), "I6: a later snapshot judges deadlines later");
        SeenSeqnos { snapshots, visible, times, now: self.expiry.now() }
    }

    /// Publishes a view of `keyspace` in which a compaction has changed entries from `oldest` on,
    /// which are all newer than the snapshots that lived when it began. `publish` makes the view
    /// current whose installation has the number that it is given.
    ///
    /// I6: no snapshot is taken meanwhile. Those that live and see a changed entry read the view
    /// from before; those that are taken later never see that.
    pub fn publish_filtered(
        &self,
        keyspace: &KeyspaceState,
        oldest: SeqNo,
        publish: impl FnOnce(u64),
    ) {
        let live = self.live.lock();
        let number = self.installations.load(Ordering::Relaxed) + 1;
        if live.range(oldest..).next().is_some() {
            self.kept_views.keep(keyspace.id, number, oldest, keyspace.view());
        }
        publish(number);
        self.installations.store(number, Ordering::Relaxed);
    }

    /// Publishes views of `keyspaces` that another process has made, together with the number up to
    /// which they have everything. `publish` makes the view of one current.
    ///
    /// I6: that process knows nothing of snapshots here, so each of those that live goes on with
    /// the views from before; those that are taken later see the number that belongs to the views.
    pub fn publish_followed<'a>(
        &self,
        keyspaces: impl Iterator<Item = &'a Arc<KeyspaceState>>,
        seqno: SeqNo,
        mut publish: impl FnMut(&KeyspaceState, u64),
    ) {
        let live = self.live.lock();
        let mut number = self.installations.load(Ordering::Relaxed);
        for keyspace in keyspaces {
            number += 1;
            if !live.is_empty() {
                self.kept_views.keep(keyspace.id, number, 0, keyspace.view());
            }
            publish(keyspace, number);
        }
        self.installations.store(number, Ordering::Relaxed);
        self.visible.store(seqno, Ordering::Release);
    }

    /// Forgets the kept views that no live snapshot needs, and returns them.
    fn forget_views(&self, live: &BTreeMap<SeqNo, SnapshotGroup>) -> Option<impl Sized + use<>> {
        if self.kept_views.is_empty() {
            return None;
        }
        let left = live.iter().map(|(seqno, group)| (*seqno, group.installations()));
        Some(self.kept_views.retain(&left.collect::<Vec<_>>()))
    }

    /// Returns the pinned sequence numbers in ascending order.
    pub fn list(&self) -> Vec<SeqNo> {
        self.live.lock().keys().copied().collect()
    }

    /// Returns the number of live snapshots, and the time when the oldest was taken, if there is
    /// one.
    pub fn summary(&self) -> (usize, Option<Duration>) {
        let live = self.live.lock();
        let count = live.values().map(SnapshotGroup::count).sum();
        (count, live.values().filter_map(SnapshotGroup::oldest).min())
    }
}

/// One pinned sequence number; dropping it removes the pin.
pub struct SnapshotPin {
    /// The snapshot sees every entry at or below this sequence number.
    pub seqno: SeqNo,
    /// The time at which it judges deadlines.
    pub time: ExpiryTime,
    /// The time when it was taken, by the clock of the environment.
    pub taken: Duration,
    /// The number of installations of filtered entries before it.
    installations: u64,
    /// Its entry in the registry of holders.
    pub pin: Pin,
    snapshots: Arc<Snapshots>,
}

impl SnapshotPin {
    /// Returns the view to read instead of the current one, `view`, if a compaction has changed
    /// since what this snapshot sees. Costs nothing else than a comparison if none has changed
    /// anything in the keyspace.
    #[inline]
    pub fn view_before(&self, view: &View) -> Option<Arc<View>> {
        if view.installation <= self.installations {
            return None;
        }
        self.snapshots.kept_views.of(view.keyspace, self.seqno, self.installations)
    }
}

impl Drop for SnapshotPin {
    fn drop(&mut self) {
        if self.snapshots.process.is_gone() {
            return;
        }
        let mut live = self.snapshots.live.lock();
        debug_assert!(live.contains_key(&self.seqno), "a snapshot is listed until it is dropped");
        if let Some(group) = live.get_mut(&self.seqno) {
            group.remove((self.time, self.taken, self.installations));
            if group.is_empty() {
                live.remove(&self.seqno);
            }
        }
        let unused = self.snapshots.forget_views(&live);
        drop(live);
        // This may drop the last reference to files, so no lock is held.
        drop(unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_go_in_any_order() {
        let (env, _) = crate::env::Env::simulated(1);
        let snapshots = Arc::new(Snapshots::new(ExpiryClock::new(env.clock)));
        snapshots.publish(5);
        let a = snapshots.take(Duration::from_secs(1));
        let b = snapshots.take(Duration::from_secs(2));
        snapshots.publish(9);
        let c = snapshots.take(Duration::from_secs(3));
        assert_eq!(snapshots.list(), [5, 9]);
        drop(a);
        assert_eq!(snapshots.list(), [5, 9]);
        assert_eq!(snapshots.summary().0, 2);
        drop(c);
        assert_eq!(snapshots.list(), [5]);
        drop(b);
        assert_eq!(snapshots.list(), [0u64; 0]);
    }

    /// A poller that always holds a snapshot, the next before it drops the last, holds nothing
    /// back: the group's time was that of its first snapshot for ever.
    #[test]
    fn i06_a_group_judges_by_the_earliest_time_that_is_left() {
        let (env, simulation) = crate::env::Env::simulated(1);
        let snapshots = Arc::new(Snapshots::new(ExpiryClock::new(env.clock)));
        snapshots.publish(5);
        let mut last = snapshots.take(Duration::from_secs(1));
        for round in 2..10 {
            simulation.advance(Duration::from_secs(1));
            let next = snapshots.take(Duration::from_secs(round));
            assert_eq!(snapshots.seen().times, [last.time]);
            last = next;
            assert_eq!(snapshots.seen().times, [last.time]);
            assert_eq!(snapshots.summary(), (1, Some(Duration::from_secs(round))));
        }
    }
}

//! Views from before a compaction whose filter dropped or changed something, kept for the snapshots
//! that were taken while it ran (I6: what a snapshot sees never changes).
//!
//! A compaction lets its filter change only what none of the snapshots sees that live when it
//! begins. One that is taken later sees it, and may have read it before the compaction is
//! installed. So the view that the compaction replaces is kept until the last such snapshot is
//! gone, and they read it instead of a newer one. Such a snapshot holds files and memtables, as a
//! cursor does.

use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::version::view::View;
use arc_swap::ArcSwap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The view of a keyspace that an installation has replaced.
#[derive(Clone)]
struct KeptView {
    keyspace: KeyspaceId,
    /// The number of the installation.
    installation: u64,
    /// The least sequence number of what was changed: snapshots from there on are concerned.
    oldest: SeqNo,
    view: Arc<View>,
}

/// The kept views, in the order of installations. They are changed under the lock of the list of
/// snapshots only, and read without any.
#[derive(Default)]
pub(super) struct KeptViews(ArcSwap<Vec<KeptView>>);

impl KeptViews {
    /// Keeps the view of `keyspace` that installation number `installation` replaces, which changed
    /// entries from `oldest` on.
    pub(super) fn keep(
        &self,
        keyspace: KeyspaceId,
        installation: u64,
        oldest: SeqNo,
        view: Arc<View>,
    ) {
        let mut kept = self.0.load().to_vec();
        debug_assert!(kept.last().is_none_or(|last| last.installation < installation));
        kept.push(KeptView { keyspace, installation, oldest, view });
        self.0.store(Arc::new(kept));
    }

    /// Returns the view that a snapshot reads which was taken at `seqno`, after the installation
    /// `installation`; `None` if that is the current one.
    pub(super) fn of(
        &self,
        keyspace: KeyspaceId,
        seqno: SeqNo,
        installation: u64,
    ) -> Option<Arc<View>> {
        let kept = self.0.load();
        let concerns = |it: &&KeptView| {
            it.keyspace == keyspace && it.installation > installation && it.oldest <= seqno
        };
        kept.iter().find(concerns).map(|it| it.view.clone())
    }

    /// Returns true if no view is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }

    /// Forgets the views that none of these snapshots reads, given by sequence number and last
    /// installation. Returns the old list, to be dropped without a lock.
    pub(super) fn retain(&self, snapshots: &[(SeqNo, u64)]) -> impl Sized + use<> {
        let kept = self.0.load_full();
        let mut read = BTreeSet::new();
        for (seqno, last) in snapshots {
            // Of each keyspace, the first that concerns it.
            let mut keyspaces = BTreeSet::new();
            let concerned = kept.iter().filter(|it| *last < it.installation && it.oldest <= *seqno);
            let first = concerned.filter(|it| keyspaces.insert(it.keyspace));
            read.extend(first.map(|it| it.installation));
        }
        if read.len() < kept.len() {
            let left = kept.iter().filter(|it| read.contains(&it.installation));
            self.0.store(Arc::new(left.cloned().collect()));
        }
        kept
    }
}

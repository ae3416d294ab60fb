//! Faults that a test plants in the engine, to see that its checks find them. Only a build for the
//! simulation can have one; in all others [`Planted::is`] is constantly false.

/// A fault in how conditional commits are checked, how an ingest is committed, or how the log is
/// synced and replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedFault {
    /// Ranges that a transaction has walked are forgotten.
    RangesForgotten,
    /// The snapshot of a transaction counts as taken at its commit.
    SnapshotLate,
    /// The memtables are asked although what was written since may be in a table.
    TablesForgotten,
    /// Recent keys that were not noted count as not written.
    SkippedForgotten,
    /// Nothing is compared with the commits before in the same group.
    GroupForgotten,
    /// What was read counts as there although it has expired.
    ExpiryForgotten,
    /// The check of conditional commits forgets what was ingested.
    IngestForgotten,
    /// The log is not synced before the edit of an ingest.
    IngestUnsynced,
    /// The active segment of the log is synced before those that were sealed earlier.
    SealedForgotten,
    /// A sealed segment counts as synced although its sync has failed.
    SealedSyncSwallowed,
    /// Replay goes on behind a segment that is not whole.
    TornPassed,
    /// Replay takes any damage for what was not synced.
    DamageTorn,
}

/// The fault that was planted, if any.
#[derive(Debug, Clone, Copy, Default)]
pub struct Planted(#[cfg(feature = "sim")] Option<PlantedFault>);

impl Planted {
    /// Plants a fault.
    #[cfg(feature = "sim")]
    pub fn fault(fault: PlantedFault) -> Planted {
        Planted(Some(fault))
    }

    /// Returns true if this fault was planted.
    #[inline]
    pub fn is(self, fault: PlantedFault) -> bool {
        #[cfg(feature = "sim")]
        return self.0 == Some(fault);
        #[cfg(not(feature = "sim"))]
        {
            let _ = fault;
            false
        }
    }
}

//! Lists the ranges of keys in which scans found values strewn.

use crate::db::keyspace::Keyspace;
use crate::read::demand::DemandRange;
use std::fmt;

/// What the disorder of values has cost the scans of a range of keys lately; see
/// [`Keyspace::scan_costs`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanCost {
    /// The first user key; the range goes up to the next one's. The first range begins with the
    /// least key, which is empty.
    pub low: Vec<u8>,
    /// What the reads cost that ordered values would have saved: the bytes that a device moves in
    /// about that time. What a job was paid with that put values in order is taken off.
    pub cost_bytes: u64,
    /// The bytes of values that were put in order.
    pub ordered_bytes: u64,
}

impl fmt::Debug for ScanCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys are data, so they are not shown.
        f.debug_struct("ScanCost")
            .field("cost_bytes", &self.cost_bytes)
            .field("ordered_bytes", &self.ordered_bytes)
            .finish_non_exhaustive()
    }
}

impl Keyspace {
    /// Returns the ranges of keys, in their order, in which scans found values strewn, or in which
    /// values were put in order because of that ([`Options::scan_order`]). What is known is lost
    /// when the database is closed, and counts half after an hour. Costs no I/O.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("scan-costs");
    /// let words = cleavedb::open(&dir)?.default_keyspace();
    /// for range in words.scan_costs() {
    ///     println!("from {} on: {} bytes", range.low.escape_ascii(), range.cost_bytes);
    /// }
    /// # assert!(words.scan_costs().is_empty());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`Options::scan_order`]: crate::Options::scan_order
    pub fn scan_costs(&self) -> Vec<ScanCost> {
        if self.core.process.is_gone() {
            return Vec::new();
        }
        let ranges = self.core.background.scan_costs(self.state.id).into_iter();
        let ranges = ranges.filter(|range| range.waste + range.ordered > 0);
        let cost = |range: DemandRange| ScanCost {
            low: range.low,
            cost_bytes: range.waste,
            ordered_bytes: range.ordered,
        };
        ranges.map(cost).collect()
    }
}

//! The records and bytes that the tables of a version reference in each segment. The sums are taken
//! over the tables' properties, updated by each edit, rebuilt from the tables at each opening and
//! never stored. They only indicate where nothing may be live any more; `gc/dead.rs` checks the
//! tables themselves before a segment is removed (I4).

use crate::base::pointer::SegmentId;
use crate::table::SegmentUse;
use std::collections::BTreeMap;

/// Records and bytes referenced per segment; segments without a reference are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentUses(BTreeMap<SegmentId, SegmentUse>);

impl SegmentUses {
    /// Adds the references of a new table.
    pub fn add(&mut self, uses: &BTreeMap<SegmentId, SegmentUse>) {
        for (&segment, used) in uses {
            let sum = self.0.entry(segment).or_default();
            sum.count += used.count;
            // Bytes come from the table's own properties; a wrong sum can only delay GC.
            sum.bytes = sum.bytes.saturating_add(used.bytes);
        }
    }

    /// Subtracts the references of a removed table.
    ///
    /// # Panics
    /// If the table had not been added, which is a bug of this crate.
    pub fn remove(&mut self, uses: &BTreeMap<SegmentId, SegmentUse>) {
        for (segment, used) in uses {
            let sum = self.0.get_mut(segment).expect("a removed table was added before");
            assert!(
                sum.count >= used.count,
                "segment {segment} is used by fewer records than that"
            );
            sum.count -= used.count;
            sum.bytes = sum.bytes.saturating_sub(used.bytes);
            if sum.count == 0 {
                self.0.remove(segment);
            }
        }
    }

    /// Returns what is referenced in `segment`; zero if nothing is.
    pub fn of(&self, segment: SegmentId) -> SegmentUse {
        self.0.get(&segment).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_go_to_nothing() {
        let used = |count, bytes| SegmentUse { count, bytes };
        let one = BTreeMap::from([(SegmentId(1), used(2, 20)), (SegmentId(2), used(1, 5))]);
        let two = BTreeMap::from([(SegmentId(2), used(3, 30))]);
        let mut sums = SegmentUses::default();
        sums.add(&one);
        sums.add(&two);
        assert_eq!(sums.of(SegmentId(2)), used(4, 35));
        sums.remove(&one);
        assert_eq!(sums.of(SegmentId(1)), used(0, 0));
        sums.remove(&two);
        assert_eq!(sums, SegmentUses::default());
    }

    #[test]
    fn i07_no_numbers_of_a_table_make_it_panic() {
        let most = SegmentUse { count: 1 << 48, bytes: u64::MAX };
        let table = BTreeMap::from([(SegmentId(1), most)]);
        let mut sums = SegmentUses::default();
        sums.add(&table);
        sums.add(&table);
        assert_eq!(sums.of(SegmentId(1)), SegmentUse { count: 2 << 48, bytes: u64::MAX });
        sums.remove(&table);
        sums.remove(&table);
        assert_eq!(sums, SegmentUses::default());
    }
}

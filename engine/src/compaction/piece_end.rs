//! Where a piece of a rewrite ends that moves only so many bytes of values: between two user keys.
//! Entries behind stay as they are, in tables of their own, for the next piece.

use crate::base::key::KeyOrder;

/// The end of a piece that is at work.
pub struct PieceEnd {
    order: KeyOrder,
    /// The bytes that may still move.
    left: u64,
    /// The user key of the last entry.
    key: Vec<u8>,
    until: Option<Vec<u8>>,
}

impl PieceEnd {
    /// Creates the end of a piece that moves about `most_bytes`.
    pub fn new(order: KeyOrder, most_bytes: u64) -> Self {
        assert!(most_bytes > 0, "a piece that moves nothing is followed by itself");
        PieceEnd { order, left: most_bytes, key: Vec::new(), until: None }
    }

    /// Returns the bytes that may still move.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Notes that `bytes` bytes move.
    pub fn moves(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Returns true, once, if the piece ends before the entry of this user key, which comes next.
    /// All entries of a user key are of the same piece.
    pub fn ends_before(&mut self, key: &[u8]) -> bool {
        if self.until.is_some() || self.order.compare(key, &self.key).is_eq() {
            return false;
        }
        let last = std::mem::replace(&mut self.key, key.to_vec());
        let ends = self.left == 0;
        self.until = ends.then_some(last);
        ends
    }

    /// Returns the last user key of the piece, once it has ended before its last entry.
    pub fn until(&self) -> Option<&Vec<u8>> {
        self.until.as_ref()
    }
}

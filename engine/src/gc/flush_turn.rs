//! Whose turn it is where there is no room for a flush and a relocation at once.

/// Lets one flush go before each relocation that has no room beside it, and not more: where flushes
/// are always due, as with very many keyspaces, a relocation comes after each.
#[derive(Debug, Default)]
pub struct FlushTurn {
    /// The number of flushes that were over when a relocation began to wait; `None` if none waits.
    waits_since: Option<u64>,
}

impl FlushTurn {
    /// Returns true if a relocation waits, where `has_no_room` says that a flush is due beside
    /// which it has no room, and `flushes` are over.
    pub fn is_first(&mut self, has_no_room: bool, flushes: u64) -> bool {
        let waits = has_no_room && *self.waits_since.get_or_insert(flushes) == flushes;
        if !waits {
            self.waits_since = None;
        }
        waits
    }

    /// Forgets that a relocation waits, as there is nothing to relocate any more.
    pub fn forget(&mut self) {
        self.waits_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flush_goes_before_each_relocation() {
        let mut turn = FlushTurn::default();
        assert!(!turn.is_first(false, 7), "there is room for both");
        assert_eq!([7, 7, 8].map(|flushes| turn.is_first(true, flushes)), [true, true, false]);
        assert_eq!([8, 9, 9].map(|flushes| turn.is_first(true, flushes)), [true, false, true]);
        assert!(!turn.is_first(false, 9), "the flush that was due is gone");
        assert!(turn.is_first(true, 10), "what was waited for before does not count");
        turn.forget();
        assert!(turn.is_first(true, 11), "nor what another one waited for");
    }
}

//! Pins what flushes and compactions have written (`version/pinning.rs`), by the threads that
//! compact: flushes, on which writers wait, are not held up by it.

use super::choice::BackgroundWork;
use super::{Background, BackgroundState};
use crate::version::pinning::TableToPin;

impl Background {
    /// Returns the table to be pinned next, without marking it. One is pinned at a time, so that
    /// what was room when it was picked is room while it is loaded.
    pub(super) fn find_unpinned(&self, state: &BackgroundState) -> Option<TableToPin> {
        let set = &self.runtime.set;
        let tree = &set.tables().tree;
        if state.pinning || tree.is_off() {
            return None;
        }
        tree.pick(&set.current())
    }

    /// Marks a table as being pinned.
    pub(super) fn claim_pinning(&self, state: &mut BackgroundState) -> Option<BackgroundWork> {
        let table = self.find_unpinned(state)?;
        state.pinning = true;
        Some(BackgroundWork::Pin(table))
    }

    /// Pins the table if it fits. What cannot be read is no failure of the job.
    pub(super) fn pin(&self, table: &TableToPin) {
        self.runtime.set.tables().tree.pin_beside_others(&self.runtime, table);
    }
}

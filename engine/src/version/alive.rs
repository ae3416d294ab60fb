//! Tracks which versions are still held or worked by. A job that began with a version may still
//! install results based on it, so some things can be removed only once every older version is
//! dropped.

use crate::env::sync::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// A mark that a version shares with the jobs that work by it. Holding it keeps the version alive
/// without keeping its files.
#[derive(Default)]
pub struct AliveMark(());

/// The versions of one set whose marks are still held, oldest first. Its lock is a leaf.
#[derive(Default)]
pub(super) struct Alive(Mutex<VecDeque<(u64, Weak<AliveMark>)>>);

impl Alive {
    /// Adds the next version.
    pub(super) fn note(&self, number: u64, mark: &Arc<AliveMark>) {
        let mut alive = self.0.lock();
        alive.retain(|(_, weak)| weak.strong_count() > 0);
        let is_next = alive.back().is_none_or(|(before, _)| *before < number);
        assert!(is_next, "version {number} is noted before an older one");
        alive.push_back((number, Arc::downgrade(mark)));
    }

    /// Returns the number of the oldest version alive. No version before it can become alive again,
    /// because a version can be taken only from a holder.
    pub(super) fn oldest(&self) -> Option<u64> {
        let mut alive = self.0.lock();
        alive.retain(|(_, weak)| weak.strong_count() > 0);
        alive.front().map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_counts_for_as_long_as_somebody_holds_it() {
        let alive = Alive::default();
        assert_eq!(alive.oldest(), None);
        let [third, fourth, fifth] = [3, 4, 5].map(|number| {
            let mark = Arc::default();
            alive.note(number, &mark);
            mark
        });
        let again = third.clone();
        drop((third, fourth));
        assert_eq!(alive.oldest(), Some(3), "held twice");
        drop(again);
        assert_eq!(alive.oldest(), Some(5));
        drop(fifth);
        assert_eq!(alive.oldest(), None);
    }
}

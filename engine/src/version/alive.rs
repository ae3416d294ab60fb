//! Which versions somebody still holds, or works by. A job that began with a version may still
//! install what it found in it, so some things can go only once every older version has gone.

use crate::env::sync::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// What a version has in common with those who work by it, and may hold without the files that it
/// names.
#[derive(Default)]
pub struct AliveMark(());

/// The versions of one set whose marks have not been dropped by everybody, oldest first. Its lock
/// is a leaf.
#[derive(Default)]
pub(super) struct Alive(Mutex<VecDeque<(u64, Weak<AliveMark>)>>);

impl Alive {
    /// Takes in the version that comes next.
    pub(super) fn note(&self, number: u64, mark: &Arc<AliveMark>) {
        let mut alive = self.0.lock();
        alive.retain(|(_, weak)| weak.strong_count() > 0);
        alive.push_back((number, Arc::downgrade(mark)));
    }

    /// The number of the oldest one. None of those before it can come back: a version that nobody
    /// holds is nowhere to be taken from.
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

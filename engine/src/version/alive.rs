//! Tracks which versions are still held or worked by. A job that began with a version may still
//! install results based on it, so some things can be removed only once every older version is
//! dropped.

use crate::env::sync::Mutex;
use crate::version::Version;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A mark that a version shares with the jobs that work by it. Holding it keeps the version alive
/// without keeping its files.
#[derive(Debug, Default)]
pub struct AliveMark(());

/// The versions of one set whose marks are still held, oldest first. Its lock is a leaf.
#[derive(Default)]
pub(super) struct Alive(Mutex<VecDeque<MarkedVersion>>);

struct MarkedVersion {
    mark: Weak<AliveMark>,
    /// The version itself, whose holders keep its files.
    files: Weak<Version>,
    alive: AliveVersion,
}

/// A version that somebody holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AliveVersion {
    /// Its number.
    pub number: u64,
    /// The time at which the next one took its place, by the clock of the environment; `None` for
    /// the one in force.
    pub superseded_at: Option<Duration>,
}

impl Alive {
    /// Adds the next version, which is in force from `now` on.
    pub(super) fn note(&self, version: &Arc<Version>, now: Duration) {
        let number = version.number;
        let mut versions = self.0.lock();
        versions.retain(|it| it.mark.strong_count() > 0);
        if let Some(before) = versions.back_mut() {
            assert!(before.alive.number < number, "version {number} is noted before an older one");
            before.alive.superseded_at.get_or_insert(now);
        }
        versions.push_back(MarkedVersion {
            mark: Arc::downgrade(&version.mark),
            files: Arc::downgrade(version),
            alive: AliveVersion { number, superseded_at: None },
        });
    }

    /// Returns the oldest version alive. No version before it can become alive again, because a
    /// version can be taken only from a holder.
    pub(super) fn oldest(&self) -> Option<AliveVersion> {
        let mut versions = self.0.lock();
        versions.retain(|it| it.mark.strong_count() > 0);
        versions.front().map(|it| it.alive)
    }

    /// Returns the oldest version whose files somebody holds: jobs that have only its mark hold
    /// none.
    pub(super) fn oldest_with_files(&self) -> Option<AliveVersion> {
        let versions = self.0.lock();
        versions.iter().find(|it| it.files.strong_count() > 0).map(|it| it.alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_counts_for_as_long_as_somebody_holds_it() {
        let alive = Alive::default();
        assert_eq!(alive.oldest(), None);
        let [third, fourth, fifth, sixth] = [3, 4, 5, 6].map(|number| {
            let version = Arc::new(Version { number, ..Version::default() });
            alive.note(&version, Duration::from_secs(number));
            version
        });
        let said = |it: AliveVersion| (it.number, it.superseded_at.map(|at| at.as_secs()));
        let oldest = || alive.oldest().map(said);
        let with_files = || alive.oldest_with_files().map(said);
        let mark = third.mark.clone();
        assert_eq!(with_files(), Some((3, Some(4))));
        drop((third, fourth));
        assert_eq!(oldest(), Some((3, Some(4))), "its mark is held, and not since the fourth went");
        assert_eq!(with_files(), Some((5, Some(6))), "a mark holds no file");
        drop(mark);
        assert_eq!(oldest(), Some((5, Some(6))));
        drop(fifth);
        assert_eq!(oldest(), Some((6, None)), "it is in force");
        drop(sixth);
        assert_eq!((oldest(), with_files()), (None, None));
    }
}

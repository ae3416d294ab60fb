//! The record of what the clients of one life of the process did.

use crate::history::{Access, Attempt, Element, Fate, History, Stored};
use cleavedb::{Durability, ErrorKind, Result};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the clients of one life share.
pub struct Record {
    time: AtomicU64,
    /// The number of elements that were made in all lives.
    pub made: AtomicU64,
    pub history: Mutex<History>,
    /// The durability of each attempt but the first.
    pub durabilities: Mutex<Vec<Durability>>,
    /// The elements that somebody wants to remove: each is removed by one at most.
    pub claimed: Mutex<BTreeSet<Element>>,
}

impl Record {
    pub fn new(initial: &Stored, made: u64) -> Record {
        Record {
            time: AtomicU64::new(1),
            made: AtomicU64::new(made),
            history: Mutex::new(History::new(initial)),
            durabilities: Mutex::default(),
            claimed: Mutex::default(),
        }
    }

    pub fn tick(&self) -> u64 {
        self.time.fetch_add(1, Ordering::Relaxed)
    }

    pub fn push(&self, attempt: Attempt, durability: Durability) {
        self.history.lock().unwrap().attempts.push(attempt);
        self.durabilities.lock().unwrap().push(durability);
    }

    /// Records reads that were one call, or of one moment.
    pub fn read(&self, what: &str, begun: u64, accesses: Vec<Access>) {
        let (what, fate, ended) = (what.to_owned(), Fate::Committed, self.tick());
        self.push(Attempt { what, accesses, fate, begun, ended }, Durability::Buffered);
    }

    /// Records an attempt to write, which was committed if `result` is true, and refused if it is
    /// false or a conflict. Returns the error if it is not known what became of it.
    pub fn wrote(
        &self,
        what: &str,
        (begun, accesses): (u64, Vec<Access>),
        durability: Durability,
        result: Result<bool>,
    ) -> Result<()> {
        let ended = self.tick();
        let (fate, ended) = match &result {
            Ok(true) => (Fate::Committed, ended),
            Ok(false) => (Fate::Aborted, u64::MAX),
            Err(error) if error.kind() == ErrorKind::Conflict => (Fate::Aborted, u64::MAX),
            Err(_) => (Fate::Unknown, u64::MAX),
        };
        let what = what.to_owned();
        self.push(Attempt { what, accesses, fate, begun, ended }, durability);
        if fate == Fate::Unknown { result.map(|_| ()) } else { Ok(()) }
    }
}

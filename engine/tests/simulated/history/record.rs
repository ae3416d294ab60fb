//! The record of what the clients of one life of the process did.

use crate::history::{Access, Attempt, Element, Fate, History, Stored};
use cleavedb::{Durability, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
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
    /// The elements that may expire, with their sets. They are claimed, too: only time removes
    /// them.
    pub expiring: Mutex<BTreeMap<Element, usize>>,
    /// Elements, with their sets, that were inserted together with others. By these it is known
    /// whether the batch has survived a crash, even if an element has expired.
    pub companions: Mutex<Vec<(usize, Element)>>,
}

impl Record {
    pub fn new(initial: &Stored, made: u64) -> Record {
        Record {
            time: AtomicU64::new(1),
            made: AtomicU64::new(made),
            history: Mutex::new(History::new(initial)),
            durabilities: Mutex::default(),
            claimed: Mutex::default(),
            expiring: Mutex::default(),
            companions: Mutex::default(),
        }
    }

    pub fn tick(&self) -> u64 {
        self.time.fetch_add(1, Ordering::Relaxed)
    }

    pub fn push(&self, attempt: Attempt, durability: Durability) {
        self.history.lock().unwrap().attempts.push(attempt);
        self.durabilities.lock().unwrap().push(durability);
    }

    /// Notes that an element gets a deadline in a call that began at `begun`.
    pub fn expect_expiry(&self, begun: u64, set: usize, element: Element) {
        self.claimed.lock().unwrap().insert(element);
        self.expiring.lock().unwrap().insert(element, set);
        let (what, accesses) = ("time".to_owned(), vec![Access::Expire { set, element }]);
        let attempt = Attempt { what, accesses, fate: Fate::Committed, begun, ended: u64::MAX };
        self.push(attempt, Durability::Buffered);
    }

    /// Notes what became of a call that gave an element another deadline, or took it away: whether
    /// it was there, if the call returned. From then on it stays if `stays` is true.
    pub fn gave_deadline(
        &self,
        what: &str,
        begun: u64,
        (set, element): (usize, Element),
        (result, stays): (Result<bool>, bool),
    ) -> Result<()> {
        let mut history = self.history.lock().unwrap();
        let expire = Access::Expire { set, element };
        let expiry = history.attempts.iter_mut().find(|it| it.accesses.contains(&expire));
        match &result {
            Err(_) => drop(history.uncertain.insert(element)),
            Ok(false) if stays => drop(self.expiring.lock().unwrap().insert(element, set)),
            Ok(true) if stays => expiry.expect("it was expected").fate = Fate::Aborted,
            Ok(_) => {}
        }
        drop(history);
        let there = result?;
        let elements = there.then_some(element).into_iter().collect();
        self.read(what, begun, vec![Access::Scan { set, from: element, to: element, elements }]);
        Ok(())
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

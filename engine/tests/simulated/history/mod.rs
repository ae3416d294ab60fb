//! Histories of concurrent transactions over lists and sets, as clients recorded them.
//!
//! A *list* is only ever appended to, and each element is appended once. A read of a list therefore
//! shows all versions of it in their order, and from whom each came. A *set* stands for a range of
//! keys: elements are inserted once, perhaps removed once or left to expire, and read by scans of a
//! part of it. So the dependencies between transactions can be read from the history alone, without
//! knowledge of the store (Kingsbury, Alvaro 2020: Elle).

pub mod check;
pub mod client;
mod graph;
pub mod record;
pub mod survivors;
mod tests;

use std::collections::BTreeSet;

/// The name of an element, which no other element has.
pub type Element = u64;

/// One read or write of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// A list was read, and had these elements.
    Read { list: usize, elements: Vec<Element> },
    /// An element was put at the end of a list.
    Append { list: usize, element: Element },
    /// A set was read from one element to another, both included, and had these elements there.
    Scan { set: usize, from: Element, to: Element, elements: BTreeSet<Element> },
    /// An element was put into a set.
    Insert { set: usize, element: Element },
    /// An element was removed from a set.
    Remove { set: usize, element: Element },
    /// An element of a set expired. Nobody does that; it is an attempt of its own, at any time
    /// after the element got its deadline.
    Expire { set: usize, element: Element },
}

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was acknowledged.
    Committed,
    /// It was refused: nobody may ever see a write of it.
    Aborted,
    /// Its commit failed, or never returned: it may have happened, as a whole.
    Unknown,
}

/// A transaction of a client, or a single call that is as good as one.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// What it was, for messages.
    pub what: String,
    pub accesses: Vec<Access>,
    pub fate: Fate,
    /// The time when it was begun, by a clock that all clients share.
    pub begun: u64,
    /// The time when it was acknowledged; `u64::MAX` if it was not.
    pub ended: u64,
}

impl Attempt {
    /// Returns true if it wrote something.
    pub fn writes(&self) -> bool {
        let is_write = |access: &Access| {
            matches!(access, Access::Append { .. } | Access::Insert { .. } | Access::Remove { .. })
        };
        self.accesses.iter().any(is_write)
    }

    /// Returns true if it stands for what time does.
    pub fn is_expiry(&self) -> bool {
        self.accesses.iter().any(|access| matches!(access, Access::Expire { .. }))
    }
}

/// The contents of all lists and sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    pub lists: Vec<Vec<Element>>,
    pub sets: Vec<BTreeSet<Element>>,
}

impl Stored {
    /// Returns the reads that show all of it.
    pub fn reads(&self) -> Vec<Access> {
        let read =
            |(list, elements): (usize, &Vec<_>)| Access::Read { list, elements: elements.clone() };
        let scan = |(set, elements): (usize, &BTreeSet<_>)| Access::Scan {
            set,
            from: 0,
            to: Element::MAX,
            elements: elements.clone(),
        };
        let lists = self.lists.iter().enumerate().map(read);
        lists.chain(self.sets.iter().enumerate().map(scan)).collect()
    }

    fn writes(&self) -> Vec<Access> {
        let appends = self.lists.iter().enumerate().flat_map(|(list, elements)| {
            elements.iter().map(move |&element| Access::Append { list, element })
        });
        let inserts = self.sets.iter().enumerate().flat_map(|(set, elements)| {
            elements.iter().map(move |&element| Access::Insert { set, element })
        });
        appends.chain(inserts).collect()
    }
}

/// What happened between two crashes. The first attempt wrote what was there at the beginning.
#[derive(Debug, Clone)]
pub struct History {
    pub attempts: Vec<Attempt>,
    /// Elements of which it is not known whether they have a deadline, so that nothing can be said
    /// about whether they are there.
    pub uncertain: BTreeSet<Element>,
}

impl History {
    pub fn new(initial: &Stored) -> History {
        let (what, accesses) = ("what was there".to_owned(), initial.writes());
        let first = Attempt { what, accesses, fate: Fate::Committed, begun: 0, ended: 0 };
        History { attempts: vec![first], uncertain: BTreeSet::new() }
    }

    /// Returns the attempt number `index` as text.
    fn text(&self, index: usize) -> String {
        let Attempt { what, accesses, fate, begun, ended } = &self.attempts[index];
        if index == 0 {
            return format!("T0: {what}");
        }
        let ended = if *ended == u64::MAX { "?".to_owned() } else { ended.to_string() };
        let accesses: Vec<_> = accesses.iter().map(brief).collect();
        format!("T{index}: {what}, {fate:?} [{begun}, {ended}]: {}", accesses.join("; "))
    }
}

/// Returns an access as a short text: of long reads only the end is shown.
fn brief(access: &Access) -> String {
    match access {
        Access::Read { list, elements } => {
            let last = &elements[elements.len().saturating_sub(4)..];
            format!("list {list} had {} elements, the last {last:?}", elements.len())
        }
        Access::Append { list, element } => format!("append {element} to list {list}"),
        Access::Scan { set, from, to, elements } => {
            format!("set {set} had {} elements from {from} to {to}", elements.len())
        }
        Access::Insert { set, element } => format!("insert {element} into set {set}"),
        Access::Remove { set, element } => format!("remove {element} from set {set}"),
        Access::Expire { set, element } => format!("{element} of set {set} expires"),
    }
}

//! The check that a history is strictly serializable: there is an order of all transactions in
//! which each reads what those before it wrote, and which nobody could tell from the order in which
//! they were called.
//!
//! The check takes for granted what the store promises nothing else about: that an element which a
//! list has got stays there. So an acknowledged append that no read shows comes after all reads.

use crate::history::graph::{DependencyGraph, Edge, EdgeKind};
use crate::history::{Access, Attempt, Element, Fate, History};
use std::collections::{BTreeMap, BTreeSet};

/// A list or a set, and an element of it.
type ListElement = (usize, Element);

/// Who wrote each element.
#[derive(Default)]
struct Writers {
    /// The last element of each of these is what the transaction left in the list; elements before
    /// are *intermediate*.
    appended: BTreeMap<ListElement, usize>,
    inserted: BTreeMap<ListElement, usize>,
    removed: BTreeMap<ListElement, usize>,
}

impl Writers {
    fn new(history: &History) -> Result<Writers, String> {
        let mut writers = Writers::default();
        for (index, attempt) in history.attempts.iter().enumerate() {
            for access in &attempt.accesses {
                let (map, at) = match access {
                    Access::Append { list, element } => (&mut writers.appended, (*list, *element)),
                    Access::Insert { set, element } => (&mut writers.inserted, (*set, *element)),
                    Access::Remove { set, element } | Access::Expire { set, element }
                        if attempt.fate != Fate::Aborted =>
                    {
                        (&mut writers.removed, (*set, *element))
                    }
                    _ => continue,
                };
                if let Some(other) = map.insert(at, index) {
                    let texts = [history.text(other), history.text(index)].join("\n  ");
                    return Err(format!("two write the same element:\n  {texts}"));
                }
            }
        }
        Ok(writers)
    }
}

/// Checks a history. Returns the graph of its dependencies, or what is wrong with a short witness.
///
/// Transactions whose fate is unknown count as committed if a read shows a write of them, or if
/// `is_known` says so.
pub fn check(
    history: &History,
    is_known: impl Fn(usize) -> bool,
) -> Result<DependencyGraph, String> {
    let writers = Writers::new(history)?;
    let seen = seen(history);
    let happened: Vec<bool> = (history.attempts.iter().enumerate())
        .map(|(index, attempt)| match attempt.fate {
            Fate::Committed => true,
            Fate::Aborted => false,
            Fate::Unknown => is_known(index) || attempt.accesses.iter().any(|it| seen.shows(it)),
        })
        .collect();
    let mut checker = Checker {
        history,
        writers,
        happened,
        orders: BTreeMap::new(),
        graph: DependencyGraph::new(history.attempts.len()),
    };
    checker.order_lists()?;
    for index in 0..history.attempts.len() {
        if checker.happened[index] {
            checker.add_reads(index)?;
        }
    }
    checker.add_writes();
    checker.add_real_time();
    match checker.graph.anomaly() {
        None => Ok(checker.graph),
        Some((name, cycle)) => Err(format!("{name}:\n{}", witness(history, &cycle))),
    }
}

/// Returns the edges of a path and the transactions on it as text.
pub fn witness(history: &History, path: &[Edge]) -> String {
    let edge = |edge: &Edge| format!("  T{} {:?} T{}\n", edge.from, edge.kind, edge.to);
    let nodes: BTreeSet<usize> = path.iter().flat_map(|edge| [edge.from, edge.to]).collect();
    let edges: String = path.iter().map(edge).collect();
    edges + &nodes.iter().map(|&node| format!("  {}\n", history.text(node))).collect::<String>()
}

/// What was shown by the reads of others than the writer.
#[derive(Default)]
struct Seen {
    lists: BTreeSet<ListElement>,
    sets: BTreeSet<ListElement>,
}

impl Seen {
    fn shows(&self, access: &Access) -> bool {
        match access {
            Access::Append { list, element } => self.lists.contains(&(*list, *element)),
            Access::Insert { set, element } => self.sets.contains(&(*set, *element)),
            _ => false,
        }
    }
}

fn seen(history: &History) -> Seen {
    let mut seen = Seen::default();
    for attempt in history.attempts.iter().filter(|attempt| attempt.fate == Fate::Committed) {
        for access in &attempt.accesses {
            match access {
                Access::Read { list, elements } => {
                    seen.lists.extend(elements.iter().map(|&element| (*list, element)));
                }
                Access::Scan { set, elements, .. } => {
                    seen.sets.extend(elements.iter().map(|&element| (*set, element)));
                }
                _ => {}
            }
        }
    }
    seen
}

struct Checker<'a> {
    history: &'a History,
    writers: Writers,
    /// Which of the attempts took effect.
    happened: Vec<bool>,
    /// The longest version of each list that was read.
    orders: BTreeMap<usize, Vec<Element>>,
    graph: DependencyGraph,
}

impl Checker<'_> {
    /// Finds the longest version of each list; all others must be beginnings of it.
    fn order_lists(&mut self) -> Result<(), String> {
        let mut longest: BTreeMap<usize, (usize, &Vec<Element>)> = BTreeMap::new();
        for (index, attempt) in self.happening() {
            for access in &attempt.accesses {
                let Access::Read { list, elements } = access else { continue };
                let (other, order) = longest.entry(*list).or_insert((index, elements));
                let common = order.len().min(elements.len());
                if order[..common] != elements[..common] {
                    let texts = [*other, index].map(|index| self.history.text(index)).join("\n  ");
                    return Err(format!("two orders of list {list}:\n  {texts}"));
                }
                if elements.len() > order.len() {
                    (*other, *order) = (index, elements);
                }
            }
        }
        let mut orders = BTreeMap::new();
        for (list, (reader, order)) in longest {
            let different: BTreeSet<_> = order.iter().collect();
            if different.len() < order.len() {
                let text = self.history.text(reader);
                return Err(format!("an element is twice in list {list}:\n  {text}"));
            }
            for element in order {
                let writer = self.writers.appended.get(&(list, *element)).copied();
                self.check_writer(writer, reader, *element)?;
            }
            orders.insert(list, order.clone());
        }
        self.orders = orders;
        Ok(())
    }

    fn happening(&self) -> impl Iterator<Item = (usize, &Attempt)> {
        let attempts = self.history.attempts.iter().enumerate();
        attempts.filter(|(index, _)| self.happened[*index])
    }

    /// Checks that what was read was written by a transaction that took effect.
    fn check_writer(
        &self,
        writer: Option<usize>,
        reader: usize,
        element: Element,
    ) -> Result<usize, String> {
        let reader = self.history.text(reader);
        let Some(writer) = writer else {
            return Err(format!("nobody wrote {element}, which was read:\n  {reader}"));
        };
        if self.happened[writer] {
            return Ok(writer);
        }
        let writer = self.history.text(writer);
        Err(format!("G1a, {element} was read and did not happen:\n  {writer}\n  {reader}"))
    }

    fn add_reads(&mut self, index: usize) -> Result<(), String> {
        let mut own = OwnWrites::default();
        for access in &self.history.attempts[index].accesses {
            match access {
                Access::Read { list, elements } => {
                    let before = own.before(*list, elements).ok_or_else(|| {
                        format!("it does not see its own writes:\n  {}", self.history.text(index))
                    })?;
                    self.add_read(index, *list, &elements[..before])?;
                }
                Access::Scan { set, from, to, elements } => {
                    let range = *from..=*to;
                    if own.hidden(*set, elements, |element| range.contains(element)) {
                        let text = self.history.text(index);
                        return Err(format!("it does not see its own writes:\n  {text}"));
                    }
                    self.add_scan(index, *set, (*from, *to), elements)?;
                }
                write => own.note(write),
            }
        }
        Ok(())
    }

    /// Adds the edges of a read of the version of a list that ends with the last of `elements`.
    fn add_read(&mut self, reader: usize, list: usize, elements: &[Element]) -> Result<(), String> {
        if let Some(last) = elements.last() {
            let writer = self.writers.appended[&(list, *last)];
            let appends =
                |access: &&Access| matches!(access, Access::Append { list: it, .. } if *it == list);
            let left = self.history.attempts[writer].accesses.iter().rfind(appends);
            if left != Some(&Access::Append { list, element: *last }) {
                let texts = [writer, reader].map(|index| self.history.text(index)).join("\n  ");
                return Err(format!("G1b, a version within a transaction was read:\n  {texts}"));
            }
            self.graph.add(writer, reader, EdgeKind::Wr);
        }
        match self.orders[&list].get(elements.len()) {
            Some(next) => {
                let writer = self.writers.appended[&(list, *next)];
                self.graph.add(reader, writer, EdgeKind::Rw);
            }
            None => self.unseen(list).into_iter().for_each(|writer| {
                self.graph.add(reader, writer, EdgeKind::Rw);
            }),
        }
        Ok(())
    }

    /// Returns those whose acknowledged append to a list was never read.
    fn unseen(&self, list: usize) -> Vec<usize> {
        let seen = self.orders.get(&list);
        let of_list = self.writers.appended.range((list, 0)..=(list, Element::MAX));
        let unseen = of_list.filter(|((_, element), writer)| {
            let committed = self.history.attempts[**writer].fate == Fate::Committed;
            committed && !seen.is_some_and(|order| order.contains(element))
        });
        unseen.map(|(_, &writer)| writer).collect()
    }

    /// Adds the edges of a scan. An element that is missing was inserted later, unless it was
    /// removed by somebody.
    fn add_scan(
        &mut self,
        reader: usize,
        set: usize,
        (from, to): (Element, Element),
        elements: &BTreeSet<Element>,
    ) -> Result<(), String> {
        let is_certain = |element: &Element| !self.history.uncertain.contains(element);
        let attempts = &self.history.attempts;
        for element in elements.iter().filter(|element| is_certain(element)) {
            let writer = self.writers.inserted.get(&(set, *element)).copied();
            let writer = self.check_writer(writer, reader, *element)?;
            self.graph.add(writer, reader, EdgeKind::Wr);
            if let Some(&remover) = self.writers.removed.get(&(set, *element))
                && self.happened[remover]
            {
                self.graph.add(reader, remover, EdgeKind::Rw);
            }
        }
        let inserted = self.writers.inserted.range((set, from)..=(set, to));
        for (at, &writer) in inserted.filter(|((_, element), _)| is_certain(element)) {
            if !self.happened[writer] || elements.contains(&at.1) {
                continue;
            }
            let remover = self.writers.removed.get(at).filter(|&&remover| self.happened[remover]);
            match remover {
                None => self.graph.add(reader, writer, EdgeKind::Rw),
                // It was there before, so its time had come. Who only reads may have looked while a
                // commit that came before was still being written.
                Some(&expiry)
                    if attempts[expiry].is_expiry()
                        && attempts[writer].ended < attempts[reader].begun
                        && attempts[reader].writes() =>
                {
                    self.graph.add(expiry, reader, EdgeKind::Wr);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Adds the edges from each version to the next.
    fn add_writes(&mut self) {
        for (list, order) in &self.orders {
            let writers = order.iter().map(|element| self.writers.appended[&(*list, *element)]);
            let writers: Vec<usize> = writers.collect();
            for pair in writers.windows(2) {
                self.graph.add(pair[0], pair[1], EdgeKind::Ww);
            }
        }
        let lists: Vec<usize> = self.orders.keys().copied().collect();
        for list in lists {
            let last = self.orders[&list].last().map(|last| self.writers.appended[&(list, *last)]);
            for writer in self.unseen(list) {
                last.into_iter().for_each(|last| self.graph.add(last, writer, EdgeKind::Ww));
            }
        }
        for (at, &remover) in &self.writers.removed {
            if let Some(&writer) = self.writers.inserted.get(at)
                && self.happened[remover]
                && self.happened[writer]
            {
                self.graph.add(writer, remover, EdgeKind::Ww);
            }
        }
    }

    fn add_real_time(&mut self) {
        let mut edges = Vec::new();
        for (earlier, first) in self.happening() {
            for (later, second) in self.happening() {
                if first.ended < second.begun {
                    edges.push((earlier, later));
                }
            }
        }
        for (earlier, later) in edges {
            self.graph.add(earlier, later, EdgeKind::RealTime);
        }
    }
}

/// What a transaction has written so far.
#[derive(Default)]
struct OwnWrites {
    appended: BTreeMap<usize, Vec<Element>>,
    inserted: BTreeSet<ListElement>,
    removed: BTreeSet<ListElement>,
}

impl OwnWrites {
    fn note(&mut self, write: &Access) {
        match write {
            Access::Append { list, element } => {
                self.appended.entry(*list).or_default().push(*element);
            }
            Access::Insert { set, element } => drop(self.inserted.insert((*set, *element))),
            Access::Remove { set, element } => drop(self.removed.insert((*set, *element))),
            Access::Read { .. } | Access::Scan { .. } | Access::Expire { .. } => {}
        }
    }

    /// Returns how many of the elements that were read in a list are not the transaction's own, or
    /// `None` if the own ones are not at the end.
    fn before(&self, list: usize, elements: &[Element]) -> Option<usize> {
        let own = self.appended.get(&list).map_or(&[][..], Vec::as_slice);
        elements.ends_with(own).then(|| elements.len() - own.len())
    }

    /// Returns true if a scan of the elements that are `within` does not show the own writes.
    fn hidden(
        &self,
        set: usize,
        elements: &BTreeSet<Element>,
        within: impl Fn(&Element) -> bool,
    ) -> bool {
        let mut inserted = self.inserted.difference(&self.removed);
        inserted.any(|(it, element)| *it == set && within(element) && !elements.contains(element))
            || self.removed.iter().any(|(it, element)| *it == set && elements.contains(element))
    }
}

//! The graph of the dependencies between transactions, and the search for cycles in it.

use std::collections::{BTreeSet, VecDeque};

/// The reason why one transaction must come before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// The second wrote the version after that of the first.
    Ww,
    /// The second read what the first wrote.
    Wr,
    /// The first read a version before that of the second.
    Rw,
    /// The first was acknowledged before the second was begun.
    RealTime,
}

use EdgeKind::{RealTime, Rw, Wr, Ww};

/// The anomalies, in the words of Adya: the kind of one edge of the cycle, and the kinds of the
/// others. The first that fits is the strongest.
const ANOMALIES: [(&str, &[EdgeKind], &[EdgeKind]); 8] = [
    ("G0, writes in a circle", &[Ww], &[Ww]),
    ("G1c, information in a circle", &[Ww, Wr], &[Ww, Wr]),
    ("G-single, a read skew or lost update", &[Rw], &[Ww, Wr]),
    ("G2, a write skew or phantom", &[Rw], &[Ww, Wr, Rw]),
    ("G0 with real time", &[RealTime], &[Ww, RealTime]),
    ("G1c with real time", &[RealTime], &[Ww, Wr, RealTime]),
    ("G-single with real time, a stale read", &[Rw], &[Ww, Wr, RealTime]),
    ("G2 with real time", &[Rw], &[Ww, Wr, Rw, RealTime]),
];

#[derive(Debug, Clone, Copy)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub kind: EdgeKind,
}

/// The transactions, numbered, with what must come before what.
#[derive(Debug)]
pub struct DependencyGraph {
    count: usize,
    edges: BTreeSet<(usize, usize, EdgeKind)>,
}

impl DependencyGraph {
    pub fn new(count: usize) -> Self {
        DependencyGraph { count, edges: BTreeSet::new() }
    }

    /// Adds an edge, but for one from a transaction to itself.
    pub fn add(&mut self, from: usize, to: usize, kind: EdgeKind) {
        if from != to {
            self.edges.insert((from, to, kind));
        }
    }

    /// Returns the edges out of each transaction.
    fn out(&self) -> Vec<Vec<Edge>> {
        let mut out = vec![Vec::new(); self.count];
        for &(from, to, kind) in &self.edges {
            out[from].push(Edge { from, to, kind });
        }
        out
    }

    /// Returns true if the transactions can be put in an order that follows all edges.
    fn has_order(&self) -> bool {
        let out = self.out();
        let mut waits = vec![0; self.count];
        self.edges.iter().for_each(|&(_, to, _)| waits[to] += 1);
        let mut free: Vec<usize> = (0..self.count).filter(|&node| waits[node] == 0).collect();
        let mut ordered = 0;
        while let Some(node) = free.pop() {
            ordered += 1;
            for edge in &out[node] {
                waits[edge.to] -= 1;
                if waits[edge.to] == 0 {
                    free.push(edge.to);
                }
            }
        }
        ordered == self.count
    }

    /// Returns the name of the strongest anomaly, and one of its shortest cycles.
    pub fn anomaly(&self) -> Option<(&'static str, Vec<Edge>)> {
        if self.has_order() {
            return None;
        }
        let out = self.out();
        let found = ANOMALIES.iter().find_map(|(name, first, others)| {
            let firsts = out.iter().flatten().filter(|edge| first.contains(&edge.kind));
            let cycles = firsts.filter_map(|edge| {
                let mut cycle = vec![*edge];
                cycle.extend(path(&out, edge.to, others, |node| node == edge.from)?);
                Some(cycle)
            });
            cycles.min_by_key(Vec::len).map(|cycle| (*name, cycle))
        });
        Some(found.expect("a graph without an order has a cycle"))
    }

    /// Returns a shortest path over edges of any kind from one of the nodes `from` to one that
    /// `is_end` holds for.
    pub fn path(&self, from: &[usize], is_end: impl Fn(usize) -> bool) -> Option<Vec<Edge>> {
        let out = self.out();
        let paths =
            from.iter().filter_map(|&from| path(&out, from, &[Ww, Wr, Rw, RealTime], &is_end));
        paths.min_by_key(Vec::len)
    }
}

/// Returns a shortest path over edges of these kinds.
fn path(
    out: &[Vec<Edge>],
    from: usize,
    kinds: &[EdgeKind],
    is_end: impl Fn(usize) -> bool,
) -> Option<Vec<Edge>> {
    let mut reached_by: Vec<Option<Edge>> = vec![None; out.len()];
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        if is_end(node) {
            let mut path = Vec::new();
            let mut at = node;
            while at != from {
                let edge = reached_by[at].expect("each node but the first was reached by an edge");
                path.push(edge);
                at = edge.from;
            }
            path.reverse();
            return Some(path);
        }
        for &edge in out[node].iter().filter(|edge| kinds.contains(&edge.kind)) {
            if edge.to != from && reached_by[edge.to].is_none() {
                reached_by[edge.to] = Some(edge);
                queue.push_back(edge.to);
            }
        }
    }
    None
}

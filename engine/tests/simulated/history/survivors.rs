//! The check of what a crash left: the commits up to a certain one, each as a whole.

use crate::history::check::{check, witness};
use crate::history::{Access, Attempt, Element, Fate, History, Stored};
use std::collections::{BTreeMap, BTreeSet};

/// Checks what was found after the crash that ended a history: it must be the result of a prefix of
/// the commits, in which all of those are that `must_survive`. Of attempts whose fate is unknown
/// any may have happened.
pub fn check_survivors(
    history: &History,
    found: &Stored,
    must_survive: impl Fn(usize) -> bool,
) -> Result<(), String> {
    let survived = survived(history, found)?;
    let whole = |index: usize| survived.contains(&index);
    let writers = || history.attempts.iter().enumerate().filter(|(_, attempt)| attempt.writes());
    for (index, attempt) in writers() {
        if attempt.fate == Fate::Committed && must_survive(index) && !whole(index) {
            return Err(format!("an acknowledged commit is lost:\n  {}", history.text(index)));
        }
    }
    // Every dependency, and the order in real time, is one in the order of commits.
    let graph = check(history, whole)?;
    let lost = writers().filter(|(index, it)| it.fate == Fate::Committed && !whole(*index));
    let lost: Vec<usize> = lost.map(|(index, _)| index).collect();
    if let Some(path) = graph.path(&lost, |node| node > 0 && whole(node)) {
        let text = witness(history, &path);
        return Err(format!("a commit is lost, and a later one is not:\n{text}"));
    }
    let of_survivors =
        |(index, it): &(usize, &Attempt)| *index == 0 || whole(*index) || it.is_expiry();
    let attempts = history.attempts.iter().enumerate().filter(of_survivors);
    let attempts = attempts.map(|(_, attempt)| attempt.clone()).collect();
    let mut left = History { attempts, uncertain: history.uncertain.clone() };
    left.attempts.push(Attempt {
        what: "what was found after the crash".to_owned(),
        accesses: found.reads(),
        fate: Fate::Committed,
        begun: u64::MAX,
        ended: u64::MAX,
    });
    check(&left, |_| true).map_err(|text| format!("after the crash: {text}")).map(|_| ())
}

/// Returns the first attempt, and those of which a write was found, as then all must be.
fn survived(history: &History, found: &Stored) -> Result<BTreeSet<usize>, String> {
    let mut removers: BTreeMap<(usize, Element), usize> = BTreeMap::new();
    for (index, attempt) in history.attempts.iter().enumerate() {
        for access in &attempt.accesses {
            if let Access::Remove { set, element } | Access::Expire { set, element } = access
                && attempt.fate != Fate::Aborted
            {
                removers.insert((*set, *element), index);
            }
        }
    }
    let lists: Vec<BTreeSet<Element>> =
        found.lists.iter().map(|list| list.iter().copied().collect()).collect();
    // An element that somebody removed, or that may have expired, shows nothing when it is not
    // there.
    let shows = |access: &Access| match access {
        Access::Append { list, element } => Some(lists[*list].contains(element)),
        Access::Insert { element, .. } if history.uncertain.contains(element) => None,
        Access::Insert { set, element } if found.sets[*set].contains(element) => Some(true),
        Access::Insert { set, element } if !removers.contains_key(&(*set, *element)) => Some(false),
        _ => None,
    };
    let mut survived = BTreeSet::from([0]);
    for (index, attempt) in history.attempts.iter().enumerate().skip(1) {
        let shown: BTreeSet<bool> = attempt.accesses.iter().filter_map(shows).collect();
        if shown.len() > 1 {
            return Err(format!("half of a commit was found:\n  {}", history.text(index)));
        }
        if shown.contains(&true) {
            survived.insert(index);
        }
        if shown.is_empty() && removed_by_survivor(attempt, &removers, &lists, history) {
            survived.insert(index);
        }
    }
    Ok(survived)
}

/// Returns true if all that an attempt inserted was removed again by one that survived. Whoever
/// removes also appends to a list, by which it is known.
fn removed_by_survivor(
    attempt: &Attempt,
    removers: &BTreeMap<(usize, Element), usize>,
    lists: &[BTreeSet<Element>],
    history: &History,
) -> bool {
    let survives = |remover: usize| {
        history.attempts[remover].accesses.iter().any(|access| {
            matches!(access, Access::Append { list, element } if lists[*list].contains(element))
        })
    };
    attempt.accesses.iter().any(|access| {
        let Access::Insert { set, element } = access else { return false };
        removers.get(&(*set, *element)).is_some_and(|&remover| survives(remover))
    })
}

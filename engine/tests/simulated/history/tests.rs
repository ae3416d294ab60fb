//! Tests of the checker with histories written by hand.

#![cfg(test)]

use crate::history::check::check;
use crate::history::survivors::check_survivors;
use crate::history::{Access, Attempt, Element, Fate, History, Stored};

/// Reads a history. Each line is an attempt: the times of its begin and end, its fate if it was not
/// committed, and its accesses. `r0=1,2` is a read of list 0, `a0=3` an append to it; `s0=1,2` is a
/// scan of the whole of set 0, `s0[5-9]=7` of a part, `i0=3` an insertion and `d0=3` a removal.
/// `e0=3` says that the element may expire, once it was begun.
fn history(initial: &Stored, text: &str) -> History {
    let mut history = History::new(initial);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let (begun, ended) = words.next().unwrap().split_once('-').expect(line);
        let (fate, ended) = match ended {
            "abort" => (Fate::Aborted, u64::MAX),
            "?" => (Fate::Unknown, u64::MAX),
            "" => (Fate::Committed, u64::MAX),
            ended => (Fate::Committed, ended.parse().expect(line)),
        };
        let accesses = words.map(access).collect();
        let begun = begun.parse().expect(line);
        history.attempts.push(Attempt { what: "by hand".into(), accesses, fate, begun, ended });
    }
    history
}

fn access(word: &str) -> Access {
    let (place, elements) = word[1..].split_once('=').expect(word);
    let elements = elements.split(',').filter(|element| !element.is_empty());
    let elements: Vec<Element> = elements.map(|element| element.parse().expect(word)).collect();
    let (place, range) = match place.split_once('[') {
        None => (place, (0, Element::MAX)),
        Some((place, range)) => {
            let (from, to) = range.trim_end_matches(']').split_once('-').expect(word);
            (place, (from.parse().expect(word), to.parse().expect(word)))
        }
    };
    let place = place.parse().expect(word);
    match &word[..1] {
        "r" => Access::Read { list: place, elements },
        "a" => Access::Append { list: place, element: elements[0] },
        "i" => Access::Insert { set: place, element: elements[0] },
        "d" => Access::Remove { set: place, element: elements[0] },
        "e" => Access::Expire { set: place, element: elements[0] },
        "s" => {
            let (elements, (from, to)) = (elements.into_iter().collect(), range);
            Access::Scan { set: place, from, to, elements }
        }
        _ => panic!("{word}"),
    }
}

fn two_of_each() -> Stored {
    Stored { lists: vec![Vec::new(); 2], sets: vec![Default::default(); 2] }
}

/// Returns what the check says, up to the first line break or comma: `ok` if it finds nothing.
fn verdict(text: &str) -> String {
    match check(&history(&two_of_each(), text), |_| false) {
        Ok(_) => "ok".to_owned(),
        Err(text) => text.split([',', '\n', ':']).next().unwrap().to_owned(),
    }
}

#[test]
fn good_histories_pass() {
    for text in [
        "",
        "1-2 r0= a0=1
         3-4 r0=1 a0=2 r0=1,2
         5-6 r0=1,2",
        // A reader that is concurrent with the append may see it or not.
        "1-9 r0= a0=1
         2-3 r0=
         4-5 r0=1",
        // Of those that were refused, or whose fate is unknown and that nobody saw, nothing counts.
        "1-abort r0= a0=1
         2-? r0= a0=2 a1=2
         3-4 r0= r1=",
        // Who was seen has happened, although it was not acknowledged.
        "1-? r0= a0=1 i1=4
         3-4 r0=1 s1=4
         5-6 r0=1 a0=2
         7-8 r0=1,2",
        // Insertions and removals, and scans of a part.
        "1-2 i0=5
         3-4 i0=7
         5-6 s0=5,7 d0=5 a0=1
         7-8 s0[0-6]= s0[6-9]=7 i0=6 s0[0-6]=6
         9-10 s0=6,7",
        // Neither sees the other's insertion, but not in the part that it scanned.
        "1-5 s0[0-4]= i0=7
         2-6 s0[8-9]= i0=3
         8-9 s0=3,7",
        // Who saw an element is before its expiry, who did not is after it, or before it was there.
        "1-2 i0=5
         1- e0=5
         3-4 r0= s0=5 a0=1
         5-6 s0= r0=1 a1=2",
        "1-2 i0=5
         1- e0=5
         3-8 s0=5 a0=1
         4-9 s0= a1=2",
        "1-9 i0=5
         1- e0=5
         2-3 s0= a1=1
         4-5 s0=5",
        // A reader may look while the first one, which relied on the element, is being written.
        "1-2 i0=5
         1- e0=5
         3-8 s0=5 r0= a0=1
         4-7 s0= r0=",
    ] {
        assert_eq!(verdict(text), "ok", "{text}");
    }
}

#[test]
fn anomalies_are_found_and_named() {
    for (wanted, text) in [
        (
            "G0",
            "1-9 a0=1 a1=1
             2-8 a0=2 a1=2
             10-11 r0=1,2 r1=2,1",
        ),
        ("G1a", "1-abort a0=1\n 2-3 r0=1"),
        ("G1a", "1-abort i0=1\n 2-3 s0=1"),
        ("G1b", "1-4 a0=1 a0=2\n 2-3 r0=1\n 5-6 r0=1,2"),
        (
            "G1c",
            "1-9 r1=2 a0=1
             2-8 r0=1 a1=2
             10-11 r0=1 r1=2",
        ),
        // A lost update: both saw the first version.
        (
            "G-single",
            "1-8 r0= a0=1
             2-9 r0= a0=2
             10-11 r0=1,2",
        ),
        // A read skew.
        (
            "G-single",
            "1-2 a0=1 a1=1
             3-4 r0= r1=1",
        ),
        // A write skew.
        (
            "G2",
            "1-8 r0= a1=1
             2-9 r1= a0=2
             10-11 r0=2 r1=1",
        ),
        // Phantoms: each scan misses what the other inserts; one of a part, one by a removal.
        (
            "G2",
            "1-8 s0= i1=1
             2-9 s1= i0=2
             10-11 s0=2 s1=1",
        ),
        (
            "G2",
            "1-8 s0[0-5]= a0=1
             2-9 r0= i0=4",
        ),
        (
            "G2",
            "1-2 i0=4
             3-8 s0=4 a0=1
             3-9 r0= d0=4 a1=1",
        ),
        // One relies on an element after another one has relied on its absence.
        (
            "G2",
            "1-2 i0=5
             1- e0=5
             3-9 s0=5 r0= a0=1
             4-8 s0= r0= a1=2",
        ),
        // What had expired is there again, and what was persisted is gone.
        ("G-single with real time", "1-2 i0=5\n 1- e0=5\n 3-4 s0= a1=2\n 5-6 s0=5"),
        ("G-single with real time", "1-2 i0=5\n 1-abort e0=5\n 3-4 s0= a1=2"),
        // A stale read, and an append that nobody sees any more.
        ("G-single with real time", "1-2 r0= a0=1\n 3-4 r0=\n 5-6 r0=1"),
        ("G-single with real time", "1-2 r0= a0=1\n 3-4 r0="),
        ("G-single with real time", "1-2 i0=1\n 3-4 s0="),
        // Reads in an order that contradicts the one of the writes.
        ("G1c with real time", "1-2 r0=1\n 3-4 a0=1"),
        ("two orders of list 0", "1-9 a0=1\n 1-9 a0=2\n 2-3 r0=1,2\n 2-3 r0=2,1"),
        ("nobody wrote 3", "1-2 r0=3"),
        ("two write the same element", "1-2 a0=3\n 1-2 a0=3"),
        ("an element is twice in list 0", "1-2 a0=3\n 3-4 r0=3,3"),
        ("it does not see its own writes", "1-2 a0=3 r0="),
        ("it does not see its own writes", "1-2 i0=3 s0="),
        ("it does not see its own writes", "1-2 i0=3\n 3-4 d0=3 a0=1 s0=3"),
    ] {
        assert_eq!(verdict(text), wanted, "{text}");
    }
}

#[test]
fn a_witness_is_a_shortest_cycle() {
    let text = "1-2 r1= a1=9
         3-8 r0= a0=1
         4-9 r0= a0=2
         10-11 r0=1,2 r1=9";
    let told = check(&history(&two_of_each(), text), |_| false).unwrap_err();
    let wanted = "G-single, a read skew or lost update:
  T3 Rw T2
  T2 Ww T3
  T2: by hand, Committed [3, 8]: list 0 had 0 elements, the last []; append 1 to list 0
  T3: by hand, Committed [4, 9]: list 0 had 0 elements, the last []; append 2 to list 0
";
    assert_eq!(told, wanted);
}

/// Returns what the check of survivors says. All commits that end at or before `durable` must
/// survive.
fn survivors(text: &str, lists: [&[Element]; 2], sets: [&[Element]; 2], durable: u64) -> String {
    let before = Stored { lists: vec![vec![100], Vec::new()], ..two_of_each() };
    let history = history(&before, text);
    let found = Stored {
        lists: lists.map(<[Element]>::to_vec).to_vec(),
        sets: sets.map(|set| set.iter().copied().collect()).to_vec(),
    };
    let must_survive = |index: usize| history.attempts[index].ended <= durable;
    match check_survivors(&history, &found, must_survive) {
        Ok(()) => "ok".to_owned(),
        Err(text) => text.split([',', '\n']).next().unwrap().to_owned(),
    }
}

/// An element that may have expired says nothing about its commit by its absence.
#[test]
fn what_has_expired_is_not_lost() {
    let text = "1-2 r0=100 a0=1 i0=1\n 1- e0=1\n 3-4 i1=2";
    assert_eq!(survivors(text, [&[100, 1], &[]], [&[], &[2]], 4), "ok");
    assert_eq!(survivors(text, [&[100, 1], &[]], [&[1], &[2]], 4), "ok");
    let lost = survivors(text, [&[100], &[]], [&[], &[2]], 4);
    assert_eq!(lost, "an acknowledged commit is lost:");
}

#[test]
fn what_a_crash_left_is_a_prefix() {
    let text = "1-2 r0=100 a0=1 i0=1
         3-4 s0=1 d0=1 a1=2
         5-6 r0=100,1 a0=3
         7-? r0=100,1,3 a0=4 a1=4
         8-abort a1=5";
    let lists = |a: &'static [Element], b: &'static [Element]| [a, b];
    for (wanted, lists, set, durable) in [
        ("ok", lists(&[100], &[]), &[][..], 0),
        ("ok", lists(&[100, 1], &[]), &[1], 2),
        ("ok", lists(&[100, 1], &[2]), &[], 4),
        ("ok", lists(&[100, 1, 3], &[2]), &[], 6),
        ("ok", lists(&[100, 1, 3, 4], &[2, 4]), &[], 6),
        ("an acknowledged commit is lost:", lists(&[100, 1], &[2]), &[], 6),
        ("after the crash: G-single", lists(&[100, 1], &[]), &[], 0),
        ("half of a commit was found:", lists(&[100, 1, 3, 4], &[2]), &[], 0),
        ("a commit is lost", lists(&[100, 1, 3], &[]), &[1], 0),
        ("a commit is lost", lists(&[100, 1, 4], &[2, 4]), &[], 0),
        ("after the crash: G-single with real time", lists(&[], &[]), &[], 0),
        ("after the crash: G1a", lists(&[100, 1], &[2, 5]), &[], 0),
        ("after the crash: G-single", lists(&[100, 1], &[2]), &[1], 0),
        ("after the crash: nobody wrote 9", lists(&[100, 1, 9], &[2]), &[], 0),
        ("after the crash: two orders of list 0:", lists(&[100, 3, 1], &[2]), &[], 0),
    ] {
        assert_eq!(survivors(text, lists, [set, &[]], durable), wanted, "{lists:?} {set:?}");
    }
}

/// A commit that failed after its bytes were written may come back once the commits behind it are
/// lost.
#[test]
fn a_failed_commit_may_come_back_instead_of_later_ones() {
    let text = "1-? r0=100 a0=1\n 3-4 r0=100 a0=2";
    assert_eq!(survivors(text, [&[100, 1], &[]], [&[], &[]], 0), "ok");
    assert_eq!(survivors(text, [&[100, 2], &[]], [&[], &[]], 0), "ok");
    let both = survivors(text, [&[100, 2, 1], &[]], [&[], &[]], 0);
    assert_eq!(both, "after the crash: G-single");
}

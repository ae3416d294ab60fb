//! The choice of the open tables that make room for others. It is a pure function of what was used.

/// What eviction knows about a table that a slot holds.
pub(super) struct Candidate {
    /// The table's place in the queue.
    pub(super) place: u64,
    /// The bytes that its eviction frees.
    pub(super) bytes: u64,
    /// True if the table was used since it was opened or last spared.
    pub(super) used: bool,
}

/// The outcome of [`choose`]: places in the queue.
pub(super) struct Choice {
    /// Those to evict.
    pub(super) evict: Vec<u64>,
    /// Those that were used and go to the end of the queue.
    pub(super) spare: Vec<u64>,
}

/// Chooses tables to evict, so that at least `need` bytes become free if the queue has them. This
/// is the second-chance algorithm, the queue form of CLOCK: the first table in the queue is evicted
/// unless it was used; a used one moves to the end of the queue and counts as unused again.
pub(super) fn choose(queue: impl Iterator<Item = Candidate>, need: u64) -> Choice {
    let (mut evict, mut spare) = (Vec::new(), Vec::new());
    let mut freed = 0;
    for candidate in queue {
        if freed >= need {
            break;
        }
        if candidate.used {
            spare.push(candidate);
        } else {
            freed += candidate.bytes;
            evict.push(candidate.place);
        }
    }
    // All were visited, and the queue begins again with those that were spared.
    let mut again = 0;
    while let Some(candidate) = spare.get(again).filter(|_| freed < need) {
        freed += candidate.bytes;
        evict.push(candidate.place);
        again += 1;
    }
    Choice { evict, spare: spare.drain(again..).map(|candidate| candidate.place).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::golden::{golden, pair};

    /// Decides for facts such as `need=100` and then a line for each table in the queue, such as
    /// `7 bytes=60 used`.
    fn decide(facts: &[&str]) -> String {
        let need = pair(facts[0]).1.parse().expect("the bytes that are needed");
        let queue = facts[1..].iter().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            Candidate {
                place: words[0].parse().expect("a place"),
                bytes: pair(words[1]).1.parse().expect("a number of bytes"),
                used: words.get(2) == Some(&"used"),
            }
        });
        let Choice { evict, spare } = choose(queue, need);
        let list = |places: Vec<u64>| match places.is_empty() {
            true => "none".to_string(),
            false => places.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
        };
        format!("evict {}\nspare {}", list(evict), list(spare))
    }

    #[test]
    fn golden_tables_that_were_not_used_lately_go_first() {
        golden("cache/testdata/eviction.txt", decide);
    }
}

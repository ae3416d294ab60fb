//! Chooses the leader of a group commit, and the waiting writers that it commits together.
//!
//! At any time at most one writer leads. Whoever takes the lead passes it on when its group is
//! done: to the writer that has waited longest, or to nobody if none waits.
//!
//! Locks: the queue's mutex is a leaf. Taking the lead while nobody waits takes no lock.

use crate::commit::group::Durability;
use crate::env::sync::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The greatest size of a group in bytes; a larger one would make its first writer wait for all.
const MAX_GROUP_BYTES: u64 = 1 << 20;

/// The writers that wait for a leader to commit their requests, in the order of their arrival.
pub struct CommitQueue<T> {
    waiting: Mutex<VecDeque<T>>,
    /// The length of `waiting`, to be read without its lock.
    queued: AtomicUsize,
    /// True while a writer leads or was chosen to.
    led: AtomicBool,
}

impl<T> Default for CommitQueue<T> {
    fn default() -> Self {
        CommitQueue {
            waiting: Mutex::new(VecDeque::new()),
            queued: AtomicUsize::new(0),
            led: AtomicBool::new(false),
        }
    }
}

impl<T: Clone> CommitQueue<T> {
    /// Takes the lead if nobody leads and nobody waits; returns whether it did.
    pub fn take_lead(&self) -> bool {
        // Writers that try again and again only read while another one leads.
        self.queued.load(Ordering::Acquire) == 0
            && !self.led.load(Ordering::Relaxed)
            && !self.led.swap(true, Ordering::AcqRel)
    }

    /// Adds a request. Returns the one whose writer leads from now on, if nobody did: perhaps this
    /// one, perhaps one before it.
    #[must_use]
    pub fn join(&self, request: T) -> Option<T> {
        {
            let mut waiting = self.waiting.lock();
            waiting.push_back(request);
            self.queued.fetch_add(1, Ordering::AcqRel);
        }
        // The leader may have checked the queue just before, so that now nobody leads.
        if self.led.swap(true, Ordering::AcqRel) { None } else { self.pass_on() }
    }

    /// Passes the lead to the first request of the queue, which is returned, or gives it up. The
    /// caller leads.
    #[must_use]
    pub fn pass_on(&self) -> Option<T> {
        debug_assert!(self.led.load(Ordering::Relaxed), "only a leader passes the lead on");
        loop {
            if let Some(head) = self.waiting.lock().front().cloned() {
                return Some(head);
            }
            // A writer may have queued between the check and giving up. It adds to `queued`, then
            // swaps `led`; here it is the other way round. Both have to swap: a processor may delay
            // a plain store beyond the load that follows. Then neither sees the other, nobody
            // leads, and the writer sleeps for ever.
            self.led.swap(false, Ordering::AcqRel);
            if self.queued.load(Ordering::Acquire) == 0 || self.led.swap(true, Ordering::AcqRel) {
                return None;
            }
        }
    }

    /// Takes the requests that the leader commits together from the front of the queue: as many as
    /// a group's size allows, but at least one, its own.
    pub fn take_group(&self, bytes: impl Fn(&T) -> u64) -> Vec<T> {
        debug_assert!(self.led.load(Ordering::Relaxed), "only a leader takes a group");
        let mut waiting = self.waiting.lock();
        let mut sum = 0u64;
        let fits = |request: &&T| {
            sum = sum.saturating_add(bytes(request));
            sum <= MAX_GROUP_BYTES
        };
        assert!(!waiting.is_empty(), "the leader's own request is the first of its group");
        let count = waiting.iter().take_while(fits).count().max(1);
        let group: Vec<T> = waiting.drain(..count).collect();
        self.queued.fetch_sub(group.len(), Ordering::AcqRel);
        debug_assert_eq!(self.queued.load(Ordering::Relaxed), waiting.len());
        group
    }
}

#[cfg(test)]
impl<T> CommitQueue<T> {
    /// Returns the number of waiting writers.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }
}

/// Returns the strongest of these durabilities, which a group gets as a whole; `Buffered` for no
/// request.
pub fn strongest(durabilities: impl IntoIterator<Item = Durability>) -> Durability {
    durabilities.into_iter().fold(Durability::Buffered, stronger)
}

fn stronger(a: Durability, b: Durability) -> Durability {
    let rank = |durability| match durability {
        Durability::Buffered => 0,
        Durability::Os => 1,
        Durability::SyncEvery(_) => 2,
        Durability::Sync => 3,
    };
    match (a, b) {
        (Durability::SyncEvery(a), Durability::SyncEvery(b)) => Durability::SyncEvery(a.min(b)),
        _ if rank(a) >= rank(b) => a,
        _ => b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::golden::{golden, number};

    /// A writer's name, its bytes and the durability that it asks for.
    type Writer<'a> = (&'a str, u64, Durability);

    /// Runs a case: `A 100 sync` is a writer that arrives, `late A 100 sync` one that joined the
    /// queue because somebody led when it arrived, who has given up the lead meanwhile; `group` a
    /// leader that takes its group, `done` a leader whose group is committed.
    fn run(lines: &[&str]) -> String {
        let queue = CommitQueue::<Writer<'_>>::default();
        let leads = |head: Option<Writer<'_>>| match head {
            Some((name, ..)) => format!("{name} leads\n"),
            None => "nobody leads\n".to_owned(),
        };
        let mut text = String::new();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            text += &match words[..] {
                ["group"] => group(&queue.take_group(|(_, bytes, _)| *bytes)),
                ["done"] => leads(queue.pass_on()),
                [.., name, bytes, durability] => {
                    let writer = (name, number(bytes), durability.parse().expect(line));
                    if words[0] != "late" && queue.take_lead() {
                        format!("{name} leads alone\n")
                    } else {
                        match queue.join(writer) {
                            None => format!("{name} waits\n"),
                            head => leads(head),
                        }
                    }
                }
                _ => panic!("{line}"),
            };
        }
        text
    }

    fn group(writers: &[Writer<'_>]) -> String {
        let names: String = writers.iter().map(|(name, ..)| format!("{name} ")).collect();
        format!("{names}with {}\n", strongest(writers.iter().map(|writer| writer.2)))
    }

    /// A leader gives up the lead while a writer joins: one of them finds the writer, which would
    /// wait for ever otherwise. Only true parallelism can show it, so simulations can't.
    #[test]
    fn who_joins_while_the_lead_is_given_up_is_found() {
        const ROUNDS: usize = 20_000;
        let queue = CommitQueue::<usize>::default();
        let (joining, joined) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let found = AtomicUsize::new(0);
        let wait_for = |number: &AtomicUsize, round: usize| {
            for turn in 0.. {
                if number.load(Ordering::Acquire) >= round {
                    break;
                }
                // The other thread may need this processor.
                if turn % 1000 == 999 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    wait_for(&joining, round);
                    found.fetch_add(usize::from(queue.join(round).is_some()), Ordering::Relaxed);
                    joined.store(round, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                assert!(queue.take_lead());
                joining.store(round, Ordering::Release);
                found.fetch_add(usize::from(queue.pass_on().is_some()), Ordering::Relaxed);
                wait_for(&joined, round);
                if found.load(Ordering::Relaxed) != round {
                    // The other thread is let go before the failure is told.
                    joining.store(ROUNDS, Ordering::Release);
                }
                assert_eq!(found.load(Ordering::Relaxed), round, "nobody leads in round {round}");
                assert_eq!(queue.take_group(|_| 1), [round]);
                assert_eq!(queue.pass_on(), None);
            }
        });
    }

    #[test]
    fn golden_waiting_writers_are_committed_together() {
        golden("commit/testdata/queue.txt", run);
    }
}

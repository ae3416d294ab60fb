//! Golden tests of the rules, one file for each, and one for how they work together. Each line of a
//! case is a word and facts as `name=value`; what a line leaves out is as in the line before or, at
//! first, as in a database with the default options in which nothing has happened.

use crate::base::golden::{golden, number, pair};
use crate::base::size::sized;
use crate::gc::bounds::{SpaceBounds, SpaceMarks};
use crate::gc::settings::GcOptions;
use crate::throttle::admit;
use crate::throttle::ceiling::{PaceFacts, SpacePace, is_worth_waiting, pace, take_place};
use crate::throttle::disk::{DiskSpace, base_bytes};
use crate::throttle::reads::{
    BackgroundRate, BudgetLanes, IoPriority, ReadLimit, ReadWindow, level0_presses, space_presses,
};
use crate::throttle::retry;
use crate::throttle::tree::{MOST_UNSYNCED, StallFacts, StallLimits, Verdict, rotation_waits};
use std::cell::RefCell;
use std::time::Duration;

/// Splits a line into its first word and its facts.
fn words(line: &str) -> (&str, impl Iterator<Item = (&str, &str)>) {
    let (word, facts) = line.split_once(' ').unwrap_or((line, ""));
    (word, facts.split(' ').filter(|word| !word.is_empty()).map(pair))
}

/// Parses a number of milliseconds.
fn millis(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse::<f64>().expect(text) / 1e3)
}

/// The options and facts of the rules of the tree: `limits memtables=2 slow=20 stop=36
/// replay=512M`, which are the defaults, and `write memtables=1 level0=2 log=3M`.
struct TreeCase(StallLimits);

impl Default for TreeCase {
    fn default() -> Self {
        TreeCase(StallLimits {
            immutables: 2,
            level0_slow: 20,
            level0_full: 36,
            replay_bytes: 512 << 20,
            unsynced: MOST_UNSYNCED,
            memtable_bytes: u64::MAX,
        })
    }
}

impl TreeCase {
    fn set(&mut self, name: &str, value: &str) {
        let value = number(value);
        match name {
            "memtables" => self.0.immutables = value as usize,
            "slow" => self.0.level0_slow = value as usize,
            "stop" => self.0.level0_full = value as usize,
            "replay" => self.0.replay_bytes = value,
            "unsynced" => self.0.unsynced = value as usize,
            _ => panic!("{name}"),
        }
    }

    fn judge(&self, facts: StallFacts) -> String {
        self.0.check();
        match self.0.judge(facts) {
            Verdict::Go => "goes on".to_owned(),
            Verdict::Delay(time) => format!("is delayed by {time:?}"),
            Verdict::Wait(reason) => format!("waits: {}", reason.name()),
        }
    }
}

/// Sets a fact of the tree; returns false if there is none of that name.
fn set_tree(facts: &mut StallFacts, name: &str, value: &str) -> bool {
    match name {
        "memtables" => facts.immutables = number(value) as usize,
        "level0" => facts.level0 = number(value) as usize,
        "log" => facts.backlog = number(value),
        "unsynced" => facts.unsynced = number(value) as usize,
        _ => return false,
    }
    true
}

fn decide_tree(lines: &[&str]) -> String {
    let (mut tree, mut text) = (TreeCase::default(), String::new());
    for line in lines {
        let (word, named) = words(line);
        if word == "limits" {
            named.for_each(|(name, value)| tree.set(name, value));
            continue;
        }
        assert_eq!(word, "write", "{line}");
        let mut facts = StallFacts::default();
        named.for_each(|(name, value)| assert!(set_tree(&mut facts, name, value), "{line}"));
        text += &(tree.judge(facts) + "\n");
    }
    text
}

#[test]
fn i10_golden_stall_rules() {
    golden("throttle/testdata/tree.txt", decide_tree);
}

#[test]
#[should_panic(expected = "replay_bytes: 0")]
fn limits_that_hold_up_every_write_are_a_bug() {
    StallLimits { replay_bytes: 0, ..TreeCase::default().0 }.check();
}

/// The facts about space, and the bounds that the options set: `bounds ceiling=1.3 allowance=0`,
/// `space live=1G allocated=1.8G inserts=0.5 log=3M winnable=10M freed=100M`.
struct SpaceCase {
    bounds: SpaceBounds,
    facts: PaceFacts,
}

impl Default for SpaceCase {
    fn default() -> Self {
        let facts = PaceFacts {
            allocated: 0,
            live: 0,
            start: 0,
            limit: 0,
            slack: 0,
            segment_bytes: 64 << 20,
            ceiling: 0.0,
            insert_share: 0.0,
            flushed_share: 0.0,
            memtables: 1,
            log_bytes: 0,
            winnable: 10 << 20,
            freed_per_second: 0,
        };
        SpaceCase { bounds: SpaceBounds::new(&GcOptions::default()), facts }
    }
}

impl SpaceCase {
    fn set(&mut self, name: &str, value: &str) {
        let ratio = || value.parse::<f64>().expect(value);
        match name {
            "ceiling" => self.bounds.ceiling = ratio(),
            "allowance" => self.bounds.allowance = number(value),
            "live" => self.facts.live = number(value),
            "allocated" => self.facts.allocated = number(value),
            "inserts" => self.facts.insert_share = ratio(),
            "flushed" => self.facts.flushed_share = ratio(),
            "segment" => self.facts.segment_bytes = number(value),
            "memtables" => self.facts.memtables = number(value),
            "to_flush" => self.bounds.to_flush = number(value),
            "log" => self.facts.log_bytes = number(value),
            "winnable" => self.facts.winnable = number(value),
            "freed" => self.facts.freed_per_second = number(value),
            _ => panic!("{name}"),
        }
    }

    fn marks(&self) -> SpaceMarks {
        self.bounds.ceiling(self.facts.live)
    }

    fn pace(&self) -> SpacePace {
        let (marks, ceiling) = (self.marks(), self.bounds.ceiling);
        pace(&PaceFacts {
            start: marks.start(),
            limit: marks.before_flushes(),
            slack: marks.slack(),
            ceiling,
            ..self.facts
        })
    }

    /// Says how long the place of a write in the queue is once this much more log was written.
    fn write(&self, after: u64, bytes: u64) -> String {
        match self.pace().cost(bytes, self.facts.log_bytes + after) {
            0 => "goes on".to_owned(),
            cost => format!("takes {:?}", Duration::from_nanos(cost)),
        }
    }
}

/// Decides what a write costs: `write bytes=1k after=3M`, which is that much log after the pace was
/// set. `memtable` says when one is full. `queue taken=3 now=1 cost=2` is a place in the queue, in
/// milliseconds.
fn decide_ceiling(lines: &[&str]) -> String {
    let (mut space, mut text) = (SpaceCase::default(), String::new());
    for line in lines {
        let (word, named) = words(line);
        match word {
            "bounds" | "space" => named.for_each(|(name, value)| space.set(name, value)),
            "write" => {
                let mut facts = [0, 0];
                for (name, value) in named {
                    facts[usize::from(name == "after")] = number(value);
                }
                text += &(space.write(facts[1], facts[0]) + "\n");
            }
            "queue" => {
                let times: Vec<u64> =
                    named.map(|(_, value)| millis(value).as_nanos() as u64).collect();
                let [taken, now, cost] = times[..] else { panic!("{line}") };
                let until = take_place(taken, now, cost);
                let waits = if is_worth_waiting(now, until) { "waits" } else { "does not wait" };
                text += &format!("{waits}, taken until {:?}\n", Duration::from_nanos(until));
            }
            "memtable" => match space.pace().memtable_bytes {
                u64::MAX => text += "as its keyspace says\n",
                bytes => text += &format!("full at {} MiB\n", bytes >> 20),
            },
            _ => panic!("{line}"),
        }
    }
    text
}

#[test]
fn i10_golden_ceiling_of_space() {
    golden("throttle/testdata/ceiling.txt", decide_ceiling);
}

/// The facts about the disk: `disk store=1G segment=64M free=100M unflushed=10M merge=20M`.
struct DiskCase {
    store: u64,
    segment: u64,
    found: DiskSpace,
    is_low: bool,
}

impl Default for DiskCase {
    fn default() -> Self {
        let found = DiskSpace { free: u64::MAX, base: 0, unflushed: 0, unmerged: 0 };
        DiskCase { store: 0, segment: 64 << 20, found, is_low: false }
    }
}

impl DiskCase {
    fn set(&mut self, name: &str, value: &str) -> bool {
        match name {
            "store" => self.store = number(value),
            "segment" => self.segment = number(value),
            "free" => self.found.free = number(value),
            "unflushed" => self.found.unflushed = number(value),
            "merge" => self.found.unmerged = number(value),
            _ => return false,
        }
        true
    }

    fn check(&mut self) {
        self.found.base = base_bytes(self.store, self.segment);
        self.is_low = self.found.is_low(self.is_low);
    }

    fn admits(&self, only_deletes: bool) -> bool {
        !self.is_low || self.found.admits_when_low(only_deletes)
    }
}

fn decide_disk(lines: &[&str]) -> String {
    let (mut disk, mut text) = (DiskCase::default(), String::new());
    for line in lines {
        let (word, named) = words(line);
        assert_eq!(word, "disk", "{line}");
        named.for_each(|(name, value)| assert!(disk.set(name, value), "{line}"));
        disk.check();
        let who = match (disk.admits(false), disk.admits(true)) {
            (true, _) => "all go on",
            (false, true) => "puts are refused",
            (false, false) => "puts and deletions are refused",
        };
        let (found, DiskSpace { free, .. }) = (disk.found, disk.found);
        text += &format!(
            "{who}; reserve {}, a job may fill {}, next look after {}\n",
            sized(found.reserve()),
            sized(found.usable(free)),
            sized(found.next_check())
        );
    }
    text
}

#[test]
fn i09_golden_reserve_of_the_disk() {
    golden("throttle/testdata/disk.txt", decide_disk);
}

/// What is known of reads, and who spends: `cap rate=20M`, `quiet micros=100`, `window
/// micros=200 millis=100 spent=50M`, `level0 score=2.5`, `space near low winnable=1M`, and
/// `compaction bytes=1M at=5`, in milliseconds, likewise `gc` and `flush`.
#[derive(Default)]
struct ReadsCase {
    cap: Option<u64>,
    limit: ReadLimit,
    is_pressed: bool,
    lanes: BudgetLanes,
}

impl ReadsCase {
    fn rate(&self) -> BackgroundRate {
        self.limit.in_force(self.cap, self.is_pressed)
    }

    fn describe(&self) -> String {
        match self.rate() {
            BackgroundRate::Unlimited => "there is no limit".to_owned(),
            BackgroundRate::Capped(rate) => format!("the cap is {}/s", sized(rate as u64)),
            BackgroundRate::ForReads(rate) => format!("for reads, {}/s", sized(rate as u64)),
        }
    }

    fn spend(&mut self, priority: IoPriority, bytes: u64, at: Duration) -> String {
        match self.lanes.charge(priority, bytes, self.rate(), at) {
            None => "is not held up".to_owned(),
            Some(until) => format!("waits until {until:.0?}"),
        }
    }

    fn window(&mut self, micros: Option<f64>, elapsed: Duration, spent: u64) -> String {
        if !ReadLimit::is_due(elapsed) {
            return "the window goes on".to_owned();
        }
        let busy_nanos = micros.map(|micros| micros * 1e3);
        match self.limit.judge(ReadWindow { elapsed, busy_nanos, spent }) {
            false => "the window goes on".to_owned(),
            true => self.describe(),
        }
    }

    fn decide(&mut self, line: &str) -> String {
        let (word, named) = words(line);
        let named: Vec<_> = named.collect();
        let find = |wanted| named.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        let float = |name| find(name).map(|value| value.parse::<f64>().expect(value));
        let bytes = |name| find(name).map_or(0, number);
        let time = |name| find(name).map_or(Duration::ZERO, millis);
        match word {
            "cap" => self.cap = find("rate").map(number),
            "quiet" => self.limit.learn(float("micros").expect(line) * 1e3),
            "window" => return self.window(float("micros"), time("millis"), bytes("spent")),
            "level0" => {
                let delays_writers = find("delays").is_some();
                self.is_pressed = level0_presses(float("score").expect(line), delays_writers);
            }
            "space" => {
                let [near, low] = ["near", "low"].map(|name| find(name).is_some());
                self.is_pressed = space_presses(near, low, bytes("winnable"));
            }
            "flush" => return self.spend(IoPriority::Flush, bytes("bytes"), time("at")),
            "compaction" => return self.spend(IoPriority::Compaction, bytes("bytes"), time("at")),
            "gc" => return self.spend(IoPriority::Gc, bytes("bytes"), time("at")),
            _ => panic!("{line}"),
        }
        self.describe()
    }
}

#[test]
fn golden_background_work_gives_way_to_reads() {
    golden("throttle/testdata/reads.txt", |lines| {
        let mut reads = ReadsCase::default();
        lines.iter().map(|line| reads.decide(line) + "\n").collect()
    });
}

#[test]
fn i09_golden_rests_after_failures() {
    golden("throttle/testdata/retry.txt", |lines| {
        let rest = |line: &&str| match line.split_once(" times=") {
            Some(("job", times)) => retry::pause(times.parse().expect(line)),
            Some(("segment", times)) => (0..times.parse().expect(line))
                .fold(None, |before, _: u32| Some(retry::segment_rest(before)))
                .expect(line),
            _ => panic!("{line}"),
        };
        lines.iter().map(|line| format!("{:?}\n", rest(line))).collect()
    });
}

/// Decides about a `put` or a `delete` of 1 KiB by all rules that a writer meets, and says how fast
/// background work may go on meanwhile.
fn decide_together(lines: &[&str]) -> String {
    let (mut tree, mut space, mut disk) =
        (StallFacts::default(), SpaceCase::default(), DiskCase::default());
    let (mut reads, mut text) = (ReadsCase::default(), String::new());
    for line in lines {
        let (word, named) = words(line);
        match word {
            "tree" => named.for_each(|(name, value)| assert!(set_tree(&mut tree, name, value))),
            "space" => named.for_each(|(name, value)| space.set(name, value)),
            "disk" => named.for_each(|(name, value)| assert!(disk.set(name, value))),
            "quiet" | "window" => drop(reads.decide(line)),
            "put" | "delete" => {
                disk.check();
                let near = space.facts.allocated > space.marks().start();
                // L0's compaction is due at four tables by default.
                let delays_writers = tree.level0 >= TreeCase::default().0.level0_slow;
                reads.is_pressed = level0_presses(tree.level0 as f64 / 4.0, delays_writers)
                    || space_presses(near, disk.is_low, space.facts.winnable);
                let met = RefCell::new(Vec::new());
                let note = |text: String| met.borrow_mut().push(text);
                let by_tree = || {
                    note(format!("by the tree {}", TreeCase::default().judge(tree)));
                    Ok(())
                };
                let admitted = admit(
                    || disk.admits(word == "delete").then_some(()).ok_or("is refused"),
                    by_tree,
                    || note(format!("by space {}", space.write(0, 1 << 10))),
                );
                admitted.unwrap_or_else(|text| note(text.to_owned()));
                let write = met.take().join("; ");
                text += &format!("{write}; background: {}\n", reads.describe());
            }
            _ => panic!("{line}"),
        }
    }
    text
}

#[test]
fn i10_golden_rules_together() {
    golden("throttle/testdata/together.txt", decide_together);
}

/// Writers are held up before they come to hold the log, and only what was admitted before makes
/// one of them wait with it.
#[test]
fn a_rotation_waits_for_syncs_long_after_writers_do() {
    assert!(!rotation_waits(MOST_UNSYNCED));
    assert!(rotation_waits(2 * MOST_UNSYNCED));
}

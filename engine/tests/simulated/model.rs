//! The model that every recovery is compared with: the contents a database may have after a crash.
//!
//! Commits are kept in the order they were made. A crash leaves a prefix of them (I2), each whole
//! (I1). The least length of the prefix depends on what was acknowledged and on whether the process
//! or the power failed. An operation whose outcome is unknown stays open until a recovery shows it.

use cleavedb::Durability;
use std::collections::BTreeMap;

/// The pairs of a keyspace.
pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// The number of a keyspace from its creation to its drop. A keyspace that is created again under
/// the same name is another life.
pub type Life = usize;

/// One operation of a commit.
#[derive(Clone, Debug)]
pub struct Write {
    pub life: Life,
    pub key: Vec<u8>,
    /// The value that is put or appended; `None` for a deletion.
    pub value: Option<Vec<u8>>,
    /// True if the value is appended to what is there.
    pub appends: bool,
    /// The excluded end of the range from `key` on that is deleted; `None` if it is `key` alone.
    pub until: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Commit {
    writes: Vec<Write>,
    /// True if the call returned an error and the database went on.
    failed: bool,
}

#[derive(Clone, Default)]
pub struct Model {
    /// The state after all commits that come before `commits`.
    base: BTreeMap<Life, Contents>,
    commits: Vec<Commit>,
    /// The number of `commits` that must survive the end of the process.
    os_floor: usize,
    /// The number of `commits` that must survive a power cut.
    sync_floor: usize,
    /// The lives that each name may have; more than one if a creation or drop was cut short.
    names: BTreeMap<String, Vec<Option<Life>>>,
    lives: usize,
}

impl Model {
    /// Returns the life of `name`, or `None` if it is not certain that it exists.
    pub fn life(&self, name: &str) -> Option<Life> {
        match self.names.get(name).map(Vec::as_slice) {
            Some([only]) => *only,
            _ => None,
        }
    }

    /// Records that a keyspace is about to be created.
    pub fn begin_create(&mut self, name: &str) -> Life {
        self.lives += 1;
        self.names.entry(name.to_owned()).or_insert_with(|| vec![None]).push(Some(self.lives));
        self.lives
    }

    /// Records that a keyspace is about to be dropped.
    pub fn begin_drop(&mut self, name: &str) {
        self.names.get_mut(name).expect("it exists").push(None);
    }

    /// Records that the last creation or drop of `name` was acknowledged.
    pub fn settle_name(&mut self, name: &str) {
        let possible = self.names.get_mut(name).expect("it was begun");
        *possible = possible.last().copied().into_iter().collect();
    }

    /// Records that a commit is about to be made, and returns its number.
    pub fn begin_commit(&mut self, writes: Vec<Write>) -> usize {
        self.commits.push(Commit { writes, failed: false });
        self.commits.len() - 1
    }

    /// Records that the newest commit was acknowledged.
    pub fn acknowledge(&mut self, durability: Durability) {
        let count = self.commits.len();
        match durability {
            Durability::Buffered => {}
            Durability::Sync => self.everything_is_durable(),
            _ => self.os_floor = count,
        }
    }

    /// Records that the newest commit was refused, or that its outcome is unknown.
    pub fn fail_commit(&mut self) {
        self.commits.last_mut().expect("it was begun").failed = true;
    }

    /// Records that everything committed so far must survive a power cut.
    pub fn everything_is_durable(&mut self) {
        (self.os_floor, self.sync_floor) = (self.commits.len(), self.commits.len());
    }

    /// Returns the contents that a reader sees now, if no operation is open.
    pub fn now(&self) -> BTreeMap<String, Contents> {
        let state = self.state(self.commits.len(), None);
        let lives = self.names.iter().filter_map(|(name, possible)| {
            let life = possible.iter().rev().find_map(|life| *life).filter(|_| {
                // A keyspace whose creation or drop was not acknowledged is taken to be there.
                possible.len() > 1 || possible[0].is_some()
            })?;
            Some((name.clone(), state.get(&life).cloned().unwrap_or_default()))
        });
        lives.collect()
    }

    /// Returns the state after the first `count` commits; of the failed ones only `revived` counts.
    fn state(&self, count: usize, revived: Option<usize>) -> BTreeMap<Life, Contents> {
        let mut state = self.base.clone();
        for (number, commit) in self.commits[..count].iter().enumerate() {
            if !commit.failed || revived == Some(number) {
                apply(&mut state, commit);
            }
        }
        state
    }

    /// Compares what a recovery found with what the model allows, and continues from there. If
    /// `power_failed` is false, only the process ended.
    pub fn recover(
        &mut self,
        found: &BTreeMap<String, Contents>,
        power_failed: bool,
    ) -> Result<(), String> {
        let lives = self.match_names(found)?;
        let floor = if power_failed { self.sync_floor } else { self.os_floor };
        let failed = (0..self.commits.len()).filter(|&number| self.commits[number].failed);
        let choices: Vec<Option<usize>> = std::iter::once(None).chain(failed.map(Some)).collect();
        for revived in choices {
            let mut state = self.state(floor, revived);
            for count in floor..=self.commits.len() {
                if count > floor {
                    let commit = &self.commits[count - 1];
                    if !commit.failed || revived == Some(count - 1) {
                        apply(&mut state, commit);
                    }
                }
                if is_equal(&state, found, &lives) {
                    self.settle(found, &lives);
                    return Ok(());
                }
            }
        }
        Err(self.explain(found, &lives, floor))
    }

    /// Returns the life of each name that was found.
    fn match_names(
        &self,
        found: &BTreeMap<String, Contents>,
    ) -> Result<BTreeMap<String, Life>, String> {
        let mut lives = BTreeMap::new();
        for name in found.keys() {
            let possible = self.names.get(name).map_or(&[][..], Vec::as_slice);
            match possible.iter().flatten().last() {
                Some(life) => lives.insert(name.clone(), *life),
                None => return Err(format!("keyspace {name} should not exist")),
            };
        }
        for (name, possible) in &self.names {
            if !found.contains_key(name) && !possible.contains(&None) {
                return Err(format!("keyspace {name} is gone"));
            }
        }
        Ok(lives)
    }

    fn settle(&mut self, found: &BTreeMap<String, Contents>, lives: &BTreeMap<String, Life>) {
        self.base = lives.iter().map(|(name, life)| (*life, found[name].clone())).collect();
        for (name, possible) in &mut self.names {
            *possible = vec![lives.get(name).copied()];
        }
        self.commits.clear();
        (self.os_floor, self.sync_floor) = (0, 0);
    }

    fn explain(
        &self,
        found: &BTreeMap<String, Contents>,
        lives: &BTreeMap<String, Life>,
        floor: usize,
    ) -> String {
        let total = self.commits.len();
        let mut text = format!("no prefix of {floor} to {total} commits gives what was found");
        for (name, life) in lives {
            let fits = |count: &usize| {
                let state = self.state(*count, None);
                state.get(life).cloned().unwrap_or_default() == found[name]
            };
            let fitting: Vec<usize> = (0..=total).filter(fits).collect();
            text += &format!("\n  keyspace {name} is as after these commits: {fitting:?}");
            if fitting.is_empty() {
                let wanted = self.state(total, None).remove(life).unwrap_or_default();
                text += &difference(&wanted, &found[name]);
            }
        }
        text
    }
}

/// The merge operator of workloads that append keeps so many of the last bytes.
const KEPT_BYTES: usize = 2500;

/// Returns the name of that operator.
pub fn merge_operator() -> String {
    format!("cleavedb.Append:{KEPT_BYTES}")
}

/// Does what that operator does.
pub fn append(value: &mut Vec<u8>, operand: &[u8]) {
    value.extend_from_slice(operand);
    value.drain(..value.len().saturating_sub(KEPT_BYTES));
}

fn apply(state: &mut BTreeMap<Life, Contents>, commit: &Commit) {
    for write in &commit.writes {
        let contents = state.entry(write.life).or_default();
        match (&write.value, &write.until) {
            (Some(value), _) if write.appends => {
                append(contents.entry(write.key.clone()).or_default(), value);
            }
            (Some(value), _) => drop(contents.insert(write.key.clone(), value.clone())),
            (None, None) => drop(contents.remove(&write.key)),
            (None, Some(until)) => contents.retain(|key, _| *key < write.key || key >= until),
        }
    }
}

fn is_equal(
    state: &BTreeMap<Life, Contents>,
    found: &BTreeMap<String, Contents>,
    lives: &BTreeMap<String, Life>,
) -> bool {
    lives.iter().all(|(name, life)| match state.get(life) {
        Some(contents) => *contents == found[name],
        None => found[name].is_empty(),
    })
}

/// Describes the keys in which two contents differ, in short.
pub fn difference(wanted: &Contents, found: &Contents) -> String {
    let show = |value: Option<&Vec<u8>>| match value {
        Some(value) => format!(
            "{} bytes {:?}",
            value.len(),
            String::from_utf8_lossy(&value[..value.len().min(8)])
        ),
        None => "nothing".to_owned(),
    };
    let keys: std::collections::BTreeSet<_> = wanted.keys().chain(found.keys()).collect();
    let mut text = String::new();
    for key in keys.into_iter().filter(|key| wanted.get(*key) != found.get(*key)).take(8) {
        let name = String::from_utf8_lossy(&key[..key.len().min(12)]).into_owned();
        let (wanted, found) = (show(wanted.get(key)), show(found.get(key)));
        text += &format!("\n    {name}: after all commits {wanted}, found {found}");
    }
    text
}

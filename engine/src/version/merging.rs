//! A keyspace's merge operator at work, and the memo of values that were merged lately.
//!
//! # Why the memo never tells a wrong value
//!
//! It has, for a key, a number S and the value that all entries of the key up to S make, where S is
//! the number of an entry that was the newest of the key to some reader. A reader uses it in place
//! of the entry with the number S, and of all that is older, if it meets that entry in its own view
//! and nothing before that ends the chain (`read/operands.rs`).
//!
//! - *What is at or below S never changes for a reader at S or above.* Numbers are given out in
//!   order and become visible in order, so nothing is added below S once S is visible. Nothing
//!   expires in a keyspace with an operator, and one with a compaction filter, which could change
//!   an old value, has no memo. (I6: what compaction drops or merges, no such reader misses.)
//! - *What is newer than S is not in the value.* Compaction gives a merged entry the number of the
//!   newest that went into it, in the stratum of the oldest. So if the reader's view has an entry
//!   with the number S, those with greater numbers have nothing in them from S or before. If S was
//!   merged into a newer entry, the reader meets no entry with the number S, and does not use the
//!   memo.
//! - *A range tombstone that is newer than S* ends the chain before S is met, because the reader
//!   passes over all that is older. One that is older than S was seen by the reader who worked out
//!   the value.
//! - *A reader that does not see S* meets no entry with that number.
//!
//! A memo belongs to one open keyspace, and goes with it: a keyspace that is created later under
//! the same name has another, and numbers that a crash takes back were never in a memo of the next
//! session. A follower has no memo: it may have seen a commit that its database took back
//! afterwards, because the disk was full, and another commit gets the same numbers.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{MAX_VALUE_BYTES, SeqNo};
use crate::env::sync::Mutex;
use crate::version::built_in_merges::{built_in, is_reserved};
use crate::version::health::Health;
use crate::version::merge_operator::MergeOperator;
use crate::version::settings::KeyspaceOptions;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A read that merges more operands than this leaves the value in the memo, so that the next one
/// merges only what came since.
pub const MEMO_FROM_OPERANDS: usize = 32;
/// The memo of a keyspace has at most twice as many bytes, in two generations.
const GENERATION_BYTES: usize = 4 << 20;
/// The approximate memory of a value in the memo besides its bytes and those of its key.
const OVERHEAD_BYTES: usize = 100;

/// The merge operators that can be used: the user's own by name, and the built-in ones.
#[derive(Clone, Default)]
pub struct MergeOperators {
    by_name: BTreeMap<String, Arc<dyn MergeOperator>>,
    /// The name of an operator that was given twice.
    twice: Option<String>,
    /// The keyspaces whose values a compaction filter may change.
    filtered: BTreeSet<String>,
    /// True if another process writes, which may take numbers back.
    follows: bool,
    /// True if something stands in for an operator that was not given.
    with_stand_ins: bool,
}

/// Stands in for an operator that was not given. It makes nothing of any operand, so these stay as
/// they are.
struct StandIn(String);

impl StandIn {
    fn why(&self) -> Error {
        let what = format!("the merge operator {:?} was not given", self.0);
        Error::new(ErrorKind::WrongState, what).advise("open the database with the operator")
    }
}

impl MergeOperator for StandIn {
    fn name(&self) -> &str {
        &self.0
    }

    fn full(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Result<Vec<u8>> {
        Err(self.why())
    }

    fn check(&self, _: &[u8], _: &[u8]) -> Result<()> {
        Err(self.why())
    }
}

impl MergeOperators {
    /// Adds one of the user's operators.
    pub fn add(&mut self, operator: Arc<dyn MergeOperator>) {
        let name = operator.name().to_owned();
        if self.by_name.insert(name.clone(), operator).is_some() {
            self.twice = Some(name);
        }
    }

    /// Has something stand in for operators that are not given.
    pub fn allow_stand_ins(&mut self) {
        self.with_stand_ins = true;
    }

    /// Notes which keyspaces have a compaction filter.
    pub fn with_filtered(self, filtered: impl IntoIterator<Item = String>) -> Self {
        MergeOperators { filtered: filtered.into_iter().collect(), ..self }
    }

    /// Notes whether the database of another process is followed.
    pub fn following(self, follows: bool) -> Self {
        MergeOperators { follows, ..self }
    }

    /// Returns an error if an operator of the user's has a name that it can't have, or that of
    /// another one.
    pub fn validate(&self) -> Result<()> {
        if let Some(name) = &self.twice {
            let what = format!("two merge operators are called {name:?}");
            return Err(Error::invalid_option(what).advise("give each a name of its own"));
        }
        match self.by_name.keys().find(|name| is_reserved(name)) {
            None => Ok(()),
            Some(name) => Err(Error::invalid_option(format!(
                "a merge operator is called {name:?}, as only built-in ones are"
            ))
            .advise("choose a name that does not begin with `cleavedb.`")),
        }
    }

    /// Returns the operator at work in a new keyspace with these settings, if it has one. Fails if
    /// the operator is not known.
    pub fn of_new(
        &self,
        keyspace: &str,
        options: &KeyspaceOptions,
        health: &Arc<Health>,
    ) -> Result<Option<Arc<Merging>>> {
        self.at_work(keyspace, options, health, false)
    }

    /// Does as [`MergeOperators::of_new`] for a keyspace that exists, for whose operator something
    /// may stand in.
    pub fn of_recorded(
        &self,
        keyspace: &str,
        options: &KeyspaceOptions,
        health: &Arc<Health>,
    ) -> Result<Option<Arc<Merging>>> {
        self.at_work(keyspace, options, health, self.with_stand_ins)
    }

    /// Fails if [`MergeOperators::of_recorded`] would.
    pub fn check_recorded(&self, keyspace: &str, options: &KeyspaceOptions) -> Result<()> {
        self.named(keyspace, options, self.with_stand_ins).map(|_| ())
    }

    fn at_work(
        &self,
        keyspace: &str,
        options: &KeyspaceOptions,
        health: &Arc<Health>,
        with_stand_ins: bool,
    ) -> Result<Option<Arc<Merging>>> {
        let Some((name, operator)) = self.named(keyspace, options, with_stand_ins)? else {
            return Ok(None);
        };
        let has_memo = !self.follows && !self.filtered.contains(keyspace);
        Ok(Some(Arc::new(Merging {
            what: format!("merge operator {name:?} of {keyspace:?}"),
            operator,
            keyspace: keyspace.to_owned(),
            health: health.clone(),
            memo: has_memo.then(Mutex::default),
        })))
    }

    /// Returns the operator that these settings name, with its name; `None` if they name none.
    /// Fails if the operator is not known and nothing may stand in for it.
    fn named<'o>(
        &self,
        keyspace: &str,
        options: &'o KeyspaceOptions,
        with_stand_ins: bool,
    ) -> Result<Option<(&'o str, Arc<dyn MergeOperator>)>> {
        let Some(name) = &options.merge_operator else {
            return Ok(None);
        };
        let known = built_in(name).or_else(|| self.by_name.get(name).cloned());
        let known = known.or_else(|| {
            let stands_in = with_stand_ins && !is_reserved(name);
            stands_in.then(|| Arc::new(StandIn(name.clone())) as Arc<dyn MergeOperator>)
        });
        let operator = known.ok_or_else(|| {
            let what = format!("keyspace {keyspace:?} has the merge operator {name:?}");
            match is_reserved(name) {
                true => Error::unsupported(format!("{what}, which is unknown to this build"))
                    .advise("the built-in ones are Add, Append, Append:N, Max, Min and Union"),
                false => Error::invalid_option(format!("{what}, which was not given"))
                    .advise("pass that operator to the builder"),
            }
        })?;
        Ok(Some((name, operator)))
    }
}

/// The merge operator of one open keyspace.
pub struct Merging {
    operator: Arc<dyn MergeOperator>,
    keyspace: String,
    /// What panics are told of.
    what: String,
    health: Arc<Health>,
    memo: Option<Mutex<Memo>>,
}

impl Merging {
    /// Returns an error if the operator refuses an operand. A panic in it turns the database
    /// read-only.
    pub fn check(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.health.guard(&self.what, || self.operator.check(key, operand))
    }

    /// Returns the value that operands, oldest first, make of `base`. The error names the key.
    ///
    /// A panic in the operator turns the database read-only, as one in a comparator does.
    pub fn full(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        debug_assert!(!operands.is_empty(), "there is nothing to merge");
        let mut why = None;
        let merged = self.health.guard(&self.what, || {
            // An error of the operator is no panic, and leaves the database as it is.
            Ok::<_, Error>(self.operator.full(key, base, operands).map_err(|it| why = Some(it)))
        })?;
        let why = match merged {
            Ok(value) if value.len() <= MAX_VALUE_BYTES => return Ok(value),
            Ok(value) => format!("it made a value of {} bytes, over 1 GiB", value.len()),
            Err(()) => why.map_or(String::new(), |why| why.to_string()),
        };
        let what = format!("has no value that {:?} can make of it: {why}", self.operator.name());
        let error = Error::about_key(ErrorKind::WrongState, &self.keyspace, key, &what);
        Err(error.advise("put a value, or delete the key; nothing of it is lost until then"))
    }

    /// Returns one operand in place of two, if there is one.
    pub fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Result<Option<Vec<u8>>> {
        let one = self
            .health
            .guard(&self.what, || Ok::<_, Error>(self.operator.partial(key, older, newer)))?;
        Ok(one.filter(|one| one.len() <= MAX_VALUE_BYTES))
    }

    /// Returns the value of `key` from the memo, and the number of the newest entry in it.
    pub fn recall(&self, key: &[u8]) -> Option<(SeqNo, Arc<[u8]>)> {
        self.memo.as_ref()?.lock().get(key)
    }

    /// Puts the value of `key` that its entries up to `seqno` make into the memo.
    pub fn remember(&self, key: &[u8], seqno: SeqNo, value: &[u8]) {
        if let Some(memo) = &self.memo {
            memo.lock().put(key, seqno, value);
        }
    }
}

/// The number of the newest entry in a value, and the value.
type Remembered = (SeqNo, Arc<[u8]>);

/// Values by key, in two generations: once the younger one is full, it takes the place of the
/// older.
#[derive(Default)]
struct Memo {
    young: FxHashMap<Box<[u8]>, Remembered>,
    old: FxHashMap<Box<[u8]>, Remembered>,
    young_bytes: usize,
}

impl Memo {
    fn get(&mut self, key: &[u8]) -> Option<Remembered> {
        if let Some(found) = self.young.get(key) {
            return Some(found.clone());
        }
        let (seqno, value) = self.old.remove(key)?;
        self.put_shared(key, seqno, value.clone());
        Some((seqno, value))
    }

    fn put(&mut self, key: &[u8], seqno: SeqNo, value: &[u8]) {
        if OVERHEAD_BYTES + key.len() + value.len() <= GENERATION_BYTES {
            self.put_shared(key, seqno, value.into());
        }
    }

    fn put_shared(&mut self, key: &[u8], seqno: SeqNo, value: Arc<[u8]>) {
        // Of two readers at once, the one that saw more counts.
        let newer = self.young.get(key).or_else(|| self.old.get(key));
        if newer.is_some_and(|(newer, _)| *newer > seqno) {
            return;
        }
        let bytes = OVERHEAD_BYTES + key.len() + value.len();
        if self.young_bytes + bytes > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        // A value that is replaced counts until the generation ends.
        self.young_bytes += bytes;
        self.young.insert(key.into(), (seqno, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memo_is_bounded_and_keeps_what_is_newest_and_in_use() {
        let mut memo = Memo::default();
        memo.put(b"hot", 7, b"seven");
        memo.put(b"hot", 5, b"five");
        assert_eq!(memo.get(b"hot").unwrap().0, 7);
        let large = vec![1; GENERATION_BYTES / 4];
        for number in 0..40u64 {
            memo.put(&number.to_be_bytes(), number, &large);
            assert_eq!(&*memo.get(b"hot").unwrap().1, b"seven", "it is in use");
            let held = memo.young.values().chain(memo.old.values());
            assert!(held.map(|(_, value)| value.len()).sum::<usize>() <= 2 * GENERATION_BYTES);
        }
        assert!(memo.get(&0u64.to_be_bytes()).is_none());
        memo.put(b"huge", 50, &vec![1; GENERATION_BYTES]);
        assert!(memo.get(b"huge").is_none());
    }

    #[test]
    fn operators_are_found_by_name_or_refused() {
        struct Own(&'static str);
        impl MergeOperator for Own {
            fn name(&self) -> &str {
                self.0
            }
            fn full(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Result<Vec<u8>> {
                panic!("at work")
            }
        }
        let mut operators = MergeOperators::default();
        operators.add(Arc::new(Own("own")));
        operators.validate().unwrap();
        let health = Arc::new(Health::default());
        let of = |name: &str| {
            let merge_operator = Some(name.to_owned());
            let options = KeyspaceOptions { merge_operator, ..KeyspaceOptions::default() };
            operators.of_new("k", &options, &health)
        };
        assert!(of("cleavedb.Add").unwrap().is_some());
        assert_eq!(of("cleavedb.Sub").err().unwrap().kind(), ErrorKind::Unsupported);
        assert_eq!(of("other").err().unwrap().kind(), ErrorKind::InvalidOption);
        let own = of("own").unwrap().unwrap();
        let error = own.full(b"key", None, &[b"1"]).unwrap_err();
        assert!(error.to_string().contains("merge operator \"own\" of \"k\" panicked: at work"));
        assert!(health.check().is_err());
        let mut reserved = operators.clone();
        reserved.add(Arc::new(Own("cleavedb.Mine")));
        assert_eq!(reserved.validate().unwrap_err().kind(), ErrorKind::InvalidOption);
        operators.add(Arc::new(Own("own")));
        let error = operators.validate().unwrap_err();
        assert!(error.to_string().contains("two merge operators are called \"own\""), "{error}");
    }

    #[test]
    fn an_error_names_the_key_and_changes_nothing() {
        let health = Arc::new(Health::default());
        let merge_operator = Some("cleavedb.Add".to_owned());
        let options = KeyspaceOptions { merge_operator, ..KeyspaceOptions::default() };
        let merging = MergeOperators::default().of_new("k", &options, &health).unwrap().unwrap();
        let error = merging.full(b"visits", Some(b"many"), &[b"1"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongState);
        for part in ["\"visits\" in keyspace \"k\"", "cleavedb.Add", "many", "put a value"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        health.check().unwrap();
    }
}

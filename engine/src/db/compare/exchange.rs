//! The work behind compare-and-set and batches with requirements: read without a lock, then commit
//! on the condition that nobody has written what was read.

use super::{Exchange, Expected, Versioned};
use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::commit::batch::{Batch, CommitFrame};
use crate::commit::conditions::{Conditions, KeyspaceReads, ReadParts};
use crate::commit::group::Durability;
use crate::commit::read_until::ReadUntil;
use crate::commit::request::CommitOutcome;
use crate::db::Core;
use crate::db::batch::{OwnedExpected, Requirement};
use crate::db::commit_checked::commit_checked;
use crate::db::keyspace::Keyspace;
use crate::db::options::WriteOptions;
use crate::db::read_options::ReadOptions;
use crate::db::single_write::SingleWrite;
use crate::db::snapshot::Snapshot;
use crate::memtable::KeyPlace;
use crate::read::get::{Lookup, TimedLookup, Wanted, get_timed};
use crate::read::operands::ChainReader;
use crate::version::expiry::{Moment, ReadPoint};
use crate::version::view::View;
use arc_swap::Guard;
use std::sync::Arc;

impl Keyspace {
    /// Commits a write of `key` and returns its sequence number, or `None` if nothing was written,
    /// because what was read may not hold any more: somebody else wrote the key, or perhaps did, or
    /// its value has expired.
    pub(super) fn commit_unless_changed(
        &self,
        key: &[u8],
        HoldsWhile { since, until, place }: HoldsWhile,
        write: &SingleWrite<'_>,
        durability: Durability,
    ) -> Result<Option<SeqNo>> {
        let reads = ReadParts::Key(KeyspaceReads::of_key(&self.state, key));
        let conditions = Conditions { since, reads, until };
        let own = || write.to_batch().map(Arc::new);
        let commit = |frame: CommitFrame<'_>| {
            self.core.committer.commit_frame_if(frame, Some(&conditions), durability, own)
        };
        match write.with_frame_at(Some(&place), commit)? {
            CommitOutcome::Committed(version) => Ok(Some(version)),
            CommitOutcome::Conflict(_) => {
                self.core.counters.conflicts.add(1);
                Ok(None)
            }
            CommitOutcome::Unknown => Ok(None),
        }
    }

    /// Returns what is under a key, and while that is so.
    pub(super) fn read_versioned(&self, key: &[u8]) -> Result<(Option<Versioned>, HoldsWhile)> {
        let read = self.read_for_commit(key, Wanted::Value, || ())?;
        Ok((versioned(&self.core, &read.view, key, read.found)?, read.holds))
    }

    /// Looks a key up for a commit that relies on what is found. `between` runs after the view is
    /// taken, for tests.
    fn read_for_commit(
        &self,
        key: &[u8],
        wanted: Wanted,
        between: impl FnOnce(),
    ) -> Result<ReadForCommit> {
        self.core.check_open()?;
        // I6: this number is read before the view is taken. The memtables of the view hold all that
        // was published before, but not all up to a number that is read later: the active memtable
        // may have been sealed, and the key written to the next one, in between. It is read at the
        // later number all the same, because a compaction may have dropped what was there at the
        // earlier one.
        let visible = self.core.snapshots.visible();
        let (view, seqno) = self.peek_newest(between)?;
        let point = ReadPoint { seqno, moment: Moment::Now(&self.core.snapshots.expiry) };
        let (options, mut place) = (ReadOptions::default(), KeyPlace::default());
        let (view, seen) =
            self.look_up_timed(view, key, point, &options, wanted, Some(&mut place))?;
        let (found, mut until) = (seen.found, None);
        // Whatever is written to the key after what was found has a greater number than that.
        let since = found.seqno().map_or(visible, |found| found.max(visible));
        if let Some(deadline) = seen.deadline {
            ReadUntil::note(&mut until, &self.state, key, deadline);
        }
        Ok(ReadForCommit { view, found, holds: HoldsWhile { since, until, place } })
    }

    /// Puts a value, or deletes the key if it is `None`, if what is there is as expected.
    pub(super) fn exchange(
        &self,
        key: &[u8],
        expected: Expected<'_>,
        value: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Result<Exchange> {
        self.core.check_writable()?;
        let write = SingleWrite::prepare(self, key, value, options)?;
        let durability = self.core.durability(options)?;
        let _watch = self.core.committer.watch();
        self.core.time_write(self.state.id, || {
            write.with_frame(|frame| self.core.committer.admit_frame(&frame))?;
            loop {
                let holds = match self.compare(key, expected)? {
                    Ok(holds) => holds,
                    Err(found) => return Ok(Exchange::Mismatch(found)),
                };
                let written = self.commit_unless_changed(key, holds, &write, durability)?;
                if let Some(version) = written {
                    return Ok(Exchange::Done(version));
                }
            }
        })
    }

    /// Returns while the key is as expected, or else what was found.
    fn compare(
        &self,
        key: &[u8],
        expected: Expected<'_>,
    ) -> Result<std::result::Result<HoldsWhile, Option<Versioned>>> {
        // The value is of interest only if it is to be compared, or if the version is another one.
        if wanted(expected) == Wanted::Version {
            let ReadForCommit { found, holds, .. } =
                self.read_for_commit(key, Wanted::Version, || ())?;
            if is_expected(expected, found.seqno()) {
                return Ok(Ok(holds));
            }
        }
        let ReadForCommit { view, found, holds } =
            self.read_for_commit(key, Wanted::Value, || ())?;
        Ok(mismatch(&self.core, &view, key, expected, found)?.map_or(Ok(holds), Err))
    }
}

/// What was found under a key, for a commit that relies on it.
struct ReadForCommit {
    view: Guard<Arc<View>>,
    found: Lookup,
    holds: HoldsWhile,
}

/// While what was read under a key holds.
pub(super) struct HoldsWhile {
    /// The key was not written after what was found, up to this sequence number.
    since: SeqNo,
    /// When the value expires, if it does.
    until: Option<ReadUntil>,
    /// Where the key is in the active memtable, for the write.
    place: KeyPlace,
}

/// Reads the value of what was found under a key.
pub(super) fn versioned(
    core: &Core,
    view: &Arc<View>,
    key: &[u8],
    found: Lookup,
) -> Result<Option<Versioned>> {
    Ok(match found {
        Lookup::Nothing => None,
        Lookup::Inline(value, version) => Some(Versioned { value: value.into(), version }),
        Lookup::Pointer(pointer, version) => {
            let value = core.fetcher.value(view, pointer, key, version)?;
            Some(Versioned { value, version })
        }
        Lookup::Merge(version) => {
            let reader = ChainReader { view, own: None, seqno: version, fill_cache: true };
            let value = reader.merged(key, version, &core.fetcher)?;
            Some(Versioned { value, version })
        }
    })
}

/// Returns what was found under a key if it is not what was expected.
fn mismatch(
    core: &Core,
    view: &Arc<View>,
    key: &[u8],
    expected: Expected<'_>,
    found: Lookup,
) -> Result<Option<Option<Versioned>>> {
    if let Expected::Value(expected) = expected {
        let found = versioned(core, view, key, found)?;
        let is_met = found.as_ref().is_some_and(|found| found.value[..] == *expected);
        return Ok((!is_met).then_some(found));
    }
    let is_met = is_expected(expected, found.seqno());
    if is_met { Ok(None) } else { versioned(core, view, key, found).map(Some) }
}

/// Returns what has to be read to tell whether a key is as expected.
fn wanted(expected: Expected<'_>) -> Wanted {
    match expected {
        Expected::Absent | Expected::Version(_) => Wanted::Version,
        Expected::Value(_) => Wanted::Value,
    }
}

/// Returns true if a version, `None` for no value, is the expected one. False if a value is
/// expected, which the version does not tell.
fn is_expected(expected: Expected<'_>, version: Option<SeqNo>) -> bool {
    match expected {
        Expected::Absent => version.is_none(),
        Expected::Version(expected) => version == Some(expected),
        Expected::Value(_) => false,
    }
}

/// Commits a batch if all of its requirements are met.
pub(in crate::db) fn write_if(
    core: &Arc<Core>,
    batch: Batch,
    requirements: &[Requirement],
    durability: Durability,
) -> Result<()> {
    let batch = Arc::new(batch);
    let reads: Arc<[KeyspaceReads<'static>]> = reads_of(requirements).into();
    let _watch = core.committer.watch();
    core.time_write(requirements[0].keyspace.id, || {
        if !batch.is_empty() {
            core.committer.admit_batch(&batch)?;
        }
        loop {
            core.check_open()?;
            // The snapshot keeps all that was visible at one moment, over all keyspaces.
            let snapshot = Snapshot::for_transaction(core);
            let since = snapshot.seqno();
            let mut until = None;
            for requirement in requirements {
                check_requirement(core, requirement, &snapshot, &mut until)?;
            }
            if batch.is_empty() {
                return Ok(());
            }
            let conditions =
                Some(Conditions { since, reads: ReadParts::Shared(reads.clone()), until });
            if commit_checked(core, &batch, conditions, durability)?.is_none() {
                return Ok(());
            }
            // What was read has changed since: whether it is as required shows the next read.
        }
    })
}

/// Returns what stands for the reads of these requirements, one item for each keyspace.
fn reads_of(requirements: &[Requirement]) -> Vec<KeyspaceReads<'static>> {
    let mut all: Vec<KeyspaceReads<'static>> = Vec::new();
    for Requirement { keyspace, key, .. } in requirements {
        match all.iter_mut().find(|reads| reads.keyspace() == keyspace.id) {
            Some(reads) => reads.add_key(key),
            None => all.push(KeyspaceReads::of_key(keyspace, key).owned()),
        }
    }
    all
}

/// Returns an error unless a requirement is met at a snapshot. Notes in
/// `until` when the value expires that was compared.
fn check_requirement(
    core: &Core,
    requirement: &Requirement,
    snapshot: &Snapshot,
    until: &mut Option<ReadUntil>,
) -> Result<()> {
    let Requirement { keyspace, key, expected } = requirement;
    let view = keyspace.view();
    keyspace.check()?;
    let (view, point) = (snapshot.view_before(&view).unwrap_or(view), snapshot.point());
    let expected = match expected {
        OwnedExpected::Absent => Expected::Absent,
        OwnedExpected::Version(version) => Expected::Version(*version),
        OwnedExpected::Value(value) => Expected::Value(value),
    };
    let wanted = wanted(expected);
    let TimedLookup { found, deadline, .. } =
        get_timed(&view, key, point, true, Some(&core.hot), wanted, None)?;
    if let Some(deadline) = deadline {
        ReadUntil::note(until, keyspace, key, deadline);
    }
    let is_met = match wanted {
        Wanted::Version => is_expected(expected, found.seqno()),
        Wanted::Value => mismatch(core, &view, key, expected, found)?.is_none(),
    };
    if is_met {
        return Ok(());
    }
    core.counters.conflicts.add(1);
    let error = Error::conflict(&keyspace.name, key, "is not as the batch requires");
    Err(error.advise("read it again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::recent::RecentKeys;
    use crate::doc_dir;
    use crate::env::Env;

    /// A view is taken, the memtable is sealed, the key is written to the next one, and the number
    /// is read: the number covers a write that the view does not hold. An increment was lost.
    #[test]
    fn i06_a_comparison_relies_on_no_more_than_its_view_holds() {
        let db = crate::open(doc_dir("compare-late-number")).unwrap();
        let keyspace = db.default_keyspace();
        for flushed in [false, true] {
            keyspace.put("other", "1").unwrap();
            keyspace.put("key", "1").unwrap();
            let read = keyspace
                .read_for_commit(b"key", Wanted::Value, || {
                    keyspace.state.rotate_memtable();
                    keyspace.put("key", "2").unwrap();
                    if flushed {
                        keyspace.flush().unwrap();
                    }
                })
                .unwrap();
            assert!(matches!(&read.found, Lookup::Inline(value, _) if value == b"1"));
            let (holds, _watch) = (read.holds, db.core.committer.watch());
            let options = WriteOptions::new();
            let write = SingleWrite::prepare(&keyspace, b"key", Some(b"3"), &options).unwrap();
            let durability = Durability::Os;
            let written = keyspace.commit_unless_changed(b"key", holds, &write, durability);
            assert!(written.unwrap().is_none(), "the key was written since");
            assert_eq!(keyspace.get("key").unwrap().unwrap(), "2");
        }
    }

    /// A lease is renewed before it expires, in the next memtable, while it is read to be compared.
    /// There never was a moment without it.
    #[test]
    fn i06_what_is_replaced_before_it_expires_is_compared() {
        let (env, simulation) = Env::simulated(1);
        simulation.clone().run(|| {
            let db = crate::Db::builder(std::path::Path::new("/db")).env(env).open().unwrap();
            let keys = db.default_keyspace();
            let seconds = std::time::Duration::from_secs;
            keys.put_expiring("lease", "1", seconds(10)).unwrap();
            let renew = || {
                simulation.advance(seconds(9));
                keys.state.rotate_memtable();
                keys.put_expiring("lease", "2", seconds(10)).unwrap();
                simulation.advance(seconds(2));
            };
            let found = keys.read_for_commit(b"lease", Wanted::Value, renew).unwrap().found;
            assert!(matches!(found, Lookup::Inline(value, _) if value == b"2"));
        });
    }

    /// Between the view and the number that a compare-and-set reads, its key is ingested, and then
    /// an operand is merged into the memtable of that view. The operand over the old value was
    /// taken for the value, and the ingest was lost.
    #[test]
    fn i06_operands_are_not_merged_with_what_was_there_before_an_ingest() {
        let db = crate::open(doc_dir("compare-beside-ingest")).unwrap();
        let merge_operator = Some(crate::merge_operators::ADD.to_owned());
        let options = crate::KeyspaceOptions { merge_operator, ..Default::default() };
        let keys = db.create_keyspace_with("counters", options).unwrap();
        keys.put("key", "5").unwrap();
        keys.flush().unwrap();
        keys.put("other", "").unwrap();
        let others = || {
            keys.ingest_sorted([("key", "100")]).unwrap();
            keys.merge("key", "1").unwrap();
        };
        let read = keys.read_for_commit(b"key", Wanted::Value, others).unwrap();
        let found = versioned(&db.core, &read.view, b"key", read.found).unwrap().unwrap();
        assert_eq!(found.value, b"101");
        assert_eq!(keys.get("key").unwrap().unwrap(), "101");
    }

    /// A value expires after it was compared, and others see that: what is put in its place must
    /// not be put as if it were there.
    #[test]
    fn a_comparison_does_not_outlive_the_value() {
        let (env, simulation) = Env::simulated(2);
        simulation.clone().run(|| {
            let db = crate::Db::builder(std::path::Path::new("/db")).env(env).open().unwrap();
            let keys = db.default_keyspace();
            let life = std::time::Duration::from_secs(10);
            let options = WriteOptions::new();
            for late in [false, true] {
                keys.put_expiring("lease", "1", life).unwrap();
                let _watch = db.core.committer.watch();
                let holds = keys.compare(b"lease", Expected::Value(b"1")).unwrap().unwrap();
                simulation.advance(if late { life } else { life / 2 });
                let write = SingleWrite::prepare(&keys, b"lease", Some(b"2"), &options).unwrap();
                let written = keys.commit_unless_changed(b"lease", holds, &write, Durability::Os);
                assert_eq!(written.unwrap().is_none(), late);
            }
            let again = keys.compare_and_set("lease", Expected::Value(b"1"), "2").unwrap();
            assert_eq!(again, Exchange::Mismatch(None));
        });
    }

    /// A large batch and a compare-and-set of a key in it are committed as one group. The batch is
    /// in no memtable when the compare-and-set is checked, and its keys are more than are noted:
    /// its put was overwritten as if it had never been.
    #[test]
    fn i06_a_condition_is_checked_against_all_of_its_group() {
        check_in_group("compare-in-group", |batch, keyspace| {
            batch.put(keyspace, "key", "of the batch");
        });
        check_in_group("compare-in-group-range", |batch, keyspace| {
            batch.delete_range(keyspace, "k".."l");
        });
    }

    /// Does so for a batch that begins with what `write` adds, which writes the key.
    fn check_in_group(name: &str, write_key: impl Fn(&mut crate::WriteBatch, &Keyspace)) {
        let db = crate::open(doc_dir(name)).unwrap();
        let (keyspace, committer) = (db.default_keyspace(), &db.core.committer);
        keyspace.put("key", "1").unwrap();
        let read = keyspace.read_for_commit(b"key", Wanted::Value, || ()).unwrap();
        let (holds, _watch) = (read.holds, committer.watch());
        let mut batch = crate::WriteBatch::new();
        write_key(&mut batch, &keyspace);
        for number in 0..2 * RecentKeys::MAX_KEYS {
            batch.put(&keyspace, number.to_string(), "");
        }
        let wait_for = |queued: usize| {
            while committer.queued() < queued {
                std::thread::yield_now();
            }
        };
        let options = WriteOptions::new();
        let write = SingleWrite::prepare(&keyspace, b"key", Some(b"3"), &options).unwrap();
        std::thread::scope(|scope| {
            let held = committer.hold();
            // One of these two puts leads, and waits for the log; the other one is queued, and both
            // others behind it.
            scope.spawn(|| keyspace.put("a", "").unwrap());
            scope.spawn(|| keyspace.put("b", "").unwrap());
            wait_for(1);
            scope.spawn(|| db.write(batch).unwrap());
            wait_for(2);
            let written = scope.spawn(|| {
                keyspace.commit_unless_changed(b"key", holds, &write, Durability::Os).unwrap()
            });
            wait_for(3);
            drop(held);
            assert_eq!(written.join().unwrap(), None, "the batch has written the key");
        });
        assert!(keyspace.get("key").unwrap().is_none_or(|value| value == "of the batch"));
    }
}

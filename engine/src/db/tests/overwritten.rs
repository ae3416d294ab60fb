//! Checks what value GC may take for dead though the last liveness scan found it alive, and what it
//! must not.

use super::relocated::open;
use super::snapshots::{put, settle, views};
use crate::base::compression::Codec;
use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::commit::group::Durability;
use crate::db::Db;
use crate::db::options::WriteOptions;
use crate::doc_dir;
use crate::gc::overwritten::Overwritten;
use crate::segment::{RecordKind, RecordView};

/// Returns whether entries written since `since` hide the record that `key` got at `seqno`.
fn is_hidden(db: &Db, since: SeqNo, keyspace: KeyspaceId, key: &str, seqno: SeqNo) -> bool {
    db.core.committer.sync().unwrap();
    hides(&overwritten(db, since), keyspace, key, seqno)
}

/// What a relocation takes for overwritten since `since`.
fn overwritten(db: &Db, since: SeqNo) -> Overwritten {
    let core = &db.core;
    Overwritten::gather(since, &core.committer, &core.snapshots, || Ok(views(db))).unwrap()
}

fn hides(overwritten: &Overwritten, keyspace: KeyspaceId, key: &str, seqno: SeqNo) -> bool {
    let record = RecordView {
        kind: RecordKind::Put,
        keyspace,
        seqno,
        codec: Codec::None,
        raw_len: 0,
        deadline: None,
        key: key.as_bytes(),
        value: &[],
        offset: 0,
        length: 0,
    };
    overwritten.hides(&record).unwrap()
}

fn default_id(db: &Db) -> KeyspaceId {
    db.core.states()[0].id
}

#[test]
fn newer_entries_hide_in_memtables_and_in_tables_flushed_since() {
    let dir = doc_dir("overwritten");
    let db = open(&dir);
    db.core.background.stop();
    let id = default_id(&db);
    put(&db, "a", 1);
    let first = db.core.snapshots.visible();
    put(&db, "b", 1);
    let hidden = |seqno| is_hidden(&db, first, id, "a", seqno);
    assert!(!hidden(first), "it is the newest");
    put(&db, "a", 2);
    let second = db.core.snapshots.visible();
    assert!(hidden(first) && !hidden(second));
    // The entries hide it while they wait for their flush, and after the flush.
    db.core.states()[0].rotate_memtable();
    assert!(hidden(first) && !hidden(second));
    db.default_keyspace().delete("a").unwrap();
    assert!(hidden(second), "a deletion hides too");
    assert!(!is_hidden(&db, first, KeyspaceId(77), "a", first), "keys of another keyspace don't");
}

#[test]
fn tables_from_before_the_liveness_scan_are_not_asked() {
    let dir = doc_dir("overwritten-flushed");
    let db = open(&dir);
    let id = default_id(&db);
    put(&db, "a", 1);
    let first = db.core.snapshots.visible();
    put(&db, "a", 2);
    let second = db.core.snapshots.visible();
    settle(&db);
    assert!(is_hidden(&db, first, id, "a", first), "flushed since");
    assert!(!is_hidden(&db, second, id, "a", first), "the liveness scan has seen that one");
}

#[test]
fn i06_what_a_snapshot_sees_is_not_hidden() {
    let dir = doc_dir("overwritten-snapshot");
    let db = open(&dir);
    let id = default_id(&db);
    put(&db, "a", 1);
    let first = db.core.snapshots.visible();
    let snapshot = db.snapshot();
    put(&db, "a", 2);
    let second = db.core.snapshots.visible();
    put(&db, "a", 3);
    assert!(!is_hidden(&db, first, id, "a", first), "the snapshot sees it");
    assert!(is_hidden(&db, first, id, "a", second), "came and went behind the snapshot");
    drop(snapshot);
    assert!(is_hidden(&db, first, id, "a", first));
}

/// I4: an entry that is not durable hides nothing. If a power cut lost it, the older one would be
/// needed, and its record would be gone.
#[test]
fn i04_what_is_not_durable_hides_nothing() {
    let dir = doc_dir("overwritten-sync");
    let db = open(&dir);
    let id = default_id(&db);
    put(&db, "a", 1);
    let first = db.core.snapshots.visible();
    db.core.committer.sync().unwrap();
    put(&db, "a", 2);
    assert!(!hides(&overwritten(&db, first), id, "a", first));
    assert!(is_hidden(&db, first, id, "a", first), "once synced it does");
    put(&db, "b", 1);
    let second = db.core.snapshots.visible();
    db.core.committer.sync().unwrap();
    db.default_keyspace().delete_range("b".."c").unwrap();
    assert!(!hides(&overwritten(&db, second), id, "b", second), "a range is no other");
    assert!(is_hidden(&db, second, id, "b", second));
}

/// I4: what counts as durable follows each sync of the log.
#[test]
fn i04_durable_is_what_was_synced() {
    let dir = doc_dir("overwritten-durable");
    let db = open(&dir);
    let (core, log) = (&db.core, db.core.committer.log());
    let lag = || core.snapshots.visible() - log.durable();
    put(&db, "a", 1);
    put(&db, "b", 1);
    assert_eq!(lag(), 2, "nothing was synced");
    core.committer.sync().unwrap();
    assert_eq!(lag(), 0);
    put(&db, "a", 2);
    assert_eq!(lag(), 1);
    log.end_active(&mut core.committer.hold()).unwrap();
    assert_eq!(lag(), 0, "a segment that ends is synced");
    core.committer.sync().unwrap();
    assert_eq!(lag(), 0, "nothing was written since");
    put(&db, "a", 3);
    assert_eq!(lag(), 1);
    let synced = WriteOptions::new().durability(Durability::Sync);
    db.default_keyspace().put_with("a", "4", &synced).unwrap();
    assert_eq!(lag(), 0, "a write that is synced vouches for those before it");
    db.close().unwrap();
    let db = open(&dir);
    assert_eq!(db.core.committer.log().durable(), 0, "an opening vouches for nothing");
    db.core.committer.sync().unwrap();
    assert_eq!(db.core.committer.log().durable(), db.core.snapshots.visible(), "all was settled");
}

/// I6: entries that lead to a segment of value GC are at or below the number of its scan, after an
/// opening, too, and if the log was never synced.
#[test]
fn i06_what_tables_have_is_durable() {
    let dir = doc_dir("overwritten-tables");
    let db = open(&dir);
    let durable = |db: &Db| db.core.committer.durable_between_commits();
    assert_eq!(durable(&db), 0);
    put(&db, "a", 1);
    assert_eq!(durable(&db), 0, "nothing was synced or flushed");
    let flushed = db.core.snapshots.visible();
    settle(&db);
    assert_eq!(durable(&db), flushed);
    db.close().unwrap();
    let db = open(&dir);
    assert_eq!(db.core.committer.log().durable(), 0);
    assert_eq!(durable(&db), flushed);
    put(&db, "a", 2);
    assert_eq!(durable(&db), flushed, "nobody has synced that one");
}

/// I4, I8: a sync that fails vouches for nothing, whoever asks for it.
#[cfg(feature = "sim")]
#[test]
fn i04_a_sync_that_fails_vouches_for_nothing() {
    use crate::env::sim::{Call, FaultPlan};
    let syncs: [fn(&Db) -> bool; 2] = [
        |db| db.core.committer.sync().is_ok(),
        |db| db.core.committer.log().end_active(&mut db.core.committer.hold()).is_ok(),
    ];
    for sync in syncs {
        let (env, simulation) = crate::env::Env::simulated(1);
        simulation.run(|| {
            let db = Db::builder("db").env(env.clone()).open().unwrap();
            put(&db, "a", 1);
            db.core.committer.sync().unwrap();
            let before = db.core.committer.log().durable();
            put(&db, "a", 2);
            simulation.fail(FaultPlan::new(Call::Sync));
            assert!(!sync(&db));
            assert_eq!(db.core.committer.log().durable(), before);
        });
    }
}

//! The change feed, see `include/cleavedb/c.h`. The keys and values of the batch that a consumer
//! stands on belong to it, and stay until it is moved or destroyed, as those of an iterator do.

use crate::border::{ErrPtr, Out};
use crate::db::Database;
use crate::guard::{quiet, telling};
use crate::handle::Handle;
use engine::{ChangeBatch, Changed, Changes, ChangesOptions, Error, KeyChange, OfProcess, Result};
use std::ffi::c_char;
use std::ops::Bound;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// The flag that has the consumer pin the log, as in the header.
const PIN: u32 = 1;
/// The flag that has it see what is not durable yet.
const VISIBLE: u32 = 2;
/// The number that stands for no deadline, `CLEAVEDB_NEVER` in the header.
const NEVER: u64 = u64::MAX;

/// A consumer of the change feed as C holds it.
pub struct ChangesHandle {
    state: OfProcess<Mutex<HeldChanges>>,
}

/// The state of a consumer, behind its lock.
struct HeldChanges {
    changes: Changes,
    /// The batch that it stands on.
    batch: Option<ChangeBatch>,
}

impl ChangesHandle {
    fn lock(&self) -> Result<MutexGuard<'_, HeldChanges>> {
        Ok(self.state.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn options(flags: u32) -> Result<ChangesOptions> {
    if flags & !(PIN | VISIBLE) != 0 {
        return Err(Error::invalid_argument(format!("there are no flags {flags} for changes"))
            .advise("pass a sum of the constants cleavedb_changes_..."));
    }
    Ok(ChangesOptions::new().pin(flags & PIN != 0).visible(flags & VISIBLE != 0))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_changes_create(
    db: Handle<Database>,
    since: u64,
    flags: u32,
    errptr: ErrPtr,
) -> Handle<ChangesHandle> {
    telling(errptr, Handle::NULL, || {
        let changes = db.pin()?.engine()?.changes_with(since, &options(flags)?)?;
        let state = HeldChanges { changes, batch: None };
        Handle::new(ChangesHandle { state: OfProcess::new(Mutex::new(state)) })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_changes_destroy(changes: Handle<ChangesHandle>) {
    quiet((), || {
        changes.close();
        Ok(())
    });
}

/// Moves to the next batch; returns the number of its changes, or 0 if none came in time.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_changes_next(
    changes: Handle<ChangesHandle>,
    timeout_ms: u64,
    errptr: ErrPtr,
) -> usize {
    telling(errptr, 0, || {
        let changes = changes.pin()?;
        let mut held = changes.lock()?;
        held.batch = None;
        let batch = match timeout_ms {
            0 => held.changes.next_batch()?,
            _ => held.changes.wait_batch(Duration::from_millis(timeout_ms))?,
        };
        held.batch = batch;
        Ok(held.batch.as_ref().map_or(0, ChangeBatch::len))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_changes_position(changes: Handle<ChangesHandle>) -> u64 {
    quiet(0, || Ok(changes.pin()?.lock()?.changes.position()))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_changes_skip_to(changes: Handle<ChangesHandle>, seqno: u64, errptr: ErrPtr) {
    telling(errptr, (), || {
        let changes = changes.pin()?;
        let mut held = changes.lock()?;
        held.batch = None;
        held.changes.skip_to(seqno)
    });
}

/// Runs `body` on change number `index` of the batch; returns `nothing` if there is none.
fn with<T>(
    changes: Handle<ChangesHandle>,
    index: usize,
    nothing: T,
    body: impl FnOnce(KeyChange<'_>) -> Option<T>,
) -> T {
    let found = quiet(None, || {
        let changes = changes.pin()?;
        let held = changes.lock()?;
        Ok(held.batch.as_ref().and_then(|batch| batch.get(index)).and_then(body))
    });
    found.unwrap_or(nothing)
}

/// Returns a pointer to `bytes`, and their length at `len`.
fn lend(bytes: &[u8], len: Out<usize>) -> *const c_char {
    len.set(bytes.len());
    bytes.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_change_seqno(changes: Handle<ChangesHandle>, index: usize) -> u64 {
    with(changes, index, 0, |change| Some(change.seqno))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_change_keyspace(
    changes: Handle<ChangesHandle>,
    index: usize,
    len: Out<usize>,
) -> *const c_char {
    len.set(0);
    with(changes, index, ptr::null(), |change| {
        change.keyspace.map(|name| lend(name.as_bytes(), len))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_change_keyspace_id(changes: Handle<ChangesHandle>, index: usize) -> u64 {
    with(changes, index, 0, |change| Some(change.keyspace_id))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_change_key(
    changes: Handle<ChangesHandle>,
    index: usize,
    len: Out<usize>,
) -> *const c_char {
    len.set(0);
    with(changes, index, ptr::null(), |change| Some(lend(change.key, len)))
}

/// Returns what the change did: 1 for a put, 2 for a deletion, 3 for that of a range, 4 for a
/// merge, 5 for an ingest, 0 for what this library can't tell.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_change_kind(changes: Handle<ChangesHandle>, index: usize) -> i32 {
    with(changes, index, 0, |change| match change.what {
        Changed::Put { .. } => Some(1),
        Changed::Delete => Some(2),
        Changed::DeleteRange { .. } => Some(3),
        Changed::Merge { .. } => Some(4),
        Changed::Ingested { .. } => Some(5),
        _ => None,
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_change_value(
    changes: Handle<ChangesHandle>,
    index: usize,
    len: Out<usize>,
    deadline_ms: Out<u64>,
) -> *const c_char {
    len.set(0);
    deadline_ms.set(NEVER);
    with(changes, index, ptr::null(), |change| match change.what {
        Changed::Put { value, deadline } => {
            let since_1970 = deadline.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            deadline_ms.set(since_1970.map_or(NEVER, |time| time.as_millis() as u64));
            Some(lend(value, len))
        }
        Changed::Merge { operand } => Some(lend(operand, len)),
        _ => None,
    })
}

/// Returns one end of a deleted range, and at `included` whether it belongs to the range; null if
/// the range has no such end, or if the change is another one.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_change_range_end(
    changes: Handle<ChangesHandle>,
    index: usize,
    is_upper: u8,
    len: Out<usize>,
    included: Out<u8>,
) -> *const c_char {
    len.set(0);
    included.set(0);
    with(changes, index, ptr::null(), |change| {
        let (lower, upper) = match change.what {
            Changed::DeleteRange { lower, upper } | Changed::Ingested { lower, upper } => {
                (lower, upper)
            }
            _ => return None,
        };
        match if is_upper == 0 { lower } else { upper } {
            Bound::Included(key) => {
                included.set(1);
                Some(lend(key, len))
            }
            Bound::Excluded(key) => Some(lend(key, len)),
            Bound::Unbounded => None,
        }
    })
}

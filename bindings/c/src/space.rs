//! CleaveDB's own calls about space, see `include/cleavedb/c.h`: the bounds of space, value GC, and
//! values in key order.

use crate::border::{Bytes, ErrPtr, copy_text, key_range};
use crate::db::Database;
use crate::extra::KeyspaceHandle;
use crate::guard::{quiet, telling};
use crate::handle::Handle;
use crate::options::{DbOptions, set};
use engine::{CollectDiscardable, Error, GcOptions, Result};
use std::ffi::{c_char, c_int};
use std::ptr;

/// Changes the settings of value GC. The opening refuses what is out of range.
fn set_gc(options: Handle<DbOptions>, change: impl FnOnce(&mut GcOptions)) {
    set(options, |settings| {
        change(&mut settings.options.gc);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_max_space_amplification(options: Handle<DbOptions>, ratio: f64) {
    set_gc(options, |gc| gc.max_space_amplification = ratio);
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_settled_space_amplification(
    options: Handle<DbOptions>,
    ratio: f64,
) {
    set_gc(options, |gc| gc.settled_space_amplification = ratio);
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_space_allowance_bytes(options: Handle<DbOptions>, bytes: u64) {
    set_gc(options, |gc| gc.space_allowance_bytes = bytes);
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_automatic_gc(options: Handle<DbOptions>, value: u8) {
    set_gc(options, |gc| gc.automatic = value != 0);
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_discardable_ratio(options: Handle<DbOptions>, ratio: f64) {
    set_gc(options, |gc| gc.discardable_ratio = ratio);
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_punch_ratio(options: Handle<DbOptions>, ratio: f64) {
    set_gc(options, |gc| gc.punch_ratio = ratio);
}

/// Converts a number of `cleavedb_collect_discardable_…` in the header.
fn collect_discardable(when: c_int) -> Result<CollectDiscardable> {
    match when {
        0 => Ok(CollectDiscardable::Idle),
        1 => Ok(CollectDiscardable::Always),
        _ => Err(Error::invalid_option(format!(
            "collect_discardable is {when}, it must be from 0 to 1"
        ))),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_collect_discardable(options: Handle<DbOptions>, when: c_int) {
    set(options, |settings| {
        settings.options.gc.collect_discardable = collect_discardable(when)?;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_gc_memory_bytes(options: Handle<DbOptions>, bytes: u64) {
    set_gc(options, |gc| gc.memory_bytes = bytes);
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_punch(options: Handle<DbOptions>, value: u8) {
    set_gc(options, |gc| gc.punch = value != 0);
}

/// Frees what is worth freeing now. Returns the bytes that came back: those of freed segments and
/// of holes, less what was written again.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_gc(db: Handle<Database>, errptr: ErrPtr) -> u64 {
    telling(errptr, 0, || {
        let report = db.pin()?.engine()?.gc()?;
        let freed = report.bytes_freed.saturating_add(report.bytes_punched);
        Ok(freed.saturating_sub(report.bytes_written))
    })
}

/// Stops automatic value GC if `value` is not 0, else lets it go on.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_pause_gc(db: Handle<Database>, value: u8) {
    quiet((), || {
        let db = db.pin()?;
        match value {
            0 => db.engine()?.resume_gc(),
            _ => db.engine()?.pause_gc(),
        }
        Ok(())
    });
}

/// Writes the separated values of a range of keys in key order. Both ends may be null, and belong
/// to the range otherwise, as in `leveldb_compact_range`.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_reorganize(
    keyspace: Handle<KeyspaceHandle>,
    start_key: Bytes,
    start_key_len: usize,
    limit_key: Bytes,
    limit_key_len: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let range = key_range((&start_key, start_key_len), (&limit_key, limit_key_len))?;
        keyspace.pin()?.get()?.reorganize(range)
    });
}

/// Brings the values of a keyspace to where its settings say. Returns how many moved.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_convert(keyspace: Handle<KeyspaceHandle>, errptr: ErrPtr) -> u64 {
    telling(errptr, 0, || {
        let report = keyspace.pin()?.get()?.convert()?;
        Ok(report.values_moved_in.saturating_add(report.values_moved_out))
    })
}

/// Waits until no background work is due.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_wait_idle(db: Handle<Database>, errptr: ErrPtr) {
    telling(errptr, (), || db.pin()?.engine()?.wait_idle());
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_space_json(db: Handle<Database>, errptr: ErrPtr) -> *mut c_char {
    telling(errptr, ptr::null_mut(), || Ok(copy_text(&db.pin()?.engine()?.space()?.to_json())))
}

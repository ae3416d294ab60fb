//! Values that expire, see `include/cleavedb/c.h`.

use crate::batch::BatchHandle;
use crate::border::{Bytes, ErrPtr, Out};
use crate::extra::{KeyspaceHandle, add};
use crate::guard::telling;
use crate::handle::Handle;
use crate::options::{DbOptions, ReadSettings, WriteSettings, read_options, set, write_options};
use crate::transaction::TransactionHandle;
use engine::{Expiry, Result, Ttl};
use std::time::{Duration, UNIX_EPOCH};

/// The number that stands for no deadline, `CLEAVEDB_NEVER` in the header.
const NEVER: u64 = u64::MAX;

fn after(ttl_ms: u64) -> Expiry {
    match ttl_ms {
        NEVER => Expiry::Never,
        _ => Expiry::After(Duration::from_millis(ttl_ms)),
    }
}

fn at(deadline_ms: u64) -> Expiry {
    match deadline_ms {
        NEVER => Expiry::Never,
        _ => Expiry::At(UNIX_EPOCH + Duration::from_millis(deadline_ms)),
    }
}

/// Puts a value with an expiry. `value` is the key and the value.
fn put(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    value: (Result<&[u8]>, Result<&[u8]>),
    expiry: Expiry,
) -> Result<()> {
    let options = write_options(options)?.expiry(expiry);
    keyspace.pin()?.get()?.put_with(value.0?, value.1?, &options)
}

/// Returns 1 if the deadline was set, and 0 if there is no value.
fn expire(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: &[u8],
    expiry: Expiry,
) -> Result<u8> {
    let options = write_options(options)?;
    keyspace.pin()?.get()?.expire_with(key, expiry, &options).map(u8::from)
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_put_expiring(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    val: Bytes,
    vallen: usize,
    ttl_ms: u64,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        put(keyspace, options, (key.key(keylen), val.value(vallen)), after(ttl_ms))
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_put_expiring_at(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    val: Bytes,
    vallen: usize,
    deadline_ms: u64,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        put(keyspace, options, (key.key(keylen), val.value(vallen)), at(deadline_ms))
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_writebatch_put_expiring(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    klen: usize,
    val: Bytes,
    vlen: usize,
    ttl_ms: u64,
) {
    let (key, value) = (key.key(klen), val.value(vlen).map(Some));
    add(batch, keyspace, key, value, Some(after(ttl_ms)));
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_writebatch_put_expiring_at(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    klen: usize,
    val: Bytes,
    vlen: usize,
    deadline_ms: u64,
) {
    let (key, value) = (key.key(klen), val.value(vlen).map(Some));
    add(batch, keyspace, key, value, Some(at(deadline_ms)));
}

/// Puts a value with an expiry in a transaction. `value` is the key and the value.
fn put_in(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    value: (Result<&[u8]>, Result<&[u8]>),
    expiry: Expiry,
) -> Result<()> {
    let (key, value) = (value.0?, value.1?);
    let keyspace = keyspace.pin()?;
    transaction.pin()?.put_expiring(keyspace.get()?, key, value, expiry)
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_put_expiring(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    keylen: usize,
    val: Bytes,
    vallen: usize,
    ttl_ms: u64,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        put_in(transaction, keyspace, (key.key(keylen), val.value(vallen)), after(ttl_ms))
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_put_expiring_at(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    keylen: usize,
    val: Bytes,
    vallen: usize,
    deadline_ms: u64,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        put_in(transaction, keyspace, (key.key(keylen), val.value(vallen)), at(deadline_ms))
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_ttl(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<ReadSettings>,
    key: Bytes,
    keylen: usize,
    ttl_ms: Out<u64>,
    errptr: ErrPtr,
) -> u8 {
    ttl_ms.set(0);
    telling(errptr, 0, || {
        let options = read_options(options)?;
        Ok(match keyspace.pin()?.get()?.ttl_with(key.key(keylen)?, &options)? {
            None => 0,
            Some(Ttl::Never) => {
                ttl_ms.set(NEVER);
                1
            }
            Some(Ttl::Left(left)) => {
                ttl_ms.set(u64::try_from(left.as_millis()).unwrap_or(NEVER - 1));
                1
            }
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_expire(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    ttl_ms: u64,
    errptr: ErrPtr,
) -> u8 {
    telling(errptr, 0, || expire(keyspace, options, key.key(keylen)?, after(ttl_ms)))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_expire_at(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    deadline_ms: u64,
    errptr: ErrPtr,
) -> u8 {
    telling(errptr, 0, || expire(keyspace, options, key.key(keylen)?, at(deadline_ms)))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_persist(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    errptr: ErrPtr,
) -> u8 {
    telling(errptr, 0, || expire(keyspace, options, key.key(keylen)?, Expiry::Never))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_default_ttl(options: Handle<DbOptions>, ttl_ms: u64) {
    set(options, |settings| {
        let ttl = (ttl_ms != NEVER).then(|| Duration::from_millis(ttl_ms));
        settings.keyspace.default_ttl = Some(ttl);
        Ok(())
    });
}

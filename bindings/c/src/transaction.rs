//! Transactions, see `include/cleavedb/c.h`.
//!
//! The handle of a transaction outlives its commit, so that every call after it is refused and the
//! handle is destroyed in any case, as all others are.

use crate::border::{Bytes, CallbackState, ErrPtr, Out, half_open_range};
use crate::compare::get_versioned;
use crate::db::{Database, get};
use crate::extra::KeyspaceHandle;
use crate::guard::{quiet, telling};
use crate::handle::Handle;
use crate::iter::{self, Iter};
use crate::options::{ReadSettings, WriteSettings, read_options, write_options};
use engine::{
    Db, Error, Expiry, Keyspace, OfProcess, ReadOptions, Result, Savepoint, Transaction,
    WriteOptions,
};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A transaction as C holds it.
pub struct TransactionHandle {
    state: OfProcess<Mutex<HeldTransaction>>,
}

/// The state of a transaction, behind its lock.
struct HeldTransaction {
    /// `None` once it was committed.
    transaction: Option<Transaction>,
    /// The savepoints by the numbers that C has. No number is used twice.
    savepoints: BTreeMap<u64, Savepoint>,
    last_savepoint: u64,
}

impl HeldTransaction {
    fn transaction(&self) -> Result<&Transaction> {
        self.transaction.as_ref().ok_or_else(ended)
    }

    fn savepoint(&mut self) -> Result<u64> {
        let savepoint = self.transaction()?.savepoint()?;
        self.last_savepoint += 1;
        self.savepoints.insert(self.last_savepoint, savepoint);
        Ok(self.last_savepoint)
    }

    fn rollback_to(&mut self, number: u64) -> Result<()> {
        let savepoint = self.savepoints.get(&number).ok_or_else(|| {
            Error::invalid_argument(format!("the transaction has no savepoint {number}"))
                .advise("pass what cleavedb_transaction_savepoint returned for this transaction")
        })?;
        self.transaction()?.rollback_to(savepoint)?;
        // Later savepoints have ended.
        self.savepoints.split_off(&(number + 1));
        Ok(())
    }
}

fn ended() -> Error {
    Error::wrong_state("the transaction has ended").advise("begin another one")
}

impl TransactionHandle {
    fn begin(db: &Db) -> Result<Handle<TransactionHandle>> {
        let state = HeldTransaction {
            transaction: Some(db.begin()),
            savepoints: BTreeMap::new(),
            last_savepoint: 0,
        };
        Handle::new(TransactionHandle { state: OfProcess::new(Mutex::new(state)) })
    }

    /// Merges an operand.
    pub fn merge(&self, keyspace: &Keyspace, key: &[u8], operand: &[u8]) -> Result<()> {
        self.lock()?.transaction()?.merge(keyspace, key, operand)
    }

    /// Puts a value that expires.
    pub fn put_expiring(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expiry: Expiry,
    ) -> Result<()> {
        self.lock()?.transaction()?.put_expiring(keyspace, key, value, expiry)
    }

    fn lock(&self) -> Result<MutexGuard<'_, HeldTransaction>> {
        Ok(self.state.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the options for a read in this transaction with the settings that C passed.
    fn read_options(&self, settings: Handle<ReadSettings>) -> Result<ReadOptions> {
        let settings = read_options(settings)?;
        if settings.snapshot.is_some() {
            return Err(Error::invalid_argument("a transaction reads at a moment of its own")
                .advise("pass read options without a snapshot"));
        }
        Ok(self.lock()?.transaction()?.read_options().fill_cache(settings.fill_cache))
    }
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_begin(
    db: Handle<Database>,
    errptr: ErrPtr,
) -> Handle<TransactionHandle> {
    telling(errptr, Handle::NULL, || TransactionHandle::begin(db.pin()?.engine()?))
}

/// The function of C that is run in a transaction.
type BodyFunction = extern "C-unwind" fn(CallbackState, Handle<TransactionHandle>) -> c_int;

/// The handle of a transaction that is lent to a function of C. It ends with the function.
struct LentTransaction(Handle<TransactionHandle>);

impl Drop for LentTransaction {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Runs `body` in a transaction and commits it, again and again while it meets conflicts.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_transact(
    db: Handle<Database>,
    options: Handle<WriteSettings>,
    state: CallbackState,
    body: Option<BodyFunction>,
    errptr: ErrPtr,
) -> u8 {
    telling(errptr, 0, || {
        let body = body.ok_or_else(|| Error::invalid_argument("there is no function to be run"))?;
        let (options, db) = (write_options(options)?, db.pin()?);
        let db = db.engine()?;
        db.retry_conflicts(|| {
            let lent = LentTransaction(TransactionHandle::begin(db)?);
            if body(state, lent.0) == 0 {
                return Ok(0);
            }
            commit(lent.0, &options).map(|()| 1)
        })
    })
}

fn commit(transaction: Handle<TransactionHandle>, options: &WriteOptions) -> Result<()> {
    let taken = transaction.pin()?.lock()?.transaction.take();
    taken.ok_or_else(ended)?.commit_with(options)
}

/// Commits the transaction, which ends by that in any case; the handle stays.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_commit(
    transaction: Handle<TransactionHandle>,
    options: Handle<WriteSettings>,
    errptr: ErrPtr,
) {
    telling(errptr, (), || commit(transaction, &write_options(options)?));
}

/// Ends the handle; a transaction that was not committed has no effect.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_destroy(transaction: Handle<TransactionHandle>) {
    quiet((), || {
        transaction.close();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_get(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<ReadSettings>,
    key: Bytes,
    keylen: usize,
    vallen: Out<usize>,
    errptr: ErrPtr,
) -> *mut c_char {
    vallen.set(0);
    telling(errptr, ptr::null_mut(), || {
        let options = transaction.pin()?.read_options(options)?;
        get(keyspace.pin()?.get()?, &options, key.key(keylen)?, vallen)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_get_versioned(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<ReadSettings>,
    key: Bytes,
    keylen: usize,
    vallen: Out<usize>,
    version: Out<u64>,
    errptr: ErrPtr,
) -> *mut c_char {
    vallen.set(0);
    version.set(0);
    telling(errptr, ptr::null_mut(), || {
        let options = transaction.pin()?.read_options(options)?;
        get_versioned(keyspace.pin()?.get()?, &options, key.key(keylen)?, vallen, version)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_create_iterator(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<ReadSettings>,
) -> Handle<Iter> {
    quiet(Handle::NULL, || {
        let read = transaction.pin().and_then(|transaction| transaction.read_options(options));
        let keyspace = keyspace.pin();
        let keyspace = match &keyspace {
            Ok(keyspace) => keyspace.get(),
            Err(error) => Err(error.clone()),
        };
        iter::create(keyspace, read, options)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_put(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    keylen: usize,
    val: Bytes,
    vallen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let (key, value) = (key.key(keylen)?, val.value(vallen)?);
        let keyspace = keyspace.pin()?;
        transaction.pin()?.lock()?.transaction()?.put(keyspace.get()?, key, value)
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_delete(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    keylen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let key = key.key(keylen)?;
        let keyspace = keyspace.pin()?;
        transaction.pin()?.lock()?.transaction()?.delete(keyspace.get()?, key)
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_delete_range(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    begin: Bytes,
    beginlen: usize,
    end: Bytes,
    endlen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let keys = half_open_range((&begin, beginlen), (&end, endlen))?;
        let keyspace = keyspace.pin()?;
        transaction.pin()?.lock()?.transaction()?.delete_range(keyspace.get()?, keys)
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_delete_prefix(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    prefix: Bytes,
    prefixlen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let keyspace = keyspace.pin()?;
        let prefix = prefix.key(prefixlen)?;
        transaction.pin()?.lock()?.transaction()?.delete_prefix(keyspace.get()?, prefix)
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_savepoint(
    transaction: Handle<TransactionHandle>,
    errptr: ErrPtr,
) -> u64 {
    telling(errptr, 0, || transaction.pin()?.lock()?.savepoint())
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_rollback_to(
    transaction: Handle<TransactionHandle>,
    savepoint: u64,
    errptr: ErrPtr,
) {
    telling(errptr, (), || transaction.pin()?.lock()?.rollback_to(savepoint));
}

//! Merges, and merge operators that are functions of C, see `include/cleavedb/c.h`. An operator's
//! destructor runs when its options are destroyed and no database uses it any more.

use crate::batch::BatchHandle;
use crate::border::{Bytes, CallbackState, ErrPtr, Text};
use crate::comparator::{Destructor, NameFunction, name_of};
use crate::extra::{KeyspaceHandle, add_to};
use crate::guard::{quiet, telling};
use crate::handle::Handle;
use crate::options::{DbOptions, WriteSettings, set, write_options};
use crate::transaction::TransactionHandle;
use engine::{Error, MergeOperator, Result};
use std::ffi::c_char;
use std::ptr::{null, null_mut};
use std::sync::Arc;

type Full = extern "C-unwind" fn(
    CallbackState,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    usize,
    *mut *mut c_char,
    *mut usize,
) -> u8;

type Partial = extern "C-unwind" fn(
    CallbackState,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
    *mut usize,
) -> u8;

/// A merge operator that consists of C functions.
pub struct CMergeOperator {
    state: CallbackState,
    destructor: Option<Destructor>,
    full: Full,
    partial: Option<Partial>,
    name: String,
}

/// Calls a function of C that returns 1 and memory from malloc, or 0; returns the memory's content.
fn made(call: impl FnOnce(*mut *mut c_char, *mut usize) -> u8) -> Option<Vec<u8>> {
    let (mut new, mut len) = (null_mut::<c_char>(), 0);
    let is_done = call(&raw mut new, &raw mut len) != 0;
    let bytes = match new.is_null() {
        true => Some(Vec::new()).filter(|_| len == 0),
        // SAFETY: `c.h` demands memory from malloc, with its length beside it.
        false => unsafe {
            let bytes = std::slice::from_raw_parts(new.cast::<u8>(), len).to_vec();
            libc::free(new.cast());
            Some(bytes)
        },
    };
    bytes.filter(|_| is_done)
}

impl MergeOperator for CMergeOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn full(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let pointers: Vec<*const c_char> = operands.iter().map(|it| it.as_ptr().cast()).collect();
        let lengths: Vec<usize> = operands.iter().map(|it| it.len()).collect();
        let (pointer, length) = base.map_or((null(), 0), |it| (it.as_ptr().cast(), it.len()));
        let value = made(|new, len| {
            (self.full)(
                self.state,
                key.as_ptr().cast(),
                key.len(),
                pointer,
                length,
                pointers.as_ptr(),
                lengths.as_ptr(),
                operands.len(),
                new,
                len,
            )
        });
        value.ok_or_else(|| Error::invalid_argument("its function returned no value"))
    }

    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let partial = self.partial?;
        made(|new, len| {
            partial(
                self.state,
                key.as_ptr().cast(),
                key.len(),
                older.as_ptr().cast(),
                older.len(),
                newer.as_ptr().cast(),
                newer.len(),
                new,
                len,
            )
        })
    }
}

impl Drop for CMergeOperator {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            destructor(self.state);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_add_merge_operator(
    options: Handle<DbOptions>,
    state: CallbackState,
    destructor: Option<Destructor>,
    full: Option<Full>,
    partial: Option<Partial>,
    name: Option<NameFunction>,
) {
    quiet((), || {
        options.pin()?.change(|settings| {
            let full =
                full.ok_or_else(|| Error::invalid_argument("there is no function that merges"))?;
            let name = name_of(state, name)?;
            let operator = CMergeOperator { state, destructor, full, partial, name };
            settings.merge_operators.push(Arc::new(operator));
            Ok(())
        });
        Ok(())
    });
}

/// Sets the merge operator of keyspaces that are created with these options.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_merge_operator(options: Handle<DbOptions>, name: Text) {
    set(options, |settings| {
        let name = name.utf8("the name of the merge operator")?;
        settings.keyspace.merge_operator = Some(name.to_owned());
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_merge(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    key: Bytes,
    keylen: usize,
    operand: Bytes,
    operandlen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let options = write_options(options)?;
        let (key, operand) = (key.key(keylen)?, operand.value(operandlen)?);
        keyspace.pin()?.get()?.merge_with(key, operand, &options)
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_writebatch_merge(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    keylen: usize,
    operand: Bytes,
    operandlen: usize,
) {
    add_to(batch, keyspace, |batch, keyspace| {
        batch.add_merge(keyspace, key.key(keylen), operand.value(operandlen));
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_transaction_merge(
    transaction: Handle<TransactionHandle>,
    keyspace: Handle<KeyspaceHandle>,
    key: Bytes,
    keylen: usize,
    operand: Bytes,
    operandlen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let (key, operand) = (key.key(keylen)?, operand.value(operandlen)?);
        let keyspace = keyspace.pin()?;
        transaction.pin()?.merge(keyspace.get()?, key, operand)
    });
}

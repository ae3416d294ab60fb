//! The deletion of ranges of keys, see `include/cleavedb/c.h`.

use crate::batch::BatchHandle;
use crate::border::{Bytes, ErrPtr, half_open_range};
use crate::extra::{KeyspaceHandle, add_to};
use crate::guard::telling;
use crate::handle::Handle;
use crate::options::{WriteSettings, write_options};

#[unsafe(no_mangle)]
extern "C" fn cleavedb_delete_range(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    begin: Bytes,
    beginlen: usize,
    end: Bytes,
    endlen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let options = write_options(options)?;
        let keys = half_open_range((&begin, beginlen), (&end, endlen))?;
        keyspace.pin()?.get()?.delete_range_with(keys, &options)
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_writebatch_delete_range(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    begin: Bytes,
    beginlen: usize,
    end: Bytes,
    endlen: usize,
) {
    add_to(batch, keyspace, |batch, keyspace| {
        batch.add_range(keyspace, half_open_range((&begin, beginlen), (&end, endlen)));
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_delete_prefix(
    keyspace: Handle<KeyspaceHandle>,
    options: Handle<WriteSettings>,
    prefix: Bytes,
    prefixlen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let options = write_options(options)?;
        keyspace.pin()?.get()?.delete_prefix_with(prefix.key(prefixlen)?, &options)
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_writebatch_delete_prefix(
    batch: Handle<BatchHandle>,
    keyspace: Handle<KeyspaceHandle>,
    prefix: Bytes,
    prefixlen: usize,
) {
    add_to(batch, keyspace, |batch, keyspace| {
        batch.add_prefix(keyspace, prefix.key(prefixlen));
    });
}

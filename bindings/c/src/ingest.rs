//! Sorted files and their ingest, see `include/cleavedb/c.h`.

use crate::border::{Array, Bytes, ErrPtr, Text};
use crate::extra::KeyspaceHandle;
use crate::extra_options::encryption_key;
use crate::guard::{quiet, telling};
use crate::handle::Handle;
use engine::{Error, IngestOptions, Result, SortedFileOptions, SortedFileWriter};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The flag that keeps what keys have, as in the header.
const BELOW: u32 = 1;

/// A writer of a sorted file as C holds it; `None` once it was finished.
pub struct SortedFileHandle {
    writer: Mutex<Option<SortedFileWriter>>,
}

fn writing(
    file: Handle<SortedFileHandle>,
    write: impl FnOnce(&mut SortedFileWriter) -> Result<()>,
) -> Result<()> {
    let file = file.pin()?;
    let mut writer = file.writer.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *writer {
        Some(writer) => write(writer),
        None => Err(Error::invalid_argument("the sorted file was finished")),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_sortedfile_create(path: Text, errptr: ErrPtr) -> Handle<SortedFileHandle> {
    telling(errptr, Handle::NULL, || {
        let writer = SortedFileWriter::create(path.path()?, &SortedFileOptions::default())?;
        Handle::new(SortedFileHandle { writer: Mutex::new(Some(writer)) })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_sortedfile_create_encrypted(
    path: Text,
    key: Bytes,
    keylen: usize,
    errptr: ErrPtr,
) -> Handle<SortedFileHandle> {
    telling(errptr, Handle::NULL, || {
        let options = SortedFileOptions::encrypted(Arc::new(encryption_key(key, keylen)?));
        let writer = SortedFileWriter::create(path.path()?, &options)?;
        Handle::new(SortedFileHandle { writer: Mutex::new(Some(writer)) })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_sortedfile_put(
    file: Handle<SortedFileHandle>,
    key: Bytes,
    keylen: usize,
    val: Bytes,
    vallen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let (key, val) = (key.key(keylen)?, val.value(vallen)?);
        writing(file, |writer| writer.put(key, val))
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_sortedfile_delete(
    file: Handle<SortedFileHandle>,
    key: Bytes,
    keylen: usize,
    errptr: ErrPtr,
) {
    telling(errptr, (), || {
        let key = key.key(keylen)?;
        writing(file, |writer| writer.delete(key))
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_sortedfile_finish(file: Handle<SortedFileHandle>, errptr: ErrPtr) {
    telling(errptr, (), || {
        let file = file.pin()?;
        let writer = file.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writer) = writer else {
            return Err(Error::invalid_argument("the sorted file was finished"));
        };
        writer.finish().map(|_| ())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_sortedfile_destroy(file: Handle<SortedFileHandle>) {
    quiet((), || {
        file.close();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_ingest(
    keyspace: Handle<KeyspaceHandle>,
    paths: Array<Text>,
    num_paths: usize,
    flags: u32,
    errptr: ErrPtr,
) -> u64 {
    telling(errptr, 0, || {
        if flags & !BELOW != 0 {
            return Err(Error::invalid_argument(format!("there are no flags {flags} for ingest"))
                .advise("pass 0 or cleavedb_ingest_below"));
        }
        let paths = paths.items(num_paths, "the paths")?;
        let paths = paths.iter().map(Text::path).collect::<Result<Vec<&Path>>>()?;
        let options = IngestOptions::new().below(flags & BELOW != 0);
        keyspace.pin()?.get()?.ingest(&paths, &options).map(|report| report.entries)
    })
}

//! Backups, see `include/cleavedb/c.h`.

use crate::border::{ErrPtr, Text, copy_text};
use crate::db::Database;
use crate::guard::telling;
use crate::handle::Handle;
use engine::{BackupOptions, Backups, Result};
use std::ffi::c_char;
use std::ptr;

/// Returns the point that C means: 0 stands for all of them, or for the newest.
fn named(point: u64) -> Option<u64> {
    (point != 0).then_some(point)
}

fn backups(directory: &Text) -> Result<Backups> {
    Ok(Backups::new(directory.path()?))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_backup(
    db: Handle<Database>,
    directory: Text,
    keep: usize,
    errptr: ErrPtr,
) -> u64 {
    telling(errptr, 0, || {
        let options = BackupOptions::new();
        let options = if keep == 0 { options } else { options.keep(keep) };
        let report = db.pin()?.engine()?.backup_with(directory.path()?, &options)?;
        Ok(report.point)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_backup_list_json(directory: Text, errptr: ErrPtr) -> *mut c_char {
    telling(errptr, ptr::null_mut(), || Ok(copy_text(&backups(&directory)?.list()?.to_json())))
}

/// Returns the number of problems; `errptr` gets the first of them.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_backup_verify(directory: Text, point: u64, errptr: ErrPtr) -> u64 {
    telling(errptr, 0, || {
        let check = backups(&directory)?.verify(named(point))?;
        if let Some(problem) = check.problems.first() {
            errptr.set(&problem.error);
        }
        Ok(check.problems.len() as u64)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_backup_restore(
    directory: Text,
    point: u64,
    target: Text,
    errptr: ErrPtr,
) -> u64 {
    telling(errptr, 0, || {
        let report = backups(&directory)?.restore(named(point), target.path()?)?;
        Ok(report.point)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_backup_delete(directory: Text, point: u64, errptr: ErrPtr) {
    telling(errptr, (), || backups(&directory)?.delete(&[point]).map(|_| ()));
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_backup_keep_newest(directory: Text, keep: usize, errptr: ErrPtr) -> usize {
    telling(errptr, 0, || Ok(backups(&directory)?.keep_newest(keep)?.points.len()))
}

//! Copies a file and takes its checksum on the way: from a database into a backup, and back.

use crate::base::checksum::RunningHash;
use crate::base::error::{Error, IoContext, Result};
use crate::db::backup::point::StoredFile;
use crate::db::long_pass::LongPass;
use crate::env::Env;
use crate::env::fs::File;
use std::path::Path;

/// The size of one read in bytes: large enough for any device, and small beside a bound on the
/// rate.
const PIECE_BYTES: usize = 1 << 20;

/// Copies the first `stored.length` bytes of `from` to the new file `to`, but for the holes, and
/// makes them durable. Returns the checksum of the copy. The holes are neither read nor written:
/// they are zeroes in the copy, and take no space where the file system knows holes.
pub fn copy(
    env: &Env,
    database: u64,
    stored: &StoredFile,
    (from, to): (&Path, &Path),
    pass: &mut LongPass,
) -> Result<u64> {
    let source = env.fs.open_direct(from).doing("open", from)?;
    let target = env.fs.create(to).doing("create", to)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut hash = stored.hash(database);
    let mut offset = 0;
    for &(hole, length) in stored.holes.iter().chain([&(stored.length, 0)]) {
        while offset < hole {
            pass.check_closing()?;
            let part = part_of(&mut piece, hole - offset);
            source.read_exact_at(part, offset).doing("read", from)?;
            hash.update(part);
            target.write_at(part, offset).doing("write", to)?;
            target.start_writeback(offset, part.len() as u64);
            offset += part.len() as u64;
            pass.advance(part.len() as u64);
        }
        add_zeroes(&mut hash, length);
        offset += length;
    }
    if !stored.holes.is_empty() {
        target.set_len(stored.length).doing("extend", to)?;
    }
    // A crash before this sync leaves a file that nothing names yet.
    target.sync().doing("sync", to)?;
    Ok(hash.checksum64())
}

/// Reads a stored file and compares its length and checksum with what its point says.
pub fn verify(
    env: &Env,
    database: u64,
    stored: &StoredFile,
    path: &Path,
    pass: &mut LongPass,
) -> Result<()> {
    let damaged = |what: String| Err(Error::corruption(what).in_file(path));
    if !env.fs.exists(path).doing("look for", path)? {
        return damaged("a file of the backup is missing".into());
    }
    let file = env.fs.open_direct(path).doing("open", path)?;
    let length = file.len().doing("measure", path)?;
    if length != stored.length {
        return damaged(format!("the file has {length} bytes, its point says {}", stored.length));
    }
    let checksum = checksum(&*file, database, stored, path, pass)?;
    if checksum != stored.checksum {
        return damaged("the checksum of a file of the backup does not match".into());
    }
    Ok(())
}

fn checksum(
    file: &dyn File,
    database: u64,
    stored: &StoredFile,
    path: &Path,
    pass: &mut LongPass,
) -> Result<u64> {
    let (mut hash, mut piece, mut offset) = (stored.hash(database), vec![0; PIECE_BYTES], 0);
    while offset < stored.length {
        pass.check_closing()?;
        let part = part_of(&mut piece, stored.length - offset);
        file.read_exact_at(part, offset).doing("read", path)?;
        hash.update(part);
        offset += part.len() as u64;
        pass.advance(part.len() as u64);
    }
    Ok(hash.checksum64())
}

/// Returns the beginning of the piece, as long as what is left, if that is less.
fn part_of(piece: &mut [u8], left: u64) -> &mut [u8] {
    let part = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
    &mut piece[..part]
}

fn add_zeroes(hash: &mut RunningHash, mut length: u64) {
    const ZEROES: [u8; 4096] = [0; 4096];
    while length > 0 {
        let part = length.min(ZEROES.len() as u64);
        hash.update(&ZEROES[..part as usize]);
        length -= part;
    }
}

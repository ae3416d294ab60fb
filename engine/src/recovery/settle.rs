//! Settles what a crash left behind, once everything was read and found sound.

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::pointer::SegmentId;
use crate::commit::replay::{ReplayReport, TornTail};
use crate::costly_check;
use crate::env::Env;
use crate::env::fs::File;
use crate::recovery::Recovered;
use crate::recovery::leftovers::remove_orphans;
use crate::version::edit::{Change, Edit};
use crate::version::files::names;
use crate::version::manifest::sync_manifest;
use crate::version::owner;
use std::path::Path;

/// Bytes that are copied or rewritten at a time.
const COPY_BYTES: usize = 1 << 20;

impl Recovered {
    /// Makes what recovery found durable. If the last session closed its log cleanly, the manifest
    /// is synced and nothing else changes; after a failed sync of that session, its last edit may
    /// still be lost ([`sync_manifest`]). Otherwise what a crash left is settled in this order: the
    /// log and the copy of the torn bytes are made durable, segments behind the torn one are
    /// emptied, a new manifest comes into force, orphans are removed, the torn bytes are cut off.
    /// After a crash in between, the next opening repeats it.
    pub fn settle(&mut self, env: &Env) -> Result<()> {
        let tables = self.set.tables().clone();
        let dir = &tables.dir;
        // The first edit replaces this file. A foreign one is refused now rather than then.
        owner::check_ours(env, &dir.join(names::CURRENT_NEW))?;
        assert_eq!(self.report.orphans_removed, 0, "what a crash left is settled once");
        if self.is_settled() {
            return sync_manifest(env, dir, self.manifest);
        }
        sync_log(env, dir, &self.replay)?;
        self.if_there_is_room(env, |found| found.put_all_aside(env))?;
        // An opening that was killed may have emptied some of those behind the end, and that is in
        // the page cache alone. They look as if they had never been begun, so all are emptied
        // again.
        for &id in &self.replay.never_begun {
            empty(env, dir, id)?;
        }
        // The first edit of this opening begins a new manifest.
        self.if_there_is_room(env, |found| {
            found.set.apply(|_| Ok(settling_edit(&found.replay)), &[], None).map(drop)
        })?;
        self.remove_orphans(env);
        let version = self.set.current();
        for torn in self.replay.torn.iter().filter(|torn| torn.offset > 0) {
            assert_eq!(
                version.segments.get(&torn.segment).and_then(|live| live.sealed),
                Some(torn.offset),
                "I2: what is cut off segment {} is behind its recorded end",
                torn.segment
            );
            cut(env, dir, torn)?;
        }
        Ok(())
    }

    /// Takes a step that may be repeated. If the disk has no room for it, orphans may be what takes
    /// the space, so they go before another try (I9). If there is no room then, an orphan that
    /// can't be removed may be the reason.
    fn if_there_is_room(&mut self, env: &Env, step: impl Fn(&Self) -> Result<()>) -> Result<()> {
        match step(self) {
            Err(error) if error.kind() == ErrorKind::DiskFull && !self.orphans.is_empty() => {
                self.keep_manifest(env)?;
                self.remove_orphans(env);
                step(self).map_err(|error| match error.kind() {
                    ErrorKind::DiskFull => self.tolerated.pop().unwrap_or(error),
                    _ => error,
                })
            }
            done => done,
        }
    }

    /// Copies what is torn to files of their own. It can be repeated until the first segment is
    /// emptied.
    fn put_all_aside(&self, env: &Env) -> Result<()> {
        let tables = self.set.tables();
        let mut torn = self.replay.torn.iter().filter(|torn| torn.bytes > 0);
        torn.try_for_each(|it| put_aside(env, &tables.dir, tables.identity.id, it))
    }

    /// Makes the manifest that was read durable, because no other can be begun. It may exist in the
    /// page cache alone, which after a failed sync may be taken for clean (I8), so it is written
    /// again. The bytes are the same, so a crash at any point of this loses nothing that was there.
    fn keep_manifest(&self, env: &Env) -> Result<()> {
        let dir = &self.set.tables().dir;
        let path = names::manifest(dir, self.manifest);
        let file = env.fs.open_write(&path).doing("open", &path)?;
        rewrite(&*file, &path, file.len().doing("measure", &path)?)?;
        sync_manifest(env, dir, self.manifest)
    }

    /// Removes the files that no edit of a durable manifest names. A crash meanwhile leaves some of
    /// them for the next opening. Those that can't be removed, perhaps because of another program,
    /// take space and do no harm, so the background goes on trying.
    fn remove_orphans(&mut self, env: &Env) {
        let version = self.set.current();
        costly_check!(
            "I5",
            !self.orphans.iter().any(|path| version.names(names::parse(path))),
            "an orphan would be removed that the manifest names"
        );
        let removed = remove_orphans(env, std::mem::take(&mut self.orphans));
        self.report.orphans_removed += removed.count;
        self.tolerated.extend(removed.error);
        // I5: no file gets a number again, so nobody can begin one of these anew. The others are
        // begun anew under the same name, so they are left to who does that and the next opening.
        let mut left = removed.left;
        left.retain(|path| names::parse(path).number().is_some());
        self.set.tables().purge.put_back(left);
    }

    /// True if there is nothing to settle: the log is closed, and the manifest names exactly what
    /// is there.
    fn is_settled(&self) -> bool {
        let ReplayReport { sealed, never_begun, torn, .. } = &self.replay;
        let is_closed = sealed.is_empty() && never_begun.is_empty() && torn.is_empty();
        is_closed && !self.is_torn && self.orphans.is_empty()
    }
}

/// Syncs the segments whose lengths the manifest is about to record. After a process ended, what
/// replay read may exist in the page cache alone.
fn sync_log(env: &Env, dir: &Path, report: &ReplayReport) -> Result<()> {
    for &(id, length) in &report.sealed {
        let path = names::segment(dir, id);
        let file = env.fs.open_write(&path).doing("open", &path)?;
        // I8: what may not have been synced is written again, because after a failed sync the
        // kernel may take pages for clean that never reached the disk, and would not sync them
        // again. The bytes are the same, so a crash at any point of this loses nothing that was
        // there. The segments come in their order, so what is lost is at the end.
        if id >= report.synced_below {
            rewrite(&*file, &path, length)?;
        }
        // I2: a power cut after this sync takes back nothing that was recovered. One before it may;
        // the next replay then ends where the segment does.
        file.sync().doing("sync", &path)?;
    }
    Ok(())
}

/// Writes the first `length` bytes of a file again.
pub fn rewrite(file: &dyn File, path: &Path, length: u64) -> Result<()> {
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(COPY_BYTES).min(COPY_BYTES)];
    let mut offset = 0;
    while offset < length {
        let part = buffer.len().min(usize::try_from(length - offset).unwrap_or(usize::MAX));
        file.read_exact_at(&mut buffer[..part], offset).doing("read", path)?;
        file.write_at(&buffer[..part], offset).doing("write again", path)?;
        offset += part as u64;
    }
    Ok(())
}

/// Copies the torn bytes to a file of their own, before they are cut off.
fn put_aside(env: &Env, dir: &Path, database: u64, torn: &TornTail) -> Result<()> {
    let from = names::segment(dir, torn.segment);
    let to = names::aside(dir, torn.segment);
    let source = env.fs.open(&from).doing("open", &from)?;
    // A crash before the end of the copy leaves a file that begins with its header, or what
    // `begin_anew` leaves. The segment still has the bytes, and the next opening copies them anew.
    let header = Header::new(FileKind::Aside, database, torn.segment.0);
    let target = owner::begin_anew(env, &to, &header.encode())?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut copied = 0;
    while copied < torn.bytes {
        let part = buffer.len().min(usize::try_from(torn.bytes - copied).unwrap_or(usize::MAX));
        let read = source.read_at(&mut buffer[..part], torn.offset + copied);
        let read = read.doing("read the torn end of", &from)?;
        if read == 0 {
            let what = format!("only {copied} of {} torn bytes are left", torn.bytes);
            return Err(Error::internal(what).in_file(&from));
        }
        target.write_at(&buffer[..read], HEADER_BYTES as u64 + copied).doing("write", &to)?;
        copied += read as u64;
    }
    target.sync().doing("sync", &to)?;
    env.fs.sync_dir(dir).doing("sync the directory", dir)
}

/// Empties a segment that was never begun, or lies behind the end of the log, of which there is a
/// copy by now. The manifest is about to forget it: a removal that is lost later must leave no
/// segment that was in use.
fn empty(env: &Env, dir: &Path, id: SegmentId) -> Result<()> {
    let path = names::segment(dir, id);
    let file = env.fs.open_write(&path).doing("open", &path)?;
    // A crash before this is durable leaves all of it, or what was never begun. The log ends before
    // it either way.
    file.set_len(0).doing("empty", &path)?;
    file.sync().doing("sync", &path)
}

/// Cuts the torn bytes off a segment whose length is in the manifest by now.
fn cut(env: &Env, dir: &Path, torn: &TornTail) -> Result<()> {
    let path = names::segment(dir, torn.segment);
    let file = env.fs.open_write(&path).doing("open", &path)?;
    // A crash before or after this is fine: bytes behind the sealed length do not count.
    file.set_len(torn.offset).doing("cut the torn end of", &path)?;
    file.sync().doing("sync", &path)
}

/// Returns the edit that settles what replay found.
fn settling_edit(report: &ReplayReport) -> Edit {
    let seal = |&(id, length): &(SegmentId, u64)| Change::SealSegment { id, length };
    let remove = |&id: &SegmentId| Change::RemoveSegment { id };
    let mut changes: Vec<Change> = report.sealed.iter().map(seal).collect();
    changes.extend(report.never_begun.iter().map(remove));
    changes.push(Change::LastSeqno(report.last_seqno));
    Edit::new(changes)
}

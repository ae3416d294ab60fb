//! A checkpoint: a second, complete database that shares the files of this one by hard links.

use crate::base::error::{Error, IoContext, Result};
use crate::db::{Db, create};
use crate::version::Version;
use crate::version::build::state_of;
use crate::version::manifest::ManifestWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Db {
    /// Makes a complete database in the new directory `target`, as of now: everything committed
    /// before the call is in it. Files are hard-linked where the file system can and copied
    /// where it can't, so it costs little space until the files here go their way.
    ///
    /// Writers wait only while a segment of the log is closed. A checkpoint that was cut short has
    /// no CURRENT and is refused when opened, unless it has no file yet.
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<()> {
        let target = target.as_ref();
        self.core.check_writable()?;
        let (fs, env) = (&self.core.env.fs, &self.core.env);
        if fs.exists(target).doing("look for", target)? {
            return Err(create::exists_already(target));
        }
        // I5: from here on nothing is punched that the version knows nothing of; once the files
        // have a second name, nothing is.
        let unpunched = self.core.set.keep_from_punching();
        let (version, seqno) = self.close_log_for_checkpoint()?;
        // Somebody else may have made it since: only a directory that is made here is ours alone,
        // and nobody can have put anything there that the files would be linked into or replace.
        create::create_new_dir(env, target)?;
        // I5: the version holds its files while they are linked.
        for path in live_files(&version) {
            self.link(&path, target)?;
        }
        drop(unpunched);
        let database = self.core.set.tables().database;
        let next_file = self.core.set.allocate()? + 1;
        let state = state_of(&version, next_file, seqno);
        // Syncs the directory before CURRENT exists: the links are durable first.
        ManifestWriter::create(env, target, database, next_file - 1, &state).map(|_| ())
    }

    /// Closes the active segment, so that all committed so far is in closed ones; returns the
    /// version with only those.
    fn close_log_for_checkpoint(&self) -> Result<(Version, u64)> {
        let committer = &self.core.committer;
        // Held until the version is taken: no table in it has an entry of a later commit, whose
        // value would be in a segment that is not part of the checkpoint.
        let mut log = committer.hold();
        committer.log().end_active(&mut log)?;
        committer.log().record_sealed()?;
        let seqno = log.next_seqno - 1;
        let mut version = (*self.core.set.current()).clone();
        drop(log);
        // The others are spares: nothing was written to them.
        Arc::make_mut(&mut version.segments).retain(|_, live| live.sealed.is_some());
        Ok((version, seqno))
    }

    fn link(&self, from: &Path, target: &Path) -> Result<()> {
        let fs = &self.core.env.fs;
        let to = target.join(from.file_name().unwrap_or_default());
        match fs.hard_link(from, &to) {
            Ok(()) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::CrossesDevices
                        | std::io::ErrorKind::Unsupported
                        | std::io::ErrorKind::TooManyLinks
                        | std::io::ErrorKind::PermissionDenied
                ) =>
            {
                self.copy(from, &to)
            }
            Err(error) => Err(Error::io("link a file into the checkpoint", &to, error)),
        }
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let fs = &self.core.env.fs;
        let source = fs.open(from).doing("open", from)?;
        let target = fs.create(to).doing("create", to)?;
        let mut buffer = vec![0; 1 << 20];
        let mut offset = 0;
        loop {
            let read = source.read_at(&mut buffer, offset).doing("read", from)?;
            if read == 0 {
                break;
            }
            target.write_at(&buffer[..read], offset).doing("write", to)?;
            offset += read as u64;
        }
        target.sync().doing("sync", to)
    }
}

fn live_files(version: &Version) -> Vec<PathBuf> {
    let tables = version.keyspaces.values().flat_map(|keyspace| keyspace.levels.tables());
    let tables = tables.map(|(_, table)| table.path().to_path_buf());
    let segments = version.segments.values().map(|live| live.handle.path().to_path_buf());
    let relocations =
        version.relocations.values().filter_map(|it| it.path().map(Path::to_path_buf));
    tables.chain(segments).chain(relocations).collect()
}

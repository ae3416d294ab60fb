//! A checkpoint: a second, complete database that shares the files of this one by hard links.

use crate::base::error::{Error, IoContext, Result};
use crate::base::key::SeqNo;
use crate::db::{Core, Db};
use crate::recovery::create;
use crate::version::Version;
use crate::version::build::state_of;
use crate::version::keys;
use crate::version::manifest::ManifestWriter;
use std::path::Path;
use std::sync::Arc;

impl Db {
    /// Creates a complete database in the new directory `target`. It holds everything that was
    /// committed before the call. Files are hard-linked where the file system can and copied where
    /// it can't, so the checkpoint costs little space until this database replaces its files.
    ///
    /// Writers wait only while the active segment is sealed. A checkpoint that a crash cut short
    /// has no CURRENT and is refused when opened, unless it has no file yet.
    ///
    /// Costs a hard link for each file and a few syncs. Fails with [`ErrorKind::AlreadyExists`] if
    /// `target` exists, with [`ErrorKind::InvalidArgument`] if it lies within the database's own
    /// directory, and with [`ErrorKind::ReadOnly`] if the database takes no writes.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("checkpoint");
    /// let db = cleavedb::open(dir.join("store"))?;
    /// db.default_keyspace().put("one", "eins")?;
    /// db.checkpoint(dir.join("monday"))?;
    ///
    /// let copy = cleavedb::open(dir.join("monday"))?;
    /// assert_eq!(copy.default_keyspace().get("one")?.unwrap(), "eins");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::AlreadyExists`]: crate::ErrorKind::AlreadyExists
    /// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
    /// [`ErrorKind::ReadOnly`]: crate::ErrorKind::ReadOnly
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<()> {
        let target = target.as_ref();
        self.core.check_writable()?;
        let (fs, env) = (&self.core.env.fs, &self.core.env);
        if fs.exists(target).doing("look for", target)? {
            return Err(create::exists_already(target));
        }
        self.refuse_own_directory(target)?;
        // I5: from here on no hole is punched that the version does not have. Once the files have a
        // second name, none is punched at all.
        let unpunched = self.core.set.keep_from_punching();
        let (version, seqno) = self.core.consistent_version()?;
        // Somebody else may have created it since the check: only a directory that is created here
        // is ours alone, so nothing in it can be what our files are linked into or replace.
        create::create_new_dir(env, target)?;
        // I5: the version holds its files while they are linked.
        for path in version.paths() {
            self.core.check_closing()?;
            self.link(&path, target)?;
        }
        drop(unpunched);
        let tables = self.core.set.tables();
        if tables.identity.is_encrypted() {
            keys::copy(env, &tables.dir, target)?;
        }
        let next_file = self.core.set.allocate()? + 1;
        assert!(
            version.segments.keys().all(|id| id.0 < next_file),
            "I6: the checkpoint gives out no id again"
        );
        let state = state_of(&version, next_file, seqno);
        // This syncs the directory before CURRENT exists, so the links are durable first.
        ManifestWriter::create(env, target, &tables.identity, next_file - 1, &state).map(|_| ())
    }

    /// Refuses a target within the database's own directory, by whatever links it is named: whoever
    /// moves, copies or removes the one would do so to the other.
    pub(super) fn refuse_own_directory(&self, target: &Path) -> Result<()> {
        let fs = &self.core.env.fs;
        let own = &self.core.set.tables().dir;
        let own = fs.canonical(own).doing("look for", own)?;
        for ancestor in target.ancestors() {
            // A name without a directory is in the current one.
            let ancestor = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
            if fs.exists(ancestor).doing("look for", ancestor)? {
                let found = fs.canonical(ancestor).doing("look for", ancestor)?;
                return if found.starts_with(&own) { Err(within_itself(target)) } else { Ok(()) };
            }
        }
        Ok(())
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
            // A process that was asked for a checkpoint on another device need not finish it.
            self.core.check_closing()?;
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

impl Core {
    /// Returns a version in which all commits so far are in sealed segments, and the last sequence
    /// number. A database that takes writes seals its active segment for this. One that was opened
    /// read-only takes the ends that its replay has found, and nothing changes.
    pub(crate) fn consistent_version(&self) -> Result<(Version, SeqNo)> {
        let (mut version, seqno) = match self.options.read_only {
            true => (self.version_as_replayed(), self.snapshots.visible()),
            false => self.version_with_closed_log()?,
        };
        // Unsealed segments are spares, or were never begun: nothing was written to them.
        Arc::make_mut(&mut version.segments).retain(|_, live| live.sealed.is_some());
        Ok((version, seqno))
    }

    fn version_with_closed_log(&self) -> Result<(Version, SeqNo)> {
        let committer = &self.committer;
        // Most of what is not synced yet is synced before writers have to wait.
        committer.sync()?;
        // The log is held until the version is taken, so no table in the version has an entry of a
        // later commit, whose value would be in a segment that is not part of the version.
        let mut log = committer.hold();
        committer.log().end_active(&mut log)?;
        committer.log().record_sealed()?;
        let seqno = log.next_seqno - 1;
        assert!(self.snapshots.visible() <= seqno, "I1: what is visible is in the version");
        let version = (*self.set.current()).clone();
        drop(log);
        Ok((version, seqno))
    }

    fn version_as_replayed(&self) -> Version {
        let mut version = (*self.set.current()).clone();
        for (id, live) in Arc::make_mut(&mut version.segments) {
            // I2: replay has verified the segment up to this end, and nobody appends to it.
            live.sealed = live.sealed.or_else(|| self.log_ends.get(id).copied());
        }
        version
    }
}

fn within_itself(target: &Path) -> Error {
    Error::invalid_argument("the target is within the database's own directory")
        .in_file(target)
        .advise("choose a directory outside of it")
}

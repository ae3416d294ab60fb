//! The simulated file system as the engine sees it. Before a call does its work on the disk, it may
//! pass its turn on, be made to fail, or be hit by a power failure.

use super::disk::{FileId, FileOp, tidy};
use super::faults::{Call, CallFate};
use super::scheduler::{Scheduler, seat};
use super::{SimTaken, SimulationState};
use crate::env::fs::{AccessPattern, Directory, File, Fs, Hold, LOCK_HEAD, Lock, NameKind};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Free space in bytes of a disk without a set capacity.
const PLENTY: u64 = 1 << 40;

/// A process's view of the disk. After a restart the old views and files only return errors.
#[derive(Clone)]
pub(super) struct SimFs {
    pub(super) state: Arc<Mutex<SimulationState>>,
    pub(super) scheduler: Arc<Scheduler>,
    /// The process's number.
    pub(super) boot: u64,
}

struct SimFile {
    fs: SimFs,
    file: FileId,
    path: PathBuf,
    writable: bool,
}

struct SimLock {
    fs: SimFs,
    file: FileId,
}

fn power_failure() -> io::Error {
    io::Error::other("the power is off (simulated)")
}

impl SimFs {
    fn state(&self) -> MutexGuard<'_, SimulationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call: passes the turn on, checks that the process is alive, and decides the call's
    /// fate.
    fn admit(
        &self,
        call: Call,
        path: &Path,
    ) -> io::Result<(MutexGuard<'_, SimulationState>, CallFate)> {
        match seat() {
            Some(seat) => seat.pass(call.name()),
            None => self.scheduler.tick(),
        }
        let mut state = self.state();
        if state.crashed || state.boot != self.boot {
            return Err(power_failure());
        }
        let fate = state.faults.fate(call, path);
        Ok((state, fate))
    }

    /// Makes a call that only reads.
    fn look<R>(
        &self,
        call: Call,
        path: &Path,
        act: impl FnOnce(&mut SimulationState) -> io::Result<R>,
    ) -> io::Result<R> {
        let (mut state, fate) = self.admit(call, path)?;
        fate.error.map_or_else(|| act(&mut state), Err)
    }

    /// Makes a call that changes something. If it is made to fail, nothing happens. If the power
    /// fails, the change has happened but is not synced, so it may survive or not.
    fn change<R>(
        &self,
        call: Call,
        path: &Path,
        act: impl FnOnce(&mut SimulationState) -> io::Result<R>,
    ) -> io::Result<R> {
        let (mut state, fate) = self.admit(call, path)?;
        if let Some(error) = fate.error {
            state.crashed |= fate.power_fails;
            return Err(error);
        }
        let result = act(&mut state);
        if fate.power_fails {
            state.crashed = true;
            return Err(power_failure());
        }
        result
    }

    /// Makes a call that makes something durable. If the power fails, nothing becomes durable.
    fn make_durable(
        &self,
        call: Call,
        path: &Path,
        act: impl FnOnce(&mut SimulationState) -> io::Result<()>,
        fail: impl FnOnce(&mut SimulationState),
    ) -> io::Result<()> {
        let (mut state, fate) = self.admit(call, path)?;
        if fate.power_fails {
            state.crashed = true;
            return Err(power_failure());
        }
        match fate.error {
            None => act(&mut state),
            Some(error) => {
                fail(&mut state);
                Err(error)
            }
        }
    }

    /// Returns a handle of a file that was just opened.
    fn handle(&self, file: FileId, path: PathBuf, writable: bool) -> Arc<dyn File> {
        Arc::new(SimFile { fs: self.clone(), file, path, writable })
    }

    fn open_as(&self, path: &Path, writable: bool) -> io::Result<Arc<dyn File>> {
        let path = tidy(path);
        let file = self.look(Call::Open, &path, |state| {
            let file = state.disk.find(&path)?;
            Ok(state.disk.open(file))
        })?;
        Ok(self.handle(file, path, writable))
    }
}

impl Fs for SimFs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let path = tidy(path);
        let file = self.change(Call::Create, &path, |state| {
            let file = state.disk.create(&path)?;
            Ok(state.disk.open(file))
        })?;
        Ok(self.handle(file, path, true))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open_as(path, false)
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open_as(path, true)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (tidy(from), tidy(to));
        self.change(Call::Rename, &to, |state| state.disk.rename(&from, &to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = tidy(path);
        self.change(Call::Remove, &path, |state| state.disk.remove(&path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (tidy(from), tidy(to));
        self.change(Call::HardLink, &to, |state| state.disk.hard_link(&from, &to))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = tidy(path);
        self.change(Call::CreateDir, &path, |state| state.disk.create_dir_all(&path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let path = tidy(path);
        self.change(Call::CreateDir, &path, |state| state.disk.create_dir(&path))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Directory>> {
        let path = tidy(path);
        match self.kind(&path)? {
            Some(NameKind::Directory) => Ok(Box::new(SimDirectory { fs: self.clone(), path })),
            Some(_) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn kind(&self, path: &Path) -> io::Result<Option<NameKind>> {
        let path = tidy(path);
        self.look(Call::Inspect, &path, |state| Ok(state.disk.kind(&path)))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let path = tidy(path);
        self.look(Call::List, &path, |state| state.disk.list(&path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = tidy(path);
        self.make_durable(Call::SyncDir, &path, |state| state.disk.sync_dir(&path), |_| {})
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(tidy(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let path = tidy(path);
        self.look(Call::Inspect, &path, |state| Ok(state.disk.exists(&path)))
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.look(Call::Inspect, path, |state| Ok(state.room().unwrap_or(PLENTY)))
    }

    fn lock(&self, path: &Path, hold: Hold, holder: &str) -> io::Result<Box<dyn Lock>> {
        let (path, holder) = (tidy(path), hold.text(holder));
        let file = self.change(Call::Lock, &path, |state| {
            if !state.disk.exists(&path) {
                state.disk.create(&path)?;
            }
            let file = state.disk.find(&path)?;
            let free = SimTaken { hold, count: 0, holder: String::new() };
            let taken = state.locks.entry(file).or_insert(free);
            if taken.count > 0 && !hold.goes_with(taken.hold) {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, taken.holder.clone()));
            }
            taken.count += 1;
            holder.clone_into(&mut taken.holder);
            state.disk.change(file, FileOp::SetLen(0));
            let bytes = [LOCK_HEAD, &*holder].concat().into_bytes();
            state.disk.change(file, FileOp::Write { offset: 0, bytes });
            Ok(file)
        })?;
        Ok(Box::new(SimLock { fs: self.clone(), file }))
    }
}

/// A directory identified by its path, as the simulated disk never replaces a directory.
struct SimDirectory {
    fs: SimFs,
    path: PathBuf,
}

impl Directory for SimDirectory {
    fn list(&self) -> io::Result<Vec<PathBuf>> {
        self.fs.list(&self.path)
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        self.fs.remove(&self.path.join(name))
    }

    /// Links and removes in two steps, as the disk renames within a directory only.
    fn take(&self, from: &Path, name: &OsStr) -> io::Result<()> {
        self.fs.hard_link(from, &self.path.join(name))?;
        self.fs.remove(from)
    }
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.fs.state();
        if state.boot == self.fs.boot
            && let Some(taken) = state.locks.get_mut(&self.file)
        {
            assert!(taken.count > 0, "a lock is released once");
            taken.count -= 1;
            if taken.count == 0 {
                state.locks.remove(&self.file);
            }
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.fs.state();
        if state.boot == self.fs.boot {
            state.disk.close(self.file);
        }
    }
}

impl SimFile {
    fn change(&self, call: Call, op: FileOp) -> io::Result<()> {
        self.check_writable()?;
        self.fs.change(call, &self.path, |state| {
            state.disk.change(self.file, op);
            Ok(())
        })
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is open for reading only"))
    }

    fn inspect<R>(&self, look: impl FnOnce(&mut SimulationState) -> R) -> io::Result<R> {
        self.fs.look(Call::Inspect, &self.path, |state| Ok(look(state)))
    }

    fn write_part(&self, state: &mut SimulationState, offset: u64, part: &[u8]) {
        if !part.is_empty() {
            state.disk.change(self.file, FileOp::Write { offset, bytes: part.to_vec() });
        }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fs.look(Call::Read, &self.path, |state| {
            Ok(state.disk.file(self.file).live.read(offset, buf))
        })
    }

    /// A write that fails may have written a part; on a full disk the part that fits is written.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        let (mut state, fate) = self.fs.admit(Call::Write, &self.path)?;
        let room = state.room().unwrap_or(u64::MAX);
        let fits = state.disk.fitting(self.file, offset, buf.len(), room);
        let written = match &fate.error {
            None => fits,
            // Often enough all of it is written: the error says nothing about what was written.
            Some(_) if state.dice.one_in(4) => fits,
            Some(_) => state.dice.below(buf.len() + 1).min(fits),
        };
        assert!(written <= fits && fits <= buf.len(), "a full disk takes what fits");
        self.write_part(&mut state, offset, &buf[..written]);
        if fate.power_fails {
            state.crashed = true;
            return Err(power_failure());
        }
        match fate.error {
            Some(error) => Err(error),
            None if fits < buf.len() => Err(io::ErrorKind::StorageFull.into()),
            None => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let sync = |state: &mut SimulationState| {
            state.disk.sync(self.file);
            Ok(())
        };
        let fail = |state: &mut SimulationState| {
            let SimulationState { disk, dice, .. } = state;
            disk.fail_sync(self.file, || dice.one_in(2));
        };
        self.fs.make_durable(Call::Sync, &self.path, sync, fail)
    }

    fn start_writeback(&self, _: u64, _: u64) {}

    /// Extends the file at once, as the real one does. A power failure may lose the length, or keep
    /// it without the bytes that were written since. A full disk prepares nothing.
    fn prepare_appends(&self, from: u64, len: u64) {
        let end = from.saturating_add(len);
        // The call is a hint, so a failure is ignored.
        let _ = self.fs.change(Call::SetLen, &self.path, |state| {
            let live = state.disk.file(self.file).live.len();
            if self.writable && live < end && state.room().is_none_or(|room| room >= len) {
                state.disk.change(self.file, FileOp::SetLen(end));
            }
            Ok(())
        });
    }

    fn len(&self) -> io::Result<u64> {
        self.inspect(|state| state.disk.file(self.file).live.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Call::SetLen, FileOp::SetLen(len))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(Call::Punch, FileOp::Punch { offset, len })
    }

    fn allocated(&self) -> io::Result<u64> {
        self.inspect(|state| state.disk.file(self.file).live.allocated())
    }

    fn links(&self) -> io::Result<u64> {
        self.inspect(|state| state.disk.links(self.file))
    }

    fn advise(&self, _: AccessPattern) {}

    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

//! The simulated disk: the state that processes see, and the state that a power failure leaves.
//!
//! Everything exists twice: *live*, as seen through the page cache, and *durable*, as of the last
//! sync. Between the two lie operations in order: those of each file since its sync, and those of
//! names since the sync of their directory. `survivors.rs` draws which of them survive.
//!
//! The model is as strict as POSIX: a synced file whose name was not synced may be gone, names
//! survive independently of each other, and only a rename is atomic. Directories are names like
//! files.

use super::content::Content;
use crate::env::fs::NameKind;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

const PAGE: u64 = super::content::PAGE_BYTES as u64;

pub(super) type FileId = u64;

/// A change of a file that is not yet synced.
#[derive(Clone)]
pub(super) enum FileOp {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
    Punch { offset: u64, len: u64 },
}

/// A change of names that is not yet synced.
#[derive(Clone)]
pub(super) enum NameOp {
    Link { path: PathBuf, name: Name },
    Unlink { path: PathBuf, file: FileId },
    Rename { from: PathBuf, to: PathBuf, file: FileId },
}

/// The thing that a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    File(FileId),
    Directory,
}

pub(super) type Names = BTreeMap<PathBuf, Name>;

#[derive(Clone, Default)]
pub(super) struct FileState {
    pub(super) live: Content,
    pub(super) durable: Content,
    /// Unsynced changes, each with its number in the order of operations of the whole disk.
    pub(super) unsynced: Vec<(u64, FileOp)>,
    pub(super) open: u64,
}

#[derive(Clone, Default)]
pub(super) struct Disk {
    pub(super) files: BTreeMap<FileId, FileState>,
    pub(super) live_names: Names,
    pub(super) durable_names: Names,
    pub(super) unsynced_names: Vec<(u64, NameOp)>,
    next_file: FileId,
    next_op: u64,
}

impl FileOp {
    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            FileOp::Write { offset, bytes } => content.write(*offset, bytes),
            FileOp::SetLen(len) => content.set_len(*len),
            FileOp::Punch { offset, len } => content.punch(*offset, *len),
        }
    }
}

impl NameOp {
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            NameOp::Link { path, name } => {
                names.insert(path.clone(), *name);
            }
            NameOp::Unlink { path, file } => unlink(names, path, *file),
            NameOp::Rename { from, to, file } => {
                unlink(names, from, *file);
                names.insert(to.clone(), Name::File(*file));
            }
        }
    }

    fn directory(&self) -> &Path {
        match self {
            NameOp::Link { path, .. } | NameOp::Unlink { path, .. } => parent(path),
            NameOp::Rename { to, .. } => parent(to),
        }
    }

    fn file(&self) -> Option<FileId> {
        match self {
            NameOp::Link { name: Name::File(file), .. }
            | NameOp::Unlink { file, .. }
            | NameOp::Rename { file, .. } => Some(*file),
            NameOp::Link { name: Name::Directory, .. } => None,
        }
    }
}

fn unlink(names: &mut Names, path: &Path, file: FileId) {
    if names.get(path) == Some(&Name::File(file)) {
        names.remove(path);
    }
}

/// Returns the path without "." components.
pub(super) fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|component| *component != Component::CurDir).collect()
}

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Returns true for the roots of absolute and of relative paths, which always exist.
fn is_root(path: &Path) -> bool {
    path.parent().is_none()
}

fn is_directory(names: &Names, path: &Path) -> bool {
    is_root(path) || names.get(path) == Some(&Name::Directory)
}

impl Disk {
    fn number(&mut self) -> u64 {
        self.next_op += 1;
        self.next_op
    }

    pub(super) fn file(&mut self, file: FileId) -> &mut FileState {
        self.files.get_mut(&file).expect("a file that is open or has a name exists")
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<FileId> {
        debug_assert!(!path.starts_with("."), "one file has one path: {}", path.display());
        match self.live_names.get(path) {
            Some(Name::File(file)) => Ok(*file),
            Some(Name::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Changes a file and records the change as unsynced.
    pub(super) fn change(&mut self, file: FileId, op: FileOp) {
        let number = self.number();
        let state = self.file(file);
        op.apply(&mut state.live);
        state.unsynced.push((number, op));
    }

    pub(super) fn sync(&mut self, file: FileId) {
        let state = self.file(file);
        assert!(state.unsynced.is_sorted_by_key(|(number, _)| *number), "changes are in order");
        for (_, op) in std::mem::take(&mut state.unsynced) {
            op.apply(&mut state.durable);
        }
    }

    /// Makes a sync fail: each unsynced operation becomes durable or is lost, as `survives`
    /// decides. A lost one never becomes durable, though reads still show it, as the kernel now
    /// takes its pages for clean.
    pub(super) fn fail_sync(&mut self, file: FileId, mut survives: impl FnMut() -> bool) {
        let state = self.file(file);
        for (_, op) in std::mem::take(&mut state.unsynced) {
            if survives() {
                op.apply(&mut state.durable);
            }
        }
    }

    fn change_names(&mut self, op: NameOp) {
        let number = self.number();
        op.apply(&mut self.live_names);
        let last = self.unsynced_names.last();
        assert!(last.is_none_or(|(last, _)| *last < number), "changes of names are in order");
        self.unsynced_names.push((number, op));
    }

    fn check_free(&self, path: &Path) -> io::Result<()> {
        if !is_directory(&self.live_names, parent(path)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        match self.live_names.contains_key(path) || is_root(path) {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => Ok(()),
        }
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<FileId> {
        self.check_free(path)?;
        self.next_file += 1;
        let file = self.next_file;
        let before = self.files.insert(file, FileState::default());
        assert!(before.is_none(), "the number of a file is used once");
        self.change_names(NameOp::Link { path: path.to_owned(), name: Name::File(file) });
        Ok(file)
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        self.check_free(path)?;
        self.change_names(NameOp::Link { path: path.to_owned(), name: Name::Directory });
        Ok(())
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut missing: Vec<&Path> = path.ancestors().collect();
        missing.retain(|path| !is_directory(&self.live_names, path));
        for path in missing.into_iter().rev() {
            self.check_free(path)?;
            self.change_names(NameOp::Link { path: path.to_owned(), name: Name::Directory });
        }
        Ok(())
    }

    pub(super) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.find(from)?;
        self.check_free(to)?;
        self.change_names(NameOp::Link { path: to.to_owned(), name: Name::File(file) });
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let file = self.find(path)?;
        self.change_names(NameOp::Unlink { path: path.to_owned(), file });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.find(from)?;
        if parent(from) != parent(to) {
            let text = "the simulated disk renames within a directory only";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        match self.live_names.get(to) {
            Some(Name::Directory) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Name::File(other)) if *other == file => return Ok(()), // POSIX: nothing happens
            _ => {}
        }
        self.change_names(NameOp::Rename { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        if !is_directory(&self.live_names, path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut others = Vec::new();
        for (number, op) in std::mem::take(&mut self.unsynced_names) {
            match op.directory() == path {
                true => op.apply(&mut self.durable_names),
                false => others.push((number, op)),
            }
        }
        self.unsynced_names = others;
        self.forget_unreachable();
        Ok(())
    }

    /// Returns the sorted names of the files in a directory.
    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        if !is_directory(&self.live_names, path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let is_file_here = |(name, kind): &(&PathBuf, &Name)| {
            matches!(kind, Name::File(_)) && parent(name) == path
        };
        let names = self.live_names.iter().filter(is_file_here);
        Ok(names.filter_map(|(name, _)| name.file_name().map(PathBuf::from)).collect())
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        is_root(path) || self.live_names.contains_key(path)
    }

    pub(super) fn kind(&self, path: &Path) -> Option<NameKind> {
        match self.live_names.get(path) {
            Some(Name::File(_)) => Some(NameKind::File),
            Some(Name::Directory) => Some(NameKind::Directory),
            None => is_root(path).then_some(NameKind::Directory),
        }
    }

    pub(super) fn links(&self, file: FileId) -> u64 {
        self.live_names.values().filter(|name| **name == Name::File(file)).count() as u64
    }

    /// Counts one more open handle of a file.
    pub(super) fn open(&mut self, file: FileId) -> FileId {
        self.file(file).open += 1;
        file
    }

    /// Counts one open handle of a file less.
    pub(super) fn close(&mut self, file: FileId) {
        assert!(self.file(file).open > 0, "a handle is closed once");
        self.file(file).open -= 1;
        self.forget_unreachable();
    }

    fn named(names: &Names) -> BTreeSet<FileId> {
        let file = |name: &Name| match name {
            Name::File(file) => Some(*file),
            Name::Directory => None,
        };
        names.values().filter_map(file).collect()
    }

    /// Returns the number of files that have no name but are still open.
    pub(super) fn open_but_removed(&self) -> usize {
        let named = Self::named(&self.live_names);
        self.files.iter().filter(|(id, file)| file.open > 0 && !named.contains(id)).count()
    }

    /// Returns the bytes allocated by all files that processes can reach.
    pub(super) fn used(&self) -> u64 {
        let named = Self::named(&self.live_names);
        let reachable = self.files.iter().filter(|(id, file)| file.open > 0 || named.contains(id));
        reachable.map(|(_, file)| file.live.allocated()).sum()
    }

    /// Returns how many of the `len` bytes of a write fit in `room` bytes of free space.
    pub(super) fn fitting(&self, file: FileId, offset: u64, len: usize, room: u64) -> usize {
        let live = &self.files[&file].live;
        let mut fits = len;
        while fits > 0 && live.growth(offset, fits) > room {
            let last_page_start = (offset + fits as u64 - 1) / PAGE * PAGE;
            fits = last_page_start.saturating_sub(offset) as usize;
        }
        debug_assert!(live.growth(offset, fits) <= room, "a full disk allocates nothing");
        fits
    }

    /// Drops files that no process sees and that no crash can bring back.
    fn forget_unreachable(&mut self) {
        let mut reachable = Self::named(&self.live_names);
        reachable.extend(Self::named(&self.durable_names));
        reachable.extend(self.unsynced_names.iter().filter_map(|(_, op)| op.file()));
        self.files.retain(|id, file| file.open > 0 || reachable.contains(id));
    }

    /// Ends every process: no change that was handed to the kernel is lost, and none is synced by
    /// it.
    pub(super) fn close_all(&mut self) {
        self.files.values_mut().for_each(|file| file.open = 0);
        self.forget_unreachable();
    }

    /// Replaces the disk by what survived: names and contents, all of them durable.
    pub(super) fn become_durable(&mut self, mut names: Names) {
        loop {
            let orphan = |path: &&PathBuf| !is_directory(&names, parent(path));
            let orphans: Vec<PathBuf> = names.keys().filter(orphan).cloned().collect();
            if orphans.is_empty() {
                break;
            }
            names.retain(|path, _| !orphans.contains(path));
        }
        assert!(
            Self::named(&names).iter().all(|file| self.files.contains_key(file)),
            "a name that survives stands for a file"
        );
        self.live_names.clone_from(&names);
        self.durable_names = names;
        self.unsynced_names.clear();
        for file in self.files.values_mut() {
            file.live = file.durable.clone();
            file.unsynced.clear();
        }
        self.close_all();
    }
}

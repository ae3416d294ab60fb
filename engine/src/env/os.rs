//! The real file system: positioned reads and writes, hole punching, advice.
//!
//! Calls that a signal interrupts are repeated; every other error is passed up unchanged. A failed
//! sync is never repeated here (I8).

#[cfg(target_os = "linux")]
use super::direct_read::DirectRead;
#[cfg(target_os = "linux")]
use super::direct_write::DirectWrite;
use super::fork::Process;
use super::fs::{AccessPattern, Directory, File, Fs, Hold, Lock, Measure, NameKind};
use super::links::{self, OsDirectory};
use super::locks::OsLock;
use super::mapped::Mapped;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

/// Registers `handler`, which is then called in every child that is forked.
#[expect(unsafe_code, reason = "no safe crate offers pthread_atfork")]
pub(super) fn at_fork(handler: extern "C" fn()) {
    // SAFETY: the handler only increments an atomic (see `fork.rs`), which is allowed in a child of
    // a process with threads. If there is no memory to register it, forks are not detected, and
    // nothing else changes.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) };
}

/// Returns the user of the process at the other end of a Unix socket.
///
/// A process of another PID namespace, as that of a container's host, has the number 0 here, which
/// `rustix` takes for impossible.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe crate reads the user of a process without a number")]
pub(super) fn peer_user(stream: &std::os::unix::net::UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the descriptor is open while `stream` is borrowed. The pointers lead to a `ucred` and
    // to its length, beyond which the kernel writes nothing; any bytes are a `ucred`.
    let failed = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(peer.uid)
}

/// The operating system's file system. In a child of the process that it is of, it reads but
/// changes nothing.
pub(super) struct OsFs(pub(super) Process);

struct OsFile {
    file: fs::File,
    /// The process that opened it. A child shares the descriptor and the mapping, so what it wrote
    /// would be in its parent's file.
    process: Process,
    /// The mapping for appends, if they were prepared. The lock is held for one copy, or while the
    /// mapping or the file length it relies on changes.
    appends: Mutex<Option<Mapped>>,
}

impl OsFile {
    fn share(file: fs::File) -> Arc<dyn File> {
        Arc::new(OsFile { file, process: Process::this(), appends: Mutex::new(None) })
    }

    fn appends(&self) -> MutexGuard<'_, Option<Mapped>> {
        self.appends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kinds of file systems that are in memory, as `statfs` tells them on Linux.
#[cfg(target_os = "linux")]
const TMPFS: u32 = 0x0102_1994;
#[cfg(target_os = "linux")]
const RAMFS: u32 = 0x8584_58f6;

/// The unit in which `stat` counts blocks, whatever the file system's own block size is.
const STAT_BLOCK_BYTES: u64 = 512;

impl File for OsFile {
    fn read_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<usize> {
        let wanted = buf.len();
        while !buf.is_empty() {
            match self.file.read_at(buf, offset) {
                Ok(0) => break,
                Ok(read) => {
                    buf = &mut buf[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(wanted - buf.len())
    }

    #[cfg(target_os = "linux")]
    fn read_cached(&self, buf: &mut [u8], offset: u64) -> bool {
        use rustix::io::{ReadWriteFlags, preadv2};
        let wanted = buf.len();
        let mut parts = [io::IoSliceMut::new(buf)];
        // Any error, including a file system without such reads, is left to the ordinary read.
        let read = preadv2(&self.file, &mut parts, offset, ReadWriteFlags::NOWAIT);
        read.is_ok_and(|read| read == wanted)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.process.check_io()?;
        if self.appends().as_mut().is_some_and(|mapped| mapped.write(buf, offset)) {
            return Ok(());
        }
        self.file.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // `fdatasync` leaves out the times but includes the length, which reading back needs.
        self.file.sync_data()
    }

    fn start_writeback(&self, offset: u64, len: u64) {
        if self.process.is_gone() {
            return;
        }
        if let Some(mapped) = self.appends().as_mut() {
            mapped.unmap_before(offset.saturating_add(len));
        }
        start_writeback(&self.file, offset, len);
    }

    fn start_read(&self, offset: u64, len: u64) {
        start_read(&self.file, offset, len);
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn prepare_appends(&self, from: u64, len: u64) {
        if self.process.is_gone() {
            return;
        }
        // The lock is held throughout: a cut between allocating the blocks and mapping them would
        // leave the mapping behind the end of the file.
        let mut appends = self.appends();
        *appends = Mapped::new(&self.file, from, len).ok();
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.process.check_io()?;
        // A store into a mapping behind the end of its file would end the process. The lock is held
        // until the file is cut, so that nobody maps it meanwhile.
        let mut appends = self.appends();
        *appends = None;
        self.file.set_len(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.process.check_io()?;
        punch(&self.file, offset, len)
    }

    fn allocated(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * STAT_BLOCK_BYTES)
    }

    fn links(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.nlink())
    }

    fn advise(&self, advice: AccessPattern) {
        advise(&self.file, advice);
    }

    #[cfg(any(feature = "sim", feature = "io-uring"))]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.file))
    }
}

/// The nice value that background threads add: they get about a third of the processor time of a
/// foreground thread, and all of an idle processor.
#[cfg(target_os = "linux")]
const NICER: i32 = 5;

/// Lowers the priority of the calling thread; on Linux each thread has its own.
#[cfg(target_os = "linux")]
pub(super) fn lower_priority() {
    use rustix::process::{getpriority_process, setpriority_process};
    // If the system refuses, the thread runs at the usual priority: slower at worst, never wrong.
    if let Ok(now) = getpriority_process(None) {
        let _ = setpriority_process(None, (now + NICER).min(19));
    }
}

/// Does nothing: outside Linux priorities belong to processes.
#[cfg(not(target_os = "linux"))]
pub(super) fn lower_priority() {}

/// Returns the fourth number of the first line of `/proc/stat`, which sums up all processors.
#[cfg(target_os = "linux")]
pub(super) fn idle_processor_time() -> Option<std::time::Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = stat.lines().next()?.split_whitespace().nth(4)?.parse().ok()?;
    let per_second = rustix::param::clock_ticks_per_second();
    (per_second > 0).then(|| std::time::Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
pub(super) fn idle_processor_time() -> Option<std::time::Duration> {
    None
}

#[cfg(target_os = "linux")]
fn punch(file: &fs::File, offset: u64, len: u64) -> io::Result<()> {
    use super::file_system::{file_system_of, frees_holes};
    use rustix::fs::{FallocateFlags, fallocate};
    if len == 0 {
        return Ok(());
    }
    if !frees_holes(file_system_of(file)?) {
        let reason = "holes free nothing on this file system";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::io::retry_on_intr(|| fallocate(file, flags, offset, len)) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "this file system punches no holes"))
        }
        result => Ok(result?),
    }
}

#[cfg(not(target_os = "linux"))]
fn punch(_: &fs::File, _: u64, _: u64) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "holes are punched on Linux only"))
}

#[cfg(target_os = "linux")]
fn advise(file: &fs::File, advice: AccessPattern) {
    let advice = match advice {
        AccessPattern::Random => rustix::fs::Advice::Random,
        AccessPattern::Sequential => rustix::fs::Advice::Sequential,
    };
    // This is a hint: a file system that ignores it reads just as well.
    let _ = rustix::fs::fadvise(file, 0, None, advice);
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &fs::File, _: AccessPattern) {}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe crate offers sync_file_range")]
fn start_writeback(file: &fs::File, offset: u64, len: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
        return;
    };
    // SAFETY: the call takes no pointer, and the descriptor is open as long as `file` is borrowed.
    // The result may be ignored, as the call is a hint: with this flag alone it waits for nothing
    // and so neither reports nor clears an error, and write errors come back from the next sync.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE);
    }
}

#[cfg(not(target_os = "linux"))]
fn start_writeback(_: &fs::File, _: u64, _: u64) {}

#[cfg(target_os = "linux")]
fn start_read(file: &fs::File, offset: u64, len: u64) {
    if let Some(len) = std::num::NonZeroU64::new(len) {
        // This is a hint: what the system does not read now is read when it is asked for.
        let _ = rustix::fs::fadvise(file, offset, Some(len), rustix::fs::Advice::WillNeed);
    }
}

#[cfg(not(target_os = "linux"))]
fn start_read(_: &fs::File, _: u64, _: u64) {}

/// Creates a file that must not exist.
fn create_new(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    loop {
        // `create_new` opens exclusively, so a symbolic link of that name is refused, too.
        match options.read(true).write(true).create_new(true).mode(0o600).open(path) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            file => return file,
        }
    }
}

impl Fs for OsFs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.0.check_io()?;
        Ok(OsFile::share(create_new(path)?))
    }

    #[cfg(target_os = "linux")]
    fn create_direct(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.0.check_io()?;
        let file = create_new(path)?;
        // The name may lead to another file by now, this one only to the one that was created.
        let same = format!("/proc/self/fd/{}", file.as_raw_fd());
        let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(same);
        let file = OsFile::share(file);
        // Without direct writes, or without a thread for them, the plain file is used.
        let direct = direct.and_then(|direct| DirectWrite::new(file.clone(), direct));
        Ok(direct.map(|direct| Arc::new(direct) as _).unwrap_or(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(OsFile::share(links::open_regular(path, false)?))
    }

    #[cfg(target_os = "linux")]
    fn open_direct(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = self.open(path)?;
        let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
        // Without direct reads, as on a file system that has none, the plain file is used.
        Ok(direct
            .map(|direct| Arc::new(DirectRead::new(file.clone(), direct)) as _)
            .unwrap_or(file))
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.0.check_io()?;
        Ok(OsFile::share(links::open_regular(path, true)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.check_io()?;
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.check_io()?;
        fs::remove_file(path)
    }

    #[cfg(target_os = "linux")]
    fn removed_unwritten(&self, dir: &Path) -> Option<u64> {
        // Files in memory are never written, and the kernel doesn't count them.
        let kind = rustix::fs::statfs(or_here(dir)).ok()?.f_type;
        if [TMPFS, RAMFS].contains(&(kind as u32)) {
            return None;
        }
        let counts = fs::read_to_string("/proc/thread-self/io").ok()?;
        let mut lines = counts.lines();
        let bytes = lines.find_map(|line| line.strip_prefix("cancelled_write_bytes: "))?;
        bytes.parse().ok()
    }

    #[cfg(target_os = "linux")]
    fn read_ahead_bytes(&self, path: &Path) -> u64 {
        let found = super::file_system::read_ahead_bytes(Path::new("/sys"), path);
        found.unwrap_or(super::fs::USUAL_READ_AHEAD_BYTES)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.check_io()?;
        fs::hard_link(from, to)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.check_io()?;
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.check_io()?;
        DirBuilder::new().mode(0o700).create(path)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Directory>> {
        Ok(Box::new(OsDirectory::open(path)?))
    }

    fn kind(&self, path: &Path) -> io::Result<Option<NameKind>> {
        links::kind(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.check_io()?;
        fs::remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.push(PathBuf::from(entry.file_name()));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::File::open(or_here(path))?.sync_all()
    }

    fn measure(&self, path: &Path) -> io::Result<Measure> {
        let found = fs::metadata(path)?;
        let modified = found.modified().ok();
        Ok(Measure {
            len: found.len(),
            allocated: found.blocks() * STAT_BLOCK_BYTES,
            links: found.nlink(),
            modified: modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()),
        })
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(or_here(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::io::retry_on_intr(|| rustix::fs::statvfs(or_here(path)))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn lock(&self, path: &Path, hold: Hold, holder: &str) -> io::Result<Box<dyn Lock>> {
        Ok(Box::new(OsLock::take(path, hold, holder)?))
    }
}

/// Returns "." for the empty path, which is the parent of a bare file name and which the system
/// does not accept as the current directory.
fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Returns the path of a fresh directory for an example in the documentation.
#[doc(hidden)]
pub fn doc_dir(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("cleavedb-doc-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

//! Unix sockets in a directory, with the system's word for who the client is.
//!
//! The directory is opened, and the socket's address is its name below the descriptor's own path in
//! `/proc`. So the length of the directory's path does not matter (an address has 108 bytes), and
//! nobody can put another directory in its place meanwhile.

use super::fork::Process;
use super::fs::parent_of;
use super::os::peer_user;
use super::sockets::{Connection, SocketListener, Sockets};
use super::sync::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::Shutdown::Both;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen, send,
    shutdown, socket_with,
};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Clients that may wait to be accepted. More of them are refused by the system.
const BACKLOG: i32 = 16;

/// The operating system's sockets.
pub(super) struct OsSockets(pub(super) Process);

struct OsListener {
    /// `None` once the socket was removed.
    listener: Mutex<Option<Arc<UnixListener>>>,
    /// Wakes who waits, once a number is written to it.
    bell: OwnedFd,
    directory: OwnedFd,
    name: OsString,
    /// Device and inode of the socket: they tell it from another that took its name.
    identity: (u64, u64),
    process: Process,
}

struct OsConnection {
    stream: UnixStream,
    process: Process,
}

impl Sockets for OsSockets {
    fn listen(&self, path: &Path) -> io::Result<Arc<dyn SocketListener>> {
        self.0.check_io()?;
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_owned();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(rustix::fs::CWD, parent_of(path), flags, Mode::empty())?;
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        // The kernel gives the name the mode that the socket has when it is bound, so there is no
        // moment at which somebody else could connect.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        let below = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string());
        let address = SocketAddrUnix::new(below.join(&name))?;
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                // A killed process has left it. A crash between the two calls leaves no socket,
                // which is as good as one that nobody listens at.
                remove_socket(&directory, &name, None)?;
                bind(&socket, &address)?;
            }
            bound => bound?,
        }
        listen(&socket, BACKLOG)?;
        let found = statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Arc::new(OsListener {
            listener: Mutex::new(Some(Arc::new(UnixListener::from(socket)))),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            directory,
            name,
            identity: (found.st_dev, found.st_ino),
            process: self.0,
        }))
    }
}

/// Removes the name of a socket: of any, or only of the one that is given by device and inode.
fn remove_socket(
    directory: &OwnedFd,
    name: &OsString,
    identity: Option<(u64, u64)>,
) -> io::Result<()> {
    let found = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => found?,
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "something else has its name"));
    }
    if identity.is_some_and(|identity| identity != (found.st_dev, found.st_ino)) {
        return Ok(());
    }
    Ok(unlinkat(directory, name, AtFlags::empty())?)
}

impl SocketListener for OsListener {
    fn accept(&self) -> io::Result<Option<Arc<dyn Connection>>> {
        let Some(listener) = self.listener.lock().clone() else { return Ok(None) };
        loop {
            let mut waited =
                [PollFd::new(&self.bell, PollFlags::IN), PollFd::new(&listener, PollFlags::IN)];
            match poll(&mut waited, None) {
                Err(Errno::INTR) => continue,
                woken => woken?,
            };
            if !waited[0].revents().is_empty() {
                return Ok(None);
            }
            let client = match listener.accept() {
                Ok((client, _)) => client,
                // The client has gone again.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock
                            | ErrorKind::Interrupted
                            | ErrorKind::ConnectionAborted
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if is_allowed(&client) {
                client.set_nonblocking(false)?;
                return Ok(Some(Arc::new(OsConnection { stream: client, process: self.process })));
            }
        }
    }

    fn shut(&self) {
        // Nobody reads the number, so whoever waits now or later finds it. It could fail only if
        // the sum of all numbers written were about to overflow.
        let _ = rustix::io::write(&self.bell, &[1; 8]);
    }

    fn remove(&self) -> io::Result<()> {
        self.process.check_io()?;
        let removed = remove_socket(&self.directory, &self.name, Some(self.identity));
        let Some(listener) = self.listener.lock().take() else { return removed };
        // Clients that were not accepted would wait for as long as anybody has the listener open: a
        // user with a handle of the closed database, or a forked child. From here on nobody can
        // connect; those that have are accepted, and closed. If that fails for want of descriptors,
        // they are closed with the listener.
        let _ = shutdown(&listener, Both);
        while listener.accept().is_ok() {}
        removed
    }
}

/// Returns true if the client runs as our user or as root. A process can't lie about that.
fn is_allowed(client: &UnixStream) -> bool {
    const ROOT: u32 = 0;
    let own = rustix::process::geteuid().as_raw();
    peer_user(client).is_ok_and(|user| user == own || user == ROOT)
}

impl Connection for OsConnection {
    fn read(&self, buf: &mut [u8], time: Duration) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(at_least_one_tick(time)))?;
        again(|| (&self.stream).read(buf))
    }

    fn write(&self, bytes: &[u8], time: Duration) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(at_least_one_tick(time)))?;
        // A client that has gone must not end a program that leaves SIGPIPE as it was, as those in
        // C do. Older versions of the standard library would.
        again(|| Ok(send(&self.stream, bytes, SendFlags::NOSIGNAL)?))
    }

    fn end_reading(&self) {
        // It fails only if the client has closed it.
        let _ = self.stream.shutdown(Shutdown::Read);
    }
}

impl Drop for OsConnection {
    fn drop(&mut self) {
        // A child that was forked meanwhile may have a copy, with which the client would wait for
        // more. A child itself ends nothing that is its parent's.
        if !self.process.is_gone() {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }
}

/// Returns `time`, or the least time that is not zero, which would mean for ever.
fn at_least_one_tick(time: Duration) -> Duration {
    time.max(Duration::from_millis(1))
}

/// Repeats a call that a signal interrupts, and says plainly that the time is over.
fn again(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(ErrorKind::TimedOut.into());
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::doc_dir;

    fn listener(name: &str) -> (std::path::PathBuf, Arc<dyn SocketListener>) {
        let path = doc_dir(name).join("CONTROL");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let listener = OsSockets(Process::this()).listen(&path).unwrap();
        (path, listener)
    }

    /// Guards against clients that wait for ever: those that were not accepted yet when the socket
    /// was removed, though somebody still has the listener.
    #[test]
    fn who_was_not_accepted_finds_the_end() {
        let (path, listener) = listener("socket-queue");
        let mut clients: Vec<_> = (0..5).map(|_| UnixStream::connect(&path).unwrap()).collect();
        listener.shut();
        assert!(listener.accept().unwrap().is_none());
        listener.remove().unwrap();
        assert!(!path.exists());
        for client in &mut clients {
            assert!(matches!(client.read(&mut [0; 9]), Ok(0) | Err(_)));
        }
        listener.remove().unwrap();
        assert!(listener.accept().unwrap().is_none());
    }

    /// Guards against a client that waits for the end of an answer that a forked child keeps open
    /// with its copy of the connection.
    #[test]
    fn a_connection_ends_though_a_copy_of_it_is_open() {
        let (mut client, served) = UnixStream::pair().unwrap();
        let copy = served.try_clone().unwrap();
        let connection = OsConnection { stream: served, process: Process::this() };
        assert_eq!(connection.write(b"all", Duration::from_secs(1)).unwrap(), 3);
        drop(connection);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "all");
        drop(copy);
    }
}

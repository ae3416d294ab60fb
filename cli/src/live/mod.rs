//! Asks the process that has a database open, at its control socket (docs/control.md), so that
//! commands work on a store in use.

pub(crate) mod pictured;

use crate::outcome::Stop;
use crate::output::note;
use cleavedb::{Db, Error, ErrorKind};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The words that begin every request and every answer.
const PROTOCOL: &str = "cleave/1";
/// The name of the socket in a database's directory.
const SOCKET: &str = "CONTROL";
/// The time after which a process that sends nothing is given up; it may be stopped by a debugger.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time for which it is waited for a place among those who want to be accepted, to find out
/// whether a process is there.
const FIRST_PATIENCE: Duration = Duration::from_secs(1);
/// The longest first line of an answer.
const MAX_HEAD_BYTES: u64 = 256;
/// The longest answer that is read: a report of space has about a kilobyte for each segment.
const MAX_BODY_BYTES: u64 = 1 << 30;

/// A database that another process has open and answers for.
#[derive(Debug, Clone)]
pub(crate) struct LiveStore {
    dir: PathBuf,
    /// The process, as it describes itself: in a container it has another number.
    pub(crate) process: String,
    patience: Duration,
}

impl LiveStore {
    /// Returns the process that answers for the database in `dir`, or `None` if none does.
    pub(crate) fn find(dir: &Path) -> Option<LiveStore> {
        LiveStore::found_within(PATIENCE, dir)
    }

    /// Finds it as [`LiveStore::find`] does. It is waited no longer than `patience` for anything
    /// that is there at once.
    pub(crate) fn found_within(patience: Duration, dir: &Path) -> Option<LiveStore> {
        match connect(dir, patience.min(FIRST_PATIENCE)) {
            Ok(_) => {}
            // So many wait for it that it must be stopped, but it is there.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        let writer = Db::writer(dir).ok().flatten();
        let process = writer.unwrap_or_else(|| "another process".into());
        Some(LiveStore { dir: dir.to_path_buf(), process, patience })
    }

    /// Finds it as [`LiveStore::find`] does, and says so on standard error.
    pub(crate) fn announced(dir: &Path) -> Option<LiveStore> {
        let found = LiveStore::find(dir)?;
        note!("{} is in use by {}, which answers", dir.display(), found.process);
        Some(found)
    }

    /// Asks for something that is there at once, and returns the body of the answer.
    pub(crate) fn ask(&self, command: &str) -> Result<String, Error> {
        self.exchange(command, Some(self.patience))
    }

    /// Has something done that may take long, and returns the body of the answer.
    pub(crate) fn have_done(&self, command: &str) -> Result<String, Error> {
        self.exchange(command, None)
    }

    /// Has something done that may take long, and returns the answer.
    pub(crate) fn have_told(&self, command: &str) -> Result<Value, Error> {
        self.json(&self.have_done(command)?)
    }

    /// Asks for something that is there at once, and returns the answer.
    pub(crate) fn tell(&self, command: &str) -> Result<Value, Error> {
        self.json(&self.ask(command)?)
    }

    fn json(&self, body: &str) -> Result<Value, Error> {
        serde_json::from_str(body).map_err(|error| self.strange(&error.to_string()))
    }

    fn strange(&self, what: &str) -> Error {
        let process = &self.process;
        Error::new(ErrorKind::Unsupported, format!("the answer of {process} is odd: {what}"))
            .in_file(&self.dir.join(SOCKET))
            .advise("use the version of cleave that fits the program that has the database open")
    }

    fn gone(&self, error: io::Error) -> Error {
        let process = &self.process;
        let (what, advice) = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                (format!("{process} does not answer"), "see whether it is stopped")
            }
            _ => (format!("{process} has ended the answer: {error}"), "try again"),
        };
        Error::new(ErrorKind::Io, what).in_file(&self.dir.join(SOCKET)).advise(advice)
    }

    fn exchange(&self, command: &str, patience: Option<Duration>) -> Result<String, Error> {
        let gone = |error| self.gone(error);
        let mut stream = connect(&self.dir, self.patience).map_err(gone)?;
        stream.set_read_timeout(patience).map_err(gone)?;
        // Who is too busy answers without reading, so an answer may be there all the same.
        let sent = stream.write_all(format!("{PROTOCOL} {command}\n").as_bytes());
        let mut answer = BufReader::new(stream);
        let mut head = Vec::new();
        let read = answer.by_ref().take(MAX_HEAD_BYTES).read_until(b'\n', &mut head);
        if head.is_empty() {
            sent.and(read.map(|_| ())).map_err(gone)?;
            return Err(self.gone(io::ErrorKind::UnexpectedEof.into()));
        }
        let head = String::from_utf8_lossy(&head);
        let words: Vec<&str> = head.split_whitespace().collect();
        let [PROTOCOL, status, _, length] = words[..] else {
            return Err(self.strange("it has no head"));
        };
        let length = length.parse().ok().filter(|length| *length <= MAX_BODY_BYTES);
        let length = length.ok_or_else(|| self.strange("it has no length"))?;
        let mut body = String::new();
        answer.take(length).read_to_string(&mut body).map_err(gone)?;
        if body.len() as u64 != length {
            return Err(self.gone(io::ErrorKind::UnexpectedEof.into()));
        }
        if status == "ok" { Ok(body) } else { Err(self.refused(&body)?) }
    }

    /// Returns the error that the other process met.
    fn refused(&self, body: &str) -> Result<Error, Error> {
        Ok(error_of(&self.json(body)?))
    }
}

/// Returns the error that [`Error::to_json`] tells of.
pub(crate) fn error_of(told: &Value) -> Error {
    let text = |field: &str| told[field].as_str();
    let kind = text("kind").map_or(ErrorKind::Internal, kind_of);
    let mut error = Error::new(kind, text("message").unwrap_or("it refused"));
    if let Some(file) = text("file") {
        error = error.in_file(Path::new(file));
    }
    if let Some(offset) = told["offset"].as_u64() {
        error = error.at(offset);
    }
    match text("advice") {
        Some(advice) => error.advise(advice),
        None => error,
    }
}

/// Connects to the socket in `dir`. The address goes through the directory's descriptor, because
/// one has 108 bytes, and paths may be longer. A process that is stopped accepts nobody: once too
/// many wait for it, connecting waits too, and fails with `WouldBlock` after `patience`.
fn connect(dir: &Path, patience: Duration) -> io::Result<UnixStream> {
    let open = File::open(dir)?;
    let below = Path::new("/proc/self/fd").join(open.as_raw_fd().to_string());
    let address = SocketAddrUnix::new(below.join(SOCKET))?;
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
    Ok(UnixStream::from(socket))
}

/// Returns the argument of a request: what is not plain is written as `%` and two digits.
pub(crate) fn argument(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02x}");
        }
    }
    out
}

/// Returns the kind of an error by its name.
fn kind_of(name: &str) -> ErrorKind {
    const KINDS: [ErrorKind; 16] = [
        ErrorKind::Io,
        ErrorKind::Corruption,
        ErrorKind::DiskFull,
        ErrorKind::ReadOnly,
        ErrorKind::Locked,
        ErrorKind::Closed,
        ErrorKind::NotFound,
        ErrorKind::AlreadyExists,
        ErrorKind::InvalidArgument,
        ErrorKind::InvalidOption,
        ErrorKind::WrongState,
        ErrorKind::KeyspaceDropped,
        ErrorKind::Unsupported,
        ErrorKind::LimitReached,
        ErrorKind::Conflict,
        ErrorKind::ChangesGone,
    ];
    let known = KINDS.into_iter().find(|kind| format!("{kind:?}") == name);
    known.unwrap_or(ErrorKind::Internal)
}

/// Returns the process that answers for the database, or says that none does.
pub(crate) fn required(dir: &Path) -> Result<LiveStore, Stop> {
    LiveStore::announced(dir).ok_or_else(|| {
        let what = "no process answers for this database";
        let error = Error::new(ErrorKind::WrongState, what).in_file(dir);
        Stop::Error(
            error.advise("a program that has it open for writing does, if it is not told not to"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_one_plain_word() {
        assert_eq!(argument("/a b/50%\n\u{e4}".as_bytes()), "/a%20b/50%25%0a%c3%a4");
    }

    #[test]
    fn kinds_have_names() {
        assert_eq!(kind_of("NotFound"), ErrorKind::NotFound);
        assert_eq!(kind_of("Nonsense"), ErrorKind::Internal);
    }

    fn directory(name: &str) -> PathBuf {
        let unique = format!("cleave-live-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(unique);
        std::fs::create_dir(&dir).unwrap();
        dir
    }

    /// Guards against a command that hangs, without an end and a word, at a process that is
    /// stopped: once the queue of its socket is full, connecting waits for ever.
    #[test]
    fn a_process_that_accepts_nobody_is_given_up() {
        let dir = directory("stopped");
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(dir.join(SOCKET)).unwrap()).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let patience = Duration::from_millis(1);
        let mut waiting = Vec::new();
        let error = loop {
            match connect(&dir, patience) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let live = LiveStore::found_within(patience, &dir).unwrap();
        let error = live.ask("stats").unwrap_err().to_string();
        assert!(error.contains("another process does not answer"), "{error}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// Guards against "broken pipe" in place of an answer that was there before the request.
    #[test]
    fn an_answer_that_comes_before_the_request_is_read() {
        let dir = directory("busy");
        let listener = std::os::unix::net::UnixListener::bind(dir.join(SOCKET)).unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..20 {
                let (mut client, _) = listener.accept().unwrap();
                let _ = client.write_all(b"cleave/1 busy json 27\n{\"message\":\"others asking\"}");
            }
        });
        let (process, patience) = ("process 1".to_owned(), PATIENCE);
        let live = LiveStore { dir: dir.clone(), process, patience };
        for _ in 0..20 {
            assert_eq!(live.ask("stats").unwrap_err().message(), "others asking");
        }
        server.join().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}

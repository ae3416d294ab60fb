//! The engine's only access to sockets: one in a directory, for other processes of the same user.
//!
//! Every call ends after a bounded time, so that no client can keep a thread for ever.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The interface to the sockets of a machine. A simulated one has none.
pub trait Sockets: Send + Sync {
    /// Creates a socket at `path`, with mode 0600, and listens there. A socket that has the name
    /// is replaced: the caller knows that nobody else may have one there. Anything else of that
    /// name is left alone, and the error is `AlreadyExists`.
    fn listen(&self, path: &Path) -> io::Result<Arc<dyn SocketListener>>;
}

/// A socket on which clients are waited for.
pub trait SocketListener: Send + Sync {
    /// Waits for the next client that runs as this process's user or as root; others are turned
    /// away without a word. Returns `None` once the listener was shut.
    fn accept(&self) -> io::Result<Option<Arc<dyn Connection>>>;
    /// Wakes whoever waits for a client, and lets nobody wait any more.
    fn shut(&self);
    /// Removes the socket's name, unless something else has taken it or this is a child of the
    /// process that made it.
    fn remove(&self) -> io::Result<()>;
}

/// A connection to one client.
pub trait Connection: Send + Sync {
    /// Reads what has come, or waits for it, at most for `time`. Returns 0 at the end.
    fn read(&self, buf: &mut [u8], time: Duration) -> io::Result<usize>;
    /// Writes the first part of `bytes` that the client has room for, or waits for room, at most
    /// for `time`. Returns the length of that part.
    fn write(&self, bytes: &[u8], time: Duration) -> io::Result<usize>;
    /// Has every read, also one that waits, find the end.
    fn end_reading(&self);
}

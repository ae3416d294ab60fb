//! The terminal: single keys, its size, and a screen of its own that leaves no trace.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, IsTerminal, Stdin, Write};
use std::time::Duration;

/// A terminal that hands over each key at once. It is as it was before once this is dropped.
pub(crate) struct Tty {
    stdin: Stdin,
    before: Termios,
}

impl Tty {
    /// Takes the terminal on standard input and output, or returns `None` if there is none.
    pub(crate) fn take() -> io::Result<Option<Tty>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() || !io::stdout().is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(&stdin)?;
        let mut raw = before.clone();
        // Keys come one by one, and are not shown; ^C is a key, so that the screen is left tidily.
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        let tty = Tty { stdin, before };
        // The other screen, without a cursor. A row that is too long after all, as the terminal has
        // another size by now or other letters, is cut and does not push the next one down.
        tty.write("\x1b[?1049h\x1b[?25l\x1b[?7l")?;
        Ok(Some(tty))
    }

    /// Writes all of `text` at once.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Waits for keys, at most for `time`. Returns none if none came, and `q` if the terminal is
    /// gone.
    pub(crate) fn keys(&self, time: Duration) -> io::Result<Vec<u8>> {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        let mut waited = [PollFd::new(&self.stdin, PollFlags::IN)];
        match poll(&mut waited, Some(&time)) {
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            come => come?,
        };
        if waited[0].revents().is_empty() {
            return Ok(Vec::new());
        }
        // Past the standard library's buffer, in which `poll` would not see what is left.
        let mut keys = [0; 32];
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.stdin, &mut keys))?;
        Ok(meant(&keys[..read]))
    }

    /// Returns columns and rows.
    pub(crate) fn size(&self) -> (usize, usize) {
        size().unwrap_or((80, 24))
    }
}

/// Returns the keys that bytes of a terminal stand for.
fn meant(bytes: &[u8]) -> Vec<u8> {
    match bytes {
        // The terminal is gone.
        [] => vec![b'q'],
        // A key such as an arrow, which means nothing here.
        [0x1b, ..] => Vec::new(),
        keys => keys.to_vec(),
    }
}

/// Returns columns and rows of the terminal on standard output, if there is one.
pub(crate) fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}

impl Drop for Tty {
    fn drop(&mut self) {
        // The terminal may be gone; then there is nothing to mend.
        let _ = self.write("\x1b[?7h\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(&self.stdin, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against keys that are lost because they came faster than the screen was drawn.
    #[test]
    fn several_keys_at_once_are_all_meant() {
        assert_eq!(meant(b" +b"), b" +b");
        assert_eq!(meant(b"\x1b[A"), b"");
        assert_eq!(meant(b""), b"q");
    }
}

//! Buffered output. If its reader goes away, the command stops quietly.

use crate::outcome::Stop;
use cleavedb::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::Path;
use std::process::ChildStdin;
use std::time::Duration;

/// Writes a line to standard error. Nobody may read it: then the line is lost, and the command and
/// its exit status stay what they are, where `eprintln!` panics.
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}
pub(crate) use note;

/// Bytes of the buffer, enough for one system call to write many lines.
const BUFFER_BYTES: usize = 64 << 10;

/// Buffered standard output, or a pager in its place. Call [`Output::finish`] at the end, or an
/// error that shows only when the buffer is written is lost.
pub(crate) struct Output {
    to: BufWriter<OutputTarget>,
    closed: bool,
}

enum OutputTarget {
    Standard(StdoutLock<'static>),
    Pager(ChildStdin),
}

impl Write for OutputTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OutputTarget::Standard(output) => output.write(bytes),
            OutputTarget::Pager(input) => input.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            OutputTarget::Standard(output) => output.flush(),
            OutputTarget::Pager(input) => input.flush(),
        }
    }
}

impl Output {
    pub(crate) fn new() -> Self {
        Output::to(OutputTarget::Standard(io::stdout().lock()))
    }

    /// Returns output to the input of a pager.
    pub(crate) fn to_pager(pager: ChildStdin) -> Self {
        Output::to(OutputTarget::Pager(pager))
    }

    fn to(target: OutputTarget) -> Self {
        Output { to: BufWriter::with_capacity(BUFFER_BYTES, target), closed: false }
    }

    /// Returns true if standard output is a terminal, so that a person is likely to read it.
    pub(crate) fn is_terminal() -> bool {
        io::stdout().is_terminal()
    }

    /// Writes `bytes`.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.write_all(bytes).map_err(stop)
    }

    /// Writes `line` and a newline.
    pub(crate) fn line(&mut self, line: impl AsRef<[u8]>) -> Result<(), Stop> {
        self.bytes(line.as_ref())?;
        self.bytes(b"\n")
    }

    /// Writes everything that is buffered.
    pub(crate) fn flush(&mut self) -> Result<(), Stop> {
        Write::flush(self).map_err(stop)
    }

    /// Writes everything that is buffered and ends the output.
    pub(crate) fn finish(mut self) -> Result<(), Stop> {
        self.flush()
    }

    /// Waits for `time`, or until the reader of standard output closes its end, which without this
    /// only a write would tell.
    pub(crate) fn wait(time: Duration) -> Result<(), Stop> {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        let output = io::stdout();
        // Nothing is asked for: that the reader is gone is told nevertheless.
        let mut waited = [PollFd::new(&output, PollFlags::empty())];
        match poll(&mut waited, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(stop(error.into())),
        }
        match waited[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            true => Err(Stop::OutputClosed),
            false => Ok(()),
        }
    }

    /// Returns true once a write failed because the reader closed its end.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.closed |= error.kind() == io::ErrorKind::BrokenPipe;
        }
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.to.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.to.flush();
        self.note(result)
    }
}

fn stop(error: io::Error) -> Stop {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Stop::OutputClosed;
    }
    Stop::Error(Error::io("write", Path::new("standard output"), error))
}

"""Talks to `cleave shell`: commands in, answers out, in order and several at a time."""

import collections
import os
import select
import subprocess
import tempfile

# As many commands are written before their answers are read. Answers to these are short, so that
# neither side ever waits for the other with a full pipe.
WINDOW = 32
ANSWER_SECONDS = 300
ERROR = "ERR "


class ShellError(Exception):
    """The shell ended, or was silent for too long."""


class Shell:
    """One process of the shell; use as a context manager."""

    def __init__(self, program, store, answer_seconds=ANSWER_SECONDS):
        self.errors = tempfile.TemporaryFile()
        self.answer_seconds = answer_seconds
        self.lines = collections.deque()
        self.rest = b""
        self.process = subprocess.Popen(
            [str(program), "shell", str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()

    def ask(self, commands):
        """The answers to some commands of one line each, at most `WINDOW`."""
        assert len(commands) <= WINDOW
        self._send("".join(f"{command}\n" for command in commands))
        return [self._line() for _ in commands]

    def scan(self):
        """All pairs (key, value), in order."""
        self._send("scan\n")
        while not ((line := self._line()).startswith("(") and line.endswith(" pairs)")):
            if line.startswith(ERROR):
                raise ShellError(f"a scan failed: {line}")
            key, _, value = line.partition("\t")
            yield key, value

    def close(self):
        """Ends the process as users do; its exit status is 2 if a command has failed."""
        self._send("quit\n")
        status = self._wait()
        if status not in (0, 2):
            raise ShellError(f"it ended with status {status}: {self._said()}")

    def _send(self, text):
        data = memoryview(text.encode())
        try:
            while data:
                data = data[self.process.stdin.write(data):]
        except BrokenPipeError:
            raise ShellError(f"it has ended: {self._said()}") from None

    def _line(self):
        while not self.lines:
            ready, _, _ = select.select([self.process.stdout], [], [], self.answer_seconds)
            if not ready:
                raise ShellError(f"no answer within {self.answer_seconds} s")
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                self._wait()
                raise ShellError(f"it has ended: {self._said()}")
            *whole, self.rest = (self.rest + chunk).split(b"\n")
            self.lines.extend(whole)
        return self.lines.popleft().decode()

    def _wait(self):
        try:
            return self.process.wait(self.answer_seconds)
        except subprocess.TimeoutExpired:
            raise ShellError(f"it did not end within {self.answer_seconds} s") from None

    def _said(self):
        self.errors.seek(0)
        return " ".join(self.errors.read().decode("utf-8", "replace").split())

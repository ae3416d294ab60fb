"""A memory limit that holds for one command, page cache included, and its block I/O alone.

Linux control groups, version 1 (memory and blkio mounted apart) or version 2. Needs root. Where a
group cannot be made, the command runs without one and the reason is recorded with the result.
"""

import os
import sys
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class Group:
    """Control groups around one command; use as a context manager."""

    def __init__(self, limit_bytes, disk=None, root=ROOT):
        """`disk` is the device to count reads of, as `major:minor`."""
        self.limit_bytes = limit_bytes
        self.disk = disk
        self.root = root
        self.folders = []
        self.memory = None
        self.blkio = None
        self.why_not = None

    def __enter__(self):
        name = f"cleavedb-bench-{os.getpid()}-{time.monotonic_ns()}"
        try:
            self._make(name)
        except OSError as error:
            self._remove()
            self.memory = self.blkio = None
            self.why_not = f"no control group, so no memory limit: {error}"
        return self

    def __exit__(self, *_):
        self._remove()

    def _make(self, name):
        if (self.root / "cgroup.controllers").exists():
            self.memory = self.blkio = self._folder(self.root / name)
            (self.memory / "memory.max").write_text(str(self.limit_bytes))
            return
        self.memory = self._folder(self.root / "memory" / name)
        (self.memory / "memory.limit_in_bytes").write_text(str(self.limit_bytes))
        if (self.root / "blkio").is_dir():
            self._count_reads(self._folder(self.root / "blkio" / name))

    def _count_reads(self, folder):
        """Newer kernels count only where a limit is set: one that nothing reaches."""
        try:
            limit = f"{self.disk} {1 << 60}"
            (folder / "blkio.throttle.read_bps_device").write_text(limit)
            self.blkio = folder
        except OSError:
            self.blkio = None  # no whole disk below that folder: counted for the machine instead

    def _folder(self, path):
        path.mkdir()
        self.folders.append(path)
        return path

    def join(self):
        """Moves the calling process in; called in the child, before it becomes the command."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def peak_bytes(self):
        """The most memory charged at once, page cache included; None if unknown."""
        if self.memory is None:
            return None
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            if (self.memory / name).exists():
                return int((self.memory / name).read_text())
        return None

    def device_reads(self):
        """(requests, bytes) that the command read from devices; None if unknown.

        Reads are charged to the process that asks; writes are not, since the kernel writes
        dirty pages back in its own name.
        """
        if self.blkio is None:
            return None
        if (self.blkio / "io.stat").exists():
            return parse_io_stat((self.blkio / "io.stat").read_text())
        count = self.blkio / "blkio.throttle.io_serviced"
        size = self.blkio / "blkio.throttle.io_service_bytes"
        if not (count.exists() and size.exists()):
            return None
        return parse_blkio(count.read_text()), parse_blkio(size.read_text())

    def _remove(self):
        for folder in self.folders:
            # What the command left in the page cache is let go first; a process that has just
            # ended may keep its group busy for a moment.
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.01)
            else:
                print(f"bench: {folder} could not be removed; do it by hand", file=sys.stderr)
        self.folders = []


def parse_blkio(text):
    """The sum of the Read lines, `254:0 Read 123`."""
    lines = (line.split() for line in text.splitlines())
    return sum(int(words[2]) for words in lines if len(words) == 3 and words[1] == "Read")


def parse_io_stat(text):
    """(requests, bytes) read, summed over the lines `254:0 rbytes=1 wbytes=2 rios=3 …`."""
    count = size = 0
    for line in text.splitlines():
        values = dict(word.split("=", 1) for word in line.split()[1:] if "=" in word)
        count += int(values.get("rios", 0))
        size += int(values.get("rbytes", 0))
    return count, size

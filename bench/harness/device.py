"""The block device below a folder, and the page cache above it."""

import os
from pathlib import Path

SECTOR = 512


class Device:
    """The counters of the device that holds a folder; of the whole machine, not of one process."""

    def __init__(self, folder, sys_root=Path("/sys")):
        number = os.stat(folder).st_dev
        self.number = f"{os.major(number)}:{os.minor(number)}"
        link = sys_root / "dev" / "block" / self.number
        self.stat = link / "stat"
        self.name = link.resolve().name if link.exists() else None
        # A partition has that of its whole device.
        whole = link.resolve().parent if (link / "partition").exists() else link
        self.read_ahead = whole / "queue/read_ahead_kb"

    def read_ahead_kib(self):
        """How much the kernel reads ahead, and around what a mapping faults on; None if unknown."""
        return int(self.read_ahead.read_text()) if self.read_ahead.exists() else None

    def set_read_ahead_kib(self, kib):
        """Changes that for the whole device, whoever uses it; needs root."""
        self.read_ahead.write_text(str(kib))

    def counters(self):
        """Requests and bytes since boot; None where the file system has no device."""
        if not self.stat.exists():
            return None
        return parse_stat(self.stat.read_text())


def parse_stat(text):
    """The fields of /sys/block/*/stat that matter here."""
    fields = [int(word) for word in text.split()]
    return {
        "read_ios": fields[0],
        "read_bytes": fields[2] * SECTOR,
        "write_ios": fields[4],
        "write_bytes": fields[6] * SECTOR,
    }


def difference(after, before):
    """What happened in between; None if either is unknown."""
    if after is None or before is None:
        return None
    return {name: after[name] - before[name] for name in after}


def files_below(path):
    """Every file below a folder, or the file itself."""
    path = Path(path)
    if path.is_file():
        return [path]
    return sorted(found for found in path.rglob("*") if found.is_file() and not found.is_symlink())


def size_below(path):
    """Bytes of all files below; those that vanish meanwhile count as nothing."""
    total = 0
    for file in files_below(path):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            pass
    return total


def drop_cached(path, whole_machine=True):
    """Writes the files below `path` back and takes them out of the page cache; and what else is
    cached, unless only these files are meant.
    """
    for file in files_below(path):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    if not whole_machine:
        return
    # Directories, inodes and the tails that fadvise leaves; needs root, and is a help only.
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        pass

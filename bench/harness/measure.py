"""Runs one command and measures it: time, peak memory, device reads and writes."""

import os
import resource
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import device
from harness.cgroup import Group

POLL_SECONDS = 0.02
SAMPLE_SECONDS = 0.2


@dataclass
class Result:
    """What a command cost."""

    command: list
    exit_code: int
    seconds: float
    stdout: str
    stderr: str
    # Of all its threads, in the kernel too.
    processor_seconds: float
    # As the kernel kept it, exact; at least what the harness itself had when it forked.
    peak_rss_bytes: int
    memory_limit_bytes: int | None
    memory_limit_missing: str | None
    group_peak_bytes: int | None
    # Of this process: what it asked of the block layer.
    process_read_bytes: int | None
    process_write_bytes: int | None
    # Of this process, from its control group.
    group_read_ios: int | None
    group_read_bytes: int | None
    # Of the whole machine while it ran and until everything was written back.
    device: dict | None

    def as_dict(self):
        """For JSON."""
        return asdict(self)


def run(
    command,
    folder,
    memory_bytes=None,
    cold=False,
    kill_when=None,
    sample=None,
    sample_seconds=SAMPLE_SECONDS,
    whole_machine=True,
):
    """Runs `command`, whose files are below `folder`.

    `memory_bytes` limits its memory, page cache included. `cold` drops its files from the page
    cache first. `kill_when` is asked again and again; once it is true the command gets SIGKILL.
    `sample` is called with its process number every 200 ms, or `sample_seconds`. Without
    `whole_machine` nothing is waited for that others write, and the device is not looked at.
    """
    folder = Path(folder)
    if cold and folder.exists():
        device.drop_cached(folder, whole_machine)
    disk = device.Device(folder if folder.exists() else folder.parent)
    before = None
    if whole_machine:
        os.sync()
        before = disk.counters()
    group = Group(memory_bytes or 1 << 62, disk.number)
    with group, tempfile.TemporaryDirectory() as outputs:
        streams = [open(Path(outputs) / name, "w+b") for name in ("stdout", "stderr")]
        start = time.monotonic()
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=streams[0],
            stderr=streams[1],
            preexec_fn=group.join,
        )
        try:
            seconds, counts = watch(child, start, kill_when, sample, sample_seconds)
        except BaseException:
            # Nobody waits for it any more, so it must not go on.
            child.kill()
            child.wait()
            raise
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if whole_machine:
            os.sync()
        reads = group.device_reads()
        texts = [read_back(stream) for stream in streams]
        limited = memory_bytes is not None and group.memory is not None
        return Result(
            command=[str(word) for word in command],
            exit_code=child.returncode,
            seconds=seconds,
            stdout=texts[0],
            stderr=texts[1],
            processor_seconds=usage.ru_utime + usage.ru_stime,
            peak_rss_bytes=usage.ru_maxrss * 1024,
            memory_limit_bytes=memory_bytes if limited else None,
            memory_limit_missing=group.why_not if memory_bytes is not None else None,
            group_peak_bytes=group.peak_bytes(),
            process_read_bytes=counts.get("read_bytes"),
            process_write_bytes=written(counts),
            group_read_ios=reads and reads[0],
            group_read_bytes=reads and reads[1],
            device=device.difference(disk.counters(), before),
        )


def watch(child, start, kill_when=None, sample=None, sample_seconds=SAMPLE_SECONDS):
    """Waits until the child ends: (seconds, its I/O counters).

    It is left as a zombie, whose I/O counters can still be read and are final.
    """
    ended = os.WEXITED | os.WNOWAIT
    if kill_when is not None or sample is not None:
        sample_at = start
        while os.waitid(os.P_PID, child.pid, ended | os.WNOHANG) is None:
            if kill_when is not None and kill_when():
                child.kill()
                break
            if sample is not None and time.monotonic() >= sample_at:
                sample(child.pid)
                # What a look takes does not add to the time between two of them.
                sample_at = max(sample_at + sample_seconds, time.monotonic())
            time.sleep(POLL_SECONDS)
    os.waitid(os.P_PID, child.pid, ended)
    return time.monotonic() - start, io_counters(child.pid)


def io_counters(pid):
    """/proc/*/io as numbers; empty where it may not be read."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, value in (line.split(":") for line in lines)}


def written(counters):
    """Bytes handed to the block layer, less those that were truncated away before."""
    if "write_bytes" not in counters:
        return None
    return counters["write_bytes"] - counters.get("cancelled_write_bytes", 0)


def read_back(stream):
    """What the command wrote to a file."""
    stream.seek(0)
    text = stream.read().decode("utf-8", "replace")
    stream.close()
    return text


def open_files_limit():
    """As many open files as the system grants: a store of 4 GB has some hundred."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

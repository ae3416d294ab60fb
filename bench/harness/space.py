"""What a store takes on the disk while its process runs, and the figures of space.

Counted are allocated blocks, not lengths: of every file below the store, and of files that are
unlinked but still open or mapped by the process, each once, however many names it has.
"""

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from harness import cleave, record
from harness.device import Device, difference
from harness.cases import KEY_BYTES, settled_store
from harness.figures import MIB, column, ratio

BLOCK = 512
LEFT_OVER = 0.02
EXPIRED_LEFT = 0.05
# The time in which an idle store comes to its settled bound.
SETTLED_SECONDS = 60
# Device bytes per user byte at a ceiling of 2.0 and at a narrow one, by the distribution of the
# overwrites.
WRITE_GOALS = {"zipf": (1.4, 1.8), "uniform": (1.4, 2.5)}


@dataclass
class Sample:
    """One look."""

    seconds: float
    bytes: int
    # The command has printed a result: what it was asked to measure is done.
    reported: bool


class Sampler:
    """Looks at a store again and again while `measure.run` waits for its process."""

    def __init__(self, store, device=None):
        self.store = Path(store)
        self.samples = []
        self.start = None
        self.device = device
        self.begun = device and device.counters()
        # What the device has done until the command printed its first result.
        self.until_report = None

    def __call__(self, pid):
        now = time.monotonic()
        self.start = now if self.start is None else self.start
        reported = has_printed(pid)
        taken = allocated(self.store, pid)
        if reported and self.until_report is None and self.device:
            self.until_report = difference(self.device.counters(), self.begun)
        if taken:  # a store that does not exist yet is no sample
            self.samples.append(Sample(now - self.start, taken, reported))

    def peak(self):
        """The most bytes; None without samples."""
        return max((sample.bytes for sample in self.samples), default=None)

    def mean(self):
        """The mean over time, as samples come evenly; None without samples."""
        if not self.samples:
            return None
        return sum(sample.bytes for sample in self.samples) / len(self.samples)

    def seconds_until(self, most):
        """From the result until space came to at most so many bytes; infinite if it did not, None
        without samples.
        """
        late = self.since_report()
        if not late:
            return None
        low = [sample.seconds for sample in late if sample.bytes <= most]
        return low[0] if low else float("inf")

    def last(self):
        """The bytes at the end; None without samples."""
        return self.samples[-1].bytes if self.samples else None

    def since_report(self):
        """The samples after the result was printed, their seconds counted from there."""
        late = [sample for sample in self.samples if sample.reported]
        return [Sample(s.seconds - late[0].seconds, s.bytes, True) for s in late]


def allocated(store, pid=None):
    """Bytes of the blocks that a store takes; files that vanish meanwhile count as nothing."""
    taken = {}
    for folder, _, names in os.walk(store):
        for name in names:
            count_file(taken, os.path.join(folder, name))
    if pid is not None:
        for path in unlinked_but_held(Path(store).resolve(), pid):
            count_file(taken, path)
    return sum(taken.values())


def count_file(taken, path):
    """Notes the blocks of a file by its identity, so that none counts twice."""
    try:
        found = os.lstat(path) if not path.startswith("/proc/") else os.stat(path)
    except OSError:
        return
    if stat.S_ISREG(found.st_mode):
        taken[found.st_dev, found.st_ino] = found.st_blocks * BLOCK


def unlinked_but_held(store, pid):
    """Paths below /proc to the files of the store that only the process still holds."""
    found = []
    for kind in ("fd", "map_files"):
        folder = f"/proc/{pid}/{kind}"
        try:
            names = os.listdir(folder)
        except OSError:  # the process has ended, or this is not for us to see
            continue
        for name in names:
            try:
                target = os.readlink(f"{folder}/{name}")
            except OSError:
                continue
            if target.endswith(" (deleted)") and target.startswith(f"{store}/"):
                found.append(f"{folder}/{name}")
    return found


def has_printed(pid):
    """True once a process whose standard output is a file has written to it."""
    try:
        return os.stat(f"/proc/{pid}/fd/1").st_size > 0
    except OSError:
        return False


def space(setting):
    """Space and device writes while the data is overwritten several times, by itself."""
    rows = {case: [] for case in setting.cases}
    for _ in range(setting.repeats):
        for case in setting.cases:
            rows[case].append(overwritten(setting, case))
    sections = [
        f"{setting.data_bytes / 1e9:.2f} GB of keys of {KEY_BYTES} B and values, loaded in random "
        f"order, settled, then overwritten {setting.total:g} times by one thread, durability `os`; "
        f"then {setting.idle_seconds} s without a call. {setting.told_bounds()} "
        f"Memory limit {setting.memory_bytes // MIB} MiB where control groups allow it. Space is "
        "allocated blocks over live keys and values, every 200 ms after the load; device bytes are "
        "those of the whole machine while it was overwritten, those until all was at rest in "
        "brackets.",
    ]
    for case in setting.cases:
        values = column(rows[case])
        worst = max(row["max space"] for row in rows[case])
        sections.append(f"Values of {case.value_size} B, {case.distribution}:\n\n" + record.table(
            list(rows[case][0]), rows[case]
        ))
        sections.append("\n".join([
            record.verdict(f"{case.name}: space at any sample of all runs", worst,
                           setting.ceiling),
            record.verdict(f"{case.name}: seconds until space is at its settled bound",
                           values("settled after s"), SETTLED_SECONDS),
            record.verdict(f"{case.name}: device bytes per user byte",
                           values("device B / user B"),
                           WRITE_GOALS[case.distribution][setting.ceiling < 2]),
        ]))
    return sections


def overwritten(setting, case):
    """One store, loaded, overwritten and looked at meanwhile."""
    num = case.keys(setting.data_bytes)
    live_bytes = num * (KEY_BYTES + case.value_size)
    store = settled_store(setting, "space", case.value_size, num)
    sampler = Sampler(store, Device(setting.folder))
    command = setting.cleave.overwrite(store, num, case, setting.total, idle=setting.idle_seconds)
    result = setting.run(command, sample=sampler)
    work = cleave.workload(result, "overwrite")
    _, stats = cleave.parse(result)
    until_report = sampler.until_report and sampler.until_report["write_bytes"]
    device_bytes = result.device and result.device["write_bytes"]
    row = {
        "max space": ratio(sampler.peak(), live_bytes),
        "mean space": ratio(sampler.mean(), live_bytes),
        "samples": len(sampler.samples),
        "settled after s": sampler.seconds_until(setting.settled * live_bytes),
        "space at rest": ratio(sampler.last(), live_bytes),
        "device B / user B": ratio(until_report, work["bytes"]),
        "(until at rest)": ratio(device_bytes, work["bytes"]),
        "process B / user B": ratio(result.process_write_bytes, work["bytes"]),
        "engine B / user B": ratio(cleave.written_bytes(stats), work["bytes"]),
        "ops/s": work["ops_per_second"],
        "p99 µs": work["p99_us"],
        "max µs": work["max_us"],
    }
    setting.fresh("space")
    return row


def space_drop(setting):
    """Space after everything was deleted, the store open and idle."""
    rows = []
    for _ in range(setting.repeats):
        case = setting.cases[0]
        num = case.keys(setting.data_bytes)
        store = setting.fresh("space-drop")
        loading, deleting = Sampler(store), Sampler(store)
        setting.run(
            setting.cleave.fill(store, num, case.value_size, unique=True, settle=True),
            sample=loading,
        )
        command = setting.cleave.delete_all(store, num, setting.idle_seconds)
        result = setting.run(command, sample=deleting)
        peak = max(loading.peak() or 0, deleting.peak() or 0)
        idle = deleting.since_report()
        rows.append({
            "peak MiB": peak / MIB,
            "idle s": idle[-1].seconds if idle else None,
            "left MiB": idle[-1].bytes / MIB if idle else None,
            "left / peak": ratio(idle[-1].bytes, peak) if idle else None,
            "s until below 2 %": deleting.seconds_until(LEFT_OVER * peak),
            "deletes/s": cleave.workload(result, "deleteall")["ops_per_second"],
        })
    return [
        f"{num:,} keys, values of {case.value_size} B, loaded in random order and settled; then "
        f"all deleted, and the store left open and idle for {setting.idle_seconds} s. Space is "
        "allocated blocks, every 200 ms; the peak is of the load and the deletion. "
        f"{setting.told_bounds()}",
        record.table(list(rows[0]), rows),
        record.verdict("left after idling, share of the peak", column(rows)("left / peak"),
                       LEFT_OVER),
    ]


def space_expiry(setting):
    """Space after everything has expired, the store open and idle."""
    groups = {}
    for _ in range(setting.repeats):
        for separation in ["at_write", "off"]:
            case = setting.cases[0]
            num = case.keys(setting.data_bytes)
            store = setting.fresh("space-expiry")
            sampler = Sampler(store)
            # The last value expires this long after the result, and then the idling begins.
            ttl = setting.idle_seconds
            flags = {"ttl": ttl, "idle": ttl + setting.idle_seconds, "separation": separation}
            setting.run(setting.cleave.fill(store, num, case.value_size, **flags), sample=sampler)
            peak, idle = sampler.peak() or 0, sampler.since_report()
            below = sampler.seconds_until(EXPIRED_LEFT * peak)
            groups.setdefault((separation,), []).append({
                "peak MiB": peak / MIB,
                "left MiB": idle[-1].bytes / MIB if idle else None,
                "left / peak": ratio(idle[-1].bytes, peak) if idle else None,
                "s until below 5 %, from the last deadline": below and below - ttl,
            })
    return [
        f"{num:,} keys, values of {case.value_size} B, written at random by one thread, each for "
        f"{ttl} s; the store is left open and idle for {setting.idle_seconds} s from the last "
        f"deadline on. Space is allocated blocks, every 200 ms. {setting.told_bounds()}",
        record.medians(["separation"], groups),
        "\n".join(
            record.verdict(
                f"{separation}: left after idling, share of the peak",
                column(rows)("left / peak"),
                EXPIRED_LEFT,
            )
            for (separation,), rows in groups.items()
        ),
    ]

"""The figures of the engine, one function each: what is run, what is compared, what is the goal.

Runs that are compared alternate (A B A B …), so that a slow minute of the machine hits both.
"""

import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from harness import cleave, measure, record
from harness.cases import CASES, KEY_BYTES
from harness.device import size_below

MIB = 1 << 20
SEQIO = Path(__file__).with_name("seqio.py")


@dataclass
class Setting:
    """What all figures share."""

    cleave: cleave.Cleave
    folder: Path
    memory_bytes: int
    repeats: int
    num: int
    ops: int
    max_replay_bytes: int
    data_bytes: int = 2 << 30
    total: float = 8
    idle_seconds: int = 60
    # The bounds of space, which are the store's defaults unless given. Figures that take them have
    # them in `cleave.always`, too.
    ceiling: float = 2.0
    settled: float = 1.2
    cases: list = field(default_factory=lambda: list(CASES))
    # Of the figures of the update table: how stores are laid out.
    geometries: list = field(default_factory=list)

    def run(self, command, cold=True, kill_when=None, sample=None):
        """One measured command below the memory limit, its output checked."""
        print("  " + " ".join(Path(str(word)).name for word in command[:8]), file=sys.stderr)
        result = measure.run(command, self.folder, self.memory_bytes, cold, kill_when, sample)
        if result.memory_limit_missing:
            print(f"bench: {result.memory_limit_missing}", file=sys.stderr)
        if kill_when is None and result.exit_code != 0:
            words = " ".join(result.command)
            raise cleave.BenchError(f"{words} failed ({result.exit_code}): {result.stderr}")
        return result

    def told_bounds(self):
        """The bounds of space, as a record says them."""
        return f"Ceiling {self.ceiling:g}, settled bound {self.settled:g}."

    def seqio(self, *words):
        """The yardstick."""
        return self.run([sys.executable, str(SEQIO), *[str(word) for word in words]])

    def fresh(self, name):
        """The path of a store or file that does not exist."""
        path = self.folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        return path

    def limit_line(self, result):
        """How the memory limit was held; part of each record."""
        if result.memory_limit_missing:
            return result.memory_limit_missing
        return f"Memory limit {self.memory_bytes // MIB} MiB, page cache included."


def fill(setting):
    """Random writing of 1 KiB values against sequential writing of the same bytes to a file."""
    value_size = 1024
    user_bytes = setting.num * (KEY_BYTES + value_size)
    rows = []
    for _ in range(setting.repeats):
        plain = setting.fresh("sequential")
        base = json.loads(setting.seqio("write", plain, user_bytes).stdout)
        plain.unlink()
        store = setting.fresh("fill")
        filled = setting.run(setting.cleave.fill(store, setting.num, value_size))
        settled = setting.run(setting.cleave.settle(store), cold=False)
        work = cleave.workload(filled, "fillrandom")
        device_bytes = sum_known(filled.device, settled.device, "write_bytes")
        process_bytes = add(filled.process_write_bytes, settled.process_write_bytes)
        rows.append({
            "sequential MB/s": base["bytes"] / base["seconds"] / 1e6,
            "with fsync MB/s": base["bytes"] / base["seconds_synced"] / 1e6,
            "fillrandom MB/s": user_bytes / work["seconds"] / 1e6,
            "ratio": base["seconds"] / work["seconds"],
            "p99 µs": work["p99_us"],
            "max µs": work["max_us"],
            "settle s": settled.seconds,
            "device B / user B": ratio(device_bytes, user_bytes),
            "process B / user B": ratio(process_bytes, user_bytes),
            "disk B / user B": size_below(store) / user_bytes,
            "peak RSS MiB": filled.peak_rss_bytes / MIB,
        })
    values = column(rows)
    return [
        f"{setting.num:,} keys of {KEY_BYTES} B, values of {value_size} B, one thread, durability "
        f"`os`: {user_bytes / 1e9:.2f} GB. {setting.limit_line(filled)}",
        record.table(list(rows[0]), rows),
        "\n".join([
            record.verdict("rate of sequential writing kept", values("ratio"), 0.5, False),
            record.verdict(
                "device bytes per user byte, settled", values("device B / user B"), 1.2
            ),
        ]),
        "Device bytes are those of the whole machine between the start of the fill and the end of "
        "settling, all written back; process bytes are what the kernel charged to the command.",
    ]


def reads(setting):
    """Device reads of a get, of keys that exist and of keys that do not."""
    store = prepared(setting, "reads", 1024, setting.num)
    rows = []
    for _ in range(setting.repeats):
        row = {}
        for workload, word in (("readrandom", "existing"), ("readmissing", "missing")):
            command = setting.cleave.bench(
                store, workload, num=setting.num, reads=setting.ops, value_size=1024, threads=1
            )
            result = setting.run(command)
            work = cleave.workload(result, workload)
            ios = known(result.group_read_ios, result.device and result.device["read_ios"])
            row[f"{word} gets/s"] = work["ops_per_second"]
            row[f"{word} p99 µs"] = work["p99_us"]
            row[f"{word} reads/get"] = ratio(ios, work["ops"])
            row[f"{word} read B/get"] = ratio(result.process_read_bytes, work["ops"])
        rows.append(row)
    values = column(rows)
    return [
        f"{setting.num:,} keys, {setting.ops:,} gets a run from a cold cache, by one thread. "
        + setting.limit_line(result),
        record.table(list(rows[0]), rows),
        "\n".join([
            record.verdict(
                "device reads per get of an existing key", values("existing reads/get"), 1.2
            ),
            record.verdict(
                "device reads per get of a missing key", values("missing reads/get"), 0.02
            ),
        ]),
    ]


def scan(setting):
    """Scans of 4 KiB values that were loaded in random order, with prefetch and without."""
    value_size = 4096
    num = setting.num // 4
    store = prepared(setting, "scan", value_size, num)
    rows = []
    for _ in range(setting.repeats):
        row = {}
        for workload in ("readseq", "seekrandom"):
            rates = []
            for off in (False, True):
                command = setting.cleave.bench(
                    store,
                    workload,
                    num=num,
                    reads=setting.ops,
                    value_size=value_size,
                    threads=1,
                    no_prefetch=off,
                )
                work = cleave.workload(setting.run(command), workload)
                rates.append(work["bytes"] / work["seconds"] / 1e6)
            row[f"{workload} MB/s"] = rates[0]
            row[f"{workload} without MB/s"] = rates[1]
            row[f"{workload} gain"] = ratio(rates[0], rates[1])
        rows.append(row)
    return [
        f"{num:,} keys with values of {value_size} B, loaded in random order; each run "
        f"from a cold cache, {setting.ops:,} steps. "
        f"Memory limit {setting.memory_bytes // MIB} MiB where control groups allow it.",
        record.table(list(rows[0]), rows),
        record.verdict("gain of prefetch, range scan", column(rows)("readseq gain"), 3, False),
    ]


def replay(setting):
    """Opening a store whose writer was killed, against reading as many bytes from a file."""
    limit = setting.max_replay_bytes
    rows = []
    # Separated values fill the log up to the limit; small ones fill memtables before, and have the
    # most records per byte.
    for value_size in [1024, 100] * setting.repeats:
        store = setting.fresh("replay")
        # A little less than the limit, where no flush has yet moved the head: the worst case.
        endless = setting.cleave.fill(store, 1 << 40, value_size)
        setting.run(endless, kill_when=lambda at=store: size_below(at) >= limit * 0.95)
        opened = setting.run(setting.cleave.stats(store))
        stats = json.loads(opened.stdout)
        plain = setting.fresh("sequential")
        setting.seqio("write", plain, limit)
        base = json.loads(setting.seqio("read", plain).stdout)
        plain.unlink()
        replayed = cleave.find_number(stats, "recovery_replayed_bytes")
        rows.append({
            "value size": value_size,
            "open s": opened.seconds,
            "replayed MiB": ratio(replayed, MIB),
            "sequential s": base["seconds"],
            "ratio": opened.seconds / base["seconds"],
        })
    columns = ["open s", "replayed MiB", "sequential s", "ratio"]
    sections = [
        f"The writer got SIGKILL when the store had 95 % of `max_replay_bytes` = {limit // MIB} "
        "MiB; opening is the whole command `cleave stats`, from a cold cache.",
    ]
    for value_size in (1024, 100):
        chosen = [row for row in rows if row["value size"] == value_size]
        sections.append(f"Values of {value_size} B:\n\n" + record.table(columns, chosen))
        verdict = record.verdict("opening against reading", column(chosen)("ratio"), 1.5)
        sections.append(verdict)
    return sections


def memory(setting):
    """Peak resident memory against what the settings allow."""
    rows = []
    for _ in range(setting.repeats):
        store = setting.fresh("memory")
        filled = setting.run(setting.cleave.fill(store, setting.num, 1024))
        command = setting.cleave.bench(
            store, "readrandom", num=setting.num, reads=setting.ops, value_size=1024, threads=1
        )
        for word, result in (("fill", filled), ("read", setting.run(command))):
            _, stats = cleave.parse(result)
            names = ("cache_capacity_bytes", "memtable_capacity_bytes", "index_and_filter_bytes")
            parts = [cleave.find_number(stats, name) for name in names]
            # Value GC moves records by 16 MiB, and needs as much for lists of so few records.
            allowed = None if None in parts else (sum(parts) + (32 + 64) * MIB) / MIB
            rows.append({
                "what": word,
                "peak RSS MiB": result.peak_rss_bytes / MIB,
                "allowed MiB": allowed,
                "share": ratio(result.peak_rss_bytes / MIB, allowed),
            })
    columns = ["peak RSS MiB", "allowed MiB", "share"]
    sections = [
        "Allowed: cache + memtables + filters, as the statistics say, + 32 MiB for value GC "
        "+ 64 MiB."
    ]
    for word in ("fill", "read"):
        chosen = [row for row in rows if row["what"] == word]
        sections.append(f"After {word}:\n\n" + record.table(columns, chosen))
        sections.append(
            record.verdict(f"share of what is allowed, {word}", column(chosen)("share"), 1)
        )
    return sections


def prepared(setting, name, value_size, num, **flags):
    """A store with all keys in it, at rest."""
    store = setting.fresh(name)
    setting.run(setting.cleave.fill(store, num, value_size, **flags))
    setting.run(setting.cleave.settle(store), cold=False)
    return store


def column(rows):
    """The median of a column, by its name."""
    return lambda name: record.median([row[name] for row in rows])


def ratio(part, whole):
    """None if either is unknown or nothing."""
    return None if part is None or not whole else part / whole


def known(*values):
    """The first that is known."""
    return next((value for value in values if value is not None), None)


def add(*values):
    """None if any is unknown."""
    return None if None in values else sum(values)


def sum_known(first, second, name):
    """The sum of a counter of two runs; None if either is unknown."""
    return add(first and first[name], second and second[name])


ENGINE = {"fill": fill, "reads": reads, "scan": scan, "replay": replay, "memory": memory}

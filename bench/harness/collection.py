"""The figures of what value GC costs and of what reorganizing brings."""

import subprocess

from harness import cleave, record
from harness.cases import KEY_BYTES, settled_store
from harness.figures import MIB, column, ratio

KEPT_WRITES = 0.75
READ_TAIL = 1.3
KEPT_SCANS = 0.9


def gc_cost(setting):
    """Overwrites and the reads beside them, with automatic value GC and without."""
    rows = {case: [] for case in setting.cases}
    total = setting.total / 2
    for case in setting.cases:
        num = case.keys(setting.data_bytes)
        # As a store is that has been in use: overwritten once, collected up to the target.
        base = settled_store(setting, "gc-base", case.value_size, num)
        setting.run(setting.cleave.overwrite(base, num, case, 1, settle=True))
        for _ in range(setting.repeats):
            sides = {}
            for no_gc in (False, True):
                store = setting.fresh("gc-cost")
                copy(base, store)
                command = setting.cleave.overwrite(
                    store, num, case, total, readers=1, seed=2, no_gc=no_gc
                )
                sides[no_gc] = cleave.workload(setting.run(command), "overwrite")
            rows[case].append(compared(sides[False], sides[True]))
        setting.fresh("gc-cost")
        setting.fresh("gc-base")
    sections = [
        f"{setting.data_bytes / 1e9:.2f} GB of keys of {KEY_BYTES} B and values, loaded in random "
        f"order and overwritten once; each run begins with a copy of that store, overwrites it "
        f"{total:g} times by one thread, durability `os`, while another gets random keys. "
        f"{setting.told_bounds()} "
        f"Memory limit {setting.memory_bytes // MIB} MiB where control groups allow it.",
    ]
    for case in setting.cases:
        values = column(rows[case])
        sections.append(f"Values of {case.value_size} B, {case.distribution}:\n\n" + record.table(
            list(rows[case][0]), rows[case]
        ))
        sections.append("\n".join([
            record.verdict(f"{case.name}: rate of overwrites kept", values("kept"), KEPT_WRITES,
                           at_most=False),
            record.verdict(f"{case.name}: p99 of reads, with over without", values("p99 ratio"),
                           READ_TAIL),
        ]))
    return sections


def compared(with_gc, without):
    """One row: overwrites and reads of the two sides."""
    reads, reads_without = with_gc["reads"], without["reads"]
    return {
        "ops/s": with_gc["ops_per_second"],
        "ops/s without": without["ops_per_second"],
        "kept": ratio(with_gc["ops_per_second"], without["ops_per_second"]),
        "reads/s": reads["ops_per_second"],
        "reads/s without": reads_without["ops_per_second"],
        "read p50 µs": reads["p50_us"],
        "p50 without": reads_without["p50_us"],
        "read p99 µs": reads["p99_us"],
        "p99 without": reads_without["p99_us"],
        "p99 ratio": ratio(reads["p99_us"], reads_without["p99_us"]),
        "read p99.9 µs": reads["p999_us"],
        "p99.9 without": reads_without["p999_us"],
    }


def copy(store, to):
    """Copies a store, holes as holes."""
    command = ["cp", "-a", "--sparse=always", str(store), str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise cleave.BenchError(f"{' '.join(command)} failed: {done.stderr}")


def reorganize(setting):
    """Scans of a randomly written store after `cleave reorganize`, against one loaded in order."""
    rows = {}
    for value_size in sorted({case.value_size for case in setting.cases}, reverse=True):
        rows[value_size] = reorganized(setting, value_size)
    sections = [
        f"{setting.data_bytes / 1e9:.2f} GB of keys of {KEY_BYTES} B and values, loaded in random "
        "order and overwritten once, evenly; then `cleave reorganize`. The other store has the "
        "same keys, loaded in their order. Whole scans with values, each from a cold cache. "
        f"{setting.told_bounds()} "
        f"Memory limit {setting.memory_bytes // MIB} MiB where control groups allow it.",
    ]
    for value_size, chosen in rows.items():
        sections.append(f"Values of {value_size} B:\n\n" + record.table(list(chosen[0]), chosen))
        sections.append(record.verdict(
            f"{value_size} B: scan rate of the store loaded in order, kept",
            column(chosen)("kept"), KEPT_SCANS, at_most=False,
        ))
    return sections


def reorganized(setting, value_size):
    """The rows of one size of values."""
    num = setting.data_bytes // (KEY_BYTES + value_size)
    store = settled_store(setting, "reorganized", value_size, num)
    command = setting.cleave.bench(
        store, "overwrite", num=num, value_size=value_size, durability="os", settle=True
    )
    setting.run(command)
    before = scan_rate(setting, store, num, value_size)
    done = setting.run(setting.cleave.reorganize(store))
    ordered = setting.fresh("ordered")
    command = setting.cleave.bench(
        ordered, "fillseq", num=num, value_size=value_size, durability="os", settle=True
    )
    setting.run(command)
    rows = []
    for _ in range(setting.repeats):
        rate = scan_rate(setting, store, num, value_size)
        rate_ordered = scan_rate(setting, ordered, num, value_size)
        rows.append({
            "scan MB/s": rate,
            "loaded in order MB/s": rate_ordered,
            "kept": ratio(rate, rate_ordered),
            "before MB/s": before,
            "reorganize s": done.seconds,
        })
    setting.fresh("reorganized")
    setting.fresh("ordered")
    return rows


def scan_rate(setting, store, num, value_size):
    """Megabytes a second of one whole scan from a cold cache."""
    command = setting.cleave.bench(store, "readseq", num=num, value_size=value_size, threads=1)
    work = cleave.workload(setting.run(command), "readseq")
    if work["found"] != num:
        raise cleave.BenchError(f"{store} has {work['found']} keys of {num}")
    return work["bytes"] / work["seconds"] / 1e6

"""WiscKey's figure 13: a random load while the collector frees what was deleted before."""

import math

from harness import cleave, record
from harness.cases import KEY_BYTES, settled_store
from harness.chart import Panel, Picture
from harness.collection import copy
from harness.figures import MIB, column, ratio

# The paper's pairs have 4 KiB.
VALUE_SIZE = 4096 - KEY_BYTES
# Of the paper's 100 % nothing would be left to collect: segments in which nothing is live are
# dropped by themselves, before the load begins.
SHARES = (25, 50, 75, 99)
# What the paper keeps at least.
KEPT = 0.65
SIDES = {
    "no GC": {"no_gc": True},
    "collecting": {"no_gc": True, "collect": True},
    "by itself": {},
}


def gc_load(setting):
    """A random load while dead values are collected, and without."""
    num = max(1, setting.data_bytes // (KEY_BYTES + VALUE_SIZE))
    rows = {share: [] for share in SHARES}
    for share in SHARES:
        base = deleted(setting, num, share)
        for _ in range(setting.repeats):
            rows[share].append(loads(setting, base, num))
        setting.fresh("gc-base")
    setting.fresh("gc-load")
    sections = [
        f"After WiscKey (Lu and others 2016), figure 13. {num:,} pairs of {VALUE_SIZE + KEY_BYTES} "
        "B loaded in random order, a share of them deleted evenly without value GC; then, on a "
        "copy of that store, as many pairs loaded in random order into another keyspace by one "
        "thread, durability `os`. *no GC*: automatic GC is off. *collecting*: so it is, but one "
        "`Db::gc`, as `cleave gc` calls it, begins with the load; rates are those of the load "
        "until it ends, or all of the load if that ends first. *by itself*: the default bounds. "
        "At the paper's 100 % nothing is left to collect, because segments in which nothing is "
        "live are dropped as soon as that is known, so 99 % stand for it. "
        f"Memory limit {setting.memory_bytes // MIB} MiB where control groups allow it.",
        picture(rows),
    ]
    for share in SHARES:
        sections.append(
            f"{share} % garbage:\n\n" + record.table(list(rows[share][0]), rows[share])
        )
    sections.append("\n".join(
        record.verdict(f"{share} % garbage: rate kept while collecting",
                       column(rows[share])("kept collecting"), KEPT, at_most=False)
        for share in SHARES
    ))
    return sections


def deleted(setting, num, share):
    """A store of which so many percent of the pairs are deleted and nothing is freed."""
    base = settled_store(setting, "gc-base", VALUE_SIZE, num)
    # Keys are drawn with repetition, so more draws than keys are needed.
    draws = round(-math.log(1 - share / 100) * num)
    setting.run(setting.cleave.bench(
        base, "deleterandom", num=num, reads=draws, batch=100, no_gc=True
    ))
    return base


def loads(setting, base, num):
    """One row: a load beside each kind of collecting, on copies of a store."""
    results = {}
    for side, flags in SIDES.items():
        store = setting.fresh("gc-load")
        copy(base, store)
        result = setting.run(setting.cleave.fill(
            store, num, VALUE_SIZE, unique=True, keyspace="load", **flags
        ))
        results[side] = result, cleave.workload(result, "fillrandom")
    (plain, none), (forced, busy), (_, own) = (results[side] for side in SIDES)
    gc = busy["gc"]
    return {
        "no GC ops/s": none["ops_per_second"],
        "collecting ops/s": gc["ops_per_second"],
        "kept collecting": ratio(gc["ops_per_second"], none["ops_per_second"]),
        "by itself ops/s": own["ops_per_second"],
        "kept by itself": ratio(own["ops_per_second"], none["ops_per_second"]),
        "GC s": gc["seconds"],
        "load s": busy["seconds"],
        "freed MiB": gc["bytes_freed"] / MIB,
        "moved MiB": gc["bytes_written"] / MIB,
        "no GC p99 µs": none["p99_us"],
        "collecting p99 µs": busy["p99_us"],
        "processor s": plain.processor_seconds,
        "processor s collecting": forced.processor_seconds,
    }


def picture(rows):
    """Rates and tails by the share of garbage."""
    def panel(title, unit, names):
        series = {
            side: [column(rows[share])(name) for share in SHARES] for side, name in names.items()
        }
        return Panel(title, unit, [f"{share} %" for share in SHARES], series)

    return Picture("A random load while dead values are collected", [
        panel("rate of the load", "ops/s", {side: f"{side} ops/s" for side in SIDES}),
        panel("p99 of puts", "µs", {side: f"{side} p99 µs" for side in ("no GC", "collecting")}),
    ])

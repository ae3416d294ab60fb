"""The experiments of WiscKey, of the introduction of Badger, of Titan, and the plane of writes and
scans: what is run, and what is drawn of it. `README.md` tells how each differs from its paper.
"""

from collections.abc import Callable
from dataclasses import dataclass

import cells
import results
from cells import of
from plan import MIB, MIX_THREADS, THRESHOLD, Scale, Step

KIB = 1 << 10
DATA_BYTES, MEMORY_BYTES = 256 * MIB, 96 * MIB
# The paper's 64 GB for 100 GB.
WISCKEY_MEMORY_BYTES = 160 * MIB
CACHE_MB, BUFFER_MB = 16, 8
SECONDS, REST = 1.5, 20
# WiscKey and the first Badger separate every value; no value here is that small.
EVERY_VALUE = 1
SIZES = (64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)


@dataclass(frozen=True)
class BySize:
    """A figure with a value for each size of values and engine."""

    title: str
    unit: str
    measure: Callable
    follows: str = ""
    # The least is the best.
    least: bool = False
    # Of the axis, where sizes are many.
    log: bool = True


@dataclass(frozen=True)
class ByWorkload:
    """A figure with a value for each workload and engine, for each size of values."""

    title: str
    unit: str
    # Pairs of a label and its measure.
    rows: tuple
    follows: str = ""
    least: bool = False
    # The chart shows multiples of the peer that is judged by.
    relative: bool = False


@dataclass(frozen=True)
class Plane:
    """One measure against another; each engine has a point for each size of values."""

    title: str
    x_unit: str
    y_unit: str
    x: Callable
    y: Callable
    follows: str = ""
    # It is told who is ahead of whom: x should be small, and y large.
    has_front: bool = False


@dataclass(frozen=True)
class Experiment:
    """What one command runs."""

    name: str
    title: str
    about: str
    engines: tuple
    # The peer of which figures are multiples.
    judge: str
    sizes: tuple
    steps: tuple
    figures: tuple
    threshold: int = EVERY_VALUE
    memory_bytes: int = WISCKEY_MEMORY_BYTES
    # Reads and mixes take so long.
    seconds: float = SECONDS

    def scale(self):
        """Its size, unless another is asked for."""
        return Scale(
            self.name, DATA_BYTES, self.memory_bytes, CACHE_MB, BUFFER_MB, list(self.sizes), 1, 1,
            self.seconds, REST, 0, self.threshold,
        )


WISCKEY_ENGINES = ("cleave-write", "cleave-off", "rocksdb", "leveldb")
WHOLE = {"share": 1, "rests": True}
LOAD = Step("load", fresh=True, **WHOLE)
# D and E come last, since they insert.
MIXES = [f"ycsb-{letter}" for letter in "abcfde"]
ORDERED = Step("load-ordered", store="ordered", fresh=True, **WHOLE)
# How much is loaded before a crash, as shares of the data: uneven, so that logs and memtables of
# any bound are met when they are fuller and emptier.
CRASHES = (0.53, 0.61, 0.67, 0.74, 0.83, 0.89, 0.95, 1.0)
OPENS = [f"open-{at}" for at in range(len(CRASHES))]


def crash(at, share):
    """A load that ends by SIGKILL, the opening behind it, and a look at every pair."""
    store = {"store": f"crash-{at}"}
    return [
        Step("load", fresh=True, share=share, holds=True, label=f"load-{at}", **store),
        Step("open", rests=True, label=OPENS[at], **store),
        Step("verify", label=f"verify-{at}", **store),
    ]


WISCKEY = [
    Experiment(
        "wisckey-load",
        "WiscKey: loads by size of values",
        "After WiscKey (Lu and others 2016), figures 7, 9 and 10, and the writes of figure 2: each "
        "key is written once, in order and in random order.",
        WISCKEY_ENGINES, "leveldb", SIZES, (LOAD, ORDERED),
        (
            BySize("load in order", "MB/s", of("load-ordered", cells.megabytes), "figure 7"),
            BySize("load in random order", "MB/s", of("load", cells.megabytes), "figure 9"),
            BySize("device bytes of a load in order", "for each byte written",
                   of("load-ordered", results.written), "", least=True, log=False),
            BySize("device bytes of a load in random order", "for each byte written",
                   of("load", results.written), "figures 10 and 2", least=True, log=False),
        ),
    ),
    Experiment(
        "wisckey-lookup",
        "WiscKey: random lookups by size of values",
        "After WiscKey, figure 11 and the reads of figure 2: gets of keys drawn uniformly by one "
        "thread, in a store loaded in random order and at rest.",
        WISCKEY_ENGINES, "leveldb", SIZES, (LOAD, Step("get")),
        (
            BySize("random lookups", "MB/s", of("get", cells.megabytes), "figure 11"),
            BySize("random lookups", "a second", of("get", results.rate), "figure 11"),
            BySize("device bytes read", "for each byte asked for",
                   of("get", cells.read_amplification), "figure 2", least=True),
            BySize("mean of a lookup", "µs", of("get", cells.mean_read_micros), "", least=True),
        ),
    ),
    Experiment(
        "wisckey-range",
        "WiscKey: range queries by size of values",
        "After WiscKey, figure 12: pairs are read from the first key on, in a store loaded in "
        "random order and in one loaded in order, each at rest before.",
        WISCKEY_ENGINES, "leveldb", SIZES,
        (
            LOAD, Step("fullscan", label="random"),
            ORDERED, Step("fullscan", store="ordered", label="ordered"),
        ),
        (
            BySize("range query after a load in random order", "MB/s",
                   of("random", cells.megabytes), "figure 12"),
            BySize("range query after a load in order", "MB/s",
                   of("ordered", cells.megabytes), "figure 12"),
        ),
    ),
    Experiment(
        "wisckey-space",
        "WiscKey: space amplification",
        "After WiscKey, figure 14: as many puts as there are keys, each of a key drawn uniformly, "
        "so that some 63 % of the keys exist and the rest is garbage; then as many again. Space "
        "is divided by the keys and values that exist afterwards, which a look at every pair "
        "counts.",
        WISCKEY_ENGINES, "leveldb", (256, KIB, 4 * KIB, 16 * KIB, 256 * KIB),
        (
            Step("overwrite-uniform", fresh=True, label="fill", **WHOLE),
            Step("verify", label="verify-fill"),
            Step("overwrite-uniform", label="overwrite", **WHOLE),
            Step("verify", label="verify-overwrite"),
        ),
        tuple(
            BySize(f"{when} {what}", "for each live byte",
                   cells.space(step, f"verify-{step}", name), follows, least=True, log=False)
            for step, what, follows in [
                ("fill", "the random load", "figure 14"), ("overwrite", "the overwrites", ""),
            ]
            for when, name in [
                ("at rest after", "space_end_bytes"), ("highest during", "space_highest_bytes"),
            ]
        ),
    ),
    Experiment(
        "wisckey-recovery",
        "WiscKey: time of opening after a crash",
        "After WiscKey, section 4.1.4: loads in random order that end by SIGKILL with the store "
        f"open, once {', '.join(f'{share:.0%}' for share in CRASHES)} of the keys are written; "
        "then the store is opened, its files no longer in the page cache, and every pair "
        "compared. The longest of these openings stands for the worst case of the paper.",
        WISCKEY_ENGINES, "leveldb", (KIB,),
        tuple(step for at, share in enumerate(CRASHES) for step in crash(at, share)),
        (
            BySize("longest opening", "s", cells.all_of(OPENS, cells.most), "section 4.1.4",
                   least=True),
            BySize("median of openings", "s", cells.all_of(OPENS, cells.middle), "", least=True),
            BySize("most read until at rest after opening", "MB",
                   cells.all_of(OPENS, cells.most_read), "", least=True),
        ),
    ),
    Experiment(
        "wisckey-ycsb",
        "WiscKey: YCSB",
        "After WiscKey, figure 15: a load in random order, then each mix for some seconds by "
        f"{MIX_THREADS} threads, D and E at the end since they insert. CleaveDB collects garbage "
        "by its default bounds.",
        WISCKEY_ENGINES, "leveldb", (KIB, 16 * KIB),
        (LOAD, *(Step(mix, MIX_THREADS) for mix in MIXES)),
        (
            ByWorkload(
                "YCSB", "operations a second",
                (
                    ("load", of("load", results.rate)),
                    *((it.upper(), of(f"ycsb-{it}", results.rate)) for it in "abcdef"),
                ),
                "figure 15", relative=True,
            ),
        ),
    ),
    Experiment(
        "wisckey-cpu",
        "WiscKey: processor use",
        "After WiscKey, table 1: processor time of the process, its background threads included, "
        "over the time of the work.",
        WISCKEY_ENGINES, "leveldb", (KIB,),
        (ORDERED, LOAD, Step("get"), Step("fullscan")),
        tuple(
            ByWorkload(
                title, unit,
                tuple((label, of(step, measure)) for label, step in [
                    ("load in order", "load-ordered"), ("random load", "load"),
                    ("lookup", "get"), ("range query", "fullscan"),
                ]),
                follows, least=True,
            )
            for title, unit, measure, follows in [
                ("processor use", "% of one processor", cells.processor_share, "table 1"),
                ("processor time until at rest", "µs for each pair", cells.processor_micros, ""),
            ]
        ),
    ),
]

BADGER = Experiment(
    "badger",
    "Badger: load, size, gets and iteration",
    "After the introduction of Badger (2017), its four plots: pairs are loaded in random order by "
    "one thread; then random gets, a walk over keys alone, and one over pairs.",
    ("cleave-write", "cleave-off", "rocksdb", "badger"), "rocksdb", (128, KIB, 16 * KIB),
    (LOAD, Step("get"), Step("keysonly"), Step("fullscan")),
    (
        BySize("load, until at rest", "s", of("load", cells.seconds_at_rest), "plot 1", least=True),
        BySize("output size", "MB", of("load", cells.stored_megabytes), "plot 2", least=True,
               log=False),
        BySize("random get, mean", "µs", of("get", cells.mean_read_micros), "plot 3", least=True),
        BySize("iteration of keys", "a second", of("keysonly", results.rate), "plot 4"),
        BySize("iteration of pairs", "a second", of("fullscan", results.rate), "plot 4"),
    ),
    memory_bytes=MEMORY_BYTES,
)

WRITES = ["load", "overwrite-uniform"]
TITAN = Experiment(
    "titan",
    "Titan: where values live",
    "After the article on Titan: its sizes of rows, and its workloads, without TiKV and TiDB above "
    "the engine. Keys are loaded in random order, then as many updates are made of keys drawn "
    "uniformly, every pair is compared, and then one thread reads. A scan that meets the end of "
    "the store counts as the part that it read.",
    ("cleave-write", "cleave-flush", "cleave-off", "rocksdb", "rocksdb-blob", "fjall-kv"),
    "rocksdb", tuple(KIB << at for at in range(6)),
    (
        LOAD, Step("overwrite-uniform", **WHOLE), Step("verify"), Step("get"), Step("scan100"),
        Step("scan10000"),
    ),
    (
        BySize("load", "MB/s", of("load", cells.megabytes)),
        BySize("update", "a second", of("overwrite-uniform", results.rate), "the article's Update"),
        BySize("point get", "a second", of("get", results.rate), "its Point Get"),
        BySize("scan of 100", "a second", of("scan100", cells.scans_of(100)), "its Range Scan"),
        BySize("scan of 10 000", "a second", of("scan10000", cells.scans_of(10_000)),
               "its Range Scan"),
        BySize("size after updates", "MB", of("overwrite-uniform", cells.stored_megabytes), "",
               least=True, log=False),
        BySize("device bytes of load and updates", "for each byte written",
               cells.all_of(WRITES, cells.written), "", least=True, log=False),
        *(
            Plane(f"the plane of where values live: scans of {shown}",
                  "device bytes for each byte written", "scans a second",
                  cells.all_of(WRITES, cells.written), of(step, cells.scans_of(count)))
            for shown, step, count in [("100", "scan100", 100), ("10 000", "scan10000", 10_000)]
        ),
    ),
    THRESHOLD, MEMORY_BYTES,
)

# Twelve seconds of scans are enough for what an engine does about their order.
PLANE_SECONDS = 12
PLANE_STEPS = [*WRITES, "scan100"]
PLANE = Experiment(
    "plane",
    "The plane of writes and short scans",
    "What short scans cost in writes: keys are loaded in random order, then four times as many "
    "updates are made of keys drawn uniformly, every pair is compared, and one thread scans from "
    "random keys for 12 seconds. The bytes are those of all of it but the comparison, so also of "
    "what the scans have an engine put in order. One point is ahead of another if it is no worse "
    "in both, and 1.2 times as good in one.",
    ("cleave-auto", "cleave-write", "cleave-off", "rocksdb", "rocksdb-blob", "leveldb"),
    "rocksdb", (KIB, 4 * KIB, 16 * KIB),
    (
        LOAD, Step("overwrite-uniform", share=4, rests=True), Step("verify"),
        Step("scan100", rests=True),
    ),
    (
        BySize("updates", "a second", of("overwrite-uniform", results.rate)),
        BySize("scans of 100", "a second", of("scan100", cells.scans_of(100))),
        BySize("highest space of the updates", "for each live byte",
               cells.space("overwrite-uniform", "verify", "space_highest_bytes"), least=True,
               log=False),
        Plane("writes and scans of 100", "device bytes for each byte written", "scans a second",
              cells.all_of(PLANE_STEPS, cells.written), of("scan100", cells.scans_of(100)),
              has_front=True),
    ),
    THRESHOLD, MEMORY_BYTES, PLANE_SECONDS,
)

# So long that an engine may change its mind within a step.
AUTO_SECONDS = 4
AUTO = Experiment(
    "auto",
    "The choice that is the default, beside each fixed one",
    "Whether nobody has to choose where values live: keys are loaded in random order and read, "
    "then overwritten once uniformly and once by Zipf's law, every pair is compared, and the "
    "mixes of YCSB follow. A mode that is more than 1.1 times the default was the better choice.",
    ("cleave-auto", "cleave-write", "cleave-flush", "cleave-off", "rocksdb"),
    "cleave-auto", (KIB, 4 * KIB, 16 * KIB),
    (
        LOAD, Step("get"), Step("scan10"), Step("scan100"), Step("fullscan"),
        Step("overwrite-uniform", **WHOLE), Step("overwrite-zipf", **WHOLE), Step("verify"),
        *(Step(mix, MIX_THREADS) for mix in MIXES),
    ),
    (
        ByWorkload(
            "each mode", "operations or pairs a second",
            (
                ("load", of("load", results.rate)),
                ("overwrite, uniform", of("overwrite-uniform", results.rate)),
                ("overwrite, zipf", of("overwrite-zipf", results.rate)),
                ("get", of("get", results.rate)),
                ("scan of 10", of("scan10", results.rate)),
                ("scan of 100", of("scan100", results.rate)),
                ("full scan", of("fullscan", results.rate)),
                *((f"YCSB {it[-1].upper()}", of(it, results.rate)) for it in sorted(MIXES)),
            ),
            relative=True,
        ),
        ByWorkload(
            "bytes", "device bytes for each byte written",
            tuple((it, of(it, results.written)) for it in ("load", "overwrite-uniform",
                                                          "overwrite-zipf")),
            least=True,
        ),
    ),
    THRESHOLD, MEMORY_BYTES, AUTO_SECONDS,
)

EXPERIMENTS = {one.name: one for one in [*WISCKEY, BADGER, TITAN, PLANE, AUTO]}

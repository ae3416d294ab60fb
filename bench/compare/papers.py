"""The experiments of WiscKey and of the introduction of Badger: what is run, and what is drawn.
`README.md` tells how each differs from its paper. `values.py` has those of where a value belongs.
"""

import cells
import results
from cells import of
from experiment import KIB, LOAD, MIXES, WHOLE, BySize, ByWorkload, Experiment
from plan import MIB, MIX_THREADS, Step
from values import AUTO, HOLES, PLANE, RATIO, TITAN, TURNS

# The paper's 64 GB for 100 GB.
WISCKEY_MEMORY_BYTES = 160 * MIB
# WiscKey and the first Badger separate every value; no value here is that small.
EVERY_VALUE = 1
SIZES = (64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)
WISCKEY_ENGINES = ("cleave-write", "cleave-off", "rocksdb", "leveldb")
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
        EVERY_VALUE, WISCKEY_MEMORY_BYTES,
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
        EVERY_VALUE, WISCKEY_MEMORY_BYTES,
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
        EVERY_VALUE, WISCKEY_MEMORY_BYTES,
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
        EVERY_VALUE, WISCKEY_MEMORY_BYTES,
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
        EVERY_VALUE, WISCKEY_MEMORY_BYTES,
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
        EVERY_VALUE, WISCKEY_MEMORY_BYTES,
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
        EVERY_VALUE, WISCKEY_MEMORY_BYTES,
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
    EVERY_VALUE,
)

EXPERIMENTS = {
    one.name: one
    for one in [*WISCKEY, BADGER, TITAN, PLANE, AUTO, TURNS, RATIO, HOLES]
}

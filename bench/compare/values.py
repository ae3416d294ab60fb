"""The experiments of where a value belongs: Titan's, the plane of writes and scans, the choice that
is the default, the sweep of the ceiling, and holes against rewriting. `README.md` tells how they
differ from the article.
"""

import cells
import results
from cells import of
from experiment import KIB, LOAD, MIXES, WHOLE, BySize, ByWorkload, Experiment, Plane, Sweep
from plan import MIB, MIX_THREADS, THRESHOLD, Step

WRITES = ["load", "overwrite-uniform"]
TITAN = Experiment(
    "titan",
    "Titan: where values live",
    "After the article on Titan: its sizes of rows, and its workloads, without TiKV and TiDB above "
    "the engine. Keys are loaded in random order, then as many updates are made of keys drawn "
    "uniformly, every pair is compared, and then one thread reads. A scan that meets the end of "
    "the store counts as the part that it read.",
    (
        "cleave-auto", "cleave-write", "cleave-flush", "cleave-off", "rocksdb", "rocksdb-blob",
        "fjall-kv",
    ),
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
    THRESHOLD,
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
    (
        "cleave-auto", "cleave-write", "cleave-off", "rocksdb", "rocksdb-blob", "leveldb",
        "fjall-kv",
    ),
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
    THRESHOLD, seconds=PLANE_SECONDS,
)

# So long that an engine may change its mind within a step.
AUTO_SECONDS = 4
AUTO = Experiment(
    "auto",
    "The choice that is the default, beside each fixed one",
    "Whether nobody has to choose where values live: keys are loaded in random order and read, "
    "then overwritten once uniformly and once by Zipf's law, every pair is compared, and the "
    "mixes of YCSB follow. A mode that is more than 1.1 times the default was the better choice. "
    "Values of 256 B are below the threshold: there the default does what *off* does.",
    ("cleave-auto", "cleave-write", "cleave-flush", "cleave-off", "rocksdb"),
    "cleave-auto", (256, KIB, 4 * KIB, 16 * KIB),
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
    THRESHOLD, seconds=AUTO_SECONDS,
)

# Each turn comes eight times. Synced puts, scans that are put in order and value GC at once take up
# to 130 MiB, where the limit of the other experiments ends the process.
TURNS_MEMORY = 192 * MIB
TURNS = Experiment(
    "turns",
    "A load that makes the default change its mind",
    "What it costs to choose where values live while the load changes all the time: keys are "
    "loaded in random order, then six times as many operations overwrite keys drawn uniformly, by "
    "turns of a quarter of the keys. Of the first turn every 64th put is synced, so that the log "
    "gets to the device and values had better stay there; of the second too, and every 32nd "
    "operation is a scan of 100, so that their order pays; of the third none is synced, so that "
    "the log is spared. Every pair is compared. A mode that is less than 0.9 of the default would "
    "be the worse choice.",
    ("cleave-auto", "cleave-write", "cleave-flush", "cleave-off"),
    "cleave-auto", (KIB, 4 * KIB, 16 * KIB),
    (LOAD, Step("turns", share=6, rests=True), Step("verify")),
    (
        BySize("operations", "a second", of("turns", results.rate)),
        BySize("device bytes of the turns", "for each byte written",
               of("turns", results.written), "", least=True, log=False),
    ),
    THRESHOLD, memory_bytes=TURNS_MEMORY,
)

# The ceilings, each with its settled bound, which must be below it.
CEILINGS = ((1.2, 1.1), (1.3, 1.15), (1.5, 1.2), (2, 1.2), (3, 1.2))
DRAWS = ("uniform", "zipf")


def bounded(ceiling, settled):
    """Words for the bounds of space, which alone count: no garbage is allowed beside them."""
    return (("ceiling", ceiling), ("settled", settled), ("allowance-mb", 0))


def swept(draw, ceiling, settled):
    """A load and its overwrites below a ceiling; the overwrites have the name of the store."""
    name = f"{draw}-{ceiling}"
    more = {"store": name, "words": bounded(ceiling, settled)}
    return [
        Step("load", fresh=True, label=f"load-{name}", **WHOLE, **more),
        Step(f"overwrite-{draw}", share=3, rests=True, label=name, **more),
        Step("verify", label=f"verify-{name}", **more),
    ]


def space_of(name):
    """For a step of overwrites, its space for each live byte."""
    return lambda step: cells.space(step, f"verify-{step}", name)


RATIO = Experiment(
    "ratio",
    "Space against bytes written",
    "After the sweep of Titan's GC ratio: what a lower ceiling of space costs in writes. For each "
    "ceiling (`max_space_amplification`) keys are loaded in random order, then three times as "
    "many are overwritten, drawn uniformly or by Zipf's law, and every pair is compared. The "
    "settled bound is "
    f"{', '.join(f'{settled:g} at {ceiling:g}' for ceiling, settled in CEILINGS)}; "
    "`space_allowance_bytes` is 0, so that the ceiling alone counts. Bytes are those of the "
    "overwrites until all is at rest; space is looked at every half second.",
    ("cleave-write", "cleave-flush"), "cleave-write", (KIB,),
    tuple(step for draw in DRAWS for pair in CEILINGS for step in swept(draw, *pair)),
    (
        Sweep(
            "highest space", "device bytes for each byte overwritten", "for each live byte",
            lambda step: of(step, results.written), space_of("space_highest_bytes"), "ceiling",
            tuple(
                (draw, tuple((f"{ceiling:g}", f"{draw}-{ceiling}") for ceiling, _ in CEILINGS))
                for draw in DRAWS
            ),
            (
                ("Overwrites", "a second", lambda step: of(step, results.rate), False),
                ("Device bytes of the overwrites", "for each byte overwritten",
                 lambda step: of(step, results.written), True),
                ("Highest space of the overwrites", "for each live byte",
                 space_of("space_highest_bytes"), True),
                ("Space at rest", "for each live byte", space_of("space_end_bytes"), True),
            ),
        ),
    ),
    THRESHOLD,
)

HOLES_BOUNDS = {"words": bounded(1.5, 1.2)}
# An idle database begins to free what is dead after two seconds.
HOLES_STAY = {"words": (*bounded(1.5, 1.2), ("stay", 6))}
# Draws for each key; of the keys half are deleted by so many.
OVERWRITES, DELETIONS = 2, 0.7
HOLES = Experiment(
    "holes",
    "Holes against rewriting",
    "After Titan's punching of holes: what it saves to give dead values back to the file system in "
    "place (`punch`), instead of writing anew what is live beside them. Keys are loaded in random "
    "order; then twice as many are overwritten, or half of them deleted, drawn uniformly, and "
    "every pair is compared. The ceiling is 1.5, the settled bound 1.2, "
    "`space_allowance_bytes` 0. Bytes, time and space are those of the overwrites or deletions "
    "until all is at rest, six seconds later at least, as an idle database goes on freeing. "
    "*Rewriting* is with `punch` off.",
    ("cleave-write-holes", "cleave-write-rewriting", "cleave-flush-holes",
     "cleave-flush-rewriting"),
    "cleave-write-rewriting", (4 * KIB, 16 * KIB, 64 * KIB),
    tuple(
        step
        for name, workload, share in [
            ("overwrites", "overwrite-uniform", OVERWRITES),
            ("deletions", "delete-uniform", DELETIONS),
        ]
        for step in [
            Step("load", store=name, fresh=True, label=f"load-{name}", **WHOLE, **HOLES_BOUNDS),
            Step(workload, store=name, share=share, rests=True, label=name, **HOLES_STAY),
            Step("verify", store=name, label=f"verify-{name}", **HOLES_BOUNDS),
        ]
    ),
    tuple(
        BySize(title.format(name), unit, of(name, measure), least=least, log=False)
        for name in ("overwrites", "deletions")
        for title, unit, measure, least in [
            ("{}", "a second", results.rate, False),
            ("device bytes of {}", "MB", cells.device_megabytes, True),
            ("processor time of {}", "s", cells.processor_seconds, True),
            ("highest space of {}", "MB", cells.highest_megabytes, True),
            ("space at rest after {}", "MB", cells.stored_megabytes, True),
        ]
    ),
    THRESHOLD,
)

"""The experiments of where a value belongs: Titan's, the plane of writes and scans, and the choice
that is the default. `README.md` tells how the first differs from its article.
"""

import cells
import results
from cells import of
from experiment import KIB, LOAD, MIXES, WHOLE, BySize, ByWorkload, Experiment, Plane
from plan import MIX_THREADS, THRESHOLD, Step

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

"""The tree in memory, in the layout of the article on Badger: sizes of values from 128 B to 16 KiB,
and for each of them the rates of random gets, of walks over keys, and of walks over pairs.

As in that article all values are separated, so that the tree holds keys and pointers only.
"""

from harness import cleave, record
from harness.chart import Panel, Picture
from harness.figures import MIB, prepared

# Sizes of values, and how many keys of `--num` are loaded.
SIZES = [("128 B", 128, 1), ("1 KiB", 1024, 4), ("16 KiB", 16384, 64)]
WORKLOADS = [
    ("random gets", "readrandom", {}),
    ("walk over keys", "readseq", {"keys_only": True}),
    ("walk over pairs", "readseq", {}),
]
SIDES = {
    "pinned": lambda bytes_: {"pin_tree": bytes_},
    "block cache of the same size": lambda bytes_: {"cache_mb": bytes_ // MIB},
    "neither": lambda bytes_: {"cache_mb": 8},
}


def pinned_tree(setting):
    """The tree in memory, and reads of keys and pairs at several sizes of values."""
    bound = setting.memory_bytes // 2
    rows = {}
    for label, value_size, part in SIZES:
        num = max(1, setting.num // part)
        store = prepared(setting, "pinned", value_size, num, threshold=0)
        for _ in range(setting.repeats):
            for side, flags in SIDES.items():
                rows.setdefault((label, side), []).append(
                    run(setting, store, num, value_size, flags(bound))
                )
    picture = Picture(
        "The tree in memory",
        [
            Panel(
                what, "a second", [label for label, _, _ in SIZES],
                {
                    side: [middle(rows[label, side], what) for label, _, _ in SIZES]
                    for side in SIDES
                },
            )
            for what, _, _ in WORKLOADS
        ],
    )
    return [
        f"{setting.num:,} keys with values of 128 B, and fewer with larger ones, loaded in random "
        f"order, all separated; {setting.ops:,} operations a run from a cold cache, by one thread, "
        f"each run in a process of its own. Memory limit {setting.memory_bytes // MIB} MiB, page "
        f"cache included, of which the tree or the block cache may take {bound // MIB} MiB, or a "
        "block cache 8 MiB. Sides alternate.",
        picture,
        record.medians(["value", "side"], rows),
        "\n".join(
            f"- {label}, {what}: pinned {gain(rows, label, what, side):.2f} × {side}"
            for label, _, _ in SIZES for what, _, _ in WORKLOADS for side in list(SIDES)[1:]
        ),
        "The opening loads the tree; it is not part of the rates. It is in *besides s*: what the "
        "process of the random gets took for opening, and for closing.",
    ]


def run(setting, store, num, value_size, flags):
    """One row: each workload in a process of its own."""
    row = {}
    for what, workload, more in WORKLOADS:
        command = setting.cleave.bench(
            store, workload, num=num, reads=min(setting.ops, num), value_size=value_size,
            threads=1, threshold=0, no_gc=True, **more, **flags,
        )
        result = setting.run(command)
        work = cleave.workload(result, workload)
        row[what] = work["ops_per_second"]
        if workload == "readrandom":
            row["p99 µs"] = work["p99_us"]
            row["besides s"] = result.seconds - work["seconds"]
            _, stats = cleave.parse(result)
            row["pinned MiB"] = (cleave.find_number(stats, "pinned_tree_bytes") or 0) / MIB
    return row


def middle(rows, what):
    """The median of the runs."""
    return record.median([row[what] for row in rows])


def gain(rows, label, what, side):
    """The rate with the tree pinned, as a multiple of another side's."""
    return middle(rows[label, "pinned"], what) / middle(rows[label, side], what)

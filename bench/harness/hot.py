"""The experiments of the paper on hot updates (Lin, Chen 2022): the update table and its trigger.

As in the paper, one thread loads the keys and then runs the workload in the same process, so that
the update table knows what was loaded. Each run is made in several geometries: the paper's, which
is LevelDB's defaults as far as the options go; the same with filters, which tells what our engine
never had to lose; and the store's own defaults, except that separation is fixed: by default the
engine would choose another one with an update table than without, and that would be compared.
"""

from dataclasses import dataclass

from harness import cleave, record
from harness.cases import KEY_BYTES
from harness.chart import Panel, Picture
from harness.figures import MIB, ratio

VALUE_SIZE = 1024
# The paper's `old_thres` is 1000 entries of tables that hold about 2000.
TABLE_MIB = 64
# Memory of the update table for each key of 16 bytes.
BYTES_PER_KEY = 64
# The paper's old_thres where it sweeps the size: more than a table of its geometry has entries.
NEVER = "entries:10000"


@dataclass(frozen=True)
class Geometry:
    """How a store is laid out."""

    name: str
    about: str
    flags: tuple

    def options(self):
        """Flags of `cleave bench`."""
        return dict(self.flags)


LEVELDB = (
    ("threshold", "never"), ("memtable_mb", 4), ("table_mb", 2), ("level_base_mb", 10),
)
GEOMETRIES = [
    Geometry(
        "paper",
        "LevelDB's: values inline, memtables of 4 MiB, tables of 2 MiB, 10 MiB in level 1, no "
        "filters, a cache of 8 MiB",
        (*LEVELDB, ("filter_bits", 0), ("cache_mb", 8)),
    ),
    Geometry("filters", "the same with our filters and our cache of 64 MiB", LEVELDB),
    Geometry(
        "ours",
        "the defaults: memtables of 64 MiB, filters, but `separation` is `at_flush`, not `auto`, "
        "so that both sides write alike whatever it would choose",
        (("separation", "at_flush"),),
    ),
]


@dataclass(frozen=True)
class Point:
    """One run: its place in a chart, and what is run."""

    label: str
    series: str
    workload: str = "ycsba"
    # Operations for each key loaded.
    factor: float = 1
    read_share: float | None = None
    table_mib: int = TABLE_MIB
    trigger: str | None = None


def sides(label, **load):
    """The same with the update table and without."""
    return [Point(label, "with", **load), Point(label, "without", table_mib=0, **load)]


# The paper's loads: U1 to U9 by their share of updates.
UPDATES = [point for n in (1, 3, 5, 7, 9) for point in sides(f"U{n}", read_share=1 - n / 10)]
YCSB = [point for name in "abcd" for point in sides(name, workload=f"ycsb{name}")]
# N reads among N × update_times updates.
TIMES = [
    point for times in (1, 2, 4, 8)
    for point in sides(str(times), factor=times + 1, read_share=1 / (times + 1))
]
COMPARED = (
    "read mean µs", "read p99 µs", "write mean µs", "write p99 µs", "written B / user B",
    "processor s",
)
SHARES = ("0.05", "0.25", "0.5", "1")
TRIGGERS = [
    Point("no table", "with", factor=2, table_mib=0),
    *(Point(share, "with", factor=2, trigger=f"share:{share}") for share in SHARES),
    Point("off", "with", factor=2, trigger="off"),
]


def sizes(num):
    """U9 at sizes of the table from none to four times what takes all keys."""
    full = max(16, -(-num * BYTES_PER_KEY // MIB))
    chosen = [0, full // 16, full // 4, full, full * 4]
    return [
        Point(f"{mib} MiB", "with", read_share=0.1, table_mib=mib, trigger=NEVER) for mib in chosen
    ]


def keys(setting):
    """How many keys are loaded."""
    return max(1, setting.data_bytes // (KEY_BYTES + VALUE_SIZE))


def measured(setting, geometry, points):
    """The rows of each point; the points alternate."""
    rows = {point: [] for point in points}
    for _ in range(setting.repeats):
        for point in points:
            rows[point].append(run(setting, geometry, point))
    setting.fresh("hot")
    return rows


def run(setting, geometry, point):
    """Loads a store and runs one workload on it."""
    num = keys(setting)
    command = setting.cleave.bench(
        setting.fresh("hot"),
        f"fillrandom,{point.workload}",
        num=num,
        reads=round(num * point.factor),
        value_size=VALUE_SIZE,
        unique=True,
        settle=True,
        distribution="uniform",
        read_share=point.read_share,
        durability="os",
        update_table_mb=point.table_mib,
        early_compaction=point.trigger,
        **geometry.options(),
    )
    result = setting.run(command)
    work = cleave.workload(result, point.workload)
    _, stats = cleave.parse(result)
    user_bytes = stats["user_bytes_written"]
    reads, writes = (work[side] if work[side]["ops"] else {} for side in ("reads", "writes"))
    return {
        "read mean µs": reads.get("mean_us"),
        "read p99 µs": reads.get("p99_us"),
        "write mean µs": writes.get("mean_us"),
        "write p99 µs": writes.get("p99_us"),
        "ops/s": work["ops_per_second"],
        "written B / user B": ratio(cleave.written_bytes(stats), user_bytes),
        "process B / user B": ratio(result.process_write_bytes, user_bytes),
        "processor s": result.processor_seconds,
        "short cuts / get": ratio(stats.get("short_cut_reads"), stats.get("gets")),
        "superseded dropped": stats.get("superseded_entries_dropped"),
        "early compactions": stats.get("early_compactions"),
    }


def middle(rows, point, name):
    """The median of one point."""
    return record.median([row[name] for row in rows[point]])


def table(rows):
    """All points with all that was measured."""
    groups = {(point.label, point.series): rows[point] for point in rows}
    return record.medians(["", "table"], groups)


def changes(rows):
    """What the update table changes: each figure with it over that without."""
    pairs = {}
    for point in rows:
        pairs.setdefault(point.label, {})[point.series] = point
    changed = {}
    for label, pair in pairs.items():
        whole, base = pair["with"], pair["without"]
        changed[label] = {
            name: ratio(middle(rows, whole, name), middle(rows, base, name)) for name in COMPARED
        }
    return changed


def panel(geometry, title, unit, rows, name):
    """A panel of one figure over all points."""
    labels = list(dict.fromkeys(point.label for point in rows))
    series = {}
    for point in rows:
        series.setdefault(f"{point.series} update table", []).append(middle(rows, point, name))
    return Panel(f"{geometry.name}: {title}", unit, labels, series)


def introduction(setting, what):
    """What every record of these begins with."""
    lines = [
        f"After Lin, Chen 2022. {what} {keys(setting):,} keys of {KEY_BYTES} B (the paper's have "
        f"8), values of {VALUE_SIZE} B, loaded in random order and settled; then the workload, "
        "keys drawn uniformly as in the paper, by one thread, durability `os`, in the same "
        "process; then settled again. Bytes and processor time are those of load and workload "
        f"together. Memory limit {setting.memory_bytes // MIB} MiB where control groups allow it. "
        "Geometries:",
        *(f"- *{geometry.name}*: {geometry.about}" for geometry in setting.geometries),
    ]
    return lines[0] + "\n\n" + "\n".join(lines[1:])


def compared(setting, title, what, points, charted, goals):
    """The sections of a figure that compares with and without; goals is of the paper's geometry."""
    sections, panels = [introduction(setting, what)], []
    for geometry in setting.geometries:
        rows = measured(setting, geometry, points)
        changed = changes(rows)
        sections.append(f"## Geometry: {geometry.name}\n\n" + table(rows))
        sections.append("With the table over without:\n\n" + record.medians(
            [""], {(label,): [row] for label, row in changed.items()}
        ))
        sections.append(verdicts(geometry, changed, goals))
        panels += [panel(geometry, *chart, rows, name) for name, *chart in charted]
    sections.insert(1, Picture(title, panels))
    return sections


def verdicts(geometry, changed, goals):
    """The paper's claims in its geometry, and in each that nothing gets worse."""
    lines = []
    if geometry.name == "paper":
        for label, name, goal in goals:
            lines.append(record.verdict(
                f"{geometry.name}, {label}: {name}, with over without", changed[label][name], goal
            ))
    known = {
        (label, name): value for label, row in changed.items() for name, value in row.items()
        if value is not None and not name.startswith("processor")
    }
    if known:
        label, name = max(known, key=known.get)
        lines.append(record.verdict(
            f"{geometry.name}: the worst cell, {name} at {label}", known[label, name], 1.02
        ))
    return "\n".join(lines)


def hot_reads(setting):
    """Reads between updates, with the update table and without."""
    charted = [("read mean µs", "mean of reads", "µs"), ("read p99 µs", "p99 of reads", "µs")]
    goals = [("U5", "read mean µs", 0.35), ("U5", "read p99 µs", 0.31)]
    what = "U1 to U9 have 10 to 90 % updates, the others are gets, as in its figures 2 and 7."
    return compared(setting, "Reads between updates", what, UPDATES, charted, goals)


def hot_ycsb(setting):
    """YCSB a to d, with the update table and without."""
    charted = [
        ("read mean µs", "mean of reads", "µs"),
        ("write mean µs", "mean of writes", "µs"),
        ("written B / user B", "bytes written per byte", ""),
        ("processor s", "processor time", "s"),
    ]
    goals = [
        ("a", "read mean µs", 0.66), ("b", "written B / user B", 0.29),
        ("a", "write mean µs", 1.093),
    ]
    what = "YCSB a to d, as in its figures 8 and 9."
    return compared(setting, "YCSB a to d", what, YCSB, charted, goals)


def hot_sweep(setting):
    """Size and trigger of the update table, and the number of updates."""
    what = "The update table's parameters, as in its figures 5 and 6."
    sections, panels = [introduction(setting, what)], []
    parts = [
        ("Size of the update table, U9", "size, p99 of reads", "read p99 µs",
         "The trigger is `old_thres` = 10,000 entries, as in the paper.", sizes(keys(setting))),
        ("Trigger, as many updates as reads", "trigger, mean of writes", "write mean µs",
         "As a share of a table's entries: the paper's best `old_thres`, 1000 of about 2000, is "
         f"0.5. The update table has {TABLE_MIB} MiB.", TRIGGERS),
        ("Updates of each key, update_times", "update_times, p99 of reads", "read p99 µs",
         "The loads of the paper's table 2, but that the insertions come first.", TIMES),
    ]
    for geometry in setting.geometries:
        for title, short, name, about, points in parts:
            rows = measured(setting, geometry, points)
            sections.append(f"## {title} ({geometry.name})\n\n{about}\n\n" + table(rows))
            panels.append(panel(geometry, short.split(",")[0] + ", mean of reads", "µs", rows,
                                "read mean µs"))
            panels.append(panel(geometry, short, "µs", rows, name))
    sections.insert(1, Picture("The update table's parameters", panels))
    return sections


HOT = {"hot-sweep": hot_sweep, "hot-reads": hot_reads, "hot-ycsb": hot_ycsb}

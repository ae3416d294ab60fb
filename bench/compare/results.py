"""From the lines of a comparison to figures: medians, ratios and Markdown. Nothing here runs."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import conditions  # noqa: E402
import plan  # noqa: E402
from harness import record  # noqa: E402: found by the line above

TITLES = {
    "load": "load, random order",
    "load-ordered": "load in order",
    "overwrite-uniform": "overwrite, uniform",
    "overwrite-zipf": "overwrite, zipf",
    "get-1": "get, 1 thread",
    "get-8": "get, 8 threads",
    "missing": "get of missing keys",
    "scan100": "scan of 100",
    "fullscan": "full scan, pairs",
    "keysonly": "full scan, keys only",
    "scan100-after": "scan of 100 after overwrites",
    "fullscan-after": "full scan after overwrites, pairs",
    "load-bare": "load, beside a write call each",
    "get-1-bare": "get, 1 thread, beside a read call each",
    "get-8-bare": "get, 8 threads, beside a read call each",
    "get-batch-bare": f"gets of {plan.BATCH} keys at once, beside {plan.BARE_DEPTH} reads at once",
    "synced-1": "synced writes, 1 thread",
    "synced-8": "synced writes, 8 threads",
    **{f"ycsb-{letter}": f"YCSB {letter.upper()}, 4 threads" for letter in "abcdef"},
    **{f"ycsb-{letter}-8": f"YCSB {letter.upper()}, 8 threads" for letter in "abcdef"},
}
WRITES = ["load", "load-bare", "load-ordered", "overwrite-uniform", "overwrite-zipf"]


@dataclass(frozen=True)
class Goal:
    """What CleaveDB's best mode should come to."""

    ratio: float
    # Against the best of those that keep values in their tables.
    inline: bool = False


# Beside the device itself.
BARE_GOALS = {
    "load-bare": Goal(0.7),
    "get-1-bare": Goal(0.85),
    "get-8-bare": Goal(0.85),
    "get-batch-bare": Goal(0.8),
}


def goal(step, value_size):
    """The goal of a row; None where none was set."""
    if step in BARE_GOALS:
        return BARE_GOALS[step]
    if step == "load":
        return Goal(1.5 if value_size >= 1024 else 1.1)
    if step in WRITES:
        return Goal(1.1) if value_size <= 256 else None
    if step.startswith(("scan100", "fullscan")):
        return Goal(1.0, inline=True)
    others = {
        "get-1": Goal(1.15),
        "get-8": Goal(1.15),
        "missing": Goal(1.15),
        "keysonly": Goal(3.0, inline=True),
        "synced-8": Goal(1.2),
    }
    return Goal(1.0) if step.startswith("ycsb-") else others.get(step)


def read(text):
    """(head, lines) of a file of JSON lines; the head is the first."""
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not lines or "comparison" not in lines[0]:
        raise ValueError("the file does not begin with the head of a comparison")
    return lines[0], lines[1:]


# What a line says of a run; None where it says nothing.
def rate(line):
    """Operations a second."""
    return line["ops"] / line["seconds"] if line.get("seconds") else None


def rate_at_rest(line):
    """The same, with the time until the engine was at rest."""
    return line["ops"] / (line["seconds"] + line["rest_seconds"]) if line.get("seconds") else None


def written(line):
    """Device bytes for each byte of keys and values."""
    return line["device_write_bytes"] / line["user_bytes"] if line.get("user_bytes") else None


def highest_space(line):
    """The most allocated blocks of all samples, for each live byte."""
    live = line["keys"] * (plan.KEY_BYTES + line["value_size"])
    return line["space_highest_bytes"] / live if "space_highest_bytes" in line else None


def processor(line):
    """Microseconds on processors for each operation, background work included."""
    if not line.get("ops"):
        return None
    return line["processor_seconds_at_rest"] / line["ops"] * 1e6


def peak_memory(line):
    """The most resident memory, in MiB."""
    return line["peak_rss_bytes"] / plan.MIB if "peak_rss_bytes" in line else None


def latency(kind, name):
    """A quantile in microseconds of `reads` or `writes`; None if there were none."""
    def of(line):
        found = line.get(kind)
        return found[name] if found and found["count"] else None

    return of


class Results:
    """The lines by what they measure."""

    def __init__(self, lines):
        self.by = {}
        self.failures = {}
        for line in lines:
            key = line["value_size"], line["step"], line["engine"]
            self.by.setdefault(key, []).append(line)
            if "failed" in line:
                self.failures[key] = line["failed"]

    def sizes(self):
        """The sizes of values, in order."""
        return sorted({size for size, _, _ in self.by})

    def steps(self, size):
        """The measured steps of a size, in order."""
        found = {step for at, step, _ in self.by if at == size}
        return [step for step in TITLES if step in found]

    def engines(self, size):
        """The engines of a size, in order."""
        found = {engine for at, _, engine in self.by if at == size}
        return [engine for engine in plan.ENGINES if engine.name in found]

    def all(self, size, step, engine, measure):
        """What each repetition says, by its number."""
        lines = self.by.get((size, step, engine.name), [])
        pairs = ((line["repeat"], measure(line)) for line in lines if "failed" not in line)
        return {repeat: value for repeat, value in pairs if value is not None}

    def median(self, size, step, engine, measure):
        """The median of the repetitions; None if it never ran, or failed once."""
        if (size, step, engine.name) in self.failures:
            return None
        values = list(self.all(size, step, engine, measure).values())
        return record.median(values) if values else None

    def best(self, size, step, engines):
        """The engine with the highest median rate; None if there is none."""
        known = [(self.median(size, step, one, rate), one) for one in engines]
        known = [pair for pair in known if pair[0] is not None]
        return max(known, key=lambda pair: pair[0])[1] if known else None

    def ratio(self, size, step, ours, peer):
        """The median of the ratios of each repetition, so that what slows a whole one counts for
        both sides.
        """
        mine = self.all(size, step, ours, rate)
        theirs = self.all(size, step, peer, rate)
        found = [mine[repeat] / theirs[repeat] for repeat in mine.keys() & theirs.keys()]
        return record.median(found) if found else None

    def row(self, size, step):
        """The best mode, the best peer, their ratio, the goal and whether it is met."""
        engines = self.engines(size)
        ours = self.best(size, step, [one for one in engines if one.ours])
        peers = [one for one in engines if not one.ours]
        peer = self.best(size, step, peers)
        if ours is None or peer is None:
            return None
        wanted, met = goal(step, size), None
        if wanted:
            inline = [one for one in peers if not one.separates or size < plan.THRESHOLD]
            judge = self.best(size, step, inline) if wanted.inline else peer
            reached = judge and self.ratio(size, step, ours, judge)
            met = None if reached is None else reached >= wanted.ratio
        absent = [one for one in peers if self.median(size, step, one, rate) is None]
        ratio = self.ratio(size, step, ours, peer)
        return Row(size, step, ours, peer, ratio, wanted, met, absent)


@dataclass(frozen=True)
class Row:
    """A line of the table of ratios."""

    size: int
    step: str
    ours: plan.Engine
    peer: plan.Engine
    ratio: float | None
    goal: Goal | None
    met: bool | None
    # Peers that have no figure, so that nobody knows what is won against them.
    absent: list


def rows(results):
    """All rows, by value size and step."""
    found = (results.row(size, step) for size in results.sizes() for step in results.steps(size))
    return [row for row in found if row]


def goal_text(row):
    """The goal and whether it is met, and who is missing."""
    absent = ", ".join(one.title for one in row.absent)
    told = [f"no figure of {absent}"] if absent else []
    if row.goal:
        text = f"≥ {row.goal.ratio:g}" + (" of inline" if row.goal.inline else "")
        told.insert(0, text + {True: ": met", False: ": **not met**", None: ""}[row.met])
    return "; ".join(told)


def ratio_table(results):
    """CleaveDB's best mode : best peer, in Markdown."""
    lines = ["| value | workload | CleaveDB's best mode | op/s | best peer | op/s | ratio | goal |"]
    lines.append("|---:|---|---|---:|---|---:|---:|---|")
    for row in rows(results):
        mine = results.median(row.size, row.step, row.ours, rate)
        theirs = results.median(row.size, row.step, row.peer, rate)
        share = record.number(row.ratio)
        lines.append(
            f"| {row.size} | {TITLES[row.step]} | {row.ours.title.removeprefix('CleaveDB ')} | "
            f"{record.number(round(mine))} | {row.peer.title} | {record.number(round(theirs))} | "
            f"{share if row.ratio >= 1 else f'**{share}**'} | {goal_text(row)} |"
        )
    return "\n".join(lines)


# Title, steps (None: all) and measure of each table; whether the least is the best.
TABLES = [
    ("Operations per second", None, rate, False),
    ("Operations per second, with the time until the engine was at rest", WRITES, rate_at_rest,
     False),
    ("Device bytes for each byte of keys and values", WRITES, written, True),
    ("Highest space, for each live byte", WRITES, highest_space, True),
    ("Microseconds on processors for each operation, background included", None, processor, True),
    ("Reads: p50, µs", None, latency("reads", "p50_us"), True),
    ("Reads: p99, µs", None, latency("reads", "p99_us"), True),
    ("Reads: p99.9, µs", None, latency("reads", "p999_us"), True),
    ("Reads: longest, µs", None, latency("reads", "max_us"), True),
    ("Writes: p50, µs", None, latency("writes", "p50_us"), True),
    ("Writes: p99, µs", None, latency("writes", "p99_us"), True),
    ("Writes: p99.9, µs", None, latency("writes", "p999_us"), True),
    ("Writes: longest, µs", None, latency("writes", "max_us"), True),
    ("Peak resident memory, MiB", None, peak_memory, True),
]
# Those that a record shows; the page has all.
SHORT = [0, 1, 2, 3, 4, 6, 10, 12]


def cells(results, size, step, measure):
    """(engine, value or None) of a row; None where no engine has a value."""
    found = [(one, results.median(size, step, one, measure)) for one in results.engines(size)]
    return found if any(value is not None for _, value in found) else None


def shown(value):
    """A cell: three digits are more than one run can tell."""
    if value is None:
        return "–"
    return record.number(round(value) if value >= 100 else float(f"{value:.3g}"))


def engine_table(results, size, steps, measure, least):
    """One measure of all engines, in Markdown, the best in bold; None if there is nothing."""
    lines = []
    for step in steps or results.steps(size):
        row = cells(results, size, step, measure)
        if row is None:
            continue
        best = (min if least else max)(value for _, value in row if value is not None)
        texts = [f"**{shown(it)}**" if it == best else shown(it) for _, it in row]
        lines.append(f"| {TITLES[step]} | " + " | ".join(texts) + " |")
    titles = [one.title for one in results.engines(size)]
    head = ["| workload | " + " | ".join(titles) + " |", "|---" + "|---:" * len(titles) + "|"]
    return "\n".join(head + lines) if lines else None


def failures(results):
    """What ended without a figure, as a list; None if nothing did."""
    titles = {one.name: one.title for one in plan.ENGINES}
    lines = [
        f"- {titles[engine]}, {size} B, {TITLES.get(step, step)}: {said}; what would follow in "
        "that store was not run"
        for (size, step, engine), said in results.failures.items()
    ]
    return "\n".join(lines) or None


def markdown(head, lines):
    """The sections of a record."""
    results = Results(lines)
    sections = [conditions.of_comparison(head), "## CleaveDB's best mode : best peer"]
    sections.append(ratio_table(results))
    for size in results.sizes():
        sections.append(f"## Values of {size} B")
        for title, steps, measure, least in (TABLES[at] for at in SHORT):
            table = engine_table(results, size, steps, measure, least)
            if table:
                sections += [f"{title}:", table]
    if failed := failures(results):
        sections += ["## Without a figure", failed]
    return sections


def record_text(head, lines):
    """A record as `bench/record` has them: the facts of the run, not of where this is made."""
    facts = [f"- {name}: {head[name]}" for name in ("date", "machine", "commit")]
    top = ["# Side by side with the peers", "", *facts, f"- command: `{head['command']}`", ""]
    return "\n".join(top) + "\n" + "\n\n".join(markdown(head, lines)) + "\n"

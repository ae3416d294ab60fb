"""Tables, medians and the files below bench/record/."""

import datetime
import os
import platform
import statistics
import subprocess
from pathlib import Path

from harness.chart import Picture
from harness.device import Device

BENCH = Path(__file__).resolve().parent.parent


# Stands in a page for the file of its picture, whose name is known when it is saved.
PICTURE_FILE = "PICTURE.svg"


def median_and_spread(values):
    """`1.23 (1.10–1.40)`, or the value if there is one; a dash where one is unknown."""
    if not values or any(value is None for value in values):
        return "–"
    if len(values) == 1:
        return number(values[0])
    middle = statistics.median(values)
    return f"{number(middle)} ({number(min(values))}–{number(max(values))})"


def median(values):
    """The middle value; None if any is unknown."""
    if not values or any(value is None for value in values):
        return None
    return statistics.median(values)


def number(value):
    """Four digits that matter, without an exponent."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    digits = 2 if size >= 10 else 3 if size >= 0.1 else 5
    return f"{value:.{digits}f}"


def table(columns, rows):
    """A markdown table of the runs, with a last row of medians and spreads."""
    lines = ["| run | " + " | ".join(columns) + " |"]
    lines.append("|---" + "|---:" * len(columns) + "|")
    for at, row in enumerate(rows, 1):
        lines.append(f"| {at} | " + " | ".join(number(row.get(name)) for name in columns) + " |")
    spreads = (median_and_spread([row.get(name) for row in rows]) for name in columns)
    lines.append("| **median** | " + " | ".join(spreads) + " |")
    return "\n".join(lines)


def medians(labels, groups):
    """A markdown table with a row for each group of runs, medians and spreads; the keys of groups
    are tuples that stand below the labels.
    """
    columns = list(next(iter(groups.values()))[0])
    lines = ["| " + " | ".join([*labels, *columns]) + " |"]
    lines.append("|" + "---|" * len(labels) + "---:|" * len(columns))
    for key, rows in groups.items():
        cells = [median_and_spread([row[name] for row in rows]) for name in columns]
        lines.append("| " + " | ".join([*key, *cells]) + " |")
    return "\n".join(lines)


def verdict(what, value, goal, at_most=True):
    """One line that says whether a goal is met."""
    if value is None:
        return f"- {what}: unknown here (goal {'≤' if at_most else '≥'} {number(goal)})"
    met = value <= goal if at_most else value >= goal
    sign = "≤" if at_most else "≥"
    word = "met" if met else "**not met**"
    return f"- {what}: {number(value)} (goal {sign} {number(goal)}): {word}"


def machine(folder):
    """What it was measured on, in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    disk = Device(folder).name or "no block device"
    return (
        f"{cpu_name()}, {os.cpu_count()} cores, {memory} MiB memory, {file_system(folder)} on "
        f"{disk}, Linux {platform.release()}"
    )


def cpu_name():
    """As the kernel names it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def file_system(folder):
    """The type of the file system that holds a folder."""
    folder = Path(folder).resolve()
    best = ("", "unknown file system")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if folder.is_relative_to(point) and len(point) > len(best[0]):
            best = (point, kind)
    return best[1]


def commit():
    """The commit that was measured, and whether the tree had changes."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=BENCH, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    head = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return head + (" with changes" if git("status", "--porcelain") else "")


def page(title, command, folder, sections, today=None):
    """A whole record."""
    today = today or datetime.date.today().isoformat()
    head = [
        f"# {title}",
        "",
        f"- date: {today}",
        f"- machine: {machine(folder)}",
        f"- commit: {commit()}",
        f"- command: `{command}`",
        "",
    ]
    texts = [
        f"![{section.title}]({PICTURE_FILE})" if isinstance(section, Picture) else section
        for section in sections
    ]
    return "\n".join(head) + "\n" + "\n\n".join(texts) + "\n"


def save(text, name, folder, today=None, picture=None, lines=None):
    """Writes a record that replaces no earlier one, and beside it its picture and the lines of JSON
    that it was made of; returns its path.
    """
    today = today or datetime.date.today().isoformat()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for count in range(1, 1000):
        suffix = "" if count == 1 else f"-{count}"
        path = folder / f"{today}-{name}{suffix}.md"
        try:
            with path.open("x") as file:
                file.write(text.replace(PICTURE_FILE, path.with_suffix(".svg").name))
            if picture:
                path.with_suffix(".svg").write_text(picture.svg())
            if lines:
                path.with_suffix(".jsonl").write_text(lines)
            return path
        except FileExistsError:
            continue
    raise OSError(f"{folder} holds a thousand records of {name} today; tidy it up")

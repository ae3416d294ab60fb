"""From the lines of an experiment to its chart and its record. Nothing here runs."""

import front
import plan
from cells import Cells
from conditions import of_experiment
from experiment import BySize, ByWorkload, Plane, Sweep
from harness.chart import Curves, Panel, Picture
from harness.record import PICTURE_FILE
from results import shown

# With more sizes of values than these, curves are drawn instead of bars.
MOST_BARS = 2


def index_text(head, command, pages):
    """A page with the charts of several experiments; `pages` has each with the path of its record,
    and `head` is that of the first.
    """
    lines = top("Where a value belongs", head, command)
    parts = [
        "Loads, updates, reads, scans and space by where values live, the choice that is the "
        "default, and what bounds of space and holes cost and save. Each chart has a page of its "
        "own, with tables and conditions.",
    ]
    for experiment, path in pages:
        parts.append(f"## [{experiment.title}]({path.name})")
        parts.append(f"![{experiment.title}]({path.with_suffix('.svg').name})")
    return "\n".join(lines) + "\n" + "\n\n".join(parts) + "\n"


def top(title, head, command):
    """What a page begins with."""
    facts = [f"- {name}: {head[name]}" for name in ("date", "machine", "commit")]
    return [f"# {title}", "", *facts, f"- command: `{command}`", ""]


def record_text(experiment, head, lines):
    """A record as `bench/record` has them, and its picture."""
    found = Cells(lines)
    picture = Picture(experiment.title, [
        panel for figure in experiment.figures for panel in panels(experiment, figure, found)
    ])
    begin = top(experiment.title, head, head["command"])
    sections = [
        experiment.about, of_experiment(head), how_to_read(experiment, found),
        f"![{experiment.title}]({PICTURE_FILE})",
    ]
    for figure in experiment.figures:
        sections += tables(experiment, figure, found)
    if failed := failures(found):
        sections += ["Without a figure, with all that would follow in the same store:", failed]
    return "\n".join(begin) + "\n" + "\n\n".join(sections) + "\n", picture


def how_to_read(experiment, found):
    """What stands in the cells of tables."""
    judge = judge_of(experiment, found)
    text = "In the tables the best of a row is bold"
    return text + (f", and multiples of {judge.title} are in brackets." if judge else ".")


def judge_of(experiment, found):
    """The peer that figures are multiples of; None if it did not run."""
    return next((one for one in found.engines() if one.name == experiment.judge), None)


def size_name(size):
    """`64 B`, `4 KiB`."""
    return f"{size} B" if size < 1 << 10 or size % (1 << 10) else f"{size >> 10} KiB"


def titled(figure):
    """What a table is headed by."""
    follows = f" ({figure.follows})" if figure.follows else ""
    first = figure.title[0].upper() + figure.title[1:]
    return first, follows


def panels(experiment, figure, found):
    """The plots of a figure."""
    if isinstance(figure, Plane):
        return [plane_panel(figure, found)]
    if isinstance(figure, Sweep):
        return [
            sweep_panel(figure, found, size, load)
            for size in found.sizes() for load in figure.loads
        ]
    if isinstance(figure, ByWorkload):
        return [workload_panel(experiment, figure, found, size) for size in found.sizes()]
    sizes = found.sizes()
    values = {
        one.title: [found.median(size, one, figure.measure) for size in sizes]
        for one in found.engines()
    }
    labels = [size_name(size) for size in sizes]
    if len(sizes) <= MOST_BARS:
        return [Panel(figure.title, figure.unit, labels, values)]
    series = {name: list(zip(sizes, known, labels)) for name, known in values.items()}
    ticks = dict(zip(sizes, labels))
    return [Curves(figure.title, "size of values", figure.unit, series, ticks, figure.log)]


def workload_panel(experiment, figure, found, size):
    """Bars of one size of values."""
    judge = judge_of(experiment, found) if figure.relative else None
    rows = [row(found, size, measure) for _, measure in figure.rows]
    series = {
        one.title: [multiples_of(judge, values)[one.name] for values in rows]
        for one in found.engines()
    }
    unit = f"times {judge.title}" if judge else figure.unit
    title = f"{figure.title}, values of {size_name(size)}"
    return Panel(title, unit, [label for label, _ in figure.rows], series)


def plane_panel(figure, found):
    """A point for each size, joined by engine."""
    series = {
        one.title: [
            (found.median(size, one, figure.x), found.median(size, one, figure.y), size_name(size))
            for size in found.sizes()
        ]
        for one in found.engines()
    }
    return Curves(figure.title, figure.x_unit, figure.y_unit, series, named=True)


def sweep_panel(figure, found, size, load):
    """A point for each setting, joined by engine, of one load at one size of values."""
    name, settings = load
    series = {
        one.title: [
            (*(found.median(size, one, of(step)) for of in (figure.x, figure.y)), label)
            for label, step in settings
        ]
        for one in found.engines()
    }
    title = f"{figure.title}, {name}, values of {size_name(size)}"
    return Curves(title, figure.x_unit, figure.y_unit, series, log=False, named=True)


def row(found, size, measure):
    """The values of all engines by name; None where there is none."""
    return {one.name: found.median(size, one, measure) for one in found.engines()}


def multiples_of(judge, values):
    """The values as multiples of the judge's; as they are without one."""
    if judge is None:
        return values
    unit = values[judge.name]
    return {
        name: value / unit if value is not None and unit else None
        for name, value in values.items()
    }


def tables(experiment, figure, found):
    """The tables of a figure in Markdown, each behind its heading."""
    if isinstance(figure, Plane):
        return plane_table(experiment, figure, found)
    if isinstance(figure, Sweep):
        return sweep_tables(experiment, figure, found)
    first, follows = titled(figure)
    if isinstance(figure, BySize):
        rows = [
            (size_name(size), size, row(found, size, figure.measure)) for size in found.sizes()
        ]
        table = engine_table(experiment, "value", rows, found, figure.least)
        return [f"{first}, {figure.unit}{follows}:", table]
    parts = []
    for size in found.sizes():
        rows = [(label, size, row(found, size, measure)) for label, measure in figure.rows]
        parts.append(f"{first}, values of {size_name(size)}, {figure.unit}{follows}:")
        parts.append(engine_table(experiment, "workload", rows, found, figure.least))
    return parts


def sweep_tables(experiment, figure, found):
    """A table for each measure and size, with a row for each load and setting."""
    parts = []
    for size in found.sizes():
        for title, unit, of, least in figure.tables:
            rows = [
                (f"{setting}, {name}", size, row(found, size, of(step)))
                for name, settings in figure.loads for setting, step in settings
            ]
            parts.append(f"{title}, values of {size_name(size)}, {unit}:")
            parts.append(engine_table(experiment, figure.setting, rows, found, least))
    return parts


def engine_table(experiment, what, rows, found, least):
    """One measure of all engines, the best in bold, with multiples of the judge's."""
    judge = judge_of(experiment, found)
    lines = header(what, found.engines())
    for label, size, values in rows:
        known = [value for value in values.values() if value is not None]
        best = (min if least else max)(known, default=None)
        times = multiples_of(judge, values)
        texts = []
        for one in found.engines():
            value = values[one.name]
            text = found.missing(size, one) if value is None else shown(value)
            text = f"**{text}**" if value is not None and value == best else text
            if judge and one != judge and times[one.name] is not None:
                text += f" ({multiple(times[one.name])})"
            texts.append(text)
        lines.append(f"| {label} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def plane_table(experiment, figure, found):
    """Both measures as multiples of the judge's; nothing without one."""
    judge = judge_of(experiment, found)
    if judge is None:
        return []
    lines = header("value", found.engines())
    for size in found.sizes():
        measures = figure.x, figure.y
        across, upward = (multiples_of(judge, row(found, size, it)) for it in measures)
        texts = [
            told_point(across[one.name], upward[one.name]) or found.missing(size, one)
            for one in found.engines()
        ]
        lines.append(f"| {size_name(size)} | " + " | ".join(texts) + " |")
    head = f"{titled(figure)[0]}, as multiples of {judge.title}: {figure.x_unit} · {figure.y_unit}:"
    parts = [head, "\n".join(lines)]
    if figure.has_front:
        parts += ["Who is ahead of whom, with both measures as multiples of the other's:",
                  front.told(figure, found, size_name)]
    return parts


def told_point(across, upward):
    """Both multiples; None if both are unknown."""
    if across is None and upward is None:
        return None
    return f"{multiple(across)} · {multiple(upward)}"


def header(what, engines):
    """The first two lines of a table with a column for each engine."""
    titles = " | ".join(one.title for one in engines)
    return [f"| {what} | {titles} |", "|---" + "|---:" * len(engines) + "|"]


def multiple(times):
    """`2.35`, `23.5`; a dash if it is unknown."""
    if times is None:
        return "–"
    return f"{times:,.0f}" if times >= 100 else f"{times:.3g}"


def failures(found):
    """What ended without a figure, as a list."""
    titles = {one.name: one.title for one in plan.ENGINES}
    return "\n".join(
        f"- {titles[line['engine']]}, {size_name(line['value_size'])}, {line['step']}: "
        f"{line['failed']}"
        for line in found.failures
    )

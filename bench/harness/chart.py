"""Charts as SVG files: panels of grouped bars that begin at zero, and of curves.

Colours follow the reader's dark or light mode, and each bar or point has its value as a tooltip.
"""

import math
from dataclasses import dataclass
from html import escape

WIDTH = 860
MARGIN = 16
LEFT = 64
TITLE = 52
# Of a row of names.
LEGEND = 18
PANEL = 176
PLOT = 116
HEAD = 34
# Of curves: what is higher than bars, and what is left at both ends of an axis.
CURVES = 292
CURVES_PLOT = 216
INSET = 18
COLUMNS = 2
TICKS = 4
# Of an axis by powers: with more, only the powers themselves are told.
MOST_TICKS = 9
MOST_SERIES = 7
# Parts of a power of ten whose quarters are round, too.
ROUND = (0.12, 0.16, 0.2, 0.24, 0.32, 0.4, 0.6, 0.8, 1)

# Colours by series, on a light page and on a dark one, that differ for colour-blind readers too.
# No hue was left for the last, which is far from the others in lightness.
LIGHT = ["#3f6fb5", "#d98324", "#2a9d5c", "#b0446a", "#7a6bb0", "#8a8a3c", "#30343a"]
DARK = ["#6f9fe0", "#f0a24e", "#4cc47f", "#e07a9c", "#a99be0", "#bcbc62", "#eceef0"]


@dataclass
class Panel:
    """One plot: for each label a group of bars, one of each series; None draws no bar."""

    title: str
    unit: str
    labels: list
    series: dict

    HEIGHT = PANEL

    def draw(self, names, x, y, width):
        """Its parts at a place."""
        return plot(self, names, x, y, width)


@dataclass
class Curves:
    """One plot: for each series points (x, y, label) joined by lines. The axis of x is logarithmic,
    with the ticks {x: label} if there are any; that of y is, too, or begins at zero. A point whose
    x or y is None, or not above zero, is left out, and so are the lines to it.
    """

    title: str
    x_unit: str
    y_unit: str
    series: dict
    ticks: dict | None = None
    log: bool = True
    # Whether the first and the last point of a series have their labels beside them.
    named: bool = False

    HEIGHT = CURVES

    def draw(self, names, x, y, width):
        """Its parts at a place."""
        return curves(self, names, x, y, width)


@dataclass
class Picture:
    """A chart of several panels, which stands in a record where it is listed."""

    title: str
    panels: list

    def svg(self):
        """The file's text."""
        rows = -(-len(self.panels) // COLUMNS)
        high = max((panel.HEIGHT for panel in self.panels), default=0)
        top = TITLE + (max((row for _, row in places(self.names())), default=0)) * LEGEND
        height = top + rows * high + MARGIN
        title = escape(self.title)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">',
            f"<title>{title}</title>",
            style(),
            f'<rect class="page" width="{WIDTH}" height="{height}"/>',
            text(MARGIN, 24, self.title, "title"),
            *legend(self.names()),
        ]
        width = (WIDTH - MARGIN) // COLUMNS
        for at, panel in enumerate(self.panels):
            x = MARGIN + at % COLUMNS * width
            y = top + at // COLUMNS * high
            parts += panel.draw(self.names(), x, y, width - MARGIN)
        return "\n".join(parts) + "\n</svg>\n"

    def names(self):
        """All series, each once, in the order in which panels have them."""
        names = list(dict.fromkeys(name for panel in self.panels for name in panel.series))
        if len(names) > MOST_SERIES:
            raise ValueError(f"{len(names)} series, there are colours for {MOST_SERIES}")
        return names


def style():
    """The colours."""
    def colours(of):
        fills = "".join(f".s{at}{{fill:{colour}}}" for at, colour in enumerate(of))
        return fills + "".join(f".l{at}{{stroke:{colour}}}" for at, colour in enumerate(of))

    return (
        "<style>\ntext{fill:#222;font-family:sans-serif;font-size:11px}\n"
        ".page{fill:#fff}.title{font-size:15px}.head{font-size:12px}.dim{fill:#666}\n"
        "path{fill:none;stroke-width:1.6}.small{font-size:9px}\n"
        f".axis{{stroke:#d5d9dd}}{colours(LIGHT)}\n"
        "@media (prefers-color-scheme:dark){\n"
        ".page{fill:#14171a}text{fill:#e4e6e8}.dim{fill:#9aa0a6}\n"
        f".axis{{stroke:#363c42}}{colours(DARK)}}}\n</style>"
    )


def text(x, y, words, kind="", anchor="start"):
    """One line of text."""
    kind = f' class="{kind}"' if kind else ""
    return f'<text{kind} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def legend(names):
    """A coloured box for each series."""
    parts = []
    for at, (name, (x, row)) in enumerate(zip(names, places(names))):
        y = 34 + row * LEGEND
        parts.append(f'<rect class="s{at}" x="{x}" y="{y}" width="10" height="10"/>')
        parts.append(text(x + 15, y + 9, name))
    return parts


def places(names):
    """Where the names of a legend are: x and row, in as few rows as hold them."""
    found, x, row = [], MARGIN, 0
    for name in names:
        if x > MARGIN and x + 15 + 6 * len(name) > WIDTH - MARGIN:
            x, row = MARGIN, row + 1
        found.append((x, row))
        x += 40 + 6 * len(name)
    return found


def plot(panel, names, x, y, width):
    """One panel at a place."""
    known = [value for of in panel.series.values() for value in of if value is not None]
    top = ceiling(max(known, default=0))
    base = y + HEAD + PLOT
    parts = [text(x, y + 18, f"{panel.title}, {panel.unit}" if panel.unit else panel.title, "head")]
    for tick in range(TICKS + 1):
        at = base - PLOT * tick / TICKS
        parts.append(
            f'<line class="axis" x1="{x + LEFT}" y1="{at:g}" x2="{x + width}" y2="{at:g}"/>'
        )
        parts.append(text(x + LEFT - 6, at + 4, short(top * tick / TICKS), "dim", "end"))
    group = (width - LEFT) / max(1, len(panel.labels))
    bar = group * 0.8 / max(1, len(panel.series))
    for place, label in enumerate(panel.labels):
        left = x + LEFT + group * (place + 0.1)
        parts.append(text(left + group * 0.4, base + 15, label, "", "middle"))
        for nth, (name, values) in enumerate(panel.series.items()):
            if values[place] is not None:
                size = PLOT * values[place] / top
                about = f"{name}, {label}: {amount(values[place])} {panel.unit}".rstrip()
                parts.append(
                    f'<rect class="s{names.index(name)}" x="{left + bar * nth:.1f}" '
                    f'y="{base - size:.1f}" width="{bar * 0.9:.1f}" height="{size:.1f}">'
                    f"<title>{escape(about)}</title></rect>"
                )
    return parts


def curves(panel, names, x, y, width):
    """One panel of curves at a place."""
    points = [point for of in panel.series.values() for point in of if drawn(point)]
    left, base = x + LEFT, y + HEAD + CURVES_PLOT
    across = Axis.of(panel.ticks or {at: short(at) for at in log_ticks(*span(points, 0))},
                     left + INSET, x + width - INSET)
    if panel.log:
        upward = Axis.of({at: short(at) for at in log_ticks(*span(points, 1))}, base, y + HEAD)
    else:
        upward = Axis.linear(max((point[1] for point in points), default=0), base, y + HEAD)
    parts = [text(x, y + 18, f"{panel.title}, {panel.y_unit}", "head")]
    for value, label in upward.ticks.items():
        at = upward.place(value)
        parts.append(f'<line class="axis" x1="{left}" y1="{at:g}" x2="{x + width}" y2="{at:g}"/>')
        parts.append(text(left - 6, at + 4, label, "dim", "end"))
    for value, label in across.ticks.items():
        parts.append(text(across.place(value), base + 15, label, "", "middle"))
    parts.append(text((left + x + width) / 2, base + 30, panel.x_unit, "dim", "middle"))
    for name, of in panel.series.items():
        parts += curve(panel, name, names.index(name), of, across, upward)
    return parts


def curve(panel, name, colour, points, across, upward):
    """The line of one series, with a circle for each point."""
    parts, path, joined = [], "", False
    for point in points:
        if drawn(point):
            at = f"{across.place(point[0]):.1f} {upward.place(point[1]):.1f}"
            path += f"{'L' if joined else 'M'}{at}"
        joined = drawn(point)
    parts.append(f'<path class="l{colour}" d="{path}"/>')
    known = [point for point in points if drawn(point)]
    for value, high, label in known:
        x, y = across.place(value), upward.place(high)
        about = f"{name}, {label}: {amount(high)} {panel.y_unit}".rstrip()
        if not panel.ticks:
            about += f" at {amount(value)} {panel.x_unit}"
        parts.append(f'<circle class="s{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.2">'
                     f"<title>{escape(about)}</title></circle>")
        if panel.named and label in (known[0][2], known[-1][2]):
            parts.append(text(x + 5, y - 5, label, "small"))
    return parts


@dataclass
class Axis:
    """From values to places: logarithmic, or linear from zero."""

    ticks: dict
    low: float
    high: float
    begin: float
    end: float
    log: bool = True

    @classmethod
    def of(cls, ticks, begin, end):
        """A logarithmic axis from the least tick to the greatest."""
        return cls(ticks, min(ticks), max(ticks), begin, end)

    @classmethod
    def linear(cls, greatest, begin, end):
        """An axis from zero to a round number."""
        top = ceiling(greatest)
        ticks = {top * tick / TICKS: short(top * tick / TICKS) for tick in range(TICKS + 1)}
        return cls(ticks, 0, top, begin, end, log=False)

    def place(self, value):
        """Where a value is."""
        scale = math.log if self.log else float
        if self.high == self.low:
            share = 0.5
        else:
            share = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return self.begin + share * (self.end - self.begin)


def drawn(point):
    """True if a point has a place."""
    return all(value is not None and value > 0 for value in point[:2])


def span(points, at):
    """The least and the greatest of a coordinate; (1, 1) without points."""
    values = [point[at] for point in points] or [1]
    return min(values), max(values)


def log_ticks(low, high):
    """Round numbers that enclose both: 1, 2, 5 of each power of ten, or powers alone where those
    would be many.
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    for parts in ((1, 2, 5), (1,)):
        every = [part * 10.0 ** power for power in powers for part in parts]
        first = max(at for at in every if at <= low)
        last = min(at for at in every if at >= high)
        within = [at for at in every if first <= at <= last]
        if len(within) <= MOST_TICKS:
            break
    return within


def ceiling(value):
    """The least round number that is not below a value, above 0."""
    if value <= 0:
        return 1
    step = 10.0 ** len(str(int(value))) if value >= 1 else 1.0
    while step / 10 >= value:
        step /= 10
    return next(step * part for part in ROUND if step * part >= value)


def amount(value):
    """A tooltip's number: three digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def short(value):
    """A tick: `120k`, `0.25`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.3g}"

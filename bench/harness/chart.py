"""Charts as SVG files: panels of grouped bars that begin at zero.

Colours follow the reader's dark or light mode, and each bar has its value as a tooltip.
"""

from dataclasses import dataclass
from html import escape

WIDTH = 860
MARGIN = 16
LEFT = 64
TITLE = 52
PANEL = 176
PLOT = 116
HEAD = 34
COLUMNS = 2
TICKS = 4
MOST_SERIES = 6
# Parts of a power of ten whose quarters are round, too.
ROUND = (0.12, 0.16, 0.2, 0.24, 0.32, 0.4, 0.6, 0.8, 1)

# Colours by series, on a light page and on a dark one, that differ for colour-blind readers too.
LIGHT = ["#3f6fb5", "#d98324", "#2a9d5c", "#b0446a", "#7a6bb0", "#8a8a3c"]
DARK = ["#6f9fe0", "#f0a24e", "#4cc47f", "#e07a9c", "#a99be0", "#bcbc62"]


@dataclass
class Panel:
    """One plot: for each label a group of bars, one of each series; None draws no bar."""

    title: str
    unit: str
    labels: list
    series: dict


@dataclass
class Picture:
    """A chart of several panels, which stands in a record where it is listed."""

    title: str
    panels: list

    def svg(self):
        """The file's text."""
        rows = -(-len(self.panels) // COLUMNS)
        height = TITLE + rows * PANEL + MARGIN
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
            y = TITLE + at // COLUMNS * PANEL
            parts += plot(panel, self.names(), x, y, width - MARGIN)
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
        return "".join(f".s{at}{{fill:{colour}}}" for at, colour in enumerate(of))

    return (
        "<style>\ntext{fill:#222;font-family:sans-serif;font-size:11px}\n"
        ".page{fill:#fff}.title{font-size:15px}.head{font-size:12px}.dim{fill:#666}\n"
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
    parts, x = [], MARGIN
    for at, name in enumerate(names):
        parts.append(f'<rect class="s{at}" x="{x}" y="34" width="10" height="10"/>')
        parts.append(text(x + 15, 43, name))
        x += 40 + 6 * len(name)
    return parts


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

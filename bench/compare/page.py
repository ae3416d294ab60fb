"""One HTML page of a comparison that needs no other file: ratios as bars, and every table."""

import math
from html import escape

import conditions
import results as figures

STYLE = """
:root { color-scheme: light dark; --good: #2a7f4f; --bad: #b3402e; --line: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .6em 0 1.6em; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .7em; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child, .text { text-align: left; }
.best { font-weight: 700; }
.bar { position: relative; width: 16em; height: 1em; }
.bar i { position: absolute; top: 0; bottom: 0; }
.bar b { position: absolute; top: -.2em; bottom: -.2em; left: 50%; border-left: 1px solid; }
.good { background: var(--good); } .bad { background: var(--bad); }
.not { color: var(--bad); font-weight: 700; }
"""
# The ratio at which a bar ends.
WIDEST = 10


def bar(ratio):
    """From the middle, which is 1, to the right if ahead and to the left if behind."""
    share = max(-1.0, min(1.0, math.log(ratio) / math.log(WIDEST))) * 50
    left, kind = (50, "good") if share >= 0 else (50 + share, "bad")
    place = f"left:{left:.1f}%;width:{abs(share):.1f}%"
    return f'<div class="bar"><i class="{kind}" style="{place}"></i><b></b></div>'


def ratios(found):
    """The table of ratios."""
    names = ["value", "workload", "best mode", "op/s", "best peer", "op/s", "ratio", "", "goal"]
    lines = ["<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"]
    for row in figures.rows(found):
        mine = found.median(row.size, row.step, row.ours, figures.rate)
        theirs = found.median(row.size, row.step, row.peer, figures.rate)
        wanted = figures.goal_text(row).replace("**", "")
        kind = ' class="text not"' if row.met is False else ' class="text"'
        lines.append(
            f"<tr><td>{row.size}</td><td class=text>{escape(figures.TITLES[row.step])}</td>"
            f"<td class=text>{escape(row.ours.title)}</td><td>{figures.shown(mine)}</td>"
            f"<td class=text>{escape(row.peer.title)}</td><td>{figures.shown(theirs)}</td>"
            f"<td>{figures.shown(row.ratio)}</td><td>{bar(row.ratio)}</td>"
            f"<td{kind}>{escape(wanted)}</td></tr>"
        )
    return wide(lines)


def wide(lines):
    """A table that scrolls by itself if the window is narrow."""
    return '<div class="wide"><table>' + "".join(lines) + "</table></div>"


def engine_table(found, size, steps, measure, least):
    """One measure of all engines; None if there is nothing."""
    lines = []
    for step in steps or found.steps(size):
        row = figures.cells(found, size, step, measure)
        if row is None:
            continue
        best = (min if least else max)(value for _, value in row if value is not None)
        texts = [
            f"<td{' class=best' if value == best else ''}>{figures.shown(value)}</td>"
            for _, value in row
        ]
        lines.append(f"<tr><td>{escape(figures.TITLES[step])}</td>" + "".join(texts) + "</tr>")
    titles = "".join(f"<th>{escape(one.title)}</th>" for one in found.engines(size))
    return wide([f"<tr><th>workload</th>{titles}</tr>", *lines]) if lines else None


def html(head, lines):
    """The whole page."""
    found = figures.Results(lines)
    title = "CleaveDB side by side with its peers"
    facts = [("date", "date"), ("machine", "machine"), ("commit", "commit"), ("command", "command")]
    parts = [f"<h1>{title}</h1>", "<ul>"]
    parts += [f"<li>{name}: {escape(str(head[key]))}</li>" for name, key in facts]
    parts += ["</ul>", f"<p>{escape(conditions.of_comparison(head).replace('**', ''))}</p>"]
    parts += ["<h2>CleaveDB's best mode : best peer</h2>", ratios(found)]
    for size in found.sizes():
        parts.append(f"<h2>Values of {size} B</h2>")
        for name, steps, measure, least in figures.TABLES:
            table = engine_table(found, size, steps, measure, least)
            if table:
                parts += [f"<h3>{escape(name)}</h3>", table]
    if failed := figures.failures(found):
        parts += ["<h2>Without a figure</h2>", f"<pre>{escape(failed)}</pre>"]
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )

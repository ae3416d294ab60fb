"""Tests of the charts."""

import re
import sys
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import chart  # noqa: E402

NAMESPACE = "{http://www.w3.org/2000/svg}"


def bars(svg):
    """Tooltip and height of each bar."""
    found = {}
    for bar in ET.fromstring(svg).iter(f"{NAMESPACE}rect"):
        title = bar.find(f"{NAMESPACE}title")
        if title is not None:
            found[title.text] = float(bar.get("height"))
    return found


class Charts(unittest.TestCase):
    """What is drawn."""

    def test_bars_are_as_high_as_their_values(self):
        panel = chart.Panel("mean", "µs", ["U1", "U9"], {"a<b": [10, 40], "none": [20, None]})
        svg = chart.Picture("reads & writes", [panel, panel]).svg()
        found = bars(svg)
        self.assertEqual(set(found), {"a<b, U1: 10 µs", "a<b, U9: 40 µs", "none, U1: 20 µs"})
        self.assertAlmostEqual(found["a<b, U9: 40 µs"], 4 * found["a<b, U1: 10 µs"], delta=0.2)
        self.assertAlmostEqual(found["a<b, U9: 40 µs"], chart.PLOT, delta=0.1)
        self.assertIn("reads &amp; writes", svg)

    def test_a_page_has_colours_for_light_and_dark(self):
        svg = chart.Picture("x", [chart.Panel("y", "", ["1"], {"a": [1], "b": [2]})]).svg()
        light, dark = svg.split("prefers-color-scheme:dark")
        for part in (light, dark):
            self.assertEqual(len(set(re.findall(r"\.s\d\{fill:(#\w+)\}", part))), 6)
        self.assertIn('class="s1"', svg)

    def test_nothing_and_too_much(self):
        empty = chart.Picture("x", [chart.Panel("y", "s", ["1"], {"a": [None], "b": [0]})])
        self.assertEqual(bars(empty.svg()), {"b, 1: 0 s": 0.0})
        many = {str(number): [1] for number in range(7)}
        with self.assertRaises(ValueError):
            chart.Picture("x", [chart.Panel("y", "s", ["1"], many)]).svg()

    def test_axes_end_at_round_numbers(self):
        tops = [(0, 1), (0.03, 0.032), (1, 1), (7, 8), (8.1, 10), (101, 120), (950, 1e3)]
        for value, top in tops:
            self.assertAlmostEqual(chart.ceiling(value), top)
        self.assertEqual([chart.short(v) for v in (0, 0.25, 40, 2e5)], ["0", "0.25", "40", "200k"])


if __name__ == "__main__":
    unittest.main()

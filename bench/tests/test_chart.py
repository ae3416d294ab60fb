"""Tests of the charts."""

import re
import sys
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
sys.path.insert(0, str(BENCH / "compare"))

import plan  # noqa: E402: found by the lines above
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


def points(svg):
    """Tooltip and place of each point of curves."""
    found = {}
    for circle in ET.fromstring(svg).iter(f"{NAMESPACE}circle"):
        title = circle.find(f"{NAMESPACE}title").text
        found[title] = float(circle.get("cx")), float(circle.get("cy"))
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
            self.assertEqual(len(set(re.findall(r"\.s\d\{fill:(#\w+)\}", part))), 7)
        self.assertIn('class="s1"', svg)

    def test_nothing_and_too_much(self):
        empty = chart.Picture("x", [chart.Panel("y", "s", ["1"], {"a": [None], "b": [0]})])
        self.assertEqual(bars(empty.svg()), {"b, 1: 0 s": 0.0})
        many = {str(number): [1] for number in range(8)}
        with self.assertRaises(ValueError):
            chart.Picture("x", [chart.Panel("y", "s", ["1"], many)]).svg()

    def test_the_longest_names_of_seven_engines_fit_in_rows(self):
        titles = sorted((one.title for one in plan.ENGINES), key=len)[-chart.MOST_SERIES:]
        svg = chart.Picture("x", [chart.Panel("y", "s", ["1"], {it: [1] for it in titles})]).svg()
        words = [it for it in ET.fromstring(svg).iter(f"{NAMESPACE}text") if it.text in titles]
        self.assertEqual(len(words), chart.MOST_SERIES)
        for it in words:
            self.assertLess(float(it.get("x")) + 6 * len(it.text), chart.WIDTH, it.text)
        last = max(float(it.get("y")) for it in words)
        head = next(it for it in ET.fromstring(svg).iter(f"{NAMESPACE}text") if it.text == "y, s")
        self.assertLess(last + 12, float(head.get("y")), "the panels begin below")
        self.assertEqual({row for _, row in chart.places(["a" * 15] * 6)}, {0})

    def test_points_lie_where_their_values_are(self):
        series = {"a": [(64, 1, "64 B"), (1024, 10, "1 KiB"), (16384, 100, "16 KiB")]}
        ticks = {64: "64 B", 1024: "1 KiB", 16384: "16 KiB"}
        svg = chart.Picture("x", [chart.Curves("load", "value", "MB/s", series, ticks)]).svg()
        found = points(svg)
        self.assertEqual(list(found)[0], "a, 64 B: 1 MB/s")
        (x1, y1), (x2, y2), (x3, y3) = found.values()
        self.assertAlmostEqual(x2 - x1, x3 - x2, delta=0.2)
        self.assertAlmostEqual(y1 - y2, y2 - y3, delta=0.2)
        self.assertAlmostEqual(y1 - y3, chart.CURVES_PLOT, delta=0.2)
        for label in [*ticks.values(), "value", "load, MB/s", "100"]:
            self.assertIn(f">{label}</text>", svg)

    def test_a_linear_axis_of_curves_begins_at_zero(self):
        series = {"a": [(1, 1, "one"), (2, 2, "two")]}
        curves = chart.Curves("space", "value", "times", series, {1: "1", 2: "2"}, log=False)
        (_, one), (_, two) = points(chart.Picture("x", [curves]).svg()).values()
        # The axis ends at 2.
        self.assertAlmostEqual(one - two, chart.CURVES_PLOT / 2, delta=0.2)

    def test_a_point_that_is_unknown_parts_the_line(self):
        series = {"a": [(1, 5, "one"), (2, None, "two"), (3, 0, "three"), (4, 5, "four")]}
        svg = chart.Picture("x", [chart.Curves("y", "bytes", "scans", series, named=True)]).svg()
        titles = ["a, one: 5 scans at 1 bytes", "a, four: 5 scans at 4 bytes"]
        self.assertEqual(list(points(svg)), titles)
        path = next(ET.fromstring(svg).iter(f"{NAMESPACE}path")).get("d")
        self.assertEqual((path.count("M"), path.count("L")), (2, 0))
        self.assertIn(">four</text>", svg)
        empty = chart.Curves("y", "bytes", "scans", {"a": [(1, None, "one")]})
        self.assertEqual(points(chart.Picture("x", [empty]).svg()), {})

    def test_logarithmic_axes_enclose_their_values(self):
        self.assertEqual(chart.log_ticks(1.5, 8), [1, 2, 5, 10])
        self.assertEqual(chart.log_ticks(3, 2e5), [1, 10, 100, 1e3, 1e4, 1e5, 1e6])
        self.assertEqual(chart.log_ticks(1, 1), [1])

    def test_axes_end_at_round_numbers(self):
        tops = [(0, 1), (0.03, 0.032), (1, 1), (7, 8), (8.1, 10), (101, 120), (950, 1e3)]
        for value, top in tops:
            self.assertAlmostEqual(chart.ceiling(value), top)
        self.assertEqual([chart.short(v) for v in (0, 0.25, 40, 2e5)], ["0", "0.25", "40", "200k"])


if __name__ == "__main__":
    unittest.main()

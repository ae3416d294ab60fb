"""Tests of the papers' experiments, on a command that stands in for `cleave`."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent
sys.path.insert(0, str(BENCH))

from harness import hot, record  # noqa: E402


class Points(unittest.TestCase):
    """What is run."""

    def test_loads_are_those_of_the_paper(self):
        shares = {point.label: point.read_share for point in hot.UPDATES}
        self.assertAlmostEqual(shares["U1"], 0.9)
        self.assertAlmostEqual(shares["U9"], 0.1)
        for point in hot.TIMES:
            reads = point.factor * point.read_share
            self.assertAlmostEqual(reads, 1, msg="as many reads as keys")
            self.assertAlmostEqual(point.factor - reads, int(point.label))
        self.assertEqual([p.table_mib for p in hot.UPDATES], [64, 0] * 5, "sides alternate")

    def test_sizes_go_from_none_to_room_for_all_keys(self):
        sizes = [point.table_mib for point in hot.sizes(4_000_000)]
        self.assertEqual(sizes, [0, 15, 61, 245, 980])
        self.assertEqual(len({point.label for point in hot.sizes(1)}), 5)

    def test_medians_of_groups(self):
        groups = {("a", "b"): [{"x": 1.0}, {"x": 3.0}, {"x": 2.0}], ("a", "c"): [{"x": None}]}
        lines = record.medians(["", "side"], groups).splitlines()
        self.assertEqual(lines[0], "|  | side | x |")
        self.assertEqual(lines[2:], ["| a | b | 2 (1–3) |", "| a | c | – |"])


class Figures(unittest.TestCase):
    """Every figure from end to end."""

    def figure(self, name, *words):
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TEST_DIR")) as folder:
            command = [
                sys.executable, BENCH / "figures.py", name, "--dir", f"{folder}/db", "--cleave",
                HERE / "fake_cleave.py", "--out", f"{folder}/record", "--data", "64K",
                "--repeats", "1", "--memory", "256M", *words,
            ]
            environment = {**os.environ, "FAKE_CLEAVE_LOG": f"{folder}/log"}
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            log = Path(folder, "log").read_text()
            self.commands = [" ".join(json.loads(line)) for line in log.splitlines()]
            (page,) = Path(folder).glob("record/*.md")
            (chart,) = Path(folder).glob("record/*.svg")
            self.assertEqual(page.stem, chart.stem)
            self.assertFalse(list(Path(folder).glob("db/*")), "stores are removed")
            text = page.read_text()
            self.assertIn(f"]({chart.name})", text)
            return text, chart.read_text()

    def test_hot_reads(self):
        text, chart = self.figure("hot-reads", "--geometry", "paper")
        self.assertIn("--data 0M --geometry paper`", text)
        self.assertIn("| U5 | with | 10 | 50 |", text)
        self.assertIn("| U5 | without | 20 | 50 |", text)
        self.assertIn("U5: read mean µs, with over without: 0.500 (goal ≤ 0.350): **not", text)
        self.assertIn("without update table, U9: 20 µs", chart)

    def test_both_sides_separate_alike(self):
        """With the defaults, `auto` separated at write with an update table and at flush without,
        so that the two were compared. Separation is fixed in each geometry.
        """
        for geometry in hot.GEOMETRIES:
            fixed = {"separation", "threshold"} & set(geometry.options())
            self.assertTrue(fixed, f"{geometry.name} leaves the choice to the engine")
        text, _ = self.figure("hot-ycsb", "--geometry", "ours")
        self.assertEqual({"--separation at_flush" in words for words in self.commands}, {True})
        sides = {"--update-table-mb 0" in words for words in self.commands}
        self.assertEqual(sides, {True, False}, "with and without")
        self.assertIn("`separation` is `at_flush`, not `auto`", text)

    def test_hot_ycsb_without_writes(self):
        text, chart = self.figure("hot-ycsb", "--geometry", "ours")
        self.assertTrue(re.search(r"^\| c \| with \| 10 \| 50 \| – \| – \|", text, re.M), text)
        self.assertIn("the worst cell", text)
        self.assertNotIn("Geometry: paper", text)
        self.assertIn("ours: processor time, s", chart)

    def test_hot_sweep(self):
        text, chart = self.figure("hot-sweep")
        for title in ("Size of the update table, U9 (paper)", "update_times (ours)"):
            self.assertIn(title, text)
        self.assertIn("| no table | with |", text)
        self.assertIn("with update table, 0.5: ", chart)

    def test_gc_load(self):
        text, chart = self.figure("gc-load")
        self.assertIn("99 % garbage: rate kept while collecting: 0.750 (goal ≥ 0.650): met", text)
        self.assertIn("collecting, 75 %: ", chart)


if __name__ == "__main__":
    unittest.main()

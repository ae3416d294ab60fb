"""Tests of the comparison with peers, without an engine."""

import argparse
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
sys.path.insert(0, str(BENCH / "compare"))

import conditional  # noqa: E402: it is found by the line above

# A program that prints what its arguments ask for, as `cleave bench` and the peers do.
FAKE = """#!/usr/bin/env python3
import json, sys
print("no object")
for name in sys.argv[NAMES].split(","):
    rate = 10 if "--shared" in sys.argv else len(name)
    print(json.dumps({"workload": name, "ops_per_second": rate}))
print(json.dumps({"stats": {}}))
"""


def program(folder, name, names):
    """A fake program whose argument number `names` lists the workloads."""
    path = Path(folder) / name
    path.write_text(FAKE.replace("NAMES", str(names)))
    path.chmod(0o755)
    return path


class Comparison(unittest.TestCase):
    def given(self, folder):
        return argparse.Namespace(
            dir=Path(folder), num=50, value_size=100, threads=[1, 8], seconds=1, repeats=3
        )

    def test_every_engine_runs_every_workload_it_has(self):
        with tempfile.TemporaryDirectory() as folder:
            engines = [
                conditional.Cleave(program(folder, "cleave", 3)),
                conditional.Peer("rocksdb", program(folder, "rocksdb", 2)),
                conditional.Peer("badger", program(folder, "badger", 2)),
            ]
            rates = conditional.compare(engines, self.given(folder))
        self.assertEqual(len(rates), 2 * 7)
        self.assertEqual(rates[8, "cas"], dict.fromkeys(["cleavedb", "rocksdb", "badger"], [3] * 3))
        self.assertEqual(rates[1, "transactions-shared"]["cleavedb"], [10] * 3)
        text = conditional.table(rates, ["cleavedb", "rocksdb", "badger"])
        self.assertIn("| 1 | increment of counters | 9 (9–9) | 9 (9–9) | 9 (9–9) | 1 |", text)

    def test_a_run_that_fails_ends_the_comparison(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = program(folder, "rocksdb", 99)
            with self.assertRaisesRegex(SystemExit, "rocksdb .* failed"):
                peer = conditional.Peer("rocksdb", broken)
                peer.measure("store", ["load"], 1, 1, self.given(folder))


if __name__ == "__main__":
    unittest.main()

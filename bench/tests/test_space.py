"""Tests of the figures of space and value GC, on a command that stands in for `cleave`."""

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
FAKE = HERE / "fake_cleave.py"
sys.path.insert(0, str(BENCH))

import figures  # noqa: E402: found by the line above
from harness import cases, cleave, measure, space  # noqa: E402

MIB = 1 << 20


class Allocated(unittest.TestCase):
    """What a store takes on the disk."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TEST_DIR"))
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name).resolve()

    def test_blocks_count_not_lengths_and_each_file_once(self):
        (self.folder / "below").mkdir()
        (self.folder / "below/data").write_bytes(os.urandom(MIB))
        os.link(self.folder / "below/data", self.folder / "again")
        with (self.folder / "holes").open("wb") as file:
            file.truncate(64 * MIB)
        (self.folder / "link").symlink_to("holes")
        taken = space.allocated(self.folder)
        self.assertGreaterEqual(taken, MIB)
        self.assertLess(taken, 2 * MIB)
        self.assertEqual(space.allocated(self.folder / "nothing"), 0)

    def test_unlinked_files_count_while_somebody_holds_them(self):
        with (self.folder / "held").open("wb") as file:
            file.write(os.urandom(MIB))
            file.flush()
            (self.folder / "held").unlink()
            self.assertGreaterEqual(space.allocated(self.folder, os.getpid()), MIB)
            self.assertEqual(space.allocated(self.folder), 0)
            other = self.folder / "other"
            self.assertEqual(space.allocated(other, os.getpid()), 0, "of this store only")
        self.assertEqual(space.allocated(self.folder, os.getpid()), 0)

    def test_samples_tell_before_from_after_the_result(self):
        data, seen = self.folder / "data", self.folder / "seen"
        data.write_bytes(os.urandom(MIB))
        # Either side waits for the other: for the first look, and for one after the result.
        code = (
            "import os, time\n"
            "def wait(count):\n"
            f"    while not os.path.exists({str(seen)!r} + str(count)): time.sleep(0.01)\n"
            f"wait(0); os.truncate({str(data)!r}, 4096); print('done', flush=True); wait(1)\n"
        )
        sampler = space.Sampler(self.folder)

        def look(pid):
            sampler(pid)
            Path(f"{seen}{int(sampler.samples[-1].reported)}").touch()

        measure.run([sys.executable, "-c", code], self.folder, sample=look)
        self.assertGreaterEqual(sampler.peak(), MIB)
        self.assertLess(sampler.mean(), sampler.peak())
        late = sampler.since_report()
        self.assertEqual(late[0].seconds, 0)
        self.assertLess(late[-1].bytes, 64 << 10)
        self.assertFalse(sampler.samples[0].reported)
        self.assertEqual(sampler.seconds_until(64 << 10), 0)
        self.assertEqual(sampler.seconds_until(1), float("inf"), "it never came to that")
        self.assertLess(sampler.last(), 64 << 10)

    def test_without_samples_nothing_is_known(self):
        sampler = space.Sampler(self.folder / "nothing")
        self.assertEqual((sampler.peak(), sampler.mean(), sampler.since_report()), (None, None, []))
        self.assertEqual((sampler.seconds_until(1), sampler.last()), (None, None))


class Commands(unittest.TestCase):
    """What `cleave` is asked and what it says."""

    def test_a_distribution_and_a_multiple(self):
        case = cases.CASES[0]
        command = cleave.Cleave("c").overwrite("db", 7, case, 4.0, readers=1, no_gc=False)
        words = " ".join(command)
        self.assertIn("db overwrite --num 7 --value-size 1024 --distribution zipf --total 4", words)
        self.assertIn("--readers 1", words)
        self.assertNotIn("no-gc", words)

    def test_written_bytes_are_all_but_those_of_users(self):
        stats = {"user_bytes_written": 9, "a_bytes_written": 1, "x": [{"b_bytes_written": 2}]}
        self.assertEqual(cleave.written_bytes(stats), 3)
        moved = {"gc_bytes_moved": 4, "gc_relocation_bytes": 8, "gc_bytes_freed": 16}
        self.assertEqual(cleave.written_bytes(stats | moved), 15)
        self.assertIsNone(cleave.written_bytes({"user_bytes_written": 9}))

    def test_keys_make_the_data_size(self):
        self.assertEqual(cases.CASES[1].keys(41120), 10)
        self.assertEqual(cases.CASES[1].keys(1), 1)


class Figures(unittest.TestCase):
    """Every figure from end to end."""

    def figure(self, name, *words):
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TEST_DIR")) as folder:
            command = [
                sys.executable, BENCH / "figures.py", name, "--dir", f"{folder}/db", "--cleave",
                FAKE, "--out", f"{folder}/record", "--data", "1M", "--total", "2", "--idle", "1",
                "--repeats", "2", "--memory", "256M", *words,
            ]
            environment = {**os.environ, "FAKE_CLEAVE_LOG": f"{folder}/log"}
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            log = Path(folder, "log").read_text()
            self.commands = [json.loads(line) for line in log.splitlines()]
            records = [path.read_text() for path in Path(folder).glob("record/*.md")]
            self.assertEqual(len(records), 1)
            self.assertFalse(list(Path(folder).glob("db/gc*")), "stores are removed")
            return records[0]

    def test_space(self):
        text = self.figure("space", "--case", "1k-zipf", "--case", "4k-uniform")
        # One file of the data itself, nothing else.
        found = re.search(r"1k-zipf: space at any sample of all runs: 1(\.0\d+)? \(goal", text)
        self.assertTrue(found, text)
        self.assertIn("4k-uniform: device bytes per user byte", text)
        self.assertNotIn("1k-uniform", text)
        self.assertIn("--data 1M --total 2 --idle 1 --case 1k-zipf --case 4k-uniform", text)
        engine = [line for line in text.splitlines() if line.startswith("| **median**")][0]
        self.assertIn("| 3 (3–3) |", engine)

    def test_space_drop(self):
        text = self.figure("space-drop", "--case", "1k-zipf")
        self.assertIn("left after idling, share of the peak", text)

    def test_space_expiry(self):
        text = self.figure("space-expiry", "--case", "1k-zipf")
        for separation in ["at_write", "off"]:
            line = f"{separation}: left after idling, share of the peak: 0\\.00\\d+ .*: met"
            self.assertRegex(text, line)

    def test_gc_cost(self):
        text = self.figure("gc-cost", "--case", "4k-zipf")
        self.assertIn("4k-zipf: rate of overwrites kept: 1 (goal ≥ 0.750): met", text)
        self.assertIn("4k-zipf: p99 of reads, with over without: 1 (goal ≤ 1.300): met", text)

    def test_bounds_are_those_of_every_store_of_the_figure(self):
        """The record of `gc-cost` named bounds in its command that no store had: only `space` told
        the program. Each figure that takes them has them in all of its stores now.
        """
        for name in figures.BOUNDED:
            with self.subTest(name):
                text = self.figure(
                    name, "--case", "1k-zipf", "--ceiling", "1.5", "--settled", "1.1",
                    "--repeats", "1",
                )
                self.assertIn("--ceiling 1.5 --settled 1.1 --case 1k-zipf`", text)
                self.assertIn("Ceiling 1.5, settled bound 1.1.", text)
                stores = [words for words in self.commands if words[0] == "bench"]
                self.assertTrue(stores)
                for words in stores:
                    self.assertIn(
                        "--max-space-amplification 1.5 --settled-space-amplification 1.1",
                        " ".join(words),
                    )

    def test_bounds_are_refused_where_they_mean_nothing(self):
        for name in set(figures.FIGURES) - set(figures.BOUNDED):
            for option in ["--ceiling", "--settled"]:
                command = [sys.executable, BENCH / "figures.py", name, "--dir", "x", option, "1.5"]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, name)
                self.assertIn(f"--ceiling and --settled mean nothing to {name}", done.stderr)

    def test_reorganize(self):
        text = self.figure("reorganize")
        self.assertIn("1024 B: scan rate of the store loaded in order, kept: 1 (goal", text)
        self.assertIn("4096 B: ", text)


if __name__ == "__main__":
    unittest.main()

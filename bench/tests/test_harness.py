"""Tests of the measuring harness, without an engine: python3 -m unittest discover -s bench/tests"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent
FAKE = HERE / "fake_cleave.py"
sys.path.insert(0, str(BENCH))

from harness import cgroup, cleave, device, figures, measure, record, seqio  # noqa: E402

MIB = 1 << 20


class Parsing(unittest.TestCase):
    """What the kernel and the command print."""

    def test_device_counters(self):
        text = "10 1 200 4 50 6 700 8 0 9 10 11 12 13 14 15 16\n"
        self.assertEqual(
            device.parse_stat(text),
            {"read_ios": 10, "read_bytes": 200 * 512, "write_ios": 50, "write_bytes": 700 * 512},
        )

    def test_reads_of_a_group_in_both_versions(self):
        text = "254:0 Read 7\n254:0 Write 9\n253:0 Read 2\nTotal 18\n"
        self.assertEqual(cgroup.parse_blkio(text), 9)
        text = "254:0 rbytes=4096 wbytes=1 rios=3 wios=9\n253:0 rbytes=4 rios=2\n"
        self.assertEqual(cgroup.parse_io_stat(text), (5, 4100))

    def test_bytes_written_and_not_truncated_away(self):
        counters = {"write_bytes": 10, "cancelled_write_bytes": 4}
        self.assertEqual(measure.written(counters), 6)
        self.assertIsNone(measure.written({}))

    def test_numbers_are_found_anywhere_in_the_statistics(self):
        stats = {"a": {"b": [{"c": 1}, {"cache_bytes": 7}]}, "cache": "x"}
        self.assertEqual(cleave.find_number(stats, "cache_bytes"), 7)
        self.assertIsNone(cleave.find_number(stats, "cache"))

    def test_flags(self):
        command = cleave.Cleave("c").bench("db", "readseq", value_size=3, no_prefetch=True, x=None)
        words = ["c", "bench", "db", "readseq", "--value-size", "3", "--no-prefetch", "--json"]
        self.assertEqual(command, words)


class Records(unittest.TestCase):
    """Tables and files."""

    def test_a_table_ends_with_medians_and_spreads(self):
        rows = [{"a": 3.0, "b": 0.5}, {"a": 1.0, "b": None}, {"a": 2.0, "b": 0.25}]
        lines = record.table(["a", "b"], rows).splitlines()
        self.assertEqual(lines[2], "| 1 | 3 | 0.500 |")
        self.assertEqual(lines[3], "| 2 | 1 | – |")
        self.assertEqual(lines[-1], "| **median** | 2 (1–3) | – |")

    def test_verdicts_tell_met_from_not_met(self):
        self.assertIn(": met", record.verdict("x", 0.5, 0.5, at_most=False))
        self.assertIn("not met", record.verdict("x", 0.49, 0.5, at_most=False))
        self.assertIn("not met", record.verdict("x", 1.3, 1.2))
        self.assertIn("unknown", record.verdict("x", None, 1.2))

    def test_a_record_replaces_no_other(self):
        with tempfile.TemporaryDirectory() as folder:
            first = record.save("1", "fill", folder, "2025-01-02")
            second = record.save("2", "fill", folder, "2025-01-02")
            self.assertEqual(first.name, "2025-01-02-fill.md")
            self.assertEqual(second.name, "2025-01-02-fill-2.md")
            self.assertEqual(first.read_text(), "1")


class Measuring(unittest.TestCase):
    """Real commands."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TEST_DIR"))
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def test_sequential_writing_and_reading(self):
        path = self.folder / "f"
        self.assertEqual(seqio.write(path, 3 * MIB + 5)["bytes"], 3 * MIB + 5)
        self.assertEqual(path.stat().st_size, 3 * MIB + 5)
        self.assertEqual(seqio.read(path)["bytes"], 3 * MIB + 5)

    def test_memory_and_output_of_a_command(self):
        code = "x = b'y' * (64 << 20); print(len(x)); import sys; sys.exit(3)"
        result = measure.run([sys.executable, "-c", code], self.folder)
        self.assertEqual((result.exit_code, result.stdout), (3, f"{64 * MIB}\n"))
        self.assertGreater(result.peak_rss_bytes, 64 * MIB)
        self.assertLess(result.peak_rss_bytes, 160 * MIB)

    def test_a_command_is_killed_on_condition(self):
        path = self.folder / "grows"
        code = f"f = open({str(path)!r}, 'wb', 0)\nwhile True: f.write(b'x' * 4096)"
        full = lambda: path.exists() and path.stat().st_size > MIB  # noqa: E731
        result = measure.run([sys.executable, "-c", code], self.folder, kill_when=full)
        self.assertEqual(result.exit_code, -9)

    def test_a_group_limits_memory_or_says_why_not(self):
        result = measure.run([sys.executable, "-c", ""], self.folder, memory_bytes=64 * MIB)
        self.assertEqual(result.exit_code, 0)
        if result.memory_limit_missing is None:
            self.assertLessEqual(result.group_peak_bytes, 64 * MIB)
            code = "x = b'y' * (256 << 20)"
            result = measure.run([sys.executable, "-c", code], self.folder, memory_bytes=64 * MIB)
            self.assertEqual(result.exit_code, -9)
        else:
            self.assertIn("no control group", result.memory_limit_missing)

    def test_a_group_that_cannot_be_made_is_reported(self):
        with cgroup.Group(1 << 20, "254:0", self.folder) as group:
            self.assertIn("no memory limit", group.why_not)
            self.assertIsNone(group.peak_bytes())
            self.assertIsNone(group.device_reads())

    def test_what_a_command_did_to_the_device_is_counted(self):
        path = self.folder / "f"
        result = measure.run([sys.executable, seqio.__file__, "write", path, 8 * MIB], self.folder)
        if device.Device(self.folder).counters() is None:
            self.skipTest("the folder is on no block device")
        self.assertGreaterEqual(result.device["write_bytes"], 8 * MIB)
        command = [sys.executable, seqio.__file__, "read", path]
        result = measure.run(command, self.folder, memory_bytes=256 * MIB, cold=True)
        if result.process_read_bytes is not None:  # without root the kernel keeps it to itself
            self.assertGreaterEqual(result.process_read_bytes, 8 * MIB)
        if result.group_read_bytes is not None:
            self.assertGreaterEqual(result.group_read_bytes, 8 * MIB)


class Figures(unittest.TestCase):
    """Every figure from end to end, on a command that stands in for `cleave`."""

    def figure(self, name, *words):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable, BENCH / "figures.py", name, "--dir", f"{folder}/db", "--cleave",
                FAKE, "--out", f"{folder}/record", "--num", "2048", "--ops", "100", "--max-replay",
                "1M", "--repeats", "2", "--memory", "256M", *words,
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            records = [path.read_text() for path in Path(folder).glob("record/*.md")]
            return done, records

    def test_each_figure_makes_a_record(self):
        expected = {
            "fill": "device bytes per user byte",
            "reads": "device reads per get of a missing key",
            "scan": "gain of prefetch, range scan: 4 (goal ≥ 3): met",
            "replay": "opening against reading",
            "memory": "share of what is allowed, fill",
        }
        self.assertEqual(set(expected), set(figures.ENGINE))
        for name, text in expected.items():
            done, records = self.figure(name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(records), 1)
            self.assertIn(text, records[0])
            self.assertIn("| **median** |", records[0])
            self.assertEqual(done.stdout.strip(), records[0].strip())
            self.assertNotIn(str(BENCH), records[0])

    def test_a_command_that_is_missing_or_fails_is_named(self):
        done, records = self.figure("fill", "--cleave", "gone")
        self.assertIn("gone is not there", done.stderr)
        done, records = self.figure("fill", "--cleave", "/bin/false")
        self.assertEqual((done.returncode, records), (1, []))
        self.assertIn("failed (1)", done.stderr)


class MeasureCommand(unittest.TestCase):
    """bench/measure.py"""

    def test_it_prints_json_and_passes_the_status_on(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, BENCH / "measure.py", "--dir", folder, "--", "sh", "-c"]
            done = subprocess.run(
                [*command, "echo a; exit 7"], capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertEqual(json.loads(done.stdout)["stdout"], "a\n")


if __name__ == "__main__":
    unittest.main()

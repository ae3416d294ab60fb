"""Tests of the comparison with the peers, without an engine."""

import argparse
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
sys.path.insert(0, str(BENCH / "compare"))

import command  # noqa: E402: found by the lines above
import compare  # noqa: E402
import conditions  # noqa: E402
import generator  # noqa: E402
import page  # noqa: E402
import papers  # noqa: E402
import plan  # noqa: E402
import results  # noqa: E402
import runner  # noqa: E402

TOLD = json.loads((BENCH / "compare/generator.json").read_text())
LATENCIES = {"count": 9, "p50_us": 1, "p99_us": 2, "p999_us": 3, "max_us": 4}
HEAD = {
    "comparison": "quick",
    "date": "2026-01-02",
    "machine": "a machine <small>",
    "shared": True,
    "read_ahead_kib": 8192,
    "commit": "abc",
    "command": "python3 bench/compare/compare.py quick",
    "versions": {"RocksDB": "1.2"},
    "scale": vars(plan.SCALES["quick"]),
    "threshold": 512,
    "filter_bits": 10,
    "background_threads": 2,
}

# A program that stands in for the drivers: it prints a figure, or does what its engine's name says.
FAKE = """#!/usr/bin/env python3
import json, os, signal, sys
words = dict(word.split("=", 1) for word in sys.argv[1:])
with open(LOG, "a") as log:
    log.write(json.dumps(words) + "\\n")
if words["engine"] == "fjall" and words["workload"] == "overwrite-zipf":
    sys.exit("compare: it broke")
if words["engine"] == "leveldb" and words["workload"] == "load":
    os.kill(os.getpid(), signal.SIGKILL)
if words["workload"] == "verify":
    print(json.dumps({"verified": 5}))
else:
    print(json.dumps({"ops": 10, "seconds": 2.0}))
"""


def line(engine, step="load", repeat=0, ops=100, size=1024, **more):
    """A run of one second."""
    made = {
        "engine": engine,
        "step": step,
        "workload": step,
        "value_size": size,
        "keys": 10,
        "repeat": repeat,
        "ops": ops,
        "seconds": 1.0,
        "rest_seconds": 1.0,
        "user_bytes": 1000,
        "device_write_bytes": 2000,
        "space_highest_bytes": 20 * (size + 16),
        "processor_seconds_at_rest": 0.001,
        "peak_rss_bytes": 3 << 20,
        "reads": {"count": 0},
        "writes": LATENCIES,
    }
    return made | more


class Work(unittest.TestCase):
    def test_it_is_what_the_other_languages_make(self):
        shape = [TOLD[name] for name in ("keys", "seed", "stage", "threads")]
        for workload, wanted in TOLD["checksums"].items():
            rest = TOLD["thread"], TOLD["ops"], TOLD["value"]
            self.assertEqual(generator.checksum(workload, shape, *rest), wanted, workload)

    def test_every_workload_of_the_plan_has_a_checksum(self):
        whole = {"fullscan", "keysonly", "open", "verify"}
        steps = plan.steps(plan.SCALES["quick"])
        steps += [step for one in papers.EXPERIMENTS.values() for step in one.steps]
        planned = {step.workload for step in steps} - whole
        self.assertEqual(planned, set(TOLD["checksums"]))

    def test_a_load_puts_every_key_once(self):
        stream = generator.Stream("load", 100, 1, 0, 1, 0)
        self.assertEqual(sorted(stream.next()[1] for _ in range(100)), list(range(100)))

    def test_a_program_that_makes_other_work_ends_the_comparison(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "driver"
            path.write_text("#!/bin/sh\necho 0123456789abcdef\n")
            path.chmod(0o755)
            with self.assertRaisesRegex(runner.CompareError, "driver makes other work"):
                command.check_work({"driver": path}, TOLD)


class Plan(unittest.TestCase):
    def test_below_the_threshold_only_forms_that_differ_run(self):
        names = [engine.name for engine in plan.engines_for(100)]
        inline = ["rocksdb", "leveldb", "fjall", "badger"]
        self.assertEqual(names, ["cleave-off", "cleave-auto", *inline])
        engines = [it for it in plan.ENGINES if not it.bare and not it.variant_of]
        self.assertEqual(plan.engines_for(1024), engines)

    def test_each_turn_begins_with_another_engine(self):
        self.assertEqual(plan.in_turn([1, 2, 3], 4), [2, 3, 1])

    def test_every_step_has_a_title_and_steps_differ(self):
        planned = set()
        for scale in plan.SCALES.values():
            names = [step.name for step in plan.steps(scale)]
            self.assertEqual(len(names), len(set(names)))
            planned.update(names)
        self.assertEqual(planned - {"verify"}, set(results.TITLES))

    def test_a_store_in_memory_is_asked_what_an_application_asks_and_stays_there(self):
        scale = plan.SCALES["memory"]
        names = [step.name for step in plan.steps(scale)]
        self.assertEqual(names[:3], ["load", "get-1", "get-8"])
        self.assertEqual(names[3:], [f"ycsb-{letter}-8" for letter in "abcfde"])
        self.assertTrue(scale.in_memory)
        self.assertGreater(scale.memory_bytes, 4 * scale.data_bytes)

    def test_a_bare_device_has_reads_at_once_where_engines_are_asked_for_many_keys(self):
        scale = plan.SCALES["device"]
        self.assertIn("device", scale.engines)
        step = plan.steps(scale)[-1]
        engines = plan.engines_for(1024, scale.engines)
        commands = {
            engine.name: plan.Job(scale, engine, step, 3, 1024).command("driver", "there")
            for engine in engines
        }
        self.assertEqual(len(commands), 5)
        self.assertTrue({"threads=1", "batch=64"} <= set(commands["cleave-auto"]))
        self.assertIn("threads=32", commands["device"])
        self.assertNotIn("batch=64", commands["device"])

    def test_each_row_beside_the_device_has_a_goal(self):
        steps = plan.steps(plan.SCALES["device"])
        self.assertEqual({step.name for step in steps}, set(results.BARE_GOALS))
        for step in steps:
            self.assertLess(results.goal(step.name, 1024).ratio, 1)

    def test_a_step_brings_the_load_of_its_store_and_no_other(self):
        scale = plan.SCALES["quick"]
        names = lambda *asked: [step.name for _, step in compare.chosen(scale, asked)]  # noqa: E731
        self.assertEqual(names("scan100", "ycsb-e"), ["load", "scan100", "ycsb-e"])
        self.assertEqual(names("synced-8"), ["synced-8"])
        self.assertEqual(names("get-1", "load-ordered"), ["load", "get-1", "load-ordered"])

    def test_a_job_says_what_is_to_be_done(self):
        scale = plan.SCALES["quick"]
        engine = next(one for one in plan.ENGINES if one.name == "rocksdb")
        step = plan.Step("overwrite-zipf", share=2, rests=True)
        words = plan.Job(scale, engine, step, 8, 1024).command("driver", "there")
        keys = (256 << 20) // 1040
        for word in ["engine=rocksdb", "stage=8", f"keys={keys}", f"ops={2 * keys}", "rest=10"]:
            self.assertIn(word, words)


class Comparison(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.compare(Path(folder))

    @classmethod
    def compare(cls, folder):
        log, program = folder / "log", folder / "driver"
        program.write_text(FAKE.replace("LOG", repr(str(log))))
        program.chmod(0o755)
        given = argparse.Namespace(
            data=1, memory=None, repeats=2, value_size=[1024], seconds=None
        )
        out = io.StringIO()
        programs = {"driver": program, "badger": program}
        scale = command.scaled(plan.SCALES["quick"], given)
        steps = compare.chosen(scale, None)
        made = runner.Comparison(folder / "stores", scale, steps, programs, out)
        # Control groups need root, and the lines for who watches need somebody.
        quiet = mock.patch.object(runner, "tell")
        with quiet, mock.patch.object(runner.measure, "Group", NoGroup):
            made.run(lambda size: plan.engines_for(size, ["rocksdb", "leveldb", "fjall"]))
        cls.lines = [json.loads(text) for text in out.getvalue().splitlines()]
        cls.commands = [json.loads(text) for text in log.read_text().splitlines()]

    def test_a_failure_ends_what_depends_on_it_and_nothing_else(self):
        steps = [step.name for step in plan.steps(plan.SCALES["quick"])]
        of = lambda name: [one["step"] for one in self.lines if one["engine"] == name]  # noqa: E731
        self.assertEqual(of("rocksdb"), 2 * steps)
        zipf = steps.index("overwrite-zipf") + 1
        later = ["load-ordered", "synced-1", "synced-8"]
        self.assertEqual(of("fjall"), 2 * (steps[:zipf] + later))
        self.assertEqual(of("leveldb"), 2 * (["load"] + later))
        failed = {(one["engine"], one["failed"]) for one in self.lines if "failed" in one}
        self.assertEqual(failed, {
            ("leveldb", "killed, as its memory was full"),
            ("fjall", "exit 1: compare: it broke"),
        })

    def test_what_is_verified_is_all_that_was_written(self):
        verified = [one for one in self.commands if one["workload"] == "verify"]
        keys = verified[0]["keys"]
        wanted = f"load:0:{keys},overwrite-uniform:7:{keys},overwrite-zipf:8:{keys}"
        self.assertEqual([one["history"] for one in verified], [wanted, wanted])

    def test_engines_take_turns(self):
        loads = [one["engine"] for one in self.commands if one["workload"] == "load"]
        wanted = ["rocksdb", "leveldb", "fjall", "leveldb", "fjall", "rocksdb"]
        self.assertEqual(loads, wanted)


class NoGroup:
    """A control group that does nothing."""

    def __init__(self, *_):
        self.memory = self.why_not = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def join(self):
        pass

    def device_reads(self):
        return None

    def peak_bytes(self):
        return None


class Figures(unittest.TestCase):
    def test_ratios_are_medians_of_the_ratios_of_each_repetition(self):
        ours = [line("cleave-write", repeat=at, ops=ops) for at, ops in enumerate([90, 40, 10])]
        slow = [line("cleave-off", repeat=at, ops=1) for at in range(3)]
        peer = [line("rocksdb", repeat=at, ops=ops) for at, ops in enumerate([30, 20, 10])]
        row = results.Results(ours + slow + peer).row(1024, "load")
        self.assertEqual((row.ours.name, row.peer.name), ("cleave-write", "rocksdb"))
        self.assertEqual((row.ratio, row.met), (2, True))

    def test_scans_are_measured_by_the_best_inline_peer(self):
        lines = [line("cleave-off", "keysonly", ops=30), line("rocksdb", "keysonly", ops=10)]
        lines.append(line("badger", "keysonly", ops=100))
        row = results.Results(lines).row(1024, "keysonly")
        self.assertEqual((row.peer.name, row.ratio, row.met), ("badger", 0.3, True))

    def test_measures(self):
        one = line("rocksdb")
        self.assertEqual(results.rate(one), 100)
        self.assertEqual(results.rate_at_rest(one), 50)
        self.assertEqual(results.written(one), 2)
        self.assertEqual(results.highest_space(one), 2)
        self.assertEqual(results.processor(one), 10)
        self.assertEqual(results.latency("writes", "p99_us")(one), 2)
        self.assertIsNone(results.latency("reads", "p99_us")(one))

    def test_whoever_failed_once_has_no_figure_and_is_named(self):
        lines = [line("rocksdb"), line("rocksdb", repeat=1) | {"failed": "killed"}]
        lines += [line("cleave-off"), line("leveldb", ops=50)]
        found = results.Results(lines)
        row = found.row(1024, "load")
        self.assertEqual(row.peer.name, "leveldb")
        self.assertEqual(results.goal_text(row), "≥ 1.5: met; no figure of RocksDB")
        text = "\n".join(results.markdown(HEAD, lines))
        self.assertIn("- RocksDB, 1024 B, load, random order: killed", text)
        self.assertIn("Others were building", text)

    def test_tables(self):
        lines = [line("cleave-write", ops=300), line("rocksdb", ops=200)]
        text = results.record_text(HEAD, lines)
        row = "load, random order | at_write | 300 | RocksDB | 200 | 1.500 | ≥ 1.5: met |"
        self.assertIn(f"| 1024 | {row}", text)
        self.assertIn("| load, random order | **300** | 200 |", text)
        self.assertIn("- machine: a machine <small>\n", text)
        self.assertIn("One run of each.", text)

    def test_a_large_read_ahead_is_told(self):
        self.assertIn("8192 KiB. 128 are usual", conditions.of_comparison(HEAD))
        usual = conditions.of_comparison(HEAD | {"read_ahead_kib": 128})
        self.assertTrue(usual.endswith("The device's read-ahead is 128 KiB."))

    def test_the_read_ahead_is_put_back(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "read_ahead_kb"
            file.write_text("4096\n")
            disk = command.device.Device(folder)
            disk.read_ahead = file
            with mock.patch.object(command.device, "Device", lambda _: disk):
                with self.assertRaises(SystemExit), command.read_ahead(folder, 128):
                    self.assertEqual(disk.read_ahead_kib(), 128)
                    sys.exit(1)
            self.assertEqual(disk.read_ahead_kib(), 4096)

    def test_the_page_needs_nothing_else(self):
        lines = [line("cleave-write", ops=300), line("rocksdb", ops=400)]
        text = page.html(HEAD, lines)
        self.assertIn("a machine &lt;small&gt;", text)
        self.assertIn("≥ 1.5: not met", text)
        for outside in ("http", "src=", "href=", "@import", "url("):
            self.assertNotIn(outside, text)

    def test_a_file_without_a_head_is_refused(self):
        with self.assertRaisesRegex(ValueError, "head"):
            results.read(json.dumps(line("rocksdb")))
        self.assertEqual(results.read(json.dumps(HEAD) + "\n"), (HEAD, []))


if __name__ == "__main__":
    unittest.main()

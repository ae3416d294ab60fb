"""Tests of the experiments of the papers, without an engine."""

import argparse
import json
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
sys.path.insert(0, str(BENCH / "compare"))

import cells  # noqa: E402: found by the lines above
import command  # noqa: E402
import conditions  # noqa: E402
import drawing  # noqa: E402
import experiment  # noqa: E402
import experiments  # noqa: E402
import front  # noqa: E402
import papers  # noqa: E402
import plan  # noqa: E402
import runner  # noqa: E402
from harness import chart  # noqa: E402
from test_compare import NoGroup, line  # noqa: E402

# A program that stands in for the drivers: twice as fast as LevelDB, unless it is LevelDB. It fails
# where its engine is RocksDB and values have 4 KiB, and is killed as fjall overwrites.
FAKE = """#!/usr/bin/env python3
import json, os, signal, sys, time
words = dict(word.split("=", 1) for word in sys.argv[1:])
with open(LOG, "a") as log:
    log.write(json.dumps(words) + "\\n")
if words["engine"] == "rocksdb" and words["value"] == "4096":
    sys.exit("compare: it broke")
if words["engine"] == "fjall-kv" and words["workload"] == "overwrite-uniform":
    os.kill(os.getpid(), signal.SIGKILL)
open(os.path.join(words["dir"], "table"), "ab").write(b"x" * 100_000)
ops = min(int(words["ops"]), 50)
slow = words["engine"] == "leveldb"
latencies = {"count": ops, "mean_us": 3, "p50_us": 1, "p99_us": 2, "p999_us": 3, "max_us": 4}
if words["workload"] == "verify":
    print(json.dumps({"verified": 40}))
else:
    print(json.dumps({
        "open_seconds": 0.5, "ops": ops, "pairs": 0, "seconds": 2.0 if slow else 1.0,
        "user_bytes": 1000, "rest_seconds": 0.5, "rested": True, "processor_seconds": 1,
        "processor_seconds_at_rest": 1, "peak_rss_bytes": 1, "reads": latencies,
        "writes": latencies,
    }), flush=True)
while words["hold"] == "1":
    time.sleep(1)
"""


class CountingGroup(NoGroup):
    """A control group that limits nothing."""

    def device_reads(self):
        return 3, 5_000_000


def given(folder, name, **more):
    """The options of a run."""
    made = {
        "experiment": name, "dir": folder, "data": 1, "memory": None, "repeats": None,
        "value_size": None, "engine": None, "shared": True, "read_ahead": None, "cache": None,
        "buffer": 4, "seconds": 0.5, "rest": None, "target": folder,
    }
    return argparse.Namespace(**(made | more))


def ran(folder, name, **more):
    """The text of a record, its chart, its lines, and the words that programs got."""
    log, program = folder / "log", folder / "driver"
    log.write_text("")
    program.write_text(FAKE.replace("LOG", repr(str(log))))
    program.chmod(0o755)
    experiment, path = papers.EXPERIMENTS[name], folder / "lines"
    with standing_in(program):
        experiments.run(experiment, given(folder, name, **more), path)
    saved = experiments.save(experiment, path, folder / "record")
    lines = [json.loads(text) for text in saved.with_suffix(".jsonl").read_text().splitlines()]
    commands = [json.loads(text) for text in log.read_text().splitlines()]
    return saved.read_text(), saved.with_suffix(".svg").read_text(), lines, commands


@contextmanager
def standing_in(program):
    """Has experiments run a program in place of all drivers."""
    programs = {"driver": program, "badger": program}
    with (
        mock.patch.object(runner, "tell"),
        mock.patch.object(runner.measure, "Group", CountingGroup),
        # It syncs what nobody measures here.
        mock.patch.object(runner.device, "drop_cached"),
        mock.patch.object(command, "build", lambda *_: programs),
        mock.patch.object(command, "check_work"),
        mock.patch.object(command.signal, "signal"),
        mock.patch.object(sys, "stderr"),
    ):
        yield


class Experiments(unittest.TestCase):
    def test_each_runs_and_is_recorded_with_chart_and_lines(self):
        for name, experiment in papers.EXPERIMENTS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                size, engines = experiment.sizes[-1], experiment.engines[:2]
                if experiment.judge not in engines:
                    engines = [engines[0], experiment.judge]
                text, svg, lines, commands = ran(
                    Path(folder), name, value_size=[size], engine=engines
                )
                ET.fromstring(svg)
                self.assertIn(experiment.title, svg)
                self.assertTrue(text.startswith(f"# {experiment.title}\n"))
                self.assertNotIn("Without a figure", text)
                self.assertEqual(lines[0]["comparison"], name)
                wanted = len(engines) * len(experiment.steps)
                self.assertEqual((len(lines) - 1, len(commands)), (wanted, wanted))
                for figure in experiment.figures:
                    self.assertIn(figure.title, svg)

    def test_a_failure_has_no_figure_and_parts_the_curve(self):
        with tempfile.TemporaryDirectory() as folder:
            sizes = [64, 256, 1024, 4096, 16384]
            text, svg, _, _ = ran(Path(folder), "wisckey-lookup", value_size=sizes)
            self.assertIn("- RocksDB, 4 KiB, load: exit 1: compare: it broke", text)
            self.assertIn("| 4 KiB | **50** (2) | **50** (2) | failed | 25 |", text)
            self.assertNotIn("RocksDB, 4 KiB: ", svg)
            self.assertIn("RocksDB, 1 KiB: 50 a second", svg)

    def test_a_process_killed_for_its_memory_is_named_and_the_others_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            text, svg, lines, commands = ran(
                Path(folder), "plane", value_size=[1024, 16384], engine=["rocksdb", "fjall-kv"]
            )
        of_fjall = [(it["value"], it["workload"]) for it in commands if it["engine"] == "fjall-kv"]
        steps = ["load", "overwrite-uniform"]
        self.assertEqual(of_fjall, [(size, it) for size in ("1024", "16384") for it in steps])
        self.assertEqual(len([it for it in commands if it["engine"] == "rocksdb"]), 2 * 4)
        # In each kind of table, and where it is told who is ahead.
        self.assertIn("| 1 KiB | **50** | killed |", text)
        self.assertIn("| 16 KiB | 1 · – | killed |", text)
        self.assertIn("- 16 KiB, fjall separated: no figure (killed)", text)
        name = "fjall separated, 1 KiB, overwrite-uniform"
        self.assertIn(f"- {name}: killed, as its memory was full", text)
        self.assertNotIn("fjall separated, 1 KiB: ", svg)

    def test_a_crash_is_a_kill_with_the_store_open_and_all_is_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            text, _, lines, commands = ran(Path(folder), "wisckey-recovery", engine=["leveldb"])
        held = [one for one in commands if one["hold"] == "1"]
        self.assertEqual({one["workload"] for one in held}, {"load"})
        self.assertEqual(len(held), len(papers.CRASHES))
        self.assertFalse([one for one in lines[1:] if "failed" in one])
        histories = [one["history"] for one in commands if one["workload"] == "verify"]
        keys = int(held[0]["keys"])
        self.assertEqual(histories[0], f"load:0:{round(0.53 * keys)}")
        self.assertEqual(histories[-1], f"load:21:{keys}")
        self.assertIn("| 1 KiB | **0.500** |", text)

    def test_a_process_that_ends_instead_of_holding_has_no_figure(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "driver"
            program.write_text("#!/bin/sh\necho '{}'\n")
            program.chmod(0o755)
            scale = papers.EXPERIMENTS["wisckey-recovery"].scale()
            step = plan.Step("load", fresh=True, share=1, holds=True)
            job = plan.Job(scale, plan.ENGINES[0], step, 0, 1024)
            made = runner.Comparison(Path(folder), scale, [(0, step)], {"driver": program}, None)
            with mock.patch.object(runner.measure, "Group", NoGroup):
                self.assertIn("failed", made.measured(job, Path(folder)))

    def test_words_of_a_job_are_those_of_the_experiment(self):
        with tempfile.TemporaryDirectory() as folder:
            name, sizes = "wisckey-load", [64, 1024]
            text, _, lines, commands = ran(Path(folder), name, value_size=sizes)
        self.assertEqual({one["threshold"] for one in commands}, {"1"})
        self.assertEqual({one["buffer-mb"] for one in commands}, {"4"})
        # All are separated, so also small values run with every engine.
        small = {one["engine"] for one in commands if one["value"] == "64"}
        self.assertEqual(small, set(papers.WISCKEY_ENGINES))
        self.assertEqual(lines[0]["command"], (
            "python3 bench/compare/experiments.py wisckey-load --dir DIR --buffer 4M --data 1M "
            "--seconds 0.5 --value-size 64 --value-size 1024 --shared"
        ))
        self.assertIn("Others were building", text)
        self.assertIn("whatever their size", text)

    def test_sizes_are_given_in_mebibytes_or_gibibytes(self):
        texts = "256M", "256", "4G"
        self.assertEqual([command.mebibytes(text) for text in texts], [256, 256, 4096])

    def test_engines_can_be_chosen_and_then_nothing_is_a_multiple(self):
        with tempfile.TemporaryDirectory() as folder:
            text, svg, _, _ = ran(
                Path(folder), "wisckey-ycsb", engine=["badger", "fjall"], value_size=[1024]
            )
        self.assertIn("| workload | fjall | Badger |", text)
        self.assertNotIn("multiples", text)
        self.assertIn("YCSB, values of 1 KiB, operations a second", svg)

    def test_lines_of_another_experiment_and_no_engine_at_all_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            ran(Path(folder), "wisckey-cpu", engine=["leveldb"])
            with self.assertRaisesRegex(ValueError, "lines of wisckey-cpu"):
                experiments.save(papers.TITAN, Path(folder) / "lines", Path(folder))
            with self.assertRaises(SystemExit):
                ran(Path(folder), "titan", engine=["cleave-write"], value_size=[100])

    def test_the_default_choice_is_run_below_the_threshold_too(self):
        with tempfile.TemporaryDirectory() as folder:
            text, _, _, commands = ran(Path(folder), "auto", value_size=[256])
        self.assertEqual(papers.EXPERIMENTS["auto"].sizes, (256, 1024, 4096, 16384))
        engines = {one["engine"] for one in commands}
        self.assertEqual(engines, {"cleave-auto", "cleave-off", "rocksdb"})
        self.assertIn("Each mode, values of 256 B, operations or pairs a second:", text)
        self.assertIn("| workload | CleaveDB off | CleaveDB auto | RocksDB |", text)

    def test_the_sweep_has_a_ceiling_for_each_store_and_a_point_for_each_ceiling(self):
        with tempfile.TemporaryDirectory() as folder:
            text, svg, _, commands = ran(Path(folder), "ratio")
        bounds = {
            (it["ceiling"], it["settled"], it["allowance-mb"]) for it in commands
        }
        self.assertEqual(bounds, {
            ("1.2", "1.1", "0"), ("1.3", "1.15", "0"), ("1.5", "1.2", "0"), ("2", "1.2", "0"),
            ("3", "1.2", "0"),
        })
        self.assertNotIn("punch", {name for it in commands for name in it})
        self.assertIn("highest space, zipf, values of 1 KiB, for each live byte", svg)
        self.assertIn("CleaveDB at_flush, 1.3: ", svg)
        self.assertIn("| ceiling | CleaveDB at_write | CleaveDB at_flush |", text)
        self.assertIn("| 1.2, uniform | **50** | **50** (1) |", text)
        self.assertIn("Space at rest, values of 1 KiB, for each live byte:", text)

    def test_holes_are_punched_by_one_of_two_variants_of_a_mode(self):
        with tempfile.TemporaryDirectory() as folder:
            text, svg, lines, commands = ran(Path(folder), "holes", value_size=[4096, 65536])
        sides = {(it["engine"], it["punch"]) for it in commands}
        modes = {"cleave-write", "cleave-flush"}
        self.assertEqual(sides, {(mode, punch) for mode in modes for punch in ("on", "off")})
        self.assertEqual(len({it["engine"] for it in lines[1:]}), 4)
        self.assertEqual({it["ceiling"] for it in commands}, {"1.5"})
        stays = {it["workload"] for it in commands if it.get("stay") == "6"}
        self.assertEqual(stays, {"overwrite-uniform", "delete-uniform"})
        keys = (1 << 20) // (16 + 4096)
        histories = {it["history"] for it in commands if it["workload"] == "verify"}
        self.assertIn(f"load:3:{keys},delete-uniform:4:{round(0.7 * keys)}", histories)
        self.assertIn("Device bytes of deletions, MB:", text)
        self.assertIn("| value | CleaveDB at_write, holes | CleaveDB at_write, rewriting |", text)
        self.assertIn("CleaveDB at_flush, rewriting, 64 KiB: ", svg)

    def test_values_are_one_command_with_a_page_for_each_and_one_with_all_charts(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            program = folder / "driver"
            program.write_text(FAKE.replace("LOG", repr(str(folder / "log"))))
            program.chmod(0o755)
            few = {
                key: replace(one, sizes=one.sizes[-1:], engines=one.engines[-2:])
                for key, one in papers.EXPERIMENTS.items()
            }
            options = given(folder, "values", out=folder / "record")
            with standing_in(program), mock.patch.object(experiments, "EXPERIMENTS", few):
                index = experiments.of_values(options)
            text = index.read_text()
            self.assertTrue(text.startswith("# Where a value belongs\n"))
            self.assertIn("- command: `python3 bench/compare/experiments.py values --dir DIR", text)
            self.assertIn("-values.md", index.name)
            for key in experiments.VALUES:
                page = Path(folder / "record", index.name.replace("values", key))
                self.assertIn(f"## [{few[key].title}]({page.name})", text)
                self.assertIn(f"]({page.with_suffix('.svg').name})", text)
                self.assertIn(f"experiments.py {key} --dir DIR", page.read_text())
                self.assertTrue(page.with_suffix(".svg").exists())
                self.assertTrue(page.with_suffix(".jsonl").exists())

    def test_values_take_no_engine_size_or_lines(self):
        for more in (["--engine", "rocksdb"], ["--value-size", "64"], ["--lines", "x"]):
            words = ["experiments.py", "values", "--dir", "x", *more]
            with mock.patch.object(sys, "argv", words), mock.patch.object(sys, "stderr"):
                with self.assertRaises(SystemExit):
                    experiments.arguments()

    def test_a_store_stays_until_its_last_step(self):
        steps = [(0, plan.Step("load", fresh=True)), (1, plan.Step("load", store="b", fresh=True)),
                 (2, plan.Step("get")), (3, plan.Step("load", fresh=True))]
        made = runner.Comparison(None, None, steps, {}, None)
        self.assertEqual([made.is_last(at) for at in range(4)], [False, True, True, True])


class Measures(unittest.TestCase):
    def test_of_one_line(self):
        one = line("rocksdb", ops=1000, pairs=0, processor_seconds=0.5, device_read_bytes=2_080_000,
                   space_end_bytes=3_000_000)
        self.assertEqual(cells.megabytes(one), 1.04)
        self.assertEqual(cells.megabytes(one | {"pairs": 2000}), 2.08)
        self.assertEqual(cells.read_amplification(one), 2)
        self.assertIsNone(cells.read_amplification(one | {"device_read_bytes": None}))
        self.assertEqual(cells.processor_share(one), 50)
        self.assertEqual(cells.processor_micros(one), 1)
        self.assertEqual(cells.seconds_at_rest(one), 2)
        self.assertEqual(cells.stored_megabytes(one), 3)
        # Five scans of a store that has half of the pairs.
        self.assertEqual(cells.scans_of(100)(one | {"ops": 5, "pairs": 250}), 2.5)

    def test_of_several_lines(self):
        one = line("rocksdb", "fill", space_end_bytes=2080)
        cell = {"fill": one, "verify-fill": {"verified": 1}}
        space = cells.space("fill", "verify-fill", "space_end_bytes")
        self.assertEqual(space(cell), 2)
        self.assertIsNone(space({"fill": one}))
        self.assertIsNone(space(cell | {"verify-fill": {"failed": "a wrong pair"}}))
        self.assertEqual(cells.written([one, one | {"device_write_bytes": 4000}]), 3)
        opens = [{"open_seconds": it, "device_read_bytes": it * 1e6} for it in (1, 5, 2)]
        found = cells.most(opens), cells.middle(opens), cells.most_read(opens)
        self.assertEqual(found, (5, 2, 5))
        self.assertIsNone(cells.most_read([*opens, {"device_read_bytes": None}]))

    def test_repetitions_have_a_median_unless_one_failed(self):
        lines = [line("rocksdb", repeat=at, ops=ops) for at, ops in enumerate([10, 30, 20])]
        rate = cells.of("load", lambda one: one["ops"])
        engine = next(one for one in plan.ENGINES if one.name == "rocksdb")
        self.assertEqual(cells.Cells(lines).median(1024, engine, rate), 20)
        lines.append(line("rocksdb", repeat=3) | {"failed": "killed"})
        self.assertIsNone(cells.Cells(lines).median(1024, engine, rate))


class Drawing(unittest.TestCase):
    def test_a_plane_is_told_as_multiples(self):
        found = cells.Cells([
            line("rocksdb", "scan", pairs=100, device_write_bytes=3000),
            line("cleave-write", "scan", pairs=50, device_write_bytes=1000),
        ])
        figure = experiment.Plane(
            "the plane", "bytes", "scans", cells.of("scan", lambda it: it["device_write_bytes"]),
            cells.of("scan", cells.scans_of(100)),
        )
        told = "\n".join(drawing.tables(papers.TITAN, figure, found))
        self.assertIn("The plane, as multiples of RocksDB: bytes · scans:", told)
        self.assertIn("| 1 KiB | 0.333 · 0.5 | 1 · 1 |", told)
        [panel] = drawing.panels(papers.TITAN, figure, found)
        self.assertEqual(panel.series["CleaveDB at_write"], [(1000, 0.5, "1 KiB")])

    def test_who_is_ahead_in_a_plane(self):
        self.assertTrue(front.is_ahead((1, 12), (1, 10)))
        self.assertTrue(front.is_ahead((1, 10), (1.2, 10)))
        self.assertFalse(front.is_ahead((1, 11.9), (1, 10)), "by less than a fifth")
        self.assertFalse(front.is_ahead((1.01, 100), (1, 10)), "worse in one")
        found = cells.Cells([
            line("rocksdb", "scan", pairs=100, device_write_bytes=3000),
            line("leveldb", "scan", pairs=900, device_write_bytes=3000),
            line("cleave-write", "scan", pairs=50, device_write_bytes=1000),
            line("cleave-off", "scan", pairs=400, device_write_bytes=2000),
        ])
        figure = experiment.Plane(
            "the plane", "bytes", "scans", cells.of("scan", lambda it: it["device_write_bytes"]),
            cells.of("scan", cells.scans_of(100)), has_front=True,
        )
        told = "\n".join(drawing.tables(papers.TITAN, figure, found))
        self.assertIn("- 1 KiB, RocksDB: CleaveDB off is ahead, 0.667 · 4", told)
        self.assertIn("- 1 KiB, LevelDB: **nobody of ours is ahead**", told)
        self.assertIn("- 1 KiB, CleaveDB at_write: on our front", told)

    def test_sizes_have_names(self):
        names = [drawing.size_name(size) for size in (64, 1000, 1024, 1 << 18)]
        self.assertEqual(names, ["64 B", "1000 B", "1 KiB", "256 KiB"])

    def test_conditions_say_what_is_separated(self):
        scale = vars(papers.TITAN.scale())
        head = {"shared": False, "versions": {}, "scale": scale, "threshold": 512,
                "filter_bits": 10, "background_threads": 2, "read_ahead_kib": 128}
        self.assertIn("do so from 512 B on.", conditions.of_experiment(head))

    def test_every_experiment_can_be_drawn(self):
        for name, one in papers.EXPERIMENTS.items():
            self.assertEqual(one.name, name)
            self.assertIn(one.judge, one.engines)
            self.assertLessEqual(len(one.engines), chart.MOST_SERIES)
            names = [step.name for step in one.steps]
            self.assertEqual(len(names), len(set(names)), name)
            self.assertTrue(set(one.engines) <= {engine.name for engine in plan.ENGINES})


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Runs the same work with CleaveDB and its peers by turns, one JSON line each; see README.md."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import plan  # noqa: E402: found by the lines above
from harness import device, measure, record  # noqa: E402
from harness.space import Sampler, allocated  # noqa: E402

SAMPLE_SECONDS = 0.5


class CompareError(Exception):
    """Why there is no comparison."""


def build(target, engines):
    """Builds the programs that the engines need: {name: path}."""
    target.mkdir(parents=True, exist_ok=True)
    programs = {}
    if any(engine.program == "driver" for engine in engines):
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        command = ["cargo", "build", "--release", "--locked"]
        subprocess.run(command, cwd=HERE / "driver", env=environment, check=True)
        programs["driver"] = target / "release/cleavedb-compare"
    if any(engine.program == "badger" for engine in engines):
        programs["badger"] = target / "badger-work"
        command = ["go", "build", "-o", str(programs["badger"]), "./work"]
        subprocess.run(command, cwd=HERE / "badger", check=True)
    return programs


def check_work(programs, told):
    """That all programs make the same work; `told` is `generator.json`."""
    for name, program in programs.items():
        for workload, wanted in told["checksums"].items():
            words = {key: told[key] for key in ("keys", "seed", "stage", "threads", "ops", "value")}
            words |= {"workload": workload, "checksum-of-thread": told["thread"]}
            command = [str(program), *(f"{key}={value}" for key, value in words.items())]
            found = subprocess.run(command, capture_output=True, text=True).stdout.strip()
            if found != wanted:
                raise CompareError(f"{name} makes other work than the others: {workload}, {found}")


class Comparison:
    """Where it runs and what it has found so far."""

    def __init__(self, folder, scale, programs, out):
        self.folder, self.scale, self.programs, self.out = folder, scale, programs, out
        # The engines whose main store failed, and the history of each.
        self.lost = set()
        self.history = {}

    def run(self, chosen=None, workloads=None):
        """All of it."""
        for repeat in range(self.scale.repeats):
            for value_size in self.scale.value_sizes:
                self.lost, self.history = set(), {}
                engines = plan.engines_for(value_size, chosen)
                for number, step in enumerate(plan.steps(self.scale)):
                    if workloads and step.name not in workloads and not step.fresh:
                        continue
                    for engine in plan.in_turn(engines, number + repeat):
                        self.one(repeat, plan.Job(self.scale, engine, step, number, value_size))
                shutil.rmtree(self.folder, ignore_errors=True)

    def one(self, repeat, job):
        """Runs a job and writes its line."""
        store, key = job.step.store, (job.engine.name, job.step.store)
        folder = self.folder / store / job.engine.name
        if job.step.fresh:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        elif key in self.lost:
            return
        job.history = self.history.setdefault(key, [])
        found = self.measured(job, folder)
        if "failed" in found:
            self.lost.add(key)
        if job.step.share is not None:
            job.history.append(f"{job.step.workload}:{job.number}:{job.ops}")
        line = {
            "engine": job.engine.name,
            "step": job.step.name,
            "workload": job.step.workload,
            "threads": job.step.threads,
            "value_size": job.value_size,
            "keys": job.keys,
            "repeat": repeat,
            **found,
        }
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()
        tell(line)
        # Only the main store is used again.
        if store != "main":
            shutil.rmtree(folder, ignore_errors=True)

    def measured(self, job, folder):
        """What the program and the kernel say; `failed` says why there is no figure."""
        sampler = Sampler(folder)
        verifies = job.step.workload == "verify"
        device.drop_cached(folder, whole_machine=False)
        result = measure.run(
            job.command(self.programs[job.engine.program], folder),
            folder,
            # Verifying is no measurement, and needs a list of all keys.
            memory_bytes=None if verifies else self.scale.memory_bytes,
            sample=sampler,
            sample_seconds=SAMPLE_SECONDS,
            whole_machine=False,
        )
        if result.memory_limit_missing:
            raise CompareError(result.memory_limit_missing)
        if result.exit_code != 0:
            return {"failed": why(result)}
        if verifies:
            return json.loads(result.stdout)
        at_end = allocated(folder, 0)
        return {
            **json.loads(result.stdout),
            # All that the process handed to the block layer, opening and closing included.
            "device_write_bytes": result.process_write_bytes,
            "device_read_bytes": result.group_read_bytes,
            "device_reads": result.group_read_ios,
            "group_peak_bytes": result.group_peak_bytes,
            "processor_seconds_of_process": result.processor_seconds,
            "space_highest_bytes": max(sampler.peak() or 0, at_end),
            "space_end_bytes": at_end,
        }


def why(result):
    """A failure in a few words."""
    if result.exit_code == -9:
        return "killed, as its memory was full"
    lines = result.stderr.strip().splitlines() or ["it said nothing"]
    return f"exit {result.exit_code}: {lines[0][:200]}"


def tell(line):
    """One line for who watches."""
    said = line.get("failed")
    if said is None and "seconds" in line:
        said = f"{line['ops'] / line['seconds']:,.0f} op/s"
    text = f"{time.strftime('%H:%M:%S')} {line['value_size']:>5} B {line['step']:<18}"
    print(f"{text} {line['engine']:<13} {said or 'verified'}", file=sys.stderr)


def versions():
    """Of the peers, as they are installed or pinned."""
    def package(name):
        command = ["dpkg-query", "--show", "--showformat=${Version}", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError:
            return "unknown"
        return done.stdout.strip() or "unknown"

    lock = (HERE / "driver/Cargo.lock").read_text()
    module = (HERE / "badger/go.mod").read_text()
    return {
        "RocksDB": package("librocksdb-dev"),
        "LevelDB": package("libleveldb-dev"),
        "fjall": lock.split('name = "fjall"\nversion = "')[1].split('"')[0],
        "Badger": module.split("badger/v4 v")[1].split()[0],
    }


def head(scale, given):
    """The first line: what this is a comparison of."""
    words = f"python3 bench/compare/compare.py {scale.name} --dir DIR"
    words += "".join(f" --engine {name}" for name in given.engine or [])
    words += "".join(f" --step {name}" for name in given.step or [])
    return {
        "comparison": scale.name,
        "date": time.strftime("%Y-%m-%d"),
        "machine": record.machine(given.dir),
        "shared": given.shared,
        "read_ahead_kib": device.Device(given.dir).read_ahead_kib(),
        "commit": record.commit(),
        "command": words + changed(given) + (" --shared" if given.shared else ""),
        "versions": versions(),
        "scale": asdict(scale),
        "threshold": plan.THRESHOLD,
        "filter_bits": plan.FILTER_BITS,
        "background_threads": plan.BACKGROUND_THREADS,
    }


def changed(given):
    """The words of the command that change a scale."""
    words = f" --data {given.data}M" if given.data else ""
    words += f" --memory {given.memory}M" if given.memory else ""
    words += f" --repeats {given.repeats}" if given.repeats else ""
    words += f" --read-ahead {given.read_ahead}" if given.read_ahead else ""
    return words + "".join(f" --value-size {size}" for size in given.value_size or [])


def scaled(given):
    """The scale that was asked for."""
    scale = plan.SCALES[given.scale]
    if given.data:
        scale = replace(scale, data_bytes=given.data * plan.MIB)
    if given.memory:
        scale = replace(scale, memory_bytes=given.memory * plan.MIB)
    if given.repeats:
        scale = replace(scale, repeats=given.repeats)
    if given.value_size:
        scale = replace(scale, value_sizes=given.value_size)
    return scale


@contextmanager
def read_ahead(folder, kib):
    """Sets the device's read-ahead for a while, if asked to, and puts it back."""
    disk = device.Device(folder)
    before = disk.read_ahead_kib()
    if kib:
        disk.set_read_ahead_kib(kib)
    try:
        yield
    finally:
        if kib:
            disk.set_read_ahead_kib(before)


def mebibytes(text):
    """`256M` or `256`, as a number."""
    return int(text.removesuffix("M"))


def arguments():
    """What the command takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scale", choices=plan.SCALES)
    parser.add_argument("--dir", required=True, type=Path, help="a folder on the disk to measure")
    parser.add_argument("--out", required=True, type=Path, help="the file of JSON lines; is new")
    names = [engine.name for engine in plan.ENGINES]
    parser.add_argument("--engine", action="append", choices=names, help="only that [all]")
    parser.add_argument("--step", action="append", help="only that, and loads [all]")
    parser.add_argument("--data", type=mebibytes, help="keys and values, such as 64M")
    parser.add_argument("--memory", type=mebibytes, help="limit of each process, such as 96M")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--value-size", type=int, action="append")
    parser.add_argument("--shared", action="store_true", help="others use the machine meanwhile")
    help_text = "KiB, of the whole device while this runs, such as 128 [as it is]"
    parser.add_argument("--read-ahead", type=int, help=help_text)
    parser.add_argument("--target", type=Path, default=ROOT / "target/compare", help="of builds")
    return parser.parse_args()


def main():
    """Builds, checks, runs."""
    given = arguments()
    stores = given.dir / "compare-stores"
    stores.mkdir(parents=True, exist_ok=True)
    measure.open_files_limit()
    # What is changed is put back, and the process that is measured ends, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("compare: ended"))
    scale = scaled(given)
    wanted = [engine for engine in plan.ENGINES if not given.engine or engine.name in given.engine]
    begun = time.monotonic()
    try:
        programs = build(given.target, wanted)
        check_work(programs, json.loads((HERE / "generator.json").read_text()))
        with given.out.open("x") as out, read_ahead(given.dir, given.read_ahead):
            out.write(json.dumps(head(scale, given)) + "\n")
            Comparison(stores, scale, programs, out).run(given.engine, given.step)
    except (CompareError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"compare: {error}")
    finally:
        shutil.rmtree(stores, ignore_errors=True)
    print(f"compare: {time.monotonic() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()

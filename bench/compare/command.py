"""What the commands of a comparison share: options, the programs, and what a file begins with."""

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

import plan
from runner import CompareError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from harness import device, measure, record  # noqa: E402: found by the line above


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


def head(scale, given, command):
    """The first line: what this is a comparison of."""
    return {
        "comparison": scale.name,
        "date": time.strftime("%Y-%m-%d"),
        "machine": record.machine(given.dir),
        "shared": given.shared,
        "read_ahead_kib": device.Device(given.dir).read_ahead_kib(),
        "commit": record.commit(),
        "command": command + changed(given),
        "versions": versions(),
        "scale": asdict(scale),
        "threshold": scale.threshold,
        "filter_bits": plan.FILTER_BITS,
        "background_threads": plan.BACKGROUND_THREADS,
    }


def options(parser):
    """What every comparison takes."""
    parser.add_argument("--dir", required=True, type=Path, help="a folder on the disk to measure")
    names = [engine.name for engine in plan.ENGINES]
    parser.add_argument("--engine", action="append", choices=names, help="only that [all]")
    parser.add_argument("--data", type=mebibytes, help="keys and values, such as 64M")
    parser.add_argument("--memory", type=mebibytes, help="limit of each process, such as 96M")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--value-size", type=int, action="append")
    parser.add_argument("--seconds", type=float, help="how long reads and mixes take")
    parser.add_argument("--shared", action="store_true", help="others use the machine meanwhile")
    help_text = "KiB, of the whole device while this runs, such as 128 [as it is]"
    parser.add_argument("--read-ahead", type=int, help=help_text)
    parser.add_argument("--target", type=Path, default=ROOT / "target/compare", help="of builds")


def mebibytes(text):
    """`256M`, `256` or `4G`, as a number of MiB."""
    if text.endswith("G"):
        return int(text.removesuffix("G")) << 10
    return int(text.removesuffix("M"))


def changed(given):
    """The words of the command that change a scale."""
    words = "".join(f" --engine {name}" for name in given.engine or [])
    words += f" --data {given.data}M" if given.data else ""
    words += f" --memory {given.memory}M" if given.memory else ""
    words += f" --repeats {given.repeats}" if given.repeats else ""
    words += f" --seconds {given.seconds:g}" if given.seconds is not None else ""
    words += f" --read-ahead {given.read_ahead}" if given.read_ahead else ""
    words += "".join(f" --value-size {size}" for size in given.value_size or [])
    return words + (" --shared" if given.shared else "")


def scaled(scale, given):
    """A scale with what was asked for."""
    if given.data:
        scale = replace(scale, data_bytes=given.data * plan.MIB)
    if given.memory:
        scale = replace(scale, memory_bytes=given.memory * plan.MIB)
    if given.repeats:
        scale = replace(scale, repeats=given.repeats)
    if given.value_size:
        scale = replace(scale, value_sizes=given.value_size)
    if given.seconds is not None:
        scale = replace(scale, seconds=given.seconds)
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


@contextmanager
def prepared(given, name, engines):
    """Builds and checks the programs; yields a folder for stores, and the programs. An error of a
    comparison ends the process, and the stores go in any case.
    """
    stores = given.dir / f"{name}-stores"
    stores.mkdir(parents=True, exist_ok=True)
    measure.open_files_limit()
    # What is changed is put back, and the process that is measured ends, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{name}: ended"))
    begun = time.monotonic()
    try:
        programs = build(given.target, engines)
        check_work(programs, json.loads((HERE / "generator.json").read_text()))
        with read_ahead(given.dir, given.read_ahead):
            yield stores, programs
    except (CompareError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{name}: {error}")
    finally:
        shutil.rmtree(stores, ignore_errors=True)
    print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)

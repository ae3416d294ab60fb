#!/usr/bin/env python3
"""Runs the conditional workloads of CleaveDB, RocksDB and Badger by turns; see README.md here."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from harness import record  # noqa: E402: it is found by the line above

# What runs on a loaded store, by the names that the peers have for it.
LOADED = ["overwrite", "cas", "batchget", "transactions", "transactions-shared"]
# What runs on a thousand counters, in a store of their own.
COUNTERS = [(" of counters", ["overwrite", "increment"], 1000)]


def run(command):
    """The objects that a command prints, one for each workload, by name."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        words = " ".join(Path(str(word)).name for word in command)
        raise SystemExit(f"conditional: {words} failed ({done.returncode}): {done.stderr.strip()}")
    objects = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {it["workload"]: it["ops_per_second"] for it in objects if "workload" in it}


class Peer:
    """A program of this folder."""

    def __init__(self, name, program):
        self.name, self.program = name, program

    def measure(self, store, workloads, num, threads, given):
        """Runs workloads, `load` among them."""
        words = [self.program, store, ",".join(workloads), num, given.value_size, threads]
        return run([*words, given.seconds])


class Cleave:
    """The command `cleave bench`."""

    name = "cleavedb"
    LOAD = ["fillrandom", "--unique"]

    def __init__(self, program):
        self.program = program

    def measure(self, store, workloads, num, threads, given):
        """Runs workloads under the names that `cleave bench` has for them."""
        sizes = ["--num", num, "--value-size", given.value_size, "--json"]
        rates, timed = {}, ["--threads", threads, "--duration", given.seconds]
        for name in workloads:
            if name == "load":
                found = run([self.program, "bench", store, *self.LOAD, *sizes])
            else:
                word, *shared = name.split("-")
                flags = ["--shared"] if shared else []
                found = run([self.program, "bench", store, word, *sizes, *timed, *flags])
            rates[name] = next(iter(found.values()))
        return rates


def build(target):
    """Builds the programs of the peers, and returns the engines."""
    target.mkdir(parents=True, exist_ok=True)
    rocksdb, badger = target / "rocksdb", target / "badger"
    cxx = ["c++", "-O2", "-std=c++17", HERE / "rocksdb.cc", "-o", rocksdb, "-lrocksdb", "-pthread"]
    subprocess.run(cxx, check=True)
    subprocess.run(["go", "build", "-o", badger, "."], cwd=HERE / "badger", check=True)
    return [Peer("rocksdb", rocksdb), Peer("badger", badger)]


def compare(engines, given):
    """All rates: {(threads, workload): {engine: [rate, …]}}."""
    rates = {}
    for _ in range(given.repeats):
        for threads in given.threads:
            for engine in engines:
                for what, workloads, num in [("", LOADED, given.num), *COUNTERS]:
                    store = given.dir / f"compare-{engine.name}"
                    shutil.rmtree(store, ignore_errors=True)
                    found = engine.measure(store, ["load", *workloads], num, threads, given)
                    shutil.rmtree(store, ignore_errors=True)
                    found.pop("load")
                    for name, rate in found.items():
                        by_engine = rates.setdefault((threads, name + what), {})
                        by_engine.setdefault(engine.name, []).append(rate)
    return rates


def table(rates, names):
    """Medians and spreads as Markdown, and CleaveDB's share of the best peer's median."""
    lines = ["| threads | workload | " + " | ".join(names) + " | of the best peer |"]
    lines.append("|---:|---|" + "---:|" * (len(names) + 1))
    for (threads, workload), by_engine in sorted(rates.items()):
        cells = [record.median_and_spread(by_engine.get(name, [])) for name in names]
        medians = {name: record.median(found) for name, found in by_engine.items()}
        ours = medians.pop(Cleave.name)
        row = [str(threads), workload, *cells, record.number(ours / max(medians.values()))]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def arguments():
    """What the command takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", required=True, type=Path, help="a folder for the stores")
    parser.add_argument("--cleave", default=HERE.parents[1] / "target/release/cleave", type=Path)
    parser.add_argument("--num", default=100_000, type=int, help="keys [100000]")
    parser.add_argument("--value-size", default=100, type=int, help="bytes of a value [100]")
    parser.add_argument("--threads", default=[1, 8], type=int, nargs="+", help="[1 8]")
    parser.add_argument("--seconds", default=4, type=int, help="for each workload [4]")
    parser.add_argument("--repeats", default=3, type=int, help="runs of each engine [3]")
    parser.add_argument("--out", type=Path, help="where the record goes [standard output only]")
    return parser.parse_args()


def main():
    """Builds, runs, prints."""
    given = arguments()
    given.dir.mkdir(parents=True, exist_ok=True)
    engines = [Cleave(given.cleave), *build(given.dir / "compare-programs")]
    rates = compare(engines, given)
    words = f"--num {given.num} --value-size {given.value_size} --seconds {given.seconds}"
    threads = " ".join(str(count) for count in given.threads)
    command = f"python3 bench/compare/conditional.py --dir DIR {words} --threads {threads}"
    sections = [
        f"{given.num:,} keys of 16 bytes with values of {given.value_size}, which fit into memory; "
        "a thousand counters. Operations per second: the median of all runs and the lowest and "
        "highest. An operation of `batchget` and `transactions` is four gets and four puts of "
        "other keys.",
        table(rates, [engine.name for engine in engines]),
    ]
    title = "Compare-and-set, counters and transactions beside the peers"
    text = record.page(title, f"{command} --repeats {given.repeats}", given.dir, sections)
    print(text)
    if given.out:
        print(record.save(text, "compare-conditional", given.out), file=sys.stderr)


if __name__ == "__main__":
    main()

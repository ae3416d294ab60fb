#!/usr/bin/env python3
"""What the C face costs over the Rust API: 1 KiB puts and gets, in instructions and in time.

Instructions: callgrind counts two runs of different length; the difference is what the operations
took, without opening and closing, and less what making the keys took. Only the calling thread
counts: whether flush or value GC comes by in one run and not in the other would be all one sees.

Time: what the calling thread ran, so that other load on the machine counts little. Both sides take
turns, on a fresh database for puts and on the same full one for gets (how its files lie in the page
cache matters more than who reads them); medians and the fastest of the runs.

Usage: overhead.py [ROUNDS [COUNT]]    needs cargo, cc and valgrind
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
RELEASE = os.path.join(TARGET, "release")


def build(folder):
    cargo = ["cargo", "build", "--release", "--locked", "-p", "cleavedb-c"]
    cargo += ["--lib", "--example", "overhead"]
    subprocess.run(cargo, cwd=ROOT, check=True)
    for name in ("libcleavedb.so", "libcleavedb.so.0"):
        os.symlink(os.path.join(RELEASE, "libcleavedb.so"), os.path.join(folder, name))
    program = os.path.join(folder, "overhead")
    subprocess.run(
        ["cc", "-O2", "-o", program, os.path.join(HERE, "overhead.c"),
         "-I" + os.path.join(HERE, "..", "include"), "-L" + folder, "-lcleavedb"],
        check=True)
    return {"rust": os.path.join(RELEASE, "examples", "overhead"), "c": program}


def run(command, folder):
    environment = dict(os.environ, LD_LIBRARY_PATH=folder)
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True)


def instructions(program, folder, what, count):
    """Instructions of one operation."""
    totals = []
    for number in (count, 2 * count):
        data = os.path.join(folder, "callgrind")
        shutil.rmtree(data, ignore_errors=True)
        if what != "put":
            run([program, data, "put", str(2 * count)], folder)
        counts = os.path.join(folder, "counts")
        valgrind = ["valgrind", "--tool=callgrind", "--separate-threads=yes"]
        valgrind += ["--callgrind-out-file=" + counts]
        run(valgrind + [program, data, what, str(number)], folder)
        # Threads are numbered as they start, and each has a file of its own.
        with open(counts + "-01") as file:
            found = re.search(r"^totals: (\d+)", file.read(), re.MULTILINE)
        totals.append(int(found.group(1)))
    return (totals[1] - totals[0]) / count


def times(programs, folder, rounds, count):
    measured = {}
    for number in range(rounds):
        order = sorted(programs, reverse=number % 2 == 1)
        for what in ("put", "get"):
            for side in order:
                data = os.path.join(folder, "data")
                if what == "put":
                    shutil.rmtree(data, ignore_errors=True)
                output = run([programs[side], data, what, str(count)], folder).stdout
                measured.setdefault((what, side), []).append(float(output.split()[0]))
    return {"median ns": {key: statistics.median(runs) for key, runs in measured.items()},
            "fastest ns": {key: min(runs) for key, runs in measured.items()}}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 30_000
    with tempfile.TemporaryDirectory() as folder:
        programs = build(folder)
        counted = {}
        for side, program in programs.items():
            keys = instructions(program, folder, "none", 20_000)
            for what in ("put", "get"):
                counted[what, side] = instructions(program, folder, what, 20_000) - keys
        timed = times(programs, folder, rounds, count)
    print("| operation | measure | Rust | C | C over Rust |")
    print("|---|---|---|---|---|")
    for what in ("put", "get"):
        for name, table in {"instructions": counted, **timed}.items():
            rust, c = table[what, "rust"], table[what, "c"]
            over = 100 * (c / rust - 1)
            print(f"| {what} 1 KiB | {name} | {rust:.0f} | {c:.0f} | {over:+.1f} % |")


if __name__ == "__main__":
    main()

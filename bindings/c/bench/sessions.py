#!/usr/bin/env python3
"""What a short session costs, beside LevelDB: one program, linked to either library.

Each side takes turns; medians of the runs. A session is an opening and a closing, with a put in
between or without; `open after N` is a session without a write on a database that N sessions of one
put have left.

Usage: sessions.py [--dir DIR] [ROUNDS [CYCLES]]    needs cargo, cc and LevelDB's header and library
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
ROWS = (
    ("create", "create, close", 8),
    ("open", "open, close", 2),
    ("open_after_10", "open, close after 10 sessions of a put", 2),
    ("open_after_all", "open, close after {cycles} sessions of a put", 2),
    ("put_last", "open, put, close: median of the last 1000", 6),
    ("put_longest", "open, put, close: the longest of them", None),
)


def build(folder):
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "cleavedb-c", "--lib"],
                   cwd=ROOT, check=True)
    for name in ("libcleavedb.so", "libcleavedb.so.0"):
        os.symlink(os.path.join(TARGET, "release", "libcleavedb.so"), os.path.join(folder, name))
    programs = {}
    for library in ("cleavedb", "leveldb"):
        programs[library] = os.path.join(folder, library)
        subprocess.run(["cc", "-O2", "-o", programs[library], os.path.join(HERE, "sessions.c"),
                        "-I" + os.path.join(HERE, "..", "include"), "-L" + folder,
                        "-l" + library], check=True)
    return programs


def run(program, folder, where, cycles):
    data = tempfile.mkdtemp(prefix="sessions-", dir=where)
    try:
        environment = dict(os.environ, LD_LIBRARY_PATH=folder)
        output = subprocess.run([program, data, str(cycles)], env=environment, check=True,
                                capture_output=True, text=True).stdout
        files = len(os.listdir(os.path.join(data, "40")))
    finally:
        shutil.rmtree(data)
    figures = {name: float(value) for name, value in map(str.split, output.splitlines())}
    return dict(figures, files=files)


def main():
    arguments = sys.argv[1:]
    where = None
    if arguments[:1] == ["--dir"]:
        where, arguments = arguments[1], arguments[2:]
    rounds = int(arguments[0]) if arguments else 3
    cycles = int(arguments[1]) if len(arguments) > 1 else 5000
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        programs = build(folder)
        for number in range(rounds):
            for library in sorted(programs, reverse=number % 2 == 1):
                found = run(programs[library], folder, where, cycles)
                runs.setdefault(library, []).append(found)
    middle = {library: {name: statistics.median(run[name] for run in found) for name in found[0]}
              for library, found in runs.items()}
    print("| session | CleaveDB ms | LevelDB ms | goal ms |")
    print("|---|---:|---:|---:|")
    for name, title, goal in ROWS:
        ours, theirs = middle["cleavedb"][name], middle["leveldb"][name]
        wanted = "" if goal is None else f"{goal}"
        print(f"| {title.format(cycles=cycles)} | {ours:.2f} | {theirs:.2f} | {wanted} |")
    print(f"| files at the end | {middle['cleavedb']['files']:.0f} |"
          f" {middle['leveldb']['files']:.0f} | |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures the figures of CleaveDB and records them; see bench/README.md."""

import argparse
import sys
from pathlib import Path

from harness import measure, record
from harness.cases import CASES
from harness.chart import Picture
from harness.cleave import BenchError, Cleave
from harness.collection import gc_cost, reorganize
from harness.figures import ENGINE, Setting
from harness.gcload import gc_load
from harness.hot import GEOMETRIES, HOT
from harness.pinned import pinned_tree
from harness.space import space, space_drop, space_expiry

HERE = Path(__file__).resolve().parent
FIGURES = {
    **ENGINE,
    "space": space,
    "space-drop": space_drop,
    "space-expiry": space_expiry,
    "gc-cost": gc_cost,
    "reorganize": reorganize,
    "gc-load": gc_load,
    "pinned-tree": pinned_tree,
    **HOT,
}
# These take nothing of what overwriting takes.
LOADS = ["gc-load", *HOT]
# These overwrite nothing.
READS = ["pinned-tree"]
# To these the bounds of space mean something.
BOUNDED = ["space", "space-drop", "space-expiry", "gc-cost", "reorganize"]
SUFFIXES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    """`512M` as bytes."""
    if text[-1:].upper() in SUFFIXES:
        return int(text[:-1]) * SUFFIXES[text[-1].upper()]
    return int(text)


def arguments():
    """What the command takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", choices=[*FIGURES, "all"])
    parser.add_argument("--dir", required=True, type=Path, help="a folder on the disk to measure")
    parser.add_argument("--cleave", default=HERE.parent / "target/release/cleave", type=Path)
    parser.add_argument("--memory", default=512 << 20, type=size, help="limit [512M]")
    parser.add_argument("--repeats", default=3, type=int, help="runs of each side [3]")
    parser.add_argument("--num", default=4 << 20, type=int, help="keys [4194304]")
    parser.add_argument("--ops", default=200_000, type=int, help="gets or steps a run [200000]")
    parser.add_argument("--max-replay", default=512 << 20, type=size, help="as the store has it")
    parser.add_argument("--data", default=2 << 30, type=size, help="overwritten data [2G]")
    parser.add_argument("--total", default=8, type=float, help="how often it is overwritten [8]")
    parser.add_argument("--idle", default=60, type=int, help="seconds of idling [60]")
    parser.add_argument("--ceiling", type=float, help="max_space_amplification [the store's 2.0]")
    parser.add_argument("--settled", type=float, help="settled_space_amplification [its 1.2]")
    parser.add_argument(
        "--case", action="append", choices=[case.name for case in CASES], help="only that [all]"
    )
    parser.add_argument(
        "--geometry",
        action="append",
        choices=[geometry.name for geometry in GEOMETRIES],
        help="of the figures of the update table: only that [all]",
    )
    parser.add_argument("--out", default=HERE / "record", type=Path, help="[bench/record]")
    given = parser.parse_args()
    if bounds(given) and given.figure not in [*BOUNDED, "all"]:
        parser.error(f"--ceiling and --settled mean nothing to {given.figure}")
    return given


def command_line(given):
    """The command as others would repeat it, without the paths of this machine."""
    words = [f"python3 bench/figures.py {given.figure} --dir DIR --memory {given.memory >> 20}M"]
    words.append(f"--repeats {given.repeats}")
    if given.figure in [*ENGINE, *READS, "all"]:
        words.append(f"--num {given.num} --ops {given.ops}")
    if given.figure in [*ENGINE, "all"]:
        words.append(f"--max-replay {given.max_replay >> 20}M")
    if given.figure in LOADS:
        words.append(f"--data {given.data >> 20}M")
        words += [f"--geometry {name}" for name in given.geometry or []]
    elif given.figure not in [*ENGINE, *READS]:
        words.append(f"--data {given.data >> 20}M --total {given.total:g} --idle {given.idle}")
        words += [f"--{name} {bound:g}" for name, bound in bounds(given).items()]
        words += [f"--case {name}" for name in given.case or []]
    return " ".join(words)


def bounds(given):
    """The bounds of space that were given."""
    both = {"ceiling": given.ceiling, "settled": given.settled}
    return {name: bound for name, bound in both.items() if bound is not None}


def setting_of(given, name):
    """What a figure measures with; each store of those that take the bounds of space has them."""
    setting = Setting(
        cleave=Cleave(str(given.cleave)),
        folder=given.dir,
        memory_bytes=given.memory,
        repeats=given.repeats,
        num=given.num,
        ops=given.ops,
        max_replay_bytes=given.max_replay,
        data_bytes=given.data,
        total=given.total,
        idle_seconds=given.idle,
        **bounds(given),
        geometries=[
            geometry for geometry in GEOMETRIES
            if geometry.name in (given.geometry or [geometry.name])
        ],
        cases=[case for case in CASES if case.name in (given.case or [case.name])],
    )
    if name in BOUNDED:
        setting.cleave.always = {
            "max_space_amplification": setting.ceiling,
            "settled_space_amplification": setting.settled,
        }
    return setting


def main():
    """The command; 0 if all was measured."""
    given = arguments()
    if not given.cleave.is_file():
        sys.exit(f"{given.cleave} is not there; run cargo build --release -p cleavedb-cli")
    given.dir.mkdir(parents=True, exist_ok=True)
    measure.open_files_limit()
    for name in FIGURES if given.figure == "all" else [given.figure]:
        print(f"== {name}", file=sys.stderr)
        title = FIGURES[name].__doc__.rstrip(".")
        try:
            sections = FIGURES[name](setting_of(given, name))
        except BenchError as error:
            sys.exit(f"bench: {error}")
        text = record.page(title, command_line(given), given.dir, sections)
        picture = next((part for part in sections if isinstance(part, Picture)), None)
        file_name = "-".join([name, *(given.geometry or [] if name in HOT else [])])
        path = record.save(text, file_name, given.out, picture=picture)
        print(path.read_text())
        print(f"== recorded in {path}", file=sys.stderr)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs the same work with CleaveDB and its peers by turns, one JSON line each; see README.md."""

import argparse
import json
from pathlib import Path

import command
import plan
import runner


def chosen(scale, names):
    """The steps that were asked for, with their places, and the loads of their stores."""
    steps = plan.steps(scale)
    stores = {step.store for step in steps if not names or step.name in names}
    return [
        (number, step)
        for number, step in enumerate(steps)
        if not names or step.name in names or step.fresh and step.store in stores
    ]


def arguments():
    """What the command takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scale", choices=plan.SCALES)
    parser.add_argument("--out", required=True, type=Path, help="the file of JSON lines; is new")
    parser.add_argument("--step", action="append", help="only that, and its load [all]")
    command.options(parser)
    return parser.parse_args()


def main():
    """Builds, checks, runs."""
    given = arguments()
    scale = command.scaled(plan.SCALES[given.scale], given)
    names = given.engine or list(scale.engines)
    wanted = [engine for engine in plan.ENGINES if not names or engine.name in names]
    words = f"python3 bench/compare/compare.py {scale.name} --dir DIR"
    words += "".join(f" --step {name}" for name in given.step or [])
    with command.prepared(given, "compare", wanted) as (stores, programs):
        with given.out.open("x") as out:
            out.write(json.dumps(command.head(scale, given, words)) + "\n")
            steps = chosen(scale, given.step)
            comparison = runner.Comparison(stores, scale, steps, programs, out)
            comparison.run(lambda value_size: plan.engines_for(value_size, names))


if __name__ == "__main__":
    main()

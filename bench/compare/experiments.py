#!/usr/bin/env python3
"""Runs an experiment of a paper that CleaveDB follows, with peers, and records it; see README."""

import argparse
import copy
import json
import sys
from dataclasses import replace
from pathlib import Path

import command
import drawing
import plan
import results
import runner
from harness import chart, record
from papers import EXPERIMENTS

# What `values` runs: the experiments of where a value belongs.
VALUES = ("titan", "plane", "auto", "turns", "ratio", "holes")


def engines_of(experiment, given):
    """The engines that run at a size of values, in the order of the plan."""
    names = given.engine or experiment.engines
    return lambda size: plan.engines_for(size, names, experiment.threshold)


def scaled(experiment, given):
    """Its size, with what was asked for."""
    scale = command.scaled(experiment.scale(), given)
    fields = {"cache_mb": given.cache, "buffer_mb": given.buffer, "rest": given.rest}
    return replace(scale, **{name: value for name, value in fields.items() if value is not None})


def words(given):
    """The command, but for what `command.changed` adds."""
    text = f"python3 bench/compare/experiments.py {given.experiment} --dir DIR"
    text += f" --cache {given.cache}M" if given.cache is not None else ""
    text += f" --buffer {given.buffer}M" if given.buffer is not None else ""
    return text + (f" --rest {given.rest:g}" if given.rest is not None else "")


def run(experiment, given, path):
    """Runs it; the file gets a head and a line for each process."""
    scale, of_size = scaled(experiment, given), engines_of(experiment, given)
    wanted = {engine for size in scale.value_sizes for engine in of_size(size)}
    with command.prepared(given, experiment.name, wanted) as (stores, programs):
        with path.open("w") as out:
            out.write(json.dumps(command.head(scale, given, words(given))) + "\n")
            steps = list(enumerate(experiment.steps))
            runner.Comparison(stores, scale, steps, programs, out).run(of_size)


def save(experiment, path, folder):
    """Writes the record of a file of lines, with its chart and the lines; returns its path."""
    text = path.read_text()
    head, lines = results.read(text)
    if head["comparison"] != experiment.name:
        raise ValueError(f"{path} has the lines of {head['comparison']}")
    page, picture = drawing.record_text(experiment, head, lines)
    return record.save(page, experiment.name, folder, picture=picture, lines=text)


def of_values(given):
    """Runs and records the experiments of where a value belongs, one after the other; then a page
    with their charts is recorded, too. Returns its path.
    """
    pages, first = [], None
    for name in VALUES:
        one = copy.copy(given)
        one.experiment = name
        path = given.dir / f"{name}.jsonl"
        run(EXPERIMENTS[name], one, path)
        head, _ = results.read(path.read_text())
        first = first or head
        pages.append((EXPERIMENTS[name], save(EXPERIMENTS[name], path, given.out)))
        print(f"== recorded in {pages[-1][1]}", file=sys.stderr)
    whole = words(given) + command.changed(given)
    return record.save(drawing.index_text(first, whole, pages), "values", given.out)


def arguments():
    """What the command takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=[*EXPERIMENTS, "values"])
    command.options(parser)
    size = command.mebibytes
    parser.add_argument("--cache", type=size, help="block cache of each engine, such as 16M")
    parser.add_argument("--buffer", type=size, help="write buffer of each engine, such as 8M")
    parser.add_argument("--rest", type=float, help="longest wait, in seconds, for rest")
    out = command.ROOT / "bench/record"
    parser.add_argument("--out", type=Path, default=out, help="where the record goes")
    parser.add_argument("--lines", type=Path, help="record this file's lines, and run nothing")
    given = parser.parse_args()
    if len(set(given.engine or [])) > chart.MOST_SERIES:
        parser.error(f"a chart has colours for {chart.MOST_SERIES} engines")
    if given.experiment == "values" and (given.engine or given.value_size or given.lines):
        parser.error("values runs each experiment with its own engines and sizes, and always runs")
    return given


def main():
    """Runs, draws, records."""
    given = arguments()
    if given.experiment == "values":
        given.dir.mkdir(parents=True, exist_ok=True)
        print(f"== recorded in {of_values(given)}", file=sys.stderr)
        return
    experiment = EXPERIMENTS[given.experiment]
    # The lines stay there if the command is ended.
    path = given.lines or given.dir / f"{experiment.name}.jsonl"
    if not given.lines:
        given.dir.mkdir(parents=True, exist_ok=True)
        run(experiment, given, path)
    try:
        saved = save(experiment, path, given.out)
    except (OSError, ValueError) as error:
        sys.exit(f"{experiment.name}: {error}")
    print(saved.read_text())
    print(f"== recorded in {saved}", file=sys.stderr)


if __name__ == "__main__":
    main()

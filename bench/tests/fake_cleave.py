#!/usr/bin/env python3
"""Stands in for `cleave` in the harness's tests: same flags, same output, a file, no engine."""

import json
import os
import sys
from pathlib import Path


def flag(words, name, default):
    """The number behind a flag."""
    return int(words[words.index(name) + 1]) if name in words else default


def bench(store, workload, words):
    """One workload; only writing does anything."""
    ops = flag(words, "--reads", flag(words, "--num", 0))
    value_size = flag(words, "--value-size", 100)
    if workload == "fillrandom":
        store.mkdir()
        with (store / "1.seg").open("wb", buffering=0) as log:
            for _ in range(ops):
                log.write(os.urandom(16 + value_size))
    elif workload == "readmissing" and "--fail" in words:
        sys.exit("it failed")
    seconds = 2.0 if "--no-prefetch" in words else 0.5
    print(json.dumps({
        "workload": workload, "ops": ops, "seconds": seconds, "ops_per_second": ops / seconds,
        "bytes": ops * value_size, "p50_us": 1, "p99_us": 5, "p999_us": 7, "max_us": 9,
    }))
    parts = {"cache_capacity_bytes": 1 << 20, "memtable_capacity_bytes": 2 << 20}
    print(json.dumps({"stats": {"memory": {**parts, "filter_bytes": 0}}}))


def main():
    """The command."""
    match sys.argv[1:]:
        case ["bench", store, workload, *words]:
            bench(Path(store), workload, words)
        case ["stats", store, "--json"]:
            size = (Path(store) / "1.seg").stat().st_size
            print(json.dumps({"recovery": {"replayed_bytes": size}}))
        case _:
            sys.exit(f"unknown: {sys.argv}")


if __name__ == "__main__":
    main()

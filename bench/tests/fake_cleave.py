#!/usr/bin/env python3
"""Stands in for `cleave` in the harness's tests: same flags, same output, a file, no engine."""

import json
import os
import sys
import time
from pathlib import Path


def flag(words, name, default):
    """The number behind a flag."""
    return float(words[words.index(name) + 1]) if name in words else default


def bench(store, workloads, words):
    """Workloads one after the other, and the statistics."""
    for workload in workloads.split(","):
        size = run(store, workload, words)
    parts = {"cache_capacity_bytes": 1 << 20, "memtable_capacity_bytes": 2 << 20}
    written = {"user_bytes_written": size, "log_bytes_written": size * 3}
    print(json.dumps({"stats": {
        "memory": {**parts, "filter_bytes": 0}, "gets": 4, "short_cut_reads": 1, **written,
    }}))


def run(store, workload, words):
    """One workload; only writing and deleting do anything. Returns the bytes of its values."""
    num = int(flag(words, "--num", 0))
    ops = int(flag(words, "--reads", num) * flag(words, "--total", 1))
    value_size = int(flag(words, "--value-size", 100))
    log = store / "1.seg"
    if workload in ("fillrandom", "fillseq"):
        store.mkdir(exist_ok=True)
        with log.open("wb", buffering=0) as file:
            for _ in range(ops):
                file.write(os.urandom(16 + value_size))
    elif workload == "deleteall":
        log.unlink()
    elif workload == "readmissing" and "--fail" in words:
        sys.exit("it failed")
    seconds = 2.0 if "--no-prefetch" in words else 0.5
    latencies = {"mean_us": 2, "p50_us": 1, "p99_us": 5, "p999_us": 7, "max_us": 9}
    reads = {"ops": 1, "ops_per_second": 2, **latencies}
    more = {"reads": reads} if "--readers" in words else {}
    if workload.startswith("ycsb"):
        # The update table makes reads half as slow.
        slow = 1 if flag(words, "--update-table-mb", 0) else 2
        more = {
            "reads": reads | {"mean_us": 10 * slow, "p99_us": 50},
            "writes": reads | {"ops": 0 if workload == "ycsbc" else 1},
        }
    if "--collect" in words:
        more = {"gc": {
            "seconds": 0.25, "ops": 5, "ops_per_second": ops / seconds * 0.75,
            "bytes_freed": 1 << 21, "bytes_written": 1 << 20,
        }}
    print(json.dumps({
        "workload": workload, "ops": ops, "seconds": seconds, "ops_per_second": ops / seconds,
        "bytes": ops * value_size, "found": ops, **latencies, **more,
    }), flush=True)
    ttl = flag(words, "--ttl", 0)
    time.sleep(ttl)
    if ttl:
        log.write_bytes(b"what is left")
    time.sleep(flag(words, "--idle", 0) - ttl)
    return ops * value_size


def main():
    """The command."""
    if "FAKE_CLEAVE_LOG" in os.environ:
        with open(os.environ["FAKE_CLEAVE_LOG"], "a") as log:
            log.write(json.dumps(sys.argv[1:]) + "\n")
    match sys.argv[1:]:
        case ["bench", store, workload, *words]:
            bench(Path(store), workload, words)
        case ["stats", store, "--json"]:
            size = (Path(store) / "1.seg").stat().st_size
            print(json.dumps({"recovery": {"replayed_bytes": size}}))
        case ["reorganize", store]:
            (Path(store) / "1.seg").stat()
        case _:
            sys.exit(f"unknown: {sys.argv}")


if __name__ == "__main__":
    main()

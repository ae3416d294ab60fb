"""The command `cleave bench`: the one place that knows its flags and what it prints.

With `--json` it prints one object a line for each workload, with `workload`, `ops`, `seconds`,
`ops_per_second`, `bytes`, `mean_us`, `p50_us`, `p99_us`, `p999_us`, `max_us`, and at last
`{"stats": {…}}`. YCSB's workloads have `reads` and `writes` with figures of their own.
"""

import json
from dataclasses import dataclass, field


class BenchError(Exception):
    """A run that cannot count: what happened, and what the command said."""


@dataclass
class Cleave:
    """How to call it."""

    program: str
    # Flags that each `cleave bench` gets: what a figure sets for all of its stores.
    always: dict = field(default_factory=dict)

    def bench(self, store, workload, **flags):
        """The command line for a workload, or several with commas between; `value_size=1024`
        becomes `--value-size 1024`.
        """
        command = [self.program, "bench", str(store), workload]
        for name, value in {**self.always, **flags}.items():
            flag = "--" + name.replace("_", "-")
            if value is True:
                command.append(flag)
            elif value is not None and value is not False:
                command += [flag, str(value)]
        return command + ["--json"]

    def fill(self, store, num, value_size, **flags):
        """Writes `num` keys in random order by one thread, handed to the kernel each."""
        return self.bench(
            store,
            "fillrandom",
            num=num,
            value_size=value_size,
            threads=1,
            durability="os",
            **flags,
        )

    def overwrite(self, store, num, case, total, **flags):
        """Writes the data again, `total` times, by one thread."""
        return self.bench(
            store,
            "overwrite",
            num=num,
            value_size=case.value_size,
            distribution=case.distribution,
            total=f"{total:g}",
            threads=1,
            durability="os",
            **flags,
        )

    def delete_all(self, store, num, idle_seconds):
        """Deletes all keys, prints the result and then does nothing for a while."""
        return self.bench(store, "deleteall", num=num, batch=100, idle=idle_seconds)

    def reorganize(self, store):
        """Rewrites all values in the order of their keys."""
        return [self.program, "reorganize", str(store)]

    def settle(self, store):
        """Opens the store and waits until no flush or compaction is due."""
        return self.bench(store, "readrandom", num=1, reads=1, settle=True)

    def stats(self, store):
        """Opens the store and prints its statistics as one JSON object."""
        return [self.program, "stats", str(store), "--json"]


def parse(result):
    """The workloads' objects by name, and the statistics."""
    if result.exit_code != 0:
        raise BenchError(f"{' '.join(result.command)} failed ({result.exit_code}): {result.stderr}")
    workloads, stats = {}, {}
    for line in result.stdout.splitlines():
        if not line.startswith("{"):
            continue
        found = json.loads(line)
        if "workload" in found:
            workloads[found["workload"]] = found
        elif "stats" in found:
            stats = found["stats"]
    return workloads, stats


def workload(result, name):
    """One workload's object."""
    found, _ = parse(result)
    if name not in found:
        raise BenchError(f"{' '.join(result.command)} printed no result for {name}")
    return found[name]


def find_number(tree, name):
    """The first number of that name anywhere in the statistics; None if there is none."""
    if isinstance(tree, dict):
        value = tree.get(name)
        if isinstance(value, (int, float)):
            return value
        tree = list(tree.values())
    if isinstance(tree, list):
        for inner in tree:
            if (value := find_number(inner, name)) is not None:
                return value
    return None


# The writes of value GC are counted under other names.
GC_WRITES = ("gc_bytes_moved", "gc_relocation_bytes")


def written_bytes(stats):
    """All that the engine says it wrote: each count `*_bytes_written` but that of its users, and
    what value GC moved.

    None if there is none.
    """
    found = {}
    collect_written(stats, found)
    found.pop("user_bytes_written", None)
    return sum(found.values()) if found else None


def collect_written(tree, found):
    """Notes the first count of each name."""
    if isinstance(tree, list):
        tree = dict(enumerate(tree))
    if isinstance(tree, dict):
        for name, value in tree.items():
            counts = str(name).endswith("_bytes_written") or name in GC_WRITES
            if counts and isinstance(value, (int, float)):
                found.setdefault(name, value)
            collect_written(value, found)

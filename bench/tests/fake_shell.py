#!/usr/bin/env python3
"""Stands in for `cleave shell` on a small disk: a dictionary that takes FAKE_BYTES at most.

FAKE_FAULT makes it bad: `loses` a key when it is opened, `revives` a deleted one, gives a key the
value of another (`mixes`), refuses deletions when it is full (`refuses`), keeps the space of what
was deleted (`hoards`), or fails otherwise than it may (`breaks`).
"""

import json
import os
import sys
from pathlib import Path

FULL = "ERR cannot write: No space left on device; free space on this file system; then it resumes"


class Store:
    """What is kept, and how much more fits."""

    def __init__(self, folder):
        self.fault = os.environ.get("FAKE_FAULT")
        self.limit = int(os.environ["FAKE_BYTES"])
        self.file = folder / "pairs.json"
        folder.mkdir(exist_ok=True)
        kept = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.pairs, self.gone = kept.get("pairs", {}), kept.get("gone", {})
        self.deleted_bytes = kept.get("deleted_bytes", 0)
        self.full = False
        if self.pairs and self.fault == "loses":
            self.pairs.popitem()
        if self.gone and self.fault == "revives":
            self.pairs.update([self.gone.popitem()])
        if len(self.pairs) > 1 and self.fault == "mixes":
            first, second, *_ = self.pairs
            self.pairs[first] = self.pairs[second]

    def taken(self):
        """Bytes in use."""
        live = sum(len(key) + len(value) for key, value in self.pairs.items())
        return live + (self.deleted_bytes if self.fault == "hoards" else 0)

    def put(self, key, value):
        """Stores a pair if it fits."""
        if self.fault == "breaks":
            return "ERR something else"
        old = len(key) + len(self.pairs[key]) if key in self.pairs else 0
        self.full = self.taken() - old + len(key) + len(value) > self.limit
        if self.full:
            return FULL
        self.pairs[key] = value
        return "OK"

    def delete(self, key):
        """Removes a key."""
        if self.fault == "refuses" and self.taken() > self.limit * 0.9:
            return FULL
        if key in self.pairs:
            self.gone[key] = self.pairs.pop(key)
            self.deleted_bytes += len(key) + len(self.gone[key])
        return "OK"

    def close(self):
        """Keeps it all."""
        self.file.write_text(json.dumps(
            {"pairs": self.pairs, "gone": self.gone, "deleted_bytes": self.deleted_bytes}
        ))


def main():
    """The command."""
    store = Store(Path(sys.argv[2]))
    for line in sys.stdin:
        match line.split():
            case ["put", key, value]:
                print(store.put(key, value), flush=True)
            case ["del", key]:
                print(store.delete(key), flush=True)
            case ["count"]:
                print(len(store.pairs), flush=True)
            case ["scan"]:
                for key in sorted(store.pairs):
                    print(f"{key}\t{store.pairs[key]}")
                print(f"({len(store.pairs)} pairs)", flush=True)
            case _:
                break
    store.close()


if __name__ == "__main__":
    main()

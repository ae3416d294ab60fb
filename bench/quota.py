#!/usr/bin/env python3
"""Fills a store until its disk is full, deletes half, and again; see bench/README.md."""

import argparse
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import size
from harness import record
from harness.model import Lost, Model
from harness.shell import ERROR, WINDOW, Shell, ShellError

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
# The message that the error of a full disk must have; anything else is a defect.
FULL = "free space on this file system"
RETRY_SECONDS = 0.25
# Every so many writes of a filling replace a value that is there.
REPLACE_EVERY = 4
# The share of the deleted bytes that the next filling must be able to write.
CAME_BACK = 0.5


class Stuck(Exception):
    """The store does not go on after its disk was full."""


class Quota:
    """One store on one small disk, and what it must hold."""

    def __init__(self, given, folder):
        self.given = given
        self.folder = folder
        self.store = folder / "db"
        self.model = Model(given.value_size, given.seed)
        self.random = random.Random(given.seed)
        self.next_number = 0
        self.shell = None

    def round(self):
        """Fills, deletes half, compares all after each step; returns a row of the table."""
        start, compared = time.monotonic(), self.model.compared
        filled, filled_bytes, fill_wait = self.fill()
        self.verify()
        live_bytes, taken = self.model.live_bytes(), self.taken()
        self.reopen()
        victims = self.random.sample(sorted(self.model.versions), len(self.model.versions) // 2)
        freed_bytes = sum(self.model.bytes_of(number) for number in victims)
        delete_wait = self.delete(victims)
        self.verify()
        self.reopen()
        return {
            "filled keys": filled,
            "filled MiB": filled_bytes / MIB,
            "waited s": fill_wait,
            "live MiB": live_bytes / MIB,
            "taken MiB": taken / MIB,
            "live / disk": live_bytes / self.given.size,
            "deleted keys": len(victims),
            "deleted MiB": freed_bytes / MIB,
            "deletes waited s": delete_wait,
            "compared": self.model.compared - compared,
            "s": time.monotonic() - start,
        }

    def open(self):
        """Opens the store; a full disk is no reason not to."""
        try:
            self.shell = Shell(self.given.cleave, self.store)
            answer = self.shell.ask(["count"])[0]
            if answer.startswith(ERROR):
                raise ShellError(answer)
        except ShellError as error:
            raise Stuck(f"the store cannot be opened: {error}") from None

    def reopen(self):
        """Closes and opens the store, and compares again."""
        self.shell.close()
        self.end()
        self.open()
        self.verify()

    def end(self):
        """Ends the process, if there is one."""
        if self.shell is not None:
            self.shell.__exit__()
            self.shell = None

    def verify(self):
        """Compares every pair with the model."""
        self.model.verify(self.shell.scan())

    def fill(self):
        """Writes until nothing fits: (keys, bytes, seconds of waiting for space)."""
        count = total = 0
        waited, refused = 0.0, []
        while waited <= self.given.patience:
            writes = refused or self.some_writes()
            refused = self.send(writes)
            stored = [write for write in writes if write not in refused]
            count += len(stored)
            total += sum(16 + len(self.model.value(*write)) for write in stored)
            if refused:
                time.sleep(RETRY_SECONDS)
                waited += RETRY_SECONDS
        return count, total, waited

    def some_writes(self):
        """(number, version) of as many new keys as are sent at a time, some of them replaced."""
        writes = []
        for at in range(WINDOW):
            if at % REPLACE_EVERY == 0 and self.next_number > WINDOW:
                number = self.random.randrange(self.next_number - WINDOW)
            else:
                number = self.next_number
                self.next_number += 1
            writes.append((number, self.model.fresh_version()))
        # No key twice at a time: then the order of answers would matter.
        return list(dict(writes).items())

    def delete(self, numbers):
        """Deletes keys; returns the seconds of waiting until the store accepted that."""
        waited, left = 0.0, [(number, None) for number in numbers]
        while left:
            refused = self.send(left[:WINDOW])
            left[:WINDOW] = refused
            if refused:
                if waited > self.given.patience:
                    raise Stuck(
                        f"deleting is refused for {waited:.0f} s on the full disk: {self.refusal}"
                    )
                time.sleep(RETRY_SECONDS)
                waited += RETRY_SECONDS
        return waited

    def send(self, writes):
        """Sends writes; returns those that were refused because the disk is full."""
        commands = [
            f"del {self.model.key(number)}" if version is None
            else f"put {self.model.key(number)} {self.model.value(number, version)}"
            for number, version in writes
        ]
        refused = []
        for write, answer in zip(writes, self.shell.ask(commands), strict=True):
            if answer == "OK":
                self.model.done(*write)
            elif answer.startswith(ERROR) and FULL in answer:
                self.refusal = answer
                self.model.refused(*write)
                refused.append(write)
            else:
                raise Stuck(f"a write failed, but not as on a full disk: {answer}")
        return refused

    def taken(self):
        """Bytes of the disk in use."""
        return shutil.disk_usage(self.folder).used


def rounds(given, folder):
    """All rounds: their rows, and why it ended early."""
    quota, rows = Quota(given, folder), []
    try:
        quota.open()
        for at in range(1, given.rounds + 1):
            rows.append(quota.round())
            print(f"  round {at}: {rows[-1]['filled keys']:,} keys filled", file=sys.stderr)
    except Lost as error:
        return rows, f"lost in round {len(rows) + 1}: {error}"
    except (Stuck, ShellError) as error:
        return rows, f"stuck in round {len(rows) + 1}: {error}"
    finally:
        quota.end()
    return rows, None


def came_back(rows):
    """The least share of deleted bytes that the next filling could write; None for one round."""
    pairs = zip(rows, rows[1:])
    return min((b["filled MiB"] / a["deleted MiB"] for a, b in pairs), default=None)


@contextlib.contextmanager
def small_disk(given):
    """A folder on a tmpfs of its own, or the one that was given."""
    if given.dir is not None:
        given.dir.mkdir(parents=True, exist_ok=True)
        yield given.dir
        return
    if os.geteuid() != 0:
        sys.exit("mounting a small tmpfs needs root; or give --dir, a folder on a small disk")
    with tempfile.TemporaryDirectory(prefix="cleavedb-quota-") as folder:
        options = f"size={given.size},mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "quota", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def arguments():
    """What the command takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cleave", default=HERE.parent / "target/release/cleave", type=Path)
    parser.add_argument("--size", default=256 << 20, type=size, help="of the tmpfs [256M]")
    parser.add_argument("--dir", type=Path, help="this folder instead of a tmpfs, of --size")
    parser.add_argument("--rounds", default=10, type=int, help="[10]")
    parser.add_argument("--value-size", default=1024, type=size, help="mean bytes [1024]")
    parser.add_argument("--patience", default=10, type=float, help="s to wait for space [10]")
    parser.add_argument("--seed", default=1, type=int, help="of keys and of what goes [1]")
    return parser.parse_args()


def main():
    """The command; 0 if nothing was lost and the space came back."""
    given = arguments()
    with small_disk(given) as folder:
        rows, ended = rounds(given, folder)
    if rows:
        print(record.table(list(rows[0]), rows) + "\n")
        compared = sum(row["compared"] for row in rows)
        print(f"- rounds: {len(rows)} of {given.rounds}; {compared:,} values compared")
    share = came_back(rows)
    if share is not None:
        what = "least share of the deleted bytes that could be written again"
        print(record.verdict(what, share, CAME_BACK, at_most=False))
    print(f"- {ended}" if ended else "- nothing lost")
    sys.exit(1 if ended or share is not None and share < CAME_BACK else 0)


if __name__ == "__main__":
    main()

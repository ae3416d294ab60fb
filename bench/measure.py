#!/usr/bin/env python3
"""Runs one command below a memory limit and prints what it cost as JSON; see bench/README.md."""

import argparse
import json
import sys
from pathlib import Path

from figures import size
from harness import measure


def main():
    """The command; its exit status is that of the command it runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", required=True, type=Path, help="the folder of its files")
    parser.add_argument("--memory", type=size, help="limit, page cache included, such as 512M")
    parser.add_argument("--cold", action="store_true", help="drop its files from the page cache")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        parser.error("give a command behind --")
    measure.open_files_limit()
    result = measure.run(command, given.dir, given.memory, given.cold)
    print(json.dumps(result.as_dict(), indent=2))
    sys.exit(min(abs(result.exit_code), 125))


if __name__ == "__main__":
    main()

"""The yardstick: plain sequential writing and reading of a file, buffered by the kernel.

    python3 seqio.py write FILE BYTES
    python3 seqio.py read FILE

prints one JSON object with `bytes`, `seconds` and, for writing, `seconds_synced`.
"""

import json
import os
import sys
import time

CHUNK = 1 << 20
# Different bytes in a row as long as a disk's or a kernel's tricks might look for repetition.
CHUNKS = 64


def write(path, size):
    """Writes `size` random bytes in chunks of 1 MiB."""
    chunks = [os.urandom(CHUNK) for _ in range(min(CHUNKS, size // CHUNK + 1))]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    start = time.monotonic()
    done = 0
    while done < size:
        chunk = chunks[done // CHUNK % len(chunks)]
        done += os.write(descriptor, chunk[: size - done])
    seconds = time.monotonic() - start
    os.fsync(descriptor)
    synced = time.monotonic() - start
    os.close(descriptor)
    return {"bytes": done, "seconds": seconds, "seconds_synced": synced}


def read(path):
    """Reads a file from front to back in chunks of 1 MiB."""
    buffer = bytearray(CHUNK)
    start = time.monotonic()
    done = 0
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while count := file.readinto(buffer):
            done += count
    return {"bytes": done, "seconds": time.monotonic() - start}


def main():
    """The command."""
    match sys.argv[1:]:
        case ["write", path, size]:
            print(json.dumps(write(path, int(size))))
        case ["read", path]:
            print(json.dumps(read(path)))
        case _:
            sys.exit(__doc__.strip())


if __name__ == "__main__":
    main()

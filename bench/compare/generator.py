"""The work of the comparison, as `generator.md` specifies it: the reference that tests read.

The programs that drive engines have the same in Rust and in Go; `generator.json` holds checksums
that all three must come to.
"""

import struct
from functools import cache

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
POOL_BYTES = 2 << 20
POOL_SEED, LOAD_SALT, ZIPF_SALT = 7, 11, 13
STAGE_KEYS = 1 << 32
PUT, GET, SCAN, READ_MODIFY_WRITE, GET_MISSING, DELETE, SYNCED_PUT = range(7)
SYNCED_EVERY, SCANNED_EVERY, SCANNED_PAIRS = 64, 32, 100


def mix(number):
    """Scrambles a number."""
    z = (number + GOLDEN) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


class Random:
    """SplitMix64."""

    def __init__(self, state):
        self.state = state

    def next(self):
        """The next 64 bits."""
        drawn = mix(self.state)
        self.state = (self.state + GOLDEN) & WORD
        return drawn

    def below(self, bound):
        """A number below a bound of at most 2^32."""
        return (self.next() >> 32) * bound >> 32

    def unit(self):
        """A number in [0, 1)."""
        return (self.next() >> 11) * (1.0 / (1 << 53))


def permute(count, salt, index):
    """The place of an index in an order that looks random."""
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    at = index
    while True:
        left, right = at >> half, at & mask
        for turn in range(1, 5):
            left, right = right, left ^ (mix(right ^ (salt << 8) ^ (turn << 56)) & mask)
        at = left << half | right
        if at < count:
            return at


def pow100(x):
    """x to the power of a hundred, by multiplications in a fixed order."""
    x4 = (x * x) * (x * x)
    x16 = (x4 * x4) * (x4 * x4)
    x32 = x16 * x16
    return (x32 * x32) * x32 * x4


@cache
def spread(count):
    """What the hundredth root of count + 1 exceeds 1 by."""
    low, high = 1.0, 2.0
    for _ in range(64):
        middle = (low + high) * 0.5
        if pow100(middle) <= float(count + 1):
            low = middle
        else:
            high = middle
    return low - 1.0


def rank(count, random):
    """A rank below count with a share of about rank^-0.99."""
    return min(max(int(pow100(1.0 + random.unit() * spread(count))), 1) - 1, count - 1)


@cache
def pool():
    """Bytes that do not compress."""
    random = Random(mix(POOL_SEED))
    return b"".join(struct.pack("<Q", random.next()) for _ in range(POOL_BYTES // 8))


def value(number, version, size):
    """The value of a number in a version."""
    filling = size - 16
    rotated = (version << 32 | version >> 32) & WORD
    at = mix(number ^ rotated) % (POOL_BYTES - filling)
    return struct.pack("<QQ", number, version) + pool()[at : at + filling]


class Stream:
    """The operations of one thread: (kind, number, pairs, version)."""

    def __init__(self, workload, keys, seed, stage, threads, thread):
        self.workload, self.keys, self.seed = workload, keys, seed
        self.stage, self.threads, self.thread = stage, threads, thread
        self.random = Random(mix(mix(mix(seed) ^ stage) ^ thread))
        self.done = self.inserted = 0

    def next(self):
        """Makes the next one."""
        index = self.done * self.threads + self.thread
        self.done += 1
        return (*self.draw(index), (self.stage << 40) + index)

    def draw(self, index):
        """Kind, number and pairs."""
        match self.workload:
            case "load" | "synced":
                return PUT, permute(self.keys, LOAD_SALT + self.seed, index % self.keys), 0
            case "load-ordered":
                return PUT, index % self.keys, 0
            case "overwrite-uniform":
                return PUT, self.random.below(self.keys), 0
            case "overwrite-zipf":
                return PUT, self.hot(), 0
            case "delete-uniform":
                return DELETE, self.random.below(self.keys), 0
            case "get":
                return GET, self.random.below(self.keys), 0
            case "missing":
                return GET_MISSING, self.random.below(self.keys), 0
            case "turns":
                return self.turns()
            case scan if scan.startswith("scan"):
                return SCAN, self.random.below(self.keys), int(scan.removeprefix("scan"))
        return self.ycsb(self.workload[-1])

    def turns(self):
        """An operation of puts, by turns some synced, the same with scans, and none synced."""
        done = self.done - 1
        turn = done // max(self.keys // 4, 1) % 3
        number = self.random.below(self.keys)
        if turn == 1 and done % SCANNED_EVERY == 0:
            return SCAN, number, SCANNED_PAIRS
        return SYNCED_PUT if turn < 2 and done % SYNCED_EVERY == 1 else PUT, number, 0

    def ycsb(self, letter):
        """An operation of a mix."""
        dice = self.random.below(100)
        if dice < {"a": 50, "b": 5}.get(letter, 0):
            return PUT, self.hot(), 0
        if letter in "de" and dice < 5:
            self.inserted += 1
            return PUT, self.insertion(self.inserted - 1), 0
        if letter == "d":
            back = rank(self.keys, self.random)
            if back < self.inserted:
                return GET, self.insertion(self.inserted - 1 - back), 0
            return GET, self.keys - 1 - (back - self.inserted), 0
        if letter == "e":
            start = self.hot()
            return SCAN, start, 1 + self.random.below(100)
        if letter == "f" and dice < 50:
            return READ_MODIFY_WRITE, self.hot(), 0
        return GET, self.hot(), 0

    def hot(self):
        """A number by its popularity."""
        return permute(self.keys, ZIPF_SALT + self.seed, rank(self.keys, self.random))

    def insertion(self, before):
        """The number that this thread inserts after so many others."""
        return (self.stage + 1) * STAGE_KEYS + before * self.threads + self.thread


def checksum(workload, shape, thread, ops, value_size):
    """FNV-1a over kinds, keys and values of the first operations; `shape` as in `Stream`."""
    total = 0xCBF29CE484222325
    stream = Stream(workload, *shape, thread)
    for _ in range(ops):
        kind, number, pairs, version = stream.next()
        data = bytes([kind, pairs & 255]) + b"%016d" % (number * 2 + (kind == GET_MISSING))
        if kind in (PUT, READ_MODIFY_WRITE, SYNCED_PUT):
            data += value(number, version, value_size)
        for byte in data:
            total = ((total ^ byte) * 0x100000001B3) & WORD
    return f"{total:016x}"

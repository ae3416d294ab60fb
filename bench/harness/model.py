"""What a store must hold: every acknowledged write, and of the others either outcome.

A key is a number, a value is made from its number and version, so that nothing but two numbers a
key is kept here. Lengths differ, so that some values are kept in tables and some apart.
"""

import hashlib


class Lost(Exception):
    """The store does not hold what it acknowledged."""


class Model:
    """Keys, the version each must have, and what is not known for sure."""

    def __init__(self, value_bytes, seed=1):
        self.value_bytes = value_bytes
        self.seed = seed
        self.versions = {}
        self.numbers = {}
        # Of a write that was refused: what it would have made. None is a removed key.
        self.unsure = {}
        self.next_version = 0
        self.compared = 0

    def key(self, number):
        """Keys come in no order of their numbers."""
        key = hashlib.blake2b(f"{self.seed}/{number}".encode(), digest_size=8).hexdigest()
        self.numbers[key] = number
        return key

    def value(self, number, version):
        """From a few bytes to twice the mean, hexadecimal digits."""
        head = f"{self.seed}/{number}/{version}".encode()
        share = int.from_bytes(hashlib.blake2b(head, digest_size=4).digest(), "big") / (1 << 32)
        return hashlib.shake_128(head).hexdigest(8 + int(share * self.value_bytes))

    def fresh_version(self):
        """A version that no write has had."""
        self.next_version += 1
        return self.next_version

    def done(self, number, version):
        """A write was acknowledged; a version of None is a deletion."""
        self.unsure.pop(number, None)
        if version is None:
            self.versions.pop(number, None)
        else:
            self.versions[number] = version

    def refused(self, number, version):
        """A write failed: it may have happened or not, until somebody looks."""
        self.unsure.setdefault(number, set()).add(version)

    def bytes_of(self, number):
        """Key and value as the model has them."""
        return 16 + len(self.value(number, self.versions[number]))

    def live_bytes(self):
        """All keys and values."""
        return sum(self.bytes_of(number) for number in self.versions)

    def verify(self, pairs):
        """Compares all pairs of a store; what was unsure is known from then on."""
        seen = set()
        for key, value in pairs:
            number = self.numbers.get(key)
            if number is None:
                raise Lost(f"there is a key that nobody wrote: {key}")
            known = self.versions.get(number)
            possible = [known, *self.unsure.get(number, ())]
            at = next((v for v in possible if v and self.value(number, v) == value), None)
            if at is None:
                word = "was deleted" if known is None else f"must have version {known}"
                raise Lost(f"key {key} {word}, yet it has the value {value[:40]}…")
            self.done(number, at)
            seen.add(number)
        self._missing(seen)
        self.compared += len(seen)

    def _missing(self, seen):
        for number in [number for number in self.versions if number not in seen]:
            if None not in self.unsure.get(number, ()):
                version = self.versions[number]
                raise Lost(f"key {self.key(number)}, version {version}, is gone")
            self.done(number, None)
        self.unsure.clear()

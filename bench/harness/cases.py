"""What is overwritten in the figures of value GC."""

from dataclasses import dataclass

KEY_BYTES = 16


@dataclass(frozen=True)
class Case:
    """Values of one size, overwritten by one distribution."""

    name: str
    value_size: int
    distribution: str

    def keys(self, data_bytes):
        """How many keys make so many bytes, values included."""
        return max(1, data_bytes // (KEY_BYTES + self.value_size))


CASES = [
    Case("1k-zipf", 1024, "zipf"),
    Case("4k-zipf", 4096, "zipf"),
    Case("1k-uniform", 1024, "uniform"),
    Case("4k-uniform", 4096, "uniform"),
]


def settled_store(setting, name, value_size, num):
    """A store with each of its keys written once, in random order, at rest."""
    store = setting.fresh(name)
    setting.run(setting.cleave.fill(store, num, value_size, unique=True, settle=True))
    return store

"""What an experiment is, and what can be drawn of it."""

from collections.abc import Callable
from dataclasses import dataclass

from plan import MIB, Scale, Step

KIB = 1 << 10
DATA_BYTES, MEMORY_BYTES = 256 * MIB, 96 * MIB
CACHE_MB, BUFFER_MB = 16, 8
SECONDS, REST = 1.5, 20
WHOLE = {"share": 1, "rests": True}
LOAD = Step("load", fresh=True, **WHOLE)
# D and E come last, since they insert.
MIXES = [f"ycsb-{letter}" for letter in "abcfde"]


@dataclass(frozen=True)
class BySize:
    """A figure with a value for each size of values and engine."""

    title: str
    unit: str
    measure: Callable
    follows: str = ""
    # The least is the best.
    least: bool = False
    # Of the axis, where sizes are many.
    log: bool = True


@dataclass(frozen=True)
class ByWorkload:
    """A figure with a value for each workload and engine, for each size of values."""

    title: str
    unit: str
    # Pairs of a label and its measure.
    rows: tuple
    follows: str = ""
    least: bool = False
    # The chart shows multiples of the peer that is judged by.
    relative: bool = False


@dataclass(frozen=True)
class Plane:
    """One measure against another; each engine has a point for each size of values."""

    title: str
    x_unit: str
    y_unit: str
    x: Callable
    y: Callable
    follows: str = ""
    # It is told who is ahead of whom: x should be small, and y large.
    has_front: bool = False


@dataclass(frozen=True)
class Sweep:
    """One measure against another while a setting varies; each engine has a point for each setting,
    and each load a plot of its own. The measures are given for the step that has them.
    """

    title: str
    x_unit: str
    y_unit: str
    x: Callable
    y: Callable
    # What varies.
    setting: str
    # For each load its name, and pairs of a setting and its step.
    loads: tuple
    # What tables tell of each step: title, unit, measure, and whether the least is the best.
    tables: tuple


@dataclass(frozen=True)
class Experiment:
    """What one command runs."""

    name: str
    title: str
    about: str
    engines: tuple
    # The peer of which figures are multiples.
    judge: str
    sizes: tuple
    steps: tuple
    figures: tuple
    threshold: int
    memory_bytes: int = MEMORY_BYTES
    # Reads and mixes take so long.
    seconds: float = SECONDS

    def scale(self):
        """Its size, unless another is asked for."""
        return Scale(
            self.name, DATA_BYTES, self.memory_bytes, CACHE_MB, BUFFER_MB, list(self.sizes), 1, 1,
            self.seconds, REST, 0, self.threshold,
        )

"""What is compared with what: engines, workloads, and the two sizes of a comparison."""

from dataclasses import dataclass, field

MIB = 1 << 20
KEY_BYTES = 16
# Of separation, unless a scale has its own.
THRESHOLD = 512
FILTER_BITS = 10
BACKGROUND_THREADS = 2
MIX_THREADS = 4
# Gets that are asked for at once, and how many reads a bare device has at once for them.
BATCH = 64
BARE_DEPTH = 32
# Where everything is in memory.
MEMORY_THREADS = 8
SEED = 1
# A scan of everything may take so much longer than other reads.
WHOLE_TIMES = 5


@dataclass(frozen=True)
class Engine:
    """One column of the tables."""

    name: str
    title: str
    ours: bool = False
    # It keeps large values apart from keys.
    separates: bool = False
    program: str = "driver"
    # It is no engine, but one call for each pair.
    bare: bool = False
    # What users get who choose nothing: also where it does the same as others, that is to be seen.
    default: bool = False
    # It is that engine with more words of its own, and runs only where it is named.
    variant_of: str = ""
    words: tuple = ()


ENGINES = [
    Engine("cleave-write", "CleaveDB at_write", ours=True, separates=True),
    Engine("cleave-flush", "CleaveDB at_flush", ours=True, separates=True),
    Engine("cleave-off", "CleaveDB off", ours=True),
    Engine("cleave-auto", "CleaveDB auto", ours=True, separates=True, default=True),
    Engine("rocksdb", "RocksDB"),
    Engine("rocksdb-blob", "RocksDB BlobDB", separates=True),
    Engine("leveldb", "LevelDB"),
    Engine("fjall", "fjall"),
    Engine("fjall-kv", "fjall separated", separates=True),
    Engine("badger", "Badger", program="badger", separates=True),
    Engine("device", "the device", bare=True),
    *(
        Engine(
            f"cleave-{mode}-{name}", f"CleaveDB at_{mode}, {name}", ours=True, separates=True,
            variant_of=f"cleave-{mode}", words=(("punch", punch),),
        )
        for mode in ("write", "flush") for name, punch in (("holes", "on"), ("rewriting", "off"))
    ),
]
OURS = [engine.name for engine in ENGINES if engine.ours and not engine.variant_of]


@dataclass(frozen=True)
class Scale:
    """How much is done."""

    name: str
    data_bytes: int
    memory_bytes: int
    cache_mb: int
    buffer_mb: int
    value_sizes: list
    # How often the data is overwritten.
    factor: float
    repeats: int
    # Reads and mixes end after that, whatever they have done.
    seconds: float
    # The longest wait for an engine to come to rest after writing.
    rest: float
    # The data of synced writes, which fits into memory.
    synced_bytes: int
    # From how many bytes on an engine that can separates a value; the same for all.
    threshold: int = THRESHOLD
    # Everything fits into memory and stays there: the page cache is not dropped before a step, and
    # only what an application would do with such a store is done.
    in_memory: bool = False
    # The engines that run unless others are asked for; none: all that are engines.
    engines: list = field(default_factory=list)

    def keys(self, value_size):
        """How many keys the data has."""
        return self.data_bytes // (KEY_BYTES + value_size)


SCALES = {
    "quick": Scale(
        "quick", 256 * MIB, 96 * MIB, 16, 8, [1024], 1, 1, 1.5, 10, 16 * MIB
    ),
    "long": Scale(
        "long", 2048 * MIB, 384 * MIB, 64, 64, [100, 1024, 4096], 4, 3, 15, 120, 100 * MIB
    ),
    "memory": Scale(
        "memory", 100 * MIB, 2048 * MIB, 256, 64, [100, 1024], 1, 1, 2, 10, 0, in_memory=True
    ),
    "device": Scale(
        "device", 256 * MIB, 96 * MIB, 16, 8, [1024, 4096], 1, 3, 1.5, 10, 0,
        engines=[*OURS, "device"],
    ),
}


@dataclass(frozen=True)
class Step:
    """A workload, with what it needs and what is left behind."""

    workload: str
    threads: int = 1
    # In which of an engine's stores; a new one begins with a load.
    store: str = "main"
    fresh: bool = False
    # As many operations as there are keys, times this; without it, as many as the time allows.
    share: float | None = None
    # It writes, and what it leaves in the background counts.
    rests: bool = False
    # Its process is killed once it has told its figures, with the store open.
    holds: bool = False
    label: str = ""
    # So many gets are asked for at once.
    batch: int = 1
    # More words for the program, as pairs.
    words: tuple = ()

    @property
    def name(self):
        """Different for each step."""
        return self.label or self.workload


def steps(scale):
    """All steps in order: what writes with several threads comes behind what is verified."""
    whole = {"share": 1, "rests": True}
    again = {"share": scale.factor, "rests": True}
    mixes = [Step(f"ycsb-{letter}", MIX_THREADS, label=f"ycsb-{letter}") for letter in "abcfde"]
    gets = [Step("get", label="get-1"), Step("get", 8, label="get-8")]
    if scale.engines:
        return [
            Step("load", fresh=True, label="load-bare", **whole),
            Step("get", label="get-1-bare"),
            Step("get", 8, label="get-8-bare"),
            Step("get", label="get-batch-bare", batch=BATCH),
        ]
    if scale.in_memory:
        busy = [
            Step(f"ycsb-{letter}", MEMORY_THREADS, label=f"ycsb-{letter}-{MEMORY_THREADS}")
            for letter in "abcfde"
        ]
        return [Step("load", fresh=True, **whole), *gets, *busy]
    return [
        Step("load", fresh=True, **whole),
        *gets,
        Step("missing"),
        Step("scan100"),
        Step("fullscan"),
        Step("keysonly"),
        Step("overwrite-uniform", **again),
        Step("overwrite-zipf", **again),
        Step("scan100", label="scan100-after"),
        Step("fullscan", label="fullscan-after"),
        Step("verify"),
        *mixes,
        Step("load-ordered", store="ordered", fresh=True, **whole),
        Step("synced", 1, store="synced-1", fresh=True, label="synced-1"),
        Step("synced", 8, store="synced-8", fresh=True, label="synced-8"),
    ]


# More operations than any time allows.
ENDLESS = 1 << 40


@dataclass
class Job:
    """A step of one engine."""

    scale: Scale
    engine: Engine
    step: Step
    number: int
    value_size: int
    history: list = field(default_factory=list)

    @property
    def keys(self):
        """Of its store."""
        size = self.scale.synced_bytes if self.step.workload == "synced" else self.scale.data_bytes
        return size // (KEY_BYTES + self.value_size)

    @property
    def ops(self):
        """How many are done at most."""
        return ENDLESS if self.step.share is None else round(self.step.share * self.keys)

    def command(self, program, folder):
        """The command line of either program."""
        counted = self.step.share is not None
        long = self.step.workload in ("fullscan", "keysonly")
        words = {
            "engine": self.engine.variant_of or self.engine.name,
            "dir": folder,
            "workload": self.step.workload,
            "keys": self.keys,
            "value": self.value_size,
            "ops": self.ops,
            "threads": self.step.threads,
            "seconds": 3600 if counted else self.scale.seconds * (WHOLE_TIMES if long else 1),
            "rest": self.scale.rest if self.step.rests else 0,
            "hold": int(self.step.holds),
            "seed": SEED,
            "stage": self.number,
            "cache-mb": self.scale.cache_mb,
            "buffer-mb": self.scale.buffer_mb,
            "threshold": self.scale.threshold,
            "filter-bits": FILTER_BITS,
            "background": BACKGROUND_THREADS,
            "memory-mb": self.scale.memory_bytes // MIB,
        }
        if self.step.batch > 1:
            words |= {"threads": BARE_DEPTH} if self.engine.bare else {"batch": self.step.batch}
        if self.step.workload == "verify":
            words["history"] = ",".join(self.history)
        words |= dict(self.engine.words) | dict(self.step.words)
        return [str(program), *(f"{name}={value}" for name, value in words.items())]


def engines_for(value_size, chosen=None, threshold=THRESHOLD):
    """The engines that differ at this size: below the threshold nothing is separated, and the
    separated forms are the inline ones again. Badger has one form, and our default runs always.
    """
    return [
        engine
        for engine in ENGINES
        if (value_size >= threshold or not engine.separates or engine.default
            or engine.name == "badger")
        and (engine.name in chosen if chosen else not engine.bare and not engine.variant_of)
    ]


def in_turn(engines, turn):
    """The same, beginning with another one each time, so that none is always the first."""
    at = turn % len(engines)
    return engines[at:] + engines[:at]

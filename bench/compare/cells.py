"""What an experiment's lines say of an engine at a size of values, and what is measured there."""

import plan
from harness import record
from runner import KILLED_WORD


class Cells:
    """For each size of values and engine, the lines of each repetition by their step."""

    def __init__(self, lines):
        self.by = {}
        self.failures = []
        # What stands where an engine would have a figure, had it not ended: `killed` or `failed`.
        self.ends = {}
        for line in lines:
            repeats = self.by.setdefault((line["value_size"], line["engine"]), {})
            repeats.setdefault(line["repeat"], {})[line["step"]] = line
            if "failed" in line:
                self.failures.append(line)
                killed = line["failed"].startswith(KILLED_WORD)
                end = KILLED_WORD if killed else "failed"
                self.ends.setdefault((line["value_size"], line["engine"]), end)

    def sizes(self):
        """The sizes of values, in order."""
        return sorted({size for size, _ in self.by})

    def engines(self):
        """The engines, in order."""
        found = {engine for _, engine in self.by}
        return [engine for engine in plan.ENGINES if engine.name in found]

    def median(self, size, engine, measure):
        """The median of the repetitions; None if it is unknown in one of them."""
        cells = self.by.get((size, engine.name), {})
        return record.median([measure(cell) for cell in cells.values()])

    def missing(self, size, engine):
        """What is told instead of a figure: how its process ended, or a dash if it did not run."""
        return self.ends.get((size, engine.name), "–")


# A measure of a cell is None where a step that it needs failed or never ran.
def of(step, measure):
    """What the line of a step says."""
    return lambda cell: measure(cell[step]) if is_there(cell, step) else None


def is_there(cell, *steps):
    """True if all these steps have figures."""
    return all(step in cell and "failed" not in cell[step] for step in steps)


def all_of(steps, measure):
    """A measure over the lines of several steps, given as a list."""
    return lambda cell: measure([cell[it] for it in steps]) if is_there(cell, *steps) else None


# Measures of a line.
def pairs(line):
    """Pairs that were written or read."""
    return line["pairs"] or line["ops"]


def pair_bytes(line):
    """Of one key and its value."""
    return plan.KEY_BYTES + line["value_size"]


def megabytes(line):
    """Keys and values, MB a second."""
    return pairs(line) * pair_bytes(line) / line["seconds"] / 1e6


def seconds_at_rest(line):
    """The time of the work and of what it left in the background."""
    return line["seconds"] + line["rest_seconds"]


def scans_of(count):
    """Scans a second, of so many pairs: where a scan met the end of the store, it counts as the
    part that it read.
    """
    return lambda line: line["pairs"] / line["seconds"] / count


def read_amplification(line):
    """Bytes read from the device for each byte that was asked for; None if unknown."""
    read = line["device_read_bytes"]
    return None if read is None else read / (pairs(line) * pair_bytes(line))


def mean_read_micros(line):
    """The mean latency of reads."""
    return line["reads"]["mean_us"]


def processor_share(line):
    """Processor time of the process while it did the work, in percent of one processor."""
    return line["processor_seconds"] / line["seconds"] * 100


def processor_micros(line):
    """Microseconds on processors for each pair, background work included."""
    return line["processor_seconds_at_rest"] / pairs(line) * 1e6


def stored_megabytes(line):
    """Allocated blocks once it was closed."""
    return line["space_end_bytes"] / 1e6


def highest_megabytes(line):
    """The most blocks that were allocated at once."""
    return line["space_highest_bytes"] / 1e6


def device_megabytes(line):
    """What was written to the device until all was at rest."""
    return line["device_write_bytes"] / 1e6


def processor_seconds(line):
    """Time on processors until all was at rest."""
    return line["processor_seconds_at_rest"]


# Measures of several lines.
def written(lines):
    """Device bytes for each byte of keys and values."""
    return sum(it["device_write_bytes"] for it in lines) / sum(it["user_bytes"] for it in lines)


def space(step, verified, name):
    """Space for each byte of live keys and values, which the step that compares them counts."""
    def measure(lines):
        taken, live = lines
        return taken[name] / (live["verified"] * pair_bytes(taken))

    return all_of([step, verified], measure)


def most(lines):
    """The longest opening."""
    return max(line["open_seconds"] for line in lines)


def middle(lines):
    """The median of openings."""
    return record.median([line["open_seconds"] for line in lines])


def most_read(lines):
    """The most that was read from the device until all was at rest, in MB; None if unknown."""
    read = [line["device_read_bytes"] for line in lines]
    return None if None in read else max(read) / 1e6

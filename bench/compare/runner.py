"""What every comparison does: runs steps by turns and measures each process."""

import json
import shutil
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import plan  # noqa: E402: found by the lines above
from harness import device, measure  # noqa: E402
from harness.space import Sampler, allocated, has_printed  # noqa: E402

SAMPLE_SECONDS = 0.5
KILLED = -signal.SIGKILL
# What the line of a process begins with that was ended for its memory.
KILLED_WORD = "killed"


class CompareError(Exception):
    """Why there is no comparison."""


class Comparison:
    """Where it runs and what it has found so far."""

    def __init__(self, folder, scale, steps, programs, out):
        """`steps` are pairs of a step's place in its plan, which tells its work apart from that of
        others, and the step.
        """
        self.folder, self.scale, self.steps = folder, scale, steps
        self.programs, self.out = programs, out
        # The engines and stores of which a step failed, and the history of each.
        self.lost = set()
        self.history = {}

    def run(self, engines_of):
        """All of it, with the engines of each size of values."""
        for repeat in range(self.scale.repeats):
            for value_size in self.scale.value_sizes:
                self.lost, self.history = set(), {}
                engines = engines_of(value_size)
                if not engines:
                    said = f"none of the engines asked for differs from others at {value_size} B"
                    raise CompareError(said)
                for at, (number, step) in enumerate(self.steps):
                    for engine in plan.in_turn(engines, number + repeat):
                        job = plan.Job(self.scale, engine, step, number, value_size)
                        self.one(repeat, job, self.is_last(at))
                shutil.rmtree(self.folder, ignore_errors=True)

    def is_last(self, at):
        """True if no later step uses the store of this one as it is then."""
        store = self.steps[at][1].store
        later = [step for _, step in self.steps[at + 1 :] if step.store == store]
        return not later or later[0].fresh

    def one(self, repeat, job, last):
        """Runs a job and writes its line."""
        store, key = job.step.store, (job.engine.name, job.step.store)
        folder = self.folder / store / job.engine.name
        if job.step.fresh:
            self.lost.discard(key)
            self.history[key] = []
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        elif key in self.lost:
            return
        job.history = self.history.setdefault(key, [])
        found = self.measured(job, folder)
        if "failed" in found:
            self.lost.add(key)
        if job.step.share is not None:
            job.history.append(f"{job.step.workload}:{job.number}:{job.ops}")
        line = {
            "engine": job.engine.name,
            "step": job.step.name,
            "workload": job.step.workload,
            "threads": job.step.threads,
            "value_size": job.value_size,
            "keys": job.keys,
            "repeat": repeat,
            **found,
        }
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()
        tell(line)
        if last or "failed" in found:
            shutil.rmtree(folder, ignore_errors=True)

    def measured(self, job, folder):
        """What the program and the kernel say; `failed` says why there is no figure."""
        look = Look(folder)
        verifies = job.step.workload == "verify"
        if not self.scale.in_memory:
            device.drop_cached(folder, whole_machine=False)
        result = measure.run(
            job.command(self.programs[job.engine.program], folder),
            folder,
            # Verifying is no measurement, and needs a list of all keys.
            memory_bytes=None if verifies else self.scale.memory_bytes,
            kill_when=look.has_reported if job.step.holds else None,
            sample=look,
            sample_seconds=SAMPLE_SECONDS,
            whole_machine=False,
        )
        if result.memory_limit_missing:
            raise CompareError(result.memory_limit_missing)
        wanted = KILLED if job.step.holds else 0
        if result.exit_code != wanted or not result.stdout:
            return {"failed": why(result)}
        if verifies:
            return json.loads(result.stdout)
        at_end = allocated(folder, 0)
        return {
            **json.loads(result.stdout),
            # All that the process handed to the block layer, opening and closing included.
            "device_write_bytes": result.process_write_bytes,
            "device_read_bytes": result.group_read_bytes,
            "device_reads": result.group_read_ios,
            "group_peak_bytes": result.group_peak_bytes,
            "processor_seconds_of_process": result.processor_seconds,
            "space_highest_bytes": max(look.peak() or 0, at_end),
            "space_end_bytes": at_end,
        }


class Look(Sampler):
    """Looks at the space that a store takes, and knows when its process has told its figures."""

    def __init__(self, store):
        super().__init__(store)
        self.pid = None

    def __call__(self, pid):
        self.pid = pid
        super().__call__(pid)

    def has_reported(self):
        """True once the process has printed."""
        return self.pid is not None and has_printed(self.pid)


def why(result):
    """A failure in a few words."""
    if result.exit_code == KILLED:
        return f"{KILLED_WORD}, as its memory was full"
    lines = result.stderr.strip().splitlines() or ["it said nothing"]
    return f"exit {result.exit_code}: {lines[0][:200]}"


def tell(line):
    """One line for who watches."""
    said = line.get("failed")
    if said is None and line["workload"] == "open":
        said = f"opened in {line['open_seconds']:.3f} s"
    elif said is None and "seconds" in line:
        said = f"{line['ops'] / line['seconds']:,.0f} op/s"
    text = f"{time.strftime('%H:%M:%S')} {line['value_size']:>6} B {line['step']:<18}"
    print(f"{text} {line['engine']:<13} {said or 'verified'}", file=sys.stderr)

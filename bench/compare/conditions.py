"""How something was run, in a paragraph, from the first line of its file."""

import plan

# Linux's default.
USUAL_READ_AHEAD_KIB = 128


def of_comparison(head):
    """Of a comparison of the whole work."""
    scale = head["scale"]
    return (
        f"{basics(head)}, values separated from {head['threshold']} B on, no compression. Each "
        "write is handed to the operating system without a sync, except for synced writes. "
        f"Overwrites are {scale['factor']:g} × the data; reads and mixes take "
        f"{scale['seconds']:g} s. {measured(head)}"
    )


def of_experiment(head):
    """Of an experiment of a paper."""
    scale = head["scale"]
    separated = f"from {head['threshold']} B on" if head["threshold"] > 1 else "whatever their size"
    return (
        f"{basics(head)}, no compression. Engines that separate values do so {separated}. Each "
        "write is handed to the operating system without a sync. Reads and mixes take "
        f"{scale['seconds']:g} s, scans of everything at most "
        f"{scale['seconds'] * plan.WHOLE_TIMES:g} s. {measured(head)}"
    )


def basics(head):
    """Versions, data and bounds."""
    scale = head["scale"]
    names = ", ".join(f"{name} {version}" for name, version in head["versions"].items())
    data, memory = scale["data_bytes"] // plan.MIB, scale["memory_bytes"] // plan.MIB
    shared = (
        "**Others were building and measuring on the same machine meanwhile: the figures show "
        "that the comparison works, not who is ahead.** " if head["shared"] else ""
    )
    return (
        f"{shared}{names}. {data} MiB of keys of {plan.KEY_BYTES} B and values that do not "
        f"compress, in {memory} MiB of memory (a control group's limit, page cache included); "
        f"block cache {scale['cache_mb']} MiB, write buffers of {scale['buffer_mb']} MiB, "
        f"{head['filter_bits']} filter bits a key, {head['background_threads']} background "
        "threads"
    )


def measured(head):
    """What was done about caches, and what the figures are of."""
    repeats = head["scale"]["repeats"]
    caches = (
        "Everything stays in the page cache" if head["scale"].get("in_memory") else
        "The page cache of the files is dropped before each step"
    )
    runs = "One run" if repeats == 1 else f"Medians of {repeats} runs"
    ahead = head["read_ahead_kib"]
    around = "" if ahead is None else f" The device's read-ahead is {ahead} KiB."
    if ahead and ahead > USUAL_READ_AHEAD_KIB:
        around += (
            f" {USUAL_READ_AHEAD_KIB} are usual: **the kernel reads so much around every page that "
            "an engine with mapped files (LevelDB, Badger) faults on, which throws everything else "
            "out of the limited memory. Their reads from disk are no measure of them here**; with "
            f"`--read-ahead {USUAL_READ_AHEAD_KIB}` they would be."
        )
    return (
        f"{caches}, the engines take turns, and "
        f"every read is checked. {runs} of each. Device bytes are what the process handed "
        "to the block layer, by `/proc/PID/io`, until it was at rest and closed; space is "
        f"allocated blocks, looked at every half second.{around}"
    )

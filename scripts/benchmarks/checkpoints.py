"""A verified save against a plain write with fsync of the same bytes, in turns; and a save in the background.

scripts/bench checkpoints                ratios of one run; exit 1 if a limit does not hold
ARC_TOOLKIT_BENCH_MB=100                 only this size, for a quick look
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from arc_toolkit.checkpoints import Store
from scripts.benchmarks.common import report

SIZES = [int(os.environ["ARC_TOOLKIT_BENCH_MB"])] if "ARC_TOOLKIT_BENCH_MB" in os.environ else [100, 1000]
ROUNDS = 5
MOST_TIME = 1.15  # times a plain write with fsync
MOST_MEMORY_MB = 40
PIECE = 8 * 1024 * 1024


def write(path: Path, content: memoryview) -> None:
    with open(path, "wb", buffering=0) as stream:
        for start in range(0, len(content), PIECE):
            stream.write(content[start : start + PIECE])


def plain(folder: Path, content: memoryview) -> float:
    began = time.perf_counter()
    write(folder / "plain.bin", content)
    handle = os.open(folder / "plain.bin", os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    seconds = time.perf_counter() - began
    (folder / "plain.bin").unlink()
    return seconds


def verified(folder: Path, content: memoryview, step: int) -> float:
    store = Store(folder / "store", strict=True)
    began = time.perf_counter()
    with store.save(step) as target:
        write(target / "model.bin", content)
    seconds = time.perf_counter() - began
    shutil.rmtree(store.root)
    return seconds


def later(folder: Path, content: bytearray) -> tuple[float, float]:
    """How long the caller is stopped, and how long a copy of the memory takes."""
    store = Store(folder / "store", strict=True)
    began = time.perf_counter()
    store.save_later(1, {"model.bin": content})
    stopped = time.perf_counter() - began
    store.wait()
    began = time.perf_counter()
    copy = bytes(content)
    copying = time.perf_counter() - began
    del copy
    shutil.rmtree(store.root)
    return stopped, copying


def main() -> int:
    misses = []
    with tempfile.TemporaryDirectory(prefix="arc-toolkit-bench-", dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        for size in SIZES:
            content = bytearray(os.urandom(1024 * 1024) * size)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            pairs = [
                (plain(folder, memoryview(content)), verified(folder, memoryview(content), n))
                for n in range(ROUNDS)
            ]
            memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            theirs, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
            stopped, copying = later(folder, content)
            report(
                f"Checkpoints, {size} MB, medians of {ROUNDS}, {memory:.0f} MB more memory",
                [
                    ("a verified save", ours, theirs, "write and fsync"),
                    ("stopped by a save in the background", stopped, copying, "copy of the memory"),
                ],
            )
            if ours > MOST_TIME * theirs:
                misses.append(f"{size} MB: {ours / theirs:.2f} times a plain write, limit {MOST_TIME}")
            if memory > MOST_MEMORY_MB:
                misses.append(f"{size} MB: {memory:.0f} MB more memory, limit {MOST_MEMORY_MB}")
    print("\n" + ("\n".join(f"FAILED {miss}" for miss in misses) or "All limits hold."))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())

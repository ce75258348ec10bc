"""Measuring: CPU seconds of a child process or of a call, the best of several rounds, and a table of ratios."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def cpu_of_command(
    command: Sequence[str], rounds: int = 5, env: dict[str, str] | None = None
) -> float:
    """User and system seconds of the command and its children; the best of the rounds."""
    return min(_once(command, env) for _ in range(rounds))


def _once(command: Sequence[str], env: dict[str, str] | None) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        list(command),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def memory_of_command(command: Sequence[str]) -> float:
    """The most memory that the command had at any time, in MiB."""
    ask = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask, *command], check=True, capture_output=True, text=True
    )
    return int(done.stdout) / 1024


def cpu_of_call(call: Callable[[], object], rounds: int = 3) -> float:
    """CPU seconds of a call in this process; the best of the rounds. None pays for cycles that another left behind."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def report(title: str, rows: Sequence[tuple[str, float, float, str]]) -> None:
    """A table: what, our seconds, the peer's seconds, the peer's name; the ratio is computed here."""
    print(f"\n{title}")
    for what, ours, peer, name in rows:
        print(
            f"  {what:<44} {ours * 1000:10.1f} ms   {name}: {peer * 1000:.1f} ms   ratio {ours / peer:.2f}"
        )


def compose_all(paths: list[Path]) -> None:
    """What reading the files costs at least: the nodes of PyYAML's C loader."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in paths:
        try:
            list(yaml.compose_all(path.read_bytes(), Loader=loader))
        except yaml.YAMLError:
            continue

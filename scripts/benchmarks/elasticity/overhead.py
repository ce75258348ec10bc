"""What an elastic run costs a worker node while nothing happens, in two parts that are measured apart.

A node is one processor here, with everything that runs on a worker node: Ray, our agent, the rank. The head and the
client are another machine in a cluster, and another processor here.

- What the rank loses: it trains some steps in our loop and some in a plain one, in turns. Two processes with the same
  script differ by a percent or two, whoever starts them, because their memory lies elsewhere; one process does not.
- What the others take: the processor time of all other processes of the node, with an elastic run and before it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import time
from pathlib import Path

from scripts.benchmarks.elasticity.nodes import RayNodes, descendants, processes
from scripts.benchmarks.elasticity.stalls import OurRun
from scripts.benchmarks.elasticity.training import busy_script
from tests.notices.metadata_service import azure_answers, metadata_service

_NODE, _HEAD = 0, 1  # processors
_SHARE_SECONDS = 30.0
_PATIENCE_SECONDS = 60.0


def overhead(folder: Path, turns: int) -> dict[str, float]:
    """The parts and the whole; the agent asks a metadata service every second."""
    os.sched_setaffinity(0, {_HEAD})
    with metadata_service() as service:
        azure_answers(service, [])
        return _overhead(folder, turns, ["--cloud", "azure", "--metadata", service.url])


def _overhead(folder: Path, turns: int, options: list[str]) -> dict[str, float]:
    (node,) = RayNodes(1).nodes
    raylet = node.all_processes["raylet"][0].process.pid
    for pid in (raylet, *descendants(raylet)):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {_NODE})
    time.sleep(5)  # Ray starts some more processes
    share_before = _share_of_others(set())

    log = folder / "turns"
    run = OurRun(folder, busy_script(str(log)), 1, *options)
    run.until_warm(1)
    time.sleep(5)
    share = _share_of_others({int(Path(f"{log}.pid").read_text())}) - share_before
    end = time.monotonic() + _PATIENCE_SECONDS + 2.0 * turns
    while len(log.read_text().splitlines()) <= turns:
        if time.monotonic() > end:
            raise RuntimeError(f"{turns} turns took too long")
        time.sleep(1)
    starts = [event for event in run.events() if event["event"] in ("start", "lost", "stopping")]
    if len(starts) != 1:
        raise RuntimeError(f"something happened: {starts}")
    pairs = [
        tuple(map(float, line.split())) for line in log.read_text().splitlines()[1 : turns + 1]
    ]
    ratios = sorted(plain / ours for plain, ours in pairs)
    cut = turns // 10  # at each end, where something else happened
    middle = ratios[cut : turns - cut]
    return {
        "step_milliseconds": 1000 * statistics.median(plain for plain, _ in pairs),
        "rank": statistics.fmean(middle),
        "error": statistics.stdev(middle) / len(middle) ** 0.5,
        "share": share,
        "throughput": statistics.fmean(middle) * (1 - share),
    }


def _share_of_others(ranks: set[int]) -> float:
    """The part of its processor that everything on the node takes, without these."""
    before = _cpu_seconds(ranks)
    began = time.monotonic()
    time.sleep(_SHARE_SECONDS)
    seconds = time.monotonic() - began
    after = _cpu_seconds(ranks)
    return sum(after[task] - before.get(task, 0.0) for task in after) / seconds


def _cpu_seconds(ranks: set[int]) -> dict[int, float]:
    """Of every thread on the node."""
    seconds = {}
    for task in itertools.chain.from_iterable(
        Path(f"/proc/{pid}/task").glob("*") for pid in processes() - ranks
    ):
        with contextlib.suppress(OSError):
            if os.sched_getaffinity(int(task.name)) == {_NODE}:
                seconds[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return seconds

"""What an elastic run costs a node while nothing happens: the same rank with us and without us, on the same Ray node.

The node is one processor with everything that runs on a worker node: Ray, our agent, the rank. The head and the client
are another machine in a cluster, and another processor here. Both ranks are there all the time, and take turns of some
seconds: everything of the other one is stopped (SIGSTOP) meanwhile, agent, controller and client included. So a turn
has the speed that the machine has just then in both. What was stopped catches up first, which no run without stops has
to do; that time is not counted.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from scripts.benchmarks.elasticity.nodes import RayNodes, StepLog, descendants, freeze, processes, thaw
from scripts.benchmarks.elasticity.stalls import OurRun
from scripts.benchmarks.elasticity.training import busy_script

_RANKS = 1
_NODE, _HEAD = 0, 1  # processors
_TURN_SECONDS = 8.0
_SETTLE_SECONDS = 3.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Turn:
    steps: int
    seconds: float
    cpu_seconds: float  # of everything that ran on the node, Ray itself included


def overhead(folder: Path, rounds: int) -> dict[str, float]:
    os.sched_setaffinity(0, {_HEAD})
    (node,) = RayNodes(_RANKS).nodes
    raylet = node.all_processes["raylet"][0].process.pid
    for pid in (raylet, *descendants(raylet)):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {_NODE})
    time.sleep(5)  # Ray starts some more processes
    before = processes()
    log, plain_log = StepLog(folder / "steps"), StepLog(folder / "plain-steps")
    run = OurRun(folder, busy_script(str(log.path), is_ours=True), _RANKS)
    log.until_step(50)
    run.until_warm(1)
    time.sleep(5)
    mine = sorted(processes() - before)
    freeze(mine)
    # Ray gives all workers a low priority, and ours have a session of their own, which is a group for the scheduler.
    # Both decide on a machine that others use, too, and are the same here.
    plain = _start_plain(folder, plain_log, max(os.getpriority(os.PRIO_PROCESS, pid) for pid in mine))
    plain_log.until_step(50)
    pairs = []
    for _ in range(rounds):
        freeze(plain)
        thaw(mine)
        ours = _turn(log)
        freeze(mine)
        thaw(plain)
        pairs.append((ours, _turn(plain_log)))
    thaw(mine)
    starts = [event for event in run.events() if event["event"] in ("start", "lost", "stopping")]
    if len(starts) != 1:
        raise RuntimeError(f"something happened: {starts}")
    ratios = [ours.steps / ours.seconds / (theirs.steps / theirs.seconds) for ours, theirs in pairs]
    cpu = [sum(turn.cpu_seconds for turn in turns) / sum(turn.steps for turn in turns) for turns in zip(*pairs)]  # noqa: B905
    return {
        "step_milliseconds": 1000 * sum(t.seconds for _, t in pairs) / sum(t.steps for _, t in pairs),
        "throughput": statistics.median(ratios),
        "worst": min(ratios),
        "cpu": cpu[0] / cpu[1],
    }


def _start_plain(folder: Path, log: StepLog, niceness: int) -> list[int]:
    script = folder / "plain.py"
    script.write_text(busy_script(str(log.path), is_ours=False))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(_RANKS)}
    command = ["taskset", "-c", str(_NODE), "nice", "-n", str(niceness), sys.executable, str(script)]
    return [
        subprocess.Popen(command, env={**os.environ, **address, "RANK": str(rank)}, start_new_session=True).pid
        for rank in range(_RANKS)
    ]


def _turn(log: StepLog) -> Turn:
    time.sleep(_SETTLE_SECONDS)
    steps, seconds, cpu = len(log.rows()), time.monotonic(), _cpu_seconds()
    time.sleep(_TURN_SECONDS)
    cpu, seconds = _cpu_seconds() - cpu, time.monotonic() - seconds
    return Turn(len(log.rows()) - steps, seconds, cpu)


def _cpu_seconds() -> float:
    ticks = 0
    for pid in processes():
        with contextlib.suppress(OSError):
            if os.sched_getaffinity(pid) != {_NODE}:
                continue
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS

"""Real Ray nodes on this machine, what can happen to them, and the steps that a training script does meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CLIENT_PORT = 10001


class RayNodes:
    """A cluster with a head that takes no work, and one-CPU nodes."""

    def __init__(self, count: int) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "ray_client_server_port": CLIENT_PORT}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.cluster.add_node(num_cpus=1) for _ in range(count)]

    def add(self) -> None:
        self.nodes.append(self.cluster.add_node(num_cpus=1))

    def kill(self, place: int) -> None:
        self.cluster.remove_node(self.nodes[place], allow_graceful=False)

    def silence(self, place: int) -> None:
        """Stop everything of a node: no connection is closed, and nothing is sent."""
        raylet = self.nodes[place].all_processes["raylet"][0].process.pid
        for pid in [raylet, *descendants(raylet)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def drain(self, place: int, seconds: float) -> None:
        """Tell Ray that a node is to go, as an operator of Kubernetes would; nothing in Ray listens to a cloud."""
        words = [
            "drain-node",
            "--address",
            self.cluster.address,
            "--node-id",
            self.nodes[place].node_id,
        ]
        words += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "eviction"]
        words += ["--deadline-remaining-seconds", str(int(seconds))]
        command = [sys.executable, "-m", "ray.scripts.scripts", *words]
        subprocess.run(command, check=True, capture_output=True, text=True)


def processes() -> set[int]:
    """All of this PID namespace."""
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for process in processes():
        with contextlib.suppress(OSError):
            parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(process)
    below, queue = [], [pid]
    while queue:
        queue += (found := children.get(queue.pop(), []))
        below += found
    return below


class StepLog:
    """The times at which steps were done, as the first rank of a training script writes them to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[tuple[float, int]]:
        with contextlib.suppress(FileNotFoundError):
            lines = self.path.read_text().splitlines()
            return [
                (float(a), int(b))
                for a, b in (line.split() for line in lines if line.count(" ") == 1)
            ]
        return []

    def until_step(self, step: int, seconds: float = 300) -> None:
        end = time.time() + seconds
        while not any(row[1] >= step for row in self.rows()):
            if time.time() > end:
                raise RuntimeError(f"step {step} was not reached in {seconds:.0f} s")
            time.sleep(0.05)

    def longest_gap(self, since: float) -> tuple[float, int]:
        """The longest time without a step after `since`, and how many were done again after it."""
        rows = self.rows()
        before = [row for row in rows if row[0] <= since][-1:]
        points = [*before, *(row for row in rows if row[0] > since)]
        seconds, last, first = max((b[0] - a[0], a[1], b[1]) for a, b in itertools.pairwise(points))
        return seconds, max(0, last - first + 1)

    def is_steady(self, seconds: float) -> bool:
        """Whether steps have come for so long without a gap, up to now."""
        now = time.time()
        rows = [row for row in self.rows() if row[0] > now - seconds]
        times = [now - seconds, *(row[0] for row in rows), now]
        return max(b - a for a, b in itertools.pairwise(times)) < 1.0

"""How long a run stalls when workers come and go: `elastic` against Ray Train on the same machine, in turns.

scripts/bench elastic                    ratios of one run; exit 1 if a limit does not hold
ARC_TOOLKIT_BENCH_ROUNDS=1               for a quick look (5 by default)
ARC_TOOLKIT_BENCH_RAY_ROUNDS=1           fewer rounds of Ray Train, which take minutes (as many by default)
ARC_TOOLKIT_BENCH_SCRIPTS=torch          only the script with PyTorch (plain,torch by default)

It runs in a network namespace of its own with the Python of scripts/frameworks. The nodes are real Ray nodes on this
machine, so a stall has no network in it. The plain script imports nothing and its ranks do not speak to each other; the
one with PyTorch trains with DistributedDataParallel, so that a rank that is gone or silent stops all others.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
ROUNDS = int(os.environ.get("ARC_TOOLKIT_BENCH_ROUNDS", "5"))
RAY_ROUNDS = int(os.environ.get("ARC_TOOLKIT_BENCH_RAY_ROUNDS", ROUNDS))
SCRIPTS = os.environ.get("ARC_TOOLKIT_BENCH_SCRIPTS", "plain,torch").split(",")
INSIDE = "ARC_TOOLKIT_BENCH_INSIDE"
# Seconds of stall that may pass (median), and how many times less than Ray Train's it must be.
LIMITS = {"notice": 1.5, "killed": 2.0, "silent": 4.0, "growing": 2.0}
LEAST_RATIO = 15.0
STEP_SECONDS = 0.05
EVERY = 25


def main() -> int:
    if os.environ.get(INSIDE):
        return measure()
    python = subprocess.run([ROOT / "scripts" / "frameworks"], capture_output=True, text=True, check=True).stdout
    shell = 'ip link set lo up && exec "$@"'
    words = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", shell, "_"]
    with tempfile.TemporaryDirectory(prefix="arc-toolkit-bench-") as home:
        environment = {
            **os.environ,
            INSIDE: "1",
            "HOME": home,
            "PYTHONPATH": str(ROOT),
            "RAY_AUTH_MODE": "disabled",
            "RAY_TRAIN_V2_ENABLED": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        command = [*words, python.strip(), "-m", "scripts.benchmarks.elastic"]
        return subprocess.run(command, cwd=home, env=environment, check=False).returncode


class Nodes:
    """A Ray cluster with a head that takes no work."""

    def __init__(self, count: int) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "ray_client_server_port": 10001},
        )
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

    def close(self) -> None:
        import ray

        if ray.is_initialized():
            ray.shutdown()
        with contextlib.suppress(Exception):
            self.cluster.shutdown()


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(path.name))
    below, queue = [], [pid]
    while queue:
        queue += (found := children.get(queue.pop(), []))
        below += found
    return below


class Stalls:
    """The times at which steps were done, as a training script writes them to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[tuple[float, int]]:
        with contextlib.suppress(FileNotFoundError):
            lines = self.path.read_text().splitlines()
            return [(float(a), int(b)) for a, b in (line.split() for line in lines if line.count(" ") == 1)]
        return []

    def until_settled(self, since: float, window: float, seconds: float) -> tuple[float, int]:
        """The longest time without a step after `since`, and how many were done again.

        Looked at when `window` is over and steps come again: they may go on for a moment after a notice, or until a
        dead peer is missed.
        """
        end = time.time() + seconds
        while time.time() < end:
            time.sleep(0.2)
            rows = self.rows()
            if time.time() < since + window or not rows or time.time() - rows[-1][0] > 0.5:
                continue
            points = [row for row in rows if row[0] > since - 2 * STEP_SECONDS]
            gaps = [(b[0] - a[0], a[1], b[1]) for a, b in itertools.pairwise(points)]
            seconds, last, first = max(gaps)
            return seconds, max(0, last - first + 1)
        raise RuntimeError(f"no step for {seconds:.0f} s")

    def until_step(self, step: int, seconds: float = 180) -> None:
        end = time.time() + seconds
        while not any(row[1] >= step for row in self.rows()):
            if time.time() > end:
                raise RuntimeError(f"step {step} was not reached in {seconds:.0f} s")
            time.sleep(0.05)

    @property
    def last(self) -> int:
        rows = self.rows()
        return rows[-1][1] if rows else 0


def ours(folder: Path, script_name: str) -> dict[str, tuple[float, int]]:
    """One run through a notice, a killed node, a silent one, and a new one."""
    nodes, stalls, notices = Nodes(4), Stalls(folder / "steps"), folder / "notices"
    notices.mkdir()
    script = folder / "train.py"
    source = OURS_TORCH if script_name == "torch" else OURS
    script.write_text(source.format(steps=str(stalls.path), pause=STEP_SECONDS, every=EVERY))
    words = ["-f", script, "-u", "ray://127.0.0.1:10001", "-m", 4, "--cloud", "none", "--notice-dir", notices]
    words += ["--checkpoints", folder / "checkpoints", "--name", "bench", "--format", "json"]
    events = folder / "events"
    with open(events, "w", encoding="utf-8") as stream:
        command = [sys.executable, "-m", "arc_toolkit", "elastic", *map(str, words)]
        run = subprocess.Popen(command, stdout=stream, stderr=subprocess.DEVNULL)
    results = {}
    try:
        stalls.until_step(60)
        until_warm(events, 1)
        sys.stderr.write(f"a standby needs {standby_megabytes():.0f} MB\n")
        for name, act in (
            ("notice", lambda: (notices / nodes.nodes[0].node_id).write_text("25")),
            ("killed", lambda: nodes.kill(1)),
            ("silent", lambda: nodes.silence(2)),
            ("growing", nodes.add),
        ):
            since = time.time()
            act()
            results[name] = stalls.until_settled(since, 30.0 if name == "growing" else 6.0, 90)
            if results[name][0] > LIMITS[name]:
                sys.stderr.write(f"{name} at {since}:\n{events_since(events, since)}\n")
            until_warm(events, len(results) + 1)
    finally:
        run.kill()
        run.wait()
        nodes.close()
    return results


def standbys() -> list[int]:
    """Processes that wait to become a rank, and those that are one."""
    pids = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit() and b"arc_toolkit.elastic.standby" in (path / "cmdline").read_bytes():
                pids.append(int(path.name))
    return pids


def standby_megabytes() -> float:
    """The memory that the newest of them does not share with others."""
    lines = (Path("/proc") / str(max(standbys())) / "smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def until_warm(events: Path, starts: int) -> None:
    """Until standbys are warm on all nodes, after so many starts."""
    end = time.time() + 180
    while time.time() < end:
        words = [json.loads(line)["event"] for line in events.read_text().splitlines() if '"event"' in line]
        places = [place for place, word in enumerate(words) if word == "start"]
        if len(places) >= starts and "ready" in words[places[-1] :]:
            return
        time.sleep(0.2)
    raise RuntimeError("standbys do not get warm")


def events_since(events: Path, since: float) -> str:
    """What happened, for a stall that is over the limit."""
    rows = [json.loads(line) for line in events.read_text().splitlines() if '"event"' in line]
    return "\n".join(json.dumps(row) for row in rows if row.get("time", 0) > since - 1)


def ray_train(folder: Path, script_name: str) -> dict[str, tuple[float, int]]:
    """Ray Train's elastic trainer with its defaults, except that it may fail: a killed node, and a drained one."""
    nodes, stalls = Nodes(3), Stalls(folder / "steps")
    script = folder / "train.py"
    source = THEIRS_TORCH if script_name == "torch" else THEIRS
    script.write_text(
        source.format(steps=str(stalls.path), pause=STEP_SECONDS, every=EVERY, storage=str(folder / "storage"))
    )
    run = subprocess.Popen(
        [sys.executable, script, nodes.cluster.address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    results = {}
    try:
        stalls.until_step(60, 300)
        since = time.time()
        nodes.kill(0)
        results["killed"] = stalls.until_settled(since, 90.0, 240)
    finally:
        run.kill()
        run.wait()
        nodes.close()
    return results


OURS = """
import os, time
from arc_toolkit.checkpoints import Store
store = Store(keep=2)
log = open({steps!r}, "a", buffering=1)
for step in store.steps(10**9, every={every}):
    time.sleep({pause})
    if os.environ["RANK"] == "0":
        log.write(f"{{time.time()}} {{step}}\\n")
    if store.due(step):
        with store.save(step) as folder:
            (folder / "state").write_text(str(step))
"""
THEIRS = """
import os, sys, tempfile, time
import ray
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

def loop():
    first, checkpoint = 0, train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(open(os.path.join(folder, "state")).read()) + 1
    rank = train.get_context().get_world_rank()
    log = open({steps!r}, "a", buffering=1)
    for step in range(first, 10**9):
        time.sleep({pause})
        if rank == 0:
            log.write(f"{{time.time()}} {{step}}\\n")
        if step % {every} == {every} - 1:
            with tempfile.TemporaryDirectory() as folder:
                if rank == 0:
                    open(os.path.join(folder, "state"), "w").write(str(step))
                train.report({{"step": step}}, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)

ray.init(address=sys.argv[1], log_to_driver=False, _node_ip_address="127.0.0.1")
DataParallelTrainer(
    loop,
    scaling_config=ScalingConfig(num_workers=(1, 3), resources_per_worker={{"CPU": 1}}),
    run_config=RunConfig(storage_path={storage!r}, name="bench", failure_config=FailureConfig(max_failures=10)),
).fit()
"""
OURS_TORCH = """
import os, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from arc_toolkit.checkpoints import Store
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
store = Store(keep=2)
if checkpoint := store.latest():
    model.module.load_state_dict(torch.load(checkpoint / "state.pt", weights_only=True))
log = open({steps!r}, "a", buffering=1)
for step in store.steps(10**9, every={every}):
    optimizer.zero_grad()
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    time.sleep({pause})
    if os.environ["RANK"] == "0":
        log.write(f"{{time.time()}} {{step}}\\n")
    if store.due(step, samples=16):
        with store.save(step) as folder:
            torch.save(model.module.state_dict(), folder / "state.pt")
"""
THEIRS_TORCH = (
    THEIRS.replace("from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer", "import torch\n"
    "from ray.train.torch import TorchConfig, TorchTrainer as DataParallelTrainer, prepare_model")
    .replace("    rank = train", "    model = prepare_model(torch.nn.Linear(64, 64))\n"
    "    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n    rank = train")
    .replace("        time.sleep({pause})\n", "        optimizer.zero_grad()\n"
    "        model(torch.randn(16, 64)).square().mean().backward()\n        optimizer.step()\n"
    "        time.sleep({pause})\n")
    .replace("    loop,\n", '    loop,\n    torch_config=TorchConfig(backend="gloo"),\n')
)  # fmt: skip


def measure() -> int:
    return max([compare(name) for name in SCRIPTS])


def compare(script_name: str) -> int:
    rows: dict[str, list[tuple[float, int]]] = {}
    theirs: list[tuple[float, int]] = []
    for number in range(ROUNDS):
        for kind, action in (("ours", ours), ("ray", ray_train)):
            if kind == "ray" and number >= RAY_ROUNDS:
                continue
            folder = Path(tempfile.mkdtemp(prefix=f"bench-{kind}-"))
            try:
                results = action(folder, script_name)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            line: dict[str, Any] = {
                "script": script_name,
                "round": number,
                "who": kind,
                **{k: round(v[0], 2) for k, v in results.items()},
            }
            sys.stderr.write(json.dumps(line) + "\n")
            if kind == "ray":
                theirs.append(results["killed"])
            else:
                for name, result in results.items():
                    rows.setdefault(name, []).append(result)
    misses = []
    ray_median = statistics.median(stall for stall, _ in theirs) if theirs else float("nan")
    print(f"\nElastic, {script_name}, {ROUNDS} rounds: median and worst stall, steps done again")
    if theirs:
        print(f"  Ray Train, node killed: {ray_median:.1f} s, worst {max(t for t, _ in theirs):.1f} s")
    for name, results_of in rows.items():
        median, worst = statistics.median(t for t, _ in results_of), max(t for t, _ in results_of)
        redone = max(steps for _, steps in results_of)
        ratio = ray_median / median
        print(
            f"  {name:<10} {median:5.2f} s, worst {worst:5.2f} s, {redone:3d} steps   1/{ratio:.0f} of Ray Train"
        )
        if median > LIMITS[name]:
            misses.append(f"{name}: {median:.2f} s, limit {LIMITS[name]}")
        if name in ("notice", "killed") and ratio < LEAST_RATIO:
            misses.append(f"{name}: Ray Train takes {ratio:.0f} times as long, limit {LEAST_RATIO:.0f}")
        if redone > (0 if name in ("notice", "growing") else EVERY):
            misses.append(f"{name}: {redone} steps were done again")
    print("\n" + ("\n".join(f"FAILED {miss}" for miss in misses) or "All limits hold."))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())

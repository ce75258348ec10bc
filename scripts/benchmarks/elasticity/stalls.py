"""One run through a new node, a notice, a killed node and a silent one: `elastic`, or Ray Train with its defaults."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.benchmarks.elasticity.nodes import CLIENT_PORT, RayNodes, StepLog, processes
from scripts.benchmarks.elasticity.training import our_script, ray_train_script

_NODES = 3
_WARM_STEPS = 60
_NOTICE_SECONDS = 15.0
_STEADY_SECONDS = 3.0
_GAP_SECONDS = 2.5  # no step for so long is a stall of Ray Train, and not a busy machine
_PATIENCE_SECONDS = 300.0

Result = dict[str, tuple[float, int]]


class OurRun:
    """A client of `elastic`, and the events that it prints."""

    def __init__(self, folder: Path, source: str, most: int, *options: object) -> None:
        script, self._events = folder / "work" / "train.py", folder / "events"
        script.parent.mkdir()  # all of it is sent to the nodes
        script.write_text(source)
        words = [
            "-f",
            script,
            "-u",
            f"ray://127.0.0.1:{CLIENT_PORT}",
            "-m",
            most,
            "--cloud",
            "none",
        ]
        words += ["--efficiency", 0]  # more workers than processors: none of them would pay
        words += [
            "--checkpoints",
            folder / "checkpoints",
            "--name",
            "bench",
            "--format",
            "json",
            *options,
        ]
        with open(self._events, "w", encoding="utf-8") as stream:
            command = [sys.executable, "-m", "arc_toolkit", "elastic", *map(str, words)]
            self.process = subprocess.Popen(command, stdout=stream, stderr=subprocess.DEVNULL)

    def events(self) -> list[dict[str, Any]]:
        lines = self._events.read_text().splitlines()
        return [json.loads(line) for line in lines if '"event"' in line and line.endswith("}")]

    def until(self, condition: Callable[[list[str]], bool], what: str) -> None:
        end = time.time() + _PATIENCE_SECONDS
        while not condition([event["event"] for event in self.events()]):
            if time.time() > end or self.process.poll() is not None:
                raise RuntimeError(
                    f"{what}: not in {_PATIENCE_SECONDS:.0f} s: {self._events.read_text()[-3000:]}"
                )
            time.sleep(0.1)

    def until_warm(self, starts: int) -> None:
        """Until standbys are warm on all nodes, after so many starts."""

        def is_warm(words: list[str]) -> bool:
            places = [place for place, word in enumerate(words) if word == "start"]
            return len(places) >= starts and "ready" in words[places[-1] :]

        self.until(is_warm, "warm standbys")


def _actions(nodes: RayNodes, announce: Callable[[], object]) -> dict[str, Callable[[], object]]:
    """What happens, in this order; the first node is the one with the notice."""
    return {
        "growing": nodes.add,
        "notice": announce,
        "killed": lambda: nodes.kill(1),
        "silent": lambda: nodes.silence(2),
    }


def ours(folder: Path, script: str) -> Result:
    nodes, log, notices = RayNodes(_NODES), StepLog(folder / "steps"), folder / "notices"
    notices.mkdir()
    run = OurRun(folder, our_script(script, str(log.path)), _NODES + 1, "--notice-dir", notices)
    log.until_step(_WARM_STEPS)
    run.until_warm(1)
    sys.stderr.write(f"  a standby has {standby_megabytes():.0f} MB of its own\n")
    results: Result = {}
    actions = _actions(
        nodes, lambda: (notices / nodes.nodes[0].node_id).write_text(str(_NOTICE_SECONDS))
    )
    for name, act in actions.items():
        since = time.time()
        act()
        count = len(results) + 2
        run.until(lambda words, count=count: words.count("resumed") >= count, name)  # type: ignore[misc]
        until_steady(log)
        results[name] = log.longest_gap(since)
        run.until_warm(count)
    return results


def until_steady(log: StepLog) -> None:
    end = time.time() + _PATIENCE_SECONDS
    while not log.is_steady(_STEADY_SECONDS):
        if time.time() > end:
            raise RuntimeError("steps do not come steadily")
        time.sleep(0.1)


def ray_train(folder: Path, script: str) -> Result:
    """Its defaults, except that a worker may fail; and the notice is passed on to Ray, which does not ask any cloud."""
    nodes, log = RayNodes(_NODES), StepLog(folder / "steps")
    (folder / "train.py").write_text(
        ray_train_script(script, str(log.path), str(folder / "storage"))
    )
    subprocess.Popen(
        [sys.executable, folder / "train.py", nodes.cluster.address],
        stdout=subprocess.DEVNULL,
        stderr=open(folder / "errors", "wb"),  # noqa: SIM115
    )
    results: Result = {}
    try:
        log.until_step(_WARM_STEPS)
        for name, act in _actions(nodes, lambda: _evict(nodes, 0)).items():
            since = time.time()
            act()
            results[name] = _until_stalled(log, since)
            sys.stderr.write(f"  Ray Train, {name}: {results[name][0]:.1f} s\n")
    except RuntimeError:
        sys.stderr.write((folder / "errors").read_text(errors="replace")[-3000:])
        raise
    return results


def _evict(nodes: RayNodes, place: int) -> None:
    nodes.drain(place, _NOTICE_SECONDS)
    time.sleep(_NOTICE_SECONDS)
    nodes.kill(place)


def _until_stalled(log: StepLog, since: float) -> tuple[float, int]:
    """Ray Train does not say what it does: a stall is over when there was one, and steps come again."""
    end = time.time() + _PATIENCE_SECONDS
    while time.time() < end:
        time.sleep(0.2)
        rows = log.rows()
        if rows[-1][0] <= since or not log.is_steady(_STEADY_SECONDS):
            continue
        gap = log.longest_gap(since)
        if gap[0] > _GAP_SECONDS:
            return gap
    raise RuntimeError(f"no stall that ended in {_PATIENCE_SECONDS:.0f} s")


def standby_megabytes() -> float:
    """The memory that the newest standby does not share with others."""
    pids = []
    for pid in processes():
        with contextlib.suppress(OSError):
            if b"arc_toolkit.elastic.standby" in Path(f"/proc/{pid}/cmdline").read_bytes():
                pids.append(pid)
    lines = Path(f"/proc/{max(pids)}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024

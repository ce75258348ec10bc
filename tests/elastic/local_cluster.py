"""A cluster whose nodes are processes on this machine: agents without Ray, for tests of the controller."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from arc_toolkit.elastic.controller import Controller
from arc_toolkit.elastic.run_config import RunConfig
from tests.support import ROOT

# A sum that only comes out right if every step was done once, in order, by ranks that agree. It needs no package. It
# ends after so many steps, or after the one in which the first rank sees a file.
SCRIPT = """
import os, socket, sys, time
from arc_toolkit.checkpoints import Store

TOTAL, PAUSE = int(sys.argv[1]) if sys.argv[1].isdigit() else 10**9, float(sys.argv[2])
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MODE = sys.argv[3] if len(sys.argv) > 3 else ""
peers = []
if WORLD > 1:
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if RANK == 0:
        server = socket.create_server(("", address[1]), reuse_port=True)
        peers = [server.accept()[0].makefile("rw") for _ in range(WORLD - 1)]
    else:
        while True:
            try:
                peers = [socket.create_connection(address).makefile("rw")]
                break
            except OSError:
                time.sleep(0.01)

def barrier(step):
    # Whether this is the last step.
    if RANK == 0:
        is_last = step == TOTAL - 1 or (TOTAL == 10**9 and os.path.exists(sys.argv[1]))
        for peer in peers:
            assert int(peer.readline()) == step
        for peer in peers:
            peer.write(f"{step} {int(is_last)}\\n"); peer.flush()
        return is_last
    peers[0].write(f"{step}\\n"); peers[0].flush()
    theirs, is_last = peers[0].readline().split()
    assert int(theirs) == step
    return is_last == "1"

store = Store(keep=2)
checkpoint = store.latest()
total = int((checkpoint / "total").read_text()) if checkpoint else 0
step = TOTAL - 1
for step in store.steps(TOTAL, every=20):
    total = (total * 31 + step) % 1000003
    if MODE == "crash" and step == 30 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.exit(5)
    if MODE == "always-crash" and step == 5:
        raise ValueError("a bug")
    time.sleep(PAUSE)
    is_last = barrier(step)
    if store.due(step):
        with store.save(step) as folder:
            (folder / "total").write_text(str(total))
    if is_last:
        break
if RANK == 0:
    print("total", total, "workers", WORLD, "steps", step + 1, flush=True)
"""


def expected_total(steps: int) -> int:
    total = 0
    for step in range(steps):
        total = (total * 31 + step) % 1000003
    return total


class LocalCluster:
    """Nodes by name; an agent is started for each at the next poll."""

    def __init__(self, *nodes: str, slots: int = 1) -> None:
        self.nodes, self._slots = list(nodes), slots
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.drained: list[str] = []
        self.workers = 0  # for which nodes were asked for
        self._folder = Path(tempfile.mkdtemp())
        self.temporary = self._folder / "temporary"  # of all nodes
        self.temporary.mkdir()
        self._address = self._folder / "controller"

    def poll(self, address: tuple[str, int], connected: Collection[str], workers: int) -> None:
        self.workers = workers
        self._address.write_text(f"{address[0]}:{address[1]}")
        for node in self.nodes:
            if node not in self.agents:
                words = [
                    "-m",
                    "tests.elastic.agent_process",
                    "test",
                    node,
                    str(self._slots),
                    str(self._address),
                ]
                self.agents[node] = subprocess.Popen(
                    [sys.executable, *words],
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary)},
                    stderr=open(self.log(node), "ab"),  # noqa: SIM115
                )

    def log(self, node: str) -> Path:
        """What the agent of a node writes to its log."""
        return self._folder / f"{node}.log"

    def drain(self, node: str, deadline: float | None) -> None:
        self.drained.append(node)

    def signal(self, node: str, number: signal.Signals) -> None:
        os.kill(self.agents[node].pid, number)

    def close(self) -> None:
        for agent in self.agents.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class ElasticRun:
    """A controller in a thread, with what tests ask of it."""

    def __init__(
        self, folder: Path, cluster: LocalCluster, arguments: list[str], **options: Any
    ) -> None:
        self.cluster, self.notices = cluster, folder / "notices"
        self.notices.mkdir(exist_ok=True)
        script = folder / "script.py"
        script.write_text(options.pop("source", SCRIPT))
        control = {
            name: options.pop(name) for name in ("history", "is_restarted") if name in options
        }
        self.config = RunConfig(
            "test",
            str(script),
            arguments,
            str(folder),
            options.pop("modules", ["arc_toolkit.checkpoints"]),
            options.pop("most", 4),
            checkpoints=options.pop("checkpoints", str(folder / "checkpoints")),
            cloud="none",
            notice_dir=str(self.notices),
            **options,
        )
        self.controller = Controller(self.config, cluster, **control)
        self.code: int | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(SystemExit):  # see abandon
            self.code = self.controller.serve()

    def abandon(self) -> None:
        """End the controller as SIGKILL would: agents hear nothing."""

        def end() -> None:
            raise SystemExit

        self.controller._agents.tell_all = lambda *_, **__: None  # type: ignore[method-assign]
        self.controller._tick = end  # type: ignore[method-assign]
        self._thread.join(30)
        assert not self._thread.is_alive()

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.controller.timeline.events if event["event"] == kind]

    def until(self, condition: Callable[[], object], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.controller.timeline.events
            time.sleep(0.01)

    def until_step(self, step: int) -> None:
        self.until(lambda: (self.controller.state()["step"] or 0) >= step)

    def wait(self, seconds: float = 90) -> int:
        self._thread.join(seconds)
        assert self.code is not None, self.controller.timeline.events
        return self.code

    def text(self) -> str:
        return "\n".join(text for _, text in self.controller.output.lines_since(0))


@contextmanager
def elastic_run(
    folder: Path, cluster: LocalCluster, *arguments: object, **options: Any
) -> Iterator[ElasticRun]:
    run = ElasticRun(folder, cluster, [str(word) for word in arguments], **options)
    try:
        yield run
    finally:
        run.controller.cancel()
        cluster.close()

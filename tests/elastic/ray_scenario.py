"""Several Ray nodes on this machine, and what happens to a run on them. Prints what it saw as one line of JSON.

python -m tests.elastic.ray_scenario FOLDER      (with the Python of scripts/frameworks, see test_ray.py)
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.support import ROOT

SCRIPT = str(ROOT / "examples" / "elastic_numpy.py")
STEPS = 1200


class Client:
    """A running `arc-toolkit elastic --format json`."""

    def __init__(self, *words: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "arc_toolkit", "elastic", *map(str, words)], stdout=subprocess.PIPE, text=True
        )
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("event") == kind]

    def until(self, kind: str, count: int) -> None:
        end = time.monotonic() + 120
        while len(self.of(kind)) < count:
            assert time.monotonic() < end, self.events
            assert self.process.poll() is None, self.events
            time.sleep(0.05)


def main(folder: Path) -> int:
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "ray_client_server_port": 10001},
    )
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    uri = "ray://127.0.0.1:10001"
    notices = folder / "notices"
    notices.mkdir()
    options = ["-u", uri, "--cloud", "none", "--format", "json"]
    run = Client(
        "-f", SCRIPT, "-m", 3, *options, "--name", "test", "--notice-dir", notices,
        "--checkpoints", folder / "checkpoints", "--", STEPS, 0.02,
    )  # fmt: skip
    run.until("resumed", 1)
    time.sleep(2)
    (notices / nodes[0].node_id).write_text("25")
    run.until("resumed", 2)
    time.sleep(2)
    cluster.remove_node(nodes[1], allow_graceful=False)
    run.until("resumed", 3)
    time.sleep(2)
    pids = subprocess.run(["pgrep", "-f", "ray::RayController"], capture_output=True, text=True, check=True).stdout
    os.kill(int(pids.split()[0]), signal.SIGKILL)
    run.until("adopted", 1)
    other = Client(*options, "--attach", "test")
    other.until("joined", 1)
    other.process.send_signal(signal.SIGINT)  # the run goes on
    code = run.process.wait(240)
    time.sleep(1)
    expected = subprocess.run(
        [sys.executable, SCRIPT, str(STEPS), "0"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "ARC_TOOLKIT_CHECKPOINTS": str(folder / "alone")},
    ).stdout
    ours = [event["text"] for event in run.of("output") if "weights" in event["text"]]
    scenario = {
        "code": code,
        "causes": [event["cause"] for event in run.of("resumed")],
        "stalls": [event["stall"] for event in run.of("resumed")],
        "adopted": len(run.of("adopted")) == 1,
        "attached": 0 if other.of("joined") else 1,
        "weights": _hex(" ".join(ours)),
        "expected": _hex(expected),
    }
    sys.stdout.write(json.dumps(scenario) + "\n")
    if ray.is_initialized():
        ray.shutdown()
    cluster.shutdown()
    return 0


def _hex(text: str) -> str:
    match = re.search(r"weights ([0-9a-f]+)", text)
    return match[1] if match else ""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

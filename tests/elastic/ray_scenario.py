"""Several Ray nodes on this machine, and what happens to a run on them. Prints what it saw as one line of JSON.

python -m tests.elastic.ray_scenario FOLDER      (with the Python of scripts/frameworks, see test_ray.py)

The script goes on until a file appears, so that no step of this scenario can come too late.
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

from tests.elastic.local_cluster import SCRIPT, expected_total

URI = "ray://127.0.0.1:10001"


class Client:
    """A running `arc-toolkit elastic --format json`."""

    def __init__(self, *words: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "arc_toolkit", "elastic", *map(str, words)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("event") == kind]

    def until(self, kind: str, count: int) -> None:
        """Until there are so many events of a kind."""
        end = time.monotonic() + 240
        while len(self.of(kind)) < count:
            assert time.monotonic() < end, (kind, self.events)
            assert self.process.poll() is None, (kind, self.events)
            time.sleep(0.05)

    def wait(self) -> int:
        code = self.process.wait(240)
        self._reader.join(30)
        return code


def main(folder: Path) -> int:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "ray_client_server_port": 10001}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    notices, work, end = folder / "notices", folder / "work", folder / "end"
    notices.mkdir()
    work.mkdir()
    (work / "script.py").write_text(SCRIPT)
    options = ["-u", URI, "--cloud", "none", "--format", "json"]
    run = Client(
        "-f", work / "script.py", "-m", 3, *options, "--name", "test", "--notice-dir", notices, "--max-failures", 0,
        "--checkpoints", folder / "checkpoints", "--", end, 0.02,
    )  # fmt: skip
    run.until("resumed", 1)
    (notices / nodes[0].node_id).write_text("25")
    run.until("resumed", 2)
    drained = _is_drained(nodes[0].node_id)
    cluster.remove_node(nodes[1], allow_graceful=False)
    run.until("resumed", 3)
    (pid,) = subprocess.run(
        ["pgrep", "-f", "ray::RayController"], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(pid), signal.SIGKILL)
    run.until("adopted", 1)
    cluster.add_node(num_cpus=1)
    run.until("resumed", 4)
    other = Client(*options, "--attach", "test")
    other.until("joined", 1)
    other.process.send_signal(signal.SIGINT)  # the run goes on
    other.wait()
    end.touch()
    code = run.wait()
    (line,) = [event["text"] for event in run.of("output") if event["text"].startswith("total")]
    steps = int(re.sub(r".*steps ", "", line))
    scenario = {
        "code": code,
        "causes": [event["cause"] for event in run.of("resumed")],
        "stalls": [event["stall"] for event in run.of("resumed")],
        "workers": [event["workers"] for event in run.of("start")],
        "drained": drained,
        "total": int(line.split()[1]),
        "expected": expected_total(steps),
        "steps": steps,
        "attached": [event["workers"] for event in other.of("start")],
        "summary": run.events[-1],
    }
    sys.stdout.write(json.dumps(scenario) + "\n")
    cluster.shutdown()
    return 0


def _is_drained(node: str) -> bool:
    """Whether Ray itself takes the node for one that is going."""
    source = (
        "import sys, ray; from ray._raylet import GcsClient; ray.init('auto', logging_level='ERROR');"
        "client = GcsClient(address=ray.get_runtime_context().gcs_address);"
        "print(sys.argv[1] in str(client.get_draining_nodes()), client.get_draining_nodes())"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, node], capture_output=True, text=True, check=True
    )
    return "True" in done.stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

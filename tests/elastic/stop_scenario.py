"""A run in a cluster is ended by another command. Prints what happened as one line of JSON.

python -m tests.elastic.stop_scenario FOLDER      (with the Python of scripts/frameworks, see test_ray.py)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from arc_toolkit.checkpoints import Store
from tests.elastic.local_cluster import SCRIPT
from tests.elastic.ray_scenario import URI, Client


def main(folder: Path) -> int:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "ray_client_server_port": 10001}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=2)
    work, saved = folder / "work", folder / "checkpoints"
    work.mkdir()
    (work / "script.py").write_text(SCRIPT)
    options = ["-u", URI, "--format", "json"]
    start = [
        "-f",
        work / "script.py",
        "-m",
        2,
        "--name",
        "test",
        "--cloud",
        "none",
        "--checkpoints",
        saved,
    ]
    run = Client(*start, *options, "--", folder / "never", 0.02)
    run.until("resumed", 1)
    stop = Client(*options, "--stop", "test")
    codes = [stop.wait(), run.wait()]
    checkpoint = Store(saved).latest()
    scenario = {
        "codes": codes,
        "events": [
            event["event"] for event in stop.events if event.get("event", "output") != "output"
        ],
        "again": Client(*options, "--stop", "test").wait(),
        "saved": checkpoint.step if checkpoint is not None else None,
        "summary": run.events[-1],
    }
    sys.stdout.write(json.dumps(scenario) + "\n")
    cluster.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

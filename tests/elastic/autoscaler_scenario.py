"""A cluster that has no workers before a run asks for them. Prints what it saw as one line of JSON.

python -m tests.elastic.autoscaler_scenario FOLDER      (with the Python of scripts/frameworks, see test_ray.py)

Its nodes are those of Ray's own provider for tests of the autoscaler: processes on this machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.elastic.local_cluster import SCRIPT
from tests.elastic.ray_scenario import URI, Client

IDLE_MINUTES = 0.1
CLUSTER: dict[str, Any] = {
    "cluster_name": "test",
    "max_workers": 3,
    "provider": {
        "type": "fake_multinode",
        "use_node_id_as_ip": True,
        "disable_node_updaters": True,
        "disable_launch_config_check": True,
    },
    "available_node_types": {
        "head": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "spot": {"resources": {"CPU": 2}, "node_config": {}, "min_workers": 0, "max_workers": 3},
    },
    "head_node_type": "head",
    "idle_timeout_minutes": IDLE_MINUTES,
    "upscaling_speed": 1.0,
    **{name: {} for name in ("auth", "docker", "file_mounts")},
    **{
        f"{name}_commands": [] for name in ("initialization", "setup", "head_setup", "worker_setup")
    },
    **{f"{name}_start_ray_commands": [] for name in ("head", "worker")},
    "cluster_synced_files": [],
    "file_mounts_sync_continuously": False,
}


def pids(name: str) -> list[int]:
    done = subprocess.run(["pgrep", "-f", name], capture_output=True, text=True, check=False)
    return [int(pid) for pid in done.stdout.split()]


def nodes_with_cpus() -> int:
    source = (
        "import ray; ray.init('auto', logging_level='ERROR', log_to_driver=False);"
        "print(sum(node['Alive'] and bool(node['Resources'].get('CPU')) for node in ray.nodes()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def main(folder: Path) -> int:
    work, end = folder / "work", folder / "end"
    work.mkdir()
    (work / "script.py").write_text(
        SCRIPT.replace(
            "import os,", 'import os; print("threads", os.environ["OMP_NUM_THREADS"])\nimport', 1
        )
    )
    (folder / "cluster.json").write_text(json.dumps(CLUSTER))
    words = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--num-cpus=0"]
    words += [
        f"--autoscaling-config={folder / 'cluster.json'}",
        "--include-dashboard=false",
        "--disable-usage-stats",
    ]
    variables = {**os.environ, "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"}
    subprocess.run(words, env=variables, check=True, stdout=subprocess.DEVNULL)
    options = ["-u", URI, "--cloud", "none", "--format", "json"]
    start = [
        "-f",
        work / "script.py",
        "-m",
        2,
        "--name",
        "test",
        "--checkpoints",
        folder / "checkpoints",
    ]
    run = Client(*start, *options, "--", end, 0.02)
    run.until("resumed", 1)
    twin = Client(*start, *options, "--", end, 0.02)
    twin_code = twin.wait()
    (agent,) = pids("ray::RayAgent")
    os.kill(agent, signal.SIGKILL)  # its node is still there
    run.until("resumed", 2)
    limit = time.monotonic() + 60
    while run.of("start")[-1]["workers"] < 2 and time.monotonic() < limit:
        time.sleep(0.1)
    other = Client(*options, "--attach", "test")
    other.until("joined", 2)
    end.touch()
    codes = [run.wait(), other.wait()]
    limit = time.monotonic() + 60
    while nodes_with_cpus() and time.monotonic() < limit:
        time.sleep(1)
    scenario = {
        "codes": codes,
        "twin": twin_code,
        "workers": run.of("start")[-1]["workers"],
        "threads": sorted(
            {event["text"] for event in run.of("output") if event["text"].startswith("threads")}
        ),
        "summaries": [client.events[-1].get("outcome") for client in (run, other)],
        "nodes_afterwards": nodes_with_cpus(),
    }
    sys.stdout.write(json.dumps(scenario) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""2,000 nodes and 20,000 pods read and sized from a live apiserver, against `json.loads` of the same two lists.

The peer gets the bytes for nothing: it only parses what `kubectl get -o json` would have saved. Ours is the whole
command in a process of its own: start, TLS, HTTP, parsing, sizing, output. Needs scripts/control-plane.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts import control_plane as build
from scripts.benchmarks.common import cpu_of_call, cpu_of_command, report
from tests.cluster.control_plane import ControlPlane
from tests.cluster.matrix import MACHINES
from tests.cluster.workloads import container

NODES, PODS = 2000, 20_000


def pods(names: list[str]) -> Iterator[dict[str, Any]]:
    """Pods as large as real ones are: about as many fields as kubectl shows of an AKS DaemonSet pod."""
    for number in range(PODS):
        mounts = [{"name": f"volume-{index}", "mountPath": f"/mnt/{index}"} for index in range(4)]
        environment = [
            {"name": f"SETTING_{index}", "value": f"value of setting {index}"} for index in range(8)
        ]
        volumes = [{"name": f"volume-{index}", "emptyDir": {}} for index in range(4)]
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"pod-{number}",
                "labels": {"app": f"agent-{number % 30}", "tier": "node"},
            },
            "spec": {
                "nodeName": names[number % NODES],
                "containers": [
                    {**container("10m", "20Mi"), "env": environment, "volumeMounts": mounts}
                ],
                "volumes": volumes,
            },
        }


def saved(plane: ControlPlane, path: str) -> bytes:
    """The list as one JSON text."""
    items: list[Any] = []
    token = ""
    while True:
        page = plane.request(
            "GET", path, None, {"limit": 2000, **({"continue": token} if token else {})}
        )
        items += page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return json.dumps(
                {"apiVersion": "v1", "kind": "List", "items": items}, separators=(",", ":")
            ).encode()


def peak_memory_mib(command: list[str]) -> float:
    """The largest resident size of the command, read in a process that has no other child."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, "
    code += (
        "stderr=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, *command], check=True, capture_output=True, text=True
    ).stdout
    return int(said) / (1024 if sys.platform != "darwin" else 1024 * 1024)


def main() -> None:
    binaries = build.locate()
    if build.missing(binaries):
        sys.exit("no control plane: run scripts/control-plane first")
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(binaries, Path(folder))
        try:
            plane.start()
            plane.stop_controllers()  # nobody needs to run these pods
            machines = [MACHINES[number % len(MACHINES)] for number in range(NODES)]
            names = [f"{machine.pool}-{number}" for number, machine in enumerate(machines)]
            plane.create_all(
                machine.node(name) for machine, name in zip(machines, names, strict=True)
            )
            print(f"creating {PODS} pods", file=sys.stderr)
            plane.create_all(pods(names))
            lists = [saved(plane, "/api/v1/nodes"), saved(plane, "/api/v1/pods")]
            command = [
                sys.executable,
                "-m",
                "arc_toolkit",
                "gen-instance-types",
                "--from-cluster",
                "--share",
                "half",
            ]
            command += ["--kubeconfig", str(plane.kubeconfig), "--name-template", "{size}-{share}"]
            command += ["--tolerate", "node.kubernetes.io/not-ready", "--format", "json"]
            ours = cpu_of_command(command, rounds=3)
            peer = cpu_of_call(lambda: [json.loads(text) for text in lists])
            memory = peak_memory_mib(command)
        finally:
            plane.stop()
    size = sum(map(len, lists)) / 2**20
    report(
        f"live cluster: {NODES} nodes, {PODS} pods, {size:.0f} MiB of JSON",
        [("gen-instance-types --from-cluster", ours, peer, "json.loads")],
    )
    print(f"  peak memory {memory:.0f} MiB")


if __name__ == "__main__":
    main()

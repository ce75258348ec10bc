"""Sizing: start-up, a large saved cluster, and the whole VM table."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from scripts.benchmarks.common import cpu_of_command, memory_of_command, report

ARC = [str(Path(sys.executable).parent / "arc-toolkit")]


def main() -> None:
    start_up()
    large_cluster()
    whole_table()


def start_up() -> None:
    ours = cpu_of_command([*ARC, "--help"], rounds=15)
    rows = [
        (
            "arc-toolkit --help",
            ours,
            cpu_of_command([sys.executable, "-c", "pass"], rounds=15),
            "python -c pass",
        )
    ]
    if shutil.which("kubectl"):
        peer = cpu_of_command(["kubectl", "version", "--client"], rounds=5)
        rows.append(("arc-toolkit --help", ours, peer, "kubectl version --client"))
    report("start-up (aim: at most 3 x python, ahead of kubectl)", rows)


def large_cluster(nodes: int = 2000, pods: int = 20000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        node_file, pod_file = Path(folder, "nodes.json"), Path(folder, "pods.json")
        write_cluster(node_file, pod_file, nodes, pods)
        load = (
            "import json,sys\nboth = [json.loads(open(name,'rb').read()) for name in sys.argv[1:]]"
        )
        loading = [sys.executable, "-c", load, str(node_file), str(pod_file)]
        peer = cpu_of_command(loading, rounds=3)
        words = [
            "gen-instance-types",
            "--nodes",
            str(node_file),
            "--pods",
            str(pod_file),
            "--share",
            "half",
        ]
        ours = cpu_of_command([*ARC, *words], rounds=3)
        size = (node_file.stat().st_size + pod_file.stat().st_size) / 1e6
        title = (
            f"{nodes:,} nodes and {pods:,} pods from saved JSON, {size:.0f} MB (aim: at most 1.5 x)"
        )
        report(title, [("gen-instance-types --nodes --pods", ours, peer, "json.loads of both")])
        most, least = memory_of_command([*ARC, *words]), memory_of_command(loading)
        print(
            f"  memory: {most:.0f} MiB, json.loads: {least:.0f} MiB, ratio {most / least:.2f} (aim: at most 1.3)"
        )


def whole_table() -> None:
    with tempfile.TemporaryDirectory() as folder:
        words = [
            "gen-instance-types",
            "--sku",
            "*",
            "--name-template",
            "{size}-{share}",
            "-o",
            folder,
        ]
        words += ["--share", "whole", "--share", "half", "--share", "quarter"]
        ours = cpu_of_command([*ARC, *words], rounds=1)
        count = len(os.listdir(folder))
    print(
        f"\nthe whole VM table, three shares each: {count} files in {ours:.2f} s CPU (aim: at most 3 s)"
    )


def write_cluster(node_file: Path, pod_file: Path, nodes: int, pods: int) -> None:
    """Objects of a realistic shape: labels, conditions, volumes and statuses that nobody reads but all must parse."""
    from tests.sizing.builders import as_list, node, pod

    node_items = []
    for index in range(nodes):
        item = node(f"aks-pool{index % 8}-12345678-vmss{index:06d}", pool=f"pool{index % 8}")
        item["status"]["images"] = [
            {"names": [f"registry.example/image-{n}:v1"], "sizeBytes": n} for n in range(30)
        ]
        item["metadata"]["annotations"] = {
            f"example.com/annotation-{n}": "x" * 40 for n in range(8)
        }
        node_items.append(item)
    pod_items = []
    for index in range(pods):
        name = node_items[index % nodes]["metadata"]["name"]
        item = pod(
            f"set-{index // nodes}",
            name,
            "10m",
            "20Mi",
            owner="DaemonSet" if index % 3 else "ReplicaSet",
        )
        container = item["spec"]["containers"][0]
        container["env"] = [{"name": f"VARIABLE_{n}", "value": "x" * 30} for n in range(12)]
        container["volumeMounts"] = [{"name": f"v{n}", "mountPath": f"/mnt/{n}"} for n in range(4)]
        item["status"]["conditions"] = [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ]
        pod_items.append(item)
    node_file.write_text(json.dumps(as_list(node_items), indent=1))
    pod_file.write_text(json.dumps(as_list(pod_items), indent=1))


if __name__ == "__main__":
    main()

"""What the cluster's types are worth now: --check, --watch, cluster nodes and cluster instance-types."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import node
from tests.cluster.small import CAPACITY, big, ready
from tests.cluster.workloads import daemonset, settle
from tests.support import Result

pytestmark = pytest.mark.cluster

Arc = Callable[..., Result]


# --- drift ------------------------------------------------------------------------------------------------------


def test_check_says_that_all_types_fit(gen: Arc) -> None:
    gen("--share", "whole", "--share", "half", "--apply")
    result = gen("--check")
    assert result.code == 0, result.out
    assert [line.split()[-1] for line in result.out.splitlines()[1:]] == ["fits", "fits"]


def test_check_finds_types_that_a_new_daemonset_defeats_and_shows_the_waterfall(
    cluster: ControlPlane, gen: Arc
) -> None:
    gen("--share", "whole", "--share", "half", "--apply")
    settle(cluster, [daemonset("security-agent", "200m", "512Mi", {})], 1)
    result = gen("--check")
    assert result.code == 1
    assert (
        "8cpu32g: does not fit, larger than what is schedulable on big-0 by 200m cpu and 512Mi memory"
        in result.out
    )
    assert "4cpu16g: fits less often, on big-0: 2 of it ask 200m cpu" in result.out
    assert "- security-agent" in result.out
    found = {
        row["name"]: row
        for row in json.loads(gen("--check", "--format", "json").out)["instance_types"]
    }
    assert (found["4cpu16g"]["meant"], found["4cpu16g"]["fits"], found["4cpu16g"]["state"]) == (
        2,
        1,
        "fits less often",
    )
    assert "security-agent" in [line["name"] for line in found["8cpu32g"]["tightest"]["lines"]]


def test_check_names_the_upgrade_and_the_max_pods_that_made_a_type_too_large(
    cluster: ControlPlane, gen: Arc
) -> None:
    gen("--apply")
    cluster.delete("Node", "big-0")
    smaller = {"cpu": "7820m", "memory": f"{30453516 - 20 * 140 * 1024}Ki", "pods": "250"}
    cluster.create(
        big("big-new", allocatable=smaller, capacity={**CAPACITY, "pods": "250"}, version="v1.34.1")
    )
    ready(cluster, "big-new")
    result = gen("--check")
    assert result.code == 1
    assert "by 2800Mi memory" in result.out
    assert "(Kubernetes 1.32.7 -> 1.34.1, maxPods 110 -> 250)" in result.out


def test_check_tells_types_without_a_node_and_types_that_are_not_valid(
    cluster: ControlPlane, gen: Arc, arc: Arc
) -> None:
    arc(
        "gen-instance-types",
        "--sku",
        "Standard_NC24ads_A100_v4",
        "--apply",
        "--kubeconfig",
        cluster.kubeconfig,
    )
    found = {
        row["name"]: row
        for row in json.loads(gen("--check", "--format", "json").out)["instance_types"]
    }
    assert found["24cpu220g-1gpu"]["state"] == "no node"
    assert "instance-type=Standard_NC24ads_A100_v4" in found["24cpu220g-1gpu"]["reason"]
    assert gen("--check").code == 0  # a pool at zero nodes is not drift


def test_watch_checks_again_when_a_node_changes_and_not_at_each_heartbeat(
    cluster: ControlPlane, gen: Arc
) -> None:
    gen("--apply")
    command = [
        sys.executable,
        "-m",
        "arc_toolkit",
        "gen-instance-types",
        "--from-cluster",
        "--check",
        "--watch",
    ]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(cluster.kubeconfig)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True)
    reader.start()
    try:
        cluster.wait("the first check", lambda: any(line.endswith("fits\n") for line in lines))
        cluster.patch("/api/v1/nodes/big-0", {"metadata": {"annotations": {"heartbeat": "1"}}})
        time.sleep(1)
        assert len(lines) == 2
        cluster.patch("/api/v1/nodes/big-0/status", {"status": {"allocatable": {"cpu": "7"}}})
        cluster.wait("the second check", lambda: any("does not fit" in line for line in lines))
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        reader.join(5)


# --- cluster nodes ----------------------------------------------------------------------------------------------


def test_cluster_nodes_shows_groups_and_the_types_that_fit(
    cluster: ControlPlane, gen: Arc, look: Arc
) -> None:
    settle(cluster, [daemonset("agent", "320m", "620Mi", {})], 1)
    gen("--share", "whole", "--share", "half", "--apply")
    cluster.create(big("lost", managed=False))
    result = look("nodes")
    assert result.code == 0, result.err
    header, *rows = result.out.splitlines()
    assert header.split()[:3] == ["SIZE", "POOL", "NODES"]
    assert len(rows) == 2
    usable = next(row for row in rows if "left out" not in row)
    assert "8000m / 32089Mi" in usable
    assert "7820m / 29739Mi" in usable
    assert "320m / 620Mi" in usable
    assert "0m / 1604Mi" in usable
    assert usable.endswith("4cpu16g x2, 8cpu32g x1")
    assert any("left out: " in row for row in rows)


def test_cluster_nodes_json_adds_up_and_sorts_and_shows_labels(
    cluster: ControlPlane, gen: Arc, look: Arc
) -> None:
    cluster.create(node("small", labels={"zone": "1"}))
    ready(cluster, "small")
    words = ["--by", "node", "--sort", "memory", "--label", "zone", "--format", "json"]
    rows = json.loads(look("nodes", *words).out)["rows"]
    assert [row["name"] for row in rows] == ["big-0", "small"]
    assert [row["labels"]["zone"] for row in rows] == ["", "1"]
    for row in rows:
        for unit in ("cpu_m", "memory_bytes"):
            taken = row["daemonsets"][unit] + row["reserved"][unit]
            assert row["allocatable"][unit] - taken == row["schedulable"][unit]
    assert gen("--check").out == "the cluster has no InstanceTypes\n"


def test_cluster_nodes_without_the_crd_still_shows_the_nodes(
    cluster: ControlPlane, gen: Arc, look: Arc
) -> None:
    cluster.remove_crd()
    try:
        seen = look("nodes")
        listed = look("instance-types")
        applied = gen("--apply")
    finally:
        cluster.install_crd()
    assert seen.code == 0
    assert "Standard_B8ms" in seen.out
    for result in (applied, listed):
        assert result.code == 2
        assert "the AzureML extension is not installed, because the cluster arc-tests" in result.err


def test_cluster_instance_types_shows_each_type_and_where_it_fits(
    cluster: ControlPlane, gen: Arc, arc: Arc, look: Arc
) -> None:
    assert look("instance-types").out == "the cluster has no InstanceTypes\n"
    gen("--share", "half", "--apply")
    arc(
        "gen-instance-types",
        "--sku",
        "Standard_NC24ads_A100_v4",
        "--apply",
        "--kubeconfig",
        cluster.kubeconfig,
    )
    result = look("instance-types")
    assert result.code == 0, result.err
    listing, reasons = result.out.split("\n\n")
    header, *rows = [line.split() for line in listing.splitlines()]
    assert header == ["NAME", "CPU", "MEMORY", "GPUS", "NODES", "MEANT", "FITS", "STATE"]
    assert [(row[0], row[-1]) for row in rows] == [("24cpu220g-1gpu", "node"), ("4cpu16g", "fits")]
    label = "node.kubernetes.io/instance-type="
    assert f"24cpu220g-1gpu: no given node has the labels {label}" in reasons
    assert gen("--check").out == result.out
    found = json.loads(look("instance-types", "--format", "json").out)["instance_types"]
    assert [(row["name"], row["nodes"], row["fits"]) for row in found] == [
        ("24cpu220g-1gpu", 0, None),
        ("4cpu16g", 1, 2),
    ]

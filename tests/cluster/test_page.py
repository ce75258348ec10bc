"""docs/cluster.md: every example is run on a cluster as the page describes it, and prints what the page shows.

ARC_TOOLKIT_WRITE_PAGE=1 writes the outputs anew.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.matrix import MACHINES
from tests.cluster.objects import node
from tests.cluster.workloads import daemonset, profile_daemonsets, settle
from tests.support import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PAGE = ROOT / "docs" / "cluster.md"
BLOCK = re.compile(r"^```console\n\$ (arc-toolkit [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
POOLS = {"Standard_D4s_v5": 2, "Standard_D64s_v5": 3, "Standard_NC96ads_A100_v4": 2}


def build_cluster(cluster: ControlPlane) -> int:
    """Three pools and a spot pool, with the DaemonSets of AKS; returns how many of their pods there are."""
    profiles = set()
    pods = 0
    for machine in MACHINES:
        for number in range(POOLS.get(machine.size, 0)):
            cluster.create(machine.node(f"aks-{machine.pool}-vmss00000{number}"))
            profiles.add(machine.profile)
            pods += len(profile_daemonsets(machine.profile))
    settle(cluster, [item for profile in profiles for item in profile_daemonsets(profile)], pods)
    spot = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
    size = {"node.kubernetes.io/instance-type": "Standard_D64s_v5", "agentpool": "spot"}
    capacity = {"cpu": "64", "memory": "263900000Ki", "pods": "110"}
    allocatable = {**capacity, "cpu": "63260m", "memory": "261493600Ki"}
    cluster.create(
        node(
            "aks-spot-vmss000000",
            capacity=capacity,
            allocatable=allocatable,
            labels=size,
            taints=[spot],
        )
    )

    def settled() -> bool:
        taints = cluster.get("Node", "aks-spot-vmss000000")["spec"]["taints"]
        return [taint["key"] for taint in taints] == [spot["key"]]

    cluster.wait("the spot node", settled)
    return pods


def said(cluster: ControlPlane, command: str) -> str:
    """What a terminal shows: both streams as they come."""
    words = [sys.executable, "-m", *shlex.split(command.replace("arc-toolkit", "arc_toolkit", 1))]
    done = subprocess.run(
        [*words, "--kubeconfig", str(cluster.kubeconfig)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    return re.sub(r"https://127\.0\.0\.1:\d+", "https://my-aks.example:443", done.stdout)


def test_the_examples_of_the_page_print_what_it_shows(cluster: ControlPlane) -> None:
    pods = build_cluster(cluster)
    text = PAGE.read_text(encoding="utf-8")
    shown = text
    blocks = BLOCK.findall(text)
    assert len(blocks) >= 5
    for command, expected in blocks:
        if "--check" in command:
            settle(
                cluster,
                [daemonset("security-agent", "200m", "512Mi", {"agentpool": "d4sv5"})],
                pods + 2,
            )
        actual = said(cluster, command)
        shown = shown.replace(f"$ {command}\n{expected}```", f"$ {command}\n{actual}```")
    if os.environ.get("ARC_TOOLKIT_WRITE_PAGE"):
        PAGE.write_text(shown, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == shown

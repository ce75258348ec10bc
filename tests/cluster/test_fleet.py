"""A fleet: 1,000 nodes of mixed sizes, types from the live cluster, one whole-node pod for each node: all bound."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.matrix import MACHINES
from tests.cluster.workloads import PROFILE, daemonset, job_pod, placements, settle
from tests.support import Result

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NODES = 1000
FLEET = [machine for machine in MACHINES if machine.cores >= 4]


def test_a_thousand_whole_node_pods_are_bound_to_a_thousand_nodes(
    cluster: ControlPlane, arc: Callable[..., Result]
) -> None:
    machines = [FLEET[number % len(FLEET)] for number in range(NODES)]
    cluster.create_all(machine.node(f"{machine.pool}-{number}") for number, machine in enumerate(machines))
    # One DaemonSet stands for those of AKS (their sum), and the 5 % is foreseen, so that the nodes carry 1,000 pods
    # and not 8,000; test_fit.py has the whole set.
    profiles = {machine.profile for machine in FLEET}
    sums = [daemonset(f"aks-{name.replace('.', '-')}", "350m", "570Mi", {PROFILE: name}) for name in profiles]
    settle(cluster, sums, NODES)

    started = time.process_time()
    result = arc(
        "gen-instance-types", "--from-cluster", "--kubeconfig", cluster.kubeconfig, "--share", "whole",
        "--name-template", "{size}", "--format", "json",
    )  # fmt: skip
    print(f"types for {NODES} nodes and {NODES} pods: {time.process_time() - started:.2f} s of CPU")
    assert result.code == 0, result.err
    kinds = {
        entry["manifest"]["spec"]["nodeSelector"]["node.kubernetes.io/instance-type"]: entry["manifest"]
        for entry in json.loads(result.out)["instance_types"]
    }
    cluster.create_all(job_pod(f"job-{number}", kinds[machine.size]) for number, machine in enumerate(machines))
    cluster.wait(
        "1,000 bound pods", lambda: not cluster.list("Pod", fieldSelector="spec.nodeName=", limit=1), 180, every=1
    )

    where = placements(cluster)
    assert len(where) == NODES
    assert len(set(where.values())) == NODES, "two whole-node pods on one node"

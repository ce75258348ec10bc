"""Proof of fit: the real schedulers bind what sizing promises, and not one pod more.

For each machine and share: n pods of the generated type are bound to a node and the next one stays Pending; the
same type made 1 % larger leaves one Pending, so nearly everything there is was given. docs/proof-of-fit.md is the
result: ARC_TOOLKIT_WRITE_PROOF=1 writes it, and otherwise the test holds it to what happened.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from scripts import control_plane as build
from tests.cluster.control_plane import ControlPlane
from tests.cluster.matrix import MACHINES, PURPOSE, SHARES, Machine
from tests.cluster.workloads import (
    PROFILE,
    PROFILES,
    gang_pod,
    job_pod,
    placements,
    pod_group,
    profile_daemonsets,
    refusals,
    settle,
)
from tests.support import ROOT, Result

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Object = dict[str, Any]
Arc = Callable[..., Result]
PAGE = ROOT / "docs" / "proof-of-fit.md"
FLEET_HEADING = "\n## A fleet\n"
# The machines that Volcano proves too, and the share; each gang is spread over several nodes.
GANGS = {
    "Standard_D4s_v5": "half",
    "Standard_E8s_v5": "whole",
    "Standard_D96s_v5": "1/8",
    "Standard_NC96ads_A100_v4": "quarter",
}
GANG_NODES = 3
# The profiles of `--daemonsets` that stand for what tests/cluster/workloads.py puts on the nodes.
OFFLINE_PROFILES = {
    "kubenet-1.26": ["aks-kubenet-1.26", "azureml"],
    "overlay-1.30": ["aks-overlay-1.30", "azureml"],
    "overlay-1.35-monitored": ["aks-overlay-1.35", "ama-logs", "azureml"],
}


@dataclass(frozen=True)
class Proof:
    """One machine, one share, and the types that were generated for it: live, and with no cluster to ask."""

    machine: Machine
    share: str
    kind: Object
    offline: Object

    @property
    def n(self) -> int:
        return SHARES[self.share]

    @property
    def key(self) -> str:
        return f"{self.machine.pool}-{slug(self.share)}"

    @property
    def gang(self) -> str:
        return f"{self.machine.pool}-gang"


def slug(share: str) -> str:
    return share.replace("/", "-of-")


def one_percent_larger(kind: Object) -> Object:
    copied = copy.deepcopy(kind)
    units = {"Gi": 2**30, "Mi": 2**20, "Ki": 2**10}
    for part in copied["spec"]["resources"].values():
        cpu, memory = part["cpu"], part["memory"]
        milli = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
        size = int(memory[:-2]) * units[memory[-2:]]
        part["cpu"], part["memory"] = f"{-(-milli * 101 // 100)}m", str(-(-size * 101 // 100))
    return copied


def meant_for(kind: Object, purpose: str) -> Object:
    """The type, for the nodes of one purpose only."""
    copied = copy.deepcopy(kind)
    copied["spec"]["nodeSelector"][PURPOSE] = purpose
    return copied


def machine_nodes() -> list[Object]:
    """For each machine and share a node for each type that is tried; for gangs several."""
    nodes = []
    for machine in MACHINES:
        for kind in ("exact", "larger", "offline"):
            nodes += [
                machine.node(f"{machine.pool}-{slug(share)}-{kind}") for share in machine.shares()
            ]
            if machine.size in GANGS and kind != "offline":
                purpose = f"{machine.pool}-gang-{kind}"
                nodes += [
                    machine.node(f"{purpose}-{number}", purpose) for number in range(GANG_NODES)
                ]
    return nodes


def generate(arc: Arc, cluster: ControlPlane) -> dict[str, Object]:
    """What the command makes of the live cluster: manifests by name."""
    words = [
        "gen-instance-types",
        "--from-cluster",
        "--kubeconfig",
        str(cluster.kubeconfig),
        "--format",
        "json",
    ]
    words += ["--group-by", "pool", "--name-template", "{pool}-{share}"]
    words += [word for share in SHARES for word in ("--share", share)]
    result = arc(*words)
    assert result.code == 0, result.err
    return {entry["name"]: entry["manifest"] for entry in json.loads(result.out)["instance_types"]}


def generate_offline(arc: Arc, machine: Machine) -> dict[str, Object]:
    """What the command makes of the size alone, told the version, maxPods and DaemonSets: manifests by share."""
    words = [
        "gen-instance-types",
        "--sku",
        machine.size,
        "--format",
        "json",
        "--name-template",
        "t-{share}",
    ]
    words += ["--kubernetes-version", machine.kubernetes, "--max-pods", str(machine.max_pods)]
    words += [word for name in OFFLINE_PROFILES[machine.profile] for word in ("--daemonsets", name)]
    result = arc(*words, *(word for share in machine.shares() for word in ("--share", share)))
    assert result.code == 0, result.err
    return {
        entry["wanted"]: entry["manifest"] for entry in json.loads(result.out)["instance_types"]
    }


def test_n_pods_of_a_share_are_bound_the_next_is_not_and_one_percent_more_is_too_much(
    own_cluster: ControlPlane, arc: Arc
) -> None:
    hold_page(*prove(own_cluster, arc))


def test_the_same_holds_on_the_minor_version_before(older_cluster: ControlPlane, arc: Arc) -> None:
    version = older_cluster.request("GET", "/version")["gitVersion"]
    assert version == f"v{build.pinned(build.OLDER)[1]}"
    prove(older_cluster, arc)


def prove(cluster: ControlPlane, arc: Arc) -> tuple[list[Proof], list[Proof]]:
    """Every row of the page by the schedulers of this cluster; (shares, gangs)."""
    nodes = machine_nodes()
    cluster.create_all(nodes)
    pods = sum(len(PROFILES[node["metadata"]["labels"][PROFILE]]) + 1 for node in nodes)
    settle(cluster, [item for profile in PROFILES for item in profile_daemonsets(profile)], pods)
    foreseen = generate(arc, cluster)
    settle(cluster, [machine.reservation() for machine in MACHINES], pods + len(nodes))
    types = generate(arc, cluster)
    # The 5 % is foreseen while its pod is not there yet, and counted once when it is.
    assert [kind["spec"] for kind in foreseen.values()] == [kind["spec"] for kind in types.values()]

    proofs = [
        Proof(machine, share, types[f"{machine.pool}-{slug(share)}"], offline[share])
        for machine in MACHINES
        for offline in [generate_offline(arc, machine)]
        for share in machine.shares()
    ]
    prove_by_kube_scheduler(cluster, proofs)
    gangs = [proof for proof in proofs if GANGS.get(proof.machine.size) == proof.share]
    prove_by_volcano(cluster, gangs)
    return proofs, gangs


def prove_by_kube_scheduler(cluster: ControlPlane, proofs: Sequence[Proof]) -> None:
    fitting, too_large, next_ones = [], [], []
    for proof in proofs:
        exact = meant_for(proof.kind, f"{proof.key}-exact")
        larger = meant_for(one_percent_larger(proof.kind), f"{proof.key}-larger")
        fitting += [job_pod(f"{proof.key}-exact-{number}", exact) for number in range(proof.n)]
        too_large += [job_pod(f"{proof.key}-larger-{number}", larger) for number in range(proof.n)]
        unseen = meant_for(proof.offline, f"{proof.key}-offline")
        fitting += [job_pod(f"{proof.key}-offline-{number}", unseen) for number in range(proof.n)]
        next_ones.append(job_pod(f"{proof.key}-next", exact))
    cluster.create_all([*fitting, *too_large])
    wait_for_verdicts(cluster)
    cluster.create_all(next_ones)
    wait_for_verdicts(cluster)

    where, refused = placements(cluster), refusals(cluster)
    for proof in proofs:
        for kind in ("exact", "offline"):
            bound = [where[f"{proof.key}-{kind}-{number}"] for number in range(proof.n)]
            assert bound == [f"{proof.key}-{kind}"] * proof.n, (
                f"{proof.key}-{kind} does not fit {proof.n} times"
            )
        assert "Insufficient" in refused[f"{proof.key}-next"]
        left = [
            number for number in range(proof.n) if where[f"{proof.key}-larger-{number}"] is None
        ]
        assert len(left) == 1, f"{proof.key} made 1 % larger leaves {len(left)} pods Pending"


def wait_for_verdicts(cluster: ControlPlane) -> None:
    """Until the scheduler has bound or refused every pod of the namespace default."""

    def decided() -> bool:
        pending = {name for name, node in placements(cluster).items() if node is None}
        return pending == refusals(cluster).keys()

    cluster.wait("a verdict on every pod", decided, 300, every=0.5)


def prove_by_volcano(cluster: ControlPlane, proofs: Sequence[Proof]) -> None:
    """A gang of as many members as the nodes take is bound whole; of one with 1 % larger members, none is."""
    cluster.start_volcano()
    for proof in proofs:
        for kind, instance_type in (
            ("exact", proof.kind),
            ("larger", one_percent_larger(proof.kind)),
        ):
            start_gang(cluster, f"{proof.gang}-{kind}", instance_type, proof.n * GANG_NODES)

    def bound() -> bool:
        return not any(
            node is None and "-gang-exact-" in name for name, node in placements(cluster).items()
        )

    cluster.wait("every gang that fits", bound, 300, every=0.5)
    for proof in proofs:
        start_gang(cluster, f"{proof.gang}-next", meant_for(proof.kind, f"{proof.gang}-exact"), 1)
    refused = {f"{proof.gang}-{kind}" for proof in proofs for kind in ("larger", "next")}
    cluster.wait(
        "Volcano's refusals", lambda: refused <= unschedulable_gangs(cluster), 300, every=0.5
    )

    where = placements(cluster)
    for proof in proofs:
        for number in range(GANG_NODES):
            here = [pod for pod, node in where.items() if node == f"{proof.gang}-exact-{number}"]
            assert len(here) == proof.n
        assert where[f"{proof.gang}-next-0"] is None
        assert not [
            pod for pod, node in where.items() if pod.startswith(f"{proof.gang}-larger") and node
        ]


def unschedulable_gangs(cluster: ControlPlane) -> set[str]:
    return {
        item["metadata"]["name"]
        for item in cluster.list("PodGroup", api_version="scheduling.volcano.sh/v1beta1")
        for condition in (item.get("status") or {}).get("conditions") or ()
        if condition["type"] == "Unschedulable" and condition["status"] == "True"
    }


def start_gang(cluster: ControlPlane, name: str, kind: Object, members: int) -> None:
    cluster.create(pod_group(name, members))
    if PURPOSE not in kind["spec"]["nodeSelector"]:
        kind = meant_for(kind, name)
    cluster.create_all(gang_pod(f"{name}-{number}", name, kind) for number in range(members))


# --- the page ---------------------------------------------------------------------------------------------------

INTRODUCTION = """\
# Proof of fit

Made by `tests/cluster/test_fit.py` on a real control plane (etcd, kube-apiserver, kube-scheduler,
kube-controller-manager {current}; kwok plays the kubelets), and again on {older}.
Nodes have the capacity of real nodes and the allocatable that AKS gives them; the DaemonSets of
the profile and the AzureML extension's 5 % pod run on them as real DaemonSets.
Above 220 GiB no capacity was published, and the loss to the guest kernel is taken as about 1/60 of nominal memory.
The types were generated with `arc-toolkit gen-instance-types --from-cluster`.

For a share of 1/n, *bound* says that the scheduler bound n pods of the type to the node. The next pod stayed
Pending on every row. *1 % larger* is the control: the same type with 1 % more cpu and memory, of which one pod
stayed Pending on every row. *From --sku* is the memory that the same command gives with no cluster to ask, told the
version, maxPods and DaemonSets: of that type, too, n pods were bound.

## kube-scheduler

"""
GANG_TEXT = """
## Volcano

An AzureML job is a gang: its PodGroup has minMember = instance count, and all of its pods start or none. Each gang
fills {nodes} nodes. It was bound whole, a further job of one pod stayed Pending, and of the same gang made 1 %
larger no pod was bound.

"""


def page_text(proofs: Sequence[Proof], gangs: Sequence[Proof]) -> str:
    rows = [
        "| size | cores / GiB | GPUs | Kubernetes | maxPods | DaemonSets | share "
        "| cpu | memory | bound | 1 % larger | from --sku |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for proof in proofs:
        machine, limits = proof.machine, proof.kind["spec"]["resources"]["limits"]
        rows.append(
            f"| {machine.size} | {machine.cores} / {machine.memory_gib:g} | {limits.get('nvidia.com/gpu', 0)} "
            f"| {machine.kubernetes} | {machine.max_pods} | {machine.profile} | {proof.share} "
            f"| {limits['cpu']} | {limits['memory']} | {proof.n} of {proof.n} | {proof.n - 1} of {proof.n} "
            f"| {proof.offline['spec']['resources']['limits']['memory']} |"
        )
    versions = {"current": build.pinned("kubernetes")[1], "older": build.pinned(build.OLDER)[1]}
    text = (
        INTRODUCTION.format(**versions)
        + "\n".join(rows)
        + "\n"
        + GANG_TEXT.format(nodes=GANG_NODES)
    )
    rows = [
        "| size | share | instance count = minMember | bound | next job | 1 % larger |",
        "|---|---|---|---|---|---|",
    ]
    for proof in gangs:
        members = proof.n * GANG_NODES
        rows.append(
            f"| {proof.machine.size} | {proof.share} | {members} | {members} of {members} | Pending "
            f"| 0 of {members} |"
        )
    return text + "\n".join(rows) + "\n"


def hold_page(proofs: Sequence[Proof], gangs: Sequence[Proof]) -> None:
    """The numbers bound are those that the assertions above have just seen. The end of the page is test_fleet.py's."""
    text = page_text(proofs, gangs)
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    _, heading, fleet = page.partition(FLEET_HEADING)
    if os.environ.get("ARC_TOOLKIT_WRITE_PROOF"):
        page = text + heading + fleet
        PAGE.write_text(page, encoding="utf-8")
    assert page.partition(FLEET_HEADING)[0] == text, "write it anew with ARC_TOOLKIT_WRITE_PROOF=1"

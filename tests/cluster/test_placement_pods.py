"""Proof of placement: the real schedulers bind the pods of every golden where `place` wants them.

Objects of Kubernetes itself and Volcano Jobs are created as they are, and their controllers make the pods. Of all
other kinds a pod is made from each pod spec, at the path that the documentation of its project has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from scripts import control_plane as build
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import node
from tests.cluster.placement_page import hold_section
from tests.cluster.small import ready
from tests.placement.golden_manifest import Golden, Place
from tests.placement.goldens import GOLDENS
from tests.placement.support import KEY, place

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Object = dict[str, Any]
SPOT, REGULAR, PENDING = "spot", "regular", "Pending"
SPOT_NODES = ("spot-0", "spot-1")
# Without the taint, as node auto-provisioning makes them: only an affinity keeps pods off.
UNTAINTED = "spot-untainted"
CORES = 64
REQUEST = "image: train, resources: {requests: {cpu: 100m}}}"
VOLCANO_JOB = "batch.volcano.sh/v1alpha1 Job"
# Made by the controllers of Kubernetes; a CronJob by a Job from its template, as `kubectl create job --from` does.
CORE = ("Pod", "Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet")
# The columns of the page: namespace, policy, and what was there when the pods came.
COLUMNS = {
    "before": "not placed, only tainted nodes",
    "require": "`require`",
    "prefer": "`prefer`",
    "prefer-full": "`prefer`, spot nodes full",
    "require-full": "`require`, spot nodes full",
    "avoid": "`avoid`",
}


@dataclass(frozen=True)
class PodRow:
    """The pods of one pod spec of a golden; `on` if they belong on spot nodes."""

    golden: str
    role: str
    on: bool
    prefix: str  # of their names
    count: int = 1


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def rows_of(golden: Golden) -> list[tuple[PodRow, Place]]:
    if golden.name in CORE:
        (at,) = golden.on
        return [(PodRow(golden.name, "pod", True, f"core-{slug(golden.name)}"), at)]
    rows = []
    for number, at in enumerate((*golden.on, *golden.off)):
        on, role = number < len(golden.on), role_of(golden, at)
        if golden.name == VOLCANO_JOB:
            rows.append((PodRow(golden.name, role, on, f"volcano-{role}-", 2 if on else 1), at))
        else:
            rows.append((PodRow(golden.name, role, on, f"{slug(golden.name)}-{number}."), at))
    return rows


def role_of(golden: Golden, at: Place) -> str:
    """A word for the page: the key or name that tells the pod specs of a golden apart."""
    document = yaml.safe_load(golden.text)
    names = []
    for depth, step in enumerate(at):
        item = Golden.at(document, at[: depth + 1])
        if isinstance(step, int):
            names.append(str(item.get("name") or item.get("groupName") or step))
        elif isinstance(step, str) and step not in ("spec", "template"):
            names.append(step)
    return names[-1] if names else "pod"


def manifests(golden: Golden, policy: str | None) -> Iterator[Object]:
    """What is created for a golden: the object itself, or a pod for each of its pod specs."""
    text = golden.text.replace("image: train}", REQUEST)
    if policy:
        result = place(text, policy, kinds=golden.kinds, trainer=golden.trainer)
        text = (result.after or text.encode()).decode()
    document = yaml.safe_load(text)
    if golden.name in CORE:
        if golden.name == "CronJob":
            document = {"apiVersion": "batch/v1", "kind": "Job", **document["spec"]["jobTemplate"]}
        yield {**document, "metadata": {"name": f"core-{slug(golden.name)}"}}
    elif golden.name == VOLCANO_JOB:
        # Its webhook, which is not here, would write the queue.
        yield {
            **document,
            "metadata": {"name": "volcano"},
            "spec": {**document["spec"], "queue": "default"},
        }
    else:
        for row, at in rows_of(golden):
            spec = Golden.at(document, at)
            fields = {
                key: spec[key] for key in ("tolerations", "affinity", "nodeSelector") if key in spec
            }
            containers = spec.get("containers") or yaml.safe_load(f"[{{name: main, {REQUEST}]")
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{row.prefix}0"},
                "spec": {**fields, "containers": containers},
            }


def create(cluster: ControlPlane, namespace: str, policy: str | None) -> None:
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    items = [deepcopy(item) for golden in GOLDENS for item in manifests(golden, policy)]
    for item in items:
        item["metadata"]["namespace"] = namespace
    cluster.create_all(items)


def where(cluster: ControlPlane, namespace: str) -> dict[PodRow, list[str]]:
    """For each row where its pods are: spot, regular, Pending once a scheduler has said why; empty if undecided."""
    states = {pod["metadata"]["name"]: _state(pod) for pod in cluster.list("Pod", namespace)}
    return {
        row: sorted(state for name, state in states.items() if name.startswith(row.prefix))
        for golden in GOLDENS
        for row, _ in rows_of(golden)
    }


def _state(pod: Object) -> str:
    if name := pod["spec"].get("nodeName"):
        return SPOT if name in (*SPOT_NODES, UNTAINTED) else REGULAR
    conditions = pod["status"].get("conditions") or ()
    refused = any(
        row["type"] == "PodScheduled" and row.get("reason") == "Unschedulable" for row in conditions
    )
    return PENDING if refused else ""


def expect(cluster: ControlPlane, namespace: str, on: str, off: str) -> dict[PodRow, list[str]]:
    """Wait a minute at most until the pods that belong on spot nodes are at `on` and the others at `off`."""
    rows = [row for golden in GOLDENS for row, _ in rows_of(golden)]
    expected = {row: [on if row.on else off] * row.count for row in rows}
    try:
        cluster.wait("the pods", lambda: where(cluster, namespace) == expected, 90, every=0.5)
    except RuntimeError:
        seen = where(cluster, namespace)
        wrong = {
            f"{row.golden} {row.role}": seen[row] for row in rows if seen[row] != expected[row]
        }
        raise AssertionError(f"{namespace}: expected {on} and {off}, but {wrong}") from None
    return expected


def add_nodes(cluster: ControlPlane, *names: str) -> None:
    spot = {"key": KEY, "value": "spot", "effect": "NoSchedule"}
    capacity = {"cpu": str(CORES), "memory": "256Gi", "pods": "1000"}
    for name in names:
        labels = {KEY: "spot"} if name in (*SPOT_NODES, UNTAINTED) else {}
        taints = [spot] if name in SPOT_NODES else []
        cluster.create(node(name, capacity=capacity, labels=labels, taints=taints))
    ready(cluster, *names)


def fill(cluster: ControlPlane, name: str) -> None:
    """A pod that takes all cores of a node that are free."""

    def pods() -> list[Object]:
        return cluster.list("Pod", fieldSelector=f"spec.nodeName={name}")

    def ended() -> bool:
        """kwok ends the pods of Jobs, which gives their cores back."""
        owned = [
            pod
            for pod in pods()
            for owner in pod["metadata"].get("ownerReferences", ())
            if owner["kind"] == "Job"
        ]
        return all(
            pod["status"].get("phase") == "Succeeded"
            for pod in owned
            if pod["spec"]["schedulerName"] != "volcano"
        )

    cluster.wait("the end of the Jobs", ended, 60, every=0.5)
    running = [pod for pod in pods() if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    free = CORES * 1000 - 100 * len(running)
    resources = {"requests": {"cpu": f"{free}m"}}
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"filler-{name}"},
            "spec": {
                "nodeName": name,
                "containers": [{"name": "main", "image": "none", "resources": resources}],
            },
        }
    )


def test_pods_go_where_they_are_placed(own_cluster: ControlPlane) -> None:
    cluster = own_cluster
    cluster.start_volcano()
    seen = {}
    add_nodes(cluster, *SPOT_NODES)
    for namespace, policy in (("before", None), ("require", "require"), ("avoid", "avoid")):
        create(cluster, namespace, policy)
    seen["before"] = expect(cluster, "before", PENDING, PENDING)
    expect(cluster, "require", SPOT, PENDING)
    expect(cluster, "avoid", PENDING, PENDING)

    add_nodes(cluster, UNTAINTED, "regular-0")
    seen["require"] = expect(cluster, "require", SPOT, REGULAR)
    seen["avoid"] = expect(cluster, "avoid", REGULAR, REGULAR)
    create(cluster, "prefer", "prefer")
    seen["prefer"] = expect(cluster, "prefer", SPOT, REGULAR)

    for name in (*SPOT_NODES, UNTAINTED):
        fill(cluster, name)
    for policy in ("prefer", "require"):
        create(cluster, f"{policy}-full", policy)
    seen["prefer-full"] = expect(cluster, "prefer-full", REGULAR, REGULAR)
    seen["require-full"] = expect(cluster, "require-full", PENDING, REGULAR)
    hold_section("## The schedulers", page_text(seen))


INTRODUCTION = """\
kube-scheduler and kube-controller-manager {kubernetes} and Volcano {volcano} with nodes of kwok: two with the label and
the taint of AKS's spot pools; later a regular node, and a spot node that has the label and no taint. Kinds of
Kubernetes itself and Volcano's Job are created as they are, and their controllers make the pods; of other kinds a
pod is made from each pod spec. A coordinator is kept off spot nodes. Pending: a scheduler found no node, and said so.

"""


def page_text(seen: dict[str, dict[PodRow, list[str]]]) -> str:
    text = INTRODUCTION.format(
        kubernetes=build.pinned("kubernetes")[1], volcano=build.pinned("volcano")[1]
    )
    lines = [
        "| manifest | pods | " + " | ".join(COLUMNS.values()) + " |",
        "|---" * (2 + len(COLUMNS)) + "|",
    ]
    for golden in GOLDENS:
        for row, _ in rows_of(golden):
            cells = [", ".join(dict.fromkeys(seen[name][row])) for name in COLUMNS]
            role = row.role if row.on else f"{row.role} (coordinator)"
            lines.append(f"| {row.golden} | {role} | " + " | ".join(cells) + " |")
    return text + "\n".join(lines) + "\n"

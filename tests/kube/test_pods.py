"""Pods as data: whom they belong to, and the node they are on."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.pods import Pod, PodKind
from arc_toolkit.sizing.occupants import occupants_by_node
from tests.sizing.builders import pod

AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("metadata", "kind", "name"),
    [
        ({"ownerReferences": [{"kind": "DaemonSet", "name": "d"}]}, PodKind.DAEMONSET, "d"),
        ({"ownerReferences": [{"kind": "Node", "name": "n"}]}, PodKind.STATIC, "p"),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, PodKind.STATIC, "p"),
        ({"labels": {"ml.azure.com/run-id": "r"}}, PodKind.JOB, "p"),
        ({"labels": {"jobsource": "aml"}}, PodKind.JOB, "p"),
        ({"labels": {"jobsource": "other"}}, PodKind.OTHER, "p"),
        ({"ownerReferences": [{"kind": "ReplicaSet", "name": "r"}]}, PodKind.OTHER, "p"),
        ({}, PodKind.OTHER, "p"),
    ],
)
def test_a_pod_belongs_to_its_owner(metadata: dict[str, Any], kind: PodKind, name: str) -> None:
    assert Pod({"metadata": {"name": "p", **metadata}}).owner() == (kind, name)


def test_a_daemonset_pod_that_waits_for_room_counts_on_the_node_it_is_made_for() -> None:
    waiting = pod("agent", "", "200m", "1Gi", phase="Pending")
    del waiting["spec"]["nodeName"]
    assert occupants_by_node([waiting]) == {}
    waiting["spec"]["affinity"] = AFFINITY
    assert [(row.name, row.cpu_m) for row in occupants_by_node([waiting])["node-1"]] == [
        ("agent", 200)
    ]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_takes_nothing(phase: str) -> None:
    assert occupants_by_node([pod("done", "n", phase=phase)]) == {}


@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
def test_a_pod_of_another_shape_is_refused_and_not_skipped(part: str) -> None:
    item = {**pod("p", "n"), part: ["x"]}
    with pytest.raises(ArcError, match="not shaped like a Pod object"):
        occupants_by_node([item])
    assert Pod(item).labels == {}  # without `parse` it counts as empty

"""docs/cluster-setup.md: what preflight says after each step, on the clusters that its steps make."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from arc_toolkit.azure import extension
from arc_toolkit.azure.preflight import checks
from arc_toolkit.kube.taints import ANNOTATION, SPOT_TAINT, Toleration
from arc_toolkit.sizing.instance_types import GenerateOptions, generate
from arc_toolkit.sizing.node_selection import DaemonSets, select_nodes
from arc_toolkit.sizing.schedulable import Assumptions
from arc_toolkit.sizing.shares import Share
from tests.azure.objects import installed, node, pod
from tests.azure.test_preflight import facts
from tests.support import ROOT

GUIDE = (ROOT / "docs" / "cluster-setup.md").read_text()
SYSTEM = node("system-0", cpu=4, gib=16, labels={"kubernetes.azure.com/mode": "system"})
SIZE = {"node.kubernetes.io/instance-type": "Standard_D64s_v5"}
TRAIN = node(
    "train-0", cpu=64, gib=252, labels=SIZE, taints=[("ml.azure.com/amlarc-workload", "true")]
)
SPOT = node(
    "spot-0",
    cpu=64,
    gib=252,
    labels={**SIZE, SPOT_TAINT.key: "spot"},
    taints=[(SPOT_TAINT.key, "spot")],
)
# The extension's own pods tolerate neither taint.
OPERATOR = pod("aml-operator-1", "system-0", "ReplicaSet")
SETTINGS = {
    "amloperator.skipResourceValidation": "True",
    extension.SCHEDULER_SETTING: extension.SCHEDULER_CONFIG_NAME,
}
TYPES = {"instance types", "instance types fit", "extension placement"}


def pool(name: str, **more: Any) -> dict[str, Any]:
    limits = {"enableAutoScaling": True, "minCount": 0, "maxCount": 4}
    return {
        "name": name,
        "mode": "User",
        "vmSize": "Standard_D64s_v5",
        "count": 1,
        **limits,
        **more,
    }


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ([SYSTEM, TRAIN], {"64cpu256g", "32cpu128g"}),
        ([SYSTEM, SPOT], {"64cpu256g-spot", "32cpu128g-spot"}),
        ([SYSTEM, TRAIN, SPOT], {"64cpu256g", "32cpu128g", "64cpu256g-spot", "32cpu128g-spot"}),
    ],
    ids=["on-demand", "spot", "mixed"],
)
def test_each_check_of_the_guide_passes_in_its_order(
    nodes: list[dict[str, Any]], names: set[str]
) -> None:
    profiles = [pool("train")] * (TRAIN in nodes)
    profiles += [pool("spot", scaleSetPriority="Spot")] * (SPOT in nodes)
    config = yaml.safe_load(extension.config_map_text())["data"][extension.SCHEDULER_CONFIG_KEY]
    cluster: dict[str, Any] = {
        "nodes": nodes,
        "pods": [OPERATOR],
        "resource": {"properties": {"agentPoolProfiles": profiles}},
        "extension": installed(**SETTINGS),
        "config_maps": {extension.SCHEDULER_CONFIG_NAME: config},
    }

    def not_ok(**changed: Any) -> set[str]:
        return {row.name for row in checks(facts(**{**cluster, **changed})) if row.state != "ok"}

    spot = {"spot nodes"} if SPOT in nodes else set()
    assert not_ok(types=[]) == TYPES | spot  # step 7
    annotation = json.dumps(
        [{"key": SPOT_TAINT.key, "operator": "Equal", "value": "spot", "effect": "NoSchedule"}]
    )
    assert annotation.replace(" ", "") in GUIDE
    cluster["namespaces"] = {"team-a": {ANNOTATION: annotation}}
    assert not_ok(types=[]) == TYPES  # step 8
    selection = select_nodes(
        nodes,
        [OPERATOR],
        Assumptions(),
        DaemonSets(()),
        source="cluster",
        place="",
        tolerations=[Toleration(SPOT_TAINT.key)],
    )
    choices = GenerateOptions(nodes=selection.nodes, tolerations=selection.tolerations)
    made, refused, _ = generate(selection.groups, [Share(1), Share(2)], Assumptions(), choices)
    assert ({entry.name for entry in made}, refused) == (names, [])
    assert not_ok(types=[entry.manifest() for entry in made]) == set()  # step 9


def test_the_guide_makes_the_config_map_after_its_namespace_and_before_its_setting() -> None:
    """The installation makes the namespace; Volcano needs the ConfigMap that the setting names."""
    step = GUIDE.partition("## 6. Extension")[2].partition("**Check:**")[0]
    commands = ("cluster extension install", "cluster scheduler-config |", "schedulerConfigMap=")
    places = [step.index(text) for text in commands]
    assert places == sorted(places)

"""Nodes as data: tolerant and strict reading, and why jobs cannot use one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.nodes import WhyUnusable, parse_node, read_node, unusable
from arc_toolkit.kube.taints import Taint, Toleration
from tests.sizing.builders import node

SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
ROLE = "node-role.kubernetes.io/"
OPEN_TO_NONE = {"key": f"{ROLE}control-plane", "effect": "NoSchedule"}
KEYS = [
    "metadata",
    "name",
    "labels",
    "spec",
    "taints",
    "key",
    "status",
    "conditions",
    "type",
    "nodeInfo",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=25,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), json_values))
def test_reading_any_json_gives_a_node(item: dict[str, Any]) -> None:
    found = read_node(item)
    assert all(isinstance(value, str) for value in found.labels.values())
    assert isinstance(found.name, str)


def test_a_node_has_its_times_conditions_and_provider() -> None:
    item = node("n", taints=[{**SPOT, "timeAdded": "2026-01-01T00:00:00Z"}])
    item["metadata"]["creationTimestamp"] = "2025-12-31T00:00:00Z"
    item["spec"]["providerID"] = "azure:///x/virtualMachines/7"
    item["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-02T00:00:00Z"
    found = read_node(item)
    assert (found.created, found.deleted, found.provider_id) == (
        "2025-12-31T00:00:00Z",
        "",
        "azure:///x/virtualMachines/7",
    )
    assert found.conditions[0] == ("Ready", "True", "", "", "2026-01-02T00:00:00Z")
    assert found.taints[0].added == "2026-01-01T00:00:00Z"
    labelled = read_node(node(labels={SPOT["key"]: "spot"}))
    assert (found.spot, labelled.spot, read_node(node()).spot) == (True, True, False)


def test_a_change_of_times_and_messages_alone_is_not_a_change_of_the_node() -> None:
    before, after = (
        node("n", taints=[SPOT]),
        node("n", taints=[{**SPOT, "timeAdded": "2026-01-01T00:00:00Z"}]),
    )
    after["status"]["conditions"][0] |= {"message": "kubelet is posting ready status"}
    after["metadata"]["creationTimestamp"] = "2025-12-31T00:00:00Z"
    assert parse_node(before) == parse_node(after)
    assert parse_node(before) != parse_node(node("n"))
    assert parse_node(before) != parse_node(node("n", taints=[SPOT], ready="False"))


@pytest.mark.parametrize(
    ("overrides", "why", "temporary"),
    [
        ({"ready": "False"}, WhyUnusable.NOT_READY, True),
        ({"unschedulable": True}, WhyUnusable.CORDONED, True),
        ({"os": "windows"}, WhyUnusable.OPERATING_SYSTEM, False),
        ({"arch": "arm64"}, WhyUnusable.ARCHITECTURE, False),
        (
            {"labels": {f"{ROLE}control-plane": ""}, "taints": [OPEN_TO_NONE]},
            WhyUnusable.CONTROL_PLANE,
            False,
        ),
        (
            {"labels": {f"{ROLE}master": ""}, "taints": [OPEN_TO_NONE]},
            WhyUnusable.CONTROL_PLANE,
            False,
        ),
        ({"taints": [SPOT]}, WhyUnusable.TAINT, False),
    ],
)
def test_the_reason_is_an_enum(
    overrides: dict[str, Any], why: WhyUnusable, temporary: bool
) -> None:
    found = unusable(parse_node(node(**overrides)))
    assert found is not None
    assert (found.reason, found.reason.temporary) == (why, temporary)


def test_the_brief_reason_of_a_taint_leaves_out_the_explanation() -> None:
    found = unusable(parse_node(node(taints=[SPOT])))
    assert found is not None
    assert (
        found.brief == "taint kubernetes.azure.com/scalesetpriority=spot:NoSchedule (a spot pool)"
    )
    assert str(found) == found.brief + ", which AzureML pods do not tolerate"


def test_a_taint_that_is_named_like_a_gpu_may_be_tolerated_by_admission() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    found = unusable(parse_node(node(taints=[taint])))
    assert found is not None
    assert found.brief == "taint nvidia.com/gpu=present:NoSchedule"
    assert str(found).endswith("--tolerate nvidia.com/gpu")
    assert (
        unusable(parse_node(node(taints=[taint])), [Toleration.parse_option("nvidia.com/gpu")])
        is None
    )


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("a"), True),
        (Toleration("a", "b"), True),
        (Toleration("a", "b", "NoSchedule"), True),
        (Toleration("a", None, "NoSchedule"), True),
        (Toleration(""), True),
        (Toleration("", "b"), False),
        (Toleration("a", "c"), False),
        (Toleration("a", "b", "NoExecute"), False),
        (Toleration("b"), False),
    ],
)
def test_tolerations_match_as_in_the_scheduler(toleration: Toleration, tolerated: bool) -> None:
    assert toleration.tolerates(Taint("a", "b", "NoSchedule")) is tolerated
    item = node(taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])
    assert (unusable(parse_node(item), [toleration]) is None) is tolerated


@pytest.mark.parametrize(
    ("key", "value", "tolerated"),
    [
        ("amlarc", "true", True),
        ("amlarc-workload", "true", True),
        ("amlarc-workload", "no", False),
        ("amlarc-system", "true", False),  # only services of the extension
        ("workspace", "w", False),  # only jobs of that workspace
        ("other", "true", False),
    ],
)
def test_job_pods_tolerate_the_taints_that_are_for_all_jobs(
    key: str, value: str, tolerated: bool
) -> None:
    taint = {"key": f"ml.azure.com/{key}", "value": value, "effect": "NoSchedule"}
    assert (unusable(parse_node(node(taints=[taint]))) is None) is tolerated


@pytest.mark.parametrize("key", ["workspace", "compute", "resource-group"])
def test_the_taint_of_an_owner_is_tolerated_with_its_name_only(key: str) -> None:
    taint = {"key": f"ml.azure.com/{key}", "value": "mine", "effect": "NoSchedule"}
    tainted = parse_node(node(taints=[taint]))
    assert unusable(tainted, [Toleration.parse_option(f"ml.azure.com/{key}=mine")]) is None
    assert unusable(tainted, [Toleration.parse_option(f"ml.azure.com/{key}=other")])
    with pytest.raises(ArcError, match=f"write ml.azure.com/{key}=NAME"):
        Toleration.parse_option(f"ml.azure.com/{key}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b", Toleration("a/b")),
        ("a/b=c", Toleration("a/b", "c")),
        ("a/b=c:NoExecute", Toleration("a/b", "c", "NoExecute")),
        ("a/b:NoSchedule", Toleration("a/b", None, "NoSchedule")),
    ],
)
def test_a_toleration_is_written_with_or_without_value_and_effect(
    text: str, expected: Toleration
) -> None:
    assert Toleration.parse_option(text) == expected


@pytest.mark.parametrize("text", ["", "=x", "a:b", ":NoSchedule"])
def test_what_is_not_a_taint_is_refused(text: str) -> None:
    with pytest.raises(ArcError, match="is not a taint"):
        Toleration.parse_option(text)


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule", "NoExecute"])
def test_every_effect_can_be_tolerated(effect: str) -> None:
    assert Toleration.parse(f"a=b:{effect}") == Toleration("a", "b", effect)
    assert Toleration.parse(f"a:{effect}") == Toleration("a", None, effect)
    with pytest.raises(ArcError, match="is not a taint"):
        Toleration.parse(f"a=b:{effect}x")


@pytest.mark.parametrize(
    "label", ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"]
)
def test_the_size_of_a_node(label: str) -> None:
    assert read_node({"metadata": {"labels": {label: "Standard_D2s_v5"}}}).size == "Standard_D2s_v5"


# Of AKS, Karpenter, EKS and GKE.
@pytest.mark.parametrize(
    "label",
    [
        *("kubernetes.azure.com/agentpool", "agentpool", "karpenter.sh/nodepool"),
        *("eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool"),
    ],
)
def test_the_pool_of_a_node(label: str) -> None:
    assert read_node({"metadata": {"labels": {label: "gpu"}}}).pool == "gpu"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu"])
def test_the_gpus_of_a_node(resource: str) -> None:
    item = node()
    item["status"]["capacity"] |= {resource: "4"}
    found = parse_node(item)
    assert (found.gpu_resource, found.gpus) == (resource, 4)


def test_a_node_outside_of_the_extensions_selector_takes_no_job() -> None:
    inside, outside = (parse_node(node(labels={"pool": name})) for name in ("system", "train"))
    selector = {"pool": "system"}
    assert unusable(inside, extension_selector=selector) is None
    found = unusable(outside, extension_selector=selector)
    assert found
    assert found.reason is WhyUnusable.EXTENSION_SELECTOR
    assert "(pool=system), which applies to jobs too" in str(found)

"""The waterfall of a size and of a node: every line adds up, nodes win over rules, nothing is counted twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec
from arc_toolkit.kube.nodes import parse_node, unusable
from arc_toolkit.kube.pods import Pod
from arc_toolkit.kube.quantities import GI, KI, MI
from arc_toolkit.sizing import occupants, vm_sizes
from arc_toolkit.sizing.node_selection import DaemonSets, group_nodes, size_nodes
from arc_toolkit.sizing.schedulable import (
    Assumptions,
    Reserve,
    Schedulable,
    schedulable_of_node,
    schedulable_of_size,
)
from arc_toolkit.sizing.shares import NodeGroup, Share, split
from tests.sizing.builders import node, pod

SIZES = sorted(vm_sizes.table())

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
NVIDIA, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


def _adds_up(schedulable: Schedulable) -> None:
    cpu_m, memory = schedulable.lines[0].cpu_m, schedulable.lines[0].memory
    for line in schedulable.lines[1:]:
        if line.is_level:
            assert (line.cpu_m, line.memory) == (cpu_m, memory), line
        else:
            assert line.cpu_m <= 0
            assert line.memory <= 0
            cpu_m, memory = cpu_m + line.cpu_m, memory + line.memory
    assert (schedulable.cpu_m, schedulable.memory) == (cpu_m, memory)


@given(
    st.sampled_from(SIZES),
    st.integers(20, 36),
    st.integers(10, 250),
    st.sampled_from(["aks-kubenet", "aks-overlay", "none"]),
)
def test_every_waterfall_adds_up(size: str, minor: int, max_pods: int, profile: str) -> None:
    version = (1, minor)
    sitting = occupants.profile(profile, version)
    _adds_up(schedulable_of_size(vm_sizes.table()[size], Assumptions(version, max_pods), sitting))


@given(st.sampled_from(SIZES), st.sampled_from([1, 2, 3, 4, 7, 8]), st.integers(10, 250))
def test_n_shares_fit_beside_everything_and_leave_less_than_n_units(
    size: str, n: int, max_pods: int
) -> None:
    sitting = [*occupants.profile("aks-overlay", (1, 33)), *occupants.profile("azureml", (1, 33))]
    schedulable = schedulable_of_size(
        vm_sizes.table()[size], Assumptions(max_pods=max_pods), sitting
    )
    group = NodeGroup(size, (), (schedulable,), "sku")
    try:
        portion = split(group, Share(n))
    except ArcError:
        assert (
            schedulable.gpus % n
            or n > group.pods_free
            or schedulable.memory < n * MI
            or schedulable.cpu_m < n * 10
        )
        return
    assert 0 <= schedulable.memory - n * portion.memory < n * MI
    assert 0 <= schedulable.cpu_m - n * portion.cpu_m < n * 10
    assert portion.gpus * n == schedulable.gpus


def test_a_half_of_a_d64s_v5_given_its_true_capacity() -> None:
    """The example of the README, checked by hand."""
    sitting = [
        *occupants.profile("aks-overlay-1.30", (1, 33)),
        *occupants.profile("azureml", (1, 33)),
    ]
    real = parse_node(node())
    schedulable = schedulable_of_node(real, Assumptions(), sitting)
    allocatable = 263900000 - (20 * 110 + 50) * 1024 - 100 * 1024
    assert allocatable == 261493600
    reserve = 263900000 * 5 // 100
    assert schedulable.memory == (allocatable - 470 * 1024 - 100 * 1024 - reserve) * KI
    assert schedulable.cpu_m == 64000 - 740 - 350 - 10


def test_the_node_wins_over_the_rules_and_the_difference_is_said() -> None:
    hardened = node(allocatable_memory="250000000Ki")
    schedulable = schedulable_of_node(parse_node(hardened), Assumptions(), [])
    line = next(line for line in schedulable.lines if "kubelet" in line.name and line.memory)
    assert line.memory == -(263900000 - 250000000) * KI
    assert "the node wins" in line.rule


def test_a_node_without_allocatable_is_computed_from_its_capacity() -> None:
    given_ = schedulable_of_node(parse_node(node()), Assumptions(), [])
    computed = schedulable_of_node(parse_node(node(allocatable_memory=None)), Assumptions(), [])
    assert (given_.cpu_m, given_.memory) == (computed.cpu_m, computed.memory)


def test_each_resource_is_the_nodes_own_where_it_says_so() -> None:
    item = node(allocatable_memory="200Gi")
    del item["status"]["allocatable"]["cpu"]
    schedulable = schedulable_of_node(parse_node(item), Assumptions(reserve=Reserve.parse("0")), [])
    assert schedulable.memory == 200 * 2**30
    assert schedulable.cpu_m == 63260  # by the rule


def test_options_serve_where_a_node_says_nothing() -> None:
    item = node(allocatable_memory=None)
    options = Assumptions(
        reserve=Reserve.parse("0"), kube_reserved_memory=10 * 2**30, kube_reserved_cpu_m=1000
    )
    schedulable = schedulable_of_node(parse_node(item), options, [])
    assert schedulable.cpu_m == 63000
    assert schedulable.memory == 263900000 * KI - 10 * 2**30 - 100 * MI


def test_gpus_that_a_daemonset_takes_are_not_offered() -> None:
    taker = pod("dcgm", "n")
    taker["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    schedulable = schedulable_of_node(
        parse_node(node("n", gpus=4)), Assumptions(), occupants.occupants_by_node([taker])["n"]
    )
    assert schedulable.gpus == 3


def test_pods_without_requests_defeat_nothing() -> None:
    idle = pod("idle", "n", "0", "0", owner="ReplicaSet")
    schedulable = schedulable_of_node(
        parse_node(node("n")), Assumptions(), occupants.occupants_by_node([idle])["n"]
    )
    assert schedulable.other_pods == ()


def test_the_extension_may_run_in_another_namespace() -> None:
    held = pod("memory-reserve", "n", "0", f"{263900000 // 20}Ki", namespace="aml-ext")
    sitting = occupants.occupants_by_node([held])["n"]
    real = parse_node(node("n"))
    named = schedulable_of_node(real, Assumptions(extension_namespace="aml-ext"), sitting)
    assert named.memory == schedulable_of_node(real, Assumptions(), []).memory


def test_the_reservation_is_counted_once_where_a_pod_already_holds_it() -> None:
    held = pod("memory-reserve", "n", "0", f"{263900000 // 20}Ki", namespace="azureml")
    sitting = occupants.occupants_by_node([held])["n"]
    with_pod = schedulable_of_node(parse_node(node("n")), Assumptions(), sitting)
    without = schedulable_of_node(parse_node(node("n")), Assumptions(), [])
    assert with_pod.memory == without.memory
    _adds_up(with_pod)


def test_a_larger_reserve_that_was_asked_for_comes_on_top_of_the_pod() -> None:
    held = pod("memory-reserve", "n", "0", f"{263900000 // 20}Ki", namespace="azureml")
    sitting = occupants.occupants_by_node([held])["n"]
    asked = Assumptions(reserve=Reserve.parse("10%"))
    schedulable = schedulable_of_node(parse_node(node("n")), asked, sitting)
    assert schedulable.memory == (261493600 - 26390000) * KI


def test_only_daemonset_and_static_pods_count_and_deployments_are_named() -> None:
    pods = [
        pod("kube-proxy", "n", "100m", "0"),
        pod("static", "n", "50m", "10Mi", owner="Node"),
        pod("azureml-fe-v2", "n", "900m", "800Mi", owner="ReplicaSet", namespace="azureml"),
        pod("train", "n", "30", "100Gi", owner="Job", labels={"ml.azure.com/run-id": "x"}),
        pod("done", "n", "10", "10Gi", phase="Succeeded"),
    ]
    sitting = occupants.occupants_by_node(pods)["n"]
    schedulable = schedulable_of_node(parse_node(node("n")), Assumptions(), sitting)
    assert schedulable.cpu_m == 63260 - 150
    assert [occupant.name for occupant in schedulable.other_pods] == ["azureml-fe-v2-x1"]


def test_requests_count_as_the_scheduler_counts_them() -> None:
    def container(cpu: str, memory: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}

    spec = {
        "containers": [container("1", "1Gi"), container("500m", "1Gi"), {"name": "none"}],
        "initContainers": [
            container(
                "200m", "100Mi", restartPolicy="Always"
            ),  # a sidecar: counts with the containers
            container("4", "256Mi"),  # runs before them, beside the sidecar
        ],
        "overhead": {"cpu": "10m", "memory": "1Mi"},
    }
    assert Pod({"spec": spec}).requests() == (4200 + 10, (2048 + 100 + 1) * MI)
    assert Pod({"spec": {**spec, "resources": {"requests": {"cpu": "2"}}}}).requests()[0] == 2010


def test_the_group_gives_what_its_tightest_node_gives_of_each_resource() -> None:
    nodes = [
        parse_node(node("a", allocatable_cpu="60")),
        parse_node(node("b", allocatable_memory="200Gi")),
    ]
    assumptions = Assumptions(reserve=Reserve.parse("0"))
    candidates = size_nodes(nodes, {}, assumptions, DaemonSets(()))
    (group,) = group_nodes(candidates, source="nodes", by_pool=False)
    assert (group.tightest_cpu.name, group.tightest_memory.name) == ("a", "b")
    assert group.selector == (("node.kubernetes.io/instance-type", "Standard_D64s_v5"),)


def test_profiles_between_two_seen_versions_take_the_larger_of_each() -> None:
    (between,) = occupants.profile("aks-overlay", (1, 33))
    assert (between.cpu_m, between.memory) == (350, 526 * MI)
    assert sum(o.memory for o in occupants.profile("aks-overlay", (1, 28))) == 470 * MI
    assert sum(o.cpu_m for o in occupants.profile("aks-overlay", (1, 40))) == 335


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"ready": "False"}, "NotReady"),
        ({"ready": "Unknown"}, "NotReady"),
        ({"unschedulable": True}, "cordoned"),
        ({"os": "windows"}, "windows"),
        ({"arch": "arm64"}, "arm64"),
        (
            {
                "labels": {CONTROL_PLANE: ""},
                "taints": [{"key": CONTROL_PLANE, "effect": "NoSchedule"}],
            },
            "control plane",
        ),
        ({"labels": {CONTROL_PLANE: ""}}, None),
        (
            {"taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]},
            "taint sku=gpu:NoSchedule",
        ),
        (
            {
                "taints": [
                    {
                        "key": "kubernetes.azure.com/scalesetpriority",
                        "value": "spot",
                        "effect": "NoSchedule",
                    }
                ]
            },
            "spot",
        ),
        (
            {
                "taints": [
                    {"key": "ml.azure.com/amlarc-workload", "value": "true", "effect": "NoSchedule"}
                ]
            },
            None,
        ),
        ({"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}, None),
        ({}, None),
    ],
)
def test_nodes_that_jobs_cannot_use_are_left_out_with_the_reason(
    overrides: dict[str, Any], reason: str | None
) -> None:
    found = unusable(parse_node(node(**overrides)))
    assert found is None if reason is None else reason in str(found)


@pytest.mark.parametrize("text", ["-5%", "100%", "abc", "5%%", "-1Gi", "1/0%"])
def test_a_reserve_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ArcError, match="--reserve"):
        Reserve.parse(text)


def free(
    cpu_m: int, memory: int, devices: dict[str, int] | None = None, pods_free: int = 110
) -> Schedulable:
    sized = schedulable_of_node(parse_node(node()), Assumptions(), [])
    return replace(
        sized, cpu_m=cpu_m, memory=memory, devices=devices or {}, max_pods=pods_free, pods_taken=0
    )


@pytest.mark.parametrize(
    ("request_", "sized", "expected"),
    [
        ((1000, GI, {}), free(4000, 16 * GI), (4, "cpu")),
        ((1000, 8 * GI, {}), free(4000, 16 * GI), (2, "memory")),
        ((1, 1, {}), free(4000, 16 * GI, pods_free=3), (3, "maxPods")),
        ((1000, GI, {NVIDIA: 2}), free(4000, 16 * GI, {NVIDIA: 3}), (1, "gpu")),
        ((1000, GI, {MIG: 2, NVIDIA: 1}), free(9000, 16 * GI, {NVIDIA: 3, MIG: 5}), (2, "gpu")),
        ((0, GI, {}), free(4000, 16 * GI), (16, "memory")),
        ((1000, GI, {}), free(-10, 16 * GI), (0, "cpu")),
    ],
)
def test_how_many_fit_is_the_scarcest_resource(
    request_: tuple[int, int, dict[str, int]], sized: Schedulable, expected: tuple[int, str]
) -> None:
    assert sized.how_many(*request_) == expected


def test_gpus_of_another_maker_do_not_count() -> None:
    spec = InstanceTypeSpec("t", 4000, 16 * GI, {NVIDIA: 2})
    assert free(64000, 256 * GI, {NVIDIA: 8}).how_many_of(spec) == (4, "gpu")
    assert free(64000, 256 * GI, {"amd.com/gpu": 8}).how_many_of(spec) == (0, "gpu")

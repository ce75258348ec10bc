"""Names of types on a cluster that has some already: jobs name their type, so it keeps its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import PREFIX
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.sizing.instance_types import GenerateOptions, generate
from arc_toolkit.sizing.node_selection import DaemonSets, Selection, select_nodes
from arc_toolkit.sizing.schedulable import Assumptions
from arc_toolkit.sizing.shares import Share, Size
from arc_toolkit.sizing.type_names import DEFAULT_TEMPLATE
from tests.sizing.builders import node

Object = dict[str, Any]
D64 = node("a")
D64A = node("b", size="Standard_D64as_v5", pool="d64a")
D64D = node("c", size="Standard_D64ds_v5", pool="d64d")


H200 = node("h", size="Standard_ND96isr_H200_v5", pool="h200", gpus=8)
MI300X = node("m", size="Standard_ND96isr_MI300X_v5", pool="mi300x")
MI300X["status"]["capacity"]["amd.com/gpu"] = MI300X["status"]["allocatable"]["amd.com/gpu"] = "8"
SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
SPOT_LABEL = {SPOT["key"]: "spot"}


def cluster(*nodes: Object, by_pool: bool = False, architecture: str = "amd64") -> Selection:
    return select_nodes(
        nodes,
        [],
        Assumptions(),
        DaemonSets(()),
        source="cluster",
        place="test",
        by_pool=by_pool,
        architecture=architecture,
        tolerations=[Toleration(SPOT["key"], "spot")],
    )


def types(
    selection: Selection,
    present: dict[str, Object],
    *requests: Share | Size,
    template: str = DEFAULT_TEMPLATE,
    selector: str = "auto",
    repoint: Sequence[str] = (),
) -> tuple[dict[str, Object], list[str]]:
    """What a run makes on a cluster that has the types `present`: manifests by name, and the notes."""
    choices = GenerateOptions(
        template,
        selector,
        nodes=selection.nodes,
        tolerations=selection.tolerations,
        present=present,
        repoint=repoint,
    )
    made, _, notes = generate(selection.groups, requests or [Share(1)], Assumptions(), choices)
    return {entry.name: entry.manifest() for entry in made}, notes


def selected_size(item: Object) -> str:
    return str(item["spec"]["nodeSelector"]["node.kubernetes.io/instance-type"])


def test_a_second_pool_of_the_same_name_does_not_rename_the_type_that_is_there() -> None:
    first, _ = types(cluster(D64), {})
    assert list(first) == ["64cpu256g"]
    second, notes = types(cluster(D64, D64A), first)
    assert {name: selected_size(item) for name, item in second.items()} == {
        "64cpu256g": "Standard_D64s_v5",
        "64cpu256g-standard-d64as-v5": "Standard_D64as_v5",
    }
    assert notes == [
        "2 types would be called 64cpu256g; they are 64cpu256g-standard-d64as-v5, 64cpu256g (as in the cluster)"
    ]
    third, _ = types(cluster(D64, D64A, D64D), second)
    assert third.keys() == {*second, "64cpu256g-standard-d64ds-v5"}
    assert {name: selected_size(third[name]) for name in second} == {
        name: selected_size(item) for name, item in second.items()
    }


def test_the_names_stay_while_a_pool_is_at_zero_nodes() -> None:
    both, _ = types(cluster(D64, D64A), types(cluster(D64), {})[0])
    one, notes = types(cluster(D64A), both)
    assert {name: selected_size(item) for name, item in one.items()} == {
        "64cpu256g-standard-d64as-v5": "Standard_D64as_v5"
    }
    assert notes == ["64cpu256g is called 64cpu256g-standard-d64as-v5 (as in the cluster)"]


def test_of_two_pools_of_one_size_the_first_keeps_its_name() -> None:
    one, two = node("a", pool="one"), node("b", pool="two")
    first, _ = types(cluster(one, by_pool=True), {})
    second, _ = types(cluster(one, two, by_pool=True), first)
    assert {
        name: item["spec"]["nodeSelector"]["kubernetes.azure.com/agentpool"]
        for name, item in second.items()
    } == {
        "64cpu256g": "one",
        "64cpu256g-standard-d64s-v5": "two",
    }


def test_another_template_names_the_types_anew() -> None:
    first, _ = types(cluster(D64), {})
    assert list(types(cluster(D64), first, template="big-{share}")[0]) == ["big-whole"]


@pytest.mark.parametrize(("key", "value"), [("share", "half"), ("size", "Standard_D32s_v5")])
def test_a_type_that_was_made_for_something_else_does_not_keep_the_name_from_the_others(
    key: str, value: str
) -> None:
    first, _ = types(cluster(D64), {})
    first["64cpu256g"]["metadata"]["annotations"][PREFIX + key] = value
    second, _ = types(cluster(D64, D64A), first)
    assert second.keys() == {"64cpu256g-standard-d64s-v5", "64cpu256g-standard-d64as-v5"}


MIG = "nvidia.com/mig-1g.10gb"


def mig_node() -> Object:
    item = node("m", size="Standard_ND96isr_H100_v5", pool="mig")
    for amounts in (item["status"]["capacity"], item["status"]["allocatable"]):
        amounts[MIG] = "56"
    return item


def test_a_size_may_ask_for_mig_slices() -> None:
    made, _ = types(cluster(mig_node()), {}, Size.parse("4cpu16g-2mig-1g.10gb"))
    [item] = made.values()
    assert list(made) == ["4cpu16g-2mig-1g.10gb"]
    assert item["spec"]["resources"]["limits"] == {"cpu": "4", "memory": "16Gi", MIG: 2}


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        ("4cpu16g-57mig-1g.10gb", "asks for 57 mig-1g.10gb; Standard_ND96isr_H100_v5"),
        ("4cpu16g-1mig-3g.40gb", "asks for 1 mig-3g.40gb; Standard_ND96isr_H100_v5"),
        ("4cpu16g-1gpu", "asks for 1 GPU; Standard_ND96isr_H100_v5"),
    ],
)
def test_slices_that_the_nodes_do_not_have_are_refused(size: str, sentence: str) -> None:
    with pytest.raises(ArcError, match=sentence):
        types(cluster(mig_node()), {}, Size.parse(size))


def test_a_name_is_never_given_to_other_hardware() -> None:
    """The pool of H200s is at zero, and MI300X are up: a job that names the type wants NVIDIA."""
    template = "{cpu}cpu-{gpus}gpu"
    present, _ = types(cluster(H200), {}, template=template)
    (name,) = present
    made, notes = types(cluster(MI300X), present, template=template)
    assert list(made) == [f"{name}-standard-nd96isr-mi300x-v5"]
    assert f"{name} is in the cluster for Standard_ND96isr_H200_v5" in notes[0]
    made, notes = types(cluster(MI300X), present, template=template, repoint=[name])
    assert list(made) == [name]
    assert f"{name} changes from Standard_ND96isr_H200_v5" in notes[0]


def test_two_runs_with_other_selectors_do_not_repoint_each_other() -> None:
    one, two = node("a", labels={"team": "one"}), node("b", pool="d64b", labels={"team": "two"})
    present, _ = types(cluster(one, two), {}, selector="team=one")
    made, _ = types(cluster(one, two), present, selector="team=two")
    assert list(present) == ["64cpu256g"]
    assert list(made) == ["64cpu256g-standard-d64s-v5"]


def test_a_type_for_another_architecture_gets_a_name_of_its_own() -> None:
    arm = node("c", size="", arch="arm64", labels={"kubernetes.io/arch": "arm64"})
    amd = node("a", size="", labels={"kubernetes.io/arch": "amd64"})
    present, _ = types(cluster(amd), {})
    made, _ = types(cluster(arm, architecture="arm64"), present)
    assert present.keys().isdisjoint(made)


def test_spot_nodes_of_one_size_have_a_type_of_their_own() -> None:
    spot = node("s", pool="spot", labels=SPOT_LABEL, taints=[SPOT])
    made, _ = types(cluster(D64, spot), {})
    assert made.keys() == {"64cpu256g", "64cpu256g-spot"}
    assert made["64cpu256g-spot"]["spec"]["nodeSelector"][SPOT["key"]] == "spot"
    # Nothing says that a node is not spot, so the other type is kept off by its pool.
    assert "d64" in made["64cpu256g"]["spec"]["nodeSelector"].values()


def test_a_half_and_an_exact_size_never_share_a_name() -> None:
    present, _ = types(cluster(D64), {}, Share(2))
    made, _ = types(cluster(D64), present, Size.parse("32cpu110g"), template="{cpu}cpu128g")
    assert list(present) == ["32cpu128g"]
    assert list(made) == ["32cpu128g-standard-d64s-v5"]


SPOT_NODE = node("s", pool="spot", labels=SPOT_LABEL, taints=[SPOT])


def test_pools_that_come_and_go_neither_rename_a_type_nor_let_it_onto_spot_nodes() -> None:
    first, _ = types(cluster(D64, SPOT_NODE), {})
    pool = first["64cpu256g"]["spec"]["nodeSelector"].items()
    # The spot pool is at zero: its next node must not get the jobs of the other type.
    alone, notes = types(cluster(D64), first)
    assert list(alone) == ["64cpu256g"]
    assert alone["64cpu256g"]["spec"]["nodeSelector"].items() == pool
    assert notes == []
    # A second on-demand pool, and then only that one.
    second = node("b", pool="more")
    both, notes = types(cluster(D64, second, SPOT_NODE), first)
    assert both.keys() == first.keys()
    assert "64cpu256g may run on spot nodes too (s)" in notes[0]
    other, _ = types(cluster(second, SPOT_NODE), first)
    assert other.keys() == first.keys()
    assert "more" in other["64cpu256g"]["spec"]["nodeSelector"].values()


def test_a_type_of_one_pool_is_not_given_to_another() -> None:
    present, _ = types(cluster(D64, by_pool=True), {})
    made, _ = types(cluster(node("b", pool="more"), by_pool=True), present)
    assert present.keys().isdisjoint(made)


@pytest.mark.parametrize(
    ("key", "spot", "on_demand"),
    [
        ("karpenter.sh/capacity-type", "spot", "on-demand"),
        ("eks.amazonaws.com/capacityType", "SPOT", "ON_DEMAND"),
        ("cloud.google.com/gke-spot", "true", ""),
    ],
)
def test_spot_nodes_of_other_clouds_are_known_by_their_labels(
    key: str, spot: str, on_demand: str
) -> None:
    labels = {key: on_demand} if on_demand else {}
    nodes = node("a", pool="a", labels=labels), node("s", pool="s", labels={key: spot})
    made, _ = types(cluster(*nodes), {})
    assert made["64cpu256g-spot"]["spec"]["nodeSelector"][key] == spot
    selector = made["64cpu256g"]["spec"]["nodeSelector"]
    assert (on_demand or "a") in selector.values()


def test_spot_nodes_with_the_taint_and_no_label_are_apart_too() -> None:
    made, _ = types(cluster(D64, node("s", pool="spot", taints=[SPOT])), {})
    assert made.keys() == {"64cpu256g", "64cpu256g-spot"}
    assert "spot" in made["64cpu256g-spot"]["spec"]["nodeSelector"].values()


def test_merged_types_are_for_spot_nodes_or_not_whichever_are_up() -> None:
    def merged(*nodes: Object) -> dict[str, Object]:
        options = GenerateOptions(nodes=cluster(*nodes).nodes, merge=True)
        made, _, _ = generate(cluster(*nodes).groups, [Share(1)], Assumptions(), options)
        return {entry.name: entry.manifest() for entry in made}

    together, one = merged(D64, SPOT_NODE), merged(SPOT_NODE)
    assert list(together) == list(one) == ["64cpu256g"]
    made_for = [row["64cpu256g"]["metadata"]["annotations"] for row in (together, one)]
    assert made_for[0] == made_for[1]
    assert list(together["64cpu256g"]["spec"]["nodeSelector"].values()) == ["Standard_D64s_v5"]


def test_repoint_works_after_a_run_without_it_and_refuses_unknown_names() -> None:
    template = "{cpu}cpu-{gpus}gpu"
    present, _ = types(cluster(H200), {}, template=template)
    (name,) = present
    present |= types(cluster(MI300X), present, template=template)[0]
    made, _ = types(cluster(MI300X), present, template=template, repoint=[name])
    assert list(made) == [name]
    with pytest.raises(ArcError, match="--repoint 96gpu: this run makes no type of that name"):
        types(cluster(MI300X), present, template=template, repoint=["96gpu"])
    with pytest.raises(ArcError, match="2 types of that name"):
        types(cluster(H200, MI300X), present, template=template, repoint=[name])

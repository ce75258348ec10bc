"""The rows of `cluster nodes`, without a cluster."""

from __future__ import annotations

from typing import Any

from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec
from arc_toolkit.kube.nodes import parse_node, unusable
from arc_toolkit.kube.quantities import GI, MI
from arc_toolkit.sizing.fits import Candidate
from arc_toolkit.sizing.node_table import make_rows, table_text
from arc_toolkit.sizing.occupants import occupants_by_node
from arc_toolkit.sizing.schedulable import Assumptions, Reserve, schedulable_of_node
from tests.sizing.builders import node, pod

TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}


def sized(name: str, *pods: dict[str, Any], reserve: str = "1Gi", **overrides: Any) -> Candidate:
    real = parse_node(node(name, **overrides))
    assumptions = Assumptions(reserve=Reserve.parse(reserve))
    schedulable = schedulable_of_node(real, assumptions, occupants_by_node(pods).get(name, []))
    return Candidate(real, schedulable, unusable(real))


def test_a_row_has_what_daemonsets_take_and_what_is_reserved() -> None:
    agent = pod("agent", "a", "100m", "128Mi")
    (row,) = make_rows([sized("a", agent)], [], occupants_by_node=True, labels=["agentpool"])
    assert (row.name, row.labels) == ("a", {"agentpool": "d64"})
    assert row.amounts["daemonsets"] == (100, 128 * MI)
    assert row.amounts["reserved"] == (0, GI)
    assert row.amounts["schedulable"] == (
        row.amounts["allocatable"][0] - 100,
        row.amounts["allocatable"][1] - 128 * MI - GI,
    )


def test_nodes_of_one_size_pool_and_state_are_one_row_with_the_least_of_them() -> None:
    large, small = sized("a"), sized("b", allocatable_cpu="60", allocatable_memory="200Gi")
    half = InstanceTypeSpec("half", 31000, 100 * GI)
    (row,) = make_rows([large, small], [half], occupants_by_node=False, labels=[])
    assert (row.nodes, row.amounts["schedulable"]) == (2, (60000, 199 * GI))
    assert row.types == (("half", 1),)
    assert len(make_rows([large, small], [half], occupants_by_node=True, labels=[])) == 2


def test_a_node_that_jobs_cannot_use_shows_the_brief_reason_and_no_types() -> None:
    rows = make_rows(
        [sized("a", taints=[TAINT])],
        [InstanceTypeSpec("small", 1000, GI)],
        occupants_by_node=False,
        labels=[],
    )
    text = table_text(rows, occupants_by_node=False, labels=[])
    assert text.splitlines()[1].endswith("left out: taint sku=gpu:NoSchedule")
    assert rows[0].types == ()


def test_a_node_that_joins_has_no_amounts() -> None:
    item = node("a")
    del item["status"]["capacity"]
    joining = parse_node(item)
    row = Candidate(joining, schedulable_of_node(joining, Assumptions(), []), unusable(joining))
    (shown,) = make_rows([row], [], occupants_by_node=True, labels=[])
    assert set(shown.amounts.values()) == {(0, 0)}
    cells = table_text([shown], occupants_by_node=True, labels=[]).splitlines()[1].split()
    assert cells[:9] == ["a", "Standard_D64s_v5", "d64", *"------"]


def test_a_node_with_more_pods_than_it_can_take_shows_less_than_nothing() -> None:
    (row,) = make_rows(
        [sized("a", pod("agent", "a", "64", "1Gi"))], [], occupants_by_node=True, labels=[]
    )
    assert row.amounts["schedulable"][0] < 0

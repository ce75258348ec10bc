"""Types against nodes, answers of a server as sentences, watches that break: the parts that need no cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_toolkit.cluster import failures
from arc_toolkit.cluster.client import Client
from arc_toolkit.kube.nodes import parse_node, parse_nodes
from arc_toolkit.sizing import fits
from arc_toolkit.sizing.fits import Candidate
from arc_toolkit.sizing.node_selection import DaemonSets, size_nodes
from arc_toolkit.sizing.schedulable import Assumptions, schedulable_of_node
from tests.sizing import builders

Object = dict[str, Any]


def member(**options: Any) -> Candidate:
    node = parse_node(builders.node(**options))
    return Candidate(node, schedulable_of_node(node, Assumptions(), []))


def kind(
    cpu: str = "1",
    memory: str = "1Gi",
    *,
    share: str = "",
    selector: Object | None = None,
    gpu: Object | None = None,
) -> Object:
    amounts = {"cpu": cpu, "memory": memory}
    annotations = {"arc-toolkit.io/share": share} if share else {}
    return {
        "metadata": {"name": "t", "annotations": annotations},
        "spec": {
            "nodeSelector": selector,
            "resources": {"requests": amounts, "limits": {**amounts, **(gpu or {})}},
        },
    }


def state(item: Object, *usable: Candidate) -> tuple[str, str]:
    [fit] = fits.check({"t": item}, usable)
    return fit.state, fit.reason


def test_a_type_fits_where_the_tightest_node_takes_as_many_as_it_was_made_for() -> None:
    node = member()
    half = node.schedulable.memory // 2 // 2**20
    assert state(kind("1", f"{half}Mi", share="half"), node)[0] == "fits"
    assert state(kind("1", f"{half + 1}Mi", share="half"), node)[0] == "fits less often"
    assert state(kind("1", f"{2 * half + 2}Mi"), node)[0] == "does not fit"


def test_one_node_that_is_too_small_is_drift_of_a_type_that_was_made_for_its_size_and_of_no_other() -> (
    None
):
    large, small = member(name="large"), member(name="small", allocatable_memory="100000000Ki")
    size = {"node.kubernetes.io/instance-type": "Standard_D64s_v5"}
    found = state(kind("1", "200Gi", share="whole", selector=size), large, small)
    assert found[0] == "fits less often"
    assert found[1].startswith("on 1 of 2 nodes: it asks ")
    assert state(kind("1", "200Gi", share="whole"), large, small)[0] == "fits"
    assert (
        state(kind("1", "200Gi", selector=size), large, small)[0] == "fits"
    )  # somebody else's type
    assert state(kind("1", "200Gi", share="half"), large, small)[0] == "fits less often"


def test_a_selector_is_compared_with_case_as_kubernetes_does() -> None:
    selector = {"node.kubernetes.io/instance-type": "standard_d64s_v5"}
    assert state(kind(selector=selector), member())[0] == "no node"


def test_gpus_of_another_vendor_do_not_count() -> None:
    node = member(gpus=4)
    assert state(kind(gpu={"nvidia.com/gpu": 4}), node)[0] == "fits"
    assert state(kind(gpu={"amd.com/gpu": 4}), node)[0] == "does not fit"
    assert state(kind(gpu={"nvidia.com/gpu": 5}), node)[0] == "does not fit"


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (kind(cpu="many"), "'many' is not a Kubernetes quantity"),
        (kind(memory=""), "spec.resources.requests.memory is missing"),
        (
            {"metadata": {"name": "t"}, "spec": {"resources": None, "requests": {}}},
            "spec.resources.requests.cpu is missing",
        ),
        ({"metadata": {"name": "t"}}, "spec.resources.requests.cpu is missing"),
        (kind(gpu={"nvidia.com/gpu": "some"}), "some"),
        (kind(share="most"), "most"),
    ],
)
def test_a_type_that_is_not_valid_is_named_and_the_others_are_still_checked(
    item: Object, said: str
) -> None:
    found = fits.check({"bad": item, "good": kind()}, [member()])
    assert [(fit.name, fit.state) for fit in found] == [("bad", "not valid"), ("good", "fits")]
    assert said in found[0].reason


@given(cpu_m=st.integers(1, 100_000), memory_mi=st.integers(1, 400_000), n=st.integers(1, 12))
def test_a_type_fits_exactly_when_n_of_it_are_no_more_than_the_node_gives(
    cpu_m: int, memory_mi: int, n: int
) -> None:
    schedulable = NODE.schedulable
    item = kind(f"{cpu_m}m", f"{memory_mi}Mi", share=f"1/{n}")
    enough = n * cpu_m <= schedulable.cpu_m and n * memory_mi * 2**20 <= schedulable.memory
    assert (state(item, NODE)[0] == "fits") is enough


NODE = member()


# --- answers ----------------------------------------------------------------------------------------------------


def answer(
    status: int, message: str, path: str = "/api/v1/nodes", **details: Any
) -> failures.ApiError:
    body = {"message": message, "details": details}
    return failures.response_error(status, body, method="GET", path=path, server="the cluster x")


def test_a_forbidden_in_a_namespace_names_it() -> None:
    said = 'pods is forbidden: User "ada" cannot watch resource "pods" in API group "" in the namespace "ml"'
    expected = 'user "ada" may not watch pods in namespace ml on the cluster x: the ClusterRole arc-toolkit-record'
    assert str(answer(403, said)).startswith(expected)


def test_a_cluster_that_asks_azure_for_rights_needs_an_azure_role() -> None:
    said = (
        'nodes is forbidden: User "ada@example.com" cannot {} resource "{}" in API group "" at the cluster scope: '
        "User does not have access to the resource in Azure. Update role assignment to allow access."
    )
    read, change = (
        str(answer(403, said.format("list", "nodes"))),
        str(answer(403, said.format("patch", "nodes"))),
    )
    assert (
        'user "ada@example.com" may not list nodes on the cluster x: this cluster asks Azure for rights'
        in read
    )
    assert "Azure Kubernetes Service RBAC Cluster Admin" in read
    assert "Microsoft.ContainerService/managedClusters/*/read" in read
    assert "rbac.yaml" not in read + change
    assert "/read" not in change


def test_a_forbidden_of_another_kind_is_passed_on() -> None:
    assert str(answer(403, "quota exceeded")) == "the cluster x forbids it: quota exceeded"


def test_a_missing_object_is_not_taken_for_a_missing_extension() -> None:
    missing = answer(404, 'instancetypes "t" not found', f"{failures.INSTANCE_TYPES}/t", name="t")
    assert "not installed" not in str(missing)
    assert "not installed" in str(answer(404, "404 page not found", failures.INSTANCE_TYPES))


def test_other_answers_carry_the_code_the_request_and_the_message() -> None:
    assert (
        str(answer(500, "etcd is down"))
        == "the cluster x answered 500 to GET /api/v1/nodes: etcd is down"
    )


def test_conflicts_name_field_and_manager() -> None:
    body = {
        "details": {
            "causes": [{"field": ".spec.a", "message": 'conflict with "helm" using v1'}, {}]
        }
    }
    conflict = failures.Conflict("", 409, body)
    assert conflict.fields() == [("spec.a", "helm"), ("?", "another manager")]


# --- watching ---------------------------------------------------------------------------------------------------


class Stream(Client):
    """A client whose watch requests end as they are set up: in events, then in an error or nothing."""

    def __init__(self, *rounds: list[Any]) -> None:
        super().__init__("https://x", "x", None, None)
        self.rounds = list(rounds)
        self.asked: list[str] = []

    def _stream(
        self, path: str, params: Mapping[str, object], read_seconds: float
    ) -> Iterator[Object]:
        self.asked.append(str(params["resourceVersion"]))
        for event in self.rounds.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event


def event(version: int, kind: str = "ADDED") -> Object:
    return {"type": kind, "object": {"metadata": {"resourceVersion": str(version)}}}


@pytest.mark.parametrize("error", [failures.Unreachable("x"), failures.ApiError("x", 503, {})])
def test_a_watch_resumes_after_the_last_event_or_bookmark(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    client = Stream(
        [event(5), error], [event(9, "BOOKMARK")], [error], [event(12), failures.Gone("x", 410, {})]
    )
    events = client.watch("/x", "1")
    assert [next(events)["object"]["metadata"]["resourceVersion"] for _ in range(2)] == ["5", "12"]
    with pytest.raises(failures.Gone):
        next(events)
    assert client.asked == ["1", "5", "9", "9"]


def test_a_watch_gives_up_on_a_server_that_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 4))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    client = Stream(*[[failures.Unreachable("away")] for _ in range(100)])
    with pytest.raises(failures.Unreachable):
        list(client.watch("/x", "1"))
    assert len(client.asked) < 20


def test_a_watch_that_is_forbidden_ends_at_once() -> None:
    client = Stream([failures.Forbidden("no", 403, {})])
    with pytest.raises(failures.Forbidden):
        list(client.watch("/x", "1"))


def test_a_node_that_no_job_uses_does_not_hide_the_extensions_selector() -> None:
    """A type without a selector: its one Linux node is outside, and the other is Windows."""
    nodes = parse_nodes([builders.node("a"), builders.node("w", os="windows")])
    outside = size_nodes(
        nodes, {}, Assumptions(), DaemonSets(()), selector_of_extension={"agentpool": "system"}
    )
    assert state(kind(), *outside)[0] == "does not fit"

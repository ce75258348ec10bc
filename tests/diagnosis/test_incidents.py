"""Trouble of many nodes at once is one incident, and only that."""

from __future__ import annotations

import pytest

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.judge.incidents import TroubleEvent, find
from arc_toolkit.diagnosis.judge.verdicts import judge
from arc_toolkit.diagnosis.model import Attempt, CauseKind, Level, RunOutcome
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import at, cluster, container, event, facts, node, pod
from tests.diagnosis.test_verdicts import runs, verdict_of

LOST = CauseKind.NODE_LOST
NAMES = [f"aks-gpu-12345678-vmss0000{number:02d}" for number in range(40)]
POOLS: dict[str, str | None] = dict.fromkeys(NAMES, "gpu")


def marks(
    count: int, *, every: float = 10.0, start: float = 1000.0, kind: CauseKind = LOST
) -> list[TroubleEvent]:
    return [
        TroubleEvent(start + every * place, name, kind) for place, name in enumerate(NAMES[:count])
    ]


@pytest.mark.parametrize(("count", "found"), [(4, 0), (5, 1), (40, 1)])
def test_more_than_a_tenth_of_a_pool_within_minutes_is_an_incident(count: int, found: int) -> None:
    known = find(marks(count), POOLS, ClusterIndex())
    assert len(known.incidents) == found
    for incident in known.incidents:
        assert (incident.nodes, incident.pool, incident.pool_size) == (
            tuple(NAMES[:count]),
            "gpu",
            40,
        )
        assert f"{count} nodes" in incident.reason
        assert "check the network" in incident.reason


@pytest.mark.parametrize(("count", "found"), [(2, 0), (3, 1)])
def test_of_a_small_pool_at_least_three_nodes(count: int, found: int) -> None:
    pools: dict[str, str | None] = dict.fromkeys(NAMES[:6], "gpu")
    assert len(find(marks(count), pools, ClusterIndex()).incidents) == found


def test_the_same_number_over_hours_is_not_an_incident() -> None:
    assert not find(marks(10, every=400), POOLS, ClusterIndex()).incidents
    assert not find(
        marks(10, every=290), POOLS, ClusterIndex()
    ).incidents  # one after the other, never many at once


def test_one_node_many_times_is_not_an_incident() -> None:
    again = [TroubleEvent(1000.0 + place, NAMES[0], LOST) for place in range(20)]
    assert not find(again, POOLS, ClusterIndex()).incidents


def test_different_kinds_do_not_add_up() -> None:
    mixed = [*marks(3), *marks(3, kind=CauseKind.NODE_MEMORY)]
    assert not find(mixed, POOLS, ClusterIndex()).incidents


def test_what_a_busy_pool_has_all_the_time_is_not_an_incident() -> None:
    # Five failures in five minutes, every five minutes for a day.
    busy = [
        TroubleEvent(60.0 * minute, NAMES[minute % 40], CauseKind.UNKNOWN, f"job-{minute}")
        for minute in range(24 * 60)
    ]
    assert not find(busy, POOLS, ClusterIndex()).incidents


def test_an_incident_that_comes_again_is_an_incident_each_time() -> None:
    # Six nodes one after the other within ten minutes, three times in a day: the other times do not make it usual.
    pools: dict[str, str | None] = dict.fromkeys(NAMES[:6], "gpu")
    again = [mark for hour in (1, 5, 9) for mark in marks(6, every=120, start=3600.0 * hour)]
    assert [incident.nodes for incident in find(again, pools, ClusterIndex()).incidents] == [
        tuple(NAMES[:6])
    ] * 3


def test_one_broken_sweep_on_many_nodes_is_not_an_incident() -> None:
    sweep = [mark._replace(kind=CauseKind.UNKNOWN, family="sweep") for mark in marks(20)]
    assert not find(sweep, POOLS, ClusterIndex()).incidents
    jobs = [mark._replace(family=f"job-{place}") for place, mark in enumerate(sweep)]
    assert len(find(jobs, POOLS, ClusterIndex()).incidents) == 1


def test_incidents_of_several_pools_at_the_same_time_are_one() -> None:
    pools: dict[str, str | None] = {
        name: "cpu" if place % 2 else "gpu" for place, name in enumerate(NAMES)
    }
    known = find([*marks(40), *marks(40, start=90_000.0)], pools, ClusterIndex())
    assert [
        (incident.pool, incident.pool_size, len(incident.nodes)) for incident in known.incidents
    ] == [
        (None, 40, 40),
        (None, 40, 40),
    ]
    assert known.covers(NAMES[0], 1000.0)
    assert known.covers(NAMES[1], 1000.0)


def test_an_incident_covers_its_pool_from_a_little_before_to_the_evictions_after_it() -> None:
    pools = {**POOLS, "other": "cpu"}
    known = find(marks(10), pools, ClusterIndex())
    assert [known.covers(NAMES[30], time) for time in (699, 701, 1089 + 900, 1092 + 900)] == [
        False,
        True,
        True,
        False,
    ]
    assert not known.covers("other", 1000.0)
    assert not known.covers(NAMES[0], None)


def test_the_zone_is_named_if_nearly_all_are_in_it() -> None:
    nodes = [node(name) for name in NAMES]
    for place, item in enumerate(nodes):
        item["metadata"]["labels"]["topology.kubernetes.io/zone"] = f"westeurope-{1 + place // 20}"
    known = find(marks(20), POOLS, cluster(nodes=nodes))
    assert "20 of them in zone westeurope-1" in known.incidents[0].reason
    assert "zone" not in find(marks(30), POOLS, cluster(nodes=nodes)).incidents[0].reason


def blip(*, back: int) -> list[dict[str, object]]:
    events = [event("NodeNotReady", 10, about=name) for name in NAMES]
    return [*events, *(event("NodeReady", 12, about=name) for name in NAMES[:back])]


def test_a_blip_of_the_whole_cluster_makes_no_node_bad() -> None:
    known = cluster(nodes=[node(name) for name in NAMES], events=blip(back=40))
    failed = [
        Attempt(
            f"j{place}",
            0,
            name,
            pool="gpu",
            outcome=RunOutcome.FAILED,
            end=1772532600.0 + place,
            start=1772532000.0,
        )
        for place, name in enumerate(NAMES)
    ]
    verdicts, _, incidents, _ = judge(failed, known)
    assert {verdict.level for verdict in verdicts} == {Level.NOT_ENOUGH_DATA}
    assert {(verdict.failures, verdict.evidence) for verdict in verdicts} == {(0, ())}
    assert [len(incident.nodes) for incident in incidents] == [40]


@pytest.mark.parametrize(
    ("back", "minute", "level"), [(39, 60, Level.BAD), (39, 20, None), (10, 60, None)]
)
def test_a_node_that_stays_down_when_most_are_back_is_bad(
    back: int, minute: int, level: Level | None
) -> None:
    down = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": at(10)}]
    nodes = [
        node(name) if place < back else node(name, conditions=down)
        for place, name in enumerate(NAMES)
    ]
    later = event("Starting", minute, about=NAMES[0])
    known = cluster(nodes=nodes, events=[*blip(back=back), later])
    assert verdict_of(NAMES[39], [], known).level is (level or Level.NOT_ENOUGH_DATA)
    assert verdict_of(NAMES[0], [], known).level is Level.NOT_ENOUGH_DATA


def test_failures_at_one_moment_without_any_event_are_an_incident_too() -> None:
    before = [attempt for name in NAMES for attempt in runs(name, 9, 0, start=0.0, end=100.0)]
    lost = [
        attempt
        for place, name in enumerate(NAMES[:20])
        for attempt in runs(name, 0, 1, start=0.0, end=90_000.0 + place)
    ]
    verdicts, _, incidents, _ = judge([*before, *lost], ClusterIndex())
    assert [incident.kind for incident in incidents] == [CauseKind.UNKNOWN]
    assert {verdict.failures for verdict in verdicts} == {0}


@pytest.mark.parametrize("end", [17.9, 18.1])
def test_the_return_of_the_nodes_is_not_a_second_incident(end: float) -> None:
    """The kubelet reports the end of a pod when its node is back, long after the node was lost."""
    names = NAMES[:4]
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": at(18),
        "lastHeartbeatTime": at(60),
    }
    nodes = [node(name, conditions=[ready]) for name in names] + [
        node(name) for name in NAMES[4:12]
    ]
    events = [
        item
        for name in names
        for item in (event("NodeNotReady", 1, about=name), event("NodeReady", 18, about=name))
    ]
    pods = [
        pod(f"job-{name}", name, uid=name, start=-30, containers=[container(code=137, minute=end)])
        for name in names
    ]
    report = build([], [facts(pods, nodes, events)])
    assert [incident.start for incident in report.incidents] == [times.parse(at(1))]
    assert {attempt.cause.kind for attempt in report.attempts if attempt.cause} == {LOST}
    assert {verdict.failures for verdict in report.verdicts} == {0}

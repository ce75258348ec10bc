"""`cost --history` with a file that the recorder itself made on a real API server."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arc_toolkit.cost.eviction_rates import node_lives
from arc_toolkit.diagnosis.model import ClusterFacts
from arc_toolkit.diagnosis.read import history
from arc_toolkit.kube.taints import SPOT_KEY
from tests.diagnosis.test_recorder_cluster import Recorder, has_event, post_event
from tests.support import Result

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

EVICTED, DRAINED, SCALED, VANISHED, ALIVE, DEDICATED = (
    f"aks-spot-1234-vmss00000{n}" for n in range(6)
)
COST = (
    "cost",
    "--sku",
    "Standard_NC24ads_A100_v4",
    "--nodes",
    "4",
    "--hours",
    "40",
    "--format",
    "json",
)


@pytest.fixture(scope="module")
def recorded(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Two evictions, a scale-down, a node that vanishes while nothing records, one that lives, a dedicated one."""
    plane = control_plane
    plane.wipe()
    recorder = Recorder(plane, tmp_path_factory.mktemp("history"))
    for node in (EVICTED, DRAINED, SCALED, VANISHED, ALIVE):
        plane.add_node(node, labels={"agentpool": "spot", SPOT_KEY: "spot"})
    plane.add_node(DEDICATED, labels={"agentpool": "other"})
    recorder.start()
    try:
        recorder.wait_for("all nodes", lambda facts: len(facts.nodes) == 6)
        post_event(plane, EVICTED, "PreemptScheduled", "Preempt Scheduled")
        post_event(plane, SCALED, "ScaleDown", "marked the node as toBeDeleted/unschedulable")
        recorder.wait_for("both events", lambda facts: all(
            has_event(reason, node)(facts) for reason, node in (("PreemptScheduled", EVICTED), ("ScaleDown", SCALED))
        ))  # fmt: skip
        taint = {"key": "cloudprovider.azure.microsoft.com/draining", "effect": "NoSchedule"}
        plane.patch(f"/api/v1/nodes/{DRAINED}", {"spec": {"taints": [taint]}})
        for node in (EVICTED, DRAINED, SCALED, DEDICATED):
            plane.delete("Node", node)
        recorder.wait_for("four deletions", lambda facts: len(gone(facts)) == 4)
        recorder.stop()
        plane.delete("Node", VANISHED)
        recorder.start()
        recorder.wait_for("the fifth", lambda facts: len(gone(facts)) == 5)
        recorder.stop()
        yield recorder.path
    finally:
        if recorder._process and recorder._process.poll() is None:
            recorder.stop()
        plane.wipe()


def gone(facts: ClusterFacts) -> list[str]:
    return [
        node["metadata"]["name"] for node in facts.nodes if "deletionTimestamp" in node["metadata"]
    ]


def test_lives_are_those_that_happened(recorded: str) -> None:
    facts = history.read(recorded)
    lives = list(node_lives(facts.nodes, facts.events, since=None, until=time.time()))
    assert len(lives) == 5  # not the dedicated one
    assert sum(life.evicted for life in lives) == 2
    assert sum(life.unclear for life in lives) == 1
    assert sum(life.ended is None for life in lives) == 1


def test_minutes_are_too_little_to_compute_with(recorded: str, arc: Callable[..., Result]) -> None:
    result = arc(*COST, "--history", recorded)
    assert (result.code, result.out) == (2, "")
    assert "2 evictions of 5 spot nodes in 0.0" in result.err
    assert "record for longer" in result.err


def test_the_same_recording_over_a_hundred_hours(
    recorded: str, arc: Callable[..., Result], tmp_path: Path
) -> None:
    """The file as it is, but its nodes and its recording began 100 hours earlier."""
    path = tmp_path / "long.db"
    path.write_bytes(Path(recorded).read_bytes())
    earlier = 100 * 3600
    with sqlite3.connect(path) as database:
        [(since,)] = database.execute("SELECT value FROM meta WHERE key = 'since'").fetchall()
        database.execute(
            "UPDATE meta SET value = ? WHERE key = 'since'", (str(float(since) - earlier),)
        )
        for uid, body in database.execute(
            "SELECT uid, body FROM objects WHERE kind = 'Node'"
        ).fetchall():
            node = json.loads(body)
            created = time.gmtime(float(since) - earlier - 60)
            node["metadata"]["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", created)
            database.execute("UPDATE objects SET body = ? WHERE uid = ?", (json.dumps(node), uid))
    database.close()
    result = arc(*COST, "--history", str(path))
    assert result.code == 0, result.err
    rate = json.loads(result.out)["eviction_rate"]
    # 5 nodes of 100 hours: 2 sure evictions in one wave and one that may be: 2.5 in 500 hours.
    assert rate["used"] == pytest.approx(2.5 / 500, rel=0.01)
    assert (
        "2 evictions of 5 spot nodes in 500 node hours, 1 wave, 1 more vanished without a reason"
        in rate["source"]
    )
    # Garwood for 1 event: 0.02532 to 5.572: 2 nodes each at the lower end, 3 at the upper.
    assert rate["low"] == pytest.approx(2 * 0.02532 / 500, rel=0.02)
    assert rate["high"] == pytest.approx(1 - 2.718281828 ** (-3 * 5.572 / 500), rel=0.02)

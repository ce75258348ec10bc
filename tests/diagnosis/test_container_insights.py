"""Container Insights as a source: incidents exported as its agent writes them, the four shapes, and broken input."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import ClusterFacts
from arc_toolkit.diagnosis.read import cluster_index
from arc_toolkit.diagnosis.read.sources import container_insights
from arc_toolkit.diagnosis.read.sources.container_insights import InsightsTables, is_export
from arc_toolkit.diagnosis.report import build
from arc_toolkit.kube.pods import RUN_ID_LABEL
from tests.diagnosis import incident_cases, insights_export
from tests.diagnosis.insights_export import CLUSTER, SHAPES, as_rest
from tests.support import Result

Arc = Callable[..., Result]
NODE = "aks-gpu-12345678-vmss00000a"

# Incidents whose answer the tables contain. The others lack conditions or exit codes: there the answer is `unknown`.
INCIDENTS = [
    int(number)
    for number in re.findall(
        r"\d+",
        """
    18 20 22 25 27 41 52 54 56 63 66 83 97 100 101 104 114 129 133 138 139 141 163 167 177
    179 189 222 241 254
""",
    )
]


def save(folder: Path, tables: dict[str, list[dict[str, Any]]], shape: str) -> None:
    write, ending = SHAPES[shape]
    for name, rows in tables.items():
        if rows:
            (folder / f"{name}.{ending}").write_text(write(rows))


@pytest.mark.parametrize(
    ("number", "shape"),
    [(number, list(SHAPES)[index % len(SHAPES)]) for index, number in enumerate(INCIDENTS)],
)
def test_an_exported_incident_has_the_answer_of_an_expert(
    arc: Arc, tmp_path: Path, number: int, shape: str
) -> None:
    [path] = incident_cases.CASES.glob(f"{number:03d}-*.yaml")
    case = incident_cases.load(path)
    save(tmp_path, insights_export.tables(case), shape)
    result = arc("diagnose", "--quiet", "--format", "json", tmp_path)
    assert result.code == 0, result.err
    judgement = incident_cases.judge(case, json.loads(result.out))
    assert (judgement.word, judgement.wrong, judgement.unsure) == ("right", [], [])


def pod_row(minute: int, **values: Any) -> dict[str, Any]:
    return {
        "TimeGenerated": f"2026-05-04T10:{minute:02d}:00Z",
        "ClusterId": CLUSTER,
        "Name": "azureml-aa-worker-0",
        "Namespace": "azureml",
        "PodUid": "uid-1",
        "PodLabel": json.dumps([{RUN_ID_LABEL: "brave_cat"}]),
        "PodCreationTimeStamp": "2026-05-04T10:00:00Z",
        "PodStartTime": "2026-05-04T10:00:10Z",
        "PodStatus": "Running",
        "Computer": NODE,
        "ContainerName": "uid-1/1-execution-wrapper",
        "ContainerStatus": "running",
        "ContainerStatusReason": "",
        **values,
    }


def node_row(
    minute: int, status: str = "Ready", turn: str = "2026-05-01T00:00:00Z", **values: Any
) -> dict[str, Any]:
    return {
        "TimeGenerated": f"2026-05-04T10:{minute:02d}:00Z",
        "ClusterId": CLUSTER,
        "Computer": NODE,
        "CreationTimeStamp": "2026-05-01T00:00:00Z",
        "Labels": json.dumps([{"agentpool": "gpu"}]),
        "Status": status,
        "LastTransitionTimeReady": turn,
        **values,
    }


def event_row(minute: int, reason: str, **values: Any) -> dict[str, Any]:
    stamp = f"2026-05-04T10:{minute:02d}:00Z"
    return {
        "TimeGenerated": stamp,
        "ClusterId": CLUSTER,
        "ObjectKind": "Pod",
        "Namespace": "azureml",
        "Name": "azureml-aa-worker-0",
        "Reason": reason,
        "Message": "made up",
        "KubeEventType": "Warning",
        "FirstSeen": stamp,
        "LastSeen": stamp,
        "Count": 1,
        "Computer": NODE,
        "SourceComponent": "kubelet",
        **values,
    }


def index(*tables: list[dict[str, Any]]) -> cluster_index.ClusterIndex:
    rows = InsightsTables()
    for table in tables:
        assert rows.add(as_rest(table).encode())
    facts = rows.facts()
    assert facts is not None
    return cluster_index.read([facts])


# --- what rows mean ---------------------------------------------------------------------------------------------


def test_the_newest_row_of_a_pod_counts_and_the_first_that_shows_the_end_gives_its_time() -> None:
    ended = {
        "PodStatus": "Failed",
        "ContainerStatus": "terminated",
        "ContainerStatusReason": "Error",
    }
    [pod] = index([pod_row(9, **ended), pod_row(1), pod_row(8, **ended), pod_row(7)]).pods
    assert (pod.run_id, pod.phase, pod.node, pod.rank) == ("brave_cat", "Failed", NODE, "worker-0")
    [container] = pod.containers
    assert (container.name, container.state, container.reason) == (
        "1-execution-wrapper",
        "terminated",
        "Error",
    )
    assert container.exit_code is None  # the table does not have it
    assert pod.end == times.parse("2026-05-04T10:08:00Z")


def test_a_failure_without_an_exit_code_is_unknown_and_does_not_count_against_the_node() -> None:
    """An evicted pod ends with `Error` too, so that it was the job's own error cannot be said."""
    sidecar = {"ContainerName": "uid-1/training-identity-sidecar"}
    rows = [
        pod_row(1),
        pod_row(2, ContainerStatus="terminated", ContainerStatusReason="Error"),
        pod_row(2, **sidecar),
    ]
    tables = InsightsTables()
    tables.add(as_rest(rows).encode())
    facts = tables.facts()
    assert facts is not None
    [attempt] = build([], [facts]).attempts
    assert (attempt.outcome, attempt.node) == (
        "failed",
        NODE,
    )  # although the phase is Running: the main container ended
    assert attempt.cause is not None
    assert (attempt.cause.kind, attempt.cause.countable, attempt.cause.blames_node) == (
        "unknown",
        False,
        False,
    )
    assert [(item.reason, item.message) for item in attempt.cause.evidence] == [
        ("Error", "ended with an unknown exit code")
    ]


@pytest.mark.parametrize(
    ("phase", "reason", "code"),
    [
        ("Failed", "OOMKilled", 137),
        ("Succeeded", "OOMKilled", 0),
        ("Succeeded", "Completed", 0),
        ("Failed", "Error", None),
    ],
)
def test_two_reasons_imply_the_exit_code(phase: str, reason: str, code: int | None) -> None:
    [pod] = index(
        [pod_row(1, PodStatus=phase, ContainerStatus="terminated", ContainerStatusReason=reason)]
    ).pods
    assert pod.containers[0].exit_code == code


def test_a_pod_without_rows_while_others_have_some_was_deleted() -> None:
    other = {"PodUid": "uid-2", "Name": "azureml-bb-worker-0"}
    rows = [pod_row(1), *(pod_row(minute, **other) for minute in range(1, 40))]
    pods = {pod.uid: pod for pod in index(rows).pods}
    assert pods["uid-1"].deleted == times.parse("2026-05-04T10:01:00Z")
    assert pods["uid-2"].deleted is None


def test_terminating_is_a_deletion_and_keeps_the_phase_before() -> None:
    [pod] = index(
        [pod_row(1), pod_row(2, PodStatus="Terminating"), pod_row(3, PodStatus="Terminating")]
    ).pods
    assert (pod.phase, pod.deleted) == ("Running", times.parse("2026-05-04T10:02:00Z"))


def test_unknown_is_the_agents_word_for_a_lost_node() -> None:
    [pod] = index([pod_row(1), pod_row(2, PodStatus="Unknown", ContainerStatus="Unknown")]).pods
    assert pod.reason == "NodeLost"


def test_init_containers_are_recognized_by_their_name() -> None:
    [pod] = index([pod_row(1), pod_row(1, ContainerName="uid-1/1-execution-wrapper-init")]).pods
    assert {container.name: container.init for container in pod.containers} == {
        "1-execution-wrapper": False,
        "1-execution-wrapper-init": True,
    }


def node_events(*rows: dict[str, Any]) -> list[tuple[str, str | None]]:
    events = index(list(rows)).node_events.get(NODE, [])
    return [(event.reason, (times.iso(event.time) or "")[11:16]) for event in events]


def test_a_status_without_ready_is_an_event_at_the_time_of_the_transition() -> None:
    rows = (
        node_row(1),
        node_row(5, "", "2026-05-04T10:03:20Z"),
        node_row(6, "", "2026-05-04T10:03:20Z"),
        node_row(7, turn="2026-05-04T10:06:30Z"),
    )
    assert node_events(*rows) == [("NodeNotReady", "10:03"), ("NodeReady", "10:06")]
    node = index(list(rows)).nodes[NODE]
    assert (node.ready, node.labels) == (True, {"agentpool": "gpu"})


def test_a_node_that_was_not_ready_between_two_rows_is_seen_by_its_transition() -> None:
    assert node_events(node_row(1), node_row(2, turn="2026-05-04T10:01:40Z")) == [
        ("NodeNotReady", "10:01")
    ]


def test_a_new_node_that_is_not_ready_yet_is_not_an_event() -> None:
    new = {"CreationTimeStamp": "2026-05-04T10:00:00Z"}
    events = node_events(
        node_row(1, "", "2026-05-04T10:00:00Z", **new),
        node_row(2, turn="2026-05-04T10:01:30Z", **new),
    )
    assert "NodeNotReady" not in [reason for reason, _ in events]


def test_other_conditions_are_those_of_the_node() -> None:
    cluster = index([node_row(1), node_row(2, "KernelDeadlock,Ready")])
    [deadlock] = [item for item in cluster.nodes[NODE].conditions if item.type == "KernelDeadlock"]
    assert (deadlock.status, deadlock.since) == ("True", "2026-05-04T10:02:00Z")


def test_a_node_without_rows_while_others_have_some_is_gone() -> None:
    other = [node_row(minute, Computer="aks-gpu-12345678-vmss00000b") for minute in range(1, 40)]
    cluster = index([node_row(1), *other])
    assert cluster.is_gone(NODE)
    assert not cluster.is_gone("aks-gpu-12345678-vmss00000b")


def test_a_node_is_gone_also_if_the_query_kept_few_rows() -> None:
    other = {"Computer": "aks-gpu-12345678-vmss00000b"}
    rows = [
        node_row(1),
        node_row(1, **other),
        node_row(1, **other, TimeGenerated="2026-05-04T13:00:00Z"),
    ]
    assert index(rows).is_gone(NODE)


def test_an_event_is_known_at_each_time_that_a_row_has() -> None:
    rows = [
        event_row(minute, "BackOff", FirstSeen="2026-05-04T10:01:00Z", Count=count)
        for count, minute in enumerate((1, 5, 9, 9), 1)
    ]
    cluster = index([pod_row(1)], rows)
    stamps = [
        (times.iso(event.time) or "")[14:16] for event in cluster.events_of_pod(cluster.pods[0])
    ]
    assert stamps == ["01", "05", "09"]


def test_an_event_without_times_has_that_of_its_row() -> None:
    [event] = index(
        [event_row(4, "Evict", FirstSeen="0001-01-01T00:00:00Z", LastSeen=None)]
    ).pod_events.popitem()[1]
    assert event.time == times.parse("2026-05-04T10:04:00Z")


def test_the_newest_row_is_the_time_until_which_the_cluster_is_known() -> None:
    rows = InsightsTables()
    rows.add(as_rest([node_row(9), node_row(3)]).encode())
    rows.add(as_rest([pod_row(5)]).encode())
    facts = rows.facts()
    assert facts is not None
    assert facts.read_at == times.parse("2026-05-04T10:09:00Z")


def test_objects_of_kubectl_win_over_rows() -> None:
    rows = InsightsTables()
    rows.add(as_rest([pod_row(1)]).encode())
    saved = {
        "metadata": {"uid": "uid-1", "resourceVersion": "7", "labels": {RUN_ID_LABEL: "brave_cat"}}
    }
    saved["status"] = {"phase": "Succeeded"}
    facts = rows.facts()
    assert facts is not None
    [pod] = cluster_index.read([ClusterFacts(pods=[saved]), facts]).pods
    assert pod.phase == "Succeeded"


# --- shapes and files -------------------------------------------------------------------------------------------

TABLES = {
    "KubePodInventory": [
        pod_row(1),
        pod_row(
            8, PodStatus="Failed", ContainerStatus="terminated", ContainerStatusReason="OOMKilled"
        ),
    ],
    "KubeNodeInventory": [node_row(1), node_row(8)],
    "KubeEvents": [event_row(7, "BackOff", Message='a "quoted", message\nof two lines')],
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_shapes_give_the_same_report(arc: Arc, tmp_path: Path, shape: str, named: bool) -> None:
    save(tmp_path, TABLES, shape)
    sources = sorted(tmp_path.iterdir()) if named else [tmp_path]
    if named:  # by content, whatever their names are
        sources = [
            path.rename(path.with_name(f"query_data ({number})"))
            for number, path in enumerate(sources)
        ]
    result = arc("diagnose", *sources, "--format", "json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    [job] = report["jobs"]
    assert (job["run_id"], job["outcome"], job["nodes"]) == ("brave_cat", "failed", [NODE])
    assert job["attempts"][0]["cause"]["kind"] == "own-memory-limit"
    assert [report["summary"][key] for key in ("pods", "nodes", "events")] == [1, 1, 1]
    assert any("Container Insights has no" in note for note in report["notes"])


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("5/4/2026, 12:05:06.789 AM", "2026-05-04T00:05:06Z"),
        ("12/31/2026, 12:05:06.000 PM", "2026-12-31T12:05:06Z"),
        ("5/4/2026 1:05:06 PM", "2026-05-04T13:05:06Z"),
        ("2026-05-04T10:00:00.1234567Z", "2026-05-04T10:00:00Z"),
        ("13/4/2026, 1:05:06.000 PM", None),
        ("4/5/2026, 10:00:00.000 am", None),  # Australia, where the day is first
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_times_as_log_analytics_writes_them(text: str, iso: str | None) -> None:
    assert times.iso(container_insights._time(text)) == iso


def test_what_az_prints_as_none_is_empty() -> None:
    tables = InsightsTables()
    tables.add(
        insights_export.as_az(
            [pod_row(1, Computer=None, PodStatus="Pending", ContainerName=None)]
        ).encode()
    )
    facts = tables.facts()
    assert facts is not None
    [pod] = cluster_index.read([facts]).pods
    assert (pod.node, pod.phase, pod.containers) == (None, "Pending", [])


def test_another_table_with_such_columns_is_not_used() -> None:
    with pytest.raises(ValueError, match="no rows of KubePodInventory"):
        InsightsTables().add(as_rest([node_row(1, Type="Update")]).encode())


def test_the_blobs_of_a_data_export_are_one_history(arc: Arc, tmp_path: Path) -> None:
    for minute, row in enumerate(TABLES["KubePodInventory"]):
        blob = (
            tmp_path
            / f"am-kubepodinventory/WorkspaceResourceId=/x/y=2026/m=05/d=04/h=10/m={minute}/PT05M.json"
        )
        blob.parent.mkdir(parents=True)
        blob.write_text(json.dumps(row) + "\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/PT05M.json").write_text("{}")
    result = arc("diagnose", tmp_path, "--format", "json")
    report = json.loads(result.out)
    assert [(job["run_id"], job["outcome"]) for job in report["jobs"]] == [("brave_cat", "failed")]


def test_records_of_an_event_hub_and_compressed_files(arc: Arc, tmp_path: Path) -> None:
    data = json.dumps({"records": TABLES["KubePodInventory"]}).encode()
    (tmp_path / "KubePodInventory.json.gz").write_bytes(gzip.compress(data))
    result = arc("diagnose", tmp_path, "--format", "json")
    assert [job["run_id"] for job in json.loads(result.out)["jobs"]] == ["brave_cat"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "KubeEvents.csv",
            "TimeGenerated [Local Time],ObjectKind,Reason\nx,Pod,y\n",
            "set the time zone",
        ),
        (
            "KubeEvents.csv",
            "TimeGenerated [UTC],ObjectKind,Reason\n04.05.2026 10:00,Pod,y\n",
            "ISO 8601",
        ),
        (
            "KubeEvents.csv",
            'TimeGenerated [UTC],ObjectKind,Reason\n"' + "x" * 200_000 + '",Pod,y\n',
            "broken CSV",
        ),
        (
            "KubeEvents.json",
            '[{"TimeGenerated": "2026-05-04T10:00:00Z", "Category": "x"}]',
            "no rows of KubePod",
        ),
        ("KubeEvents.json", '{"TimeGenerated": 1}\nnonsense', "not JSON"),
        ("KubeEvents.csv", "a,b\n1,2\n", "not JSON"),
    ],
)
def test_an_export_that_cannot_be_used_is_reported(
    arc: Arc, tmp_path: Path, name: str, text: str, says: str
) -> None:
    (tmp_path / name).write_text(text)
    result = arc("diagnose", tmp_path)
    assert result.code == 2
    assert says in result.err
    assert "Traceback" not in result.err


def test_a_log_that_begins_with_a_bracket_is_still_a_log() -> None:
    assert not is_export(b"[2026-05-04 10:00:00] Run on node: x\n")
    assert is_export(b'\xef\xbb\xbf[\n  {\n    "Computer"')
    assert is_export(b'"TenantId","TimeGenerated [UTC]","Computer"\r\n')


COLUMNS = [
    *(
        "TimeGenerated",
        "Type",
        "ClusterId",
        "PodUid",
        "PodStatus",
        "ContainerName",
        "ContainerStatus",
        "PodLabel",
    ),
    *("Computer", "Status", "Labels", "ObjectKind", "Reason", "FirstSeen"),
    *("tables", "columns", "rows", "records", "name"),
]


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.text(max_size=8), st.just("2026-05-04T10:00:00Z")),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(
                st.sampled_from(COLUMNS),
                inner,
                max_size=9,
            ),
        ),
        max_leaves=30,
    )
)
def test_any_json_is_rows_or_a_reason(document: Any) -> None:
    rows = InsightsTables()
    try:
        rows.add(b'{"TimeGenerated": 0}\n' + json.dumps(document).encode())
        rows.add(json.dumps([document, {"TimeGenerated": "x"}]).encode())
    except ValueError:
        pass
    facts = rows.facts()
    if facts:
        cluster_index.read([facts])

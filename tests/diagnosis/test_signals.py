"""Every row of signals.csv against an expected answer, written down in data/expected_signals.csv, through the whole
pipeline: without the row, or with another kind, confidence or priority, its test fails.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.diagnosis import signals, times
from arc_toolkit.diagnosis.model import Cause, CauseKind, ClusterFacts, EvidenceSource
from arc_toolkit.diagnosis.read.scan import LogScan
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import NODE_A, at, container, event, facts, log, node, pod
from tests.support import ROOT

EXPECTED = list(
    csv.DictReader((Path(__file__).parent / "data" / "expected_signals.csv").open(encoding="utf-8"))
)
KILLED = [container(code=137)]  # ends at minute 30, and proves nothing by itself


def condition(kind: str) -> dict[str, Any]:
    good = kind in ("Ready", "kubernetes.azure.com/NodeHealthy")
    return {"type": kind, "status": "False" if good else "True", "lastTransitionTime": at(29)}


def scene(source: str, reason: str) -> ClusterFacts | LogScan:
    """A failed attempt with this one signal."""
    match EvidenceSource(source):
        case EvidenceSource.POD_CONDITION:
            evicted = {
                "type": "Ready",
                "status": "False",
                "reason": "Evict",
                "lastTransitionTime": at(30),
            }
            return facts(
                [pod(conditions=[evicted]) if reason == "Evict" else pod(disruption=reason)]
            )
        case EvidenceSource.POD_STATUS:
            return facts([pod(reason=reason)])
        case EvidenceSource.CONTAINER:
            return facts([pod(containers=[container(reason=reason, code=137)])])
        case EvidenceSource.POD_EVENT:
            of_pod = event(reason, 29, kind="Pod", about="azureml-aa-worker-0", namespace="azureml")
            return facts([pod(containers=KILLED)], events=[of_pod])
        case EvidenceSource.VOLCANO_JOB:
            message = f"Start to execute command {reason}, and clean it up to make sure executed not more than once."
            of_job = event(
                "CommandIssued",
                29,
                kind="Job",
                about="azureml-aa",
                namespace="azureml",
                message=message,
            )
            return facts([pod(containers=KILLED)], events=[of_job])
        case EvidenceSource.NODE_EVENT:
            return facts([pod(containers=KILLED)], events=[event(reason, 29)])
        case EvidenceSource.NODE_CONDITION:
            return facts([pod(containers=KILLED)], [node(conditions=[condition(reason)])])
        case EvidenceSource.NODE_TAINT:
            taint = {
                "key": reason,
                "value": "spot-eviction",
                "effect": "NoExecute",
                "timeAdded": at(29),
            }
            return facts([pod(containers=KILLED)], [node(taints=[taint])])
        case EvidenceSource.EXIT_CODE:
            # With the reason Error, 255 may be of the process.
            lost = "Unknown" if reason == "255" else "Error"
            return facts([pod(containers=[container(reason=lost, code=int(reason))])])
        case EvidenceSource.LOG:
            return log("job/system_logs/amlarc_cr_bootstrap.log", NODE_A, failure=(reason, ""))
        case _:
            raise AssertionError(source)


def cause_in(scene: ClusterFacts | LogScan) -> Cause:
    report = build([scene]) if isinstance(scene, LogScan) else build([], [scene])
    cause = report.attempts[0].cause
    assert cause is not None
    return cause


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: f"{row['source']}, {row['reason']}")
def test_each_signal_proves_what_is_expected(row: dict[str, str]) -> None:
    cause = cause_in(scene(row["source"], row["reason"]))
    of_signal = [
        item
        for item in cause.evidence
        if (item.source.value, item.reason) == (row["source"], row["reason"])
    ]
    assert len(of_signal) == 1
    assert row["word"] in of_signal[0].message
    assert cause.kind.value == (row["kind"] or "unknown")
    if row["kind"]:
        assert cause.confidence == row["confidence"]
        assert cause.evidence[0] == of_signal[0]
    signal = signals.table()[EvidenceSource(row["source"]), row["reason"]]
    assert (signal.confidence, signal.priority) == (row["confidence"], int(row["priority"]))
    if signal.kind is not CauseKind.NODE_PRESSURE:  # which is only a hint: see below
        assert (signal.kind.value if signal.kind else "") == row["kind"]


PRESSURE = [
    key for key, signal in signals.table().items() if signal.kind is CauseKind.NODE_PRESSURE
]


@pytest.mark.parametrize(("source", "reason"), PRESSURE)
def test_pressure_is_a_hint_only_if_no_pod_is_left(source: EvidenceSource, reason: str) -> None:
    """The kubelet marks a pod that it evicts, so a pod that is not marked ended for another reason."""
    cluster = scene(source.value, reason)
    assert isinstance(cluster, ClusterFacts)
    assert cause_in(cluster).kind is CauseKind.UNKNOWN
    logs = [
        log(
            f"job/system_logs/{folder}amlarc_cr_bootstrap.log",
            NODE_A,
            start=times.parse(at(minute)),
        )
        for folder, minute in (("", 0), ("retry-001/", 31))
    ]
    cause = (
        build(logs, [ClusterFacts(nodes=cluster.nodes, events=cluster.events)]).attempts[0].cause
    )
    assert cause is not None
    assert (cause.kind, cause.confidence, cause.blames_node) == (
        CauseKind.NODE_PRESSURE,
        "low",
        False,
    )


def test_every_signal_has_an_expected_answer() -> None:
    known = {(signal.source.value, signal.reason) for signal in signals.table().values()}
    assert known == {(row["source"], row["reason"]) for row in EXPECTED}
    assert all(signal.origin for signal in signals.table().values())


@pytest.mark.parametrize(
    "message",
    [
        "Node 'x' will change into status 'Preempt' soon",
        "Preempt Scheduled: Tue, 03 Mar 2026",
        "preemption scheduled for this VM",
        "SpotEvictionIncoming",
    ],
)
def test_messages_of_termination_handlers_mean_spot_preemption(message: str) -> None:
    of_node = event("HandlerSaidSo", 29, message=message)
    cause = cause_in(facts([pod(containers=KILLED)], events=[of_node]))
    assert (cause.kind.value, cause.confidence) == ("spot-preemption", "high")


@pytest.mark.parametrize(
    ("message", "kind", "confidence"),
    [
        (
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.",
            "own-storage-limit",
            "high",
        ),
        ("Container x exceeded its local ephemeral storage limit", "own-storage-limit", "high"),
        ('Usage of EmptyDir volume "tmp" exceeds the limit "1Gi".', "own-storage-limit", "high"),
        (
            "The node was low on resource: memory. Threshold quantity: 750Mi",
            "node-pressure",
            "high",
        ),
        ("The node was low on resource: [memory ephemeral-storage].", "node-pressure", "high"),
        ("The node was low on resource: ephemeral-storage.", "node-pressure", "high"),
        ("The node was low on resource: inodes.", "node-pressure", "high"),
        ("The node was low on resource: pids.", "node-pressure", "high"),
        ("The node had condition: [DiskPressure].", "node-pressure", "high"),
        ("The node was low on resource: something new.", "node-pressure", "medium"),
        ("Preempted in order to admit critical pod", "scheduler-preemption", "medium"),
        ("Preempting to admit a pod", "scheduler-preemption", "medium"),
        ("words that are not known", "node-pressure", "low"),
    ],
)
def test_the_message_of_an_eviction_tells_its_cause(
    message: str, kind: str, confidence: str
) -> None:
    cause = cause_in(facts([pod(reason="Evicted", message=message)]))
    assert (cause.kind.value, cause.confidence) == (kind, confidence)


def test_the_documentation_says_of_every_cause_whether_it_counts_against_the_node() -> None:
    table = (ROOT / "docs/verdicts.md").read_text().split("| cause | meaning |")[1].split("\n\n")[0]
    cells = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]
    ]
    documented = {kind: counts for kind, _, counts in cells}
    actual = {
        kind.value: "yes, bad while it holds"
        if traits.direct
        else "yes"
        if traits.blames_node
        else "no"
        for kind, traits in signals.KINDS.items()
    }
    assert documented == actual
    assert all(traits.blames_node for traits in signals.KINDS.values() if traits.direct)

"""What holds for the attempts of any pods and logs, however they were mixed."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from arc_toolkit.diagnosis.model import Attempt, ClusterFacts, DiagnosisReport, RunOutcome
from arc_toolkit.diagnosis.read.scan import LogScan
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import NODE_A, NODE_B, NODE_C, container, log, pod

TEN = 1772532000.0  # minute 0 of made.at
NODES = (NODE_A, NODE_B, NODE_C)
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")

minutes = st.integers(0, 300)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """Any pod of one of two runs; its UID is given later."""
    start, phase = draw(minutes), draw(st.sampled_from(PHASES))
    ended = [container(code=1 if phase == "Failed" else 0, minute=start + draw(minutes))]
    return pod(
        run=draw(st.sampled_from(["job", "other"])),
        name=f"azureml-aa-{draw(st.sampled_from(['worker-0', 'worker-1', 'worker-2', 'odd']))}",
        node=draw(st.sampled_from(NODES)) if phase != "Pending" else None,
        phase=phase,
        start=start,
        containers=ended if phase in ("Succeeded", "Failed") else [],
    )


@st.composite
def logs(draw: st.DrawFn) -> LogScan:
    folder = draw(st.sampled_from(["", "retry-001/", "retry-002/"]))
    place = draw(st.sampled_from(["", "worker-0/", "worker-1/"]))
    start = draw(st.none() | minutes)
    return log(
        f"{draw(st.sampled_from(['job', 'other', 'third']))}/{folder}system_logs/{place}amlarc_cr_bootstrap.log",
        draw(st.none() | st.sampled_from(NODES)),
        start=None if start is None else TEN + 60 * start,
        start_exact=start is not None,
        failure=draw(st.none() | st.just(("1", ""))),
    )


inputs = st.tuples(
    st.lists(pods(), max_size=9), st.lists(logs(), max_size=6, unique_by=lambda item: item.path)
)


def report_of(given_pods: list[dict[str, Any]], given_logs: list[LogScan]) -> DiagnosisReport:
    return build(given_logs, [ClusterFacts(given_pods)])


def named(given_pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for index, item in enumerate(given_pods):
        item["metadata"]["uid"] = f"uid-{index}"
    return given_pods


@settings(max_examples=60, deadline=None)
@given(data=inputs, seed=st.integers(0, 99))
def test_the_order_of_the_input_does_not_matter(
    data: tuple[list[dict[str, Any]], list[LogScan]], seed: int
) -> None:
    given_pods, given_logs = named(data[0]), data[1]
    expected = report_of(given_pods, given_logs)
    chance = random.Random(seed)
    other_pods = chance.sample(given_pods, len(given_pods))
    other_logs = chance.sample(given_logs, len(given_logs))
    assert report_of(other_pods, other_logs) == expected


def _replaced_rank() -> list[dict[str, Any]]:
    """Volcano's RestartPod and Kubeflow's OnFailure: rank 0 is created again while rank 1 runs on."""
    failed = [container(code=1, minute=20)]
    return [
        pod(run="job", name="azureml-aa-worker-0", node=NODE_A, start=0, containers=failed),
        pod(run="job", name="azureml-aa-worker-1", node=NODE_B, phase="Running", start=0),
        pod(run="job", name="azureml-aa-worker-0", node=NODE_C, phase="Running", start=21),
    ]


@settings(max_examples=60, deadline=None)
@given(data=inputs)
@example(data=(_replaced_rank(), []))
def test_every_pod_is_in_one_attempt_and_no_rank_is_twice_at_the_same_time(
    data: tuple[list[dict[str, Any]], list[LogScan]],
) -> None:
    given_pods, given_logs = named(data[0]), data[1]
    report = report_of(given_pods, given_logs)
    uids = [attempt.pod_uid for attempt in report.attempts if attempt.pod_uid]
    assert sorted(uids) == sorted(item["metadata"]["uid"] for item in given_pods)
    tries: dict[tuple[str, int, str | None], list[Attempt]] = {}
    for attempt in report.attempts:
        tries.setdefault((attempt.job, attempt.number, attempt.rank), []).append(attempt)
    for same in tries.values():
        for former, later in pairwise(same):  # a rank that was replaced
            assert (former.end or float("inf")) <= (later.start or 0.0)


@settings(max_examples=60, deadline=None)
@given(data=inputs)
def test_phases_are_believed_and_attempts_are_in_order(
    data: tuple[list[dict[str, Any]], list[LogScan]],
) -> None:
    given_pods, given_logs = named(data[0]), data[1]
    report = report_of(given_pods, given_logs)
    raw = {item["metadata"]["uid"]: item for item in given_pods}
    first: dict[tuple[str, int], str] = {}
    for attempt in report.attempts:
        if attempt.pod_uid is None:
            continue
        item = raw[attempt.pod_uid]
        phase = item["status"]["phase"]
        expected = {
            "Pending": RunOutcome.WAITING,
            "Running": RunOutcome.RUNNING,
            "Succeeded": RunOutcome.SUCCEEDED,
        }
        if phase in expected:
            assert attempt.outcome is expected[phase]
        assert (attempt.outcome is RunOutcome.FAILED) == (attempt.cause is not None)
        key, created = (attempt.job, attempt.number), item["metadata"]["creationTimestamp"]
        first[key] = min(created, first.get(key, created))
    for job in {job for job, _ in first}:
        starts = [created for (name, _), created in sorted(first.items()) if name == job]
        assert starts == sorted(starts)


@settings(max_examples=60, deadline=None)
@given(data=inputs)
def test_no_log_is_lost(data: tuple[list[dict[str, Any]], list[LogScan]]) -> None:
    given_pods, given_logs = named(data[0]), data[1]
    sources = [
        source
        for attempt in report_of(given_pods, given_logs).attempts
        for source in attempt.sources
    ]
    assert len(sources) == len(set(sources))
    # A log without a node adds nothing to another one of the same attempt that has it.
    assert {item.path for item in given_logs if item.nodes} <= set(sources)

"""Pods and logs of one run, put into attempts by time."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.diagnosis.model import CauseKind, RunOutcome
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import (
    NODE_A,
    NODE_B,
    NODE_C,
    at,
    container,
    facts,
    log,
    node,
    node_line,
    pod,
    scanned,
)

FIRST = "job/system_logs/amlarc_cr_bootstrap.log"
RETRY = "job/system_logs/retry-001/amlarc_cr_bootstrap.log"
TEN = 1772532000.0  # minute 0 of made.at


def rank(
    index: int, start: float, end: float | None = None, *, where: str = NODE_A, **more: Any
) -> dict[str, Any]:
    """A pod of a gang; it runs unless it has an end."""
    phase, parts = ("Running", []) if end is None else ("Failed", [container(minute=end)])
    made = pod(
        name=f"azureml-aa-worker-{index}",
        uid=f"{index}@{start}",
        node=where,
        start=start,
        phase=more.pop("phase", phase),
        containers=parts,
    )
    made["metadata"]["labels"] |= more.pop("labels", {})
    made["metadata"] |= more
    return made


def attempts_of(*pods: dict[str, Any]) -> dict[int, list[str | None]]:
    result: dict[int, list[str | None]] = {}
    for attempt in build([], [facts(list(pods))]).attempts:
        result.setdefault(attempt.number, []).append(attempt.pod_uid)
    return result


def test_the_pods_of_a_gang_are_grouped_by_time_although_one_is_gone() -> None:
    first = [rank(index, 0, 20) for index in (0, 2)]
    second = [rank(index, 25) for index in (0, 1, 2)]
    assert attempts_of(*first, *second) == {0: ["0@0", "2@0"], 1: ["0@25", "1@25", "2@25"]}


def test_pods_that_are_created_together_stay_together_although_only_one_rank_repeats() -> None:
    """Rank 0 of the first attempt is gone, and rank 2 seems to run because its node is lost."""
    first = [rank(1, 0, 20), rank(2, 0)]
    second = [rank(index, 25) for index in (0, 1, 2)]
    assert attempts_of(*first, *second) == {0: ["1@0", "2@0"], 1: ["0@25", "1@25", "2@25"]}


def test_a_rank_that_is_created_again_while_the_others_run_belongs_to_them() -> None:
    assert attempts_of(rank(0, 0), rank(1, 0), rank(2, 20, phase="Pending")) == {
        0: ["0@0", "1@0", "2@20"]
    }


def test_a_rank_that_is_replaced_while_the_others_go_on_stays_in_its_attempt() -> None:
    gang = [rank(0, 0, 90, phase="Succeeded"), rank(1, 0, 20), rank(2, 0, 90, phase="Succeeded")]
    again = rank(1, 22, 90, phase="Succeeded", where=NODE_B)
    assert attempts_of(*gang, again) == {0: ["0@0", "1@0", "1@22", "2@0"]}
    report = build([], [facts([*gang, again])])
    assert (report.jobs[0].attempts, report.jobs[0].outcome) == (1, RunOutcome.SUCCEEDED)


@pytest.mark.parametrize(("others", "attempts"), [(31, 2), (33, 1)])
def test_ranks_that_end_within_ten_minutes_after_another_was_replaced_were_stopped(
    others: float, attempts: int
) -> None:
    assert len(attempts_of(rank(0, 0, others), rank(1, 0, 20), rank(1, 22))) == attempts


def test_a_rank_that_still_runs_is_not_replaced() -> None:
    assert len(attempts_of(rank(0, 0), rank(1, 0), rank(1, 22))) == 2


def test_a_pod_that_starts_after_all_others_ended_is_the_next_attempt() -> None:
    assert attempts_of(rank(0, 0, 20), rank(1, 25)) == {0: ["0@0"], 1: ["1@25"]}


def test_pods_of_two_volcano_jobs_are_two_attempts() -> None:
    one, two = ({"volcano.sh/job-name": name} for name in ("a", "b"))
    assert attempts_of(rank(0, 0, labels=one), rank(1, 0, labels=two)) == {0: ["0@0"], 1: ["1@0"]}


def test_a_pod_that_was_refused_at_once_is_a_rank_of_its_gang() -> None:
    refused = pod(
        name="azureml-aa-worker-0", uid="refused", start=0, reason="UnexpectedAdmissionError"
    )
    assert attempts_of(refused, rank(1, 0.05, 20)) == {0: ["refused", "1@0.05"]}


def test_creation_decides_because_the_clocks_of_nodes_differ() -> None:
    ahead = rank(0, 0, 47)
    ahead["status"]["startTime"] = at(45)
    assert attempts_of(rank(0, 40), ahead) == {0: ["0@0"], 1: ["0@40"]}


def test_volcano_counts_the_pods_whose_names_do_not_say_a_rank() -> None:
    pods = [
        rank(index, 0, labels={"role": "worker", "volcano.sh/task-index": str(index)})
        for index in (0, 1)
    ]
    for index, made in enumerate(pods):
        made["metadata"]["name"] = f"odd-{'xyz'[index]}"
    assert attempts_of(*pods) == {0: ["0@0", "1@0"]}


@pytest.mark.parametrize(
    ("start", "number"), [(0.5, 0), (30.5, 1)], ids=["log of the first attempt", "log written over"]
)
def test_one_log_belongs_to_the_attempt_that_it_fits(start: float, number: int) -> None:
    pods = [rank(0, 0, 20), rank(0, 30, phase="Succeeded")]
    given = log(FIRST, NODE_A, start=TEN + start * 60, start_exact=True)
    attempts = build([given], [facts(pods)]).attempts
    assert [(attempt.pod_uid, attempt.outcome) for attempt in attempts] == [
        ("0@0", RunOutcome.FAILED),
        ("0@30", RunOutcome.SUCCEEDED),
    ]
    assert [bool(attempt.sources) for attempt in attempts] == [number == 0, number == 1]


def test_a_log_without_a_pod_is_placed_by_time_and_folder() -> None:
    pods = [rank(0, 30, 50, where=NODE_B), rank(0, 60, where=NODE_C)]
    early = log(FIRST, NODE_A, start=TEN, start_exact=True)
    assert [attempt.node for attempt in build([early], [facts(pods)]).attempts] == [
        NODE_A,
        NODE_B,
        NODE_C,
    ]
    between = log(FIRST, NODE_A, start=TEN + 55 * 60, start_exact=True)
    assert [attempt.node for attempt in build([between], [facts(pods)]).attempts] == [
        NODE_B,
        NODE_A,
        NODE_C,
    ]
    retry = [log(FIRST, NODE_B), log(RETRY, NODE_A)]
    assert [attempt.node for attempt in build(retry, [facts(pods)]).attempts] == [
        NODE_B,
        NODE_A,
        NODE_C,
    ]


def test_a_log_without_a_node_belongs_to_the_last_pod() -> None:
    pods = [rank(0, 0, 20), rank(0, 30)]
    attempts = build([log(FIRST, None)], [facts(pods)]).attempts
    assert [bool(attempt.sources) for attempt in attempts] == [False, True]


def test_a_pod_that_runs_or_succeeded_has_not_failed_although_another_attempt_follows() -> None:
    log_of_failure = log(FIRST, NODE_A, failure=("1", ""))
    for phase, outcome in (("Running", RunOutcome.RUNNING), ("Succeeded", RunOutcome.SUCCEEDED)):
        pods = [rank(0, 0, phase=phase), rank(0, 30, where=NODE_B)]
        assert build([log_of_failure], [facts(pods)]).attempts[0].outcome is outcome


def test_a_pod_that_seems_to_run_on_a_lost_node_has_failed_if_another_attempt_follows() -> None:
    lost = node(conditions=[{"type": "Ready", "status": "Unknown", "lastTransitionTime": at(20)}])
    both = [rank(0, 0), rank(0, 30, where=NODE_B)]
    given = facts(both, nodes=[lost, node(NODE_B)])
    assert [attempt.outcome for attempt in build([], [given]).attempts] == [
        RunOutcome.FAILED,
        RunOutcome.RUNNING,
    ]
    assert build([], [facts([rank(0, 0)], nodes=[lost])]).attempts[0].outcome is RunOutcome.RUNNING


@pytest.mark.parametrize("minute", [20, 31])
def test_a_failed_pod_has_not_succeeded_even_if_only_a_helper_was_killed(minute: int) -> None:
    done = container(reason="Completed", code=0, minute=30)
    killed = container("1-hosttools-capability", code=137, minute=minute)
    attempt = build([], [facts([pod(containers=[done, killed])])]).attempts[0]
    assert attempt.cause is not None
    assert attempt.outcome is RunOutcome.FAILED
    assert (attempt.cause.kind, attempt.cause.countable) == (CauseKind.UNKNOWN, False)
    assert "hosttools-capability" in attempt.cause.evidence[0].message


def two_in_one(minutes: float) -> bytes:
    """Two bootstrap logs in one file, the second some minutes after the first."""
    dates = (f"Tue Mar  3 10:{minute:02.0f}:00 UTC 2026" for minute in (0, minutes))
    return b"".join(
        f"bootstrap starts at {date}\n".encode() + node_line(name)
        for date, name in zip(dates, (NODE_A, NODE_B), strict=True)
    )


def test_logs_that_were_appended_to_one_file_are_attempts_one_after_the_other() -> None:
    first, second = build([scanned(two_in_one(40), FIRST)]).attempts
    assert (first.number, first.node, first.start) == (0, NODE_A, TEN)
    assert (second.number, second.node, second.start) == (1, NODE_B, TEN + 2400)
    assert (first.outcome, second.outcome) == (RunOutcome.FAILED, RunOutcome.UNKNOWN)
    # Ranks of a gang start together; and with other folders their numbers say what is an attempt.
    assert {attempt.number for attempt in build([scanned(two_in_one(1), FIRST)]).attempts} == {0}
    several = build([scanned(two_in_one(40), FIRST), log(RETRY, NODE_C)]).attempts
    assert [attempt.number for attempt in several] == [0, 0, 1]

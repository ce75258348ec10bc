"""The passes that decide a cause: the example of each, and that nothing else changes a cause."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from arc_toolkit.diagnosis import passes
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    Evidence,
    EvidenceSource,
    Level,
    RunOutcome,
    Verdict,
)
from arc_toolkit.diagnosis.passes import PassContext
from arc_toolkit.diagnosis.read.gpu_messages import GpuProof
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import NODE_A, NODE_B, container, facts, pod
from tests.support import ROOT

USER = Cause(CauseKind.USER, "medium")
GOOD = Attempt("a", 1, NODE_B, outcome=RunOutcome.SUCCEEDED)


def failed(cause: Cause, number: int = 0, node: str = NODE_A) -> Attempt:
    return Attempt("a", number, node, outcome=RunOutcome.FAILED, cause=cause)


def judge_of(verdict: Verdict) -> Callable[[Sequence[Attempt]], list[Verdict]]:
    return lambda _: [verdict]


def kinds(attempts: Sequence[Attempt]) -> list[CauseKind | None]:
    return [attempt.cause.kind if attempt.cause else None for attempt in attempts]


def test_decide_answers_for_each_attempt_by_itself() -> None:
    (attempt,) = build(
        [], [facts([pod(containers=[container(code=137, reason="OOMKilled")])])]
    ).attempts
    assert kinds([attempt]) == [CauseKind.OWN_MEMORY]


def test_a_deleted_pod_without_evidence_gets_no_cause() -> None:
    raw = pod(phase="Running")
    raw["metadata"]["deletionTimestamp"] = raw["status"]["startTime"]
    (attempt,) = build([], [facts([raw])]).attempts
    assert (attempt.outcome, attempt.cause) == (RunOutcome.UNKNOWN, None)


def test_gang_blames_the_rank_that_failed_first() -> None:
    killed = container(code=137, reason="OOMKilled", minute=28)
    first = pod(uid="uid-2", name="azureml-aa-worker-1", containers=[killed])
    second = pod(containers=[container(code=1)])
    attempts = build([], [facts([first, second])]).attempts
    by_rank = {attempt.rank: attempt.cause.kind for attempt in attempts if attempt.cause}
    assert by_rank == {"worker-1": CauseKind.OWN_MEMORY, "worker-0": CauseKind.GANG}


def test_a_gpu_that_is_not_found_is_the_nodes_only_if_another_node_has_one() -> None:
    missing = Evidence(EvidenceSource.LOG, GpuProof.MISSING)
    cause = Cause(CauseKind.USER, "low", (missing,))
    context = PassContext()
    assert kinds(passes.gpu([failed(cause), GOOD], context))[0] is CauseKind.NODE_FAULT
    twice = [failed(cause), failed(cause, 1, NODE_B)]
    assert kinds(passes.gpu(twice, context)) == [CauseKind.USER, CauseKind.USER]


def test_an_error_is_countable_if_the_job_succeeded_elsewhere() -> None:
    marked, _ = passes.elsewhere([failed(USER), GOOD], PassContext())
    assert marked.cause is not None
    assert marked.cause.countable
    (alone,) = passes.elsewhere([failed(USER)], PassContext())
    assert alone.cause == USER


def test_an_error_on_a_convicted_node_is_the_nodes_if_the_job_succeeded_elsewhere() -> None:
    for level, kind in ((Level.BAD, CauseKind.NODE_FAULT), (Level.OK, CauseKind.USER)):
        verdict = Verdict(NODE_A, level)
        context = PassContext(judge=judge_of(verdict))
        attempts = passes.elsewhere([failed(USER), GOOD], context)
        assert kinds(passes.convicted(attempts, context))[0] is kind
    assert kinds(passes.convicted([failed(USER)], context)) == [CauseKind.USER]


def test_only_passes_change_a_cause() -> None:
    """Everywhere else an attempt keeps the cause that it has."""
    folder = ROOT / "arc_toolkit" / "diagnosis"
    writers = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.keyword) and node.arg == "cause")
        or (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and node.attr == "cause"
        )
    }
    assert writers == {"passes.py"}


def test_a_pass_keeps_the_attempts_in_order() -> None:
    attempts = [failed(USER), GOOD, failed(USER, 2)]
    for change in passes.PASSES:
        result = change(attempts, PassContext(failures=[None] * 3))
        assert [item.number for item in result] == [0, 1, 2]

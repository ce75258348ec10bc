"""Errors of a GPU in what a job printed: Xid numbers of NVIDIA's driver, and messages of CUDA, NVML and NCCL.

The error of a program (an illegal address, memory of the GPU that is full) is not one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arc_toolkit.diagnosis.gpu_messages import GpuProof
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    RunOutcome,
)


def weigh_by_other_nodes(attempts: Sequence[Attempt]) -> list[Attempt]:
    """A driver that fails and a GPU that is not found are of the node if the same job then succeeded elsewhere, and of
    the job or its image if it failed in the same way on another node."""
    questions = [attempt for attempt in attempts if _open_question(attempt.cause)]
    if not questions:
        return list(attempts)
    good: dict[str, set[tuple[int, str]]] = {}
    for attempt in attempts:
        if attempt.outcome is RunOutcome.SUCCEEDED and attempt.node:
            good.setdefault(attempt.job, set()).add((attempt.number, attempt.node))
    same: dict[tuple[str, str], set[str]] = {}
    for attempt in questions:
        if attempt.node and (reason := _open_question(attempt.cause)):
            same.setdefault((attempt.job, reason), set()).add(attempt.node)
    return [_weighed(attempt, good.get(attempt.job, set()), same) for attempt in attempts]


def _open_question(cause: Cause | None) -> str | None:
    reason = cause.evidence[0].reason if cause and cause.evidence else ""
    return reason if reason in (GpuProof.DRIVER, GpuProof.MISSING) else None


def _weighed(
    attempt: Attempt, good: set[tuple[int, str]], same: dict[tuple[str, str], set[str]]
) -> Attempt:
    cause, reason = attempt.cause, _open_question(attempt.cause)
    if cause is None or reason is None:
        return attempt
    if any(number > attempt.number and node != attempt.node for number, node in good):
        return replace(
            attempt, cause=Cause(CauseKind.NODE_FAULT, "medium", cause.evidence, blames_node=True)
        )
    if len(same.get((attempt.job, reason), ())) > 1:
        return replace(attempt, cause=Cause(CauseKind.USER, "low", cause.evidence))
    return attempt

"""The cause of every attempt: one tuple of pure functions, attempts in, attempts out.

    PASSES = (decide, gang, gpu, elsewhere, convicted, gaps)

Each pass sees what the passes before it decided. Nothing else in the package changes a cause. A
pass keeps the number and the order of the attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from arc_toolkit.diagnosis import causes, times
from arc_toolkit.diagnosis.assemble.attempt_evidence import AttemptContext
from arc_toolkit.diagnosis.assemble.log_evidence import PEER_REASONS
from arc_toolkit.diagnosis.gaps import missing_between, moment_of
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    Evidence,
    EvidenceSource,
    Level,
    RecordingGap,
    RunOutcome,
    Verdict,
)
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.read.gpu_messages import GpuProof, is_of_hardware
from arc_toolkit.diagnosis.read.log_endings import LogEndingKind
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.diagnosis.times import LOOK_BACK_SECONDS, NOTICE_OF_LOSS_SECONDS, is_within

FOLLOWER_REASONS = (*PEER_REASONS, LogEndingKind.STOPPED)


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass may use besides the attempts."""

    cluster: ClusterIndex = field(default_factory=ClusterIndex)
    # one entry per attempt, in the same order; None if it did not fail
    failures: Sequence[AttemptContext | None] = ()
    # the verdicts on the nodes by the causes so far
    judge: Callable[[Sequence[Attempt]], Sequence[Verdict]] = lambda attempts: ()
    gaps: Sequence[RecordingGap] = ()


Pass = Callable[[Sequence[Attempt], PassContext], list[Attempt]]


def apply(attempts: Sequence[Attempt], context: PassContext) -> list[Attempt]:
    """The attempts after all passes."""
    result = list(attempts)
    for change in PASSES:
        result = change(result, context)
    return result


def decide(attempts: Sequence[Attempt], context: PassContext) -> list[Attempt]:
    """Each failed attempt by itself: the first question of causes.QUESTIONS with an answer.

    Example: a container ended with OOMKilled -> own-memory-limit. A pod that was deleted while it
    ran, without any evidence, was most likely cancelled: it keeps its unknown outcome and gets no
    cause.
    """
    result = list(attempts)
    for index, failure in enumerate(context.failures):
        if failure is None:
            continue
        cause = causes.decide(failure)
        if attempts[index].outcome is RunOutcome.FAILED or cause.kind is not CauseKind.UNKNOWN:
            result[index] = replace(attempts[index], outcome=RunOutcome.FAILED, cause=cause)
    return result


def gang(attempts: Sequence[Attempt], context: PassContext) -> list[Attempt]:
    """In a gang the first rank to fail is the cause and the others are collateral, unless a node
    is proved at fault.

    Example: worker-1 ends with OOMKilled at 10:00, worker-0 with exit code 1 at 10:02 ->
    worker-1 own-memory-limit, worker-0 gang-collateral. A rank that says that a peer went away was
    not the first, whatever the clocks say. A rank whose node was lost cannot say that it failed.
    """
    result = list(attempts)
    for ranks in _gangs(attempts, context):
        for index, cause in ranks.causes():
            result[index] = replace(attempts[index], cause=cause)
    return result


def gpu(attempts: Sequence[Attempt], context: PassContext) -> list[Attempt]:
    """A driver that fails and a GPU that is not found are of the node if the same job then
    succeeded elsewhere, and of the job or its image if it failed in the same way on another node.

    Example: attempt 0 finds no GPU on node A, attempt 1 succeeds on node B -> attempt 0 node-fault
    of A. If attempt 1 finds no GPU on B either -> both user-error.
    """
    questions = [_open_question(attempt.cause) for attempt in attempts]
    if not any(questions):
        return list(attempts)
    successes = _successes(attempts)
    failed_nodes: dict[tuple[str, str], set[str]] = {}
    for attempt, reason in zip(attempts, questions, strict=True):
        if attempt.node and reason:
            failed_nodes.setdefault((attempt.job, reason), set()).add(attempt.node)
    result = []
    for attempt, reason in zip(attempts, questions, strict=True):
        if attempt.cause and reason:
            proofs = attempt.cause.evidence
            if _succeeded_elsewhere(attempt, successes):
                cause = Cause(CauseKind.NODE_FAULT, "medium", proofs, blames_node=True)
                attempt = replace(attempt, cause=cause)
            elif len(failed_nodes.get((attempt.job, reason), ())) > 1:
                attempt = replace(attempt, cause=Cause(CauseKind.USER, "low", proofs))
        result.append(attempt)
    return result


def elsewhere(attempts: Sequence[Attempt], context: PassContext) -> list[Attempt]:
    """The comparison of nodes counts an error of a process if its job later succeeded elsewhere.

    Example: exit code 1 on node A, then success on node B -> user-error that is `countable`
    against A. Without the success it is the job's own.
    """
    successes = _successes(attempts)
    return [
        replace(attempt, cause=replace(attempt.cause, countable=True))
        if attempt.cause
        and attempt.cause.kind is CauseKind.USER
        and _succeeded_elsewhere(attempt, successes)
        else attempt
        for attempt in attempts
    ]


SUCCEEDED_ELSEWHERE = Evidence(
    EvidenceSource.COMPARISON,
    "succeeded elsewhere",
    "the job then succeeded on another node, and other jobs failed on this one too",
)


def convicted(attempts: Sequence[Attempt], context: PassContext) -> list[Attempt]:
    """A process that ran elsewhere was not at fault, if the comparison convicts its node.

    Example: exit code 1 on node A, then success on node B, and A is `bad` because other jobs fail
    there too -> node-fault of A with low confidence.
    """
    levels = (Level.BAD, Level.SUSPECT)
    nodes = {verdict.node for verdict in context.judge(attempts) if verdict.level in levels}
    result = []
    for attempt in attempts:
        cause = attempt.cause
        if cause and cause.kind is CauseKind.USER and cause.countable and attempt.node in nodes:
            evidence = (SUCCEEDED_ELSEWHERE, *cause.evidence)
            fault = Cause(CauseKind.NODE_FAULT, "low", evidence, blames_node=True, countable=True)
            attempt = replace(attempt, cause=fault)
        result.append(attempt)
    return result


def gaps(attempts: Sequence[Attempt], context: PassContext) -> list[Attempt]:
    """A note for each attempt without a sure cause whose evidence may be in a gap.

    Example: an attempt of unknown cause ended at 12:30, and nothing was recorded from 12:00 to
    13:00 -> the same cause, with a note that says so.
    """
    if not context.gaps:
        return list(attempts)
    result = []
    for attempt in attempts:
        moment = moment_of(attempt) if _lacks_evidence(attempt) else None
        note = missing_between(context.gaps, moment, moment) if moment is not None else ""
        result.append(replace(attempt, notes=(*attempt.notes, note)) if note else attempt)
    return result


PASSES: tuple[Pass, ...] = (decide, gang, gpu, elsewhere, convicted, gaps)


def _successes(attempts: Sequence[Attempt]) -> dict[str, list[Attempt]]:
    successes: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.outcome is RunOutcome.SUCCEEDED and attempt.node:
            successes.setdefault(attempt.job, []).append(attempt)
    return successes


def _succeeded_elsewhere(attempt: Attempt, successes: dict[str, list[Attempt]]) -> bool:
    return any(
        other.number > attempt.number and other.node != attempt.node
        for other in successes.get(attempt.job, ())
    )


def _open_question(cause: Cause | None) -> str | None:
    reason = cause.evidence[0].reason if cause and cause.evidence else ""
    return reason if reason in (GpuProof.DRIVER, GpuProof.MISSING) else None


def _lacks_evidence(attempt: Attempt) -> bool:
    if attempt.outcome not in (RunOutcome.FAILED, RunOutcome.UNKNOWN):
        return False
    cause = attempt.cause
    return cause is None or cause.kind is CauseKind.UNKNOWN or cause.confidence == "low"


@dataclass(slots=True)
class Gang:
    """The ranks of one attempt, by their index in the report, and what their logs say."""

    ranks: dict[int, Attempt]
    failures: dict[int, AttemptContext]
    cluster: ClusterIndex

    def causes(self) -> Iterator[tuple[int, Cause]]:
        """The causes that change."""
        failed = {index: rank.cause for index, rank in self.ranks.items() if rank.cause}
        proved = [index for index, cause in failed.items() if _is_proved(cause)]
        lost = [] if proved else self._lost_ranks(failed)
        if len(failed) + len(lost) < 2:
            return
        unprompted = [index for index, cause in failed.items() if not _is_follower(cause)]
        roots = proved or lost or self._first_to_fail(failed, unprompted)
        for index, cause in failed.items():
            if index in roots or cause.kind is CauseKind.GANG:
                continue
            if roots:
                yield index, self._collateral(cause, roots[0], is_lost=bool(lost))
            else:
                yield index, self._doubtful(cause, all_follow=not unprompted)
        if len(roots) == 1 and (root := failed.get(roots[0])) and root.kind is CauseKind.USER:
            yield roots[0], _explain_by_gpu(root)

    def _lost_ranks(self, failed: dict[int, Cause]) -> list[int]:
        """Ranks that count as running on a node not ready since about the first failure."""
        ends = [end for index in failed if (end := self.ranks[index].end) is not None]
        return [index for index in self.ranks if ends and self._is_lost_at(index, min(ends))]

    def _is_lost_at(self, index: int, moment: float) -> bool:
        """A loss is noticed late."""
        rank = self.ranks[index]
        node = self.cluster.nodes.get(rank.node or "")
        if rank.outcome is not RunOutcome.RUNNING or node is None:
            return False
        since = [
            times.parse(row.since)
            for row in node.conditions
            if row.type == "Ready" and row.status != "True"
        ]
        return any(
            is_within(time, moment, LOOK_BACK_SECONDS, NOTICE_OF_LOSS_SECONDS) for time in since
        )

    def _first_to_fail(self, failed: dict[int, Cause], unprompted: list[int]) -> list[int]:
        """The one rank that failed before the others, if it is known."""
        own_errors = [index for index in unprompted if self._has_own_error(index)]
        first = own_errors if len(own_errors) == 1 else self._earliest(unprompted)
        if self._lost_peer() and any(self._may_follow(index, failed) for index in first):
            return []
        return first if len(first) == 1 else []

    def _earliest(self, unprompted: list[int]) -> list[int]:
        if len(unprompted) == 1:
            return unprompted
        ends = {index: self.ranks[index].end for index in unprompted}
        earliest = min((end for end in ends.values() if end is not None), default=None)
        return [index for index, end in ends.items() if end is not None and end == earliest]

    def _has_own_error(self, index: int) -> bool:
        """Its log ends with an error of its own, and another log with a lost peer."""
        failure = self.failures[index]
        return any(item.evidence.reason in PEER_REASONS for item in failure.gang_evidence) and any(
            is_named and item.evidence.reason == LogEndingKind.OWN_ERROR
            for item, is_named in failure.file_evidence
        )

    def _lost_peer(self) -> Evidence | None:
        """What a rank says about a lost peer, if none has an error of its own."""
        evidence = [
            item.evidence for failure in self.failures.values() for item in failure.gang_evidence
        ]
        if any(item.reason == LogEndingKind.OWN_ERROR for item in evidence):
            return None
        return next((item for item in reversed(evidence) if item.reason in PEER_REASONS), None)

    def _may_follow(self, index: int, failed: dict[int, Cause]) -> bool:
        """It failed like a rank that lost a peer, and not before it: probably for that reason."""
        end = self.ranks[index].end
        peers = [self.ranks[other] for other, cause in failed.items() if _is_follower(cause)]
        is_bare = index in failed and failed[index].kind is CauseKind.USER
        return is_bare and any(
            end is not None and peer.end is not None and peer.end <= end for peer in peers
        )

    def _collateral(self, cause: Cause, root: int, *, is_lost: bool) -> Cause:
        rank = self.ranks[root].rank or "unnamed"
        message = (
            f"the node of another rank ({rank}) was lost"
            if is_lost
            else f"another rank ({rank}) failed first"
        )
        evidence = Evidence(EvidenceSource.GANG, "first to fail", message, self.ranks[root].end)
        return Cause(CauseKind.GANG, "medium", (evidence, *cause.evidence))

    def _doubtful(self, cause: Cause, *, all_follow: bool) -> Cause:
        """Which rank failed first is not known, so neither it nor a node is blamed."""
        if cause.kind is CauseKind.USER and all_follow:
            return Cause(CauseKind.UNKNOWN, "low", cause.evidence)
        if cause.kind is CauseKind.USER and (peer := self._lost_peer()):
            return Cause(CauseKind.UNKNOWN, "low", (peer, *cause.evidence))
        if (cause.blames_node or cause.countable) and not KINDS[cause.kind].direct:
            return Cause(cause.kind, "low", cause.evidence)
        return cause


def _gangs(attempts: Sequence[Attempt], context: PassContext) -> Iterator[Gang]:
    indexes = range(len(context.failures))
    for _, group in groupby(indexes, key=lambda at: (attempts[at].job, attempts[at].number)):
        ranks = list(group)
        failures = {at: failure for at in ranks if (failure := context.failures[at]) is not None}
        if any(not failure.single_rank for failure in failures.values()):
            yield Gang({at: attempts[at] for at in ranks}, failures, context.cluster)


def _is_follower(cause: Cause) -> bool:
    """It says that a peer went away, or that it was asked to stop: it was not the first."""
    return any(item.reason in FOLLOWER_REASONS for item in cause.evidence)


def _explain_by_gpu(cause: Cause) -> Cause:
    """A broken GPU in a log without a rank is most likely that of the rank that failed first."""
    faults = [
        item
        for item in cause.evidence
        if item.source is EvidenceSource.LOG and is_of_hardware(item.reason)
    ]
    if not faults:
        return cause
    evidence = tuple(dict.fromkeys([*faults, *cause.evidence]))
    return Cause(CauseKind.NODE_FAULT, "low", evidence, blames_node=False)


def _is_proved(cause: Cause) -> bool:
    """Has evidence of its own, which does not follow from the end of another rank."""
    weak = (CauseKind.UNKNOWN, CauseKind.USER, CauseKind.GANG, CauseKind.CANCELLED)
    return cause.kind not in weak and cause.confidence != "low"

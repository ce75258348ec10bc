"""The votes of attempts on their nodes: one per node and job family, against broken sweeps.

A vote is a failure if at least half of what the family did on the node counts as one. These count:
- failures whose cause blames the node, and failures without any evidence (on spot VMs they count
  as evictions);
- errors of the job's own process if the same job then succeeded elsewhere: a broken GPU looks like
  that.
Of a gang only the rank that failed first votes, or each of those that ended first at once, as one
of so many suspects. Several failures of a node within minutes are one. If there is no evidence and
the jobs never succeeded, those within an hour are one, and those whose names differ only in a
number, if no job of that name succeeded: they may be trials of a broken sweep that do not name
their parent. A job that failed on two or more nodes without any evidence against them (a gang: on
three or more), or a family that failed on many of its nodes, has a problem of its own and does not
vote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from arc_toolkit.diagnosis.assemble.log_evidence import NOTICED
from arc_toolkit.diagnosis.assemble.node_signals import TAKEN_AWAY
from arc_toolkit.diagnosis.model import Attempt, CauseKind, EvidenceSource, RunOutcome

MIN_NODES_FAILS_EVERYWHERE = 3
NODES_OF_A_FLAKY_JOB = 2
SHARE_OF_A_FLAKY_FAMILY = 0.3  # of the nodes on which it ran, and at least three of them
SAME_FAILURE_SECONDS = 600
# jobs that never succeeded and fail one after the other may be the same one
SAME_JOBS_SECONDS = 3600
NUMBER = re.compile(r"[\W_]*\d+$")
# Somebody asked the process to stop (SIGTERM): a cancelled job, or another rank that failed before.
ASKED_TO_STOP = "143"

Reject = Callable[[Attempt], bool]


class Failure(NamedTuple):
    """A failed attempt that counts for its node, which is one of so many that may be at fault."""

    attempt: Attempt
    suspects: int = 1


class FailedVote(NamedTuple):
    """`kind`: of the cause, without evidence against the node. `size`: pods, a power of 2."""

    kind: CauseKind | None
    suspects: int = 1
    size: int = 1


@dataclass(slots=True)
class NodeVotes:
    """What is counted for one node."""

    pool: str | None = None
    failed: list[FailedVote] = field(default_factory=list)
    sizes: Counter[int] = field(default_factory=Counter)  # votes by the number of pods of their job
    named: int = 0  # all attempts that ran here
    older: int = 0  # of them, on the VM that had the name before
    left_out: int = 0  # of jobs that fail on many nodes
    good: list[float] = field(default_factory=list)  # when attempts succeeded
    running: list[float] = field(default_factory=list)  # when those that run now started

    @property
    def votes(self) -> int:
        return self.sizes.total()

    @property
    def failures(self) -> int:
        return round(sum(1 / vote.suspects for vote in self.failed))


@dataclass(slots=True)
class _Vote:
    failures: int = 0
    successes: int = 0
    time: float | None = None
    kind: CauseKind | None = None  # of the last failure, if there is no evidence against the node
    suspects: int = 1
    size: int = 1
    # And the job never succeeded: its name, without a final number if no such name did.
    doubtful: str = ""


def count(
    attempts: Sequence[Attempt], is_older: Reject, in_incident: Reject, excluded: frozenset[str]
) -> dict[str, NodeVotes]:
    """The votes by node, without older VMs, failures in an incident, and `excluded` jobs."""
    result: dict[str, NodeVotes] = {}
    votes: dict[tuple[str, str], _Vote] = {}
    good: set[str] = set()
    sizes = _sizes(attempts)
    for attempt in attempts:
        if attempt.node is None or attempt.node_truncated:
            continue
        node = result.get(attempt.node)
        if node is None:
            node = result[attempt.node] = NodeVotes(pool=attempt.pool)
        node.named += 1
        if is_older(attempt):
            node.older += 1
        elif attempt.outcome is RunOutcome.SUCCEEDED:
            good |= {attempt.job, NUMBER.sub("", attempt.job)}
            if (moment := attempt.end or attempt.start) is not None:
                node.good.append(moment)
            if attempt.job in excluded:
                node.left_out += 1
            else:
                vote = votes.setdefault((attempt.node, _family(attempt)), _Vote())
                vote.successes += 1
                vote.size = max(vote.size, sizes.get(attempt.job, 1))
        elif attempt.outcome is RunOutcome.RUNNING and attempt.start is not None:
            node.running.append(attempt.start)
        elif attempt.job in excluded:
            node.left_out += 1
    for failure, suspects in failures(attempts):
        if (
            failure.node is None
            or failure.job in excluded
            or is_older(failure)
            or in_incident(failure)
        ):
            continue
        vote = votes.setdefault((failure.node, _family(failure)), _Vote())
        vote.suspects = min(vote.suspects, suspects) if vote.failures else suspects
        vote.size = max(vote.size, sizes.get(failure.job, 1))
        vote.failures += 1
        vote.time = failure.end
        vote.kind = failure.cause.kind if failure.cause and not failure.cause.blames_node else None
        if vote.kind and failure.job not in good:
            stem = NUMBER.sub("", failure.job)
            vote.doubtful = failure.job if stem in good else stem
        else:
            vote.doubtful = ""
    flaky = _flaky_families(votes)
    by_node: dict[str, list[_Vote]] = {}
    for (name, family), vote in votes.items():
        if family in flaky:
            result[name].left_out += vote.failures + vote.successes
        else:
            by_node.setdefault(name, []).append(vote)
    for name, votes_of_node in by_node.items():
        failed = [
            vote for vote in votes_of_node if 2 * vote.failures >= vote.failures + vote.successes
        ]
        separate = _separate(failed)
        result[name].failed = [FailedVote(vote.kind, vote.suspects, vote.size) for vote in separate]
        result[name].sizes = Counter(vote.size for vote in separate)
        result[name].sizes.update(
            vote.size
            for vote in votes_of_node
            if 2 * vote.failures < vote.failures + vote.successes
        )
    return result


def failures(attempts: Sequence[Attempt]) -> Iterator[Failure]:
    """The attempts whose failure counts for their node."""
    failed = {attempt.job for attempt in attempts if attempt.cause is not None}
    jobs: dict[str, dict[int, list[Attempt]]] = {}
    for attempt in attempts:
        if attempt.job in failed and attempt.node and not attempt.node_truncated:
            jobs.setdefault(attempt.job, {}).setdefault(attempt.number, []).append(attempt)
    for numbers in jobs.values():
        first = [suspects for ranks in numbers.values() if (suspects := first_to_fail(ranks))]
        hard = [suspects for suspects in first if _is_blamed(suspects[0])]
        soft = [
            suspects
            for suspects in first
            if not _is_blamed(suspects[0]) and _may_be_the_node(suspects[0])
        ]
        gang = any(len(ranks) > 1 for ranks in numbers.values())
        most = MIN_NODES_FAILS_EVERYWHERE if gang else NODES_OF_A_FLAKY_JOB
        counted = hard if len({suspects[0].node for suspects in soft}) >= most else hard + soft
        yield from (Failure(rank, len(suspects)) for suspects in counted for rank in suspects)


def first_to_fail(ranks: Sequence[Attempt]) -> list[Attempt]:
    """The rank that failed first and ended the others, or those that ended in the same second."""
    failed = [
        rank
        for rank in ranks
        if rank.outcome is RunOutcome.FAILED
        and rank.cause
        and rank.cause.kind is not CauseKind.GANG
    ]
    if len(failed) > 1:
        failed = [rank for rank in failed if not _was_asked_to_stop(rank)]
    if len(failed) > 1:
        failed = sorted(filter(_is_blamed, failed), key=_end_moment)[:1] or failed
    earliest = min(map(_end_moment, failed), default=None)
    return sorted(
        (rank for rank in failed if _end_moment(rank) == earliest), key=lambda rank: rank.rank or ""
    )


def _may_be_the_node(root: Attempt) -> bool:
    """No evidence against the node, but possibly its fault; a spot VM was most likely evicted."""
    if root.cause is None or _was_asked_to_stop(root):
        return False
    if root.cause.kind is CauseKind.UNKNOWN:
        return not root.spot
    return root.cause.countable


def _is_blamed(attempt: Attempt) -> bool:
    """There is evidence against the node."""
    return attempt.cause is not None and attempt.cause.blames_node


def _was_asked_to_stop(attempt: Attempt) -> bool:
    cause = attempt.cause
    return (
        cause is not None
        and cause.kind in (CauseKind.UNKNOWN, CauseKind.USER)
        and any(
            item.reason == NOTICED
            or (item.source is EvidenceSource.EXIT_CODE and item.reason == ASKED_TO_STOP)
            for item in cause.evidence
        )
    )


def _flaky_families(votes: dict[tuple[str, str], _Vote]) -> frozenset[str]:
    counts: dict[str, list[float]] = {}
    for (_, family), vote in votes.items():
        total = counts.setdefault(family, [0, 0])
        total[0] += 1 / vote.suspects if vote.failures else 0
        total[1] += 1
    return frozenset(
        family
        for family, (failed, nodes) in counts.items()
        if failed >= MIN_NODES_FAILS_EVERYWHERE and failed > SHARE_OF_A_FLAKY_FAMILY * nodes
    )


def _separate(failed: list[_Vote]) -> list[_Vote]:
    """Of those that may belong together the one with the fewest suspects."""
    result = [vote for vote in failed if vote.time is None]
    before, names = float("-inf"), {""}
    dated = ((vote.time, vote.doubtful, vote) for vote in failed if vote.time is not None)
    for time, name, vote in sorted(dated, key=lambda item: item[:2]):
        if time - before > (SAME_JOBS_SECONDS if name else SAME_FAILURE_SECONDS) and (
            not name or name not in names
        ):
            result.append(vote)
        elif result and vote.suspects < result[-1].suspects:
            result[-1] = vote
        names.add(name)
        before = time
    return result


def _sizes(attempts: Sequence[Attempt]) -> dict[str, int]:
    """The pods of each gang, as the next power of 2."""
    ranks: dict[str, set[str]] = {}
    for attempt in attempts:
        if attempt.rank is not None:
            ranks.setdefault(attempt.job, set()).add(attempt.rank)
    return {job: 1 << (len(names) - 1).bit_length() for job, names in ranks.items()}


def failed_on_many_nodes(attempts: Sequence[Attempt]) -> frozenset[str]:
    """Jobs that failed in three or more attempts, each on another node, perhaps by themselves.

    Of a gang only one node counts per attempt, that of the rank that failed first.
    """
    first: dict[str, dict[int, Attempt]] = {}
    for attempt in attempts:
        failed = attempt.outcome is RunOutcome.FAILED
        if failed and attempt.cause and attempt.node and attempt.cause.kind not in TAKEN_AWAY:
            by_number = first.setdefault(attempt.job, {})
            first_failure = by_number.get(attempt.number)
            if first_failure is None or _end_moment(attempt) < _end_moment(first_failure):
                by_number[attempt.number] = attempt
    return frozenset(
        job
        for job, by_number in first.items()
        if len({attempt.node for attempt in by_number.values()}) >= MIN_NODES_FAILS_EVERYWHERE
    )


def never_succeeded(attempts: Sequence[Attempt], widespread: frozenset[str]) -> frozenset[str]:
    """Those of the jobs that did not succeed in the end."""
    ends: dict[str, tuple[int, bool]] = {}
    for attempt in attempts:
        if attempt.job in widespread:
            number, good = ends.get(attempt.job, (-1, False))
            if attempt.number > number:
                number, good = attempt.number, True
            if attempt.number == number:
                ends[attempt.job] = number, good and attempt.outcome is RunOutcome.SUCCEEDED
    return frozenset(job for job, (_, good) in ends.items() if not good)


def excluded_jobs(
    attempts: Sequence[Attempt], widespread: frozenset[str], hopeless: frozenset[str]
) -> frozenset[str]:
    """The jobs that failed on many nodes, except gangs that succeeded in the end."""
    gangs = {
        attempt.job
        for attempt in attempts
        if attempt.rank is not None and attempt.job in widespread
    }
    return hopeless | (widespread - gangs)


def _family(attempt: Attempt) -> str:
    return attempt.family or attempt.job


def _end_moment(attempt: Attempt) -> float:
    return attempt.end if attempt.end is not None else float("inf")

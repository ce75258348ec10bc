"""The votes of attempts on their nodes: one per node and job, counted by job family.

A vote is a failure if at least half of what the job did on the node counts as one: its cause blames
the node; there is no evidence (on spot VMs it counts as an eviction); or the job's own process
failed and the same job then succeeded elsewhere, as with a broken GPU.

Votes are kept by stratum, and `comparison.py` compares nodes within each. A sweep or a pipeline is
a stratum of its own: ten trials that fail here and succeed elsewhere are ten failures of the node,
and a sweep that fails everywhere says nothing about any node. The other jobs of a pool, with equally
many pods, are one stratum.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from arc_toolkit.diagnosis.assemble.log_evidence import NOTICED
from arc_toolkit.diagnosis.assemble.node_signals import TAKEN_AWAY
from arc_toolkit.diagnosis.model import Attempt, CauseKind, EvidenceSource, RunOutcome

MIN_NODES_FAILS_EVERYWHERE = 3
MIN_NODES_NEVER_SUCCEEDED = 2  # without evidence against them
FAILED_SHARE_OF_BROKEN_FAMILY = 0.3  # of its votes
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


class Count(NamedTuple):
    failures: int
    trials: int


@dataclass(slots=True)
class NodeVotes:
    """What is counted for one node."""

    pool: str | None = None
    strata: dict[str, Count] = field(default_factory=dict)  # votes by family, or by size of the job
    blame: float = 0.0  # the failures, each shared among its suspects
    families: int = 0  # of the jobs that failed
    merged: int = 0  # more failures at the same time as a counted one
    named: int = 0  # all attempts that ran here
    older: int = 0  # of them, on the VM that had the name before
    left_out: int = 0  # of families that fail on many nodes
    good: list[float] = field(default_factory=list)  # when attempts succeeded
    running: list[float] = field(default_factory=list)  # when those that run now started

    @property
    def votes(self) -> int:
        return sum(count.trials for count in self.strata.values())

    @property
    def failures(self) -> int:
        return round(self.blame)


@dataclass(slots=True)
class _Vote:
    """What one job, or a family that ran on no other node, did on one node."""

    node: str
    job: str
    family: str
    size: int = 1  # pods of the job, a power of 2
    failures: int = 0
    successes: int = 0
    start: float | None = None  # of the last failure
    time: float | None = None  # its end
    suspects: int = 1
    # No evidence, and the job never succeeded: its name, without a final number if no such name did.
    doubtful: str = ""
    stratum: str = ""

    @property
    def is_failure(self) -> bool:
        return 2 * self.failures >= self.failures + self.successes


def count(
    attempts: Sequence[Attempt], is_older: Reject, in_incident: Reject
) -> dict[str, NodeVotes]:
    """The votes by node, without those of older VMs and failures in an incident.

    A sweep of 3 trials that fail on node A, and are tried again and succeed on node B:

        A: strata {"sweep": Count(failures=3, trials=3)}
        B: strata {"sweep": Count(failures=0, trials=3)}
    """
    nodes: dict[str, NodeVotes] = {}
    votes: dict[tuple[str, str], _Vote] = {}
    good: set[str] = set()
    sizes = _sizes(attempts)

    def vote_of(attempt: Attempt) -> _Vote:
        key = attempt.node or "", attempt.job
        if key not in votes:
            votes[key] = _Vote(*key, attempt.family or attempt.job, sizes.get(attempt.job, 1))
        return votes[key]

    for attempt in attempts:
        if attempt.node is None or attempt.node_truncated:
            continue
        node = nodes.setdefault(attempt.node, NodeVotes(pool=attempt.pool))
        node.named += 1
        if is_older(attempt):
            node.older += 1
        elif attempt.outcome is RunOutcome.SUCCEEDED:
            good |= {attempt.job, NUMBER.sub("", attempt.job)}
            if (moment := attempt.end or attempt.start) is not None:
                node.good.append(moment)
            vote_of(attempt).successes += 1
        elif attempt.outcome is RunOutcome.RUNNING and attempt.start is not None:
            node.running.append(attempt.start)
    for failure, suspects in failures(attempts):
        if is_older(failure) or in_incident(failure):
            continue
        vote = vote_of(failure)
        vote.suspects = min(vote.suspects, suspects) if vote.failures else suspects
        vote.failures += 1
        vote.start, vote.time, vote.doubtful = failure.start, failure.end, ""
        if failure.cause and not failure.cause.blames_node and failure.job not in good:
            stem = NUMBER.sub("", failure.job)
            vote.doubtful = failure.job if stem in good else stem
    families: dict[str, list[_Vote]] = {}
    for vote in votes.values():
        families.setdefault(vote.family, []).append(vote)
    by_node: dict[str, list[_Vote]] = {}
    for family in families.values():
        if _is_broken(family):
            for vote in family:
                nodes[vote.node].left_out += vote.failures + vote.successes
        else:
            for vote in _in_strata(family):
                by_node.setdefault(vote.node, []).append(vote)
    for name, node_votes in by_node.items():
        _add_up(nodes[name], node_votes)
    return nodes


def _is_broken(family: Sequence[_Vote]) -> bool:
    """Whether it failed on several nodes and too often to blame them, or never succeeded."""
    failed = [vote for vote in family if vote.failures]
    nodes = len({vote.node for vote in failed})
    blame = sum(1 / vote.suspects for vote in failed)
    if all(vote.doubtful for vote in family):
        return min(nodes, blame) >= MIN_NODES_NEVER_SUCCEEDED
    is_often = blame > FAILED_SHARE_OF_BROKEN_FAMILY * len(family)
    return is_often and min(nodes, blame) >= MIN_NODES_FAILS_EVERYWHERE


def _in_strata(family: list[_Vote]) -> list[_Vote]:
    """With their stratum: the family, or the size of a single job or a family on one node."""
    if len({vote.job for vote in family}) > 1:
        if len({vote.node for vote in family}) > 1:
            return [replace(vote, stratum=vote.family, doubtful="") for vote in family]
        last = max(family, key=lambda vote: (vote.failures > 0, vote.time or 0.0))
        failed, good = sum(vote.failures for vote in family), sum(vote.successes for vote in family)
        family = [replace(last, failures=failed, successes=good, start=None)]
    return [replace(vote, stratum=f"jobs of {vote.size}") for vote in family]


def _add_up(node: NodeVotes, votes: Sequence[_Vote]) -> None:
    failed = [vote for vote in votes if vote.is_failure]
    separate = _separate(failed)
    trials = Counter(vote.stratum for vote in votes if not vote.is_failure)
    trials.update(vote.stratum for vote in separate)
    failures = Counter(vote.stratum for vote in separate)
    node.strata = {stratum: Count(failures[stratum], trials[stratum]) for stratum in trials}
    node.blame = sum(1 / vote.suspects for vote in separate)
    node.families = len({vote.family for vote in separate})
    node.merged = len(failed) - len(separate)


def failures(attempts: Sequence[Attempt]) -> Iterator[Failure]:
    """The attempts whose failure counts for their node."""
    ended: dict[tuple[str, int], list[Attempt]] = {}
    for attempt in attempts:
        if attempt.cause and attempt.node and not attempt.node_truncated:
            ended.setdefault((attempt.job, attempt.number), []).append(attempt)
    for ranks in ended.values():
        suspects = first_to_fail(ranks)
        if suspects and (_is_blamed(suspects[0]) or _may_be_the_node(suspects[0])):
            yield from (Failure(rank, len(suspects)) for rank in suspects)


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


def _separate(failed: Sequence[_Vote]) -> list[_Vote]:
    """Of those that may belong together the one with the fewest suspects."""
    result = [vote for vote in failed if vote.time is None]
    before, names = float("-inf"), {""}
    dated = ((vote.time, vote.doubtful, vote) for vote in failed if vote.time is not None)
    for time, name, vote in sorted(dated, key=lambda item: item[:2]):
        if name:
            is_new = time - before > SAME_JOBS_SECONDS and name not in names
        else:
            started_later = vote.start is not None and vote.start > before
            is_new = started_later or time - before > SAME_FAILURE_SECONDS
        if is_new:
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


class WidespreadJobs(NamedTuple):
    """Jobs that failed in three or more attempts, each on another node, perhaps by themselves."""

    all: frozenset[str]
    hopeless: frozenset[str]  # those that did not succeed in the end


def widespread_jobs(attempts: Sequence[Attempt]) -> WidespreadJobs:
    """Of a gang only one node counts per attempt, that of the rank that failed first."""
    failed: dict[str, dict[int, list[Attempt]]] = {}
    for attempt in attempts:
        is_failed = attempt.outcome is RunOutcome.FAILED and attempt.node
        if is_failed and attempt.cause and attempt.cause.kind not in TAKEN_AWAY:
            failed.setdefault(attempt.job, {}).setdefault(attempt.number, []).append(attempt)
    widespread = frozenset(
        job
        for job, numbers in failed.items()
        if len({min(ranks, key=_end_moment).node for ranks in numbers.values()})
        >= MIN_NODES_FAILS_EVERYWHERE
    )
    tries = [attempt for attempt in attempts if attempt.job in widespread]
    last = {
        attempt.job: attempt.number for attempt in sorted(tries, key=lambda attempt: attempt.number)
    }
    hopeless = frozenset(
        attempt.job
        for attempt in tries
        if attempt.number == last[attempt.job] and attempt.outcome is not RunOutcome.SUCCEEDED
    )
    return WidespreadJobs(widespread, hopeless)


def _end_moment(attempt: Attempt) -> float:
    return attempt.end if attempt.end is not None else float("inf")

"""Which nodes are bad: by direct evidence, or by a statistical test that is corrected for many nodes.

The rule (docs/diagnose.md compares it with simple ones, scripts/bench fleet measures it):
1. Only failures that a node can be blamed for count; attempts that ended for other reasons do not count at all.
2. Attempts before a node was reimaged, redeployed or created again belong to another VM.
3. If a job failed on three or more nodes, the job is the likely cause: it is left out. Unless it succeeded in the end
   it is reported, and problems of its nodes while it ran do not count against them.
4. Within its pool each node is compared with the others by an exact binomial test; Benjamini-Hochberg keeps the
   expected share of false positives among the bad nodes under 5 %.
5. SystemOOM, NotReady or a fault that the node itself reported is proof without statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from arc_toolkit.diagnosis import signals, suggestions
from arc_toolkit.diagnosis.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.model import (
    Attempt,
    CauseKind,
    Evidence,
    EvidenceSource,
    Incident,
    Level,
    RunOutcome,
    Verdict,
)
from arc_toolkit.diagnosis.node_signals import TAKEN_AWAY, excuse, from_event, node_signals
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.diagnosis.statistics import benjamini_hochberg, binomial_tail, wilson
from arc_toolkit.kube.nodes import Node
from arc_toolkit.output.table import plural

FALSE_DISCOVERY_RATE = 0.05
NODES_OF_A_JOB_THAT_FAILS_EVERYWHERE = 3
LEAST_ELSEWHERE = 5  # attempts on the rest of the pool; with fewer, nodes are not compared
LEAST_FAILURES = 2  # one failure may be chance
OK_BELOW = 0.30  # `ok` means that the interval of the failure rate ends below this: 9 good attempts do
QUIET_SECONDS = 900  # problems of a node this soon after a job that fails everywhere are blamed on the job

# Evidence that a job itself can cause: while a job that fails everywhere runs, it proves nothing about the node.
_CAUSED_BY_LOAD = frozenset({CauseKind.NODE_MEMORY, CauseKind.NODE_PRESSURE, CauseKind.NODE_LOST})


@dataclass(slots=True)
class Tally:
    """The counts for one node."""

    failures: int = 0
    attempts: int = 0
    pool: str | None = None
    evidence: list[Evidence] = field(default_factory=list)
    pressure: list[Evidence] = field(default_factory=list)
    dropped: int = 0
    widely: int = 0  # attempts of jobs that failed on many nodes
    named: int = 0  # all attempts that ran here


def judge(
    attempts: Sequence[Attempt], cluster: ClusterIndex
) -> tuple[list[Verdict], frozenset[str], list[Incident]]:
    """A verdict for every known node, worst first; the jobs that fail everywhere; and incidents of many nodes."""
    widely = fails_widely(attempts)
    everywhere = fails_everywhere(attempts, widely)
    tallies = _count(attempts, cluster, widely)
    for name in (*cluster.nodes, *cluster.node_events):
        tallies.setdefault(name, Tally(pool=cluster.place(name).pool))
    _add_direct(tallies, cluster, _blamed_elsewhere(attempts, everywhere))
    tests = _test(tallies)
    p_values = [p_value for p_value, _ in tests.values()]
    passed = dict(zip(tests, benjamini_hochberg(p_values, FALSE_DISCOVERY_RATE), strict=True))
    verdicts = [
        _verdict(name, tally, cluster, passed.get(name, False), *tests.get(name, (None, None)))
        for name, tally in tallies.items()
    ]
    order = list(Level)
    verdicts.sort(key=lambda verdict: (order.index(verdict.level), -verdict.failures, verdict.node))
    return verdicts, everywhere, []


def fails_widely(attempts: Sequence[Attempt]) -> frozenset[str]:
    """Jobs that failed in three or more attempts, each on another node, for a reason that could be their own.

    Of a gang only one node counts per attempt, that of the rank that failed first.
    """
    first: dict[str, dict[int, Attempt]] = {}
    for attempt in attempts:
        failed = attempt.outcome is RunOutcome.FAILED
        if failed and attempt.cause and attempt.node and attempt.cause.kind not in TAKEN_AWAY:
            by_number = first.setdefault(attempt.job, {})
            known = by_number.get(attempt.number)
            if known is None or _ended(attempt) < _ended(known):
                by_number[attempt.number] = attempt
    return frozenset(
        job
        for job, by_number in first.items()
        if len({attempt.node for attempt in by_number.values()}) >= NODES_OF_A_JOB_THAT_FAILS_EVERYWHERE
    )


def fails_everywhere(attempts: Sequence[Attempt], widely: frozenset[str]) -> frozenset[str]:
    """Those of the jobs that did not succeed in the end; one that did succeed does not fail everywhere."""
    ends: dict[str, tuple[int, bool]] = {}
    for attempt in attempts:
        if attempt.job in widely:
            number, good = ends.get(attempt.job, (-1, False))
            if attempt.number > number:
                number, good = attempt.number, True
            if attempt.number == number:
                ends[attempt.job] = number, good and attempt.outcome is RunOutcome.SUCCEEDED
    return frozenset(job for job, (_, good) in ends.items() if not good)


def _ended(attempt: Attempt) -> float:
    return attempt.end if attempt.end is not None else float("inf")


def _count(attempts: Sequence[Attempt], cluster: ClusterIndex, widely: frozenset[str]) -> dict[str, Tally]:
    tallies: dict[str, Tally] = {}
    for attempt in attempts:
        if attempt.node is None or attempt.node_truncated:
            continue
        tally = tallies.get(attempt.node)
        if tally is None:
            tally = tallies[attempt.node] = Tally(pool=attempt.pool)
        tally.named += 1
        if _before_cut(attempt, cluster):
            tally.dropped += 1
            continue
        cause = attempt.cause
        if attempt.job in widely:
            tally.widely += 1
        elif attempt.outcome is RunOutcome.SUCCEEDED:
            tally.attempts += 1
        elif attempt.outcome is RunOutcome.FAILED and cause is not None and (cause.blames_node or cause.countable):
            tally.attempts += 1
            tally.failures += 1
            if KINDS[cause.kind].direct and cause.confidence != "low":
                tally.evidence.append(cause.evidence[0])
            elif cause.kind is CauseKind.NODE_PRESSURE:
                tally.pressure.append(cause.evidence[0])
    return tallies


def _before_cut(attempt: Attempt, cluster: ClusterIndex) -> bool:
    if not cluster.cuts or attempt.node not in cluster.cuts:
        return False
    moment = attempt.end or attempt.start
    return moment is not None and moment < cluster.cuts[attempt.node]


def _blamed_elsewhere(
    attempts: Sequence[Attempt], everywhere: frozenset[str]
) -> dict[str, list[tuple[float, float]]]:
    """When jobs that fail everywhere ran on a node: problems of the node at that time are blamed on the job."""
    times: dict[str, list[tuple[float, float]]] = {}
    for attempt in attempts:
        if attempt.job in everywhere and attempt.node and attempt.cause:
            start = attempt.start if attempt.start is not None else attempt.end
            end = attempt.end if attempt.end is not None else attempt.start
            if start is not None and end is not None:
                times.setdefault(attempt.node, []).append((start, end + QUIET_SECONDS))
    return times


def _add_direct(
    tallies: dict[str, Tally], cluster: ClusterIndex, excused: dict[str, list[tuple[float, float]]]
) -> None:
    """Evidence that nodes report themselves, whether or not it affected a job."""
    for name, events in cluster.node_events.items():
        for event in events:
            candidate = from_event(EvidenceSource.NODE_EVENT, event)
            if (
                candidate is None
                or candidate.kind is None
                or candidate.confidence == "low"
                or not KINDS[candidate.kind].direct
            ):
                continue
            time = event.time
            if time is not None and time < cluster.cuts.get(name, time):
                continue
            if candidate.kind is CauseKind.NODE_LOST and excuse(cluster, name, time):
                continue
            if candidate.kind in _CAUSED_BY_LOAD and _inside(time, excused.get(name, [])):
                continue
            tallies[name].evidence.append(candidate.evidence)
    for node in cluster.nodes.values():
        if not node.deleted:
            _add_state(tallies[node.name], node, cluster)


def _add_state(tally: Tally, node: Node, cluster: ClusterIndex) -> None:
    for signal, since in node_signals(node):
        if signal.kind is None:
            continue
        evidence = Evidence(signal.source, signal.reason, signal.message, since)
        if signal.kind is CauseKind.NODE_LOST and excuse(cluster, node.name, since):
            continue
        if KINDS[signal.kind].direct:
            tally.evidence.append(evidence)
        elif signal.kind is CauseKind.NODE_PRESSURE:
            tally.pressure.append(evidence)


def _inside(time: float | None, spans: list[tuple[float, float]]) -> bool:
    return time is not None and any(start <= time <= end for start, end in spans)


def _test(tallies: dict[str, Tally]) -> dict[str, tuple[float, float]]:
    """For each node with attempts: the probability of so many failures if it were like the rest of its pool, and the
    failure rate of that rest."""
    pools: dict[str | None, list[int]] = {}
    for tally in tallies.values():
        total = pools.setdefault(tally.pool, [0, 0])
        total[0] += tally.failures
        total[1] += tally.attempts
    tests = {}
    for name, tally in tallies.items():
        failures = pools[tally.pool][0] - tally.failures
        attempts = pools[tally.pool][1] - tally.attempts
        if not tally.attempts or attempts < LEAST_ELSEWHERE:
            continue
        # Half a failure more than observed, because a pool without failures so far may still have some.
        rate = (failures + 0.5) / (attempts + 1)
        enough = tally.failures >= LEAST_FAILURES
        tests[name] = binomial_tail(tally.failures, tally.attempts, rate) if enough else 1.0, rate
    return tests


def _significance(evidence: Evidence) -> int:
    """The evidence that explains the rest comes first: a SystemOOM before the NotReady that follows it."""
    signal = signals.table().get((evidence.source, evidence.reason))
    return signal.priority if signal else 9


def _verdict(
    name: str, tally: Tally, cluster: ClusterIndex, passed: bool, p_value: float | None, rate: float | None
) -> Verdict:
    place, gone = cluster.place(name), cluster.is_gone(name)
    interval = wilson(tally.failures, tally.attempts) if tally.attempts else None
    evidence = tuple(sorted(dict.fromkeys(tally.evidence), key=lambda item: item.time or 0.0))[-8:]
    pressure = tuple(sorted(dict.fromkeys(tally.pressure), key=lambda item: item.time or 0.0))[-4:]
    lead_reason: str | None = None
    share = f"{tally.failures} of {tally.attempts} attempts with a known end failed"
    if evidence:
        level = Level.BAD
        lead = min(reversed(evidence), key=_significance)
        reason, lead_reason = f"{lead.reason}: {lead.message}", lead.reason
    elif passed:
        level = Level.BAD
        reason = f"{share}; {100 * (rate or 0):.0f} % on the rest of its pool"
    elif pressure or (interval and rate is not None and tally.failures >= LEAST_FAILURES and interval[0] > rate):
        level = Level.SUSPECT
        reason = (
            f"{pressure[-1].reason}: {pressure[-1].message}"
            if pressure
            else f"{share}, more than on the rest of its pool"
        )
    elif interval and interval[1] < OK_BELOW:
        level, reason = Level.OK, share
    else:
        silence = "no attempt on it counts" if tally.named else "no attempt ran on it"
        level, reason = Level.NOT_ENOUGH_DATA, share if tally.attempts else silence
    if tally.widely:
        many = f"{NODES_OF_A_JOB_THAT_FAILS_EVERYWHERE} or more nodes"
        reason += f"; {plural(tally.widely, 'attempt')} of jobs that failed on {many} left out"
    if tally.dropped:
        reason += f"; {tally.dropped} older not counted, they were on another VM"
    return Verdict(
        node=name,
        level=level,
        pool=tally.pool or place.pool,
        failures=tally.failures,
        attempts=tally.attempts,
        interval=interval,
        pool_rate=rate,
        p_value=p_value,
        evidence=evidence or pressure,
        since=cluster.cuts.get(name) if tally.dropped else None,
        spot=place.spot,
        vm_instance=place.vm_instance,
        gone=gone,
        reason=reason,
        suggestions=suggestions.for_node(name, lead_reason, place.vm_instance, gone) if level is Level.BAD else (),
    )

"""Which nodes are bad, and since when: their jobs' and their own evidence, against their pool.

1. Evidence from before a node was reimaged, redeployed or created again is about another VM.
2. Trouble of many nodes of a pool within minutes is one incident (`incidents.py`) and says nothing
   about a node.
3. `bad` means: a fault holds at the end of the data; or the node fails significantly more votes
   (`node_votes.py`), or has significantly more episodes (`episodes.py`), than the rest of its pool
   (`comparison.py`); or it has three episodes within a week and no pool to compare it with.
4. `suspect` is the same at a weaker level, or three episodes within 12 hours without a good attempt
   in between, or pressure that holds now. An episode that is over is `recovered` once attempts have
   succeeded since.

The end of the data, "now", is the newest time in it: of attempts, events, node conditions and
heartbeats. docs/verdicts.md has the figures that scripts/bench verdicts measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from arc_toolkit.diagnosis.judge import comparison, episodes, incidents, node_votes, suggestions
from arc_toolkit.diagnosis.judge.comparison import Comparison, NodeCounts
from arc_toolkit.diagnosis.judge.episodes import Episode, Symptom
from arc_toolkit.diagnosis.judge.incidents import IncidentMap, TroubleEvent
from arc_toolkit.diagnosis.judge.node_votes import NodeVotes
from arc_toolkit.diagnosis.judge.statistics import excluded_rate, wilson
from arc_toolkit.diagnosis.model import (
    Attempt,
    CauseKind,
    Evidence,
    Incident,
    Level,
    Verdict,
    WaitingFor,
)
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.text import plural

OK_BELOW = 0.30  # `ok` excludes a failure rate above this: 9 good votes do
# a node whose p-value is under this is not called ok, even if the correction clears it
UNUSUAL = 0.05
RECURRENT_EPISODES = 3
RECURRENT_SECONDS = 7 * 86400
AGAIN_AND_AGAIN_SECONDS = 12 * 3600
LEAST_STUCK_JOBS = 2
UP_AGAIN_SECONDS = 1800
MOST_EVIDENCE = 8


@dataclass(slots=True)
class NodeCase:
    """All that is known against and for one node."""

    name: str
    votes: NodeVotes
    episodes: list[Episode] = field(default_factory=list)
    comparison: Comparison | None = None
    stuck: int = 0  # jobs that wait for their sandbox, on this node and few others
    recent_repeats: int = 0  # episodes in quick succession that the rest of its pool does not have

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        evidence = dict.fromkeys(
            item.evidence for episode in self.episodes for item in episode.symptoms
        )
        return tuple(evidence)[-MOST_EVIDENCE:]

    def good_since(self, moment: float | None) -> int:
        return len([end for end in self.votes.good if moment is None or end > moment])


def judge(
    attempts: Sequence[Attempt], cluster: ClusterIndex
) -> tuple[list[Verdict], frozenset[str], list[Incident]]:
    """A verdict for every known node, worst first; jobs that fail everywhere; and incidents."""
    widespread = node_votes.failed_on_many_nodes(attempts)
    hopeless = node_votes.never_succeeded(attempts, widespread)
    excluded = node_votes.excluded_jobs(attempts, widespread, hopeless)
    symptoms = episodes.symptoms(attempts, cluster, hopeless)
    incident_map = _incidents(attempts, symptoms, cluster, excluded)
    now = _newest_time(attempts, cluster)
    votes = node_votes.count(
        attempts,
        is_older=lambda attempt: _is_older(attempt, cluster),
        in_incident=lambda attempt: incident_map.covers(attempt.node or "", _moment(attempt)),
        excluded=excluded,
    )
    down = frozenset(symptom.node for symptom in symptoms if symptom.is_ongoing)
    grouped = episodes.group(symptoms, lambda symptom: _belongs(symptom, incident_map, down, now))
    names = dict.fromkeys((*votes, *cluster.nodes, *cluster.node_events))
    cases = {
        name: NodeCase(
            name, votes.get(name) or NodeVotes(cluster.node_place(name).pool), grouped.get(name, [])
        )
        for name in names
    }
    compared = comparison.compare({name: _record(case) for name, case in cases.items()})
    for name, case in cases.items():
        case.comparison = compared.get(name)
    _mark_again_and_again(cases.values())
    _mark_stuck(cases, attempts)
    judged = [_verdict(case, cluster, now) for case in cases.values()]
    leads = {verdict.node: lead for verdict, lead in judged if lead}
    order = list(Level)
    verdicts = [verdict for verdict, _ in judged]
    verdicts.sort(key=lambda verdict: (order.index(verdict.level), -verdict.failures, verdict.node))
    return suggestions.add(verdicts, leads), hopeless, incident_map.incidents


def _newest_time(attempts: Sequence[Attempt], cluster: ClusterIndex) -> float | None:
    moments = [cluster.newest]
    moments += [attempt.end if attempt.end is not None else attempt.start for attempt in attempts]
    return max((moment for moment in moments if moment is not None), default=None)


def _moment(attempt: Attempt) -> float | None:
    """When it failed: by the evidence against its node, which reports ends of pods late."""
    cause = attempt.cause
    time = cause.evidence[0].time if cause and cause.blames_node and cause.evidence else None
    return attempt.end if time is None else time


def _is_older(attempt: Attempt, cluster: ClusterIndex) -> bool:
    """It ran on the VM that had the name before."""
    if not cluster.vm_replaced_at or attempt.node not in cluster.vm_replaced_at:
        return False
    moment = attempt.end or attempt.start
    return moment is not None and moment < cluster.vm_replaced_at[attempt.node]


def _incidents(
    attempts: Sequence[Attempt],
    symptoms: Sequence[Symptom],
    cluster: ClusterIndex,
    silent: frozenset[str],
) -> IncidentMap:
    pools = {name: cluster.node_place(name).pool for name in (*cluster.nodes, *cluster.node_events)}
    for attempt in attempts:
        if attempt.node and not attempt.node_truncated:
            pools.setdefault(attempt.node, attempt.pool)
    marks = [
        TroubleEvent(item.evidence.time, item.node, item.kind)
        for item in symptoms
        if item.evidence.time is not None
    ]
    marks += [
        TroubleEvent(moment, failure.node, CauseKind.UNKNOWN, failure.family or failure.job)
        for failure, _ in node_votes.failures(attempts)
        if failure.node and failure.job not in silent and failure.node in pools
        if (moment := _moment(failure)) is not None
    ]
    return incidents.find(marks, pools, cluster)


def _belongs(
    symptom: Symptom, incident_map: IncidentMap, down: frozenset[str], now: float | None
) -> bool:
    """To an incident; a node that stays down while most others are back does not."""
    time = symptom.evidence.time
    if not incident_map.covers(symptom.node, time):
        return False
    return not (symptom.is_ongoing and incident_map.stays_down(symptom.node, time, down, now))


def _record(case: NodeCase) -> NodeCounts:
    # Pressure is mostly made by jobs: it holds now, or it is one failure among others.
    kinds = Counter(item.lead.kind for item in case.episodes if KINDS[item.lead.kind].direct)
    votes = case.votes
    return NodeCounts(
        votes.pool, tuple(votes.failed), votes.sizes, votes.named - votes.older, kinds
    )


def _verdict(case: NodeCase, cluster: ClusterIndex, now: float | None) -> tuple[Verdict, str]:
    """The verdict, and the reason string that decided, if one did."""
    place, votes, compared = cluster.node_place(case.name), case.votes, case.comparison
    verdict = Verdict(
        node=case.name,
        level=Level.NOT_ENOUGH_DATA,
        pool=votes.pool or place.pool,
        failures=votes.failures,
        attempts=votes.votes,
        interval=wilson(votes.failures, votes.votes) if votes.votes else None,
        pool_rate=compared.rate if compared else None,
        p_value=compared.p_value if compared and compared.possible else None,
        evidence=case.evidence,
        since=cluster.vm_replaced_at.get(case.name) if votes.older else None,
        spot=place.spot,
        vm_instance=place.vm_instance,
        gone=cluster.is_gone(case.name),
    )
    level, reason, episode = _level(case, cluster, now)
    if votes.left_out:
        reason += (
            f"; {plural(votes.left_out, 'attempt')} of jobs that failed on many nodes left out"
        )
    if votes.older:
        reason += f"; {votes.older} older not counted, they were on another VM"
    return replace(
        verdict, level=level, reason=reason
    ), episode.lead.evidence.reason if episode else ""


def _level(
    case: NodeCase, cluster: ClusterIndex, now: float | None
) -> tuple[Level, str, Episode | None]:
    """The level, why, and the episode that decided, if one did."""
    present = [
        item for item in case.episodes if episodes.is_present(item, cluster, case.votes, now)
    ]
    direct = [item for item in present if KINDS[item.lead.kind].direct]
    last = case.episodes[-1] if case.episodes else None
    compared = case.comparison
    if direct:
        return Level.BAD, _text(direct[-1]), direct[-1]
    if compared and compared.bad:
        return Level.BAD, *_difference(case, compared)
    if last and _is_recurrent(case):
        return Level.BAD, f"{len(case.episodes)} times: {_text(last)}", last
    if present:
        return Level.SUSPECT, _text(present[-1]), present[-1]
    if last and case.recent_repeats:
        return (
            Level.SUSPECT,
            f"{case.recent_repeats} times within 12 h, and nothing succeeded in between: "
            f"{_text(last)}",
            last,
        )
    if compared and compared.suspect:
        reason, episode = _difference(case, compared)
        return Level.SUSPECT, f"{reason}; it may be chance", episode
    if case.stuck >= LEAST_STUCK_JOBS:
        return (
            Level.SUSPECT,
            f"{case.stuck} jobs wait for their sandbox on it, and nothing starts there",
            None,
        )
    if last:
        if good := case.good_since(last.last):
            return (
                Level.RECOVERED,
                f"recovered, {plural(good, 'good attempt')} since {_text(last)}",
                last,
            )
        if _is_up_again(case.episodes, cluster, now):
            return (
                Level.RECOVERED,
                f"recovered: ready again, but without a good attempt since {_text(last)}",
                last,
            )
        return (
            Level.NOT_ENOUGH_DATA,
            f"over, but no attempt has succeeded since: {_text(last)}",
            last,
        )
    return *_verdict_without_evidence(case), None


def _is_up_again(
    node_episodes: Sequence[Episode], cluster: ClusterIndex, now: float | None
) -> bool:
    """A node that was lost, once in half a day, is ready and has been for a while."""
    lead, last = node_episodes[-1].lead, node_episodes[-1].last
    node = cluster.nodes.get(lead.node)
    if (
        lead.kind is not CauseKind.NODE_LOST
        or node is None
        or not node.ready
        or last is None
        or now is None
    ):
        return False
    before = node_episodes[-2].last if len(node_episodes) > 1 else None
    return now - last >= UP_AGAIN_SECONDS and (
        before is None or last - before > AGAIN_AND_AGAIN_SECONDS
    )


def _mark_stuck(cases: Mapping[str, NodeCase], attempts: Sequence[Attempt]) -> None:
    """Counts jobs that wait for their sandbox where nothing else starts, unlike in the pool."""
    waiting: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if (
            attempt.node
            and attempt.node in cases
            and attempt.waiting
            and attempt.waiting.kind is WaitingFor.SANDBOX
        ):
            waiting.setdefault(attempt.node, []).append(attempt)
    sizes = Counter(case.votes.pool for case in cases.values())
    stuck = Counter(cases[name].votes.pool for name in waiting)
    for name, waiting_attempts in waiting.items():
        pool = cases[name].votes.pool
        first = min(
            (attempt.start for attempt in waiting_attempts if attempt.start is not None),
            default=None,
        )
        if first is None or stuck[pool] > max(1, comparison.MOST_SET_ASIDE * sizes[pool]):
            continue
        if not any(start > first for start in cases[name].votes.running) and not cases[
            name
        ].good_since(first):
            cases[name].stuck = len({attempt.family or attempt.job for attempt in waiting_attempts})


def _verdict_without_evidence(case: NodeCase) -> tuple[Level, str]:
    votes, compared = case.votes, case.comparison
    if not votes.votes:
        return (
            Level.NOT_ENOUGH_DATA,
            "no attempt on it counts" if votes.named else "no attempt ran on it",
        )
    limit = excluded_rate(votes.failures, votes.votes)
    if limit >= OK_BELOW or (compared and compared.p_value < UNUSUAL):
        return Level.NOT_ENOUGH_DATA, _share(votes)
    text = f"{votes.votes} good jobs exclude"
    if votes.failures:
        text = f"{plural(votes.failures, 'failure')} in {votes.votes} jobs exclude" + (
            "s" if votes.failures == 1 else ""
        )
    return Level.OK, f"{text} a failure rate above {100 * limit:.0f} %"


def _mark_again_and_again(cases: Iterable[NodeCase]) -> None:
    """Nodes with three episodes within 12 hours, unless much of their pool has that."""
    pools: dict[str | None, list[NodeCase]] = {}
    for case in cases:
        pools.setdefault(case.votes.pool, []).append(case)
    for members in pools.values():
        counts = [_recent_repeats(case) for case in members]
        if sum(map(bool, counts)) <= max(1, comparison.MOST_SET_ASIDE * len(members)):
            for case, count in zip(members, counts, strict=True):
                case.recent_repeats = count


def _recent_repeats(case: NodeCase) -> int:
    """How many of the newest episodes fell within 12 hours and no good attempt; 0 if too few."""
    ends = [
        item.last
        for item in case.episodes
        if item.last is not None and KINDS[item.lead.kind].direct
    ]
    good = max((end for end in case.votes.good if ends and end <= ends[-1]), default=0.0)
    recent = [end for end in ends if end > good and ends[-1] - end <= AGAIN_AND_AGAIN_SECONDS]
    return len(recent) if len(recent) >= RECURRENT_EPISODES else 0


def _is_recurrent(case: NodeCase) -> bool:
    """Three episodes within a week, and no pool that could tell whether that is usual."""
    if case.comparison is not None and case.comparison.possible:
        return False
    ends = [
        item.last
        for item in case.episodes
        if item.last is not None and KINDS[item.lead.kind].direct
    ]
    return any(
        later - earlier <= RECURRENT_SECONDS
        for earlier, later in zip(ends, ends[RECURRENT_EPISODES - 1 :], strict=False)
    )


def _text(episode: Episode) -> str:
    lead = episode.lead.evidence
    return f"{lead.reason}: {lead.message}"


def _share(votes: NodeVotes) -> str:
    return f"{votes.failures} of {plural(votes.votes, 'job')} failed on it"


def _difference(case: NodeCase, compared: Comparison) -> tuple[str, Episode | None]:
    """In what a node differs from its pool."""
    if compared.kind is None:
        return (
            f"{_share(case.votes)}; {100 * (compared.rate or 0):.0f} % on the rest of its pool",
            None,
        )
    same_kind = [episode for episode in case.episodes if episode.lead.kind is compared.kind]
    return (
        f"{len(same_kind)} times, more than the rest of its pool: {_text(same_kind[-1])}",
        same_kind[-1],
    )

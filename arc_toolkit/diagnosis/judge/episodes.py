"""Trouble that nodes report, as separate episodes: NotReady, out of memory, faults, pressure.

One NotReady is normal: ordinary failures leave one too. So an episode alone convicts no node. It
counts if it holds at the end of the data, or if a node has significantly more of them than its pool
(`comparison.py`). What a job printed about its node is a symptom too, but the words of one job
family alone convict no node: another family, the node or its kernel has to say so too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.assemble.node_signals import (
    event_candidate,
    excuse,
    is_starting,
    node_signals,
)
from arc_toolkit.diagnosis.judge.node_votes import NodeVotes
from arc_toolkit.diagnosis.model import Attempt, CauseKind, Evidence, EvidenceSource
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.read.gpu_messages import XID_REASONS
from arc_toolkit.diagnosis.signals import KINDS

KINDS_OF_NODES = (
    CauseKind.NODE_LOST,
    CauseKind.NODE_MEMORY,
    CauseKind.NODE_FAULT,
    CauseKind.NODE_PRESSURE,
)
EPISODE_SECONDS = 1800  # a repair, with its reboot, takes up to half an hour
FRESH_SECONDS = 3600  # an event without an end is about the present for an hour
# problems of a node this soon after a job that fails everywhere are blamed on the job
QUIET_SECONDS = 900
REBOOTED = frozenset({"Rebooted", "NodeRebootEnd"})
BACK = REBOOTED | {"NodeReady"}  # the node is up again

# A job can cause these itself: they prove nothing while a job that fails everywhere runs.
_CAUSED_BY_LOAD = frozenset({CauseKind.NODE_MEMORY, CauseKind.NODE_PRESSURE, CauseKind.NODE_LOST})


@dataclass(frozen=True, slots=True)
class Symptom:
    """One piece of evidence against a node. `is_ongoing`: the node object still shows it.

    `family`: the job family that printed it, if neither the node nor its kernel says so.
    """

    node: str
    kind: CauseKind
    evidence: Evidence
    is_ongoing: bool = False
    family: str = ""


@dataclass(slots=True)
class Episode:
    """Symptoms of a node that belong together; the one that explains the others has the kind."""

    symptoms: list[Symptom] = field(default_factory=list)

    @property
    def lead(self) -> Symptom:
        return min(reversed(self.symptoms), key=lambda symptom: _significance(symptom.evidence))

    @property
    def last(self) -> float | None:
        return max(
            (item.evidence.time for item in self.symptoms if item.evidence.time is not None),
            default=None,
        )

    @property
    def is_ongoing(self) -> bool:
        return any(symptom.is_ongoing for symptom in self.symptoms)

    @property
    def is_direct(self) -> bool:
        """Proof against the node while it holds."""
        return KINDS[self.lead.kind].direct


def _significance(evidence: Evidence) -> int:
    """The evidence that explains the rest comes first: a SystemOOM before its NotReady."""
    signal = signals.table().get((evidence.source, evidence.reason))
    return signal.priority if signal else 9


def symptoms(
    attempts: Sequence[Attempt], cluster: ClusterIndex, hopeless: frozenset[str]
) -> list[Symptom]:
    """All evidence against nodes that nothing explains, from events, node objects and attempts."""
    excused = _hopeless_spans(attempts, hopeless)
    result = _attempt_symptoms(attempts, hopeless)
    for name, events in cluster.node_events.items():
        for event in events:
            candidate = event_candidate(EvidenceSource.NODE_EVENT, event)
            if (
                candidate is not None
                and candidate.kind in KINDS_OF_NODES
                and candidate.confidence != "low"
                and KINDS[candidate.kind].direct
                and not (
                    candidate.kind in _CAUSED_BY_LOAD and _inside(event.time, excused.get(name, ()))
                )
            ):
                result.append(Symptom(name, candidate.kind, candidate.evidence))
    for node in cluster.nodes.values():
        starting = is_starting(node, cluster.newest)
        for signal, since in () if node.deleted else node_signals(node):
            if signal.kind in KINDS_OF_NODES and not (
                starting and signal.reason in signals.NOT_YET_UP
            ):
                evidence = Evidence(signal.source, signal.reason, signal.message, since)
                result.append(Symptom(node.name, signal.kind, evidence, is_ongoing=True))
    return [
        item
        for item in result
        if (item.is_ongoing or not is_of_former_vm(item.node, item.evidence.time, cluster))
        and not _is_explained(item, cluster)
    ]


def _attempt_symptoms(attempts: Sequence[Attempt], hopeless: frozenset[str]) -> list[Symptom]:
    result = []
    for attempt in attempts:
        cause = attempt.cause
        if cause is None or not cause.blames_node or not cause.evidence or not attempt.node:
            continue
        is_own = attempt.job in hopeless and cause.kind in _CAUSED_BY_LOAD
        is_sure = cause.confidence != "low" and not attempt.node_truncated
        if is_sure and not is_own and cause.kind in KINDS_OF_NODES:
            first = cause.evidence[0]
            if first.time is None and attempt.end is not None:
                first = Evidence(first.source, first.reason, first.message, attempt.end)
            family = (attempt.family or attempt.job) if _is_of_the_job(first) else ""
            result.append(Symptom(attempt.node, cause.kind, first, family=family))
    return result


def _is_of_the_job(evidence: Evidence) -> bool:
    """Its words; a line of the kernel's log is not, wherever it was printed."""
    return evidence.source is EvidenceSource.LOG and evidence.reason not in XID_REASONS


def witnessed(episodes: Sequence[Episode]) -> list[Episode]:
    """Those of a node that it reports itself, or all if several job families do."""
    families = {symptom.family for episode in episodes for symptom in episode.symptoms} - {""}
    return [
        episode
        for episode in episodes
        if len(families) > 1 or any(not symptom.family for symptom in episode.symptoms)
    ]


def is_of_former_vm(node: str | None, time: float | None, cluster: ClusterIndex) -> bool:
    """Whether it was on the VM that had the name before."""
    replaced = cluster.vm_replaced_at.get(node) if node else None
    return replaced is not None and time is not None and time < replaced


def _is_explained(symptom: Symptom, cluster: ClusterIndex) -> bool:
    """The node was removed on purpose."""
    return (
        symptom.kind is CauseKind.NODE_LOST
        and excuse(cluster, symptom.node, symptom.evidence.time) is not None
    )


def _hopeless_spans(
    attempts: Sequence[Attempt], hopeless: frozenset[str]
) -> dict[str, list[tuple[float, float]]]:
    """When jobs that fail everywhere ran on a node: its problems at that time are the job's."""
    times: dict[str, list[tuple[float, float]]] = {}
    for attempt in attempts:
        if attempt.job in hopeless and attempt.node and attempt.cause:
            start = attempt.start if attempt.start is not None else attempt.end
            end = attempt.end if attempt.end is not None else attempt.start
            if start is not None and end is not None:
                times.setdefault(attempt.node, []).append((start, end + QUIET_SECONDS))
    return times


def _inside(time: float | None, spans: Sequence[tuple[float, float]]) -> bool:
    return time is not None and any(start <= time <= end for start, end in spans)


def group(
    symptoms: Sequence[Symptom], in_incident: Callable[[Symptom], bool]
) -> dict[str, list[Episode]]:
    """The episodes of each node, in order of time, without those of an incident of many nodes."""
    result: dict[str, list[Episode]] = {}
    # What the node object shows comes first: attempts may have the same evidence.
    for symptom in sorted(
        symptoms, key=lambda item: (item.evidence.time or 0.0, not item.is_ongoing)
    ):
        if in_incident(symptom):
            continue
        episodes = result.setdefault(symptom.node, [])
        time, last = symptom.evidence.time, episodes[-1].last if episodes else None
        if not episodes or (
            time is not None and last is not None and time - last > EPISODE_SECONDS
        ):
            episodes.append(Episode())
        if all(symptom.evidence != member.evidence for member in episodes[-1].symptoms):
            episodes[-1].symptoms.append(symptom)
    return result


def is_present(
    episode: Episode, cluster: ClusterIndex, votes: NodeVotes, now: float | None
) -> bool:
    """Whether the trouble still holds at the end of the data.

    The node object shows it; or nothing has succeeded since, and it is less than an hour old and no
    lost node that is back, or a fault that lasts until it is repaired (a driver that is not loaded,
    a broken GPU) and nothing runs since.
    """
    if episode.is_ongoing:
        return True
    last, lead = episode.last, episode.lead
    if last is not None and any(end > last for end in votes.good):
        return False
    if last is not None and now is not None and now - last > FRESH_SECONDS:
        lasts = lead.kind is CauseKind.NODE_FAULT and lead.evidence.reason not in signals.PASSING
        return (
            lasts
            and not any(start > last for start in votes.running)
            and not _is_repaired(lead, last, cluster)
        )
    if lead.kind is CauseKind.NODE_PRESSURE:  # a condition of the node, which has ended
        return False
    return lead.kind is not CauseKind.NODE_LOST or not _is_back(lead.node, last, cluster)


def _is_repaired(lead: Symptom, last: float, cluster: ClusterIndex) -> bool:
    """The node was rebooted since, its check passes again, or it offers all its devices.

    The check for Xids passes again at its next run, because it reports each line of the kernel's
    log once.
    """
    rebooted = any(
        event.reason in REBOOTED and (event.time is None or event.time > last)
        for event in cluster.node_events.get(lead.node, ())
    )
    node, reason = cluster.nodes.get(lead.node), lead.evidence.reason
    if lead.evidence.source is EvidenceSource.POD_STATUS:
        return rebooted or cluster.fewer_devices.get(lead.node) is False
    check = signals.CONDITION_OF_EVENT.get(reason, reason)
    conditions = {signals.condition_name(row.type) for row in node.conditions} if node else set()
    return rebooted or (check in conditions and check != "XIDErrors")


def _is_back(name: str, last: float | None, cluster: ClusterIndex) -> bool:
    node = cluster.nodes.get(name)
    if node is not None and node.ready:
        return True
    return any(
        event.reason in BACK and (last is None or event.time is None or event.time >= last)
        for event in cluster.node_events.get(name, ())
    )

"""From grouped logs and pods to attempts: on which node each ran, how it ended and why, and one line per job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from arc_toolkit.diagnosis import causes, signals
from arc_toolkit.diagnosis.cluster_index import ClusterIndex, PodState, pool_of, vm_instance_of
from arc_toolkit.diagnosis.grouping import AttemptDraft, JobGroup, group
from arc_toolkit.diagnosis.model import Attempt, Cause, CauseKind, Evidence, Job, PrsEvidence, RunOutcome
from arc_toolkit.diagnosis.scan import LogScan
from arc_toolkit.diagnosis.signals import KINDS

_WORST_FIRST = (RunOutcome.FAILED, RunOutcome.RUNNING, RunOutcome.UNKNOWN, RunOutcome.SUCCEEDED)


def build(
    scans: Iterable[LogScan], cluster: ClusterIndex, findings: Sequence[PrsEvidence] = ()
) -> tuple[list[Attempt], dict[str, JobGroup]]:
    """All attempts in order of job and number, and the jobs by their unique names."""
    groups = group(scans, cluster, findings)
    places = _NodeLookup(cluster)
    attempts: list[Attempt] = []
    for name in sorted(groups):
        attempts += _finish(name, groups[name], cluster, places)
    return attempts, groups


def jobs(attempts: Sequence[Attempt], groups: dict[str, JobGroup], everywhere: frozenset[str]) -> list[Job]:
    """One line per job, from its attempts (which stand together)."""
    result = []
    by_job: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_job.setdefault(attempt.job, []).append(attempt)
    for name, own in by_job.items():
        last = own[-1].number
        final = {attempt.outcome for attempt in own if attempt.number == last}
        moments = [moment for attempt in own if (moment := attempt.start or attempt.end)]
        about, kinds = groups[name], _kinds(own)
        result.append(
            Job(
                name=name,
                run_id=about.run_id,
                attempts=len({attempt.number for attempt in own}),
                outcome=next(outcome for outcome in _WORST_FIRST if outcome in final),
                nodes=tuple(dict.fromkeys([attempt.node for attempt in own if attempt.node])),
                causes=kinds,
                since=min(moments) if moments else None,
                fails_everywhere=name in everywhere,
                unsure=_unsure(own) if kinds else (),
                missing=about.missing,
                notes=tuple(about.notes),
            )
        )
    return result


def _kinds(attempts: list[Attempt]) -> tuple[CauseKind, ...]:
    """Most frequent first; collateral is worth a word only where nothing else is known."""
    kinds = [attempt.cause.kind for attempt in attempts if attempt.cause]
    if len(kinds) < 2:
        return tuple(kinds)
    count = Counter(kinds)
    if len(count) > 1:
        count.pop(CauseKind.GANG, None)
    return tuple(kind for kind, _ in count.most_common())


def _unsure(attempts: list[Attempt]) -> tuple[CauseKind, ...]:
    causes = [
        attempt.cause for attempt in attempts if attempt.cause and attempt.cause.kind is not CauseKind.UNKNOWN
    ]
    sure = {cause.kind for cause in causes if cause.confidence != "low"}
    return tuple(dict.fromkeys(cause.kind for cause in causes if cause.kind not in sure))


class _NodeLookup:
    """Pool, spot and VM instance of a node, looked up once per node."""

    def __init__(self, cluster: ClusterIndex) -> None:
        self._cluster = cluster
        self._known: dict[str, tuple[str | None, bool | None, int | None]] = {}

    def of(self, name: str | None, truncated: bool) -> tuple[str | None, bool | None, int | None]:
        if name is None:
            return None, None, None
        found = self._known.get(name)
        if found is None:
            node = self._cluster.nodes.get(name)
            if node is not None:
                found = node.pool, node.spot, node.vm_instance
            else:
                found = pool_of(name), self._cluster.spot_of(name), vm_instance_of(name)
            self._known[name] = found
        return (found[0], found[1], None) if truncated else found


def _finish(name: str, job: JobGroup, cluster: ClusterIndex, places: _NodeLookup) -> list[Attempt]:
    tries = job.tries
    if not tries:
        return []
    if len(tries) > 1:
        tries.sort(key=lambda entry: (entry.number, entry.rank or ""))
    last = tries[-1].number
    single = len(tries) == 1 or _one_rank(tries)
    starts = _starts(tries) if len(tries) > 1 else {}
    for entry in tries:
        entry.outcome = _outcome(entry, last)
        deleted = entry.outcome is RunOutcome.UNKNOWN and entry.pod is not None and entry.pod.deleted is not None
        waits = entry.outcome is RunOutcome.RUNNING and entry.pod is not None and _waits(entry.pod)
        if entry.outcome is not RunOutcome.FAILED and not deleted and not waits:
            continue
        cause = causes.decide(
            causes.AttemptContext(
                cluster=cluster,
                node=None if entry.truncated else entry.node,
                spot=_spot(places.of(entry.node, entry.truncated)[1], entry),
                pod=entry.pod,
                start=entry.start,
                end=entry.end,
                next_start=starts.get(entry.number + 1),
                failure=entry.failure,
                findings=_findings_of(entry, job),
            )
        )
        if waits:  # it may start yet, but this is what it waits for
            entry.cause = cause if cause.kind is CauseKind.SETUP else None
            continue
        # A pod that was deleted while it ran, with nothing to show for it, was most likely cancelled: nobody's fault.
        if not deleted or cause.kind is not CauseKind.UNKNOWN:
            entry.outcome, entry.cause = RunOutcome.FAILED, cause
    if not single:
        _blame_first(tries)
    if len(starts) > 1 and any(
        starts[number + 1] < moment for number, moment in starts.items() if number + 1 in starts
    ):
        job.notes.append(
            "clocks disagree: a later attempt seems to start earlier; the order is that of the folders"
        )
    made = []
    if last:
        _say_missing(job, last)
    for entry in tries:
        pool, spot, instance = places.of(entry.node, entry.truncated)
        made.append(
            Attempt(
                job=name,
                number=entry.number,
                node=entry.node,
                node_truncated=entry.truncated,
                rank=None if single else entry.rank,
                start=entry.start,
                end=entry.end,
                pod=entry.pod.name if entry.pod else None,
                pod_uid=entry.uid,
                pool=pool,
                spot=spot,
                vm_instance=instance,
                outcome=entry.outcome,
                cause=entry.cause,
                sources=entry.sources,
                notes=entry.notes,
            )
        )
    return made


def _say_missing(job: JobGroup, last: int) -> None:
    """A download may be partial, or the first logs gone."""
    taken = {entry.number for entry in job.tries}
    job.missing = last + 1 - len(taken)
    if job.missing:
        some = list(islice((number for number in range(last) if number not in taken), 5))
        more = " and more" if job.missing > len(some) else ""
        job.notes.append(f"nothing is known of attempt {', '.join(map(str, some))}{more}: their logs are not here")


def _one_rank(tries: list[AttemptDraft]) -> bool:
    """No gang: the rank is not worth a word. Some logs name it and others do not."""
    ranks = {entry.rank for entry in tries}
    return len(ranks) == 1 or (len(ranks - {None}) == 1 and len({entry.number for entry in tries}) == len(tries))


def _spot(known: bool | None, entry: AttemptDraft) -> bool | None:
    """A pod that may go to spot nodes says something only where its node does not."""
    return entry.pod.wants_spot if known is None and entry.pod else known


def _starts(tries: list[AttemptDraft]) -> dict[int, float]:
    starts: dict[int, float] = {}
    for entry in tries:
        if entry.start is not None:
            starts[entry.number] = min(entry.start, starts.get(entry.number, entry.start))
    return starts


def _outcome(entry: AttemptDraft, last: int) -> RunOutcome:
    """The pod's phase first; without a pod, an attempt that another one followed has failed."""
    phase = entry.pod.phase if entry.pod else ""
    if phase == "Succeeded":
        return RunOutcome.SUCCEEDED
    if phase == "Failed" or entry.number < last or entry.failure:
        return RunOutcome.FAILED
    if entry.pod is not None and (
        entry.pod.disruption or entry.pod.reason == "NodeLost" or _main_failed(entry.pod)
    ):
        return RunOutcome.FAILED
    if phase in ("Running", "Pending") and entry.pod is not None:
        return RunOutcome.RUNNING if entry.pod.deleted is None else RunOutcome.UNKNOWN
    return RunOutcome.UNKNOWN


def _main_failed(pod: PodState) -> bool:
    """The job's own container ended with an error, and only the sidecars go on; nothing restarts it."""
    return any(
        item.name.endswith(signals.MAIN_CONTAINER) and item.state == "terminated" and item.exit_code
        for item in pod.containers
    )


def _waits(pod: PodState) -> bool:
    """A container cannot start, for a reason that does not pass by itself."""
    found = [
        signals.table().get((signals.CONTAINER, item.reason)) for item in pod.containers if item.state == "waiting"
    ]
    return any(signal is not None and signal.kind is CauseKind.SETUP for signal in found)


def _findings_of(entry: AttemptDraft, job: JobGroup) -> list[tuple[PrsEvidence, bool]]:
    """What the job's own files say of this attempt, each with whether they name this node or address.

    What names another rank is left out.
    """
    found = []
    for number, finding in job.findings:
        if number == entry.number:
            names = [one for one in job.tries if one.number == number and _is_named(finding, one)]
            if not names or any(one is entry for one in names):
                found.append((finding, bool(names)))
    return found


def _is_named(finding: PrsEvidence, entry: AttemptDraft) -> bool:
    places = {entry.node, entry.rank, *(part for source in entry.sources for part in source.split("/"))}
    return finding.node is not None and finding.node in places


def _blame_first(tries: list[AttemptDraft]) -> None:
    """In a gang the first to die is the cause, all others are collateral, unless a node is proved at fault."""
    by_number: dict[int, list[AttemptDraft]] = {}
    for entry in tries:
        if entry.cause is not None:
            by_number.setdefault(entry.number, []).append(entry)
    for gang in by_number.values():
        if len(gang) < 2:
            continue
        proved = [entry for entry in gang if entry.cause and _is_proved(entry.cause)]
        ends = [entry.end for entry in gang if entry.end is not None]
        first = [entry for entry in gang if ends and entry.end == min(ends)]
        roots = proved or (first if len(first) == 1 else [])
        for entry in gang:
            cause = entry.cause
            if cause is None or any(entry is root for root in roots) or cause.kind is CauseKind.GANG:
                continue
            if roots and not _is_proved(cause):
                words = f"another rank ({roots[0].rank or 'unnamed'}) failed first"
                evidence = Evidence("gang", "first to fail", words, roots[0].end)
                entry.cause = Cause(CauseKind.GANG, "medium", (evidence, *cause.evidence))
            elif not roots and cause.blames_node and not KINDS[cause.kind].direct:
                # Nobody can tell which rank fell first, so no node is blamed.
                entry.cause = Cause(cause.kind, "low", cause.evidence, blames_node=False)


def _is_proved(cause: Cause) -> bool:
    """Evidence of its own that does not come from another rank's end."""
    weak = (CauseKind.UNKNOWN, CauseKind.USER, CauseKind.GANG, CauseKind.CANCELLED)
    return cause.kind not in weak and cause.confidence != "low"

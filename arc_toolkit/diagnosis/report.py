"""Scans, cluster facts, PRS evidence and restarts in, the whole DiagnosisReport out. Pure.

An answer of "no evidence" also says which gaps the recording has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.assemble import attempts
from arc_toolkit.diagnosis.assemble.grouping import is_run_log
from arc_toolkit.diagnosis.assemble.log_evidence import evidence_in
from arc_toolkit.diagnosis.causes import blame_convicted_nodes, count_successes_elsewhere
from arc_toolkit.diagnosis.judge import verdicts
from arc_toolkit.diagnosis.model import (
    Attempt,
    CauseKind,
    ClusterFacts,
    DiagnosisReport,
    EvidenceSource,
    FileEvidence,
    Job,
    Level,
    MetricLimit,
    RecordingGap,
    Restart,
    RunOutcome,
    SkippedFile,
    Stats,
    Verdict,
)
from arc_toolkit.diagnosis.read import cluster_index
from arc_toolkit.diagnosis.read.gpu_messages import weigh_by_other_nodes
from arc_toolkit.diagnosis.read.scan import LogScan
from arc_toolkit.diagnosis.times import LOOK_AHEAD_SECONDS, LOOK_BACK_SECONDS
from arc_toolkit.errors import ArcError
from arc_toolkit.text import nearest, plural


def build(
    scans: list[LogScan],
    facts: Sequence[ClusterFacts] = (),
    file_evidence: Sequence[FileEvidence] = (),
    restarts: Sequence[Restart] = (),
    skipped: Sequence[SkippedFile] = (),
    stats: Stats | None = None,
    consume_scans: bool = False,
) -> DiagnosisReport:
    """The report; the order of the input does not matter. `consume_scans`: the list of scans is
    emptied, so that its memory, 180 of 1,380 bytes per log, serves the attempts."""
    stats = stats or Stats()
    cluster = cluster_index.read(facts)
    files = [*file_evidence, *evidence_in(scan for scan in scans if not is_run_log(scan))]
    file_evidence = [item for item in file_evidence if item.evidence.source is EvidenceSource.PRS]
    built, groups = attempts.build(_drain(scans) if consume_scans else scans, cluster, files)
    built = count_successes_elsewhere(weigh_by_other_nodes(built))
    nodes, hopeless, incidents = verdicts.judge(built, cluster)
    built = blame_convicted_nodes(built, nodes)
    recording = [gap for part in facts for gap in part.gaps]
    built = mark_attempts(built, recording)
    nodes = mark_verdicts(nodes, built, recording)
    stats.pods, stats.nodes = len(cluster.pods), len(cluster.nodes)
    stats.events = sum(map(len, cluster.node_events.values())) + sum(
        map(len, cluster.pod_events.values())
    )
    notes = gap_notes(recording)
    if cluster.other_pods:
        notes.append(
            f"{cluster.other_pods} pods do not belong to AzureML jobs "
            "(no label ml.azure.com/run-id)"
        )
    if not stats.pods + stats.events and any(attempt.cause for attempt in built):
        notes.append(
            "logs alone rarely show a cause: "
            "add --cluster, --history, or saved pods, nodes and events"
        )
    if any(part.summarized for part in facts):
        notes.append(
            "Container Insights has no conditions and eviction messages of pods, no exit codes "
            "and no taints, and by "
            "default no Normal events: some causes are less certain than with saved pods, "
            "nodes and events"
        )
    notes += _metric_notes(stats, bool(restarts))
    if stats.prs_files and not file_evidence:
        notes.append(f"nothing unusual in {plural(stats.prs_files, 'file')} of parallel jobs")
    return DiagnosisReport(
        attempts=tuple(built),
        jobs=tuple(attempts.jobs(built, groups, hopeless)),
        verdicts=tuple(nodes),
        incidents=tuple(incidents),
        skipped=tuple(sorted(skipped, key=lambda item: (item.path, item.reason))),
        restarts=tuple(restarts),
        prs_evidence=tuple(file_evidence),
        stats=stats,
        gaps=tuple(recording),
        notes=tuple(notes),
    )


def _drain(scans: list[LogScan]) -> Iterator[LogScan]:
    while scans:
        yield scans.pop()


# How the limits of metrics are reported.
_METRIC_LIMITS = {
    MetricLimit.NO_COUNTER: "every metric has the same step at all points and none is called "
    "epoch; log with step=...",
    MetricLimit.FEW_POINTS: "too few points",
    MetricLimit.EQUAL_PARTS: "the step starts again after equally many steps, as epochs do; "
    "log the epoch too",
}


def _metric_notes(stats: Stats, has_restarts: bool) -> list[str]:
    """To find no restart is a result only for runs that could have shown one."""
    able = stats.metric_runs - sum(stats.metric_limits.values())
    notes = []
    if able and not has_restarts:
        scanned = plural(able, "run")
        if not stats.metric_limits:
            scanned += f", {plural(stats.metric_points, 'point')}"
        notes.append(f"no restart found in {scanned}")
    for limit, runs in stats.metric_limits.items():
        notes.append(
            f"metrics cannot show whether {plural(runs, 'run')} restarted: {_METRIC_LIMITS[limit]}"
        )
    return notes


def report_of_job(report: DiagnosisReport, name: str) -> DiagnosisReport:
    """The part of the report that concerns one job, by its name or run id, or one sweep."""
    jobs = [job for job in report.jobs if name in (job.name, job.run_id)]
    if not jobs:
        jobs = [job for job in report.jobs if job.folder == name]
    if not jobs:
        trials = {attempt.job for attempt in report.attempts if attempt.family == name}
        jobs = [job for job in report.jobs if job.name in trials]
    if not jobs:
        near = nearest(name, [job.name for job in report.jobs])
        hint = f"did you mean `{near}`?" if near else f"there are {len(report.jobs)} jobs"
        raise ArcError(f"no job `{name}` in these sources: {hint}")
    names = {job.name for job in jobs}
    runs = {job.run_id for job in jobs} | names
    nodes = {node for job in jobs for node in job.nodes}
    return replace(
        report,
        jobs=tuple(jobs),
        attempts=tuple(attempt for attempt in report.attempts if attempt.job in names),
        verdicts=tuple(verdict for verdict in report.verdicts if verdict.node in nodes),
        incidents=tuple(
            incident for incident in report.incidents if nodes.intersection(incident.nodes)
        ),
        restarts=tuple(restart for restart in report.restarts if restart.run in runs),
        prs_evidence=tuple(
            item
            for item in report.prs_evidence
            if any(name in item.path.split("/") for name in runs if name)
        ),
    )


def attempts_by_job(report: DiagnosisReport) -> dict[str, list[Attempt]]:
    grouped: dict[str, list[Attempt]] = {}
    for attempt in report.attempts:
        grouped.setdefault(attempt.job, []).append(attempt)
    return grouped


def levels(report: DiagnosisReport) -> dict[Level, int]:
    """The number of nodes with each verdict, also 0."""
    count = dict.fromkeys(Level, 0)
    for verdict in report.verdicts:
        count[verdict.level] += 1
    return count


NAMED_LEVELS = (Level.BAD, Level.SUSPECT, Level.RECOVERED)  # these nodes are always named


def is_troubled(job: Job) -> bool:
    """Shown before the others."""
    return job.retried or job.outcome in (RunOutcome.FAILED, RunOutcome.WAITING) or bool(job.causes)


# --fail-on: name -> whether the report has it
CONDITIONS = {
    "failed": lambda report: any(job.outcome is RunOutcome.FAILED for job in report.jobs),
    "retried": lambda report: any(job.retried for job in report.jobs),
    "bad-node": lambda report: any(verdict.level is Level.BAD for verdict in report.verdicts),
    "suspect-node": lambda report: any(
        verdict.level in (Level.BAD, Level.SUSPECT) for verdict in report.verdicts
    ),
}


MOST_NAMED = 3  # gaps in one sentence
# verdicts that rest on what was not seen
_TRUSTING = Level.OK, Level.RECOVERED, Level.NOT_ENOUGH_DATA


def sentence(gap: RecordingGap) -> str:
    if gap.start is None:
        return f"nothing was recorded before {_time(gap.end)}"
    if gap.end is None:
        return f"nothing was recorded after {_time(gap.start)}"
    span = f"from {_time(gap.start)} to {_time(gap.end)}"
    if gap.complete:
        return f"the recorder was interrupted {span} and read every change of that time afterwards"
    return f"nothing was recorded {span}"


def gap_notes(gaps: Sequence[RecordingGap]) -> list[str]:
    """One sentence per gap, the newest last; of many, the number."""
    ordered = sorted(gaps, key=lambda gap: gap.end or float("inf"))
    dropped = ordered[:-10]
    head = [f"{len(dropped)} older gaps in the recording are only in the JSON"] if dropped else []
    return head + [sentence(gap) for gap in ordered[-10:]]


def mark_attempts(attempts: Iterable[Attempt], gaps: Sequence[RecordingGap]) -> list[Attempt]:
    """A note for each attempt without a sure cause whose evidence may be in a gap."""
    lost = [gap for gap in gaps if not gap.complete]
    if not lost:
        return list(attempts)
    result = []
    for attempt in attempts:
        moment = _moment_of(attempt) if _lacks_evidence(attempt) else None
        hit = [gap for gap in lost if moment is not None and _overlaps(gap, moment, moment)]
        result.append(
            replace(attempt, notes=(*attempt.notes, _join_sentences(hit))) if hit else attempt
        )
    return result


def mark_verdicts(
    verdicts: Iterable[Verdict], attempts: Iterable[Attempt], gaps: Sequence[RecordingGap]
) -> list[Verdict]:
    """A verdict without evidence names the gaps between the first and last attempt of its node."""
    lost = [gap for gap in gaps if not gap.complete]
    spans: dict[str, tuple[float, float]] = {}
    for attempt in attempts if lost else ():
        moment = _moment_of(attempt)
        if attempt.node and moment is not None:
            attempt_span = spans.get(attempt.node, (moment, moment))
            spans[attempt.node] = (min(attempt_span[0], moment), max(attempt_span[1], moment))
    result = []
    for verdict in verdicts:
        span = spans.get(verdict.node) if verdict.level in _TRUSTING else None
        hit = [gap for gap in lost if span and _overlaps(gap, *span)]
        result.append(
            replace(verdict, reason=f"{verdict.reason}; {_join_sentences(hit)}".lstrip("; "))
            if hit
            else verdict
        )
    return result


def _lacks_evidence(attempt: Attempt) -> bool:
    if attempt.outcome in (RunOutcome.FAILED, RunOutcome.UNKNOWN):
        return (
            attempt.cause is None
            or attempt.cause.kind is CauseKind.UNKNOWN
            or attempt.cause.confidence == "low"
        )
    return False


def _moment_of(attempt: Attempt) -> float | None:
    """When evidence of its end would have been recorded."""
    return attempt.end if attempt.end is not None else attempt.start


def _overlaps(gap: RecordingGap, first: float, last: float) -> bool:
    """Whether evidence from between two moments may be missing; it is written around them."""
    if gap.start is None:
        return gap.end is None or first < gap.end
    if gap.end is None:
        return last > gap.start
    return gap.start < last + LOOK_AHEAD_SECONDS and gap.end > first - LOOK_BACK_SECONDS


def _join_sentences(gaps: Sequence[RecordingGap]) -> str:
    text = " and ".join(sentence(gap) for gap in gaps[:MOST_NAMED])
    return text + (f" and in {len(gaps) - MOST_NAMED} more gaps" if len(gaps) > MOST_NAMED else "")


def _time(value: float | None) -> str:
    return f"{times.short(value)} UTC"

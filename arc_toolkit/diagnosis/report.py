"""Scans, cluster facts, PRS evidence and restarts in, the whole DiagnosisReport out. Pure.

An answer of "no evidence" also says which gaps the recording has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from arc_toolkit.diagnosis import passes
from arc_toolkit.diagnosis.assemble import attempts
from arc_toolkit.diagnosis.assemble.grouping import is_run_log
from arc_toolkit.diagnosis.assemble.log_evidence import evidence_in
from arc_toolkit.diagnosis.gaps import gap_notes, mark_verdicts
from arc_toolkit.diagnosis.judge import verdicts
from arc_toolkit.diagnosis.model import (
    Attempt,
    ClusterFacts,
    DiagnosisReport,
    EvidenceSource,
    FileEvidence,
    Job,
    Level,
    MetricLimit,
    Restart,
    RunOutcome,
    SkippedFile,
    Stats,
    Verdict,
)
from arc_toolkit.diagnosis.passes import PassContext
from arc_toolkit.diagnosis.read import cluster_index
from arc_toolkit.diagnosis.read.scan import LogScan
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
    assembly = attempts.build(_drain(scans) if consume_scans else scans, cluster, files)
    recording = [gap for part in facts for gap in part.gaps]
    judgements = []

    def judge(so_far: Sequence[Attempt]) -> list[Verdict]:
        judgements.append(verdicts.judge(so_far, cluster))
        return judgements[-1][0]

    context = PassContext(cluster, assembly.failures, judge, recording)
    built = passes.apply(assembly.attempts, context)
    nodes, hopeless, incidents, uneven_pools = judgements[-1]
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
        jobs=tuple(attempts.jobs(built, assembly.groups, hopeless)),
        verdicts=tuple(nodes),
        incidents=tuple(incidents),
        uneven_pools=tuple(uneven_pools),
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
        uneven_pools=tuple(
            pool for pool in report.uneven_pools if nodes.intersection(pool.worse + pool.better)
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

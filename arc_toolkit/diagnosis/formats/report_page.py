"""The report as one HTML page without a network: incidents, nodes, timelines, filters.

templates/report.html.j2 lays out the report's records, and what is computed from them here,
autoescaped and with report.css and report.js inside the page. The page's content security policy
allows exactly that style and that script, by their hashes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from arc_toolkit import resources
from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.assemble.node_signals import TAKEN_AWAY
from arc_toolkit.diagnosis.formats.report_text import (
    MOST_AVOIDED,
    attempts_text,
    card_lines,
    causes_text,
    group_causes_text,
    incident_where,
    is_collateral,
    node_text,
    outcomes_text,
    route_text,
    span_text,
    summary,
    uneven_text,
)
from arc_toolkit.diagnosis.job_card import WAITING, GroupedJobs, JobCard, job_cards, job_groups
from arc_toolkit.diagnosis.judge.suggestions import anti_affinity
from arc_toolkit.diagnosis.model import (
    Attempt,
    CauseKind,
    DiagnosisReport,
    Job,
    Level,
    RunOutcome,
    Verdict,
)
from arc_toolkit.diagnosis.report import attempts_by_job, levels
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.output.redaction import page_policy
from arc_toolkit.text import plural, printable

MOST_JOBS = 1000  # the page stays fast; JSON and CSV have the rest
MOST_NODES = 1000
MOST_INCIDENTS = 100
OPEN_INCIDENTS = 3  # lines that are not folded away
MOST_ATTEMPTS = 100  # of one job
MOST_BARS = 60
MOST_SKIPPED = 200
RANKS_IN_A_LINE = 4  # nodes of a gang that a closed job names
PRINTED_JOBS = 100  # failed and waiting ones; a print is read by people
PRINTED_NODES = 40  # bad and suspect ones

URGENT = (RunOutcome.FAILED, RunOutcome.WAITING)  # these jobs are printed
PRINTED_LEVELS = (Level.BAD, Level.SUSPECT)

# The meaning of a bar's colour; the text is next to it, so nothing is shown by colour alone.
GROUPS = {
    "node": "the node's fault",
    "pool": "taken away: spot, drain, scale-down, preemption, cancel",
    "own": "the job's own: limit, setup or error",
    "collateral": "stopped because another rank failed first",
    "unknown": "failed, cause not certain",
    "good": "succeeded",
    "running": "running",
    "waiting": "waiting to start",
    "unsure": "end unknown",
}


def render(report: DiagnosisReport) -> str:
    """The page."""
    from markupsafe import Markup

    style, script = (
        (resources.shipped("templates") / name).read_text(encoding="utf-8")
        for name in ("report.css", "report.js")
    )
    return resources.render(
        "report.html.j2",
        style=Markup(style),  # noqa: S704 (our own file, not input)
        script=Markup(script),  # noqa: S704
        policy=page_policy(style, script),
        **page(report),
    )


def page(report: DiagnosisReport) -> dict[str, Any]:
    """The values of the template."""
    grouped, cards = attempts_by_job(report), job_cards(report)
    jobs = sorted(report.jobs, key=_trouble)
    listed = jobs[:MOST_JOBS]
    nodes = report.verdicts[:MOST_NODES]
    shown_attempts = [attempt for job in listed for attempt in grouped.get(job.name, [])]
    groups = {group(attempt) for attempt in shown_attempts}
    node_pools = {verdict.pool for verdict in nodes}
    attempt_pools = {attempt.pool for attempt in shown_attempts}
    bad = [
        verdict.node
        for verdict in report.verdicts
        if verdict.level is Level.BAD and not verdict.gone
    ]
    outcomes = Counter(job.outcome for job in listed)
    verdict_counts = Counter(verdict.level for verdict in nodes)
    urgent = sum(job.outcome in URGENT for job in listed)
    node_ids = {verdict.node: f"node-{index}" for index, verdict in enumerate(nodes)}
    entries = [_job(job, grouped.get(job.name, []), cards[job.name], node_ids) for job in listed]
    for number, entry in enumerate(entries):
        entry["printed"] &= number < PRINTED_JOBS
    bad_or_suspect = sum(verdict.level in PRINTED_LEVELS for verdict in nodes)
    return {
        "report": report,
        "title": f"{plural(len(jobs), 'job')}, {plural(len(bad), 'bad node')}",
        "summary": summary(report),
        "tiles": _tiles(report),
        "jobs": entries,
        "rows": _rows(entries, job_groups(report)),
        "jobs_left_out": len(jobs) - len(listed),
        "nodes": [_node(index, verdict) for index, verdict in enumerate(nodes)],
        "nodes_left_out": len(report.verdicts) - len(nodes),
        "outcomes": [(outcome, outcomes[outcome]) for outcome in RunOutcome if outcomes[outcome]],
        "retried": sum(job.retried for job in listed),
        "kinds": Counter(kind for job in listed for kind in job.causes).most_common(),
        "pools": sorted(pool for pool in node_pools | attempt_pools if pool),
        "levels": [(level, verdict_counts[level]) for level in Level if verdict_counts[level]],
        "legend": [(name, words) for name, words in GROUPS.items() if name in groups],
        "node_ids": node_ids,
        "anti_affinity": anti_affinity(bad[:MOST_AVOIDED]) if bad else "",
        "reasons": Counter(report.stats.skipped).most_common(),
        "most_attempts": MOST_ATTEMPTS,
        "most_incidents": MOST_INCIDENTS,
        "open_incidents": OPEN_INCIDENTS,
        "most_skipped": MOST_SKIPPED,
        "printed_jobs": PRINTED_JOBS,
        "printed_nodes": PRINTED_NODES,
        "jobs_not_printed": max(0, urgent - PRINTED_JOBS),
        "nodes_not_printed": max(0, bad_or_suspect - PRINTED_NODES),
        # Functions that the template calls.
        "duration": times.duration,
        "group": group,
        "incident_where": incident_where,
        "uneven_text": uneven_text,
        "kind": KINDS.__getitem__,
        "lasted": _duration,
        "node_text": node_text,
        "short": times.short,
        "span_text": span_text,
        "waiting": WAITING.__getitem__,
    }


def _tiles(report: DiagnosisReport) -> list[dict[str, Any]]:
    """The counts at the top; each links to a section, and to the filter that shows it."""
    outcomes = Counter(job.outcome for job in report.jobs)
    counts = levels(report)
    retried = sum(job.retried for job in report.jobs)
    bad, suspect = counts[Level.BAD], counts[Level.SUSPECT]
    rows = [  # count, words, section, filter, tone, and whether it is shown if the count is 0
        (len(report.jobs), "job", "jobs", "outcome=", "", True),
        (outcomes[RunOutcome.FAILED], "failed", "jobs", "outcome=failed", "bad", True),
        (outcomes[RunOutcome.WAITING], "waiting", "jobs", "outcome=waiting", "suspect", False),
        (retried, "retried", "jobs", "outcome=retried", "", True),
        (len(report.incidents), "incident", "incidents", "", "bad", False),
        (bad, "bad node", "nodes", "verdict=bad", "bad", True),
        (suspect, "suspect node", "nodes", "verdict=suspect", "suspect", False),
        (counts[Level.RECOVERED], "recovered node", "nodes", "verdict=recovered", "", False),
    ]
    adjectives = ("failed", "waiting", "retried")
    return [
        {
            "count": count,
            "words": words if words in adjectives else plural(count, words).partition(" ")[2],
            "section": section if count else "",
            "state": state,
            "tone": tone if count else "",
        }
        for count, words, section, state, tone, always in rows
        if count or always
    ]


def _trouble(job: Job) -> tuple[bool, bool, bool, float]:
    """Failed jobs first, then those that wait, then retried ones, the newest first."""
    return (
        job.outcome is not RunOutcome.FAILED,
        job.outcome is not RunOutcome.WAITING,
        not job.retried,
        -(job.since or 0.0),
    )


# --- nodes ----------------------------------------------------------------------------------------


def _node(index: int, verdict: Verdict) -> dict[str, Any]:
    """A row of the table; the report has the worst nodes first, so those are the ones to print."""
    words = [verdict.node, verdict.pool or "", verdict.level, verdict.reason]
    rate = f"{100 * verdict.pool_rate:.3g}" if verdict.pool_rate is not None else ""
    interval = None
    if verdict.interval and verdict.attempts:
        low, high = (100 * end for end in verdict.interval)
        interval = {
            "text": f"{low:.0f} to {high:.0f} %",
            "low": f"{low:.1f}",
            "width": f"{max(1.0, high - low):.1f}",
            "rate": f"{100 * verdict.failures / verdict.attempts:.1f}",
        }
    return {
        "record": verdict,
        "id": f"node-{index}",
        "text": " ".join(words),
        "printed": verdict.level in PRINTED_LEVELS and index < PRINTED_NODES,
        "level": list(Level).index(verdict.level),
        "pool_rate": rate,
        "interval": interval,
    }


# --- jobs -----------------------------------------------------------------------------------------


def _rows(entries: list[dict[str, Any]], groups: Sequence[GroupedJobs]) -> list[dict[str, Any]]:
    """The jobs in their order; a group is where the first of its jobs would be."""
    group_of = {job.name: group for group in groups for job in group.jobs}
    rows: dict[str, dict[str, Any]] = {}
    for entry in entries:
        name = entry["record"].name
        group = group_of.get(name)
        # the name of a group may be that of a job
        row = rows.setdefault(f"group {group.name}" if group else f"job {name}", {"jobs": []})
        row["jobs"].append(entry)
        if group:
            row["count"], row["name"] = len(group.jobs), group.name if group.is_family else ""
            entry["text"] += f" {row['name']}"  # the name of a sweep finds its jobs
            row["outcomes"], row["causes"] = outcomes_text(group), group_causes_text(group)
            row["tone"] = min(group.outcomes, key=list(RunOutcome).index)
    return list(rows.values())


def _job(
    job: Job, attempts: Sequence[Attempt], card: JobCard, node_ids: dict[str, str]
) -> dict[str, Any]:
    causes = causes_text(job, attempts)
    words = [job.name, job.run_id or "", *job.nodes, causes, job.outcome]
    return {
        "record": job,
        "card": card_lines(card, route_text(attempts, "→")),
        "node_ids": [node_ids[node] for node in job.nodes if node in node_ids],
        "attempts": attempts,
        "attempts_text": f"{attempts_text(job)} attempts"
        if job.missing
        else plural(job.attempts, "attempt"),
        "causes": causes,
        "route": route_text(attempts, "→", ranks=RANKS_IN_A_LINE),
        "pools": dict.fromkeys(attempt.pool for attempt in attempts if attempt.pool),
        "state": [job.outcome.value, *(["retried"] if job.retried else [])],
        "printed": job.outcome in URGENT,
        "when": _start_and_duration(job, attempts),
        "text": " ".join(words),
        "timeline": timeline(attempts),
    }


def _start_and_duration(job: Job, attempts: Sequence[Attempt]) -> str:
    """Start and duration of a job with one attempt, which has no timeline."""
    if len(attempts) > 1 or job.since is None:
        return ""
    lasted = [_duration(attempt) for attempt in attempts]
    return ", ".join(filter(None, [times.short(job.since), *lasted]))


def _duration(attempt: Attempt) -> str:
    if attempt.start is None or attempt.end is None:
        return ""
    return times.duration(max(0.0, attempt.end - attempt.start))


def group(attempt: Attempt) -> str:
    """Which of GROUPS an attempt belongs to."""
    if attempt.outcome is RunOutcome.SUCCEEDED:
        return "good"
    if attempt.outcome is RunOutcome.RUNNING:
        return "running"
    if attempt.outcome is RunOutcome.WAITING:
        return "waiting"
    if attempt.outcome is RunOutcome.UNKNOWN and attempt.cause is None:
        return "unsure"
    cause = attempt.cause
    if cause is None or cause.kind is CauseKind.UNKNOWN:
        return "unknown"
    if is_collateral(attempt):
        return "collateral"
    if KINDS[cause.kind].blames_node:
        return "node" if cause.blames_node else "unknown"
    return "pool" if cause.kind in TAKEN_AWAY else "own"


def timeline(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Bars in percent of the width: by time if every start is known, otherwise in a row."""
    attempts = attempts[:MOST_BARS]
    by_time = len(attempts) > 0 and all(attempt.start is not None for attempt in attempts)
    spans = (
        _spans(attempts) if by_time else [(float(index), index + 1.0) for index in _order(attempts)]
    )
    first = min((start for start, _ in spans), default=0.0)
    duration = max((end for _, end in spans), default=1.0) - first or 1.0
    ranks = list(dict.fromkeys(attempt.rank for attempt in attempts))
    bars = []
    for attempt, (start, end) in zip(attempts, spans, strict=True):
        offset, width = 100 * (start - first) / duration, 100 * (end - start) / duration
        width = max(width - 0.4, 1.0)  # a gap between bars, but never too thin to see
        bars.append(
            {
                "left": f"{min(offset, 99.0):.2f}",
                "width": f"{min(width, 100 - min(offset, 99.0)):.2f}",
                "row": ranks.index(attempt.rank),
                "group": group(attempt),
                "open": attempt.end is None and by_time,
                "title": _bar_title(attempt),
            }
        )
    label = "; ".join(str(bar["title"]) for bar in bars[:8]) + (
        f"; and {len(bars) - 8} more" if len(bars) > 8 else ""
    )
    scale = span_text(first, first + duration).split(" to ") if by_time else []
    return {"bars": bars, "rows": len(ranks), "label": label, "scale": scale}


def _order(attempts: Sequence[Attempt]) -> list[int]:
    """The column of each attempt: the ranks of one attempt share it."""
    numbers = {
        number: index
        for index, number in enumerate(sorted({attempt.number for attempt in attempts}))
    }
    return [numbers[attempt.number] for attempt in attempts]


def _spans(attempts: Sequence[Attempt]) -> list[tuple[float, float]]:
    """Start and end; an unknown end is replaced by the next start, or the last known time."""
    moments = [
        moment
        for attempt in attempts
        for moment in (attempt.start, attempt.end)
        if moment is not None
    ]
    last = max(moments)
    starts = sorted({attempt.start for attempt in attempts if attempt.start is not None})
    spans = []
    for attempt in attempts:
        start = attempt.start or 0.0
        following = next((moment for moment in starts if moment > start), last)
        spans.append((start, max(start, attempt.end if attempt.end is not None else following)))
    return spans


def _bar_title(attempt: Attempt) -> str:
    cause = KINDS[attempt.cause.kind].label if attempt.cause else attempt.outcome.value
    if attempt.waiting:
        cause = WAITING[attempt.waiting.kind]
    rank = f" {printable(attempt.rank)}" if attempt.rank else ""
    label = f"retry {attempt.number}" if attempt.number else "first attempt"
    if attempt.node is None and attempt.waiting:
        return f"{label}{rank}: {cause}"
    return f"{label}{rank} on {node_text(attempt.node, attempt.node_truncated)}: {cause}"

"""The report as one HTML page that needs no network: timelines of attempts, nodes by verdict, search and filter.

This module prepares plain values; templates/report.html.j2 lays them out (autoescaped) with report.css and report.js
inside the page. The page's content security policy allows exactly that style and that script, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    DiagnosisReport,
    Evidence,
    Job,
    Level,
    Restart,
    RunOutcome,
    Verdict,
)
from arc_toolkit.diagnosis.report import attempts_by_job, levels
from arc_toolkit.diagnosis.report_text import attempts_text, interval_text, node_text, summary
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.diagnosis.suggestions import anti_affinity
from arc_toolkit.diagnosis.times import plural
from arc_toolkit.output.safe import printable

MOST_JOBS = 1000  # the page stays fast; JSON and CSV have the rest
MOST_ATTEMPTS = 100  # of one job
MOST_BARS = 60
MOST_SKIPPED = 200

# The meaning of a bar's colour; the text is next to it, so nothing is shown by colour alone.
POOL_KINDS = (
    CauseKind.SPOT,
    CauseKind.DRAIN,
    CauseKind.SCALE_DOWN,
    CauseKind.SCHEDULER,
    CauseKind.GANG,
    CauseKind.CANCELLED,
)
GROUPS = {
    "node": "the node's fault",
    "pool": "taken away: spot, drain, scale-down, preemption, cancel",
    "own": "the job's own: limit, setup or error",
    "unknown": "ended, cause unknown",
    "good": "succeeded",
    "running": "running",
    "unsure": "end unknown",
}
LEVEL_WORDS = {
    Level.BAD: "bad",
    Level.SUSPECT: "suspect",
    Level.NOT_ENOUGH_DATA: "not enough data",
    Level.OK: "ok",
}


def render(report: DiagnosisReport) -> str:
    """The page."""
    from markupsafe import Markup

    from arc_toolkit.resources import render as render_template
    from arc_toolkit.resources import shipped

    style = (shipped("templates") / "report.css").read_text(encoding="utf-8")
    script = (shipped("templates") / "report.js").read_text(encoding="utf-8")
    return render_template(
        "report.html.j2",
        style=Markup(style),  # noqa: S704 (our own file, not input)
        script=Markup(script),  # noqa: S704
        policy=(
            f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        ),
        **page(report),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page(report: DiagnosisReport) -> dict[str, Any]:
    """The values of the template."""
    grouped = attempts_by_job(report)
    counts = levels(report)
    jobs = sorted(report.jobs, key=_trouble)
    places = {verdict.node: f"node-{index}" for index, verdict in enumerate(report.verdicts)}
    shown = jobs[:MOST_JOBS]
    failed = sum(job.outcome is RunOutcome.FAILED for job in jobs)
    retried = sum(job.retried for job in jobs)
    bad = [verdict.node for verdict in report.verdicts if verdict.level is Level.BAD and not verdict.gone]
    return {
        "summary": summary(report),
        "tiles": [
            _tile(len(jobs), "job"),
            _tile(retried, "retried", plain=True),
            _tile(failed, "failed for good", plain=True, tone="bad"),
            _tile(counts[Level.BAD], "bad node", tone="bad"),
            _tile(counts[Level.SUSPECT], "suspect node", tone="suspect"),
        ],
        "jobs": [_job(job, grouped.get(job.name, []), places) for job in shown],
        "jobs_left_out": len(jobs) - len(shown),
        "outcomes": _choices(job.outcome.value for job in shown),
        "kinds": _choices(
            (kind for job in shown for kind in job.causes), {kind: KINDS[kind].label for kind in CauseKind}
        ),
        "legend": _legend([attempt for job in shown for attempt in grouped.get(job.name, [])]),
        "troubled_nodes": [
            _node(verdict, places[verdict.node])
            for verdict in report.verdicts
            if verdict.level in (Level.BAD, Level.SUSPECT)
        ],
        "other_nodes": [
            _node(verdict, places[verdict.node])
            for verdict in report.verdicts
            if verdict.level not in (Level.BAD, Level.SUSPECT)
        ],
        "anti_affinity": anti_affinity(bad) if bad else "",
        "restarts": [_restart(restart) for restart in report.restarts],
        "prs_evidence": [
            {
                "path": printable(item.path),
                "node": printable(item.node or ""),
                "evidence": _evidence(item.evidence),
            }
            for item in report.prs_evidence
        ],
        "notes": [printable(note) for note in report.notes],
        "reasons": [(printable(reason), count) for reason, count in Counter(report.stats.skipped).most_common()],
        "skipped": [(printable(item.path), printable(item.reason)) for item in report.skipped[:MOST_SKIPPED]],
        "skipped_left_out": max(0, len(report.skipped) - MOST_SKIPPED),
    }


def _tile(count: int, words: str, *, plain: bool = False, tone: str = "") -> dict[str, Any]:
    text = words if plain or count == 1 else f"{words}s"
    return {"count": count, "words": text, "tone": tone if count else ""}


def _trouble(job: Job) -> tuple[bool, bool, float]:
    """Failed jobs first, then retried ones, the newest first."""
    return job.outcome is not RunOutcome.FAILED, not job.retried, -(job.since or 0.0)


def _choices(values: Any, words: dict[Any, str] | None = None) -> list[tuple[str, str, int]]:
    """Value, label and count of each choice in a filter."""
    counts = Counter(values)
    return [(str(value), (words or {}).get(value, str(value)), count) for value, count in counts.most_common()]


# --- jobs -------------------------------------------------------------------------------------------------------


def _job(job: Job, attempts: Sequence[Attempt], places: dict[str, str]) -> dict[str, Any]:
    causes = [KINDS[kind].label + "?" * (kind in job.unsure) for kind in job.causes]
    words = [job.name, job.run_id or "", *job.nodes, *causes, job.outcome.value]
    return {
        "name": printable(job.name),
        "run_id": printable(job.run_id) if job.run_id and job.run_id != job.name else "",
        "outcome": job.outcome.value,
        "attempts_text": f"{attempts_text(job)} attempts" if job.missing else plural(job.attempts, "attempt"),
        "retried": job.retried,
        "causes": causes,
        "kinds": " ".join(kind.value for kind in job.causes),
        "fails_everywhere": job.fails_everywhere,
        "when": _when(job, attempts),
        "notes": [printable(note) for note in job.notes],
        "text": printable(" ".join(words)).lower(),
        "timeline": timeline(attempts),
        "attempts": [_attempt(attempt, places) for attempt in attempts[:MOST_ATTEMPTS]],
        "attempts_left_out": max(0, len(attempts) - MOST_ATTEMPTS),
    }


def _when(job: Job, attempts: Sequence[Attempt]) -> str:
    """Start and duration of a job with one attempt, which has no timeline."""
    if len(attempts) > 1 or job.since is None:
        return ""
    lasted = [_lasted(attempt) for attempt in attempts]
    return ", ".join(filter(None, [times.short(job.since), *lasted]))


def _lasted(attempt: Attempt) -> str:
    if attempt.start is None or attempt.end is None:
        return ""
    return times.duration(max(0.0, attempt.end - attempt.start))


def _attempt(attempt: Attempt, places: dict[str, str]) -> dict[str, Any]:
    cause = attempt.cause
    return {
        "which": f"retry {attempt.number}" if attempt.number else "first",
        "rank": printable(attempt.rank or ""),
        "node": node_text(attempt.node, attempt.node_truncated),
        "node_id": places.get(attempt.node or "", ""),
        "group": group(attempt),
        "start": times.short(attempt.start),
        "lasted": _lasted(attempt),
        "outcome": attempt.outcome.value,
        "cause": KINDS[cause.kind].label if cause else "",
        "confidence": cause.confidence if cause else "",
        "evidence": [_evidence(item) for item in (cause.evidence if cause else ())],
        "spot": attempt.spot,
        "notes": [printable(note) for note in attempt.notes],
    }


def group(attempt: Attempt) -> str:
    """Which of GROUPS an attempt belongs to."""
    if attempt.outcome is RunOutcome.SUCCEEDED:
        return "good"
    if attempt.outcome is RunOutcome.RUNNING:
        return "running"
    if attempt.outcome is RunOutcome.UNKNOWN and attempt.cause is None:
        return "unsure"
    return _cause_group(attempt.cause)


def _cause_group(cause: Cause | None) -> str:
    if cause is None or cause.kind is CauseKind.UNKNOWN:
        return "unknown"
    if KINDS[cause.kind].blames_node:
        return "node"
    return "pool" if cause.kind in POOL_KINDS else "own"


def _legend(attempts: Sequence[Attempt]) -> list[tuple[str, str]]:
    groups = {group(attempt) for attempt in attempts}
    return [(name, words) for name, words in GROUPS.items() if name in groups]


def timeline(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Bars in percent of the width: by time if every start is known, otherwise one after the other."""
    attempts = attempts[:MOST_BARS]
    by_time = len(attempts) > 0 and all(attempt.start is not None for attempt in attempts)
    spans = _spans(attempts) if by_time else [(float(index), index + 1.0) for index in _order(attempts)]
    first = min((start for start, _ in spans), default=0.0)
    whole = max((end for _, end in spans), default=1.0) - first or 1.0
    ranks = list(dict.fromkeys(attempt.rank for attempt in attempts))
    bars = []
    for attempt, (start, end) in zip(attempts, spans, strict=True):
        left, width = 100 * (start - first) / whole, 100 * (end - start) / whole
        width = max(width - 0.4, 1.0)  # a gap between bars, but never too thin to see
        bars.append(
            {
                "left": f"{min(left, 99.0):.2f}",
                "width": f"{min(width, 100 - min(left, 99.0)):.2f}",
                "row": ranks.index(attempt.rank),
                "group": group(attempt),
                "open": attempt.end is None and by_time,
                "title": _bar_title(attempt),
            }
        )
    label = "; ".join(str(bar["title"]) for bar in bars[:8]) + (
        f"; and {len(bars) - 8} more" if len(bars) > 8 else ""
    )
    scale = [times.short(first), times.short(first + whole)] if by_time else ["", ""]
    if scale[0][:10] == scale[1][:10]:
        scale[1] = scale[1][11:]  # the day is at the other end
    return {"bars": bars, "rows": len(ranks), "label": label, "from": scale[0], "to": scale[1]}


def _order(attempts: Sequence[Attempt]) -> list[int]:
    """The column of each attempt: the ranks of one attempt share it."""
    numbers = {number: index for index, number in enumerate(sorted({attempt.number for attempt in attempts}))}
    return [numbers[attempt.number] for attempt in attempts]


def _spans(attempts: Sequence[Attempt]) -> list[tuple[float, float]]:
    """Start and end; an unknown end is replaced by the next start, or the last known time."""
    moments = [moment for attempt in attempts for moment in (attempt.start, attempt.end) if moment is not None]
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
    rank = f" {printable(attempt.rank)}" if attempt.rank else ""
    which = f"retry {attempt.number}" if attempt.number else "first attempt"
    return f"{which}{rank} on {node_text(attempt.node, attempt.node_truncated)}: {cause}"


# --- nodes and the rest -----------------------------------------------------------------------------------------


def _node(verdict: Verdict, place: str) -> dict[str, Any]:
    interval = verdict.interval
    return {
        "id": place,
        "name": printable(verdict.node),
        "level": verdict.level.value,
        "level_words": LEVEL_WORDS[verdict.level],
        "pool": printable(verdict.pool or ""),
        "spot": verdict.spot,
        "vm_instance": verdict.vm_instance,
        "figures": interval_text(verdict) if verdict.attempts else "no attempts",
        "low": f"{100 * interval[0]:.1f}" if interval else "",
        "width": f"{max(1.0, 100 * (interval[1] - interval[0])):.1f}" if interval else "",
        "rate": f"{100 * verdict.failures / verdict.attempts:.1f}" if verdict.attempts else "",
        "pool_rate": f"{100 * verdict.pool_rate:.3g}" if verdict.pool_rate is not None else "",
        "reason": printable(verdict.reason),
        "since": times.short(verdict.since) if verdict.since else "",
        "evidence": [_evidence(item) for item in verdict.evidence],
        "suggestions": [(printable(item.text), item.is_command) for item in verdict.suggestions],
        "text": printable(f"{verdict.node} {verdict.pool or ''} {verdict.level.value} {verdict.reason}").lower(),
    }


def _evidence(evidence: Evidence) -> dict[str, str]:
    return {
        "source": printable(evidence.source),
        "reason": printable(evidence.reason),
        "message": printable(evidence.message),
        "time": times.short(evidence.time) if evidence.time is not None else "",
    }


def _restart(restart: Restart) -> dict[str, Any]:
    return {
        "run": printable(restart.run),
        "time": times.short(restart.time),
        "kind": restart.kind.replace("-", " "),
        "steps": f"{restart.last_step} → {restart.first_step}",
        "lost_steps": restart.lost_steps,
        "lost_time": times.duration(restart.lost_seconds),
        "keys": printable(", ".join(restart.keys)),
        "confidence": restart.confidence,
    }

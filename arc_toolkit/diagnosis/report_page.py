"""The report as one HTML page that needs no network: timelines of attempts, nodes by verdict, search and filter.

templates/report.html.j2 lays out the report's records, and what is computed from them here, autoescaped and with
report.css and report.js inside the page. The page's content security policy allows exactly that style and that script,
by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from arc_toolkit import resources
from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import Attempt, CauseKind, DiagnosisReport, Job, Level, RunOutcome
from arc_toolkit.diagnosis.node_signals import TAKEN_AWAY
from arc_toolkit.diagnosis.report import attempts_by_job, levels
from arc_toolkit.diagnosis.report_words import attempts_text, interval_text, node_text, summary
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.diagnosis.suggestions import anti_affinity
from arc_toolkit.output.safe import printable
from arc_toolkit.output.table import plural

MOST_JOBS = 1000  # the page stays fast; JSON and CSV have the rest
MOST_ATTEMPTS = 100  # of one job
MOST_BARS = 60
MOST_SKIPPED = 200

# The meaning of a bar's colour; the text is next to it, so nothing is shown by colour alone.
GROUPS = {
    "node": "the node's fault",
    "pool": "taken away: spot, drain, scale-down, preemption, cancel",
    "own": "the job's own: limit, setup or error",
    "unknown": "ended, cause unknown",
    "good": "succeeded",
    "running": "running",
    "waiting": "waiting to start",
    "unsure": "end unknown",
}


def render(report: DiagnosisReport) -> str:
    """The page."""
    from markupsafe import Markup

    style, script = (
        (resources.shipped("templates") / name).read_text(encoding="utf-8") for name in ("report.css", "report.js")
    )
    return resources.render(
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
    shown = jobs[:MOST_JOBS]
    groups = {group(attempt) for job in shown for attempt in grouped.get(job.name, [])}
    bad = [verdict.node for verdict in report.verdicts if verdict.level is Level.BAD and not verdict.gone]
    return {
        "report": report,
        "summary": summary(report),
        "tiles": [
            _tile(len(jobs), "job"),
            _tile(sum(job.retried for job in jobs), "retried", plain=True),
            _tile(
                sum(job.outcome is RunOutcome.FAILED for job in jobs), "failed for good", plain=True, tone="bad"
            ),
            _tile(counts[Level.BAD], "bad node", tone="bad"),
            _tile(counts[Level.SUSPECT], "suspect node", tone="suspect"),
        ],
        "jobs": [_job(job, grouped.get(job.name, [])) for job in shown],
        "jobs_left_out": len(jobs) - len(shown),
        "outcomes": Counter(job.outcome for job in shown).most_common(),
        "kinds": Counter(kind for job in shown for kind in job.causes).most_common(),
        "legend": [(name, words) for name, words in GROUPS.items() if name in groups],
        "node_ids": {verdict.node: f"node-{index}" for index, verdict in enumerate(report.verdicts)},
        "anti_affinity": anti_affinity(bad) if bad else "",
        "reasons": Counter(report.stats.skipped).most_common(),
        "most_attempts": MOST_ATTEMPTS,
        "most_skipped": MOST_SKIPPED,
        # Functions that the template calls.
        "duration": times.duration,
        "group": group,
        "interval_text": interval_text,
        "label": lambda kind: KINDS[kind].label,
        "lasted": _lasted,
        "node_text": node_text,
        "short": times.short,
    }


def _tile(count: int, words: str, *, plain: bool = False, tone: str = "") -> dict[str, Any]:
    text = words if plain or count == 1 else f"{words}s"
    return {"count": count, "words": text, "tone": tone if count else ""}


def _trouble(job: Job) -> tuple[bool, bool, float]:
    """Failed jobs first, then retried ones, the newest first."""
    return job.outcome is not RunOutcome.FAILED, not job.retried, -(job.since or 0.0)


# --- jobs -------------------------------------------------------------------------------------------------------


def _job(job: Job, attempts: Sequence[Attempt]) -> dict[str, Any]:
    causes = [KINDS[kind].label + "?" * (kind in job.unsure) for kind in job.causes]
    words = [job.name, job.run_id or "", *job.nodes, *causes, job.outcome]
    return {
        "record": job,
        "attempts": attempts,
        "attempts_text": f"{attempts_text(job)} attempts" if job.missing else plural(job.attempts, "attempt"),
        "causes": causes,
        "when": _when(job, attempts),
        "text": " ".join(words),
        "timeline": timeline(attempts),
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
    if KINDS[cause.kind].blames_node:
        return "node"
    return "pool" if cause.kind in TAKEN_AWAY else "own"


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

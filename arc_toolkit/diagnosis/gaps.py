"""Times without a recording: an answer that rests on missing evidence names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import Attempt, Level, RecordingGap, Verdict
from arc_toolkit.diagnosis.times import LOOK_AHEAD_SECONDS, LOOK_BACK_SECONDS

MOST_NAMED = 3  # gaps in one sentence
MOST_NOTES = 10
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
    dropped = ordered[:-MOST_NOTES]
    head = [f"{len(dropped)} older gaps in the recording are only in the JSON"] if dropped else []
    return head + [sentence(gap) for gap in ordered[-MOST_NOTES:]]


def missing_between(gaps: Iterable[RecordingGap], first: float, last: float) -> str:
    """The gaps in which evidence from between two moments may be missing, as one sentence."""
    hit = [gap for gap in gaps if not gap.complete and _overlaps(gap, first, last)]
    text = " and ".join(sentence(gap) for gap in hit[:MOST_NAMED])
    return text + (f" and in {len(hit) - MOST_NAMED} more gaps" if len(hit) > MOST_NAMED else "")


def mark_verdicts(
    verdicts: Iterable[Verdict], attempts: Iterable[Attempt], gaps: Sequence[RecordingGap]
) -> list[Verdict]:
    """A verdict without evidence names the gaps between the first and last attempt of its node."""
    spans: dict[str, tuple[float, float]] = {}
    for attempt in attempts if gaps else ():
        moment = moment_of(attempt)
        if attempt.node and moment is not None:
            first, last = spans.get(attempt.node, (moment, moment))
            spans[attempt.node] = min(first, moment), max(last, moment)
    result = []
    for verdict in verdicts:
        span = spans.get(verdict.node) if verdict.level in _TRUSTING else None
        note = missing_between(gaps, *span) if span else ""
        result.append(
            replace(verdict, reason=f"{verdict.reason}; {note}".lstrip("; ")) if note else verdict
        )
    return result


def moment_of(attempt: Attempt) -> float | None:
    """When evidence of its end would have been recorded."""
    return attempt.end if attempt.end is not None else attempt.start


def _overlaps(gap: RecordingGap, first: float, last: float) -> bool:
    """Evidence is written some time before and after the moment."""
    if gap.start is None:
        return gap.end is None or first < gap.end
    if gap.end is None:
        return last > gap.start
    return gap.start < last + LOOK_AHEAD_SECONDS and gap.end > first - LOOK_BACK_SECONDS


def _time(value: float | None) -> str:
    return f"{times.short(value)} UTC"

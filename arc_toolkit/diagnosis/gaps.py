"""The gaps of a recording: an answer of "no evidence" also says what was not recorded. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import Attempt, CauseKind, Level, RecordingGap, RunOutcome, Verdict
from arc_toolkit.diagnosis.times import LOOK_AHEAD_SECONDS, LOOK_BACK_SECONDS

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


def notes(gaps: Sequence[RecordingGap]) -> list[str]:
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

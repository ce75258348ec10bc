"""A gap of the recording is in the report, and no answer that rests on missing evidence hides it."""

from __future__ import annotations

import json
from dataclasses import replace

from arc_toolkit.diagnosis import passes, report
from arc_toolkit.diagnosis.formats import report_formats
from arc_toolkit.diagnosis.gaps import gap_notes, mark_verdicts
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    ClusterFacts,
    Level,
    RecordingGap,
    RunOutcome,
    Verdict,
)

NOON = 1_782_907_200.0  # 2026-07-01 12:00 UTC
GAP = RecordingGap(NOON, NOON + 3600)
UNKNOWN = Attempt(
    "a",
    0,
    "aks-1",
    end=NOON + 1800,
    outcome=RunOutcome.FAILED,
    cause=Cause(CauseKind.UNKNOWN, "low"),
)
SAID = "nothing was recorded from 2026-07-01 12:00 UTC to 2026-07-01 13:00 UTC"


def marked_attempts(attempts: list[Attempt], gaps: list[RecordingGap]) -> list[Attempt]:
    return passes.gaps(attempts, passes.PassContext(gaps=gaps))


def test_attempt_without_evidence_says_that_nothing_was_recorded() -> None:
    assert marked_attempts([UNKNOWN], [GAP])[0].notes == (SAID,)
    before = replace(UNKNOWN, end=NOON - 3600)
    after = replace(UNKNOWN, end=NOON + 3600 + 601)
    known = replace(UNKNOWN, cause=Cause(CauseKind.OWN_MEMORY, "high"))
    running = replace(UNKNOWN, outcome=RunOutcome.RUNNING, cause=None)
    for attempt in (before, after, known, running):
        assert marked_attempts([attempt], [GAP]) == [attempt]


def test_gap_that_was_read_afterwards_is_noted_but_explains_nothing() -> None:
    complete = replace(GAP, complete=True)
    assert marked_attempts([UNKNOWN], [complete]) == [UNKNOWN]
    assert gap_notes([complete]) == [
        "the recorder was interrupted from 2026-07-01 12:00 UTC to 2026-07-01 13:00 UTC and read every change of that"
        " time afterwards"
    ]


def test_verdict_that_rests_on_what_was_not_seen_names_the_gap() -> None:
    good = Verdict("aks-1", Level.OK, reason="0 of 20 failed")
    around = [replace(UNKNOWN, end=NOON - 9000), replace(UNKNOWN, end=NOON + 9000)]
    assert mark_verdicts([good], around, [GAP])[0].reason == f"0 of 20 failed; {SAID}"
    assert mark_verdicts([good], around[1:], [GAP]) == [good]
    bad = replace(good, level=Level.BAD)
    assert mark_verdicts([bad], around, [GAP]) == [bad]


def test_ends_of_the_recording_are_gaps_too() -> None:
    early, late = RecordingGap(None, NOON), RecordingGap(NOON, None)
    assert marked_attempts([replace(UNKNOWN, end=NOON - 9000)], [early])[0].notes == (
        "nothing was recorded before 2026-07-01 12:00 UTC",
    )
    assert marked_attempts([UNKNOWN], [late])[0].notes == (
        "nothing was recorded after 2026-07-01 12:00 UTC",
    )
    assert marked_attempts([UNKNOWN], [early]) == [UNKNOWN]


def test_many_gaps_are_counted() -> None:
    many = [RecordingGap(NOON + 100 * number, NOON + 100 * number + 50) for number in range(30)]
    assert len(gap_notes(many)) == 11
    assert gap_notes(many)[0].startswith("20 older gaps")
    [marked] = marked_attempts([UNKNOWN], many)
    assert marked.notes[0].endswith("more gaps")


def test_gaps_are_in_the_report_and_its_json() -> None:
    built = report.build([], [ClusterFacts(gaps=[GAP])])
    assert SAID in built.notes
    document = json.loads(report_formats.to_json(built))
    assert document["gaps"] == [
        {"start": "2026-07-01T12:00:00Z", "end": "2026-07-01T13:00:00Z", "complete": False}
    ]

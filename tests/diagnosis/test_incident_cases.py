"""Incidents that were written from public sources, with an expert's answer, before anyone looked at the code.

`cases/known_wrong.txt` lists the cases that `diagnose` does not answer as the expert does. A case that becomes right
has to be taken off the list, so the list can only shrink.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.incident_cases import CASES, judge, load, report_of

KNOWN_WRONG = set((CASES / "known_wrong.txt").read_text().split())
PATHS = sorted(CASES.glob("*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_incident(path: Path, tmp_path: Path) -> None:
    case = load(path)
    try:
        judgement = judge(case, report_of(case, tmp_path))
        word, lines = judgement.word, [*judgement.wrong, *judgement.unsure]
    except RuntimeError as error:
        word, lines = "wrong", [str(error)]
    if path.stem in KNOWN_WRONG:
        assert word != "right", (
            f"{path.stem} is right now: remove it from {CASES.name}/known_wrong.txt"
        )
    else:
        assert word == "right", "\n".join(
            [case["title"], *lines, f"why: {case['expect'].get('why', '')}"]
        )


def test_known_wrong_cases_exist() -> None:
    assert {path.stem for path in PATHS} >= KNOWN_WRONG

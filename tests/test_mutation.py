"""The mutants of scripts/mutate fit the code: a list that rots would show nothing."""

from __future__ import annotations

import ast

from scripts.mutants import all_mutants
from tests.support import ROOT


def test_every_mutant_can_be_made_and_is_valid_code() -> None:
    mutants = all_mutants()
    assert len(mutants) > 400
    for mutant in mutants:
        assert mutant.text != (ROOT / mutant.path).read_text(encoding="utf-8"), mutant.shown
        if mutant.path.endswith(".py"):
            ast.parse(mutant.text)


def test_every_mutant_has_tests_that_exist() -> None:
    assert [
        mutant.shown for mutant in all_mutants() if not all((ROOT / test).exists() for test in mutant.tests)
    ] == []

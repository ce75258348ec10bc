"""The lists of modules in docs/architecture.md are those that really run, and they do not grow."""

from __future__ import annotations

import pytest

from scripts.walk import PAGE, page_with_walks, walk

# Language -> modules and functions. These figures only go down; the goal is 28 modules for YAML, and 35 modules and
# 260 functions for Python.
LIMITS = {"YAML": (31, 247), "Python": (42, 336)}


def test_the_architecture_page_lists_the_modules_that_patch_goes_through() -> None:
    page = PAGE.read_text()
    assert page == page_with_walks(page), "run `.venv/bin/python -m scripts.walk --write`"
    assert "`edit.yaml.proof`" in page
    assert "`edit.code.code_text`" in page  # has the proof of code


@pytest.mark.parametrize("language", LIMITS)
def test_a_file_takes_no_more_modules_and_functions_than_before(language: str) -> None:
    modules, functions = LIMITS[language]
    steps = walk(language)
    assert len(steps.modules) <= modules
    assert len(steps.functions) <= functions
    assert "arc_toolkit.cli.main.main" in steps.functions
    assert not any(name.rpartition(".")[2] == "<lambda>" for name in steps.functions)

"""The lists of modules in docs/architecture.md are those that really run."""

from __future__ import annotations

from scripts.walk import PAGE, page_with_blocks


def test_the_architecture_page_lists_the_modules_that_patch_goes_through() -> None:
    page = PAGE.read_text()
    assert page == page_with_blocks(page), "run `.venv/bin/python -m scripts.walk --write`"
    assert "`edit.yaml.proof`" in page
    assert "`edit.code.proof`" in page

"""What the README shows is what the commands print."""

from __future__ import annotations

import re

import pytest

from scripts.readme import BLOCK, PAGES, refreshed
from tests.support import ROOT


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_print_what_the_page_shows(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert BLOCK.search(text)
    assert refreshed(text) == text


def test_every_link_of_the_readme_and_the_docs_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://", "mailto:")):
                assert (page.parent / target).exists(), (page.name, target)


def test_every_page_of_the_map_exists_and_every_page_is_on_the_map() -> None:
    import yaml

    def pages(entry: object) -> list[str]:
        if isinstance(entry, dict):
            return [page for value in entry.values() for page in pages(value)]
        if isinstance(entry, list):
            return [page for value in entry for page in pages(value)]
        return [str(entry)]

    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = set(pages(nav))
    present = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").glob("*.md")}
    assert listed == present

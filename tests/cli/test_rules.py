"""The rules of all commands: their names, their pages, and what `rules` says about them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from arc_toolkit.cli.rules import every_rule
from arc_toolkit.output.rule_pages import page
from tests.support import ROOT, Result


def test_every_rule_has_a_legal_name_and_its_own_page() -> None:
    rules = every_rule()
    for name, rule in rules.items():
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", name)
        assert rule.before != rule.after
        assert (ROOT / "docs" / "rules" / f"{name}.md").read_text() == page(rule), (
            f"arc-toolkit rules {name} > docs/rules/{name}.md"
        )
    pages = {path.stem for path in (ROOT / "docs" / "rules").glob("*.md")}
    assert pages == {*rules}


def test_the_rules_of_all_commands_are_listed(arc: Callable[..., Result]) -> None:
    rules = json.loads(arc("rules", "--format", "json").out)["rules"]
    assert {rule["command"] for rule in rules} == {"check", "validate", "check, validate"}
    assert [rule["id"] for rule in rules] == sorted(every_rule())
    assert re.search(r"^instance-type-gpu +error +none +validate ", arc("rules").out, re.MULTILINE)


def test_sarif_links_to_the_pages_where_they_are_published(
    arc: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.yml"
    file.write_text(
        "command: python t.py\nenvironment: azureml:lightgbm@latest\ncompute: azureml:aks\n"
    )

    def uris() -> list[str | None]:
        [run] = json.loads(arc("check", str(file), "--format", "sarif").out)["runs"]
        return [rule.get("helpUri") for rule in run["tool"]["driver"]["rules"]]

    assert set(uris()) == {None}
    monkeypatch.setenv("ARC_TOOLKIT_DOCS_URL", "https://example.org/docs/")
    assert "https://example.org/docs/rules/lightgbm-threads.md" in uris()
    monkeypatch.setenv("ARC_TOOLKIT_DOCS_URL", "docs")
    refused = arc("check", str(file), "--format", "sarif")
    assert (refused.code, "ARC_TOOLKIT_DOCS_URL is 'docs'" in refused.err) == (2, True)

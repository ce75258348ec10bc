"""The rules of all commands: their names, their pages, and what `rules` says about them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.cli.rules import every_rule
from arc_toolkit.output.rule_pages import read_page
from arc_toolkit.placement.rules import manifest_rules
from arc_toolkit.sizing.validation import RULES as VALIDATION_RULES
from tests.support import ROOT, Result

PAGES = {path.stem: path.read_text() for path in (ROOT / "docs" / "rules").glob("*.md")}
FIXES = {
    "safe": "Fixed by `patch`.",
    "unsafe": "Fixed by `patch --unsafe-fixes`.",
    "none": "No automatic fix.",
}


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    assert {*PAGES} == {*every_rule()}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_agrees_with_the_code_of_its_rule(name: str) -> None:
    rule, page = every_rule()[name], read_page(name)
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", name)
    assert page.text == PAGES[name]
    lines = page.text.splitlines()
    commands = " and ".join(f"`{command}`" for command in rule.command.split(", "))
    assert lines[0] == f"# {name}"
    assert lines[2] == f"{page.summary}."
    assert lines[4] == f"Severity: {rule.severity}. Reported by {commands}. {FIXES[rule.fix]}"
    assert lines[-1] == f"To ignore it in one place: `# arc-toolkit: ignore[{name}] reason`."
    assert page.before != page.after
    assert page.summary[0] in "`" + page.summary[0].upper()


def test_the_ids_of_rules_are_unique_in_all_packages() -> None:
    about_ignores = {"ignore-of-unknown-rule", "ignore-without-reason"}
    rules = [*all_rules(), *manifest_rules(), *(VALIDATION_RULES.keys() - about_ignores)]
    assert len(rules) == len({*rules}) == len(every_rule())


def test_a_page_of_another_shape_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arc_toolkit.output.rule_pages.shipped", lambda folder: tmp_path)
    (tmp_path / "duplicate-key.md").write_text(PAGES["duplicate-key"].replace("Before:", "Wrong:"))
    with pytest.raises(ValueError, match="shape of a rule page"):
        read_page("duplicate-key")


def test_rules_prints_the_page_itself(arc: Callable[..., Result]) -> None:
    assert arc("rules", "duplicate-key").out == PAGES["duplicate-key"]
    shown = arc("rules", "--format", "markdown").out
    assert shown == "\n".join(PAGES[name] for name in sorted(PAGES))


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

    def described() -> list[dict[str, Any]]:
        [run] = json.loads(arc("check", str(file), "--format", "sarif").out)["runs"]
        rules: list[dict[str, Any]] = run["tool"]["driver"]["rules"]
        return rules

    def uris() -> list[str | None]:
        return [rule.get("helpUri") for rule in described()]

    assert set(uris()) == {None}
    assert [rule["help"]["markdown"] for rule in described()] == [
        PAGES[rule["id"]] for rule in described()
    ]
    monkeypatch.setenv("ARC_TOOLKIT_DOCS_URL", "https://example.org/docs/")
    assert "https://example.org/docs/rules/lightgbm-threads.md" in uris()
    monkeypatch.setenv("ARC_TOOLKIT_DOCS_URL", "docs")
    refused = arc("check", str(file), "--format", "sarif")
    assert (refused.code, "ARC_TOOLKIT_DOCS_URL is 'docs'" in refused.err) == (2, True)

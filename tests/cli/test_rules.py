"""The rules of all commands: their names, their pages, and what `rules` says about them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from arc_toolkit.cli.rules import every_rule
from arc_toolkit.output.rule_pages import page, page_url
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


def test_pages_have_the_address_of_the_project() -> None:
    [project] = re.findall(r"repo: (\S+)", (ROOT / "docs" / "github-action.md").read_text())
    assert page_url("rules/x.md") == f"{project}/blob/main/docs/rules/x.md"

"""The rules, one file each: a module here with a `RULE` is a rule, and no list needs an edit.

A rule looks at a `Work` and reports through `Work.found`; a rule whose subject is Python code has no `check`
here: `azureml.python` finds it and uses its id.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Literal

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.settings import Severity
from arc_toolkit.azureml.work import Work

Check = Callable[[Work, Document], None]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a rule is, for `rules`, the documentation and SARIF; and how it looks at a document."""

    id: str
    severity: Severity
    # none: `patch` cannot mend it; unsafe: only with --unsafe-fixes, since a job may behave otherwise afterwards.
    fix: Literal["safe", "unsafe", "none"]
    summary: str
    # Why it matters, in Markdown, with its source.
    why: str
    before: str
    after: str
    language: Literal["yaml", "python", "yaml, python"] = "yaml"
    check: Check | None = None
    # The rule runs only on files whose text has one of these; empty means on every file.
    needs: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"docs/rules/{self.id}.md"


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule of this package by its id, in order of name."""
    found = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda entry: entry.name):
        rule = getattr(import_module(f"{__name__}.{module.name}"), "RULE", None)
        if isinstance(rule, Rule):
            found[rule.id] = rule
    return found

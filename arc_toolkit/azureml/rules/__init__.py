"""The rules, one file each: a module here with a `RULE` is a rule, and no list needs an edit.

A rule's `check` gets a `Work` and a `Document`, and reports through `Work.report`. A rule whose subject is Python code
has no `check` here: `azureml.python` finds it and uses its id.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from arc_toolkit.findings import Rule


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule of this package by its id, in order of name."""
    found = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda entry: entry.name):
        rule = getattr(import_module(f"{__name__}.{module.name}"), "RULE", None)
        if isinstance(rule, Rule):
            found[rule.id] = rule
    return found

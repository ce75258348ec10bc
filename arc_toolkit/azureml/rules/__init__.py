"""The rules, one file each: a module here with a `RULE` is a rule, and no list needs an edit.

A rule's `check` gets the `Plan` of a file, looks at its targets, and reports through `Plan.report`. `language` says
which files it is run on; a target is the same thing in YAML and in code, so most rules need not know.
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

"""Sweeps of SDK v1.5 in Python source: reported, with the v2 code for each of their settings.

    step = sweep_func(lr=uniform(0.1, 1.0))             lr=Uniform(min_value=0.1, max_value=1.0)
    step.runsettings.sweep.algorithm = mode        ->   sampling_algorithm=mode
    step.runsettings.sweep.limits.configure(...)        max_total_trials=..., timeout=...

They are not rewritten: `.sweep(...)` of azure-ai-ml belongs to a v2 command node, and that of
azure-ml-component 0.9.18 has other arguments and returns nothing, so a pipeline of SDK v1.5 with
the v2 call would fail. `--as python` writes the v2 pipeline function for the sweep's spec.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.edit.code.names import Scope, Statement, Use, last_name, unparsed
from arc_toolkit.edit.code.values import call_arguments
from arc_toolkit.migrate.ledger import NO_PLACE, Ledger, argument_rows
from arc_toolkit.migrate.legacy_spec import SWEEP_RULE
from arc_toolkit.migrate.search_space import DISTRIBUTIONS, POLICIES, call_text

_SOURCE = "runsettings"
_REASON = (
    "`.sweep(...)` belongs to a v2 command node: `patch --sweep-to-v2 --as python` writes a "
    "pipeline function for azure-ai-ml from the sweep's spec; put the values of this code into it"
)


def report_sweeps(plan: PythonPlan) -> None:
    """A finding for each step with sweep settings."""
    for scope in plan.module.scopes:
        for name, uses in scope.uses.items():
            settings = [use for use in uses if use.how != "argument" and use.path[0] == _SOURCE]
            sweeps = [use.statement for use in settings if use.path[1:2] == ("sweep",)]
            if sweeps and not plan.covers(SWEEP_RULE, at := plan.at(sweeps[0])):
                message = f"runsettings.sweep of {name} is not rewritten"
                ledger = _ledger(scope, name, settings)
                ledger.report(plan, SWEEP_RULE, message, at, _REASON, done=False)


def _ledger(scope: Scope, name: str, settings: list[Use]) -> Ledger:
    """The v2 code for the distributions in the calls that make the step, and for its settings."""
    ledger = Ledger()
    for binding in scope.bindings.get(name, ()):
        call = binding.value
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if text := _distribution(keyword.value, binding.statement):
                becomes = f"{keyword.arg}={text}"
                ledger.add(name, str(keyword.arg), "by hand", becomes)
    rows = argument_rows()[_SOURCE]
    for use in settings:
        for key, value in _values(use):
            row = rows.get(key)
            text = _policy(value, use.statement) or unparsed(value)
            if row is None:
                ledger.add(_SOURCE, key, "lost", reason=f"{text}: {NO_PLACE}")
            elif row.outcome == "mapped":
                glue = "" if row.becomes.endswith("=") else " = "
                becomes = f"{row.becomes}{glue}{text}"
                ledger.add(_SOURCE, key, "by hand", becomes, row.reason)
            elif row.outcome != "refused":
                ledger.add(_SOURCE, key, row.outcome, row.becomes, row.reason)
    return ledger


def _values(use: Use) -> Iterator[tuple[str, ast.expr]]:
    """`limits.configure(a=1)` is `limits.a`; `limits.a = 1` too."""
    path = use.path[1:]
    if path[-1:] == ("configure",) and isinstance(use.value, ast.Call):
        for keyword in use.value.keywords:
            yield ".".join((*path[:-1], keyword.arg or "**")), keyword.value
    else:
        yield ".".join(path), use.value


def _distribution(node: ast.expr, statement: Statement) -> str:
    """`uniform(0, 1)` as `Uniform(min_value=0, max_value=1)`; empty for any other call."""
    row = DISTRIBUTIONS.get(last_name(node.func)) if isinstance(node, ast.Call) else None
    if row is None or not isinstance(node, ast.Call):
        return ""
    if row.keys == ("values",):
        items = ", ".join(map(unparsed, node.args))
        is_list = len(node.args) == 1 and isinstance(node.args[0], ast.List | ast.Tuple)
        return call_text(row.v2_class, {"values": items if is_list else f"[{items}]"})
    return _call(row.v2_class, node, row.keys, statement)


def _policy(node: ast.expr, statement: Statement) -> str:
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    policy = next((item for item in POLICIES.values() if item.v2_class == name), None)
    if policy is None or not isinstance(node, ast.Call):
        return ""
    return _call(name, node, policy.v1_order, statement)


def _call(name: str, call: ast.Call, order: tuple[str, ...], statement: Statement) -> str:
    """The call with all its arguments by name: those of v2 are keywords only."""
    arguments = call_arguments(call, order, statement)
    texts = {key: unparsed(node) for key, (node, _) in arguments.values.items()}
    text = call_text(name, texts)
    return f"{text[:-1]}{', ' if texts else ''}{arguments.rest})" if arguments.rest else text

"""Calls of `azureml.train.hyperdrive` in Python source, read as data: distributions, policies, samplings.

Only literals are read. Everything else is a `Refused` that says what is not one. Signatures are those of
azureml-train-core 1.6x.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from arc_toolkit.azureml.migrate import space
from arc_toolkit.azureml.migrate.legacy_spec import LegacySpec
from arc_toolkit.edit.edits import Refused

MODULE = "azureml.train.hyperdrive"

# Class -> its v1.5 policy_type and its parameters in their order.
POLICIES = {
    "BanditPolicy": ("bandit", ("evaluation_interval", "slack_factor", "slack_amount", "delay_evaluation")),
    "MedianStoppingPolicy": ("median_stopping", ("evaluation_interval", "delay_evaluation")),
    "TruncationSelectionPolicy": (
        "truncation_selection",
        ("truncation_percentage", "evaluation_interval", "delay_evaluation"),
    ),
    "NoTerminationPolicy": ("default", ()),
}
SAMPLINGS = {
    "RandomParameterSampling": "random",
    "GridParameterSampling": "grid",
    "BayesianParameterSampling": "bayesian",
}


class Names:
    """What the names of a module mean: hyperdrive's own, however they were imported."""

    def __init__(self, tree: ast.Module) -> None:
        self.imports: list[ast.stmt] = []
        self._local: dict[str, str] = {}
        self._modules: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(MODULE):
                self.imports.append(node)
                self._local |= {alias.asname or alias.name: alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module == "azureml.train":
                modules = {alias.asname or alias.name for alias in node.names if alias.name == "hyperdrive"}
                self._modules |= modules
                self.imports += [node] if modules else []
            elif isinstance(node, ast.Import):
                modules = {alias.asname or alias.name for alias in node.names if alias.name.startswith(MODULE)}
                self._modules |= modules
                self.imports += [node] if modules else []

    def of(self, node: ast.expr) -> str | None:
        """`choice` for `choice`, `hd.choice` and `azureml.train.hyperdrive.choice`."""
        if isinstance(node, ast.Name):
            return self._local.get(node.id)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in self._modules:
            return node.attr
        return None

    def called(self, node: ast.expr) -> str | None:
        return self.of(node.func) if isinstance(node, ast.Call) else None

    def uses(self, tree: ast.Module) -> Iterator[ast.Name]:
        """Every use of an imported name."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in self._local:
                yield node


def value(node: ast.expr, what: str) -> Any:
    """A literal, `range(...)` among them."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "range"
        and not node.keywords
    ):
        bounds = [value(one, what) for one in node.args]
        if all(isinstance(one, int) for one in bounds):
            return list(range(*bounds))
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise Refused(f"{what} is no literal: {_short(node)}", line=node.lineno) from None


def arguments(call: ast.Call, order: tuple[str, ...], what: str) -> dict[str, Any]:
    """The literal arguments of a call by name; those that are None are as if not given."""
    out = {}
    if len(call.args) > len(order):
        raise Refused(f"{what} has more arguments than it takes", line=call.lineno)
    for name, node in zip(order, call.args, strict=False):
        out[name] = value(node, f"{name} of {what}")
    for keyword in call.keywords:
        if keyword.arg is None:
            raise Refused(f"{what} takes **arguments that cannot be read", line=call.lineno)
        if keyword.arg not in order:
            raise Refused(f"{what} has no argument {keyword.arg}", line=call.lineno)
        out[keyword.arg] = value(keyword.value, f"{keyword.arg} of {what}")
    return {name: given for name, given in out.items() if given is not None}


def distribution(call: ast.Call, kind: str, name: str) -> dict[str, Any]:
    """`choice(1, 2)` or `uniform(0, 1)` as the mapping of a v2 search space."""
    known = space.DISTRIBUTIONS[kind]
    drawn: dict[str, Any]
    if kind == "choice":
        if call.keywords:
            raise Refused(f"{name}: choice takes no keyword arguments", line=call.lineno)
        values = [value(one, f"a value of {name}") for one in call.args]
        if len(values) == 1 and isinstance(values[0], list | tuple):
            values = list(values[0])
        drawn = {"values": [list(one) if isinstance(one, tuple) else one for one in values]}
    else:
        drawn = arguments(call, known.keys, f"{kind} of {name}")
    try:
        return space.distribution(LegacySpec("", {}), {"type": kind, **drawn}, name)
    except Refused as refused:
        raise Refused(refused.reason, line=call.lineno) from None


def policy(call: ast.Call, name: str) -> dict[str, Any]:
    """`BanditPolicy(...)` as the early_termination of a v1.5 spec."""
    kind, order = POLICIES[name]
    return {"policy_type": kind, **arguments(call, order, name)}


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."
